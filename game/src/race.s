; The race's start at a gate, and the copy of its state to the agreed addresses.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "math.inc"
.include "params.inc"
.export place_kart, publish_early, publish
.import clock_table, to_gate, restore_coins, surf_type

CARRIED     = 4
WRONG_WAY   = 16
FINISHED    = 64

.segment "CODE"
.a16
.i16

; A = gate: a new race from there, standing.
.proc place_kart
        sta cp
        ldx #joy
:       stz 0,x                 ; the private state but for the place
        inx
        inx
        cpx #race_end
        bne :-
        stz coinlast
        stz others              ; they are placed anew
        stz touched
        jsr to_gate
        jsr restore_coins
        stz tickno
        stz bestlap
        stz lastlap
        stz lapstart
        stz maxlap
        sep #$20
        .a8
        stz clk_cs
        stz clk_s
        stz clk_m
        lda nsect
        sta checknum
        rep #$20
        .a16
        rts
.endproc

; The clock's next second.
.proc second
        sep #$28                ; 8 bits, decimal
        .a8
        lda clk_s
        clc
        adc #1
        cmp #$60
        bcc :+
        inc clk_m
        lda #0
:       sta clk_s
        rep #$28
        .a16
        rts
.endproc

; What the picture needs of the published state: place, camera, clock.
.proc publish_early
        lda px
        halve 6
        sta xpos
        lda py
        halve 6
        sta ypos
        ; the clock: whole seconds move on in BCD, the rest comes from a table
        lda clkticks
:       cmp #60
        bcc :+
        sbc #60
        sta clkticks
        jsr second
        lda clkticks
        bra :-
:       tax
        sep #$20
        .a8
        lda clock_table,x
        sta clk_cs
        lda heading + 1
        sta camera
        rep #$20
        .a16
        lda vel
        absolute
        sta spd
        rts
.endproc

; Copy what has changed to where others read it.
.proc publish
        lda heading
        sta w_kartangle
        lda spd
        sta w_speed
        lda spx                 ; published as 1/256 pixel
        asl a
        asl a
        sta w_speedx
        lda spy
        asl a
        asl a
        sta w_speedy
        lda hoph
        sta w_hop
        lda av                  ; av / 32, towards zero
        bpl :+
        clc
        adc #31
:       cmp #$8000
        ror a
        cmp #$8000
        ror a
        cmp #$8000
        ror a
        cmp #$8000
        ror a
        cmp #$8000
        ror a
        sep #$20
        .a8
        sta w_av
        lda coll
        sta w_coll
        lda touched
        sta w_touched
        lda coins
        sta w_coins
        ldx surf
        lda surf_type,x
        sta w_ground
        lda boost               ; 12 to 27
        beq :+
        lsr a
        lsr a
        clc
        adc #12
:       sta w_control
        lda fate
        bne :+
        lda hoph
        ora hoph + 1
        beq :+
        lda #2
:       sta w_status
        lda cp
        sta w_check
        lda maxlap
        clc
        adc #128
        sta w_lapmax
        lda lapn
        ldx lapn
        bpl :+
        lda #0
:       clc
        adc #128
        sta w_lap
        lda #FINISHED
        ldx finished
        bne shown
        lda #CARRIED
        ldx fate
        beq :+
        ldx fallt
        cpx #FALL_TICKS
        bcs shown
:       lda #WRONG_WAY
        ldx wrong
        cpx #WRONG_TICKS
        bcs shown
        lda #0
shown:  sta lakitu
        rep #$20
        .a16
        rts
.endproc
