"""Keeps a run's best checkpoint, `best.pt`."""

import errno
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any

from kartrl.config import Config, dump, read
from kartrl.errors import UserError
from kartrl.learning import checkpoint_file
from kartrl.learning.checkpoint_file import CheckpointFile


class BestCheckpoint:
    """Keeps the checkpoint with the highest score in a file.

    A checkpoint's score is the mean, over a fixed set of levels, of its mean return on each. An earlier file's score is
    only compared if the environment, the rewards, the levels, their content and the evaluation are the same.

    Args:
        levels: on which a checkpoint is evaluated to get a score.
        config: the configuration of the evaluation.
        contents: `World.contents` of the evaluation.
    """

    def __init__(
        self, path: Path, levels: Sequence[str], config: Config, contents: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._path, self._levels, self._config = path, frozenset(levels), config
        self._contents = dict(contents)
        self._score = self._earlier_score()

    def offer(self, candidate: CheckpointFile, returns: Mapping[str, Sequence[float]], confirmed: bool = False) -> bool:
        """Save `candidate`, with its score and the configuration of the evaluation, if it is the best so far.

        Args:
            returns: level -> returns of the candidate's episodes there, at least one.
            confirmed: whether it ends the run: it is the best, also of those to come, whatever their scores.

        Returns:
            Whether it is the best.

        Raises:
            ValueError: the levels of `returns` are not those of the scores.
            OSError: the file cannot be saved; the earlier one stays.
        """
        if returns.keys() != self._levels:
            raise ValueError("a score must cover all levels named at first, and only those")
        score = fmean(map(fmean, returns.values())) if returns else math.nan
        if not math.isfinite(score) or (score <= self._score and not confirmed):
            return False
        if not self._path.parent.is_dir():  # moved or deleted: `write` would make another one
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        about = candidate.about | {"score": score, "config": dump(self._config, comments=False)}
        candidate._replace(about=about).write(self._path)
        self._score = math.inf if confirmed else score
        return True

    def _earlier_score(self) -> float:
        """The score of the existing file if it is comparable, else minus infinity."""
        try:
            earlier = checkpoint_file.read(self._path).about
            same = _meaning(read(base=earlier["config"])) == _meaning(self._config)
        except UserError:
            return -math.inf
        if earlier.get("score") is None or not same or (earlier.get("contents") or {}) != self._contents:
            return -math.inf
        return float(earlier["score"])


def _meaning(config: Config) -> tuple[Any, ...]:
    """The parts of a configuration that determine a policy's return."""
    evaluation = config.evaluation
    return (
        config.environment,
        config.world,
        list(config.levels.uses.items()),  # the order matters: of two keys for one level the last one counts
        (evaluation.episodes, evaluation.levels, evaluation.max_steps),
    )
