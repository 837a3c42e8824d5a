; Where the kart is: moving, walls, sections, laps, wrong way.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "params.inc"
.export move, wrong_way, put_back, restore_coins
.import sine_table, surf_effect

LAPS        = 5
WRONG_ANGLE = 80                ; of 128: how far off the gate's direction counts
AHEAD       = 3                 ; a section this near is reached one by one, a farther one not at all
BOUNCE      = 7                 ; ticks
JUMP_SPEED  = 72                ; 1/16 pixel a tick
MOST_FAST   = 10                ; coins that make faster
COIN_TOP    = 8                 ; 1/256 pixel a tick
FALL_COST   = 2                 ; coins

.segment "CODE"
.a16
.i16

; Move by the velocity; a wall undoes it and throws back.
.proc move
        lda vel
        bpl :+
        eor #$FFFF
        inc a
:       sta spd
        lsr a
        lsr a
        sta quarter
        sep #$20
        .a8
        sta WRMPYA
        lda dir + 1
        tax                     ; the upper byte of A is 0, because |vel| / 4 is below 256
        lda sine_table,x
        sta WRMPYB
        rep #$20                ; |vel| / 4 * |sin| * 255 has 1/64 pixels in its upper byte, eight cycles from now
        .a16
        lda dir
        eor vel
        tay                     ; the sign
        lda RDMPYL
        clc
        adc #$0080
        xba
        and #$00FF
        cpy #$8000
        bcc :+
        eor #$FFFF
        inc a
:       sta spx
        clc
        adc px
        sta px
        lda dir                 ; south: -cos a = sin(a - 90 degrees)
        sec
        sbc #$4000
        sta t0
        xba
        and #$00FF
        tax
        sep #$20
        .a8
        lda sine_table,x
        sta WRMPYB
        rep #$20
        .a16
        lda t0
        eor vel
        tay
        lda RDMPYL
        clc
        adc #$0080
        xba
        and #$00FF
        cpy #$8000
        bcc :+
        eor #$FFFF
        inc a
:       sta spy
        clc
        adc py
        sta py
        jsr surface             ; X = twice its code
        lda surf_effect,x
        bne special
        lda hoph
        ora hopv
        bne :+                  ; in the air the ground does nothing
        stx surf
:       jmp section
special:
        cmp #2 * EFFECT_WALL
        beq wall
        ldy hoph
        bne :+
        ldy hopv
        bne :+
        stx surf
        tax
        jmp (effects,x)
:       jmp section
effects:
        .addr section, section, fall, lava, water, speed_up, jump, coin
wall:   lda px
        sec
        sbc spx
        sta px
        lda py
        sec
        sbc spy
        sta py
        lda spd                 ; a quarter of the speed, and a little, the other way
        lsr a
        lsr a
        clc
        adc #48
        sta spd
        ldx vel
        bmi :+
        eor #$FFFF
        inc a
:       sta vel
        lda spd
        lsr a
        lsr a
        sta quarter
        stz av
        stz slide
        lda #BOUNCE
        sta coll
        rts
.endproc

; X = twice the code of the surface under the kart.
.proc surface
        lda py
        and #$FE00              ; the tile's row, times 128
        lsr a
        lsr a
        sta t0
        lda px
        xba
        lsr a
        and #$007F
        ora t0
        tax
        lda f:BLOCK,x
        and #$00FF
        tax
        lda f:BLOCK_SURFACES,x
        and #$001F
        asl a
        tax
        rts
.endproc

.proc speed_up
        lda #BOOST_TICKS
        sta boost
        bra section
.endproc

.proc jump
        lda spd
        cmp #96
        bcc section
        lda #JUMP_SPEED
        sta hopv
        stz slide
        bra section
.endproc

; The section of the field under the kart: take it as the new one if it is the next or the one before.
.proc section
        lda py
        and #$FC00              ; the field's row, times 64
        lsr a
        lsr a
        lsr a
        lsr a
        sta t0
        lda px
        xba
        lsr a
        lsr a
        and #$003F
        ora t0
        tax
        lda f:BLOCK_SECTIONS,x
        and #$003F
        sec
        sbc cp
        beq done
        bpl :+
        clc
        adc nsect
:       ldx finished
        bne done
        cmp #AHEAD + 1
        bcc forward
        clc
        adc #AHEAD
        cmp nsect
        bcc done                ; far away: cutting across gains nothing
        dec driven
        lda cp                  ; back
        dec a
        bpl :+
        lda nsect
        dec a
:       sta cp
        dec sic
        bpl done
        lda nsect
        dec a
        sta sic
        dec lapn
done:   rts
forward:
        inc driven
        lda cp
        inc a
        cmp nsect
        bcc :+
        lda #0
:       sta cp
        lda sic
        inc a
        cmp nsect
        bcc :+
        lda #0
:       sta sic
        bne done
        inc lapn
        lda lapn
        bmi done
        cmp maxlap
        beq done
        bcc done
        sta maxlap
        cmp #LAPS
        bcc :+
        ldx #1
        stx finished
:       lda tickno
        sec
        sbc lapstart
        sta lastlap
        ldx tickno
        stx lapstart
        ldx bestlap
        beq :+
        cmp bestlap
        bcs done
:       sta bestlap
        rts
.endproc

; Count the ticks driven against the direction of the section's gate.
.proc wrong_way
        lda vel
        bmi right
        cmp #64
        bcc right
        sep #$20
        .a8
        ldx cp
        lda dir + 1
        sec
        sbc f:BLOCK_GATE_ANGLE,x
        bpl :+
        eor #$FF
        inc a
:       cmp #WRONG_ANGLE
        rep #$20
        .a16
        bcc right
        lda wrong
        cmp #WRONG_TICKS
        bcs :+
        inc wrong
:       rts
right:  stz wrong
        rts
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
        lda fallt
        cmp #FALL_TICKS + CARRY_TICKS
        bcs there
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
there:  lda t1
        sta px
        lda t2
        sta py
        lda t3
        sta heading
        sta dir
        stz fate
        stz surf
        rts
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
        lda px                  ; column and row of the tile, a byte each, as in the list
        xba
        lsr a
        and #$007F
        sta t0
        lda py
        lsr a
        and #$7F00
        ora t0
        sta t0
        lda coinend
        beq over
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
        bra over                ; a coin's tile without a coin
found:  sty coinlast
        lda [coinptr],y
        sta t0
        and #$7F00
        lsr a
        sta t1
        lda t0
        and #$007F
        ora t1
        tax                     ; the tile's place in the map
        sty t2
        iny
        iny
        sep #$20
        .a8
        stz VMAIN
        lda #1
        phy
        ldy t2
        sta coin_was + 4,y
        ply
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
        inc coins
        jsr count_coins
        jsr surface
        stx surf
over:   jmp section
two:    .a8
        stx VMADDL
        jsr one
one:    lda f:BLOCK,x
        sta coin_was - 2,y
        lda [coinptr],y
        sta f:BLOCK,x
        sta VMDATAL
        inx
        iny
        rts
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
        lda [coinptr],y
        sta t0
        and #$7F00
        lsr a
        sta t1
        lda t0
        and #$007F
        ora t1
        tax
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
        lda t2
        bra next
done:   rts
two:    .a8
        stx VMADDL
        jsr one
one:    lda coin_was,y
        sta f:BLOCK,x
        sta VMDATAL
        inx
        iny
        rts
.endproc
