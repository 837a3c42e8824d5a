"""`kartrl watch --web`, by what its page shows in Chromium."""

import contextlib
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from commands import run, sockets, start, wait_for
from needs import needs_browser, needs_kart
from playwright.sync_api import Browser, Page, expect
from policies import CARTPOLE, KART, save_policy
from websockets.sync.client import connect

from kartrl.config import dump
from kartrl.driving.driver import open_driver
from kartrl.kart.settings import Reward
from kartrl.learning import checkpoint
from kartrl.run.run_folder import RunFolder
from kartrl.viewer.show import Show
from kartrl.web.contents import policy
from kartrl.web.session import wheel

ADDRESS = re.compile(r"http://\S+/")
LONG = 60_000  # milliseconds, for a busy machine
VELOCITY = 1  # of CartPole's cart, among its observation's numbers
# a gamepad by the browser's own interface
GAMEPAD = """
const state = { axes: [0, 0, 0, 0], buttons: Array.from({ length: 17 }, () => ({ pressed: false, value: 0 })) };
navigator.getGamepads = () => [null, { mapping: "standard", connected: true, ...state }];
window.pad = {
  push: (x) => { state.axes[0] = x; },
  press: (index) => { state.buttons[index].pressed = true; },
  release: () => { state.axes.fill(0); state.buttons.forEach((button) => { button.pressed = false; }); },
};
"""
# contrasts of all visible texts with what is behind them, by WCAG's formula
CONTRASTS = """() => {
  window.luminance = (colour) => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255);
    const [r, g, b] = parts.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const says = (one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  return [...document.querySelectorAll("body *")]
    .filter((one) => one.checkVisibility() && says(one))
    .map((one) => [luminance(getComputedStyle(one).color), luminance(behind(one))])
    .map(([low, high]) => (Math.max(low, high) + 0.05) / (Math.min(low, high) + 0.05));
}"""
# pixels of the curve
INK = """() => {
  const canvas = document.getElementById("curve");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.filter((part, at) => at % 4 === 3 && part > 0).length;
}"""
# the action for held keys, or for a pressed bar of a column
WHEEL = """async ([about, actions, held, bars]) => {
  const { Wheel } = await import("/wheel.js");
  const wheel = new Wheel();
  wheel.begin(about);
  wheel.keys = new Set(held);
  wheel.pressed = new Map(bars);
  return [wheel.action(actions), about.columns.map((_, column) => wheel.reaches(column))];
}"""
# the colours of a black map: where nothing is, and on the lines of a former episode, a former lap and this lap
LINES = """async () => {
  const { drawMap } = await import("/draw.js");
  const map = Object.assign(document.createElement("canvas"), { width: 100, height: 100 });
  const across = (y) => [[0, y], [1, y]], context = map.getContext("2d");
  context.fillRect(0, 0, 100, 100);
  const drawn = document.createElement("canvas");
  drawMap(drawn, await createImageBitmap(map), [across(0.4)], [across(0.6), across(0.8)]);
  return [20, 40, 60, 80].map((y) => [...drawn.getContext("2d").getImageData(50, y, 1, 1).data.slice(0, 3)]);
}"""

pytestmark = needs_browser
expect.set_options(timeout=LONG)


@contextlib.contextmanager
def served(folder: Path, *arguments: str) -> Iterator[tuple[str, Any]]:
    """Context manager: the page's address, and the process, which Ctrl-C then ends."""
    told = folder / "told.txt"
    with told.open("w") as output:
        process = start(
            "watch", "--web", "--port", "0", *arguments, cwd=folder, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        wait_for(lambda: ADDRESS.search(told.read_text()), 100, "the address")
        yield ADDRESS.search(told.read_text())[0], process
        assert process.poll() is None, told.read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130, told.read_text()
    finally:
        process.kill()
        process.wait(60)


@contextlib.contextmanager
def opened(browser: Browser, address: str, before: str = "") -> Iterator[Page]:
    """Context manager: the page; nothing may fail in it. `before`: a script that comes before its own."""
    page, failures = browser.new_page(), list[str]()
    page.add_init_script(before)
    page.set_default_timeout(LONG)
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on("console", lambda message: failures.append(message.text) if message.type == "error" else None)
    page.goto(address)
    page.locator("main").wait_for()
    yield page
    assert failures == []
    page.close()


def step(page: Page) -> int:
    return int(page.locator("#step").inner_text())


def numbers(page: Page) -> list[str]:
    return page.locator("#seen .numbers span").all_inner_texts()


def picture(page: Page) -> str:
    return page.locator("#picture").evaluate("canvas => canvas.toDataURL()")


def pause(page: Page) -> None:
    page.locator("#pause").click()
    expect(page.locator("#pause")).to_have_text("Continue")


def one_step(page: Page) -> None:
    before = page.locator("#step").inner_text()
    page.locator("#one").click()
    expect(page.locator("#step")).not_to_have_text(before)


def begin(page: Page, seed: int) -> None:
    """Begin an episode, paused, with a seed."""
    before = page.locator("main").get_attribute("data-episode")
    page.locator("#seed").fill(f"{seed}")
    page.locator("#seed").blur()
    expect(page.locator("main")).not_to_have_attribute("data-episode", before)
    expect(page.locator("#step")).to_have_text("0")


@pytest.fixture(scope="module")
def pole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_policy(tmp_path_factory.mktemp("pole"), CARTPOLE)


def test_page_moves_pauses_steps_and_begins_anew(browser: Browser, pole: Path, tmp_path: Path) -> None:
    with served(tmp_path, str(pole)) as (address, process), opened(browser, address) as page:
        assert {place.laddr.ip for place in sockets([psutil.Process(process.pid)])} == {"127.0.0.1"}
        before = picture(page)
        wait_for(lambda: picture(page) != before, 60, "a picture that moves")
        pause(page)
        bars = [float(bar.get_attribute("data-p")) for bar in page.locator(".bar").all()]
        assert sum(bars) == pytest.approx(1, abs=1e-4)
        assert len(bars) == 2
        assert float(page.locator("#value").inner_text()) != 0
        assert 0 < float(page.locator("#entropy").inner_text()) < 0.7
        begin(page, 5)
        first = numbers(page)
        one_step(page)
        one_step(page)
        assert step(page) == 2
        assert numbers(page) != first
        assert float(page.locator("#return").inner_text()) == 2
        still = picture(page)
        begin(page, 6)
        assert numbers(page) != first
        assert picture(page) != still
        begin(page, 5)
        assert numbers(page) == first, "the same seed"
        page.keyboard.press("Space")
        expect(page.locator("#pause")).to_have_text("Pause")
        wait_for(lambda: step(page) > 2, 60, "it to go on")


def test_whoever_takes_the_wheel_steers(browser: Browser, pole: Path, tmp_path: Path) -> None:
    with served(tmp_path, str(pole)) as (address, _), opened(browser, address) as page:
        pause(page)
        begin(page, 1)
        page.keyboard.press("t")
        expect(page.locator("#driven")).to_have_text("you drive")
        for key, sign in (("ArrowRight", 1), ("ArrowLeft", -1)):
            page.keyboard.down(key)
            for _ in range(3):
                before = float(numbers(page)[VELOCITY])
                one_step(page)
                assert sign * (float(numbers(page)[VELOCITY]) - before) > 0.1, key
            page.keyboard.up(key)
        page.keyboard.press("Escape")
        expect(page.locator("#driven")).to_be_hidden()
        one_step(page)
        assert step(page) == 7


RETRO = ("environment.id=retro/Airstriker-Genesis-v0", "model.hidden_size=16")
HELD = [  # settings, held keys, the named alternatives or the numbers that they stand for
    (KART, ["ArrowUp", "ArrowLeft"], ["left+B"]),
    (KART, ["KeyX", "ArrowRight", "ShiftLeft"], ["right+B+L"]),
    (KART, [], ["none"]),
    ((*RETRO, "retro.actions=none left right B left+B"), ["ArrowLeft", "KeyX"], ["left+B"]),
    ((*RETRO, "retro.actions=none left right B left+B"), ["Space"], ["B"]),
    (RETRO, ["ArrowUp", "KeyX"], ["B+UP"]),
    (RETRO, ["KeyV"], ["C"]),
    (RETRO, [], ["none"]),
    ((*RETRO, "retro.actions=buttons"), ["ArrowDown", "KeyC", "Enter"], [0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0]),
    (["environment.id=FrozenLake-v1"], ["ArrowUp"], ["up"]),
    (["environment.id=Taxi-v4"], ["Digit4"], ["pickup"]),
    (["environment.id=Pendulum-v1"], ["ArrowRight"], [1]),
    (["environment.id=choosing:Choose-multi-binary-v0"], ["Digit2"], [0, 1, 0]),
    (["environment.id=choosing:Choose-box-v0"], ["ArrowUp"], [0, 1]),
    (["environment.id=choosing:Choose-box-v0"], [], [0, -1]),
    (["environment.id=choosing:Choose-discrete-v0"], ["Digit3"], [3]),
]


@needs_kart
def test_keys_choose_actions_of_every_kind(
    browser: Browser, pole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On consoles by their buttons, also of alternatives that are too unlikely for a bar; numbers rest next to zero."""
    monkeypatch.setenv("KARTRL_IMPORT", "choosing")
    with served(tmp_path, str(pole)) as (address, _), opened(browser, address) as page:
        for place, (settings, held, wanted) in enumerate(HELD):
            path = save_policy(tmp_path / f"{place}", [*settings, "model.hidden_size=16"])
            with open_driver(path, [], "cpu", render=True) as driver:
                show = Show(driver, path, None, greedy=True, seconds=0, say=str)
                about, actions = wheel(show), policy(show)
            columns = about["columns"]
            taken, reached = page.evaluate(WHEEL, [about, actions, held, []])
            named = [one["names"][own] if one["names"] else own for one, own in zip(columns, taken, strict=True)]
            assert named == wanted, (settings, held)
            assert all(reached) or "retro.actions=buttons" in settings
            if actions[-1]["kind"] == "choice":
                bar = actions[-1]["bars"][-1][0]
                assert page.evaluate(WHEEL, [about, actions, held, [[len(actions) - 1, bar]]])[0][-1] == bar


@needs_kart
def test_retro_games_are_steered_by_keys_and_bars(browser: Browser, tmp_path: Path) -> None:
    path = save_policy(tmp_path, [*RETRO, "retro.actions=none left right B"])
    with served(tmp_path, str(path)) as (address, _), opened(browser, address) as page:
        pause(page)
        expect(page.locator(".bar span:first-child")).to_have_text(["none", "left", "right", "B"])
        shown = []
        for place, key in enumerate(("ArrowLeft", "ArrowRight")):
            begin(page, place + 1)
            begin(page, 7)
            page.keyboard.press("t")
            expect(page.locator("#driven")).to_have_text("you drive")
            page.keyboard.down(key)
            for _ in range(5):
                one_step(page)
            page.keyboard.up(key)
            page.keyboard.press("t")
            expect(page.locator("#driven")).to_be_hidden()
            shown.append(picture(page))
        assert shown[0] != shown[1]


def test_bars_that_no_key_reaches_are_pressed_by_tab(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KARTRL_IMPORT", "choosing")
    path = save_policy(tmp_path, ["environment.id=choosing:Choose-multi-discrete-v0", "model.hidden_size=16"])
    with served(tmp_path, str(path)) as (address, _), opened(browser, address) as page:
        pause(page)
        lists = page.locator("#actions .bars")
        assert [one.get_attribute("aria-label") for one in lists.all()] == ["action 1", "action 2"]
        page.locator("#wheel").click()
        expect(page.locator("#driven")).to_have_text("you drive")
        first, second = (lists.nth(place).locator(".bar") for place in (0, 1))
        assert {bar.get_attribute("tabindex") for bar in first.all()} == {"-1"}
        assert {bar.get_attribute("tabindex") for bar in second.all()} == {"0"}
        second.nth(3).focus()
        page.keyboard.down("Enter")
        assert page.evaluate("document.activeElement.dataset.index") == "3"
        page.keyboard.up("Enter")


def test_a_gamepad_steers_and_what_it_releases_is_the_networks(browser: Browser, pole: Path, tmp_path: Path) -> None:
    with served(tmp_path, str(pole)) as (address, _), opened(browser, address, GAMEPAD) as page:
        pause(page)
        begin(page, 1)
        page.locator("#wheel").click()
        expect(page.locator("#driven")).to_have_text("you drive")
        for held, sign in (("push(0.9)", 1), ("push(-0.9)", -1), ("press(15)", 1), ("press(14)", -1)):
            page.evaluate(f"pad.{held}")
            for _ in range(2):
                before = float(numbers(page)[VELOCITY])
                one_step(page)
                assert sign * (float(numbers(page)[VELOCITY]) - before) > 0.1, held
            page.evaluate("pad.release()")
        page.evaluate("pad.push(0.9)")
        page.keyboard.press("t")
        expect(page.locator("#driven")).to_be_hidden()
        likely = page.locator(".bar.chosen").get_attribute("data-index")
        before = float(numbers(page)[VELOCITY])
        one_step(page)
        assert (float(numbers(page)[VELOCITY]) > before) == (likely == "1"), "the network's again, whatever is held"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_all_is_legible_and_in_reach_of_keys(
    scheme: Any, browser: Browser, pole: Path, tmp_path: Path
) -> None:
    with served(tmp_path, str(pole)) as (address, _):
        context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme)
        page = context.new_page()
        page.goto(address)
        page.locator("main").wait_for(timeout=LONG)
        pause(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, "nothing beyond the right edge"
        assert min(page.evaluate(CONTRASTS)) >= 4.5
        assert page.evaluate("luminance(getComputedStyle(document.body).backgroundColor) < 0.5") == (scheme == "dark")
        for control in page.locator("button:not(.bar), select, input[type=number]").all():
            assert not control.is_visible() or control.bounding_box()["height"] >= 32, "as large as a finger"
        reached = []
        for _ in range(12):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.id"))
        assert {"pause", "one", "reset", "next", "wheel", "policies", "speeds", "seed", "greedy"} <= {*reached}
        page.locator("#one").focus()
        before = page.locator("#step").inner_text()
        page.keyboard.press("Enter")
        expect(page.locator("#step")).not_to_have_text(before)
        context.close()


def test_two_pages_see_the_same_and_a_slow_one_delays_nobody(browser: Browser, pole: Path, tmp_path: Path) -> None:
    with (
        served(tmp_path, str(pole)) as (address, _),
        opened(browser, address) as page,
        opened(browser, address) as other,
    ):
        live = address.replace("http", "ws") + "live"
        with connect(live, origin=address.rstrip("/")) as slow:  # and never says that it has seen anything
            moves = step(page), picture(other)
            wait_for(lambda: step(page) != moves[0] and picture(other) != moves[1], 60, "both to move")
            pause(page)
            expect(other.locator("#pause")).to_have_text("Continue")
            begin(other, 3)
            expect(page.locator("#seed")).to_have_value("3")
            wait_for(lambda: numbers(page) == numbers(other), 60, "the same numbers")
            for name, chosen in (("speeds", "0.25"), ("greedy", "false")):
                page.locator(f"#{name}").select_option(chosen)
                expect(other.locator(f"#{name}")).to_have_value(chosen)
            begin(other, 4)
            page.locator("#wheel").click()
            expect(other.locator("#driven")).to_have_text("a viewer drives")
            other.keyboard.press("t")
            one_step(page)
            expect(other.locator("#step")).to_have_text("1")
            assert other.locator("#driven").inner_text() == "a viewer drives", "one at a time"
            slow.send("[1")
            with contextlib.suppress(Exception):  # what it was sent before
                while True:
                    slow.recv(timeout=60)
            assert slow.close_code == 1008


def test_a_followed_run_ends_and_the_page_goes_on(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "run"
    folder.mkdir(parents=True)
    (folder / "config.cfg").touch()
    held = RunFolder(folder)
    with served(tmp_path, "run") as (address, _):
        page = browser.new_page()
        page.goto(address)
        expect(page.locator("#notice")).to_have_text("waiting for the first checkpoint of run ...")
        save_policy(folder, CARTPOLE, 1000)
        (folder / "scalars.csv").write_text(
            "seconds,agent_steps,tag,value\n1,500,charts/episodic_return,10\n2,1000,charts/episodic_return,20\n"
        )
        expect(page.locator("#training")).to_have_text("in training")
        expect(page.locator("#trained")).to_be_visible()
        wait_for(lambda: page.evaluate(INK) > 100, 60, "the curve")
        expect(page.locator("#policy")).to_have_text("run: newest, 1,000 agent steps")
        save_policy(folder, CARTPOLE, 2500)
        page.locator("#next").click()
        expect(page.locator("#policy")).to_have_text("run: newest, 2,500 agent steps")
        expect(page.locator("#policies option")).to_have_text(["run: newest", "run: 2500", "run: 1000"])
        held.release()
        expect(page.locator("#training")).to_be_hidden()
        page.locator("#policies").select_option("run: 1000")
        expect(page.locator("#policy")).to_have_text("run: 1000, 1,000 agent steps")
        before = picture(page)
        wait_for(lambda: picture(page) != before, 60, "a picture that moves")
        page.close()


def test_a_page_waits_for_a_training_that_begins_later(browser: Browser, pole: Path, tmp_path: Path) -> None:
    with served(tmp_path, "--training") as (address, _):
        page = browser.new_page()
        page.goto(address)
        expect(page.locator("#notice")).to_have_text("waiting for a run to begin ...")
        folder = tmp_path / "logs" / "late"
        folder.mkdir(parents=True)
        (folder / "config.cfg").write_text(dump(checkpoint.load(pole).config))
        held = RunFolder(folder)
        expect(page.locator("#notice")).to_have_text("waiting for the first checkpoint of late ...")
        save_policy(folder, CARTPOLE, 1000)
        expect(page.locator("#policy")).to_have_text("late: newest, 1,000 agent steps")
        held.release()
        page.close()


@needs_kart
def test_the_kart_has_levels_a_map_and_attributions(browser: Browser, pole: Path, tmp_path: Path) -> None:
    kart = save_policy(tmp_path / "kart", [*KART, "environment.frame_stack=3"])
    shutil.copy(pole, tmp_path / "pole.pt")
    names = [str(kart), "-l", "MarioCircuit.Act2,RainbowRoad.Act1"]
    with served(tmp_path, *names) as (address, _), opened(browser, address) as page:
        expect(page.locator("#title")).to_have_text("MarioCircuit.Act2")
        pause(page)
        page.locator("#levels").select_option("RainbowRoad.Act1")
        expect(page.locator("#title")).to_have_text("RainbowRoad.Act1")
        expect(page.locator("#map")).to_be_visible()
        assert page.locator("#map").evaluate("canvas => canvas.width") == 320
        page.locator("#explain").check()
        for kind in ("seen", "value", "action"):
            expect(page.locator(f"figure[data-kind={kind}] canvas")).to_have_js_property("width", 52)
        expect(page.locator("figure.old")).to_have_count(2)
        expect(page.locator(".bar")).to_have_count(9)
        assert page.locator(".bar").first.inner_text().startswith("none")
        drawn = page.locator("#map").evaluate("canvas => canvas.toDataURL()")
        one_step(page)
        expect(page.locator("#parts tbody tr")).to_have_count(len(Reward.model_fields) - 2)  # without kind, bound
        assert page.locator("#map").evaluate("canvas => canvas.toDataURL()") != drawn, "the line"
        bare, episode, lap, now = page.evaluate(LINES)
        assert bare == [0, 0, 0]
        assert episode[0] == episode[1] == episode[2] > 0, "pale: of a former episode"
        assert lap[2] > lap[0], "blue: of a former lap"
        assert now == [255, 207, 92], "bright: of this lap"


def test_runs_of_other_environments_can_be_chosen(browser: Browser, pole: Path, tmp_path: Path) -> None:
    lake = save_policy(tmp_path / "acrobot", ["environment.id=Acrobot-v1", "model.hidden_size=16"])
    shutil.copy(lake, tmp_path / "acrobot.pt")
    shutil.copy(pole, tmp_path / "pole.pt")
    with served(tmp_path, "pole.pt", "acrobot.pt") as (address, _), opened(browser, address) as page:
        expect(page.locator("#title")).to_have_text("CartPole-v1")
        page.locator("#policies").select_option("acrobot.pt")
        expect(page.locator("#title")).to_have_text("Acrobot-v1")
        expect(page.locator(".bar")).to_have_count(3)
        (tmp_path / "pole.pt").write_bytes(b"damaged")
        page.locator("#policies").select_option("pole.pt")
        expect(page.locator("#notice")).to_contain_text("pole.pt: refused")
        expect(page.locator("#title")).to_have_text("Acrobot-v1")


def test_a_page_elsewhere_cannot_connect(browser: Browser, pole: Path, tmp_path: Path) -> None:
    live = "address => new Promise(done => { const s = new WebSocket(address); s.onopen = () => done('open'); "
    live += "s.onerror = () => done('refused'); })"
    read = "address => fetch(address).then(() => 'read', () => 'refused')"
    with served(tmp_path, str(pole)) as (address, _):
        page = browser.new_page()
        assert page.evaluate(live, address.replace("http", "ws") + "live") == "refused"
        assert page.evaluate(read, address) == "refused"
        page.goto(address)
        assert page.evaluate(live, address.replace("http", "ws") + "live") == "open"
        page.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--web", "nowhere"], "nowhere: no such run"),
        (["--web", "--port", "70000"], "0 to 65535"),
        (["--web", "--host", "203.0.113.1", "--port", "0"], "cannot listen there"),
        (["--web", "--training", "pole.pt"], "leave out pole.pt"),
        (["--training"], "add --web"),
        (["one", "two"], "only --web shows several policies"),
    ],
)
def test_unusable_arguments_are_refused_in_one_line(arguments: list[str], words: str, tmp_path: Path) -> None:
    done = run("watch", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert words in done.stderr
