; What a scripted opponent decides: how fast it drives, and where to.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "math.inc"
.include "params.inc"
.export start_there, decide, take_coins, take_seen
.import take_coin, surface_under, meet, sine_table, half_square, surf_top, surf_share, surf_effect

AT_ONCE     = 8                 ; ticks from one decision to the next
FASTER      = 48                ; how fast an opponent's step changes in a tick
SLOWER      = 64
MOST_STEP   = $1FFF
MOST_BEND   = 96
FIRM_TOP    = 512               ; slower ground slows opponents
HOMEWARD    = 96                ; how fast it goes back to its place beside the middle, 1/64 pixel
MOST_COINS_HELD = 10

.segment "CODE"
.a16
.i16

; The opponent X decides for the next ticks: its speed, and the velocity that takes it to its place in eight ticks.
.proc decide
        stx which
        ldy opp_px,x
        lda opp_py,x
        jsr surface_under
        lda surf_effect,x
        cmp #2 * EFFECT_COIN
        bne :+
        inc coin_seen           ; its tiles can change in the dark only
        ldy which
        lda opp_px,y
        sta coin_x
        lda opp_py,y
        sta coin_y
:       stz t9
        lda surf_top,x
        cmp #FIRM_TOP
        bcs :+
        lda surf_share,x
        sta t9
:       jsr bend
        ldy t9
        beq firm
        lsr a                   ; off the road: its share of the speed
        lsr a
        lsr a
        lsr a
        lsr a
        sep #$20
        .a8
        sta WRMPYA
        rep #$20
        .a16
        times t9
        nop
        nop
        lda RDMPYL
        lsr a
        lsr a
        lsr a
firm:   sta t9
        lda opp_step,x
        cmp t9
        bcs slower
        adc #AT_ONCE * FASTER
        cmp t9
        bcc set
limit:  lda t9
        bra set
slower: sbc #AT_ONCE * SLOWER
        bcc limit
        cmp t9
        bcc limit
set:    sta opp_step,x
        lda opp_side,x          ; back to its place beside the middle
        sec
        sbc homes,x
        bmi left
        cmp #HOMEWARD
        bcc there
        lda opp_side,x
        sbc #HOMEWARD           ; carry is set
        bra beside
left:   cmp #.loword(-HOMEWARD)
        bcs there
        lda opp_side,x
        adc #HOMEWARD           ; no carry
        bra beside
there:  lda homes,x
beside: sta opp_side,x
        jsr meet
        lda opp_step,x          ; where it will be at its next decision
        asl a
        asl a
        asl a
        clc
        adc opp_part,x
        sta t3
        lda opp_sect,x
        adc #0
        cmp nsect
        bcc :+
        lda #0
:       jsr target
        ldy dx                  ; not where it would hit or fall: there it keeps to the middle
        lda dy
        jsr surface_under
        lda surf_effect,x
        ldx which
        dec a
        cmp #2 * EFFECT_WATER
        bcs free
        lda opp_side,x
        cmp #$8000
        ror a
        sta opp_side,x
        lda t6
        sta dx
        lda t7
        sta dy
free:   lda dx
        sec
        sbc opp_px,x
        jsr eighth
        sta opp_vx,x
        lda dy
        sec
        sbc opp_py,x
        jsr eighth
        sta opp_vy,x
        rts
eighth: cmp #$8000
        ror a
        cmp #$8000
        ror a
        cmp #$8000
        ror a
        rts
.endproc

; The opponent X takes the coin that it is on.
.proc take_coins
        stx which
        ldy opp_px,x
        lda opp_py,x
        jsr surface_under
        lda surf_effect,x
        cmp #2 * EFFECT_COIN
        beq :+
        rts
:       ldx which
        ldy opp_px,x
        lda opp_py,x
there:  stx which
        jsr take_coin
        bcc done
        ldx which
        lda opp_coins,x
        cmp #MOST_COINS_HELD
        bcs done
        inc opp_coins,x
        lda opp_base,x
        adc coin_step           ; no carry
        sta opp_base,x
done:   rts
.endproc
take_seen = take_coins::there   ; the one at (Y, A)

; The race begins: the opponent `which` is where it should be.
.proc start_there
        ldx which
        lda homes,x
        sta opp_side,x
        lda opp_part,x
        sta t3
        lda opp_sect,x
        phx
        jsr target
        plx
        lda dx
        sta opp_px,x
        lda dy
        sta opp_py,x
        lda opp_turned,x
        sta opp_angle,x
        rts
.endproc

; X = the opponent `which`, A = how fast it drives in its section: slower where the next gate turns.
.proc bend
        ldx which
        ldy opp_sect,x
        tyx
        lda f:BLOCK_GATE_ANGLE,x
        xba
        and #$FF00
        sta t1
        inx
        cpx nsect
        bcc :+
        ldx #0
:       lda f:BLOCK_GATE_ANGLE,x
        xba
        and #$FF00
        sec
        sbc t1
        absolute
        xba
        and #$00FF
        cmp #MOST_BEND
        bcc :+
        lda #MOST_BEND
:       ldx which
        sep #$20
        .a8
        sta WRMPYA
        rep #$20
        .a16
        lda opp_base,x
        cmp #MOST_STEP
        bcc :+
        lda #MOST_STEP
:       sta t1
        halve 5
        sep #$20
        .a8
        sta WRMPYB
        rep #$20
        .a16
        nop
        nop
        lda RDMPYL
        lsr a
        lsr a
        lsr a
        eor #$FFFF
        sec
        adc t1
        rts
.endproc

; Where the opponent `which` should be at the share t3 of the section A: on a curve through the middles between the gates,
; drawn by the gates, and beside it. dx, dy = that, t6, t7 = on the curve, 1/64 pixel; and its angle.
.macro weighed gate, weight
        ldx gate
        lda f:gates,x
        sec
        sbc t4
        sta t6
        bcs :+
        negate
:       sep #$20
        .a8
        sta WRMPYA
        lda weight
        sta WRMPYB
        rep #$21                ; the product is there after eight cycles
        .a16
        nop
        lda RDMPYL
        adc #$0080
        xba
        and #$00FF
        bit t6
        bpl :+
        negate
:
.endmacro
.macro curve list, place
        .define gates list
        ldx t0
        lda f:gates,x
        sta t4
        weighed t1, t8
        clc
        adc t4
        sta t5
        weighed t2, t9
        clc
        adc t5
        asl a                   ; 1/64 pixel
        asl a
        asl a
        asl a
        asl a
        asl a
        sta place
        .undefine gates
.endmacro
.proc target
        asl a
        sta t0                  ; its gate
        dec a
        dec a
        bpl :+
        lda nsect
        dec a
        asl a
:       sta t1                  ; the one behind
        lda t0
        lsr a
        inc a
        cmp nsect
        bcc :+
        lda #0
:       asl a
        sta t2                  ; the one ahead
        lda t3
        xba
        and #$00FF
        sta t3
        tax
        lda half_square,x
        sta t9                  ; weight of the gate ahead
        txa
        eor #$00FF
        tax
        lda half_square,x
        sta t8                  ; of the gate behind
        curve BLOCK_GATE_X, dx
        curve BLOCK_GATE_Y, dy
        ; the angle, between those of the gates behind and ahead
        lda t0
        lsr a
        tax
        lda f:BLOCK_GATE_ANGLE,x
        sta t4
        lda t1
        lsr a
        tax
        lda f:BLOCK_GATE_ANGLE,x
        sta t5
        lda t2
        lsr a
        tax
        sep #$20
        .a8
        lda f:BLOCK_GATE_ANGLE,x
        sec
        sbc t5                  ; the turn over two sections
        sta t6
        absolute
        sta WRMPYA
        lda t3
        eor #$80                ; how far from the middle, -128 to 127
        absolute
        sta WRMPYB
        lda t3
        eor #$80
        eor t6
        sta t6                  ; the sign of the product
        rep #$20
        .a16
        lda t4
        and #$00FF
        xba
        sta t4
        lda RDMPYL
        lsr a
        ldx which
        bit t6 - 1              ; bit 15 is bit 7 of t6
        absolute
        clc
        adc t4
        sta opp_turned,x
        ; beside the curve: right is (cos, sin)
        sta t4
        clc
        adc #$4000
        sta t8
        lda dx
        sta t6
        lda dy
        sta t7
        lda opp_side,x
        sta t5
        absolute
        lsr a                   ; 1/8 pixel
        lsr a
        lsr a
        sep #$20
        .a8
        sta WRMPYA
        lda #0
        xba
        lda t4 + 1
        tax
        lda sine_table,x
        sta WRMPYB
        lda t8 + 1
        tax
        rep #$20
        .a16
        lda t5
        eor t4
        jsr off
        adc dy
        sta dy
        times {sine_table,x}
        lda t5
        eor t8
        jsr off
        adc dx
        sta dx
        rts
off:    tay                     ; its sign
        lda RDMPYL
        halve 5
        cpy #$8000
        bcc :+
        negate
:       clc
        rts
.endproc

.segment "RODATA"
; of each opponent, 8 bytes apart: its place beside the middle of the road, to the right, 1/64 pixel
homes:  .word .loword(-14 * 64), 0, 0, 0, 14 * 64, 0, 0, 0, .loword(-8 * 64), 0, 0, 0, 8 * 64, 0, 0, 0
        .word .loword(-14 * 64), 0, 0, 0, 14 * 64, 0, 0, 0, 0
