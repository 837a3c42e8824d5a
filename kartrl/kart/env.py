"""The kart race as a Gymnasium environment, `kartrl/Kart-v0`."""

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, SupportsIndex

import gymnasium
import numpy as np
from gymnasium import spaces
from pydantic import ValidationError

from kartrl.config import Config, Environment, View
from kartrl.config.wording import word
from kartrl.console.libretro import ALL, Image
from kartrl.console.picture import Picture
from kartrl.envs.spec import describe
from kartrl.envs.wrappers.observations import wrap_images
from kartrl.errors import UserError
from kartrl.kart.built_circuits import is_foreign
from kartrl.kart.console import KartConsole
from kartrl.kart.game import TICKS_PER_SECOND, USUAL, Game
from kartrl.kart.game_files import BUNDLED, game_folder, state_file
from kartrl.kart.game_files import circuits as available
from kartrl.kart.levels import circuit_name, group_of
from kartrl.kart.progress import Course, LapTimes, Progress, fast_coins, race_seconds
from kartrl.kart.reward import RaceStep, reward_parts, step_reward
from kartrl.kart.settings import Kart, Reward, sections_of

OPTIONS = ("circuit", "section", "noop")


def make_kart(
    config: Config, names: Sequence[str], training: bool, render: bool
) -> gymnasium.Env[Image, SupportsIndex]:
    """Create `kartrl/Kart-v0` as configured, on these circuits.

    Raises:
        UserError: the game has no start state for one of them, or `environment.wrapper` cannot be applied.
    """
    sections = sections_of(config)
    settings = sections.kart.model_dump() | config.environment.model_dump(include=set(View._fields))
    settings["random_start"] = training and sections.kart.random_start
    made = gymnasium.make(
        config.environment.id,
        circuit=tuple(names),
        reward=sections.reward.model_dump(),
        render_mode="rgb_array" if render else None,
        disable_env_checker=True,
        **settings,
    )
    env = wrap_images(made, config.environment, USUAL)
    space = env.observation_space
    if space.dtype != np.uint8 or len(space.shape or ()) != 3:
        raise UserError(f"environment.wrapper: the kart's observations must stay uint8 images, not {describe(space)}")
    return env


class KartEnv(gymnasium.Env[Image, SupportsIndex]):
    """A race on an emulated SNES, against the clock or with `opponents`.

    Observations are uint8 [height, width, C * frame_stack]; actions are the entries of `actions`, each held for
    `frame_skip` ticks (1/60 s). The episode is truncated when the race is finished, at `time_limit`, or after
    `no_progress_limit` seconds without a new best position; it is never terminated: laps and clocks are not observable,
    so to the agent each of these is a time limit, and driving on would be worth as much as before; what it costs to be
    stuck is `reward["stuck"]`. `info` contains:

    circuit, lap (completed laps, 0 to 5), lap_times (seconds, of those laps), x, y (position on the map, x east,
    y south), speed (768 at top speed on asphalt), ground (its name), progress (best so far, in laps from where the kart
    started), race_seconds, collision (it hit something during this step), coins, wrong_way, finished, rank (1 is
    first); after a step also reward_progress and the other terms of the reward.

    A race begins with up to `noop_max` ticks of one action; number and action are drawn at random, so that races
    differ. `reset(options={"circuit": name, "section": number, "noop": ticks})` fixes what is otherwise drawn: the
    circuit by its name in `info`, or in any form that `circuit` may have; the kart idles during these ticks.

    Args:
        circuit: a circuit, or several, of which each reset draws one; each in any form that a key of [levels] may have:
            a name, a path, or generated ones, as in "random:3:ice". Missing circuits are built now.
        reward: values of `kartrl.kart.settings.Reward` that differ from the defaults.
        settings: the keys of `kartrl.kart.settings.Kart` and of `kartrl.config.View`.

    Raises:
        UserError: a setting is invalid, or a circuit or the game is missing.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012  # Gymnasium's own type

    def __init__(
        self,
        circuit: str | Sequence[str] = "MarioCircuit.Act1",
        reward: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        seen = {key: settings.pop(key) for key in View._fields if key in settings}
        try:
            section = Kart.model_validate(settings)
            view = Environment.model_validate(seen).view(USUAL)
            self._reward = Reward.model_validate(reward or {})
        except ValidationError as errors:
            found = (" ".join([*map(str, error["loc"][:1]), word(error)]) for error in errors.errors())
            raise UserError(f"kartrl/Kart-v0: {'; '.join(found)}") from errors
        self._section, self._ticks = section, view.frame_skip
        self._folder = game_folder(section.game)
        self._names = self._find([circuit] if isinstance(circuit, str) else circuit)
        self._groups = {name: group_of(circuit_name(name)) for name in self._names}
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "render_fps": TICKS_PER_SECOND / self._ticks}
        self._picture = Picture(view)
        self._rows = slice(section.crop_top, section.crop_bottom)
        self.observation_space = spaces.Box(0, 255, self._picture.shape, np.uint8)
        self.action_space = spaces.Discrete(len(section.actions))
        self.on_frame: Callable[[Image], None] | None = None
        """Called with what `render` gives after each tick; slower than running without."""
        self.steps: Counter[str] = Counter()
        """Steps on each circuit so far, by which `circuit_sampling = steps` draws; environments may share it."""
        self._isolated = False
        self.console: KartConsole | None = None
        self._courses: dict[str, Course | None] = {}
        self.buttons: list[int] = []

    def isolate(self) -> None:
        """Run the emulator in a separate process, unless all circuits are the bundled game's; call before the first
        reset. A start state that crashes or hangs it then raises a UserError."""
        self._isolated = any(is_foreign(self._folder, name) for name in self._names)

    @property
    def game_title(self) -> str:
        """The game that `game = auto` selected."""
        return f"{self._folder.name}, {'the bundled game' if self._folder.name == BUNDLED else 'your own cartridge'}"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Image, dict[str, Any]]:
        """Begin a race; see the class for `options`."""
        super().reset(seed=seed)
        options = options or {}
        if unknown := set(options) - set(OPTIONS):
            raise UserError(
                f"kartrl/Kart-v0: unknown option {', '.join(map(repr, unknown))}; choose from {', '.join(OPTIONS)}"
            )
        section, noop = _whole(options, "section"), _whole(options, "noop")
        if noop is not None and noop < 0:
            raise UserError(f"kartrl/Kart-v0: option noop: 0 ticks or more, not {noop}")
        console = self._opened()
        self._circuit = self._chosen(options["circuit"]) if options.get("circuit") else self._draw()
        self._name = circuit_name(self._circuit)
        console.load(self._circuit)
        if self._section.opponents:
            console.set_opponents(self._section.opponents)
        sections = console.race()["checkpoint_num"]
        if section is None and self._section.random_start and console.game.start_section:
            section = int(self.np_random.integers(sections))
        if section is not None:
            if not 0 <= section < sections:
                raise UserError(f"{self._circuit} has the sections 0 to {sections - 1}, not {section}")
            console.start_at(section)
        held = console.buttons([])
        self._run(console, held, 1)  # a tick updates the screen and the section
        if noop is None:
            # idling before the start does not change the race: only holding an action meanwhile makes starts differ
            held = self.buttons[self.np_random.integers(len(self.buttons))]
            noop = int(self.np_random.integers(self._section.noop_max + 1))
        self._run(console, held, noop)

        race = console.race()
        self._course = self._course_of(console)
        self._progress = Progress(sections, race["checkpoint"], self._offset(race))
        self._idle = 0  # ticks since the last new best
        self._collision = race["collision"]
        self._coins = fast_coins(race)
        self._lap_times = LapTimes(console.game, race)
        self._picture.clear()
        return self._look(console), self._info(console.game, race, False, 0)

    def step(self, action: SupportsIndex) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        """Hold the buttons of `action` for `frame_skip` ticks.

        Raises:
            InvalidAction: `action` is not one of `action_space`.
        """
        console = self.console
        if console is None:
            raise gymnasium.error.ResetNeeded("kartrl/Kart-v0: call reset before step")
        ticks = self._ticks
        self._run(console, self.buttons[self._checked(action)], ticks)
        self.steps[self._circuit] += 1
        race = console.race()

        gained, advanced = self._progress.update(race["checkpoint"], self._offset(race))
        self._idle = 0 if gained else self._idle + ticks
        # the counter decreases by one each tick: if it is higher than expected, there was another collision
        hit = race["collision"] > max(0, self._collision - ticks)
        self._collision = race["collision"]
        before, self._coins = self._coins, fast_coins(race)
        clock = race_seconds(race)
        game = console.game
        laps = game.laps_done(race)
        self._lap_times.update(race)
        finished = laps >= game.laps
        stuck = self._idle >= self._section.no_progress_limit * TICKS_PER_SECOND
        parts = reward_parts(
            self._reward,
            RaceStep(
                seconds=ticks / TICKS_PER_SECOND,
                gained=gained,
                advanced=advanced,
                sections=self._progress.sections,
                off_road=race["ground_type"] in game.off_road,
                hit=hit,
                wrong_way=race["lakitu"] == game.wrong_way,
                coins=self._coins - before,
                finished=finished,
                stuck=stuck,
            ),
        )
        return (
            self._look(console),
            step_reward(self._reward, parts),
            False,
            finished or stuck or clock >= self._section.time_limit,
            self._info(game, race, hit, laps) | {f"reward_{name}": value for name, value in parts.items()},
        )

    def render(self) -> Image | None:
        """The screen for display, uint8 [224, 256, 3]; without a `render_mode`, unobserved rows may be missing."""
        return None if self.console is None else self.console.picture()

    def race(self) -> dict[str, int]:
        """The raw race state in the console's memory."""
        return self._opened().race()

    def close(self) -> None:
        if self.console is not None:
            self.console.close()
            self.console = None

    def _find(self, circuits: Sequence[str]) -> tuple[str, ...]:
        """Names and paths of start states; resolves keys of other forms, and builds missing circuits."""
        if not circuits:
            raise UserError("kartrl/Kart-v0: circuit: name at least one")
        known, found = available(self._folder), list[str]()
        for circuit in map(str, circuits):  # what is no text is unknown
            if circuit in known or (circuit.endswith(".state") and Path(circuit).is_file()):
                found.append(circuit)
            else:
                from kartrl.kart.selection import circuits_of  # here: agents do not need it, and stay small

                found += circuits_of([circuit], self._section.game)
        for name in found:
            state_file(self._folder, name)
        return tuple(found)

    def _chosen(self, circuit: str) -> str:
        """The circuit that an option names."""
        circuit = str(circuit)  # what is no text is unknown
        if circuit in self._names:
            return circuit
        own = {circuit_name(name): name for name in self._names}
        found = [own[circuit]] if circuit in own else self._find([circuit])
        if len(found) != 1:
            raise UserError(f"kartrl/Kart-v0: option circuit: {circuit} stands for {len(found)} circuits; name one")
        return found[0]

    def _draw(self) -> str:
        """Draw the circuit of the next race; by steps, one of the group with the fewest, such as random.ice.

        Without the groups a hard circuit would wait until each of the others was driven once, in each group of
        environments: with 300 circuits, a million agent steps.
        """
        names = list(self._names)
        if self._section.circuit_sampling == "steps":
            in_group = Counter[str]()
            for name, group in self._groups.items():
                in_group[group] += self.steps[name]
            driven = {name: (in_group[group], self.steps[name]) for name, group in self._groups.items()}
            fewest = min(driven.values())
            names = [name for name in names if driven[name] == fewest]
        return names[int(self.np_random.integers(len(names)))]

    def _opened(self) -> KartConsole:
        """The console; opens it if necessary."""
        if self.console is None:
            console = KartConsole(self._folder, isolated=self._isolated, fast=True)
            words = [action.upper().split("+") for action in self._section.actions]
            try:
                self.buttons = [console.buttons([] if word == ["NONE"] else word) for word in words]
            except UserError:
                console.close()
                raise
            self.console = console
        return self.console

    def _course_of(self, console: KartConsole) -> Course | None:
        """The course of the circuit that has just been loaded; None if the game does not provide it."""
        if self._circuit not in self._courses:
            block = console.block()
            self._courses[self._circuit] = None if block is None else Course([(x, y) for x, y, _ in block.gates])
        return self._courses[self._circuit]

    def _offset(self, race: dict[str, int]) -> float:
        """Position of the kart within its section, -0.5 to 0.5; 0 if the game does not provide the course."""
        return 0.0 if self._course is None else self._course.offset(race["checkpoint"], race["x"], race["y"])

    def _checked(self, action: SupportsIndex) -> int:
        """The index of an action; several times faster than `action_space.contains`."""
        try:
            index = operator.index(action)
        except TypeError:
            index = -1
        if not 0 <= index < len(self.buttons):
            last = len(self.buttons) - 1
            raise gymnasium.error.InvalidAction(f"kartrl/Kart-v0: invalid action {action!r}; choose 0 to {last}")
        return index

    def _run(self, console: KartConsole, buttons: int, ticks: int) -> None:
        if self.on_frame is None:
            console.step(buttons, ticks, self._rows if self.render_mode is None else ALL)
        else:
            for _ in range(ticks):
                console.step(buttons)
                self.on_frame(console.picture())

    def _look(self, console: KartConsole) -> Image:
        return self._picture.show(console.screen(self._rows, self._picture.gray))

    def _info(self, game: Game, race: dict[str, int], hit: bool, laps: int) -> dict[str, Any]:
        return {
            "circuit": self._name,
            "lap": laps,
            "lap_times": self._lap_times.seconds,
            "x": race["x"],
            "y": race["y"],
            "speed": race["speed"] * game.speed_scale,
            "ground": game.ground(race["ground_type"]),
            "progress": self._progress.laps,
            "race_seconds": race_seconds(race),
            "collision": hit,
            "coins": race["coins"],
            "wrong_way": race["lakitu"] == game.wrong_way,
            "finished": laps >= game.laps,
            "rank": race["rank"] // 2 + 1,
        }


def _whole(options: Mapping[str, Any], name: str) -> int | None:
    """An integer option of `reset`; None if it is not given."""
    value = options.get(name)
    if value is None:
        return None
    try:
        return operator.index(value)
    except TypeError as error:
        raise UserError(f"kartrl/Kart-v0: option {name}: a whole number, not {value!r}") from error
