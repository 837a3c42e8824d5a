; Karts that touch: the kart and an opponent, or two opponents. They are pushed apart, and who is behind gives speed to who is ahead.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "math.inc"
.include "params.inc"
.export collide, meet
.import surface, surface_under, sine_table, surf_effect

REACH       = 1184              ; 1/64 pixel: farther apart in x or y they cannot touch
LONG        = 112               ; 1/8 pixel: nearer than this along and aside they touch
WIDE        = 96
MOST_PUSH   = 128               ; in a tick, 1/64 pixel
ABOVE       = 160               ; 1/16 pixel: higher than from a hop, a kart flies over the others
DODGE       = 256               ; how far who is behind moves aside, 1/64 pixel
MOST_SIDE   = 31 * 64           ; 1/64 pixel
MOST_STEP   = $1FFF
FASTEST     = 1000              ; 1/256 pixel a tick
BACKWARDS   = 512

.segment "CODE"
.a16
.i16

; A tick of the kart: it touches one opponent at most. Which one is looked at first changes, so that none waits for long.
.proc collide
        lda touched
        beq :+
        dec touched
:       lda others
        bit #$0080
        bne none
        and #MOST_OTHERS
        beq none
        sta pending
        lda fate
        bne none
        lda hoph
        cmp #ABOVE
        bcs none
        lda tickno
        and #MOST_OTHERS
        asl a
        asl a
        asl a
each:   cmp others_end
        bcc :+
        lda #0
:       tax
        lda opp_px,x
        sec
        sbc px
        sta dx
        clc
        adc #REACH
        cmp #2 * REACH
        bcs next
        lda opp_py,x
        sec
        sbc py
        sta dy
        clc
        adc #REACH
        cmp #2 * REACH
        bcc near
next:   txa
        clc
        adc #8
        dec pending
        bne each
none:   rts
near:   stx which
        jsr measure
        bcc :+
        ldx which
        bra next
:       ldy #TOUCH_TICKS
        sty touched
        cpx #0
        bne :+
        jsr push_aside
        jsr shove
        bra yield
:       jsr push_back
        jsr yield
        jmp exchange
; the kart gives way by (dx, dy), but not into a wall
yield:  lda px
        pha
        sec
        sbc dx
        sta px
        lda py
        pha
        sec
        sbc dy
        sta py
        jsr surface
        lda surf_effect,x
        cmp #2 * EFFECT_WALL
        beq wall
        pla
        pla
        rts
wall:   pla
        sta py
        pla
        sta px
        rts
.endproc

; Where the opponent `which` is, seen from the other kart, along its own way and to the right of it. Carry: they do not
; touch; else X = 0 where they touch with their sides, and A = how deep, 1/8 pixel.
.proc measure
        ldx which
        lda opp_angle,x
        sta t2                  ; sign of the sine, in bit 15
        clc
        adc #$4000
        sta t3                  ; and of the cosine
        sep #$20
        .a8
        lda #0
        xba
        lda t2 + 1
        tax
        lda sine_table,x
        sta t0
        lda t3 + 1
        tax
        lda sine_table,x
        sta t1
        rep #$20
        .a16
        lda dx
        jsr factor
        times t0
        product dx, t2
        sta along
        times t1
        product dx, t3
        sta aside
        lda dy
        jsr factor
        times t0
        product dy, t2
        clc
        adc aside
        sta aside
        times t1
        product dy, t3
        eor #$FFFF
        sec
        adc along
        sta along
        absolute
        eor #$FFFF
        sec
        adc #LONG
        bmi apart
        sta t4
        lda aside
        absolute
        eor #$FFFF
        sec
        adc #WIDE
        bmi apart
        ldx #0
        cmp t4
        bcc :+
        lda t4
        inx
:       clc
        rts
apart:  sec
        rts
factor: absolute                ; of what was loaded last
        lsr a
        lsr a
        lsr a
        sep #$20
        .a8
        sta WRMPYA
        rep #$20
        .a16
        rts
.endproc

; dx, dy = what pushes the opponent away from the other, A / 8 pixels deep, to its side; t6 = so far to the right
.proc push_aside
        asl a                   ; half of it for each
        asl a
        jsr at_most
        ldx aside
        stx t5
        times t1
        product t5, t3
        sta dx
        times t0
        product t5, t2
        sta dy
        lda t6
        bit t5
        bpl :+
        negate
:       sta t6
        rts
.endproc

; dx, dy = what separates the other from the opponent, A / 8 pixels deep, along its way
.proc push_back
        asl a
        asl a
        asl a
        jsr at_most
        ldx along
        stx t5
        times t0
        product t5, t2
        sta dx
        times t1
        product t5, t3
        negate
        sta dy
        rts
.endproc

.proc at_most
        cmp #MOST_PUSH
        bcc :+
        lda #MOST_PUSH
:       sta t6
        sep #$20
        .a8
        sta WRMPYA
        rep #$20
        .a16
        rts
.endproc

; The opponent `which` is pushed by (dx, dy), t6 to the right: not into a wall, nor to where one falls.
.proc shove
        ldx which
        lda opp_px,x
        clc
        adc dx
        sta t8
        lda opp_py,x
        clc
        adc dy
        sta t9
        ldy t8
        jsr surface_under
        lda surf_effect,x
        ldx which
        dec a
        cmp #2 * EFFECT_WATER
        bcc done
        lda t8
        sta opp_px,x
        lda t9
        sta opp_py,x
        lda t6
        jmp move_aside
done:   rts
.endproc

; The opponent X drives A farther to the right from now on.
.proc move_aside
        clc
        adc opp_side,x
        bmi left
        cmp #MOST_SIDE
        bcc set
        lda #MOST_SIDE
        bra set
left:   cmp #.loword(-MOST_SIDE)
        bcs set
        lda #.loword(-MOST_SIDE)
set:    sta opp_side,x
        rts
.endproc

; Who is behind moves aside: the opponent X, which is to the right of the other where `aside` is positive.
.proc dodge
        lda #DODGE
        bit aside
        bpl :+
        negate
:       jmp move_aside
.endproc

; The kart and the opponent `which` have met with their ends: three quarters of the speed at which they closed goes from who
; is behind to who is ahead.
.proc exchange
        ldx which
        lda dir                 ; how much of the kart's way is the opponent's: the cosine between them
        sec
        sbc opp_angle,x
        clc
        adc #$4000
        sta t5                  ; its sign, in bit 15
        sep #$20
        .a8
        lda #0
        xba
        lda t5 + 1
        tay
        lda quarter
        sta WRMPYA
        lda sine_table,y
        sta t6
        sta WRMPYB
        rep #$20
        .a16
        lda vel
        eor t5
        tay
        lda RDMPYL
        halve 6
        cpy #$8000
        bcc :+
        negate
:       sta t7                  ; the kart's speed along the opponent's way
        lda opp_step,x
        halve 5
        sep #$20
        .a8
        sta WRMPYA
        rep #$20
        .a16
        times sectpx
        nop
        nop
        lda RDMPYL              ; the opponent's
        lsr a
        lsr a
        lsr a
        sec
        sbc t7
        bit along
        bmi :+
        negate
:       cmp #0
        beq :+
        bpl :++
:       rts
:       cmp #1024
        bcc :+
        lda #1023
:       three_quarters t8
        asl a                   ; as a step: by the length of a section
        asl a
        asl a
        asl a
        asl a
        asl a
        sta WRDIVL
        sep #$20
        .a8
        lda sectpx
        sta WRDIVB
        rep #$20
        .a16
        lda t8                  ; sixteen cycles
        lsr a
        lsr a
        tay
        nop
        nop
        lda RDDIVL
        asl a
        asl a
        bit along
        bmi behind
        clc
        adc opp_step,x
        cmp #MOST_STEP
        bcc :+
        lda #MOST_STEP
:       sta opp_step,x
        bra kart
behind: sta t9
        lda opp_step,x
        sec
        sbc t9
        bcs :+
        lda #0
:       sta opp_step,x
        phy
        jsr dodge
        ply
kart:   tya                     ; and the kart, by what of it goes its way
        sep #$20
        .a8
        sta WRMPYA
        rep #$20
        .a16
        times t6
        lda t5
        eor along
        tay
        lda RDMPYL
        halve 6
        cpy #$8000
        bcs :+
        negate                  ; it is behind
:       clc
        adc vel
        bmi back
        cmp #FASTEST
        bcc set
        lda #FASTEST
        bra set
back:   cmp #.loword(-BACKWARDS)
        bcs set
        lda #.loword(-BACKWARDS)
set:    sta vel
        rts
.endproc

; X = the opponent `which`, which touches one of the others at most: both move aside, or speed goes from who is behind to
; who is ahead.
.proc meet
        ldy which
        ldx #0
each:   cpx which
        beq next
        lda opp_px,y
        sec
        sbc opp_px,x
        sta dx
        clc
        adc #REACH
        cmp #2 * REACH
        bcs next
        lda opp_py,y
        sec
        sbc opp_py,x
        sta dy
        clc
        adc #REACH
        cmp #2 * REACH
        bcc near
next:   txa
        clc
        adc #8
        tax
        cpx others_end
        bcc each
        tyx
        rts
near:   stx pending
        jsr measure
        bcc :+
        ldx pending
        ldy which
        bra next
:       cpx #0
        bne ends
        asl a                   ; half of it for each, 1/64 pixel
        asl a
        bit aside
        bpl :+
        negate
:       sta t6
        ldx which
        jsr move_aside
        lda t6
        negate
        ldx pending
        jsr move_aside
        bra done
ends:   ldx which               ; X behind, Y ahead
        ldy pending
        bit along
        bmi :+
        txa
        tyx
        tay
:       lda opp_step,x
        sec
        sbc opp_step,y
        bcc done
        three_quarters t8
        lda opp_step,x
        sec
        sbc t8
        sta opp_step,x
        lda opp_step,y
        clc
        adc t8
        cmp #MOST_STEP
        bcc :+
        lda #MOST_STEP
:       sta opp_step,y
        cpx which               ; `aside` is that of `which`
        beq :+
        lda aside
        eor #$FFFF
        sta aside
:       jsr dodge
done:   ldx which
        rts
.endproc
