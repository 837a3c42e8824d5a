; Where the kart is: moving, walls, sections, laps, wrong way, the clock.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.export move, clock, wrong_way, find_cell
.import sine_table

LAPS        = 5
WRONG_TICKS = 24                ; this long against the gates means the wrong way
WRONG_ANGLE = 80                ; of 128: how far off the gate's direction counts
AHEAD       = 3                 ; a section this near is reached one by one, a farther one not at all
BOUNCE      = 7                 ; ticks

.segment "CODE"
.a16
.i16

; A = angle: A = vel * sin(angle). |vel| / 4 must already be in WRPMYA.
.proc velocity
        sta t0
        eor vel
        sta t1                  ; bit 15: sign of the result
        lda t0
        lsr a
        lsr a
        lsr a
        lsr a
        lsr a
        lsr a
        and #$03FF              ; 1024 steps a turn
        tax
        sep #$20
        .a8
        lda sine_table,x
        sta WRMPYB
        rep #$20
        .a16
        nop
        nop
        nop
        lda RDMPYL
        lsr a
        lsr a
        lsr a
        lsr a
        lsr a
        lsr a
        ldx t1
        bpl :+
        eor #$FFFF
        inc a
:       rts
.endproc

; A = section | surface of the cell under the kart.
.proc find_cell
        lda ypos
        and #$03F8
        asl a
        asl a
        asl a
        asl a
        sta t0
        lda xpos
        and #$03FF
        lsr a
        lsr a
        lsr a
        ora t0
        tay
        lda [cellptr],y
        and #$00FF
        rts
.endproc

; Move by the velocity; a wall undoes it and throws back.
.proc move
        lda vel
        bpl :+
        eor #$FFFF
        inc a
:       sta spd
        lsr a
        lsr a
        sep #$20
        sta WRMPYA
        rep #$20
        lda dir
        jsr velocity
        sta spx
        lda dir
        sec
        sbc #$4000              ; -cos a = sin(a - 90 degrees)
        jsr velocity
        sta spy
        lda xfrac
        sta oldpos
        lda xpos
        sta oldpos + 2
        lda yfrac
        sta oldpos + 4
        lda ypos
        sta oldpos + 6
        ; 24-bit additions: the sign of the velocity goes into the upper byte
        lda xfrac
        clc
        adc spx
        sta xfrac
        sep #$20
        .a8
        lda spx + 1
        bmi :+
        lda xpos + 1
        adc #0
        bra :++
:       lda xpos + 1
        adc #$FF
:       sta xpos + 1
        rep #$20
        .a16
        lda yfrac
        clc
        adc spy
        sta yfrac
        sep #$20
        .a8
        lda spy + 1
        bmi :+
        lda ypos + 1
        adc #0
        bra :++
:       lda ypos + 1
        adc #$FF
:       sta ypos + 1
        rep #$20
        .a16
        jsr find_cell
        bit #SURF_WALL
        bne wall
        stz grass
        bit #SURF_GRASS
        beq :+
        inc grass
:       jmp section
wall:   lda oldpos
        sta xfrac
        lda oldpos + 2
        sta xpos
        lda oldpos + 4
        sta yfrac
        lda oldpos + 6
        sta ypos
        lda spd                 ; a quarter of the speed, and a little, the other way
        lsr a
        lsr a
        clc
        adc #48
        ldx vel
        bmi :+
        eor #$FFFF
        inc a
:       sta vel
        stz av
        stz slide
        lda #BOUNCE
        sta coll
        rts
.endproc

; A = section | surface: take it as the new section if it is the next or the one before.
.proc section
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
        ldy cp
        lda dir + 1
        sec
        sbc [gateptr],y
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

; 5/3 hundredths of a second a tick.
.proc clock
        lda finished
        bne done
        ldx #1
        lda clkfrac
        clc
        adc #2
        cmp #3
        bcc :+
        sbc #3
        inx
:       sta clkfrac
        sep #$28                ; 8 bits, decimal
        .a8
        clc
        txa
        adc clk_cs
        sta clk_cs
        bcc over
        lda clk_s
        adc #0                  ; carry is set
        cmp #$60
        bcc :+
        inc clk_m
        lda #0
:       sta clk_s
over:   rep #$28
        .a16
done:   rts
.endproc
