; Power on: sound CPU to sleep, art and tables to video memory, the race to its start.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "params.inc"
.include "copy.inc"
.export reset, load_circuit
.import fetch_circuit, show_circuit, place_kart, publish_early, publish, place_sprites, bgmode_list, layers_list, dark_list

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

; The sound CPU runs a small loader from reset on, which asks its ports for ever. Give it the program `silence`.
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
        ldy #0
send:   lda silence,y
        sta APUIO1
        tya
        sta APUIO0
:       cmp APUIO0
        bne :-
        iny
        cpy #silence_end - silence
        bne send
        stx APUIO2              ; run it
        stz APUIO1
        inc a
        inc a
        sta APUIO0
        rts
.endproc

; Command: load circuit `select` - 1. Comes from the interrupt and does not return to it.
.proc load_circuit
        .a8
        sei
        stz NMITIMEN
        stz HDMAEN
        stz opponents
        lda select
        dec a
        stz select
        sta circuit
        ldx #stacktop
        txs
        jmp start
.endproc

.proc start
        .a8
        .i16
        lda circuit
        cmp #254                ; the block that lies in 7F0000, if it is one
        bne own
        ldx #MAGIC_LOW
        rep #$20
        .a16
        txa
        cmp f:BLOCK_MAGIC
        bne :+
        lda #MAGIC_HIGH
        cmp f:BLOCK_MAGIC + 2
:       sep #$20
        .a8
        bne none
        lda f:BLOCK_COUNT
        dec a
        cmp #MOST_SECTIONS
        bcc ready
none:   lda #0
own:    cmp #CIRCUITS
        bcc :+
        lda #0
:       sta circuit
        jsr fetch_circuit
ready:
        ; everything dark: all of video memory to zero, through a fixed source
        lda #$80
        sta VMAIN
        ldx #0
        stx VMADDL
        copy $09, VMDATAL, zeros, #0, 0
        ; shared art
        ldx #VRAM_BGTILES
        stx VMADDL
        copy $01, VMDATAL, ART_BG, #ART_BANK, ART_BG_SIZE
        ldx #VRAM_BGMAP
        stx VMADDL
        copy $01, VMDATAL, ART_MAP, #ART_BANK, $1000
        ldx #VRAM_OBJ
        stx VMADDL
        copy $01, VMDATAL, ART_OBJ, #ART_BANK, $4000
        lda #128
        sta CGADD
        copy $00, CGDATA, ART_PALETTE, #ART_BANK, $100
        jsr show_circuit
        ; sprites: all off the screen
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
        ldx #32
:       stz OAMDATA
        dex
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
        lda #TOP_LINES          ; the scroll follows after these lines, so that a late frame still sets it in time
        sta hdma_sky
        lda #SKY_LINES - TOP_LINES
        sta hdma_sky + 3
        ldx #$8000
        stx hdma_m7 + 1
        lda #$80 | GROUND_LINES
        sta hdma_m7 + 3
        stz hdma_m7 + 6
        lda #1
        sta hdma_sky + 6
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
        jsr publish_early
        jsr publish
        jsr place_sprites
        sep #$20
        .a8
        lda RDNMI
        lda #$81
        sta NMITIMEN
        cli
        jml wait & $7FFFFF
.endproc

; Nothing to do until the next interrupt; in slow memory, as emulators repeat WAI until then, there fewer times.
.proc wait
        wai
        bra wait
.endproc

.segment "RODATA"
; For the sound CPU, whose assembler this is not. After power on its eight voices play noise from memory, unheard, and an
; emulator works for each note: they get the pitch zero. Then it divides for ever, which takes long and costs an emulator little.
silence:
        .byte $CD, $02          ; x = 2: the first voice's pitch
voices: .byte $D8, $F2          ; of register x
        .byte $8F, $00, $F3     ; the value is 0
        .byte $3D               ; the high byte follows
        .byte $D8, $F2
        .byte $8F, $00, $F3
        .byte $7D, $60          ; the next voice's pitch is 15 registers on
        .byte $88, $0F
        .byte $5D
        .byte $68, $82
        .byte $D0, <(voices - * - 1)
divide: .res 16, $9E
        .byte $2F, <(divide - * - 1)
silence_end:
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
        .word dark_list         ; the interrupt chooses another
        .byte $80
        .res 11
