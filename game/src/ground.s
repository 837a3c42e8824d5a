; What the ground does to a kart: falls, boosts, jumps, coins.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "params.inc"
.export fall, lava, water, speed_up, jump, coin, take_coin, put_back, to_gate, restore_coins
.import section, surface

JUMP_SPEED  = 72                ; 1/16 pixel a tick
MOST_FAST   = 10                ; coins that make faster
COIN_TOP    = 8                 ; 1/256 pixel a tick
FALL_COST   = 2                 ; coins

.segment "CODE"
.a16
.i16

.proc speed_up
        lda #BOOST_TICKS
        sta boost
        jmp section
.endproc

.proc jump
        lda spd
        cmp #96
        bcc slow
        lda #JUMP_SPEED
        sta hopv
        stz slide
slow:   jmp section
.endproc

; The kart falls: hands off, and two coins less.
.proc fall
        lda #4
        bra begin
.endproc
.proc lava
        lda #6
        bra begin
.endproc
.proc water
        lda #8
        bra begin
.endproc
.proc begin
        sta fate
        stz fallt
        stz vel
        stz spd
        stz quarter
        stz spx
        stz spy
        stz av
        stz slide
        stz coll
        stz boost
        lda coins
        sec
        sbc #FALL_COST
        bpl :+
        lda #0
:       sta coins
        jmp count_coins
.endproc

; A tick of a kart that has fallen: first it falls, then it is carried back to the gate of its section.
.proc put_back
        stz pad
        inc fallt
        lda fallt
        cmp #FALL_TICKS
        bcc done
        cmp #FALL_TICKS + CARRY_TICKS
        bcs there
        jsr gate
        ldx #px                 ; an eighth of the way that is left
        lda t1
        jsr nearer
        ldx #py
        lda t2
        jsr nearer
        ldx #heading
        lda t3
        jsr nearer
        sta dir
done:   rts
there:  stz fate
        stz surf
        bra to_gate
nearer: sec
        sbc 0,x
        cmp #$8000
        ror a
        cmp #$8000
        ror a
        cmp #$8000
        ror a
        clc
        adc 0,x
        sta 0,x
        rts
.endproc

; The kart at the gate of its section, and turned its way.
.proc to_gate
        jsr gate
        lda t1
        sta px
        lda t2
        sta py
        lda t3
        sta heading
        sta dir
        rts
.endproc

; t1, t2, t3 = place and heading of a kart at the gate of its section.
.proc gate
        lda cp
        asl a
        tax
        lda f:BLOCK_GATE_X,x
        jsr sixtyfourths
        sta t1
        lda f:BLOCK_GATE_Y,x
        jsr sixtyfourths
        sta t2
        ldx cp
        lda f:BLOCK_GATE_ANGLE,x
        and #$00FF
        xba
        sta t3
        rts
sixtyfourths:
        asl a
        asl a
        asl a
        asl a
        asl a
        asl a
        rts
.endproc

; The kart is on a coin: take it, and what lay under it counts.
.proc coin
        ldy px
        lda py
        jsr take_coin
        bcc over
        inc coins
        jsr count_coins
        jsr surface
        stx surf
over:   jmp section
.endproc

; Take the coin at the place (Y, A), 1/64 pixel, from the road; carry: there is one.
.proc take_coin
        lsr a                   ; column and row of the tile, a byte each, as in the list
        and #$7F00
        sta t0
        tya
        xba
        lsr a
        and #$007F
        ora t0
        sta t0
        lda coinend
        beq none
        ldy coinlast            ; the next one is likely to be the one after it
next:   lda t0
        sec
        sbc [coinptr],y
        and #$FEFE              ; one of its two columns and two rows
        beq found
        tya
        clc
        adc #6
        cmp coinend
        bcc :+
        lda #0
:       tay
        cpy coinlast
        bne next
none:   clc                     ; a coin's tile without a coin
        rts
found:  sty coinlast
        ldx #take
        jsr four_tiles
        ldy coinlast
        sep #$20
        .a8
        lda #1
        sta coin_was + 4,y
        rep #$20
        .a16
        sec
        rts
take:   .a8
        lda f:BLOCK,x
        sta coin_was,y
        iny
        iny
        lda [coinptr],y
        dey
        dey
        rts
.endproc

; The four tiles of the coin Y of the list: each becomes what the routine at X gives for the tile X of the map and the place Y, which
; it leaves as they are.
.proc four_tiles
        .a16
        stx t3
        lda [coinptr],y
        sta t0
        and #$7F00
        lsr a
        sta t1
        lda t0
        and #$007F
        ora t1
        tax                     ; the tile's place in the map
        sep #$20
        .a8
        stz VMAIN
        jsr two
        rep #$21
        .a16
        txa
        adc #126
        tax
        sep #$20
        .a8
        jsr two
        rep #$20
        .a16
        rts
two:    .a8
        stx VMADDL
        jsr one
one:    jsr give
        sta f:BLOCK,x
        sta VMDATAL
        inx
        iny
        rts
give:   jmp (t3)
.endproc

; What the coins add to the fastest.
.proc count_coins
        .a16
        lda coins
        cmp #MOST_FAST
        bcc :+
        lda #MOST_FAST
:       asl a
        asl a
        asl a
        sta cointop
        rts
.endproc

; All coins back to their places; in the dark part of a frame.
.proc restore_coins
        lda coinend
next:   sec
        sbc #6
        bmi done
        tay
        lda coin_was + 4,y
        bne taken
        tya
        bra next
taken:  lda #0
        sta coin_was + 4,y
        sty t2
        ldx #give_back
        jsr four_tiles
        lda t2
        bra next
done:   rts
give_back:
        .a8
        lda coin_was,y
        rts
.endproc
