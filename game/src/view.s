; An opponent as the camera and the small map show it.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "math.inc"
.include "params.inc"
.export dot, turn_camera, project
.import sine_table, line_of, width_of, size_of, views

NEAREST     = 52
FARTHEST    = 800

.segment "CODE"
.a16
.i16

; The opponent X on the small map.
.proc dot
        txa
        lsr a
        tay
        lda opp_x,x
        lsr a
        lsr a
        sep #$20
        .a8
        sta WRMPYA
        lda #112
        sta WRMPYB
        lda #DOT_X
        clc
        nop
        nop
        adc RDMPYL + 1
        sta oamfar + MOST_OTHERS * 4,y
        rep #$20
        .a16
        lda opp_y,x
        lsr a
        lsr a
        sep #$20
        .a8
        sta WRMPYA
        lda #112
        sta WRMPYB
        lda #DOT_Y
        clc
        nop
        nop
        adc RDMPYL + 1
        sta oamfar + MOST_OTHERS * 4 + 1,y
        rep #$20
        .a16
        rts
.endproc

; What the camera's angle means for every opponent.
.proc turn_camera
        lda camera
        and #$00FF
        tax
        clc
        adc #64
        and #$00FF
        tay
        sep #$20
        .a8
        lda sine_table,x
        sta cam_sin
        lda sine_table,y
        sta cam_cos
        rep #$20
        .a16
        txa
        xba
        sta cam_sin_sign        ; in bit 15
        tya
        xba
        sta cam_cos_sign
        rts
.endproc

; The opponent X as the camera sees it: depth, place on the screen, look.
.proc project
        stz t3                  ; 2 where everything is taken at a quarter, because it is far
        lda opp_x,x
        sec
        sbc xpos
        sta t0
        bcs :+
        negate
:       sta t8
        lda opp_y,x
        sec
        sbc ypos
        sta t1
        bcs :+
        negate
:       sta t9
        ora t8
        and #$FF00
        beq :+
        lsr t8
        lsr t8
        lsr t9
        lsr t9
        inc t3
:       sep #$20
        .a8
        lda t8
        sta WRMPYA
        rep #$20
        .a16
        times cam_sin
        product t0, cam_sin_sign
        sta t5
        times cam_cos
        product t0, cam_cos_sign
        sta t6
        sep #$20
        .a8
        lda t9
        sta WRMPYA
        rep #$20
        .a16
        times cam_sin
        product t1, cam_sin_sign
        clc
        adc t6
        sta t6                  ; to the right
        times cam_cos
        product t1, cam_cos_sign
        eor #$FFFF
        sec
        adc t5                  ; ahead: sin * east - cos * south
        ldy t3
        beq :+
        asl a
        asl a
        asl t6
        asl t6
:       sta forward
        clc
        adc #OWN_DEPTH
        cmp #NEAREST
        bcc unseen
        cmp #FARTHEST
        bcs unseen
        sta opp_depth,x
        sta t3
        tay
        lsr a
        lsr a
        adc t3
        sta t3                  ; who is farther to the side is out of view
        lda t6
        absolute
        sta t5
        lda t3
        cmp t5
        bcs seen
unseen: lda #NOWHERE
        sta opp_depth,x
        rts
seen:   sep #$20
        .a8
        lda width_of,y          ; of a pixel at this depth; the unit depends on the depth
        sta WRMPYA
        lda t5
        sta WRMPYB
        rep #$20
        .a16
        cpy #128
        bcs :+
        nop
        lda RDMPYL
        halve 6
        bra wide
:       nop
        lda RDMPYL
        xba
        and #$00FF
        sta t4
        sep #$20
        .a8
        lda t5 + 1
        sta WRMPYB
        rep #$21
        .a16
        nop
        nop
        lda RDMPYL
        adc t4
        cpy #512
        bcc wide
        lsr a
        lsr a
wide:   bit t6
        absolute
        sta t0                  ; from the middle of the screen
        cmp #$8000              ; which way it is turned, seen from the camera: an eighth of a turn for each view
        ror a
        cmp #$8000
        ror a
        sta t1
        cmp #$8000
        ror a
        cmp #$8000
        ror a
        clc
        adc t1
        clc
        adc camera
        sta t1
        lda opp_angle,x
        xba
        sec
        sbc t1
        clc
        adc #16
        lsr a
        lsr a
        lsr a
        lsr a
        and #$000E
        sta t1
        lda line_of,y
        and #$00FF
        sta t2
        tay
        lda size_of,y
        and #$00FF
        ora t1
        tay
        lda views,y
        clc
        adc palettes,x
        sta opp_look,x
        cpy #2 * 16             ; the two largest sizes
        bcs :+
        lda t0
        clc
        adc #128 - 16
        and #$01FF
        ora #$0200              ; large
        sta opp_sx,x
        lda t2
        sec
        sbc #32
        sta opp_line,x
        rts
:       lda t0
        clc
        adc #128 - 8
        and #$01FF
        sta opp_sx,x
        lda t2
        sec
        sbc #16
        sta opp_line,x
        rts
.endproc

.segment "RODATA"
; of each opponent, 8 bytes apart: its palette
palettes:
        .word $0600, 0, 0, 0, $0800, 0, 0, 0, $0A00, 0, 0, 0, $0C00, 0, 0, 0
        .word $0E00, 0, 0, 0, $0600, 0, 0, 0, $0800
