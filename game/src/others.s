; The opponents: karts that follow the gates, or ghosts whose places are written from outside; and the rank.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "math.inc"
.include "params.inc"
.export place_others, drive_others, show_others
.import where, turn_camera, dot, project, arrange

USUAL_SPEED = 170               ; 4/256 pixel a tick
FASTER      = 48                ; how fast an opponent's step changes
SLOWER      = 64
MOST_BEND   = 96

.segment "CODE"
.a16
.i16

; The command `opponents` has changed, or a race begins: put them on the road ahead of the kart.
.proc place_others
        lda opponents
        and #$00FF
        sta others
        jsr hide_others
        lda #HORIZON_LINE
        sta VTIMEL
        sep #$20
        .a8
        lda #$81
        ldx others
        beq :+
        lda #$A1                ; an interrupt at that line
:       sta NMITIMEN
        rep #$20
        .a16
        lda others
        beq done
        bit #$0080
        bne done                ; ghosts are placed from outside
        ldx #2 * 8
:       stz opp_step,x
        lda cp
        clc
        adc grid_sections,x
        cmp nsect
        bcc :+
        sbc nsect
:       sta opp_sect,x
        lda driven
        clc
        adc grid_sections,x
        sta opp_done,x
        lda grid_parts,x
        sta opp_part,x
        txa
        sec
        sbc #8
        tax
        bpl :--
        ; the share of a section that each drives in a tick
        lda oppspeed
        and #$00FF
        bne :+
        lda #USUAL_SPEED
:       sta t0
        ldx #0
:       lda t0
        asl a
        asl a
        asl a
        asl a
        asl a
        asl a
        sta WRDIVL
        sep #$20
        .a8
        lda sectpx
        sta WRDIVB
        rep #$20
        .a16
        lda t0                  ; the next one is a sixteenth slower; sixteen cycles until the quotient is there
        lsr a
        lsr a
        lsr a
        lsr a
        eor #$FFFF
        sec
        adc t0
        sta t0
        lda RDDIVL
        asl a
        asl a
        asl a
        asl a
        sta opp_base,x
        jsr bend
        txa
        clc
        adc #8
        tax
        cpx #3 * 8
        bne :-
done:   rts
.endproc

; How fast the opponent X drives in its section: slower where the next gate turns.
.proc bend
        ldy opp_sect,x
        phx
        tyx
        lda f:BLOCK_GATE_ANGLE,x
        xba
        and #$FF00
        sta t1
        inx
        cpx nsect
        bcc :+
        ldx #0
:       lda f:BLOCK_GATE_ANGLE,x
        plx
        xba
        and #$FF00
        sec
        sbc t1
        absolute
        xba
        and #$00FF
        cmp #MOST_BEND
        bcc :+
        lda #MOST_BEND
:       sep #$20
        .a8
        sta WRMPYA
        rep #$20
        .a16
        lda opp_base,x
        lsr a
        lsr a
        lsr a
        lsr a
        lsr a
        sep #$20
        .a8
        sta WRMPYB
        rep #$20
        .a16
        nop
        nop
        lda RDMPYL
        lsr a
        lsr a
        lsr a
        eor #$FFFF
        sec
        adc opp_base,x
        sta opp_goal,x
        rts
.endproc

; others_end = behind the last of the opponents' places; to `none` where there are none
.macro count_others none
        lda others
        and #$0003
        beq none
        asl a
        asl a
        asl a
        sta others_end
.endmacro

; A tick.
.proc drive_others
        lda others
        bit #$0080
        bne done
        count_others done
        ldx #0
each:   lda opp_step,x
        cmp opp_goal,x
        bcs :+
        adc #FASTER
        bra :++
:       sbc #SLOWER
:       sta opp_step,x
        clc
        adc opp_part,x
        sta opp_part,x
        bcc next
        inc opp_done,x
        lda opp_sect,x
        inc a
        cmp nsect
        bcc :+
        lda #0
:       sta opp_sect,x
        jsr bend
next:   txa
        clc
        adc #8
        tax
        cpx others_end
        bcc each
done:   rts
.endproc

; A picture: where they are, who is ahead, and their sprites.
.proc show_others
        count_others done
        stz ahead_of              ; how many are ahead
        jsr turn_camera
        ldx #0
each:   lda others
        bit #$0080
        bne :+
        jsr where
:       jsr dot
        jsr project
        jsr ahead
        txa
        clc
        adc #8
        tax
        cpx others_end
        bcc each
        ldx finished
        bne :+
        sep #$20
        .a8
        lda ahead_of
        asl a
        sta w_rank
        rep #$20
        .a16
:       jmp arrange
done:   rts
.endproc

; Count the opponent X if it is ahead: by sections, or before the kart in the same one.
.proc ahead
        lda opp_done,x
        sec
        sbc driven
        beq same
        bmi done
more:   inc ahead_of
done:   rts
same:   txy
        ldx cp
        lda f:BLOCK_GATE_ANGLE,x
        tyx
        sec
        sbc camera
        clc
        adc #64
        and #$0080              ; set: the kart looks back
        beq :+
        lda forward
        bmi more
        rts
:       lda #0
        cmp forward
        bmi more
        rts
.endproc

.proc hide_others
        lda #HIDDEN << 8
        ldx #8
:       sta oamnear,x
        sta oamfar,x
        sta oamfar + 12,x
        dex
        dex
        dex
        dex
        bpl :-
        lda #NOWHERE
        sta opp_depth
        sta opp_depth + 8
        sta opp_depth + 16
        sep #$20
        .a8
        stz w_rank
        rep #$20
        .a16
        rts
.endproc

.segment "RODATA"
; of each opponent, 8 bytes apart: where it starts, sections and share of a section from the kart's
grid_sections:
        .word 0
grid_parts:
        .word $CC00, 0, 0
        .word 1, $2600, 0, 0
        .word 1, $8000
