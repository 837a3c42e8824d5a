; The frame: pad, ticks, picture, all inside the vertical blank's interrupt, so that the picture shows the ticks just run.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.export nmi
.import tick, publish_early, publish, show, load_circuit, place_kart, place_others, drive_others, think, collide, show_others, dark_lists

.segment "CODE"
.proc nmi
        sep #$20
        .a8
        lda RDNMI
        lda #$80                ; dark until the display list switches the picture on after TOP_LINES
        sta INIDISP
        lda select
        beq :+
        jmp load_circuit
:       lda startsect
        beq joypad
        dec a
        cmp nsect
        bcc :+
        lda #0
:       rep #$20
        .a16
        and #$00FF
        jsr place_kart
        sep #$20
        .a8
        stz startsect
joypad: lda opponents
        cmp others
        beq :+
        rep #$30
        .a16
        jsr place_others
        sep #$20
        .a8
:       lda dark
        and #$07
        ldx others
        beq :+
        ora #$08
:       asl a
        rep #$20
        .a16
        and #$001E
        tax
        lda dark_lists,x
        sta A1TL + $60
        sep #$20
        .a8
        lda ticks
        bmi shown               ; $80 and above: stand still
        bne :+
        inc a
:       cmp #9
        bcc :+
        lda #8
:       sta ticksleft
        stz ticksleft + 1
        rep #$30
        .a16
        .i16
        lda others
        bne among
        jsr read_pad
:       jsr tick
        dec ticksleft
        bne :-
        bra shown
among:  jsr drive_others        ; while the console reads the pad, in the first lines of the blank
        jsr read_pad
:       jsr tick
        jsr collide
        dec ticksleft
        beq :+
        jsr think
        jsr drive_others
        bra :-
:       inc undecided
shown:  rep #$30
        .a16
        .i16
        jsr publish_early
        jsr show
        lda others
        beq :+
        jsr show_others
:       jsr publish
        rti
read_pad:
        lda HVBJOY
        lsr a
        bcs read_pad
        lda JOY1L
        sta joy
        rts
.endproc
