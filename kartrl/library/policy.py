"""A trained policy as a function of observations."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from kartrl.config import Config
from kartrl.driving.actor import ROWS
from kartrl.driving.driver import openable
from kartrl.envs import masks
from kartrl.errors import UserError
from kartrl.hardware.devices import choose_device
from kartrl.learning import checkpoint
from kartrl.library.environments import make_env
from kartrl.models import make_distribution
from kartrl.run.folders import find_checkpoint

Env = gymnasium.Env[Any, Any]


class Policy:
    """A trained policy; `load_policy` makes one. It keeps no state between calls.

    Attributes:
        path: of its checkpoint.
        config: of the run that trained it.
        agent_steps: for which it was trained.
        observation_shape: of one observation, [H, W, C] (uint8), [D] (float32), or [N] bytes that hold several parts.
        state_size: S, the numbers of its recurrent state; 0 if it has none.
    """

    path: Path
    config: Config
    agent_steps: int
    observation_shape: tuple[int, ...]
    state_size: int

    def __init__(self, path: Path, device: str = "cpu") -> None:
        loaded = checkpoint.load(path)
        checkpoint.check_imports(loaded.config)
        self._device = choose_device("cpu" if device == "auto" else device)
        self._network = checkpoint.load_network(loaded, self._device)
        self._action, self._distribution = loaded.action, make_distribution(loaded.action)
        self._dtype = loaded.observation.dtype
        self.path, self.config, self.agent_steps = path, loaded.config, loaded.counters.agent_steps
        self.observation_shape, self.state_size = loaded.observation.shape, self._network.state_size

    def make_env(self, levels: str | Sequence[str] = (), *, render: bool = False) -> Env:
        """Make an environment as in an evaluation of this policy; see `kartrl.make_env`.

        Raises:
            UserError: see `kartrl.make_env`.
        """
        return make_env(openable(self.path, self.config)[0], levels, training=False, render=render)

    @torch.inference_mode()
    def act(
        self,
        observation: np.ndarray,
        state: np.ndarray | None = None,
        *,
        mask: Any = None,
        greedy: bool = True,
    ) -> tuple[Any, np.ndarray]:
        """The action for an observation, or the actions for B of them; and the recurrent state that follows.

        What is chosen for one of them does not depend, to the bit, on how many others there are.

        Args:
            observation: one, of `observation_shape`, as the environments of `make_env` return it; or B of them.
            state: float32 [S], or [B, S]; None, or zeros, where an episode begins.
            mask: `info.get("action_mask")` of the step before, or a sequence of B of these; None: all is legal.
            greedy: take the most likely action; else sample from the policy, by torch's generator.

        Returns:
            The action as the environments of `make_env` take it (int64 if it is a choice, else float32 [D]), or B of
            these; and the next state, float32 [S] or [B, S].

        Raises:
            UserError: an argument has another shape than this policy's, or is not a mask of its actions.
        """
        try:
            given, own = np.asarray(observation), None if state is None else np.asarray(state, np.float32)
        except (TypeError, ValueError) as error:
            raise UserError(f"{self.path}: acts on arrays: {error}") from error
        single = given.ndim == len(self.observation_shape)
        batch = given[None] if single else given
        if batch.shape[1:] != self.observation_shape or not len(batch) or batch.dtype != self._dtype:
            raise UserError(
                f"{self.path}: acts on observations {self._dtype} {list(self.observation_shape)}, or several of them, "
                f"not {given.dtype} {list(given.shape)}; make_env of this policy has such observations"
            )
        states = np.zeros((len(batch), self.state_size), np.float32) if own is None else own
        states = states[None] if single and states.ndim == 1 else states
        if states.shape != (len(batch), self.state_size):
            raise UserError(
                f"{self.path}: the state of {len(batch)} episodes is [{len(batch)}, {self.state_size}], not "
                f"{list(states.shape)}"
            )
        legal = None if mask is None else self._restriction([mask] if single else mask, len(batch))
        filled = [*range(len(batch)), *[0] * (-len(batch) % ROWS)]  # as `Actor` does
        legal_rows = None if legal is None else torch.from_numpy(legal[filled]).to(self._device)
        decision, after = self._network.act(
            torch.from_numpy(batch[filled]).to(self._device),
            torch.zeros(len(filled), dtype=torch.bool, device=self._device),
            torch.from_numpy(states[filled]).to(self._device),
            self._distribution.noise(len(filled), self._device, None),
            greedy,
            legal_rows,
        )
        actions, newest = self._action.taken(decision[: len(batch)].cpu().numpy()), after[: len(batch)].cpu().numpy()
        return (actions[0], newest[0]) if single else (actions, newest)

    def _restriction(self, given: Sequence[Any], number: int) -> np.ndarray:
        """The restriction that masks mean, float32 [B, P]."""
        if not isinstance(given, Sequence | np.ndarray) or len(given) != number:
            raise UserError(f"{self.path}: {number} observations need a sequence of {number} masks")
        return np.stack([masks.restriction(self._env, mask) for mask in given])

    @cached_property
    def _env(self) -> Env:
        """An environment, for its spaces; closed."""
        env = self.make_env()
        env.close()
        return env


def load_policy(policy: str | Path, *, device: str = "cpu") -> Policy:
    """Load a trained policy.

    Args:
        policy: a checkpoint file; a run by its name or folder: its best checkpoint, else its newest; an exported
            folder; or "hf://USER/NAME", with a revision after @ if wanted.
        device: auto, cpu, cuda or mps; auto is the CPU.

    Raises:
        UserError: there is no such checkpoint, it cannot be read, its environment imports a module that is not named in
            `KARTRL_IMPORT`, or there is no such device.
    """
    return Policy(find_checkpoint(str(policy), "load_policy"), device)
