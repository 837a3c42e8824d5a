; The cartridge's header and vectors. build.py fills in the checksum and the build's number.
.p816
.include "params.inc"
.import reset, nmi, horizon

.segment "HEADER"
        .byte "KR"                      ; maker
        .byte "KART"                    ; game
        .res 10, 0
        .byte "KARTRL GRAND PRIX    "   ; title, 21 characters
        .byte $30                       ; LoROM, fast
        .byte 0                         ; ROM only
        .byte ROM_SIZE_CODE
        .byte 0                         ; no save memory
        .byte 1                         ; North America: 60 frames a second
        .byte $33                       ; the maker's code is above
        .byte 0                         ; version
        .word $FFFF, $0000              ; checksum, filled in by build.py

.segment "VECTORS"
        .word stop, stop, stop, nmi_stub, 0, irq_stub              ; native mode
        .word 0, 0
        .word stop, 0, stop, stop, reset_stub, stop             ; emulation mode

.segment "CODE"
stop:       rti
nmi_stub:   jml nmi | $800000
irq_stub:   jml horizon | $800000
reset_stub: clc
            xce
            jml reset | $800000
