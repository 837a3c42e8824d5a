; The way of a scripted opponent.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "math.inc"
.include "params.inc"
.export where
.import beside, half_square

.segment "CODE"
.a16
.i16

; Where the scripted opponent X is: on a curve through the middles between the gates, drawn by the gates, and beside it.
.macro weighed gate, weight
        ldx gate
        lda f:gates,x
        sec
        sbc t4
        sta t6
        bcs :+
        negate
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
        negate
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
        absolute
        sta WRMPYA
        lda t3
        eor #$80                ; how far from the middle, -128 to 127
        absolute
        sta WRMPYB
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
        absolute
        clc
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
