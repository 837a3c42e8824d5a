; One tick of the kart: steering, hop and slide, speed, grip.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "math.inc"
.export tick
.import move, wrong_way, put_back, gain_table, accel_table, surf_top, surf_drag, surf_grip

TOP_SLIDE   = 640               ; fastest, 1/256 pixel a tick
TOP_BOOST   = 1000
BOOST_STEP  = 24
FIRM_TOP    = 512               ; where a kart can go so fast, slides, wheels and coins change how fast
TURN_COST   = 48                ; what full lock takes from the fastest
REVERSE     = 96
AV_MAX      = 224
AV_STEP     = 16
AV_BACK     = 32                ; against the way the wheels still turn
AV_CENTRE   = 24
HOP_SPEED   = 40
HOP_GRAVITY = 6

.segment "CODE"
.a16
.i16
.proc tick
        inc tickno
        lda prev
        eor #$FFFF
        and joy
        sta pressed
        lda joy
        sta prev
        ldx fate
        beq :+
        jsr put_back
        jmp rest
:       ldx boost
        beq :+
        dec boost
:       ldx coll
        beq :+
        dec coll                ; thrown back: the driver only holds on
        lda #0
:       ldx finished
        beq :+
        lda #0
:       sta pad
        jsr steer
        jsr turn
        jsr hop
        lda hopv
        ora hoph
        bne :+                  ; in the air: neither drive nor drag
        jsr throttle
:       jsr grip
        jsr move
rest:   ldx finished
        bne :+
        inc clkticks
:       jmp wrong_way
.endproc

; Build up or take back the turn of the wheels.
.proc steer
        lda pad
        bit #PAD_LEFT
        bne left
        bit #PAD_RIGHT
        bne right
        lda av
        bmi :+
        sec
        sbc #AV_CENTRE
        bpl store
        stz av
        rts
:       clc
        adc #AV_CENTRE
        bmi store
        stz av
        rts
left:   lda av
        bmi :+
        beq :+
        sec
        sbc #AV_BACK
        bra store
:       sec
        sbc #AV_STEP
        cmp #.loword(-AV_MAX)
        bpl store
        lda #.loword(-AV_MAX)
        bra store
right:  lda av
        bpl :+
        clc
        adc #AV_BACK
        bra store
:       clc
        adc #AV_STEP
        cmp #AV_MAX
        bmi store
        lda #AV_MAX
store:  sta av
        rts
.endproc

; Turn the kart: |av| times a gain that depends on the speed.
.proc turn
        lda av
        bne :+
        rts
:       bpl :+
        negate
:       ldx quarter
        sep #$20
        .a8
        sta WRMPYA
        lda gain_table,x
        sta WRMPYB
        rep #$20                ; the product is there after eight cycles
        .a16
        ldx hoph
        ldy slide
        lda RDMPYL
        xba
        and #$00FF
        cpx #0
        bne :+                  ; in the air half of it
        asl a
:       cpy #0
        beq :+
        sta t0                  ; a slide turns half as much again
        lsr a
        clc
        adc t0
:       ldx av
        absolute
        clc
        adc heading
        sta heading
        rts
.endproc

; Hop on L or R; landing with the button still held and the wheels turned begins a slide.
.proc hop
        lda hoph
        ora hopv
        bne flying
        lda pressed
        and pad
        and #PAD_LR
        beq ground
        lda spd
        cmp #96
        bcc ground
        lda #HOP_SPEED
        sta hopv
        stz slide
        rts
ground: lda slide
        beq done
        lda pad
        and #PAD_LR
        beq over
        lda spd
        cmp #192
        bcs done
over:   stz slide
done:   rts
flying: lda hopv
        sec
        sbc #HOP_GRAVITY
        sta hopv
        clc
        adc hoph
        sta hoph
        beq landed
        bpl done
landed: stz hoph
        stz hopv
        lda pad
        and #PAD_LR
        beq done
        lda av
        clc
        adc #48
        cmp #97
        bcc done                ; wheels about straight
        lda #1
        sta slide
        rts
.endproc

; Accelerate, brake, roll; the fastest depends on the ground, a slide, the wheels and the coins.
.proc throttle
        ldy surf
        lda surf_drag,y
        sta t1                  ; slowing down to it: this much a tick
        lda surf_top,y
        cmp #FIRM_TOP
        bcc set
        ldx slide
        beq :+
        cmp #TOP_SLIDE
        bcc :+
        lda #TOP_SLIDE
:       clc
        adc cointop
        sta t0
        lda av
        clc
        adc #192
        cmp #385
        bcc :+
        lda t0
        sbc #TURN_COST          ; carry is set
set:    sta t0
:       lda boost
        beq :+
        lda #TOP_BOOST
        sta t0
        lda vel
        bmi :+
        clc
        adc #BOOST_STEP
        cmp t0
        bcc store
        lda t0
        bra store
:
        lda pad
        bmi drive
        bit #PAD_Y
        bne brake
        lda vel
        bmi backs
        sec
        sbc #4
        bpl limit
        lda #0
        bra limit
backs:  clc
        adc #4
        bmi limit
        lda #0
        bra limit
brake:  lda vel
        bmi back
        beq back
        sec
        sbc #20
        bpl limit
        lda #0
        bra limit
back:   sec
        sbc #4
        cmp #.loword(-REVERSE)
        bpl store
        lda #.loword(-REVERSE)
        bra store
drive:  lda vel
        bpl :+
        clc
        adc #32
        bra store
:       cmp t0
        bcs limit
        ldx quarter
        lda accel_table,x
        and #$00FF
        clc
        adc vel
        cmp t0
        bcc store
        lda t0
        bra store
limit:  cmp t0                  ; backwards is "above", but never meets the test below
        bmi store
        sec
        sbc t1
        cmp t0
        bpl store
        lda t0
store:  sta vel
        rts
.endproc

; The way it moves follows the way it points, by a share of 1 / 2^grip; slowly in a slide and where it is slippery.
.proc grip
        lda spd
        cmp #64
        bcc slow
        ldx surf
        lda surf_grip,x
        ldx slide
        beq :+
        cmp #6
        bcs :+
        lda #6                  ; in a slide an eighth at most
:       tax
        lda heading
        sec
        sbc dir
        jmp (shares,x)
thirtysecond:
        cmp #$8000
        ror a
sixteenth:
        cmp #$8000
        ror a
eighth: cmp #$8000
        ror a
quarter_of:
        cmp #$8000
        ror a
half:   cmp #$8000
        ror a
all:    clc
        adc dir
        sta dir
        rts
slow:   lda heading
        sta dir
        rts
shares: .addr all, half, quarter_of, eighth, sixteenth, thirtysecond, thirtysecond, thirtysecond
.endproc
