"""Inspects the environment before a run, in a separate process, as an emulator may crash or hang."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kartrl.config import Config, Environment, read, settings
from kartrl.config.ini import preset_ids
from kartrl.envs.first_look import look
from kartrl.envs.observation_spec import ObservationPart
from kartrl.envs.spec import EnvSpec
from kartrl.envs.world import Env
from kartrl.envs.worlds import game_of, load_world
from kartrl.envs.wrappers.atari import USUAL as ATARI
from kartrl.envs.wrappers.own_folder import same_folder
from kartrl.errors import UserError
from kartrl.hardware.machine import cores
from kartrl.metrics.tables import say
from kartrl.processes.isolation import CodeFailed, Hung, ProcessLost, run_isolated, show_life
from kartrl.processes.spawn import environments_hosted

if TYPE_CHECKING:
    from rich.console import Console

    from kartrl.acting.sizes import Sizes

LONG_SECONDS = 10.0  # until the first update, which are reported before
UNSEEDED = {
    "any": "the same seed began different episodes, so that evaluations of two policies are not of the same ones, and "
    "runs with one seed differ: its reset should draw from self.np_random alone",
    "zero": "the seed 0, and no other, began different episodes, so that the first one of an evaluation is never the "
    "same: its reset should ask whether `seed is not None`, instead of `if seed`",
}
"""What resets do, by `EnvSpec.unseeded`."""


def inspect_env(config: Config, console: Console | None = None) -> EnvSpec:
    """`World.check`, then `kartrl.envs.first_look.look` in another process.

    Args:
        console: to say that it takes long.

    Raises:
        UserError: raised by these, or the environment's code failed, crashed or hung.
    """
    name = config.environment.id
    with same_folder():
        load_world(config).check()

    def tell() -> None:
        if console is not None:
            say(console, f"Making {name} and stepping it first, to see what it is ...")

    try:
        spec: EnvSpec = run_isolated(_look, config, seconds=config.system.step_timeout, slow=tell)
    except Hung as error:
        raise UserError(f"[environment] id = {name}: {error}; if it needs longer, raise system.step_timeout") from error
    except (CodeFailed, ProcessLost) as error:
        raise UserError(f"[environment] id = {name}: {error}") from error
    return spec


def _look(config: Config) -> Iterator[EnvSpec]:
    made: list[Env] = []  # alive until their own processes have ended, which would notice
    with environments_hosted():
        yield from look(config, show_life, made)


def tell_view(config: Config, spec: EnvSpec) -> str:
    """What the network sees and how it acts, in one line.

    Args:
        config: after `World.fit`.
    """
    world, parts = load_world(config), spec.observation.parts
    seen = _seen(parts[0], config.environment.frames)
    if len(parts) > 1:
        *others, last = [f"{part.name} ({_seen(part, config.environment.frames)})" for part in parts]
        seen = f"{', '.join(others)} and {last}"
    held = f"; an action is held for {world.frames_per_step} frames" * (world.frames_per_step > 1)
    transform = config.algorithm.reward_transform
    return f"The network sees {seen}{held}" + f"; rewards: {transform}" * (transform != "none")


def _seen(part: ObservationPart, frames: int) -> str:
    if not part.is_image:
        return part.size
    height, width, channels = part.shape
    colour = {1: "grey", 3: "colour"}.get(channels // frames, f"{channels // frames}-channel")
    stack = f", the newest {frames} of them" if frames > 1 else ""
    return f"{colour} images, {height} rows of {width} pixels{stack}"


def tell_presets(config: Config, files: Sequence[str]) -> list[str]:
    """A line on the bundled configurations for this environment, if there are any and none of them is in use."""
    wanted, ids = config.environment.id, preset_ids()
    atari = load_world(config).usual_view == ATARI
    fitting = [name for name, its in ids.items() if its == wanted or (atari and game_of(its) == game_of(wanted))]
    memory = config.environment.kwargs.get("obs_type") == "ram"  # and they are for a game's screen
    given = not ids.keys().isdisjoint(files) or _has_own(config, fitting)
    if wanted == Environment().id or not fitting or memory or given:
        return []
    other = "" if wanted in {ids[name] for name in fitting} else f" --env {wanted}"
    more = f" (or {', '.join(fitting[1:])})" if len(fitting) > 1 else ""
    return [f"kartrl has settings for {game_of(wanted)}: -c {fitting[0]}{other}{more}"]


def _has_own(config: Config, presets: Sequence[str]) -> bool:
    """Whether it learns with a setting of one of these, not the default: by a copy of it, or from a program."""
    ours = settings(config)
    for name in presets:
        preset = read([name])
        algorithm = preset.algorithm.name
        standard = settings(read(overrides=[f"algorithm.name={algorithm}", f"environment.id={preset.environment.id}"]))
        own = dict(settings(preset).items() - standard.items())
        learning = ("model.", "optimizer.", f"{algorithm}.")
        if any(key.startswith(learning) and ours.get(key) == value for key, value in own.items()):
            return True
    return False


def remarks(config: Config, spec: EnvSpec) -> list[str]:
    """What else a user should know about this configuration, one line each: ignored observations and keys."""
    name, lines = config.environment.id, []
    if spec.left_out:
        verb = "is" if len(spec.left_out) == 1 else "are"
        lines.append(f"{name}: the network does not see {', '.join(spec.left_out)}, which {verb} text")
    if spec.remark:
        lines.append(f"{name}: {spec.remark}")
    if spec.faint and not config.model.normalise_observations:
        lines.append(
            f"{name}: little is used of the declared range of {', '.join(spec.faint)}, so that the network hardly sees "
            "it: set model.normalise_observations=true"
        )
    if spec.large and not config.model.normalise_observations:
        lines.append(
            f"{name}: large numbers are in {', '.join(spec.large)}, from which a network learns badly: set "
            "model.normalise_observations=true"
        )
    if (clipped := _clipped_alike(config, spec)) is not None:
        lines.append(
            f"{name}: rewards from {spec.rewards[0]:g} to {spec.rewards[1]:g} are all clipped to {clipped:g}, so that "
            "what they differ in is not learned: set algorithm.reward_transform=none, and algorithm.reward_scale"
        )
    if spec.unused_mask:
        lines.append(
            f"{name}: illegal actions may be taken, as {spec.unused_mask} is not used: return the mask in "
            "info['action_mask'] of reset and step, by environment.wrapper, or set environment.action_masks=false"
        )
    if spec.unseeded and not spec.normalising:  # by statistics no observation is repeated
        lines.append(f"{name}: two resets with {UNSEEDED[spec.unseeded]}")
    if spec.normalising:
        lines.append(
            f"{name}: a wrapper normalises by statistics that each environment begins anew, also in evaluations, as no "
            f"checkpoint holds them: set {' and '.join(f'{key}=true' for key in spec.normalising)} instead of it"
        )
    if spec.most_envs:
        lines.append(f"{name}: an agent can have {spec.most_envs} at most, as a process can have no more: {spec.limit}")
    if ignored := load_world(config).ignored_keys(spec):
        lines.append(f"{name} ignores {', '.join(ignored)}: setting them has no effect")
    return lines


def _clipped_alike(config: Config, spec: EnvSpec) -> float | None:
    """What all rewards of the first look are clipped to, if they differ and become equal; else None."""
    transform = load_world(config).fit(spec).algorithm.reward_transform
    if transform not in ("sign", "clip") or spec.rewards[0] == spec.rewards[1]:
        return None
    rewards = config.algorithm.reward_scale * np.array(spec.rewards)
    low, high = np.sign(rewards) if transform == "sign" else rewards.clip(-1.0, 1.0)
    return float(low) if low == high else None


def first_update(config: Config, spec: EnvSpec, sizes: Sizes) -> list[str]:
    """A line on when the first update follows, if that is long after the start."""
    agents = config.system.learners * sizes.agents
    steps, envs = config.system.learners * sizes.update_steps, agents * sizes.groups_per_agent * sizes.group_size
    seconds = spec.step_seconds * steps / min(cores(), agents)
    if seconds < LONG_SECONDS:
        return []
    return [
        f"Steps take {spec.step_seconds:.2g} s: the first update follows after {steps:,}, {steps // envs} in each of "
        f"{envs} environments, about {seconds:.0f} s"
    ]
