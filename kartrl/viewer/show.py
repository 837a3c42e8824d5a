"""Shows a trained policy on one level after another, frame by frame, with its line on the map and its observation."""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kartrl.driving.actor import Actor
from kartrl.driving.driver import Driver, with_newer
from kartrl.driving.episodes import reset_options, restriction_of, start_episode
from kartrl.envs import masks
from kartrl.envs.episode import Episode
from kartrl.envs.observation_spec import ObservationPart, ObservationSpec
from kartrl.envs.spec import ActionSpec, columns_of
from kartrl.envs.worlds import CONSOLE_FPS
from kartrl.envs.wrappers.pictures import picture_of
from kartrl.errors import UserError
from kartrl.learning import checkpoint
from kartrl.models import make_distribution
from kartrl.trajectory import split_decision

Image = npt.NDArray[np.uint8]
SIDE = 320  # of the map, pixels
SHADE = 0.55  # factor of the map's brightness, so that the line stands out
LINE = (255, 207, 92)  # colour of the line
HOLD_SECONDS = 2.0  # for which the end of an episode is shown


class Thought(NamedTuple):
    """What the network makes of an observation."""

    observation: np.ndarray  # [H, W, C], [D] or a packed row [N]
    first: bool  # whether the episode begins
    memory: Tensor  # float32 [1, S], recurrent state before it
    restriction: np.ndarray | None  # float32 [1, P], see `kartrl.envs.masks`
    decision: np.ndarray  # float32 [K], see `kartrl.trajectory.Decision`
    value: float  # of the observation, in the unit of the training's rewards
    entropy: float  # of the policy, nats


class Moment(NamedTuple):
    """A step of an episode: what the network thinks of an observation, and what had led to it."""

    value: float
    entropy: float
    reward: float
    total: float  # return so far
    parts: dict[str, float]  # of the reward
    place: tuple[float, ...]  # (x, y) on the map, 0 to 1 towards east and south; () without a map
    lap: int
    by_hand: bool  # whether a person chose the action that led to it


class Show:
    """Drives an episode on each level in turn, then starts over with other seeds.

    Args:
        driver: used by this show only; its environment must render.
        path: the driver's checkpoint.
        follow: folder of a run; each episode is driven by its newest checkpoint.
        seconds: maximum length of an episode; 0: unlimited.
        say: called with a line that names the checkpoint, at first and whenever it changes.
    """

    def __init__(
        self,
        driver: Driver,
        path: Path,
        follow: Path | None,
        greedy: bool,
        seconds: float,
        say: Callable[[str], None],
    ) -> None:
        self._driver, self.path, self.follow, self._say = driver, path, follow, say
        self.greedy = greedy
        """Whether the most likely actions are taken, from the next episode on."""
        self.stay = False
        """Whether the next episode is on the same level."""
        self.hand: np.ndarray | None = None
        """The action of a person, float32 [D] as in a decision, which is taken instead of the network's."""
        inner = driver.env.unwrapped
        self._each_frame = hasattr(inner, "on_frame")
        self.rate = rate_of(driver)
        """Ticks per second of play."""
        self._limit = round(seconds * self.rate) if seconds else None
        self.levels = driver.levels or ("",)
        """The levels; "" if there are none."""
        self.action = ActionSpec.of(driver.env.action_space)
        self.observation = ObservationSpec.of(driver.env.observation_space)
        self.squashes = driver.world.config.model.squash_actions
        """Whether continuous actions are squashed into their bounds."""
        self._distribution = make_distribution(self.action, self.squashes)
        self._frames: deque[Image] = deque()
        if self._each_frame:
            inner.on_frame = self._frames.append  # type: ignore[attr-defined]
        self.rounds = 0
        """Number of times that all levels have been driven."""
        self.episodes = 0
        """Number of episodes begun."""
        self.place, self.seed = -1, 0
        self._say(f"Showing {path}: {self.policy}")
        self.next()

    def next(self) -> None:
        """Begin an episode on the next level; if a run is followed, with its newest checkpoint."""
        place = self.place if self.stay else (self.place + 1) % len(self.levels)
        again = self.episodes > 0 and (self.stay or place == 0)
        self.rounds += again
        self.begin(place, self.seed + again)

    def begin(self, place: int, seed: int) -> None:
        """Begin an episode on a level, by its place among `levels`; if a run is followed, with its newest checkpoint.

        Args:
            seed: of the environment and of sampling.
        """
        self._take_newest()
        self.place, self.seed = place, seed
        driver, level = self._driver, self.levels[place]
        self._frames.clear()
        self._actor = Actor(driver.network, self.action, greedy=self.greedy)
        self._actor.begin(0, seed)
        self._episode = start_episode(driver.env, reset_options(driver.world, level), seed)
        self._step = next(self._episode)
        self._ticks = self._held = 0
        self.episodes += 1
        self.episode: Episode | None = None
        """The episode, once it has ended."""
        self.moments: list[Moment] = []
        """One for each agent step so far."""
        self._map = _Map(driver.world.map(level)) if level else None
        self._see(by_hand=False)
        self.picture = self._frames.popleft()
        """The frame to show, uint8 [H, W, 3]."""

    def tick(self) -> None:
        """Advance by one frame; the end of an episode is shown for `HOLD_SECONDS`."""
        self._ticks += 1
        if not self._frames and not self._step.ended:
            self._advance()
        if self._frames:
            self.picture = self._frames.popleft()
        elif self._step.ended:
            self._held += 1
        if self._step.ended and not self._frames and self.episode is None:
            self.episode = self._driver.world.make_episode(self._step.info, self._step.terminated)
        if self._held >= HOLD_SECONDS * self.rate or self._ticks == self._limit:
            self.next()

    def step(self) -> None:
        """Advance by one agent step, of all of its frames; at its end, to the next episode."""
        while self._frames:
            self.tick()
        if self._step.ended:
            self.next()
            return
        self.tick()
        while self._frames:
            self.tick()

    def take(self, path: Path) -> None:
        """Begin a new episode with another checkpoint of the same run.

        Raises:
            UserError: it cannot be read, or its network differs.
        """
        self._driver = with_newer(self._driver, path)
        self.path = path
        self._say(f"Showing {path}: {self.policy}")
        self.begin(self.place, self.seed)

    def _advance(self) -> None:
        """Advance the episode by one step; afterwards at least one frame is queued."""
        decision, hand = self.thought.decision, self.hand
        if by_hand := hand is not None and self._is_legal(hand):
            decision = np.concatenate([hand, decision[self.action.columns :]])
        self._step = self._episode.send(self.action.taken(decision[None])[0])
        self._see(by_hand=by_hand)

    def _is_legal(self, hand: np.ndarray) -> bool:
        """Whether the environment's mask, if there is one, allows an action."""
        said = split_decision(self.thought.decision, self.action.columns)
        log_prob = self._distribution.log_prob(torch.from_numpy(said.parameters), torch.from_numpy(hand))
        return float(log_prob) > 0.5 * masks.ILLEGAL

    def _see(self, *, by_hand: bool) -> None:
        """Take in what the newest step has led to."""
        step, driver = self._step, self._driver
        if not self._frames:
            self._frames.append(picture_of(driver.env))
        if self._map is not None:
            self._map.add(driver.world.trace(step.info)[:2])
        if not step.ended:
            self.thought = self._think()
        total = step.reward + (self.moments[-1].total if self.moments else 0.0)
        place = () if self.map is None else self.position
        parts = driver.world.reward_parts(step.info) if self.moments else {}
        lap = driver.world.lap(step.info)
        self.moments.append(
            Moment(self.thought.value, self.thought.entropy, step.reward, total, parts, place, lap, by_hand)
        )

    def _think(self) -> Thought:
        observation, network = np.asarray(self._step.observation), self._driver.network
        memory, first = self._actor.memory(0)
        restriction = restriction_of([self._driver.env], [self._step])
        decision = self._actor.decide([0], [observation], restriction)[0]
        said = split_decision(decision, self.action.columns)
        with torch.inference_mode():
            value = float(network.return_deviation()) * float(said.value)
            entropy = float(self._distribution.entropy(torch.from_numpy(said.parameters)))
        return Thought(observation, first, memory, restriction, decision, value, entropy)

    def _take_newest(self) -> None:
        newest = None if self.follow is None else checkpoint.newest(self.follow)
        if newest is None or newest == self.path:
            return
        try:
            self._driver = with_newer(self._driver, newest)
        except UserError:  # the run has deleted it meanwhile: wait for the next one
            return
        self.path = newest
        self._say(f"Showing {newest}: {self.policy}")

    @property
    def title(self) -> str:
        """The level's name, or the environment's."""
        return self.name(self.place)

    def name(self, place: int) -> str:
        """Name of a level by its place; the environment's, if it has none."""
        world, level = self._driver.world, self.levels[place]
        return world.name_level(level) if level else world.config.environment.id

    @property
    def joypad(self) -> tuple[str | None, ...]:
        """See `World.joypad`."""
        return self._driver.world.joypad

    @property
    def columns(self) -> list[tuple[str, tuple[str, ...]]]:
        """Of each column of an action its name, "" if it is the only one, and names of its alternatives, if known."""
        env = self._driver.env
        return columns_of(env.action_space, self._driver.world.action_names(env))

    @property
    def policy(self) -> str:
        """The policy's age in agent steps, as text."""
        return f"{self._driver.agent_steps:,} agent steps"

    @property
    def progress(self) -> str:
        """Steps and return of the episode so far, as text."""
        return f"step {len(self.moments) - 1:,}, return {self.moments[-1].total:.1f}"

    @property
    def summary(self) -> str:
        """The episode's result, as text; "" before its end."""
        return "" if self.episode is None else self._driver.world.tell_episode(self.episode)

    @property
    def map(self) -> Image | None:
        """The level's map with the line driven so far, uint8 [`SIDE`, `SIDE`, 3]; None if there is none."""
        return None if self._map is None else self._map.image

    @property
    def bare_map(self) -> Image | None:
        """The map without the line."""
        return None if self._map is None else self._map.bare

    @property
    def position(self) -> tuple[float, float]:
        """Position on the map, 0 to 1 towards east and south."""
        return (0.0, 0.0) if self._map is None else self._map.here

    def seen_parts(self) -> list[tuple[ObservationPart, list[Image], list[float]]]:
        """The parts of the network's observation: images, newest first, as `images_of`; or the numbers of a vector."""
        observation, spec = np.asarray(self._step.observation), self.observation
        parts = list[tuple[ObservationPart, list[Image], list[float]]]()
        for part, begin in zip(spec.parts, spec.begins, strict=True):
            own = observation
            if spec.is_packed:
                own = observation[begin : begin + part.nbytes].view(part.dtype).reshape(part.shape)
            if part.is_image:
                frames = self._driver.world.config.environment.frames
                channels = part.shape[2] // frames if part.shape[2] % frames == 0 else part.shape[2]
                parts.append((part, images_of(own, channels), []))
            else:
                parts.append((part, [], own.ravel().tolist()))
        return parts

    @property
    def seen(self) -> list[Image]:
        """The images of the network's observation, newest first, uint8 [H, W, 3]; empty for a vector."""
        return [image for _, images, _ in self.seen_parts() for image in images]

    @property
    def numbers(self) -> list[float]:
        """The numbers of the network's observation."""
        return [number for *_, numbers in self.seen_parts() for number in numbers]


def rate_of(driver: Driver) -> float:
    """Ticks per second of play in a driver's environment."""
    consoles = hasattr(driver.env.unwrapped, "on_frame")
    return float(CONSOLE_FPS) if consoles else driver.world.pictures_per_second(driver.env)


class _Map:
    """A map with a growing line."""

    def __init__(self, picture: Image | None) -> None:
        """`picture`: the map, uint8 [H, W, 3]; None: no map, nothing is drawn."""
        self.image: Image | None = None
        self.bare: Image | None = None
        self.here = (0.0, 0.0)
        self._last: tuple[int, int] | None = None
        if picture is not None:
            self._size = picture.shape[1], picture.shape[0]
            small = cv2.resize(picture, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
            self.bare, self.image = small.astype(np.uint8), (small * SHADE).astype(np.uint8)

    def add(self, place: tuple[float, ...]) -> None:
        """Extend the line to (x, y), in pixels of the map."""
        if self.image is None:
            return
        self.here = place[0] / self._size[0], place[1] / self._size[1]
        point = round(self.here[0] * SIDE), round(self.here[1] * SIDE)
        if self._last is not None:
            cv2.line(self.image, self._last, point, LINE, 2, cv2.LINE_AA)
        self._last = point


def images_of(observation: npt.NDArray[np.uint8], channels: int) -> list[Image]:
    """The images [H, W, 3] that are stacked in [H, W, C], newest (last in the stack) first.

    Args:
        channels: per image; if not 3, only the last one is shown, in grey.
    """
    stack = np.split(observation, observation.shape[2] // channels, axis=2)
    return [image if channels == 3 else image[..., -1:].repeat(3, 2) for image in reversed(stack)]
