; Fill the list of sprites: the kart and what surrounds it.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "math.inc"
.include "params.inc"
.export sprites, place_sprites
.import panel, message, surf_spray

; A sprite's four bytes: x, y, tile, attributes. Tiles and attributes come from params.inc as one word each.
KART_X      = 112
KART_Y      = 68
HIGH_LARGE  = $202A             ; sizes of the sprites 4 to 11: drone, kart, shadow and sign are large
HIGH_SMALL  = $2022             ; a small kart

.macro place slot, px, py
        lda #(px) | (py) << 8
        sta oambuf + (slot) * 4
.endmacro

.macro hide slot
        place slot, 0, HIDDEN
.endmacro

.segment "CODE"
.a16
.i16

.proc sprites
        ldx fate
        bne :+
        jsr kart
        bra both
:       jsr fallen
both:   jsr around
        jsr panel
        jmp message
.endproc

.proc kart
        ; which view: 0 straight, 1 and 2 turning, 3 sliding
        lda av
        absolute
        ldx #0
        cmp #48
        bcc :+
        ldx #2
        cmp #160
        bcc :+
        ldx #4
:       lda slide
        beq :+
        ldx #6
:       lda kart_views,x
        ldx av
        bpl :+
        ora #$4000              ; mirrored
:       sta oambuf + SLOT_KART * 4 + 2
        lda hoph                ; sixteenths of a pixel
        bne high
        ldx surf                ; shaken off the road while it moves
        lda surf_spray,x
        beq low
        lda spd
        cmp #64
        bcc flat
        lda tickno
        lsr a
        lsr a
        and #1
        bra low
flat:   lda #0
        bra low
high:   lsr a
        lsr a
        lsr a
low:    sta t0
        lda #KART_Y
        sec
        sbc t0
        xba
        ora #KART_X
        sta oambuf + SLOT_KART * 4
        hide SLOT_DRONE
        lda boost
        beq cold
        lda tickno              ; two pictures in turn
        and #2
        clc
        adc #LOOK_FLAME
        sta oambuf + SLOT_FLAME * 4 + 2
        lda oambuf + SLOT_KART * 4
        clc
        adc #8 | 24 << 8
        sta oambuf + SLOT_FLAME * 4
        bra size
cold:   hide SLOT_FLAME
size:   ldx #HIGH_LARGE
        stx oamhigh + 1         ; the next sprites are set after this
        rts
.endproc

; The kart while it falls, ever smaller, and while it is carried.
.proc fallen
        lda fallt
        cmp #FALL_TICKS
        bcs carried
        lsr a
        lsr a
        asl a
        tax
        lda fall_looks,x
        sta oambuf + SLOT_KART * 4 + 2
        lda fallt
        xba
        clc
        adc fall_places,x
        sta oambuf + SLOT_KART * 4
        lda fall_high,x
        sta oamhigh + 1
        hide SLOT_DRONE
        lda fallt
        lsr a
        lsr a
        and #2
        ldx fate
        cpx #6
        bcc nothing
        beq :+
        clc
        adc #LOOK_SPLASH - LOOK_FLAME
:       clc
        adc #LOOK_FLAME
        ldx fate
        cpx #6
        bne :+
        ora #$8000              ; lava spurts upwards
:       sta oambuf + SLOT_FLAME * 4 + 2
        place SLOT_FLAME, KART_X + 8, KART_Y + 20
        rts
nothing:
        hide SLOT_FLAME
        rts
carried:
        lda #FALL_TICKS + CARRY_TICKS
        sec
        sbc fallt
        lsr a
        sta t0
        lsr a
        clc
        adc t0                  ; so many pixels above the ground
        sta t0
        lda #KART_Y
        sec
        sbc t0
        xba
        ora #KART_X
        sta oambuf + SLOT_KART * 4
        sec
        sbc #26 << 8
        sta oambuf + SLOT_DRONE * 4
        lda #LOOK_KART
        sta oambuf + SLOT_KART * 4 + 2
        lda #HIGH_LARGE
        sta oamhigh + 1
        hide SLOT_FLAME
        rts
.endproc

.proc around
        ; shadow
        lda hoph
        bne :+
        lda fallt
        cmp #FALL_TICKS
        bcc bright
        lda fate
        beq bright
:       place SLOT_SHADOW, KART_X, KART_Y + 3
        bra dust
bright: hide SLOT_SHADOW
        ; what the wheels throw up: off the road, and smoke in a slide
dust:   lda hoph
        bne none
        lda spd
        cmp #128
        bcc none
        ldx surf
        lda surf_spray,x
        bne :+
        lda slide
        beq none
        lda #LOOK_SMOKE
:       sta t0
        lda tickno              ; two pictures in turn
        and #4
        lsr a
        clc
        adc t0
        sta oambuf + SLOT_DUST * 4 + 2
        ora #$4000
        sta oambuf + SLOT_DUST * 4 + 6
        place SLOT_DUST, KART_X - 6, KART_Y + 17
        place SLOT_DUST + 1, KART_X + 22, KART_Y + 17
        bra spark
none:   hide SLOT_DUST
        hide SLOT_DUST + 1
spark:  lda coll
        ora touched
        beq :+
        place SLOT_SPARK, KART_X + 8, KART_Y - 4
        bra sign
:       hide SLOT_SPARK
sign:   lda wrong
        cmp #WRONG_TICKS
        bcc :+
        lda finished
        bne :+
        place SLOT_SIGN, KART_X, 12
        rts
:       hide SLOT_SIGN
        rts
.endproc

; What never changes: once, before the first frame.
.proc place_sprites
        ldx #SLOTS * 4 - 4
        lda #HIDDEN << 8
:       sta oambuf,x
        dex
        dex
        dex
        dex
        bpl :-
        ldx #fixed_end - fixed - 2
:       lda fixed,x
        sta oambuf + SLOT_SHADOW * 4,x
        dex
        dex
        bpl :-
        ldx #(MOST_OTHERS - 1) * 4
:       lda dots,x              ; with the palette of each
        sta oamfar + MOST_OTHERS * 4 + 2,x
        dex
        dex
        dex
        dex
        bpl :-
        lda #LOOK_DRONE
        sta oambuf + SLOT_DRONE * 4 + 2
        lda #COINS_X | LAP_Y << 8
        sta oambuf + SLOT_COINS * 4
        lda #COINS_X + 12 | LAP_Y << 8
        sta oambuf + SLOT_COINS * 4 + 4
        stz oamhigh
        stz oamhigh + 2
        stz oamhigh + 4
        stz oamhigh + 6
        stz oamhigh + 8
        stz oamhigh + 9
        rts
.endproc

.segment "RODATA"
kart_views:
        .word LOOK_KART, LOOK_KART + 4, LOOK_KART + 8, LOOK_KART + 12
; of each opponent, 4 bytes apart: its dot on the small map
dots:
        .word LOOK_OTHER_DOT | $0600, 0, LOOK_OTHER_DOT | $0800, 0, LOOK_OTHER_DOT | $0A00, 0, LOOK_OTHER_DOT | $0C00, 0
        .word LOOK_OTHER_DOT | $0E00, 0, LOOK_OTHER_DOT | $0600, 0, LOOK_OTHER_DOT | $0800
; the sprites from the shadow on as they begin: place, look
fixed:
        .word HIDDEN << 8, LOOK_SHADOW
        .word HIDDEN << 8, 0, HIDDEN << 8, 0            ; dust
        .word HIDDEN << 8, LOOK_SPARK
        .word HIDDEN << 8, LOOK_SIGN
        .word 0, LOOK_DOT
        .word LAP_X | LAP_Y << 8, 0
        .word TIME_X | TIME_Y << 8, 0, (TIME_X + 20) | TIME_Y << 8, 0, (TIME_X + 32) | TIME_Y << 8, 0
        .word (TIME_X + 52) | TIME_Y << 8, 0, (TIME_X + 64) | TIME_Y << 8, 0
        .word SPEED_X | SPEED_Y << 8, 0, (SPEED_X + 12) | SPEED_Y << 8, 0, (SPEED_X + 24) | SPEED_Y << 8, 0
fixed_end:
; a falling kart, for each four ticks: look, place, sizes
fall_looks:
        .word LOOK_KART, LOOK_OTHER_24, LOOK_OTHER_16, LOOK_OTHER_11, LOOK_OTHER_7
fall_places:
        .word KART_X | KART_Y << 8, KART_X | (KART_Y - 4) << 8
        .word (KART_X + 8) | (KART_Y + 8) << 8, (KART_X + 8) | (KART_Y + 4) << 8, (KART_X + 8) | KART_Y << 8
fall_high:
        .word HIGH_LARGE, HIGH_LARGE, HIGH_SMALL, HIGH_SMALL, HIGH_SMALL
