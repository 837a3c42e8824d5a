; The opponents: karts that follow the gates, or ghosts whose places are written from outside; and the rank.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "params.inc"
.export place_others, drive_others, think, show_others
.import start_there, decide, take_coins, take_seen, turn_camera, dot, project, arrange

USUAL_SPEED = 170               ; 4/256 pixel a tick

.segment "CODE"
.a16
.i16

; others_end = behind the last of the opponents' places; to `none` where there are none
.macro count_others none
        lda others
        and #MOST_OTHERS
        beq none
        asl a
        asl a
        asl a
        sta others_end
.endmacro

; The command `opponents` has changed, or a race begins: put them on the road ahead of the kart.
.proc place_others
        lda opponents
        and #$00FF
        sta others
        stz touched
        stz coin_seen
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
        bit #$0080
        beq :+
        rts                     ; ghosts are placed from outside
:       count_others none
        lda #8 * 256            ; what a coin brings the kart: 8/256 pixel a tick
        jsr divided
        sta coin_step
        lda oppspeed
        and #$00FF
        bne :+
        lda #USUAL_SPEED
:       sta along               ; top speed of the next one
        ldx #0
each:   stx which
        stz opp_step,x
        stz opp_vx,x
        stz opp_vy,x
        stz opp_coins,x
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
        lda along               ; the share of a section that it drives in a tick
        asl a
        asl a
        asl a
        asl a
        asl a
        asl a
        jsr divided
        asl a
        asl a
        asl a
        asl a
        sta opp_base,x
        lda along               ; the next one is slower by 1/32
        lsr a
        lsr a
        lsr a
        lsr a
        lsr a
        eor #$FFFF
        sec
        adc along
        sta along
        jsr start_there
        lda which
        clc
        adc #8
        tax
        cpx others_end
        bcs none
        jmp each
none:   rts
; A by the length of a section, pixels
divided:
        sta WRDIVL
        sep #$20
        .a8
        lda sectpx
        sta WRDIVB
        rep #$20
        .a16
        jsr wait                ; sixteen cycles
        lda RDDIVL
wait:   rts
.endproc

; A tick: all move on, and one of them takes the coin that it is on.
.proc drive_others
        lda others
        bit #$0080
        bne done
        count_others done
        ldx #0
each:   lda opp_px,x
        clc
        adc opp_vx,x
        sta opp_px,x
        lda opp_py,x
        clc
        adc opp_vy,x
        sta opp_py,x
        lda opp_part,x
        clc
        adc opp_step,x
        sta opp_part,x
        bcs over
next:   txa
        adc #8                  ; no carry
        tax
        cpx others_end
        bcc each
        jsr whose_turn
        bcs :+
        lda opp_turned,x        ; it has decided since the tick before
        sta opp_angle,x
        lda coin_seen           ; nor does it take its coin before
        beq :+
        stz coin_seen
        phx
        ldy coin_x
        lda coin_y
        jsr take_seen
        plx
:       txa
        eor #4 * 8
        tax
        cpx others_end
        bcs done
        jmp take_coins
done:   rts
over:   inc opp_done,x
        lda opp_sect,x
        inc a
        cmp nsect
        bcc :+
        lda #0
:       sta opp_sect,x
        clc
        bra next
.endproc

; X = the opponent that decides at this tick; carry: there is none. Each comes after eight ticks, and few in a row.
.proc whose_turn
        lda tickno
        asl a
        clc
        adc tickno
        and #$0007
        asl a
        asl a
        asl a
        tax
        cpx others_end
        rts
.endproc

; Between two ticks: one of the opponents decides. It changes nothing that is seen, so that this has time after the picture.
.proc think
        stz undecided
        lda others
        bit #$0080
        bne done
        count_others done
        jsr whose_turn
        bcs done
        jmp decide
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
        jsr publish_place
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
publish_place:
        lda opp_px,x
        lsr a
        lsr a
        lsr a
        lsr a
        lsr a
        lsr a
        sta opp_x,x
        lda opp_py,x
        lsr a
        lsr a
        lsr a
        lsr a
        lsr a
        lsr a
        sta opp_y,x
        rts
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
        ldx #(2 * MOST_OTHERS - 1) * 4
:       sta oamfar,x
        dex
        dex
        dex
        dex
        bpl :-
        sta oamnear
        sta oamnear + 4
        sta oamnear + 8
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
        .word 1, $8000, 0, 0
        .word 1, $DA00, 0, 0
        .word 2, $3400, 0, 0
        .word 2, $8E00, 0, 0
        .word 2, $E800
