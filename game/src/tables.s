; Small tables; build.py writes the binary ones.
.p816
.export gain_table, accel_table, sine_table, offset_x, offset_y, matrix_row, speed_digits

.segment "RODATA"
; turn for each 32 of speed: nothing at standstill, a little less at full speed
gain_table:
        .byte 0, 24, 50, 74, 94, 108, 116, 118, 118, 118, 118, 118, 118, 118, 117, 116
        .byte 115, 114, 113, 112, 111, 110, 109, 108, 108, 108, 108, 108, 108, 108, 108, 108
; acceleration for each 64 of speed
accel_table:
        .word 12, 12, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 3, 3, 3, 3
sine_table:     .incbin "sine.bin"      ; |sin| * 255, 1024 bytes
offset_x:       .incbin "offset_x.bin"  ; words, 256 each: from the kart to the centre of the matrix
offset_y:       .incbin "offset_y.bin"
matrix_row:     .incbin "matrix_row.bin" ; words, 64: where an angle's rows begin
speed_digits:   .incbin "speed_digits.bin" ; words, BCD, for each 8 of speed
