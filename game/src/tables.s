; Small tables; build.py writes the binary ones.
.p816
.export gain_table, accel_table, clock_table, sine_table, offset_x, offset_y, matrix_row, speed_digits
.export half_square, line_of, width_of, size_of
.export letters, mini_at, views, surf_top, surf_drag, surf_share, surf_grip, surf_type, surf_effect, surf_spray

.segment "RODATA"
gain_table:     .incbin "gain.bin"      ; 256 bytes, for each 4 of speed: how fast the kart turns
accel_table:    .incbin "accel.bin"     ; 256 bytes, for each 4 of speed: how fast it gathers speed
clock_table:    .incbin "clock.bin"     ; 60 bytes: hundredths of a second of each tick, BCD
sine_table:     .incbin "sine.bin"      ; |sin| * 255, 256 bytes
offset_x:       .incbin "offset_x.bin"  ; words, 256 each: from the kart to the centre of the matrix
offset_y:       .incbin "offset_y.bin"
matrix_row:     .incbin "matrix_row.bin" ; words, 64: where an angle's rows begin
speed_digits:   .incbin "speed_digits.bin" ; words, BCD, for each 8 of speed
letters:        .incbin "letters.bin"   ; words, 64: the layer's word for each letter from the space on
mini_at:        .incbin "mini_at.bin"   ; 112 bytes: the tile that a pixel of the small map shows
half_square:    .incbin "half_square.bin" ; 256 bytes: k * k / 512
line_of:        .incbin "line_of.bin"   ; 1024 bytes: the screen's line that shows the ground at a depth
width_of:       .incbin "width_of.bin"  ; 1024 bytes: the width there of a pixel of the map, in 1/64, 1/256 or 1/1024 pixel
size_of:        .incbin "size_of.bin"   ; 128 bytes: which size of an opponent fits a line, times 16
views:          .incbin "views.bin"     ; words: looks of an opponent, 8 ways round for each size
; by twice the code of a surface: fastest, its share of the fastest on asphalt, drag, twice the grip, ground_type, twice the effect, what it throws up
.include "surfaces.inc"
