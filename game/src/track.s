; Where the kart is: moving, walls, sections, laps, wrong way.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "math.inc"
.include "params.inc"
.export move, section, surface, surface_under, wrong_way
.import sine_table, surf_effect, fall, lava, water, speed_up, jump, coin

LAPS        = 5
WRONG_ANGLE = 80                ; of 128: how far off the gate's direction counts
AHEAD       = 3                 ; a section this near is reached one by one, a farther one not at all
BOUNCE      = 7                 ; ticks

.segment "CODE"
.a16
.i16

; Move by the velocity; a wall undoes it and throws back.
.proc move
        lda vel
        absolute
        sta spd
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
        product dir, vel
        sta spx
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
        product t0, vel
        sta spy
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
        negate
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
        ldy px
        lda py
under:  and #$FE00              ; the tile's row, times 128
        lsr a
        lsr a
        sta t0
        tya
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
surface_under = surface::under  ; the same under the place (Y, A)

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
        absolute
        cmp #WRONG_ANGLE
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
