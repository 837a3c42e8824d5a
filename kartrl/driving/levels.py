"""Drives many episodes of a policy, several together in a process, on all cores."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kartrl.config import Config
from kartrl.driving.driver import Driver, open_env
from kartrl.driving.episodes import Start, drive_each
from kartrl.driving.recorded_actor import Recorded
from kartrl.envs.episode import Drive
from kartrl.envs.named_modules import named_modules, trust_here
from kartrl.envs.world import Env
from kartrl.envs.worlds import load_world
from kartrl.errors import RunFailed, UserError
from kartrl.hardware.machine import cores
from kartrl.processes.child import ChildProcess
from kartrl.processes.spawn import allow_children, spawn, start_method

if TYPE_CHECKING:
    from kartrl.models import ActorCritic

# that a process steps together, as more emulators fill the caches; and all of them: an emulator takes 14 MB
MOST_ENVS, MOST_IN_ALL = 16, 128
IN_PYTORCH = "kartrl.driving.levels", "kartrl.driving.actor", "kartrl.learning.checkpoint"  # modules to preload
LEAST_EPISODES = 8  # for which it pays to start another process
END_SECONDS = 10.0  # for a killed process to be gone
OnEnd = Callable[[Start, Drive], None]


def drive_levels(
    driver: Driver,
    starts: Sequence[Start],
    *,
    greedy: bool,
    on_end: OnEnd = lambda _, __: None,
    most_processes: int | None = None,
) -> list[Drive]:
    """Drive all these episodes; each is the same, seed for seed, as if it were driven alone.

    If they are many, other processes help. What they do not finish, because they die for instance, is driven here.

    Args:
        driver: gets as many environments as are useful here.
        greedy: take the most likely actions instead of sampling.
        on_end: called with each drive when it has ended, from any thread, one at a time.
        most_processes: with this one; None: one a core.
    """
    own, shared = (
        deque((index, start) for index, start in enumerate(starts) if start.here is here) for here in (True, False)
    )
    drives, lock = dict[int, Drive](), threading.Lock()

    def keep(index: int, driven: Drive) -> None:
        with lock:
            drives[index] = driven
            on_end(starts[index], driven)

    policy = driver.policy
    on_cpu = isinstance(policy, Recorded) or next(policy.parameters()).device.type == "cpu"
    processes = max(1, min(most_processes or cores(), len(shared) // LEAST_EPISODES)) if on_cpu else 1
    most = max(1, min(driver.most_envs or MOST_ENVS, MOST_ENVS, MOST_IN_ALL // processes))
    number = min(-(-len(starts) // processes), most)  # of a process
    helpers = list[_Helper]()
    try:
        with contextlib.suppress(UserError, RunFailed, OSError):  # too few processes are allowed: fewer help
            while len(helpers) < processes - 1:
                helpers.append(_Helper(driver, number, greedy, shared, keep))
        add_envs(driver.envs, number, driver.open_another)

        def here(*waiting: deque[tuple[int, Start]]) -> None:
            taken = iter(lambda: next(filter(None, map(_next, waiting)), None), None)
            envs = driver.envs[:number]
            drive_each(driver.world, envs, policy, taken, greedy=greedy, on_end=keep)

        here(own, shared)
        for helper in helpers:
            helper.join()
        here(deque((index, start) for index, start in enumerate(starts) if index not in drives))
    finally:
        for helper in helpers:
            helper.end()
    return [drives[index] for index in range(len(starts))]


def add_envs(envs: list[Env], number: int, make: Callable[[], Env]) -> None:
    """Make environments until there are so many, or no more can be made in this process."""
    with contextlib.suppress(Exception):  # third-party code may raise anything
        while len(envs) < number:
            envs.append(make())


def _next(waiting: deque[tuple[int, Start]]) -> tuple[int, Start] | None:
    with contextlib.suppress(IndexError):
        return waiting.popleft()
    return None


def run(
    config: Config, policy: Path | Recorded, levels: Sequence[str], number: int, greedy: bool, pipe: Connection
) -> None:
    """Body of a helping process: drives the episodes that it is given, until there are no more.

    Args:
        config: of the world; its levels are prepared.
        policy: the checkpoint, or its network.
        number: of environments that are stepped together.
        pipe: sends None for the next numbered start, and each numbered drive.
    """
    allow_children()  # an emulator may be isolated
    trust_here(named_modules(config.model))  # as its parent does

    def starts() -> Iterator[tuple[int, Start]]:
        pipe.send(None)
        while (start := pipe.recv()) is not None:
            yield start
            pipe.send(None)

    with contextlib.suppress(Exception):  # what it leaves is driven by its parent, which reports what is wrong
        world, network = load_world(config), policy if isinstance(policy, Recorded) else load_policy(policy)
        envs: list[Env] = []
        add_envs(envs, number, lambda: open_env(world, levels))
        if envs:
            drive_each(world, envs, network, starts(), greedy=greedy, on_end=lambda *driven: pipe.send(driven))


def load_policy(path: Path) -> ActorCritic:
    """The network of a checkpoint, on the CPU, of which this process uses one core."""
    import torch  # here: not every process that drives needs it

    from kartrl.learning import checkpoint

    torch.set_num_threads(1)
    return checkpoint.load_network(checkpoint.load(path), torch.device("cpu"))


class _Helper:
    """A process that drives some of the episodes, and the thread that gives them to it and receives the drives."""

    def __init__(
        self,
        driver: Driver,
        number: int,
        greedy: bool,
        waiting: deque[tuple[int, Start]],
        keep: Callable[[int, Drive], None],
    ) -> None:
        self._waiting, self._keep = waiting, keep
        self._taken = 0  # episodes that it has not finished
        context: Any = start_method(*IN_PYTORCH)
        self._pipe, theirs = context.Pipe()
        policy = driver.policy if isinstance(driver.policy, Recorded) else driver.path
        arguments = driver.world.config, policy, driver.levels, number, greedy, theirs
        self._process: ChildProcess = spawn(context, "driver", run, *arguments)
        theirs.close()
        self._thread = threading.Thread(target=self._serve, name="driver", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(EOFError, OSError):  # it has ended, or was ended
            while True:
                message = self._pipe.recv()
                if message is None:  # it has a free environment
                    taken = _next(self._waiting)
                    self._taken += taken is not None
                    self._pipe.send(taken and (taken[0], taken[1]._replace(on_step=None)))
                else:
                    self._taken -= 1
                    self._keep(*message)

    def join(self) -> None:
        """Wait until it has driven what it has taken, or has died."""
        while self._taken and self._thread.is_alive():
            self._thread.join(0.05)

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.join(END_SECONDS)
        self._thread.join()
        self._pipe.close()
