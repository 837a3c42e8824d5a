; The opponents: karts that follow the gates, or ghosts whose places are written from outside; their sprites and the rank.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "params.inc"
.include "copy.inc"
.export place_others, drive_others, show_others, horizon
.import dark_list, dark_twice
.import sine_table, beside, half_square, line_of, width_of, size_of, views

USUAL_SPEED = 170               ; 4/256 pixel a tick
FASTER      = 48                ; how fast an opponent's step changes
SLOWER      = 64
MOST_BEND   = 96
OWN_DEPTH   = 60                ; of the kart, pixels from the foot of the camera
NEAREST     = 52
FARTHEST    = 800
NOWHERE     = $FFFF             ; depth of who is not in view
HIDDEN      = 224

.segment "CODE"
.a16
.i16

; The command `opponents` has changed, or a race begins: put them on the road ahead of the kart.
.proc place_others
        lda opponents
        and #$00FF
        sta others
        jsr hide_others
        lda #.loword(dark_list)
        ldx others
        beq :+
        lda #.loword(dark_twice)
:       sta A1TL + $60
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
        bpl :+
        eor #$FFFF
        inc a
:       xba
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

; Where the scripted opponent X is: on a curve through the middles between the gates, drawn by the gates, and beside it.
.macro weighed gate, weight
        ldx gate
        lda f:gates,x
        sec
        sbc t4
        sta t6
        bcs :+
        eor #$FFFF
        inc a
:       sep #$20
        .a8
        sta WRMPYA
        lda weight
        sta WRMPYB
        rep #$21                ; the product is there after eight cycles
        .a16
        nop
        lda RDMPYL
        adc #$0080
        xba
        and #$00FF
        bit t6
        bpl :+
        eor #$FFFF
        inc a
:
.endmacro
.macro curve list, place
        .define gates list
        ldx t0
        lda f:gates,x
        sta t4
        weighed t1, t8
        clc
        adc t4
        sta t5
        weighed t2, t9
        clc
        adc t5
        ldx which
        sta place,x
        .undefine gates
.endmacro
.proc where
        stx which
        lda opp_sect,x
        asl a
        sta t0                  ; its gate
        dec a
        dec a
        bpl :+
        lda nsect
        dec a
        asl a
:       sta t1                  ; the one behind
        lda t0
        lsr a
        inc a
        cmp nsect
        bcc :+
        lda #0
:       asl a
        sta t2                  ; the one ahead
        lda opp_part,x
        xba
        and #$00FF
        sta t3
        tax
        lda half_square,x
        sta t9                  ; weight of the gate ahead
        txa
        eor #$00FF
        tax
        lda half_square,x
        sta t8                  ; of the gate behind
        curve BLOCK_GATE_X, opp_x
        curve BLOCK_GATE_Y, opp_y
        ; the angle, between those of the gates behind and ahead
        lda t0
        lsr a
        tax
        lda f:BLOCK_GATE_ANGLE,x
        sta t4
        lda t1
        lsr a
        tax
        lda f:BLOCK_GATE_ANGLE,x
        sta t5
        lda t2
        lsr a
        tax
        sep #$20
        .a8
        lda f:BLOCK_GATE_ANGLE,x
        sec
        sbc t5                  ; the turn over two sections
        sta t6
        bpl :+
        eor #$FF
        inc a
:       sta WRMPYA
        lda t3
        eor #$80                ; how far from the middle, -128 to 127
        bpl :+
        eor #$FF
        inc a
:       sta WRMPYB
        lda t3
        eor #$80
        eor t6
        sta t6                  ; the sign of the product
        rep #$20
        .a16
        lda t4
        and #$00FF
        xba
        sta t4
        lda RDMPYL
        lsr a
        ldx which
        bit t6 - 1              ; bit 15 is bit 7 of t6
        bpl :+
        eor #$FFFF
        inc a
:       clc
        adc t4
        sta opp_angle,x
        ; beside the curve: right is (cos, sin)
        xba
        and #$00FF
        sta t4
        txa
        asl a
        asl a
        asl a
        asl a
        asl a                   ; a table for each
        sta t5
        ora t4
        tax
        lda beside,x
        and #$00FF
        eor #$0080
        sec
        sbc #$0080
        ldx which
        clc
        adc opp_y,x
        sta opp_y,x
        lda t4
        adc #64
        and #$00FF
        ora t5
        tax
        lda beside,x
        and #$00FF
        eor #$0080
        sec
        sbc #$0080
        ldx which
        clc
        adc opp_x,x
        sta opp_x,x
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

; The opponent X on the small map.
.proc dot
        txa
        lsr a
        tay
        lda opp_x,x
        lsr a
        lsr a
        sep #$20
        .a8
        sta WRMPYA
        lda #112
        sta WRMPYB
        lda #DOT_X
        clc
        nop
        nop
        adc RDMPYL + 1
        sta oamfar + 12,y
        rep #$20
        .a16
        lda opp_y,x
        lsr a
        lsr a
        sep #$20
        .a8
        sta WRMPYA
        lda #112
        sta WRMPYB
        lda #DOT_Y
        clc
        nop
        nop
        adc RDMPYL + 1
        sta oamfar + 13,y
        rep #$20
        .a16
        rts
.endproc

; What the camera's angle means for every opponent.
.proc turn_camera
        lda camera
        and #$00FF
        tax
        clc
        adc #64
        and #$00FF
        tay
        sep #$20
        .a8
        lda sine_table,x
        sta cam_sin
        lda sine_table,y
        sta cam_cos
        rep #$20
        .a16
        txa
        xba
        sta cam_sin_sign        ; in bit 15
        tya
        xba
        sta cam_cos_sign
        rts
.endproc

; The product that is being made, rounded, with the sign of bit 15 of both places
.macro product this, that
        lda this
        eor that
        tay
        lda RDMPYL
        clc
        adc #$0080
        xba
        and #$00FF
        cpy #$8000
        bcc :+
        eor #$FFFF
        inc a
:
.endmacro
.macro times value
        sep #$20
        .a8
        lda value
        sta WRMPYB
        rep #$20
        .a16
.endmacro

; The opponent X as the camera sees it: depth, place on the screen, look.
.proc project
        stz t3                  ; 2 where everything is taken at a quarter, because it is far
        lda opp_x,x
        sec
        sbc xpos
        sta t0
        bcs :+
        eor #$FFFF
        inc a
:       sta t8
        lda opp_y,x
        sec
        sbc ypos
        sta t1
        bcs :+
        eor #$FFFF
        inc a
:       sta t9
        ora t8
        and #$FF00
        beq :+
        lsr t8
        lsr t8
        lsr t9
        lsr t9
        inc t3
:       sep #$20
        .a8
        lda t8
        sta WRMPYA
        rep #$20
        .a16
        times cam_sin
        product t0, cam_sin_sign
        sta t5
        times cam_cos
        product t0, cam_cos_sign
        sta t6
        sep #$20
        .a8
        lda t9
        sta WRMPYA
        rep #$20
        .a16
        times cam_sin
        product t1, cam_sin_sign
        clc
        adc t6
        sta t6                  ; to the right
        times cam_cos
        product t1, cam_cos_sign
        eor #$FFFF
        sec
        adc t5                  ; ahead: sin * east - cos * south
        ldy t3
        beq :+
        asl a
        asl a
        asl t6
        asl t6
:       sta forward
        clc
        adc #OWN_DEPTH
        cmp #NEAREST
        bcc unseen
        cmp #FARTHEST
        bcs unseen
        sta opp_depth,x
        sta t3
        tay
        lsr a
        lsr a
        adc t3
        sta t3                  ; who is farther to the side is out of view
        lda t6
        bpl :+
        eor #$FFFF
        inc a
:       sta t5
        lda t3
        cmp t5
        bcs seen
unseen: lda #NOWHERE
        sta opp_depth,x
        rts
seen:   sep #$20
        .a8
        lda width_of,y          ; of a pixel at this depth; the unit depends on the depth
        sta WRMPYA
        lda t5
        sta WRMPYB
        rep #$20
        .a16
        cpy #128
        bcs :+
        nop
        lda RDMPYL
        lsr a
        lsr a
        lsr a
        lsr a
        lsr a
        lsr a
        bra wide
:       nop
        lda RDMPYL
        xba
        and #$00FF
        sta t4
        sep #$20
        .a8
        lda t5 + 1
        sta WRMPYB
        rep #$21
        .a16
        nop
        nop
        lda RDMPYL
        adc t4
        cpy #512
        bcc wide
        lsr a
        lsr a
wide:   bit t6
        bpl :+
        eor #$FFFF
        inc a
:       sta t0                  ; from the middle of the screen
        cmp #$8000              ; which way it is turned, seen from the camera: an eighth of a turn for each view
        ror a
        cmp #$8000
        ror a
        sta t1
        cmp #$8000
        ror a
        cmp #$8000
        ror a
        clc
        adc t1
        clc
        adc camera
        sta t1
        lda opp_angle,x
        xba
        sec
        sbc t1
        clc
        adc #16
        lsr a
        lsr a
        lsr a
        lsr a
        and #$000E
        sta t1
        lda line_of,y
        and #$00FF
        sta t2
        tay
        lda size_of,y
        and #$00FF
        ora t1
        tay
        lda views,y
        clc
        adc palettes,x
        sta opp_look,x
        cpy #2 * 16             ; the two largest sizes
        bcs :+
        lda t0
        clc
        adc #128 - 16
        and #$01FF
        ora #$0200              ; large
        sta opp_sx,x
        lda t2
        sec
        sbc #32
        sta opp_line,x
        rts
:       lda t0
        clc
        adc #128 - 8
        and #$01FF
        sta opp_sx,x
        lda t2
        sec
        sbc #16
        sta opp_line,x
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

; Interrupt at the horizon, in two dark lines: there the opponents' sprites, for which the blank is too short, get to
; video memory. Nothing but the idle loop is ever interrupted.
.proc horizon
        rep #$10
        sep #$20
        .a8
        .i16
        lda TIMEUP
        ldx #SLOT_NEAR * 2
        stx OAMADDL
        copy $00, OAMDATA, oamnear, #0, 12
        ldx #SLOT_FAR * 2
        stx OAMADDL
        copy $00, OAMDATA, oamfar, #0, 24
        ldx #$0100
        stx OAMADDL
        copy $00, OAMDATA, oamhigh, #0, (SLOTS + 3) / 4
        rti
.endproc
.a16

; Sprites in the order of depth: who is nearer than the kart lies over it.
.macro in_order first, second
        ldx first
        ldy second
        lda opp_depth,y
        cmp opp_depth,x
        bcs :+
        stx second
        sty first
:
.endmacro
.macro one place, slot
        ldx place
        lda opp_depth,x
        cmp #OWN_DEPTH
        bcc :++
        cmp #NOWHERE
        bne :+
        lda #HIDDEN << 8
        sta oamnear + slot * 4
        sta oamfar + slot * 4
        bra :+++
:       sprite oamfar + slot * 4, slot, oamhigh + SLOT_FAR / 4
        lda #HIDDEN << 8
        sta oamnear + slot * 4
        bra :++
:       sprite oamnear + slot * 4, slot, oamhigh + SLOT_NEAR / 4
        lda #HIDDEN << 8
        sta oamfar + slot * 4
:
.endmacro
.macro sprite at, shift, high
        lda opp_look,x
        sta at + 2
        sep #$20
        .a8
        lda opp_sx,x
        sta at
        lda opp_line,x
        sta at + 1
        lda opp_sx + 1,x
        .repeat shift
        asl a
        asl a
        .endrepeat
        tsb high
        rep #$20
        .a16
.endmacro
.proc arrange
        sep #$20
        .a8
        stz oamhigh + SLOT_NEAR / 4
        stz oamhigh + SLOT_FAR / 4
        rep #$20
        .a16
        stz t0
        lda #8
        sta t1
        asl a
        sta t2
        in_order t0, t1
        in_order t1, t2
        in_order t0, t1
        one t0, 0
        one t1, 1
        one t2, 2
        rts
.endproc

.segment "RODATA"
; of each opponent, 8 bytes apart: where it starts, sections and share of a section from the kart's; its palette
grid_sections:
        .word 0
grid_parts:
        .word $CC00
palettes:
        .word $0600, 0
        .word 1, $2600, $0800, 0
        .word 1, $8000, $0A00, 0
