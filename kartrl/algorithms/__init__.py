"""Pure tensor functions, one file per paper or idea: no I/O, no configuration, no device."""
