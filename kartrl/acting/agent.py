"""An agent: steps its environments and writes their observations into the slab. It is independent of the network."""

import contextlib
import os
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection

import numpy as np

from kartrl.acting.agent_group import AgentGroup, Mailbox, Stopped, take_turns
from kartrl.acting.messages import EpisodeEnd, Failure
from kartrl.acting.slab import Slab
from kartrl.config import Config
from kartrl.envs import make_group
from kartrl.envs.env_group import EnvGroup
from kartrl.envs.seeds import seed_generators
from kartrl.envs.spec import ActionSpec, EnvSpec
from kartrl.errors import UserError, shortage
from kartrl.metrics.stopwatch import AGENT_STAGES, Stopwatch
from kartrl.processes.child import end_descendants
from kartrl.processes.spawn import AGENT, environments_hosted, yield_cores

FAULTS_ALLOWED = 20  # consecutive steps at which all environments of a group returned non-finite numbers
STEP_SEEDS = 1_000_003  # seeds of the generators for the steps of each environment


def run(
    config: Config, spec: EnvSpec, slab: Slab, agent: int, seed: int, waker: Connection, server: Connection
) -> None:
    """Body of an agent process.

    Args:
        server: receives an `EpisodeEnd` at the end of each episode, and a `Failure` if the agent cannot continue.
    """
    yield_cores(AGENT)
    with environments_hosted(), telling(server):
        stopwatch = Stopwatch(AGENT_STAGES, slab.stage_seconds[agent])
        calls = slab.calls[agent : agent + 1]
        play(config, spec.action, slab, agent, seed, Mailbox(slab, waker), stopwatch, server, calls)


@contextlib.contextmanager
def telling(server: Connection) -> Iterator[None]:
    """Context manager: report an exception that ends an agent to the server as a `Failure`, unless the run stops."""
    try:
        yield
    except Stopped:
        return
    except Exception as error:
        if isinstance(error, UserError):
            failure = Failure(str(error), "", True)
        else:
            short = shortage(error)
            failure = Failure(short or f"{type(error).__name__}: {error}", short or traceback.format_exc(), False)
        try:
            server.send(failure)
        except BrokenPipeError:  # the server is gone, which is what the error was about if it was of a pipe, too
            return
        raise SystemExit(1) from error


def play(
    config: Config,
    action: ActionSpec,
    slab: Slab,
    agent: int,
    seed: int,
    mailbox: Mailbox,
    stopwatch: Stopwatch,
    server: Connection,
    calls: np.ndarray,
) -> None:
    """Step the agent's groups in turn, forever: one is stepped while the others wait for their actions.

    Args:
        calls: int64 [1], the number of environments made and of their resets and steps, counted here as signs of life.

    Raises:
        Stopped: the run is stopping.
    """

    def beat() -> None:
        calls[0] += 1

    size = slab.group_size
    first = agent * slab.groups_per_agent
    groups = [AgentGroup(slab, first + index, mailbox, stopwatch) for index in range(slab.groups_per_agent)]
    envs: list[EnvGroup] = []
    done = np.zeros((len(groups), slab.group_size), bool)
    faults = [0] * len(groups)  # consecutive steps at which all environments were faulty, or began a new episode
    moves = [0] * len(groups)
    seed_generators(seed)
    here = os.getcwd()
    try:
        for index, group in enumerate(groups):
            os.chdir(here)  # the environments before may have changed it
            envs.append(make_group(config, size, beat))
            observation = envs[index].reset(seed + index * size)
            stopwatch.lap("environment")
            group.ask(observation, ~done[index], _restriction(envs[index], action))
        for index in take_turns(groups, mailbox):
            env, group = envs[index], groups[index]
            moves[index] += 1
            if config.run.reproducible:  # groups share the generators, and their order may depend on timing
                seed_generators(STEP_SEEDS * (seed + index * size) + moves[index])
            observation, reward, terminated, truncated, faulty, episodes = env.step(action.taken(group.answer()))
            stopwatch.lap("environment")
            # Where an episode ended at the previous step, this step ignored its action and began the next episode.
            began = done[index].copy()
            group.record(reward, terminated | began, ~began, faulty)
            done[index] = terminated | truncated
            faults[index] = faults[index] + 1 if (faulty | began).all() else 0
            if faults[index] == FAULTS_ALLOWED:
                raise ValueError(f"the environments returned only faulty steps, the last with {env.fault}")
            for episode in episodes:
                server.send(EpisodeEnd(episode, first + index, group.blocks))
            group.ask(observation, began, _restriction(env, action))
    finally:
        for env in envs:
            env.close()
        end_descendants()  # before they could notice that the environments are gone


def _restriction(env: EnvGroup, action: ActionSpec) -> np.ndarray | None:
    if action.masked:
        return env.restriction
    env.check_unmasked()
    return None
