"""The interface of a world beyond Gymnasium's: levels, episodes, metrics, tables, pictures.

Everything but `make_env` has a default, for an environment without levels. A world is made from the configuration in
each process that needs it, and keeps no state between calls: `prepare` stores its results in the configuration. Agents
and the logger make worlds too, so a world's module must not import torch.
"""

from __future__ import annotations

import numbers
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import numpy as np

from kartrl.envs.episode import STATISTICS, Drive, Episode, Tally, newest_evaluation
from kartrl.envs.masks import WithoutMasks
from kartrl.envs.world_levels import WorldLevels
from kartrl.errors import UserError

if TYPE_CHECKING:
    from kartrl.config import Config, View
    from kartrl.envs.env_group import EnvGroup
    from kartrl.envs.spec import EnvSpec

Env = gymnasium.Env[Any, Any]
SUCCESS = ("is_success", "success")  # in `info`: Gymnasium-Robotics' and Stable-Baselines3's key, and Meta-World's
FPS = 30.0  # of environments whose metadata have no valid "render_fps"


class World(WorldLevels, ABC):
    """An environment as described by the configuration; see the module.

    Args:
        config: the configuration.
    """

    columns: ClassVar[tuple[str, ...]] = ("return", "length")
    """Headings of `fill_columns`, the most important first: a narrow terminal leaves out the last ones."""
    summary_columns: ClassVar[tuple[str, ...]] = ("episodes", "mean return", "lowest", "highest", "mean length")
    """Headings of `summarize`, the most important first."""
    highlights: ClassVar[tuple[str, ...]] = ("success_rate",)
    """Those of `measure` that are also logged of all train and of all test levels together."""
    steady_reward: ClassVar[bool] = False
    """Whether the mean reward per step tells how well a policy acts, within seconds; else returns of episodes do."""
    picture_word: ClassVar[str] = "picture"
    """What `draw` gives, in messages and in tags: `pictures/...`."""
    training_keys: ClassVar[frozenset[str]] = frozenset({"environment.mirrored_actions"})
    """Keys that have an effect in training alone; these and those below as section.key."""
    seen_keys: ClassVar[frozenset[str]] = frozenset()
    """Keys of its own sections that only change what the learner sees, not the task."""
    action_keys: ClassVar[tuple[str, ...]] = ()
    """Keys of its own sections that say what each action does."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.beat: Callable[[], None] = lambda: None
        """Called whenever an environment has been made, reset or stepped, each of which may take long."""

    # Environments

    @property
    def independent(self) -> bool:
        """Whether any number of its environments in a process share nothing, neither the global random generators nor
        the working directory."""
        return False

    @abstractmethod
    def make_env(self, levels: Sequence[str], training: bool, render: bool) -> Env:
        """Make the environment, with its own actions; `open_env` adds the rest."""

    def open_env(self, levels: Sequence[str] = (), training: bool = True, render: bool = False) -> Env:
        """Make the environment, with episode statistics (`info[STATISTICS]`), and actions as from `ActionSpec.taken`.

        Observations are as `ObservationSpec.of` its space says; frames are stacked along C.

        Args:
            levels: one of these is drawn at each reset; by default the training levels.
            training: whether episodes may begin as in training, such as anywhere on a circuit.
            render: whether `env.render()` returns frames, uint8 [H, W, 3].

        Raises:
            UserError: there is no such environment or level, or kartrl does not support it; lists alternatives.
        """
        # imported here and below, as not every process that imports this module steps environments
        from kartrl.envs.wrappers.actions import take_actions
        from kartrl.envs.wrappers.checked import Checked

        env, section = self.make_env(levels, training, render), self.config.environment
        try:
            env = take_actions(env, section)
        except UserError as error:
            Checked(env).close()
            raise UserError(f"{section.id}: {error}") from error
        if render:
            from kartrl.envs.wrappers.pictures import Pictures

            env = Pictures(env)
        if not training:  # a greedy policy may go in circles forever
            env = gymnasium.wrappers.TimeLimit(env, self.config.evaluation.max_steps)
        checked = Checked(env, self.beat)
        return checked if section.action_masks else WithoutMasks(checked)

    def make_group(self, size: int) -> EnvGroup:
        """Make `size` environments for training, stepped together by one agent."""
        from kartrl.envs.env_group import SingleGroup

        return SingleGroup(self.training_envs(size), self.make_episode)

    def training_envs(self, size: int) -> list[Env]:
        """Make `size` environments on the training levels, each in the same folder, which it may change."""
        envs, here = [], os.getcwd()
        for _ in range(size):
            os.chdir(here)
            envs.append(self.open_env(self.levels("train")))
        return envs

    def isolate(self, env: Env) -> None:  # a world without levels has no foreign files
        """Make a level that crashes or hangs the environment raise a UserError that names it.

        Args:
            env: from `open_env`, before its first reset. It may start processes.
        """

    def check(self) -> None:
        """Find problems with the levels before a run begins, even if the environment crashes or hangs on them.

        Raises:
            UserError: names the level and says what to do.
        """
        if self.syntax is not None and not self.levels("train"):
            raise UserError(
                f"[levels]: no {self.level_word} to train on; set at least one, as in --set levels.NAME=train"
            )

    @property
    def usual_view(self) -> View | None:
        """What `auto` stands for in the keys of a `View`; None: it depends on the observations."""
        return None

    @property
    def usual_rewards(self) -> str:
        """What `auto` stands for in `algorithm.reward_transform`."""
        return "none"

    def remark(self, env: Env) -> str:
        """What a user should know about an environment of it before training; "": nothing."""
        return ""

    def fit(self, spec: EnvSpec) -> Config:
        """The configuration with what `auto` stands for in the keys of a `View` that have an effect, and in rewards."""
        from kartrl.config import View

        environment, algorithm = self.config.environment, self.config.algorithm
        if self.usual_view is not None:
            environment = environment.seen_as(self.usual_view)
        elif images := spec.observation.images:
            height, width, _ = images[0].shape
            kept = {"frame_skip", "height", "width"} if len(images) > 1 else {"frame_skip"}  # each has its own size
            environment = environment.seen_as(View(1, 1, height, width, grayscale=False), kept)
        if algorithm.reward_transform == "auto":
            algorithm = algorithm.model_copy(update={"reward_transform": self.usual_rewards})
        return self.config.model_copy(update={"environment": environment, "algorithm": algorithm})

    def has_effect(self, key: str, images: bool) -> bool:
        """Whether a key of [environment], such as `kwargs.size`, has an effect here.

        Args:
            images: whether observations are images.
        """
        return True

    def ignored_keys(self, spec: EnvSpec) -> list[str]:
        """Keys of the configuration that are not at their defaults but have no effect in this environment."""
        section, images = self.config.environment, spec.observation.has_images
        keys = [f"kwargs.{name}" for name in section.kwargs]
        keys += [key for key in section.changed_keys() if key != "kwargs"]
        ignored = set() if spec.action.continuous else {"action_bounds"}
        return [f"environment.{key}" for key in keys if key in ignored or not self.has_effect(key, images)]

    def mirrored_actions(self) -> tuple[int, ...]:
        """For each action, the one that does the same in a mirrored image; () if unknown, or if there are none."""
        return ()

    def action_names(self, env: Env) -> tuple[str, ...]:
        """Names of an environment's alternatives, if all its choices have the same, such as `RIGHT`, or of its bits.

        Args:
            env: from `open_env`.

        Returns:
            () if they have none.
        """
        given = getattr(env.unwrapped, "get_action_meanings", None)  # as Atari's and MiniGrid's have it
        return tuple(map(str, given())) if callable(given) else ()

    @property
    def joypad(self) -> tuple[str | None, ...]:
        """Names of a console's buttons, as they are in `action_names`, by their bits in libretro; () if it has none."""
        return ()

    def reward_parts(self, info: dict[str, Any]) -> dict[str, float]:
        """The terms of a step's reward, from its `info`: by default its numbers `reward_...`, as MuJoCo's name them."""
        parts = ((key, value) for key, value in info.items() if str(key).startswith("reward_"))
        return {key.removeprefix("reward_"): float(value) for key, value in parts if isinstance(value, numbers.Real)}

    @property
    def frames_per_step(self) -> int:
        """Frames of the game per agent step; 1 if the environment does not tell."""
        view = self.usual_view
        return 1 if view is None else self.config.environment.view(view).frame_skip

    def pictures_per_second(self, env: Env) -> float:
        """Frames per second of play, with one frame per step."""
        given = (env.unwrapped.metadata or {}).get("render_fps")
        try:
            rate = float(given if given is not None else FPS)
        except (TypeError, ValueError):
            return FPS
        return rate if 0.1 <= rate <= 1000 else FPS

    # Episodes

    def make_episode(self, info: dict[str, Any], finished: bool, use: str = "train") -> Episode:
        """Make an `Episode` from the `info` of its last step, which contains Gymnasium's episode statistics."""
        statistics = info[STATISTICS]
        return Episode(int(statistics["l"]), float(statistics["r"]), finished, use=use, success=_success(info))

    def measure(self, episodes: Sequence[Episode]) -> dict[str, float]:
        """Means over these episodes, at least one, for the log: name -> value."""
        known = _successes(episodes)
        return {
            "episodic_return": fmean(episode.episodic_return for episode in episodes),
            "episodic_length": fmean(episode.agent_steps for episode in episodes),
            **({"success_rate": fmean(known)} if known else {}),
        }

    def make_tally(self, use: str, level: str) -> Tally:
        """An empty tally of a level."""
        return Tally(use, level)

    def fill_columns(self, tallies: Sequence[Tally]) -> list[str]:
        """The terminal's row for one or several levels, a cell for each of `columns`."""
        episodes = [episode for tally in tallies for episode in tally.episodes]
        if not episodes:
            return ["-", "-"]
        values = World.measure(self, episodes)
        return [f"{values['episodic_return']:.2f}", f"{values['episodic_length']:.2f}"]

    def tell_progress(self, tallies: Sequence[Tally]) -> str:
        """Text about all levels to append to a plain line; may be ""."""
        known = _successes(episode for tally in tallies for episode in tally.episodes)
        return f"success {fmean(known):.0%}" if known else ""

    def tell_result(self, tallies: Sequence[Tally]) -> list[str]:
        """Phrases about a run's results on all levels, for its last line; none if nothing was evaluated."""
        newest = newest_evaluation(tallies)
        evaluated = [episode.episodic_return for tally in newest for episode in tally.evaluation]
        return [f"return {fmean(evaluated):.2f} in the last evaluation{self._left_out(newest)}"] if evaluated else []

    def _left_out(self, newest: Sequence[Tally]) -> str:
        """How many test levels an evaluation drove, as text, if not all of them.

        Args:
            newest: the levels that it drove.
        """
        driven, there_are = sum(tally.use == "test" for tally in newest), self.count_levels("test")
        return f" ({driven} of {there_are} unseen {self.level_word}s driven)" if driven < there_are else ""

    def summarize(self, episodes: Sequence[Episode]) -> list[str]:
        """A row for an evaluation of one or several levels, a cell for each of `summary_columns`."""
        returns = [episode.episodic_return for episode in episodes]
        length = fmean(episode.agent_steps for episode in episodes)
        return [
            str(len(returns)),
            f"{fmean(returns):.2f}",
            f"{min(returns):.2f}",
            f"{max(returns):.2f}",
            f"{length:.1f}",
        ]

    def tell_episode(self, episode: Episode) -> str:
        """The result of an episode, on one line."""
        return f"return {episode.episodic_return:.2f} in {episode.agent_steps:,} agent steps"

    def tell_limit(self, episodes: Sequence[Episode]) -> str:
        """How many episodes the limit of steps has ended, in one line; "" if none."""
        limit = self.config.evaluation.max_steps
        cut = sum(episode.agent_steps >= limit and not episode.finished for episode in episodes)
        text = f"{cut} of {len(episodes)} episodes ended after {limit:,} agent steps: --max-steps N changes that"
        return text if cut else ""

    def tell_more(self, episodes: Sequence[Episode]) -> list[str]:
        """Lines about these episodes: how many were a success, if the environment says so, and `tell_limit`."""
        known = _successes(episodes)
        success = f"{sum(known)} of {len(known)} episodes were a success" if known else ""
        return [line for line in (success, self.tell_limit(episodes)) if line]

    def list_episodes(self, episodes: Sequence[Episode]) -> list[list[str]]:
        """A table of single episodes, at least one: headings, then a row for each."""
        rows = [
            [str(number), f"{episode.episodic_return:.2f}", f"{episode.agent_steps:,}"]
            for number, episode in enumerate(episodes, 1)
        ]
        return [["episode", "return", "agent steps"], *rows]

    # Pictures

    def trace(self, info: dict[str, Any]) -> tuple[float, ...]:
        """What `draw` needs of each step, from its `info`; if there is a `map`, first x and y in its pixels."""
        return ()

    def lap(self, info: dict[str, Any]) -> int:
        """Number of the lap in which a step is, from its `info`; 0 if there are none."""
        return 0

    def map(self, level: str) -> np.ndarray | None:
        """A level from above, uint8 [H, W, 3]; None if this world has no maps."""
        return None

    def draw(self, level: str, drives: Sequence[Drive], title: str, inches: float = 8.0) -> np.ndarray | None:
        """Draw a picture of drives on a level, uint8 [H, W, 3], 100 pixels per inch; None if this world draws none.

        Pictures of the same width must have the same height, as they are put on one sheet.

        Args:
            drives: at least one.
            title: a line of text; the world may add some.
            inches: width.
        """
        return None


def _successes(episodes: Iterable[Episode]) -> list[bool]:
    """Whether each was a success, of those of which that is known."""
    return [episode.success for episode in episodes if episode.success is not None]


def _success(info: dict[str, Any]) -> bool | None:
    """Whether an episode was a success, from the `info` of its last step; None if that does not say so."""
    for value in (info.get(key) for key in SUCCESS):
        if isinstance(value, numbers.Real | np.bool_):
            return bool(value)
    return None
