; The opponents: karts that follow the gates, or ghosts whose places are written from outside; their sprites and the rank.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "params.inc"
.export place_others, drive_others, show_others
.import sine_table, half_square, line_of, width_of, size_of, views

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

; X = behind the last of the opponents' places
.macro count_others
        lda others
        and #$0003
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
        count_others
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
        count_others
        stz ahead_of              ; how many are ahead
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
.endproc

; Where the scripted opponent X is: on a curve through the middles between the gates, drawn by the gates, and beside it.
.proc where
        lda opp_sect,x
        sta t0
        dec a
        bpl :+
        lda nsect
        dec a
:       sta t1
        lda t0
        inc a
        cmp nsect
        bcc :+
        lda #0
:       sta t2
        lda opp_part,x
        xba
        and #$00FF
        sta t3
        phx
        tax
        lda half_square,x
        and #$00FF
        sta t9              ; weight of the gate ahead
        txa
        eor #$00FF
        tax
        lda half_square,x
        and #$00FF
        sta t8                  ; of the gate behind
        plx
.macro curve gates, place
        phx
        lda t0
        asl a
        tax
        lda f:gates,x
        sta t4
        lda t1
        asl a
        tax
        lda f:gates,x
        sec
        sbc t4
        ldy t8
        jsr share
        pha
        lda t2
        asl a
        tax
        lda f:gates,x
        sec
        sbc t4
        ldy t9
        jsr share
        clc
        adc t4
        clc
        adc 1,s
        plx
        plx
        sta place,x
.endmacro
        curve BLOCK_GATE_X, opp_x
        curve BLOCK_GATE_Y, opp_y
        ; the angle between those of the sections before and after
        phx
        ldx t1
        lda f:BLOCK_GATE_ANGLE,x
        xba
        and #$FF00
        sta t4
        ldx t2
        lda f:BLOCK_GATE_ANGLE,x
        xba
        and #$FF00
        sec
        sbc t4
        sta t4                  ; the turn over two sections
        lda t3
        eor #$0080              ; how far from the middle, -128 to 127
        xba
        eor t4                  ; sign of the product
        sta t5
        lda t4
        jsr size8
        sta WRMPYA
        rep #$20
        .a16
        lda t3
        eor #$0080
        xba
        jsr size8
        sta WRMPYB
        rep #$20
        .a16
        ldx t0
        lda f:BLOCK_GATE_ANGLE,x
        xba
        and #$FF00
        sta t6
        lda RDMPYL
        lsr a
        bit t5
        bpl :+
        eor #$FFFF
        inc a
:       clc
        adc t6
        plx
        sta opp_angle,x
        ; beside the curve: right is (cos, sin)
        xba
        and #$00FF
        tay
        clc
        adc #64
        and #$00FF
        phx
        phy
        pha
        lda beside,x
        plx
        jsr times_sine
        sta t0
        plx
        lda 1,s
        txy
        tax
        lda beside,x
        tyx
        jsr times_sine
        plx
        clc
        adc opp_y,x
        sta opp_y,x
        lda t0
        clc
        adc opp_x,x
        sta opp_x,x
        rts
.endproc

; A = signed, in the upper byte: A = its size, 8 bits.
.proc size8
        xba
        sep #$20
        .a8
        cmp #$80
        bcc :+
        eor #$FF
        inc a
:       rts
.endproc

; A = signed, below 256 in size; Y = weight: A = A * Y / 256
.proc share
        .a16
        sta t6
        cmp #$8000
        bcc :+
        eor #$FFFF
        inc a
:       sep #$20
        .a8
        sta WRMPYA
        tya
        sta WRMPYB
        rep #$20
        .a16
        nop
        nop
        lda RDMPYL
        xba
        and #$00FF
        bit t6
        bpl :+
        eor #$FFFF
        inc a
:       rts
.endproc

; A = signed, below 1024 in size; X = angle of 256: A = A * sin X
.proc times_sine
        cpx #128
        bcc :+
        eor #$FFFF
        inc a
:       sta t6
        cmp #$8000
        bcc :+
        eor #$FFFF
        inc a
:       sta t5
        sep #$20
        .a8
        lda sine_table,x
        sta WRMPYA
        lda t5
        sta WRMPYB
        rep #$20
        .a16
        nop
        nop
        lda RDMPYL
        xba
        and #$00FF
        sta t4
        sep #$20
        .a8
        lda t5 + 1
        beq :+
        sta WRMPYB
        rep #$21
        .a16
        nop
        nop
        lda RDMPYL
        adc t4
        sta t4
:       rep #$20
        lda t4
        bit t6
        bpl :+
        eor #$FFFF
        inc a
:       rts
.endproc

; A = along, of the way (t0, t1) the part that lies in the direction Y
.proc along
        tyx
        lda t0
        jsr times_sine
        sta t2
        txa
        clc
        adc #64
        and #$00FF
        tax
        lda t1
        jsr times_sine
        eor #$FFFF
        sec
        adc t2                  ; sin * east - cos * south
        rts
.endproc

; t0, t1 = from the kart to the opponent X, east and south
.proc from_kart
        lda opp_x,x
        sec
        sbc xpos
        sta t0
        lda opp_y,x
        sec
        sbc ypos
        sta t1
        rts
.endproc

; Count the opponent X if it is ahead: by sections, or in the same one in the direction of its gate.
.proc ahead
        lda opp_done,x
        sec
        sbc driven
        beq same
        bmi done
        inc ahead_of
done:   rts
same:   phx
        jsr from_kart
        ldx cp
        lda f:BLOCK_GATE_ANGLE,x
        and #$00FF
        tay
        jsr along
        plx
        cmp #1
        bmi done
        inc ahead_of
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
        sta oambuf + SLOT_DOTS * 4,y
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
        sta oambuf + SLOT_DOTS * 4 + 1,y
        rep #$20
        .a16
        rts
.endproc

; The opponent X as the camera sees it: depth, place on the screen, look.
.proc project
        jsr from_kart
        phx
        lda camera
        and #$00FF
        tay
        jsr along
        plx
        clc
        adc #OWN_DEPTH
        cmp #NEAREST
        bcc unseen
        cmp #FARTHEST
        bcs unseen
        sta opp_depth,x
        phx
        lda camera
        clc
        adc #64
        and #$00FF
        tay
        jsr along               ; to the right
        plx
        ldy opp_depth,x
        sty t3
        sta t6
        cmp #$8000
        bcc :+
        eor #$FFFF
        inc a
:       sta t5
        lda t3
        lsr a
        lsr a
        adc t3
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
        sta oambuf + (SLOT_NEAR + 0) * 4
        sta oambuf + (SLOT_NEAR + 1) * 4
        sta oambuf + (SLOT_NEAR + 2) * 4
        sta oambuf + (SLOT_FAR + 0) * 4
        sta oambuf + (SLOT_FAR + 1) * 4
        sta oambuf + (SLOT_FAR + 2) * 4
        sta oambuf + (SLOT_DOTS + 0) * 4
        sta oambuf + (SLOT_DOTS + 1) * 4
        sta oambuf + (SLOT_DOTS + 2) * 4
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
.macro one which, slot
        ldx which
        lda opp_depth,x
        cmp #OWN_DEPTH
        bcc :++
        cmp #NOWHERE
        bne :+
        lda #HIDDEN << 8
        sta oambuf + (SLOT_NEAR + slot) * 4
        sta oambuf + (SLOT_FAR + slot) * 4
        bra :+++
:       sprite SLOT_FAR + slot, slot, oamhigh + SLOT_FAR / 4
        lda #HIDDEN << 8
        sta oambuf + (SLOT_NEAR + slot) * 4
        bra :++
:       sprite SLOT_NEAR + slot, slot, oamhigh + SLOT_NEAR / 4
        lda #HIDDEN << 8
        sta oambuf + (SLOT_FAR + slot) * 4
:
.endmacro
.macro sprite at, shift, high
        lda opp_look,x
        sta oambuf + (at) * 4 + 2
        sep #$20
        .a8
        lda opp_sx,x
        sta oambuf + (at) * 4
        lda opp_line,x
        sta oambuf + (at) * 4 + 1
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
; of each opponent, 8 bytes apart: where it starts, sections and share of a section from the kart's; its place beside
; the curve, pixels; its palette
grid_sections:
        .word 0
grid_parts:
        .word $CC00
beside: .word .loword(-14)
palettes:
        .word $0600
        .word 1, $2600, 14, $0800
        .word 1, $8000, .loword(-8), $0A00
