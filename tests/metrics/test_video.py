"""Videos, decoded again."""

import io
import subprocess
import sys

import av
import numpy as np
import pytest
from commands import environment
from PIL import Image

from kartrl.metrics.video import Mp4Writer, WebmWriter, contact_sheet, gif, png, shrunk

FILM = """
import sys
from pathlib import Path
import numpy as np
from kartrl.metrics.video import Mp4Writer
tiles = np.random.default_rng(0).integers(0, 255, (21, 44, 3), np.uint8)
picture = np.kron(tiles, np.ones((16, 16, 1), np.uint8))
with Mp4Writer(Path(sys.argv[1]), 30) as video:
    for shift in range(40):
        video.add(np.roll(picture, 5 * shift, 1) if shift < 30 else picture)
"""
PICTURES = [np.full((11, 33, 3), (index * 12, 200 - index * 6, 90), np.uint8) for index in range(20)]


def test_mp4_has_a_format_that_browsers_play(tmp_path):
    path = tmp_path / "video.mp4"
    with Mp4Writer(path, 60) as video:
        for picture in PICTURES:
            video.add(picture)
        assert not path.exists(), "it appears when it is whole"
    content = path.read_bytes()
    assert content.index(b"moov") < content.index(b"mdat"), "it can start before all of it is there"
    with av.open(str(path)) as container:
        (stream,) = container.streams.video
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt, stream.average_rate) == ("h264", "yuv420p", 60)
    assert len(frames) == 20
    assert frames[0].shape == (254, 760, 3), "23 times as large, made even"
    for frame, picture in zip(frames, PICTURES, strict=True):
        assert np.abs(frame.mean((0, 1)) - picture[0, 0]).max() < 8
    assert list(tmp_path.iterdir()) == [path]


def test_mp4_of_noise_keeps_to_its_limit_of_bits(tmp_path):
    random, sizes = np.random.default_rng(0), {}
    pictures = [random.integers(0, 256, (64, 64, 3), np.uint8) for _ in range(30)]
    for limit in (None, 400_000):
        path = tmp_path / f"{limit}.mp4"
        with Mp4Writer(path, 30, limit) as video:
            for picture in pictures:
                video.add(picture)
        sizes[limit] = path.stat().st_size
    assert sizes[400_000] < 400_000 / 8 * (1 + 2) < sizes[None]


def test_an_interrupted_mp4_leaves_nothing(tmp_path):
    path = tmp_path / "video.mp4"
    path.write_bytes(b"an older one")

    def interrupted():
        with Mp4Writer(path, 60) as video:
            video.add(PICTURES[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"an older one"
    assert list(tmp_path.iterdir()) == [path]


def test_no_such_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        Mp4Writer(tmp_path / "missing" / "video.mp4", 60).__enter__()


def test_gif_plays_for_ever_in_few_colours():
    with Image.open(io.BytesIO(gif(PICTURES, 10))) as image:
        assert image.info["loop"] == 0
        assert image.size == (33, 11)
        durations = []
        for number in range(image.n_frames):
            image.seek(number)
            durations.append(image.info["duration"])
        assert sum(durations) == 2000
        assert len(durations) > 5, "only pictures that look the same are joined"
        assert np.abs(np.asarray(image.convert("RGB"))[0, 0].astype(int) - PICTURES[19][0, 0]).max() < 16


def test_png_and_shrunk():
    large = np.random.default_rng(1).integers(0, 256, (224, 256, 3), np.uint8)
    assert shrunk(large, 128).shape == (112, 128, 3)
    with Image.open(io.BytesIO(png(large))) as image:
        assert (np.asarray(image) == large).all()


def test_contact_sheet_fills_rows():
    pictures = [np.full((20, 30, 3), shade, np.uint8) for shade in (10, 20, 30)]
    sheet = contact_sheet(pictures)
    assert sheet.shape == (40, 60, 3)
    assert [sheet[0, 0, 0], sheet[0, 59, 0], sheet[39, 0, 0], sheet[39, 59, 0]] == [10, 20, 30, 10]
    assert contact_sheet(pictures[:1]).shape == (20, 30, 3)


def test_same_frames_give_the_same_file(tmp_path):
    """Whatever is in the memory that the encoder is given: the C library fills it with this byte."""
    for byte in ("85", "170"):
        subprocess.run(
            [sys.executable, "-c", FILM, str(tmp_path / f"{byte}.mp4")],
            env=environment() | {"MALLOC_PERTURB_": byte},
            check=True,
            timeout=60,
        )
    assert (tmp_path / "85.mp4").read_bytes() == (tmp_path / "170.mp4").read_bytes()


@pytest.mark.parametrize("writer", [Mp4Writer, WebmWriter])
def test_a_film_of_few_bits_is_the_same_each_time(writer, tmp_path):
    picture = np.random.default_rng(0).integers(0, 64, (224, 256, 3), np.uint8) * 2
    files = set()
    for number in range(4):
        path = tmp_path / f"{number}"
        with writer(path, 30, 1_200_000) as film:
            for shift in range(60):
                film.add(np.roll(picture, 3 * shift, 1))
        files.add(path.read_bytes())
    assert len(files) == 1
    with av.open(str(tmp_path / "0")) as container:
        assert sum(1 for _ in container.decode(video=0)) == 60
