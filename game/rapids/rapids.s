; Rapids: a boat on a river. Courses are generated from their number; see ../README.md.

LENGTH = 168            ; rows from the start to the finish
FIRST = 10              ; row with a gem
WIDTH = 7               ; of the river, in cells
SPEED = 3               ; of the boat sideways, pixels per frame
SAFE = 60               ; frames after a crash without another
BOAT_Y = 192
ROWS = 30               ; of 16 cells in video memory: two screens, one above the other
WATER = 0               ; cells: four tiles each; from ROCK on they sink boats
FINISH = 1
GEM = 2
ROCK = 3
BANK = 4                ; then its edges left and right of the water
DIGITS = 28             ; tiles of sprites
BOAT = 38
LIFE = 42
RIGHT = 1               ; buttons
LEFT = 2
START = 16
SELECT = 32

PPU_CTRL = $2000
PPU_MASK = $2001
PPU_STATUS = $2002
OAM_ADDR = $2003
PPU_SCROLL = $2005
PPU_ADDR = $2006
PPU_DATA = $2007
OAM_DMA = $4014
JOYPAD = $4016

sprites = $0200
cells = $0300           ; ROWS rows of 16
tiles = $0500           ; the next row's, 2 x 32

.segment "HEADER"
    .byte "NES", $1A, 1, 1, 0, 0        ; no mapper, screens one above the other

.segment "ZEROPAGE"
level:   .res 1         ; 0000: the addresses of these are in data.json
lives:   .res 1
gems:    .res 2         ; decimal digits, tens first
left:    .res 1         ; rows to the finish
boat_x:  .res 1
safe:    .res 1
shown:   .res 1         ; set by the interrupt, once per frame
top:     .res 1         ; row of video memory at the top of the screen
fine:    .res 1         ; lines of it above the screen
made:    .res 1         ; rows generated
shore:   .res 1         ; first cell of the river
drift:   .res 1         ; how that changes: -1, 0, 1
trail:   .res 1         ; cell of the river with the last gem
seed:    .res 2
held:    .res 1         ; buttons
pressed: .res 1         ; that were not held before
row:     .res 1
cell:    .res 2         ; address of a cell
place:   .res 2         ; address in video memory to write `tiles` to; 0: none
erased:  .res 2         ; of a gem to erase
part:    .res 1

.segment "CODE"
reset:
    sei
    cld
    ldx #$40
    stx $4017           ; no interrupts of the sound chip
    ldx #$FF
    txs
    inx
    stx PPU_CTRL
    stx PPU_MASK
    bit PPU_STATUS
:   bit PPU_STATUS
    bpl :-
    txa
:   sta $00, x
    sta $0300, x
    sta $0400, x
    inx
    bne :-
:   bit PPU_STATUS
    bpl :-
    lda #1
    sta level
    jsr begin

frame:
    lda shown
    beq frame
    lda #0
    sta shown
    jsr read_joypad
    lda pressed
    and #SELECT
    bne next
    lda lives
    beq over
    lda left
    beq over
    jsr steer
    jsr flow
    jsr collide
    jsr draw
    jmp frame
over:                   ; START: the next course, or the same again
    lda pressed
    and #START
    beq frame
    lda left
    bne again
next:
    inc level
again:
    jsr begin
    jmp frame

; Begin the course `level`.
begin:
    lda #0
    sta PPU_CTRL
    sta PPU_MASK
    sta gems
    sta gems+1
    sta top
    sta fine
    sta made
    sta drift
    sta safe
    sta place+1
    sta erased+1
    lda #3
    sta lives
    lda #LENGTH
    sta left
    lda #120
    sta boat_x
    lda #5
    sta shore
    lda #WIDTH/2
    sta trail
    lda level
    sta seed
    lda #$5A
    sta seed+1
    ldy #16
:   jsr random
    dey
    bne :-
    jsr colour
:   jsr make_row
    jsr write_row
    lda made
    cmp #16
    bne :-
    ldx #0
    lda #$FF
:   sta sprites, x
    inx
    bne :-
    jsr draw
    lda #0
    sta shown
    bit PPU_STATUS
    lda #$80
    sta PPU_CTRL
    rts

; Palettes: the course's, and the boat's.
colour:
    lda #$3F
    sta PPU_ADDR
    lda #0
    sta PPU_ADDR
    lda level
    and #3
    asl
    asl
    tax
    ldy #4
:   lda themes, x
    sta PPU_DATA
    inx
    dey
    bne :-
    lda #$3F
    sta PPU_ADDR
    lda #$11
    sta PPU_ADDR
    ldx #2
:   lda boat_colours, x
    sta PPU_DATA
    dex
    bpl :-
    ldx #8              ; attributes of both screens: the first palette everywhere
    lda #$23
    jsr clear_attributes
    lda #$2B
clear_attributes:
    sta PPU_ADDR
    lda #$C0
    sta PPU_ADDR
    lda #0
    ldx #64
:   sta PPU_DATA
    dex
    bne :-
    rts

; A: a random byte. Keeps X and Y.
random:
    txa
    pha
    ldx #8
    lda seed
:   asl
    rol seed+1
    bcc :+
    eor #$39
:   dex
    bne :--
    sta seed
    pla
    tax
    lda seed
    rts

; A: a random cell of the river.
random_cell:
    jsr random
    and #7
    cmp #WIDTH
    bcs random_cell
    adc shore
    rts

; X: a row of video memory. Sets `cell` to its first cell.
find_row:
    txa
    asl
    asl
    asl
    asl
    sta cell
    txa
    lsr
    lsr
    lsr
    lsr
    clc
    adc #>cells
    sta cell+1
    rts

; X: a row of video memory. A, Y: high and low byte of its address.
find_place:
    ldy #$20
    txa
    cmp #15
    bcc :+
    ldy #$28
    sbc #15
:   sty part
    ldy #0
    lsr                 ; times 64
    bcc :+
    ldy #$40
:   lsr
    bcc :+
    pha
    tya
    ora #$80
    tay
    pla
:   clc
    adc part
    rts

; Generate the next row: `cells`, and `tiles` for `place`.
make_row:
    lda #14             ; the first one is at the bottom of the first screen
    sec
    sbc made
    bcs @at
:   adc #ROWS
    bcc :-
@at:
    tax
    stx row
    jsr find_row
    lda made
    cmp #8
    bcc @straight
    and #3
    bne :+
    jsr random          ; which way the river bends
    and #3
    tax
    lda bends, x
    sta drift
:   lda made
    lsr
    bcc @straight
    lda shore
    clc
    adc drift
    beq @straight       ; not out of the screen
    cmp #16-WIDTH
    beq @straight
    sta shore
@straight:
    ldy #15
@fill:
    tya                 ; banks and water
    sec
    sbc shore
    bcc @before
    cmp #WIDTH
    bcc @river
    beq @right
    bne @bank
@before:
    cmp #$FF
    beq @left
@bank:
    lda #BANK
    bne @put
@left:
    lda #BANK+1
    bne @put
@right:
    lda #BANK+2
    bne @put
@river:
    lda made
    cmp #LENGTH+2
    beq @finish
    lda #WATER
    beq @put
@finish:
    lda #FINISH
@put:
    sta (cell), y
    dey
    bpl @fill
    lda made            ; what floats in it
    cmp #FIRST
    bcc @expand
    cmp #LENGTH+2
    bcs @expand
    lsr
    bcs @rock
    jsr random          ; a trail of gems, on every other row
    and #3
    tax
    lda steps, x
    clc
    adc trail
    cmp #WIDTH
    bcs :+              ; not out of the river
    sta trail
:   lda shore
    clc
    adc trail
    tay
    lda #GEM
    bne @float
@rock:
    jsr random_cell
    tay
    sec
    sbc shore
    cmp trail
    beq @expand         ; not on the trail
    lda #ROCK
@float:
    sta (cell), y
@expand:
    ldy #15
    ldx #30
:   lda (cell), y
    asl
    asl
    sta tiles, x
    ora #1
    sta tiles+1, x
    eor #3
    sta tiles+32, x
    ora #1
    sta tiles+33, x
    dex
    dex
    dey
    bpl :-
    ldx row
    jsr find_place
    sty place
    sta place+1
    inc made
    rts

; Write `tiles` to video memory.
write_row:
    lda place+1
    sta PPU_ADDR
    lda place
    sta PPU_ADDR
    ldx #0
:   lda tiles, x
    sta PPU_DATA
    inx
    cpx #64
    bne :-
    lda #0
    sta place+1
    rts

read_joypad:
    lda held
    pha
    lda #1
    sta JOYPAD
    sta held            ; the bit that leaves it after eight others
    lsr
    sta JOYPAD
:   lda JOYPAD
    lsr
    rol held
    bcc :-
    pla
    eor #$FF
    and held
    sta pressed
    rts

steer:
    lda held
    and #LEFT
    beq :+
    sec
    lda boat_x
    sbc #SPEED
    bcc :+
    sta boat_x
:   lda held
    and #RIGHT
    beq :+
    clc
    lda boat_x
    adc #SPEED
    cmp #240
    bcs :+
    sta boat_x
:   rts

; Two lines on.
flow:
    dec fine
    dec fine
    bpl @done
    lda #14
    sta fine
    dec left
    dec top
    bpl :+
    lda #ROWS-1
    sta top
:   jsr make_row        ; what comes next
@done:
    rts

; Gems that the boat touches, and what it hits.
collide:
    lda top
    clc
    adc #12
    ldx fine
    cpx #8
    bcc :+
    adc #0              ; carry: 13
:   cmp #ROWS
    bcc :+
    sbc #ROWS
:   tax
    stx row
    jsr find_row
    lda boat_x
    clc
    adc #1
    jsr touch
    lda boat_x
    clc
    adc #14
    jsr touch
    lda safe
    beq :+
    dec safe
    rts
:   lda boat_x
    clc
    adc #5
    jsr look
    bcs @hit
    lda boat_x
    clc
    adc #10
    jsr look
    bcc @done
@hit:
    dec lives
    lda #SAFE
    sta safe
    ldy #0
:   lda (cell), y       ; back to the middle of the river
    iny
    cmp #BANK
    bcs :-
    tya
    adc #WIDTH/2-1
    asl
    asl
    asl
    asl
    sta boat_x
@done:
    rts

; A: a place across. Y: its cell; A: what is there; carry: whether it sinks boats.
look:
    lsr
    lsr
    lsr
    lsr
    tay
    lda (cell), y
    cmp #ROCK
    rts

; A: a place across. Take the gem that is there.
touch:
    jsr look
    cmp #GEM
    bne @done
    lda #WATER
    sta (cell), y
    tya
    asl
    pha
    ldx row
    jsr find_place
    sta erased+1
    pla
    sty erased
    ora erased
    sta erased
    inc gems+1
    lda gems+1
    cmp #10
    bcc @done
    lda #0
    sta gems+1
    inc gems
@done:
    rts

; Sprites of the boat, the lives and the number of gems.
draw:
    ldx #0
@boat:
    lda safe            ; blinks
    and #4
    beq :+
    lda #$FF
    bne @y
:   txa
    and #8
    clc
    adc #BOAT_Y-1
@y:
    sta sprites, x
    txa
    lsr
    lsr
    pha
    clc
    adc #BOAT
    sta sprites+1, x
    lda #0
    sta sprites+2, x
    pla
    lsr
    lda boat_x
    bcc :+
    adc #7              ; and carry
:   sta sprites+3, x
    inx
    inx
    inx
    inx
    cpx #16
    bne @boat
    ldy #0
@life:
    lda #$FF
    cpy lives
    bcs :+
    lda #15
:   sta sprites, x
    lda #LIFE
    sta sprites+1, x
    lda #0
    sta sprites+2, x
    lda hud_x, y
    sta sprites+3, x
    inx
    inx
    inx
    inx
    iny
    cpy #3
    bne @life
    ldy #0
@digit:
    lda #15
    sta sprites, x
    lda gems, y
    clc
    adc #DIGITS
    sta sprites+1, x
    lda #0
    sta sprites+2, x
    lda hud_x+3, y
    sta sprites+3, x
    inx
    inx
    inx
    inx
    iny
    cpy #2
    bne @digit
    rts

nmi:
    pha
    txa
    pha
    lda #0
    sta OAM_ADDR
    lda #>sprites
    sta OAM_DMA
    lda place+1
    beq :+
    jsr write_row
:   lda erased+1
    beq @scroll
    ldx #2              ; its upper and its lower half
:   lda erased+1
    sta PPU_ADDR
    lda erased
    sta PPU_ADDR
    lda #WATER*4
    sta PPU_DATA
    sta PPU_DATA
    lda erased
    ora #32
    sta erased
    dex
    bne :-
    stx erased+1
@scroll:
    bit PPU_STATUS
    ldx #$80
    lda top
    cmp #15
    bcc :+
    sbc #15
    ldx #$82
:   stx PPU_CTRL
    asl
    asl
    asl
    asl
    ora fine
    ldx #0
    stx PPU_SCROLL
    sta PPU_SCROLL
    lda #$1E
    sta PPU_MASK
    sta shown
    pla
    tax
    pla
irq:
    rti

bends:  .byte <-1, <-1, 1, 1
steps:  .byte <-1, 0, 0, 1
hud_x:  .byte 8, 18, 28, 232, 240
themes:                 ; water, land, rocks, gems: from dark to bright, in grey, too; what sinks boats alike
    .byte $02, $1A, $00, $38
    .byte $03, $17, $00, $38
    .byte $0C, $1B, $00, $35
    .byte $01, $18, $00, $38
boat_colours: .byte $16, $30, $0F       ; the last one first

.segment "VECTORS"
    .addr nmi, reset, irq

.segment "TILES"
    .incbin "tiles.chr"
