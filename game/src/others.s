; The opponents.
.p816
.smart
.include "hw.inc"
.include "ram.inc"
.include "params.inc"
.export drive_others
.segment "CODE"
.a16
.i16
.proc drive_others
        rts
.endproc
