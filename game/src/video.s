; The picture of a race state: sprites, the display list of the ground, the sky's scroll. Nothing here counts frames.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "params.inc"
.include "copy.inc"
.export show, bgmode_list, layers_list, dark_list, dark_lists
.import sprites, offset_x, offset_y, matrix_row

LAST_LINE   = 261

.segment "CODE"
.a16
.i16

.proc show
        jsr sprites
        sep #$20
        .a8
        stz OAMADDL             ; the sprites beyond stay off the screen
        stz OAMADDL + 1
        copy $00, OAMDATA, oambuf, #0, SLOTS * 4
        ldx #$0100
        stx OAMADDL
        copy $00, OAMDATA, oamhigh, #0, (SLOTS + 3) / 4
        rep #$20
        .a16
        lda camera              ; the sky: 512 pixels are half a turn
        and #$00FF
        asl a
        asl a
        sta hdma_sky + 4
        sep #$20
        .a8
        ; what must be done while the picture is dark is done; the rest has time until the ground begins
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
        lda t0
        sec
        sbc #128
        sta t2
        sep #$20
        .a8
        ; The display list writes to the matrix at the end of line 0, through the latch that the next registers share:
        ; keep out of its way.
near:   lda SLHV
        lda OPVCT
        xba
        lda OPVCT
        lsr a                   ; carry: bit 8
        xba
        bcs :+
        beq near                ; line 0
        bra clear
:       cmp #LAST_LINE & $FF
        beq near
clear:  lda t0
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
dark_twice:                     ; with opponents also at the horizon
        .byte TOP_LINES, $80, SKY_LINES - 2 - TOP_LINES, $0F, 2, $80, 1, $0F, 0
dark_below:                     ; without the small map
        .byte TOP_LINES, $80, SKY_LINES + GROUND_LINES - TOP_LINES, $0F, 1, $80, 0
dark_twice_below:
        .byte TOP_LINES, $80, SKY_LINES - 2 - TOP_LINES, $0F, 2, $80, GROUND_LINES, $0F, 1, $80, 0
dark_above:                     ; without the sky, also with opponents
        .byte SKY_LINES, $80, 1, $0F, 0
dark_around:                    ; without both
        .byte SKY_LINES, $80, GROUND_LINES, $0F, 1, $80, 0
dark_all:
        .byte TOP_LINES, $80, 0
dark_lists:                     ; by `dark`, without and with opponents
        .word dark_list, dark_below, dark_above, dark_around, dark_all, dark_all, dark_all, dark_all
        .word dark_twice, dark_twice_below, dark_above, dark_around, dark_all, dark_all, dark_all, dark_all
