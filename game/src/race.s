; The race's start at a gate, and the copy of its state to the agreed addresses.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "params.inc"
.export place_kart, publish
.import find_cell

ROAD_TYPE   = 64
GRASS_TYPE  = 84
WRONG_WAY   = 16
FINISHED    = 64

.segment "CODE"
.a16
.i16

; A = gate: a new race from there, standing.
.proc place_kart
        sta cp
        ldx #joy
:       stz 0,x                 ; the private state from joy up to spy
        inx
        inx
        cpx #oldpos
        bne :-
        lda gateptr + 2         ; the gates' x and y lie before their angles
        sta t0 + 2
        lda #DATA_GATE_X
        sta t0
        lda cp
        asl a
        tay
        lda [t0],y
        sta xpos
        lda #DATA_GATE_Y
        sta t0
        lda [t0],y
        sta ypos
        ldy cp
        lda [gateptr],y
        and #$00FF
        xba
        sta heading
        sta dir
        stz tickno
        stz bestlap
        stz lastlap
        stz lapstart
        stz maxlap
        sep #$20
        .a8
        stz xfrac
        stz yfrac
        stz clk_cs
        stz clk_s
        stz clk_m
        lda #128 + 5
        sta w_lapmax
        lda nsect
        sta checknum
        rep #$20
        .a16
        rts
.endproc

; Copy what has changed to where others read it.
.proc publish
        lda heading
        sta w_kartangle
        lda vel
        bpl :+
        eor #$FFFF
        inc a
:       sta spd
        sta w_speed
        lda spx
        sta w_speedx
        lda spy
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
        lda heading + 1
        sta camera
        lda coll
        sta w_coll
        lda #ROAD_TYPE
        ldx grass
        beq :+
        lda #GRASS_TYPE
:       sta w_ground
        lda #0
        ldx hoph
        beq :+
        lda #2
:       sta w_status
        lda cp
        sta w_check
        lda lapn
        ldx lapn
        bpl :+
        lda #0
:       clc
        adc #128
        sta w_lap
        lda #FINISHED
        ldx finished
        bne :+
        lda #WRONG_WAY
        ldx wrong
        cpx #24
        bcs :+
        lda #0
:       sta lakitu
        rep #$20
        .a16
        rts
.endproc
