; The opponents' sprites: in the order of their depth, and to video memory.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "copy.inc"
.export arrange, horizon
.import think

.segment "CODE"
.a16
.i16

; Interrupt at the horizon, in two dark lines: there the opponents' sprites, for which the blank is too short, get to
; video memory. Nothing but the idle loop is ever interrupted.
.proc horizon
        rep #$10
        sep #$20
        .a8
        .i16
        lda TIMEUP
        ldx #SLOT_NEAR * 2
        stx OAMADDL
        copy $00, OAMDATA, oamnear, #0, 12
        ldx #SLOT_FAR * 2
        stx OAMADDL
        copy $00, OAMDATA, oamfar, #0, MOST_OTHERS * 8
        ldx #$0100
        stx OAMADDL
        copy $00, OAMDATA, oamhigh, #0, (SLOTS + 3) / 4
        rep #$20
        .a16
        lda undecided
        beq :+
        jsr think
:       rti
.endproc

; The opponent at Y of the order to X of this list of sprites, its two bits to t2.
.macro one list
        phy
        lda opp_order,y
        and #MOST_OTHERS
        asl a
        asl a
        asl a
        tay
        lda opp_look,y
        sta list + 2,x
        lda opp_sx,y
        sep #$20
        .a8
        sta list,x
        lda opp_line,y
        sta list + 1,x
        rep #$20
        .a16
        lda opp_sx,y
        xba
        and #$0003
        asl t2
        asl t2
        ora t2
        sta t2
        ply
.endmacro

; Sprites in the order of depth: who is nearer than the kart lies over it.
.proc arrange
        stz in_view
        ldx #0
each:   lda opp_depth,x
        cmp #NOWHERE
        beq next
        asl a
        asl a
        asl a
        sta t0
        txa
        lsr a
        lsr a
        lsr a
        ora t0
        sta t0
        ldy in_view             ; before all that are farther
farther:
        beq here
        lda opp_order - 2,y
        cmp t0
        bcc here
        sta opp_order,y
        dey
        dey
        bra farther
here:   lda t0
        sta opp_order,y
        inc in_view
        inc in_view
next:   txa
        clc
        adc #8
        tax
        cpx others_end
        bcc each
        lda #HIDDEN << 8
        .repeat ::MOST_OTHERS, k
        sta oamfar + 4 * k
        .endrepeat
        .repeat ::MOST_NEAR, k
        sta oamnear + 4 * k
        .endrepeat
        ldy #0                  ; those before the kart
:       cpy in_view
        beq :+
        lda opp_order,y
        cmp #OWN_DEPTH * 8
        bcs :+
        iny
        iny
        cpy #2 * MOST_NEAR
        bne :-
:       sty t1
        stz t2
        ldy in_view             ; from the farthest on
far:    cpy t1
        beq :+
        dey
        dey
        tya
        sec
        sbc t1
        asl a
        tax
        one oamfar
        bra far
:       lda t2
        sta oamhigh + SLOT_FAR / 4
        stz t2
near:   cpy #0
        beq :+
        dey
        dey
        tya
        asl a
        tax
        one oamnear
        bra near
:       sep #$20
        .a8
        lda t2
        sta oamhigh + SLOT_NEAR / 4
        rep #$20
        .a16
        rts
.endproc
