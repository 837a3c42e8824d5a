; The sprites of the panel: the dot on the map, figures, messages.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "params.inc"
.export panel, message
.import speed_digits

; Show the figure A (0..9) at a slot
.macro figure slot
        asl a
        tax
        lda figures,x
        sta oambuf + (slot) * 4 + 2
.endmacro

.segment "CODE"
.a16
.i16

.proc panel
        ; the dot: 7/64 of the map, 112/256 of the upper byte of a place
        sep #$20
        .a8
        lda px + 1
        sta WRMPYA
        lda #112
        sta WRMPYB
        lda #DOT_X              ; eight cycles until the product is there
        clc
        nop
        nop
        adc RDMPYL + 1
        sta oambuf + SLOT_DOT * 4
        lda py + 1
        sta WRMPYA
        lda #112
        sta WRMPYB
        lda #DOT_Y
        clc
        nop
        nop
        adc RDMPYL + 1
        sta oambuf + SLOT_DOT * 4 + 1
        rep #$20
        .a16
        ; lap that is being driven, 1 to 5
        lda lapn
        bpl :+
        lda #0
:       inc a
        cmp #6
        bcc :+
        lda #5
:       figure SLOT_LAP
        lda clk_m
        and #$000F
        figure SLOT_TIME
        lda clk_s
        lsr a
        lsr a
        lsr a
        lsr a
        and #$000F
        figure SLOT_TIME + 1
        lda clk_s
        and #$000F
        figure SLOT_TIME + 2
        lda clk_cs
        lsr a
        lsr a
        lsr a
        lsr a
        and #$000F
        figure SLOT_TIME + 3
        lda clk_cs
        and #$000F
        figure SLOT_TIME + 4
        lda spd
        lsr a
        lsr a
        and #$01FE              ; for each 8 of speed a word, BCD
        tax
        lda speed_digits,x
        sta t0
        xba
        and #$000F
        figure SLOT_SPEED
        lda t0
        lsr a
        lsr a
        lsr a
        lsr a
        and #$000F
        figure SLOT_SPEED + 1
        lda t0
        and #$000F
        figure SLOT_SPEED + 2
        lda coins
        ldy #$FFFF
:       iny
        sec
        sbc #10
        bpl :-
        adc #10                 ; no carry
        figure SLOT_COINS + 1
        tya
        figure SLOT_COINS
        rts
.endproc

; Five sprites of text, or none.
.proc message
        ldx #LOOK_FINISH
        lda finished
        bne text
        ldx #LOOK_WRONG
        lda wrong
        cmp #WRONG_TICKS
        bcs text
        lda #HIDDEN << 8
        sta oambuf + (SLOT_TEXT + 0) * 4
        sta oambuf + (SLOT_TEXT + 1) * 4
        sta oambuf + (SLOT_TEXT + 2) * 4
        sta oambuf + (SLOT_TEXT + 3) * 4
        sta oambuf + (SLOT_TEXT + 4) * 4
        rts
text:   stx t0
        ldx #0
        ldy #MESSAGE_X | MESSAGE_Y << 8
:       tya
        sta oambuf + (SLOT_TEXT + 0) * 4,x
        clc
        adc #16
        tay
        lda t0
        sta oambuf + (SLOT_TEXT + 0) * 4 + 2,x
        inc t0                  ; two tiles on
        inc t0
        inx
        inx
        inx
        inx
        cpx #MESSAGE_CELLS * 4
        bne :-
        rts
.endproc

.segment "RODATA"
figures:
        .word LOOK_FIGURES, LOOK_FIGURES + 2, LOOK_FIGURES + 4, LOOK_FIGURES + 6, LOOK_FIGURES + 8
        .word LOOK_FIGURES + 10, LOOK_FIGURES + 12, LOOK_FIGURES + 14, LOOK_FIGURES + 32, LOOK_FIGURES + 34
