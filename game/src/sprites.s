; Fill the list of sprites: the kart and what surrounds it, the dot on the map, figures, messages.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "params.inc"
.export sprites
.import speed_digits

; A sprite's four bytes: x, y, tile, attributes. Tiles and attributes come from params.inc as one word each.
KART_X      = 112
KART_Y      = 68
HIDDEN      = 224

.macro sprite slot, px, py, look
        lda #(px) | (py) << 8
        sta oambuf + (slot) * 4
        lda #look
        sta oambuf + (slot) * 4 + 2
.endmacro

; Y = 224 for a sprite that is not there now
.macro hide slot
        lda #HIDDEN << 8
        sta oambuf + (slot) * 4
.endmacro

; Put the figure in the low half of A (0..9) at a slot
.macro figure slot, px, py
        asl a
        tax
        lda figures,x
        sta oambuf + (slot) * 4 + 2
        lda #(px) | (py) << 8
        sta oambuf + (slot) * 4
.endmacro

.segment "CODE"
.a16
.i16

.proc sprites
        jsr kart
        jsr around
        jsr panel
        jmp message
.endproc

.proc kart
        ; which view: 0 straight, 1 and 2 turning, 3 sliding
        lda av
        bpl :+
        eor #$FFFF
        inc a
:       ldx #0
        cmp #48
        bcc :+
        ldx #2
        cmp #160
        bcc :+
        ldx #4
:       lda slide
        beq :+
        ldx #6
:       lda hoph                ; sixteenths of a pixel
        lsr a
        lsr a
        lsr a
        sta t0
        lda grass               ; shaken by the grass while it moves
        beq :+
        lda hoph
        bne :+
        lda spd
        cmp #64
        bcc :+
        lda tickno
        lsr a
        lsr a
        and #1
        sta t0
:       lda #KART_Y
        sec
        sbc t0
        xba
        ora #KART_X
        sta oambuf
        lda kart_views,x
        ldx av
        bpl :+
        ora #$4000              ; mirrored
:       sta oambuf + 2
        rts
.endproc

.proc around
        ; shadow
        lda hoph
        beq :+
        sprite 1, KART_X, KART_Y + 3, LOOK_SHADOW
        bra dust
:       hide 1
        ; dust behind the wheels: on grass, and smoke in a slide
dust:   lda hoph
        bne none
        lda spd
        cmp #128
        bcc none
        ldx #LOOK_DUST
        lda grass
        bne :+
        ldx #LOOK_SMOKE
        lda slide
        beq none
:       stx t0
        lda tickno              ; two pictures in turn
        and #4
        lsr a
        clc
        adc t0
        sta oambuf + 2 * 4 + 2
        ora #$4000
        sta oambuf + 3 * 4 + 2
        lda #(KART_X - 6) | (KART_Y + 17) << 8
        sta oambuf + 2 * 4
        lda #(KART_X + 22) | (KART_Y + 17) << 8
        sta oambuf + 3 * 4
        bra spark
none:   hide 2
        hide 3
spark:  lda coll
        beq :+
        sprite 4, KART_X + 8, KART_Y - 4, LOOK_SPARK
        bra sign
:       hide 4
sign:   lda wrong
        cmp #24
        bcc :+
        lda finished
        bne :+
        sprite 5, KART_X, 12, LOOK_SIGN
        rts
:       hide 5
        rts
.endproc

.proc panel
        ; the dot: 7/64 of the map
        lda xpos
        asl a
        asl a
        asl a
        sec
        sbc xpos
        lsr a
        lsr a
        lsr a
        lsr a
        lsr a
        lsr a
        clc
        adc #DOT_X
        sta t0
        lda ypos
        asl a
        asl a
        asl a
        sec
        sbc ypos
        lsr a
        lsr a
        lsr a
        lsr a
        lsr a
        lsr a
        clc
        adc #DOT_Y
        xba
        ora t0
        sta oambuf + 6 * 4
        lda #LOOK_DOT
        sta oambuf + 6 * 4 + 2
        ; lap that is being driven, 1 to 5
        lda lapn
        bpl :+
        lda #0
:       inc a
        cmp #6
        bcc :+
        lda #5
:       figure 7, LAP_X, LAP_Y
        lda clk_m
        and #$000F
        figure 8, TIME_X, TIME_Y
        lda clk_s
        lsr a
        lsr a
        lsr a
        lsr a
        and #$000F
        figure 9, TIME_X + 20, TIME_Y
        lda clk_s
        and #$000F
        figure 10, TIME_X + 32, TIME_Y
        lda clk_cs
        lsr a
        lsr a
        lsr a
        lsr a
        and #$000F
        figure 11, TIME_X + 52, TIME_Y
        lda clk_cs
        and #$000F
        figure 12, TIME_X + 64, TIME_Y
        lda spd
        lsr a
        lsr a
        lsr a
        asl a
        tax
        lda speed_digits,x      ; BCD
        sta t0
        xba
        and #$000F
        figure 13, SPEED_X, SPEED_Y
        lda t0
        lsr a
        lsr a
        lsr a
        lsr a
        and #$000F
        figure 14, SPEED_X + 12, SPEED_Y
        lda t0
        and #$000F
        figure 15, SPEED_X + 24, SPEED_Y
        rts
.endproc

; Five sprites of text, or none.
.proc message
        ldx #LOOK_FINISH
        lda finished
        bne text
        ldx #LOOK_WRONG
        lda wrong
        cmp #24
        bcs text
        ldx #MESSAGE_CELLS * 4 - 4
:       lda #HIDDEN << 8
        sta oambuf + 16 * 4,x
        dex
        dex
        dex
        dex
        bpl :-
        rts
text:   stx t0
        ldx #0
        lda #MESSAGE_X | MESSAGE_Y << 8
:       sta oambuf + 16 * 4,x
        pha
        lda t0
        sta oambuf + 16 * 4 + 2,x
        inc t0                  ; two tiles on
        inc t0
        pla
        clc
        adc #16
        inx
        inx
        inx
        inx
        cpx #MESSAGE_CELLS * 4
        bne :-
        rts
.endproc

.segment "RODATA"
kart_views:
        .word LOOK_KART, LOOK_KART + 4, LOOK_KART + 8, LOOK_KART + 12
figures:
        .word LOOK_FIGURES, LOOK_FIGURES + 2, LOOK_FIGURES + 4, LOOK_FIGURES + 6, LOOK_FIGURES + 8
        .word LOOK_FIGURES + 10, LOOK_FIGURES + 12, LOOK_FIGURES + 14, LOOK_FIGURES + 32, LOOK_FIGURES + 34
