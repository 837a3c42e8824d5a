"""`kartrl report`, by what its page shows in Chromium."""

import base64
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from commands import wait_for
from finished_runs import write_run
from needs import needs_browser, needs_kart
from playwright.sync_api import Browser, Page, expect
from policies import CARTPOLE, KART, save_policy

from kartrl.cli import main
from kartrl.metrics.event_writer import EventWriter
from kartrl.metrics.video import gif, png
from kartrl.report.driven import Film, Shown
from kartrl.report.page import make_page
from kartrl.report.runs import read_runs

LONG = 60_000  # milliseconds, for a busy machine
LARGEST = 10_000_000  # bytes
HOSTILE = "<b onclick=f()>&\"'$\\frac$"

pytestmark = needs_browser
expect.set_options(timeout=LONG)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextlib.contextmanager
def opened(browser: Browser, file: Path, *, dark: bool = False, width: int = 1200) -> Iterator[Page]:
    """Context manager: the page, opened from the disk; nothing in it may fail, or ask for anything else."""
    page, failures = (
        browser.new_page(viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light"),
        list[str](),
    )
    page.set_default_timeout(LONG)
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on("console", lambda message: failures.append(message.text))
    page.on("request", lambda request: failures.append(request.url))
    page.goto(file.absolute().as_uri())
    yield page
    assert [text for text in failures if not text.startswith("data:")] == [file.absolute().as_uri()]
    page.close()


def run_of(name: str, *overrides: str, seed: int = 1, score: float = 100.0) -> Path:
    """A run of CartPole that has learned to score so much, with a policy that has learned nothing."""
    own = [*CARTPOLE, f"run.seed={seed}", *overrides]
    returns = np.linspace(10, score + seed, 200).tolist()
    folder = write_run(
        Path("logs") / name, *own, returns=returns, scalars={"evaluation/train_return": [5.0, 9.0, score]}
    )
    save_policy(folder, own, 20_000 + seed)
    return folder


def cells(page: Page, title: str) -> list[list[str]]:
    """The rows of the table after this heading."""
    rows = page.locator(f"xpath=//h3[normalize-space()='{title}']/following-sibling::div[1]//tbody/tr").all()
    return [row.locator("td").all_inner_texts() for row in rows]


def wait_for_film(page: Page) -> None:
    wait_for(lambda: page.locator("video").evaluate("film => film.readyState") >= 3, 60, "the film")


def test_report_of_seeds_opens_alone_and_its_film_plays(browser: Browser, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (1, 2, 3):
        run_of(f"poles/pole-{seed}", "optimizer.learning_rate=0.00123", seed=seed)
    assert main(["report", "pole-1", "poles", "./logs/poles/pole-1"]) == 0
    file = Path("report.html")
    assert "Report: report.html" in capsys.readouterr().out
    assert file.stat().st_size < LARGEST
    with opened(browser, file) as page:
        expect(page.locator("h1")).to_have_text("appo: 3 runs")
        changed = cells(page, "Settings that differ from the defaults")
        (rate,) = [row for row in changed if row[0] == "optimizer.learning_rate"]
        assert rate[2] == "0.00123"
        assert ["run.seed", "1", "1, 2, 3"] in changed
        (driven,) = cells(page, "Driven for this report, greedily")
        low, mean, high = (float(driven[1].split()[place].strip("[],")) for place in (1, 0, 2))
        assert low <= mean <= high
        assert driven[2] == "9", "three episodes of three runs"
        ((_, trained, episodes),) = cells(page, "Training episodes of the last tenth")
        assert re.fullmatch(r"9\d\.\d\d \[9\d\.\d\d, 9\d\.\d\d\]", trained)
        assert int(episodes) == 63
        assert [row[0] for row in cells(page, "Runs")] == ["pole-1", "pole-2", "pole-3"]
        assert page.locator("svg").count() == 5, "two curves, two measures, the evaluations"
        wait_for_film(page)
        film = page.locator("video")
        assert film.evaluate("film => film.videoWidth % 2 + film.videoHeight % 2") == 0
        film.evaluate("film => film.play()")
        wait_for(lambda: film.evaluate("film => film.currentTime") > 0.3, 60, "it to play")
        assert film.evaluate("film => film.duration") > 4
        kinds = [one.get_attribute("type") for one in page.locator("video source").all()]
        assert [kind.partition(";")[0] for kind in kinds] == ["video/mp4", "video/webm"]
        film.evaluate("film => { film.firstChild.remove(); film.load(); film.play(); }")  # a browser without H.264
        wait_for(lambda: film.evaluate("film => film.currentTime") > 0.3, 60, "the other one to play")


def test_report_takes_the_colours_and_width_of_its_reader(browser: Browser) -> None:
    run_of("pole")
    assert main(["report", "pole", "--episodes", "0"]) == 0
    backs = set()
    for dark, width in ((False, 1200), (True, 360)):
        with opened(browser, Path("pole.html"), dark=dark, width=width) as page:
            backs.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            ink = page.evaluate("getComputedStyle(document.body).color")
            assert page.evaluate("getComputedStyle(document.querySelector('svg text')).fill") == ink
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.pdf(format="A4").startswith(b"%PDF")
            page.emulate_media(media="print")
            assert page.locator("details").is_hidden()
    assert len(backs) == 2


def test_all_text_of_runs_is_escaped(browser: Browser) -> None:
    """Names of runs, levels and settings, where they come from, and why a policy is not driven."""
    levels = [(HOSTILE, 1)] * 50
    for number, name in enumerate((HOSTILE, "other")):
        folder = write_run(
            Path("logs") / name,
            f"environment.kwargs.name={HOSTILE}{number}",
            *CARTPOLE,
            returns=[1.0] * 50,
            levels=levels,
            scalars={f"evaluation_train/{HOSTILE}/episodic_return": [1.0]},
        )
        text = (folder / "config.cfg").read_text()
        (folder / "config.cfg").write_text(f"# command: kartrl train {HOSTILE}\n# machine: {HOSTILE}\n\n{text}")
        save_policy(folder, CARTPOLE)
        (folder / "checkpoints" / "0000001000.pt").write_bytes(HOSTILE.encode())
    assert main(["report", HOSTILE, "other", "--by", "environment.kwargs.name", "-o", "a.html"]) == 0
    with opened(browser, Path("a.html")) as page:
        assert page.locator("script, b[onclick]").count() == 0
        text = page.locator("body").inner_text()
        assert text.count(HOSTILE) > 5
        assert f"kartrl train {HOSTILE}" in text
        assert "<b onclick=f()>" in page.locator("svg").first.text_content()
        (row, _) = cells(page, "Training episodes of the last tenth")
        assert row[0] == HOSTILE


def test_report_is_the_same_each_time_and_never_replaces(capsys: pytest.CaptureFixture[str]) -> None:
    run_of("pole")
    assert main(["report", "-o", "a.html"]) == 0
    assert "the newest" in capsys.readouterr().out
    first = Path("a.html").read_bytes()
    assert b"data:video/mp4" in first
    assert main(["report", "pole", "-o", "a.html"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--force" in line
    assert main(["report", "pole", "-o", "a.html", "--force"]) == 0
    assert Path("a.html").read_bytes() == first
    assert str(Path.cwd()) not in first.decode()


@needs_kart
def test_kart_report_has_lines_and_unseen_circuits(browser: Browser) -> None:
    levels = ("levels.*=none", "levels.MarioCircuit.Act1=train", "levels.MarioCircuit.Act4=test")
    own = [*KART, *levels]
    folder = write_run(
        Path("logs/kart"), *own, returns=[1.0] * 9, levels=[("MarioCircuit.Act1", 0)] * 9, env="kartrl/Kart-v0"
    )
    save_policy(folder, own)
    assert main(["report", "kart", "--episodes", "1"]) == 0
    with opened(browser, Path("kart.html")) as page:
        driven = cells(page, "Driven for this report, greedily")
        assert [row[0] for row in driven] == ["MarioCircuit.Act1", "MarioCircuit.Act4 (unseen)"]
        assert cells(page, "Training episodes of the last tenth")[0][0] == "MarioCircuit.Act1"
        expect(page.locator("figure img")).to_have_count(2)
        assert page.locator("figure img").first.evaluate("image => image.naturalWidth") == 600
        assert "Act4 (unseen)" in page.locator("video + figcaption").inner_text()
    assert main(["report", "kart", "--episodes", "1", "-l", "RainbowRoad.Act1", "--force"]) == 0
    with opened(browser, Path("kart.html")) as page:
        assert [row[0] for row in cells(page, "Driven for this report, greedily")] == ["RainbowRoad.Act1 (other)"]


def test_report_shows_what_evaluations_have_left(browser: Browser) -> None:
    """Where nothing is to be driven, or can be: the run's environment is not there."""
    tags = {"evaluation/train_return": [2.0, 7.0], "evaluation_sampled/train_return": [1.0]}
    folder = write_run(Path("logs/gone"), "environment.id=Gone-v0", returns=[1.0] * 9, scalars=tags, env="Gone-v0")
    save_policy(folder, CARTPOLE)
    (folder / "evaluation").mkdir()
    images = np.random.default_rng(0).integers(0, 255, (12, 33, 47, 3), np.uint8)
    writer = EventWriter(folder / "evaluation")
    writer.image(1, "evaluation_video/train/Gone-v0", b"damaged", 3, 3)
    writer.image(2, "evaluation_video/train/Gone-v0", gif(list(images), 5), 33, 47)
    writer.image(2, "evaluation_pictures/train/Gone-v0", png(images[0]), 33, 47)
    writer.image(2, "evaluation_pictures/test/Gone-v0", b"GIF89a damaged", 33, 47)
    writer.close()
    (folder / "checkpoints" / "0000001000.pt").write_bytes(b"damaged")
    for options in ((), ("--episodes", "0")):
        assert main(["report", "gone", "--force", *options]) == 0
        with opened(browser, Path("gone.html")) as page:
            assert cells(page, "The newest evaluation during training") == [["Gone-v0", "7.00"]]
            expect(page.locator("figure img")).to_have_count(1)
            wait_for_film(page)
            assert page.locator("video").evaluate("film => film.videoWidth % 2 + film.videoHeight % 2") == 0
            assert "0000001000.pt: refused" in page.locator("section").last.inner_text()


def test_run_without_checkpoint_has_curves_alone(browser: Browser) -> None:
    write_run(Path("logs/young"), *CARTPOLE, returns=[1.0] * 9)
    assert main(["report", "young"]) == 0
    with opened(browser, Path("young.html")) as page:
        assert page.locator("svg").count() == 2
        assert page.locator("video").count() == 0
        assert "there is no checkpoint" in page.locator("section").last.inner_text()


def test_environment_that_fails_is_a_note(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARTRL_IMPORT", "crashing")
    own = ["environment.id=crashing:CrashAtOnce-v0", "model.hidden_size=16"]
    save_policy(write_run(Path("logs/faulty"), *own, returns=[1.0] * 9, env=own[0].partition("=")[2]), own)
    assert main(["report", "faulty"]) == 0
    with opened(browser, Path("faulty.html")) as page:
        assert "the cartridge fell out" in page.locator("section").last.inner_text()


def test_driven_episodes_have_the_limit_of_evaluations(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KARTRL_IMPORT", "filmed")
    own = ["environment.id=filmed:Filmed-v0", "evaluation.max_steps=70"]
    save_policy(write_run(Path("logs/endless"), *own, returns=[1.0] * 9, env=own[0].partition("=")[2]), own)
    assert main(["report", "endless", "--episodes", "1"]) == 0
    note = "endless: 1 of 1 episodes ended after 70 agent steps"
    assert note in capsys.readouterr().out
    page = Path("endless.html").read_text(encoding="utf-8")
    assert note in page
    assert "70.00" in page, "the return, 1 a step"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere: no such run"),
        (["empty"], "has no episodic_return yet"),
        (["pole", "--metric", "episodic_lengt"], "the nearest that it has is episodic_length"),
        (["pole", "acrobot"], "cannot compare"),
        (["pole", "--by", "algorithm.nam"], "the nearest that it has is algorithm.name"),
        (["pole", "-o", "report.pdf"], "must end in .html"),
        (["pole", "-o", "nowhere/a.html"], "there is no folder nowhere"),
        (["pole", "-l", "Act1"], "has no levels"),
        (["cut"], "not a valid configuration"),
    ],
)
def test_unusable_input_is_refused_in_one_line(
    arguments: list[str], words: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_of("pole")
    write_run(Path("logs/empty"), *CARTPOLE, returns=[])
    write_run(Path("logs/acrobot"), "environment.id=Acrobot-v1", "algorithm.name=ppo", returns=[1.0] * 9)
    (write_run(Path("logs/cut"), returns=[1.0] * 9) / "config.cfg").write_text("[run")
    assert main(["report", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert [path for path in here.iterdir() if path.is_file()] == []


def test_what_makes_a_page_too_large_is_left_out() -> None:
    runs, image = read_runs([run_of("pole")], "episodic_return", "algorithm.name"), np.zeros((4, 4, 3), np.uint8)
    films = [Film(name, bytes(size), b"", image) for name, size in (("small", 2), ("large", 5_000_000))]
    shown = Shown([*films, Film("larger", b"", bytes(6_000_000), image)], [], [], ["a note"])
    page = make_page(runs, shown)
    assert len(page) < LARGEST
    assert page.count(b"<video") == 2
    assert b"larger: left out, as the page would be larger than 10 MB" in page
    assert b"a note" in page


def test_home_folder_is_shortened_in_texts_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/root")
    key, film, image = "environment.kwargs.path", base64.b64decode("AAAA/rootAAA"), np.zeros((4, 4, 3), np.uint8)
    folders = [write_run(Path("logs", name), f"{key}=/root/{name}", *CARTPOLE, returns=[1.0] * 9) for name in "ab"]
    shown = Shown([Film("film", film, film, image)], [], [], ["/root/a, /rooter/a, /data/root/a, file:///root."])
    page = make_page(read_runs(folders, "episodic_return", key), shown).decode()
    assert page.count("base64,AAAA/rootAAA") == 2
    assert "~/a, /rooter/a, /data/root/a, file://~." in page
    assert "'~/b' (1)</text>" in page, "in a curve's legend"
    assert "/root/b" not in page


def test_films_of_many_groups_stay_small(browser: Browser) -> None:
    for number in range(5):
        run_of(f"pole-{number}", f"optimizer.learning_rate=0.00{number + 1}")
    names = [f"pole-{number}" for number in range(5)]
    assert main(["report", *names, "--by", "optimizer.learning_rate", "--episodes", "1", "-o", "a.html"]) == 0
    films = re.findall(r"data:video/mp4;base64,([^\"]+)", Path("a.html").read_text())
    assert len(films) == 4
    assert sum(len(base64.b64decode(film)) for film in films) < 4_500_000
    with opened(browser, Path("a.html")) as page:
        assert page.locator("svg").first.locator("text").all_inner_texts()
