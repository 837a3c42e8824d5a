; The picture of a race state: sprites, the display list of the ground, the sky's scroll. Nothing here counts frames.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "params.inc"
.export show, bgmode_list, layers_list, dark_list
.import sprites, offset_x, offset_y, matrix_row

.segment "CODE"
.a16
.i16

.proc show
        jsr sprites
        sep #$20
        .a8
        stz OAMADDL             ; 128 bytes: sprites beyond the first 32 stay off the screen
        stz OAMADDL + 1
        stz DMAP
        lda #<OAMDATA
        sta BBAD
        ldx #oambuf
        stx A1TL
        stz A1B
        ldx #128
        stx DASL
        lda #1
        sta MDMAEN
        ; the matrices for this angle: A and B from its rows, C and D from those a quarter turn before
        lda camera
        lsr a
        lsr a
        lsr a
        lsr a
        lsr a
        lsr a
        clc
        adc #MATRIX_BANK
        sta DASB + $10
        dec a
        cmp #MATRIX_BANK
        bcs :+
        adc #4
:       sta DASB + $20
        rep #$20
        .a16
        lda camera
        and #$003F
        asl a
        tax
        lda matrix_row,x
        sta hdma_m7 + 4
        ; the camera is a fixed way behind the kart
        lda camera
        and #$00FF
        asl a
        tax
        lda xpos
        clc
        adc offset_x,x
        sta t0
        lda ypos
        clc
        adc offset_y,x
        sta t1
        txa                     ; the sky: 512 pixels are half a turn
        asl a
        sta hdma_sky + 1
        lda t0
        sec
        sbc #128
        sta t2
        sep #$20
        .a8
        lda t0
        sta M7X
        lda t0 + 1
        sta M7X
        lda t1
        sta M7Y
        lda t1 + 1
        sta M7Y
        lda t2
        sta M7HOFS
        lda t2 + 1
        sta M7HOFS
        rep #$20
        .a16
        lda t1
        sec
        sbc #BASE_LINE
        sta t2
        sep #$20
        .a8
        lda t2
        sta M7VOFS
        lda t2 + 1
        sta M7VOFS
        rep #$20
        .a16
        rts
.endproc

.segment "RODATA"
bgmode_list:
        .byte SKY_LINES, 1, GROUND_LINES, 7, 1, 1, 0
layers_list:
        .byte SKY_LINES, $12, GROUND_LINES, $11, 1, $12, 0
dark_list:
        .byte TOP_LINES, $80, 1, $0F, 0
