; A circuit into working memory, and from there to video memory: ground, colours, title, small map.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "params.inc"
.include "copy.inc"
.export fetch_circuit, show_circuit
.import letters, mini_at

.segment "CODE"
; A = a circuit of the ROM: copy it into bank 7F.
.proc fetch_circuit
        .a8
        .i16
        sta t0
        clc
        adc #GROUND_BANK
        sta t1
        ldx #0
        stx WMADDL
        lda #1
        sta WMADDH
        copy $00, WMDATA, $8000, t1, BLOCK_REST
        lda t0                  ; the rest: four circuits in a bank
        lsr a
        lsr a
        clc
        adc #REST_BANK
        sta t1
        lda t0
        and #$03
        asl a
        asl a
        asl a
        asl a
        asl a
        ora #$80                ; $2000 bytes each
        xba
        lda #0
        tax
        copy_from_x $00, WMDATA, t1, BLOCK_REST_SIZE
        rts
.endproc

; The circuit in bank 7F to the screen, which is dark.
.proc show_circuit
        .a8
        .i16
        ; ground: tile numbers in the low bytes, tile pixels in the high bytes
        stz VMAIN
        ldx #0
        stx VMADDL
        copy $00, VMDATAL, $0000, #^BLOCK, $4000
        lda #$80
        sta VMAIN
        ldx #0
        stx VMADDL
        copy $00, VMDATAL + 1, BLOCK_TILES, #^BLOCK, $4000
        stz CGADD
        copy $00, CGDATA, BLOCK_PALETTE, #^BLOCK, $100
        ; the title's letters
        ldx #VRAM_BGMAP + TITLE_ROW * 32 + TITLE_COLUMN
        stx VMADDL
        rep #$20
        .a16
        ldy #0
:       tyx
        lda f:BLOCK_TITLE,x
        sec
        sbc #32
        and #$003F
        asl a
        tax
        lda letters,x
        sta VMDATAL
        iny
        cpy #TITLE_CELLS
        bne :-
        ; what the tick needs of the header
        lda f:BLOCK_COUNT
        and #$00FF
        sta nsect
        lda f:BLOCK_COINS
        and #$00FF
        cmp #MOST_COINS + 1
        bcc :+
        lda #MOST_COINS
:       asl a
        sta t0
        asl a
        adc t0
        sta coinend
        lda #.loword(BLOCK_COIN_LIST)
        sta coinptr
        lda #^BLOCK
        sta coinptr + 2
        lda f:BLOCK_LENGTH
        sta WRDIVL              ; divided by the sections
        sep #$20
        .a8
        lda nsect
        sta WRDIVB
        ldx #0                  ; no coin is taken; the quotient is there after sixteen cycles
:       stz coin_was,x
        inx
        cpx #MOST_COINS * 6
        bne :-
        ldx RDDIVL
        stx sectpx
        jmp small_map
.endproc

; The small map, 7/8 of a pixel for each tile: 14x14 tiles of the background layer.
.proc small_map
        .a8
        .i16
        ldx #0                  ; colour of each tile
tiles:  phx
        lda f:BLOCK_SURFACES,x
        rep #$20
        .a16
        and #$001F
        tax
        sep #$20
        .a8
        lda f:BLOCK_MINI,x
        plx
        sta mini_of,x
        inx
        cpx #$100
        bne tiles
        rep #$20
        .a16
        ldx #VRAM_BGTILES + ART_BG_SIZE / 2
        stx VMADDL
        stz t0                  ; row of pixels that a tile begins at
tile_row:
        stz t1                  ; column
tile:   stz t2                  ; row in the tile
line:   lda t0
        clc
        adc t2
        tax
        lda mini_at,x
        and #$00FF
        xba
        lsr a
        sta t3                  ; where the map's row begins
        ldy t1
        lda #8
        sta t4
pixel:  lda mini_at,y
        and #$00FF
        clc
        adc t3
        tax
        lda f:BLOCK,x
        and #$00FF
        tax
        sep #$20
        .a8
        lda mini_of,x
        lsr a                   ; a bit for each plane
        rol t5
        lsr a
        rol t5 + 1
        lsr a
        rol t6
        lsr a
        rol t6 + 1
        rep #$20
        .a16
        iny
        dec t4
        bne pixel
        lda t5
        sta VMDATAL
        lda t2
        asl a
        tax
        lda t6                  ; the upper planes follow after the tile's eight rows
        sta mini_rest,x
        lda t2
        inc a
        sta t2
        cmp #8
        bne line
        ldx #0
:       lda mini_rest,x
        sta VMDATAL
        inx
        inx
        cpx #16
        bne :-
        lda t1
        clc
        adc #8
        sta t1
        cmp #MINI_CELLS * 8
        bne tile
        lda t0
        clc
        adc #8
        sta t0
        cmp #MINI_CELLS * 8
        beq :+
        jmp tile_row
:
        lda #MINI_WORD          ; its place in the layer
        ldx #VRAM_BGMAP + MINI_ROW * 32 + MINI_COLUMN
row:    stx VMADDL
        ldy #MINI_CELLS
:       sta VMDATAL
        inc a
        dey
        bne :-
        pha
        txa
        clc
        adc #32
        tax
        pla
        cpx #VRAM_BGMAP + (MINI_ROW + MINI_CELLS) * 32 + MINI_COLUMN
        bne row
        sep #$20
        .a8
        rts
.endproc
