#!/usr/bin/env bash
# PyAV 18.1.0 (its wheel's own libx264), numpy 2.4.6, Linux on x86-64 with glibc.
#
# Behaviour: H.264 at the usual presets is not a function of its frames. The same frames with the same settings, one
# thread, in a new process, make another file when the memory that the encoder allocates happens to hold other bytes: it
# reads some that nobody wrote. Without macroblock-tree rate control (`mbtree=0`), or without B-frames, files are equal.
# Guess: an encoder with fixed settings and one thread is deterministic; "threads=1" is what people set to get it.
# Harm: a film of an evaluation cannot be checked by its hash, caches and tests that compare files fail now and then,
# mostly on a busy machine, and one looks for the difference in the emulator, the seeds or the policy, where there is none.
# Remedy: `x264-params=mbtree=0` (a fifth larger), or compare decoded pictures, not files.
#
# Seen (30 frames; glibc fills allocated memory with one byte or another, by MALLOC_PERTURB_, as a program's past may):
#   veryfast:           two files
#   veryfast, mbtree=0: one file
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check av==18.1.0 numpy==2.4.6
cd "$work"
cat >encode.py <<'EOF'
import hashlib
import io
import sys

import av
import numpy as np

file = io.BytesIO()
with av.open(file, "w", format="mp4") as film:
    options = {"crf": "26", "preset": "veryfast", "threads": "1"}
    if len(sys.argv) > 1:
        options["x264-params"] = sys.argv[1]
    stream = film.add_stream("libx264", rate=30, options=options)
    stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
    rows, columns = np.mgrid[:240, :320]
    for moment in range(30):
        picture = np.stack([rows + 3 * moment, columns - 5 * moment, (rows * columns) // 64 + moment], -1)
        frame = av.VideoFrame.from_ndarray((picture % 256).astype(np.uint8), format="rgb24")
        film.mux(stream.encode(frame))
    film.mux(stream.encode())
print(hashlib.sha256(file.getvalue()).hexdigest())
EOF

files() {
    for byte in 85 170 255 1; do
        MALLOC_PERTURB_=$byte "$work/venv/bin/python" encode.py "$@"
    done | sort -u | wc -l
}
plain=$(files)
without=$(files mbtree=0)
echo "veryfast:           $plain different file(s) of 4"
echo "veryfast, mbtree=0: $without different file(s) of 4"
if [ "$plain" = 1 ] || [ "$without" != 1 ]; then
    echo "CHANGED: expected several files without mbtree=0, and one with it"
    exit 1
fi
