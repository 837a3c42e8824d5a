; Power on: sound processor to sleep, art and tables to video memory, the race to its start.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "params.inc"
.export reset, load_circuit
.import place_kart, publish, bgmode_list, layers_list, dark_list

.segment "CODE"
.proc reset
        rep #$38
        .a16
        .i16
        ldx #stacktop
        txs
        lda #0
        tcd
        sep #$20
        .a8
        lda #$80
        pha
        plb
        stz NMITIMEN
        stz HDMAEN
        sta INIDISP
        lda #1
        sta MEMSEL
        jsr quiet
        rep #$20
        .a16
        ldx #0
:       stz 0,x
        inx
        inx
        cpx #stacktop - 32      ; the stack itself is in use
        bcc :-
        ldx #stacktop + 1
:       stz 0,x
        inx
        inx
        cpx #$2000
        bcc :-
        lda f:BUILD_ID_ROM
        sta buildid
        lda f:BUILD_ID_ROM + 2
        sta buildid + 2
        sep #$20
        .a8
        ldx #0                  ; registers of the picture and of the processor to zero
:       stz OBSEL,x
        inx
        cpx #$33
        bcc :-
        jmp start
.endproc

; The sound processor runs a small loader from reset on, which asks its ports for ever. Give it one instruction: STOP.
.proc quiet
        .a8
        .i16
        ldx #$BBAA
:       cpx APUIO0
        bne :-
        ldx #$0200
        stx APUIO2
        lda #1
        sta APUIO1
        lda #$CC
        sta APUIO0
:       cmp APUIO0
        bne :-
        lda #$FF                ; STOP
        sta APUIO1
        lda #0
        sta APUIO0
:       cmp APUIO0
        bne :-
        stx APUIO2              ; run it
        stz APUIO1
        lda #2
        sta APUIO0
        rts
.endproc

; Command: load circuit `select` - 1. Comes from the interrupt and does not return to it.
.proc load_circuit
        .a8
        stz NMITIMEN
        stz HDMAEN
        lda select
        dec a
        stz select
        cmp #CIRCUITS
        bcc :+
        lda #0
:       sta circuit
        ldx #stacktop
        txs
        jmp start
.endproc

.macro copy mode, register, source, sourcebank, size
        lda #mode
        sta DMAP
        lda #<register
        sta BBAD
        ldx #source
        stx A1TL
        lda sourcebank
        sta A1B
        ldx #size
        stx DASL
        lda #1
        sta MDMAEN
.endmacro

.proc start
        .a8
        .i16
        lda circuit             ; two banks for each: tiles, data
        asl a
        clc
        adc #CIRCUIT_BANK
        sta t2
        inc a
        sta databank
        sta cellptr + 2
        sta gateptr + 2
        ldx #$8000
        stx cellptr
        ldx #DATA_GATE_ANGLE
        stx gateptr
        ; everything dark: all of video memory to zero, through a fixed source
        lda #$80
        sta VMAIN
        ldx #0
        stx VMADDL
        copy $09, VMDATAL, zeros, #0, 0
        ; ground: tile numbers in the low bytes, tile pixels in the high bytes
        stz VMAIN
        ldx #0
        stx VMADDL
        copy $00, VMDATAL, $8000, t2, $4000
        lda #$80
        sta VMAIN
        ldx #0
        stx VMADDL
        copy $00, VMDATAL + 1, $C000, t2, $4000
        ; shared art
        ldx #VRAM_BGTILES
        stx VMADDL
        copy $01, VMDATAL, ART_BG, #ART_BANK, ART_BG_SIZE
        ldx #VRAM_BGMAP
        stx VMADDL
        copy $01, VMDATAL, ART_MAP, #ART_BANK, $1000
        ldx #VRAM_OBJ
        stx VMADDL
        copy $01, VMDATAL, ART_OBJ, #OBJ_BANK, $4000
        stz CGADD
        copy $00, CGDATA, ART_PALETTE, #ART_BANK, $200
        ; the circuit's small map
        ldx #VRAM_BGTILES + ART_BG_SIZE / 2
        stx VMADDL
        copy $01, VMDATAL, DATA_MINI_TILES, databank, MINI_TILES * 32
        rep #$20
        .a16
        lda databank
        and #$00FF
        sta t0 + 2
        lda #DATA_MINI_MAP
        sta t0
        ldy #0
        ldx #VRAM_BGMAP + MINI_ROW * 32 + MINI_COLUMN
row:    stx VMADDL
:       lda [t0],y
        sta VMDATAL
        iny
        iny
        tya
        and #$001F              ; 16 entries a row in the table, of which MINI_CELLS are used
        cmp #MINI_CELLS * 2
        bne :-
        tya
        clc
        adc #32 - MINI_CELLS * 2
        tay
        txa
        clc
        adc #32
        tax
        cpy #MINI_CELLS * 32
        bcc row
        lda #DATA_TITLE
        sta t0
        ldy #0
        ldx #VRAM_BGMAP + TITLE_ROW * 32 + TITLE_COLUMN
        stx VMADDL
:       lda [t0],y
        sta VMDATAL
        iny
        iny
        cpy #TITLE_CELLS * 2
        bne :-
        lda #DATA_SECTIONS
        sta t0
        lda [t0]
        sta nsect
        sep #$20
        .a8
        ; sprites: all off the screen, the sizes of the first 32
        stz OAMADDL
        stz OAMADDL + 1
        ldx #128
:       stz OAMDATA
        lda #224
        sta OAMDATA
        stz OAMDATA
        stz OAMDATA
        dex
        bne :-
        ldx #0
:       lda f:ART_SIZES,x
        sta OAMDATA
        inx
        cpx #32
        bne :-
        ; layers
        lda #$60 | VRAM_OBJ / $2000     ; sprites of 16x16 and 32x32
        sta OBSEL
        lda #>VRAM_BGMAP | 1
        sta BG2SC
        lda #VRAM_BGTILES / $100
        sta BG12NBA
        lda #3
        sta BG2VOFS
        stz BG2VOFS
        lda #$C0                ; outside the map: tile 0
        sta M7SEL
        ; display lists
        lda #SKY_LINES
        sta hdma_m7
        sta hdma_sky
        ldx #$8000
        stx hdma_m7 + 1
        lda #$80 | GROUND_LINES
        sta hdma_m7 + 3
        stz hdma_m7 + 6
        lda #1
        sta hdma_sky + 3
        stz hdma_sky + 4
        stz hdma_sky + 5
        stz hdma_sky + 6
        ldx #0
:       lda f:channels,x
        sta DMAP + $10,x
        lda f:channels + 1,x
        sta BBAD + $10,x
        lda f:channels + 2,x
        sta A1TL + $10,x
        lda f:channels + 3,x
        sta A1TL + $11,x
        lda f:channels + 4,x
        sta A1B + $10,x
        lda #MATRIX_BANK
        sta DASB + $10,x
        rep #$20
        txa
        clc
        adc #$10
        tax
        sep #$20
        cpx #$60
        bcc :-
        lda #$7E                ; channels 1 to 6
        sta HDMAEN
        rep #$20
        .a16
        lda #0
        jsr place_kart
        jsr publish
        sep #$20
        .a8
        lda RDNMI
        lda #$81
        sta NMITIMEN
idle:   wai
        bra idle
.endproc

.segment "RODATA"
zeros:  .word 0
; mode, register, table's address and bank; 16 bytes apart so that one index serves
channels:
        .byte $43, <M7A
        .word hdma_m7
        .byte $00
        .res 11
        .byte $43, <M7C
        .word hdma_m7
        .byte $00
        .res 11
        .byte $00, <BGMODE
        .word bgmode_list
        .byte $80
        .res 11
        .byte $00, <TM
        .word layers_list
        .byte $80
        .res 11
        .byte $02, <BG2HOFS
        .word hdma_sky
        .byte $00
        .res 11
        .byte $00, <INIDISP
        .word dark_list
        .byte $80
        .res 11
