; The opponents' sprites: in the order of their depth, and to video memory.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "copy.inc"
.export arrange, horizon

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
        copy $00, OAMDATA, oamfar, #0, 24
        ldx #$0100
        stx OAMADDL
        copy $00, OAMDATA, oamhigh, #0, (SLOTS + 3) / 4
        rti
.endproc
.a16

; Sprites in the order of depth: who is nearer than the kart lies over it.
.macro in_order first, second
        ldx first
        ldy second
        lda opp_depth,y
        cmp opp_depth,x
        bcs :+
        stx second
        sty first
:
.endmacro
.macro one place, slot
        ldx place
        lda opp_depth,x
        cmp #OWN_DEPTH
        bcc :++
        cmp #NOWHERE
        bne :+
        lda #HIDDEN << 8
        sta oamnear + slot * 4
        sta oamfar + slot * 4
        bra :+++
:       sprite oamfar + slot * 4, slot, oamhigh + SLOT_FAR / 4
        lda #HIDDEN << 8
        sta oamnear + slot * 4
        bra :++
:       sprite oamnear + slot * 4, slot, oamhigh + SLOT_NEAR / 4
        lda #HIDDEN << 8
        sta oamfar + slot * 4
:
.endmacro
.macro sprite at, shift, high
        lda opp_look,x
        sta at + 2
        sep #$20
        .a8
        lda opp_sx,x
        sta at
        lda opp_line,x
        sta at + 1
        lda opp_sx + 1,x
        .repeat shift
        asl a
        asl a
        .endrepeat
        tsb high
        rep #$20
        .a16
.endmacro
.proc arrange
        sep #$20
        .a8
        stz oamhigh + SLOT_NEAR / 4
        stz oamhigh + SLOT_FAR / 4
        rep #$20
        .a16
        stz t0
        lda #8
        sta t1
        asl a
        sta t2
        in_order t0, t1
        in_order t1, t2
        in_order t0, t1
        one t0, 0
        one t1, 1
        one t2, 2
        rts
.endproc
