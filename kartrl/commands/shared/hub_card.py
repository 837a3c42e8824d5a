"""What the Hugging Face Hub reads of a policy: the head of its card, and its results in `.eval_results`."""

import importlib
import re
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from kartrl import __version__
from kartrl.config import Config
from kartrl.envs.episode import Result

TASK = "reinforcement-learning"
BENCHMARKS = "kartrl"  # the namespace of datasets on the hub under which results are listed, one for each environment


def card_head(name: str, config: Config, results: Sequence[Result], licence: str) -> str:
    """The metadata at the top of a card: YAML between lines of dashes, with the results as its `model-index`.

    https://github.com/huggingface/hub-docs/blob/main/modelcard.md defines it; the names of task and metric, and the
    value "mean +/- standard deviation", are those of the policies that are there.
    """
    hub: Any = importlib.import_module("huggingface_hub")
    env = config.environment.id
    entries = [
        hub.EvalResult(
            task_type=TASK,
            task_name=TASK,
            dataset_type=_dataset(env),
            dataset_name=f"{env} {one.level}".rstrip(),
            dataset_config=one.level or None,
            dataset_split=one.use if one.level else None,
            metric_type="mean_reward",
            metric_name="mean_reward",
            metric_value="{:.2f} +/- {:.2f}".format(*_mean_and_deviation(one)),
        )
        for one in _with_total(results)
    ]
    head = hub.ModelCardData(
        license=licence,
        library_name="kartrl",
        pipeline_tag=TASK,
        tags=[env, config.algorithm.name, "deep-reinforcement-learning", TASK, "kartrl"],
        model_name=name,
        eval_results=entries or None,
    )
    return f"---\n{head.to_yaml()}\n---\n\n"


def eval_results(config: Config, results: Sequence[Result]) -> str:
    """The file of `.eval_results`, as https://huggingface.co/docs/hub/eval-results defines it: YAML."""
    hub: Any = importlib.import_module("huggingface_hub")
    entries = []
    for one in _with_total(results):
        (mean, deviation), number = _mean_and_deviation(one), len(one.episodes)
        entries.append(
            hub.EvalResultEntry(
                dataset_id=f"{BENCHMARKS}/{_dataset(config.environment.id).rpartition('/')[2]}",
                task_id=one.level or "default",
                value=round(mean, 2),
                date=time.strftime("%Y-%m-%d", time.gmtime()),
                notes=f"mean return of {number} greedy episode{'s' * (number > 1)}, standard deviation "
                f"{deviation:.2f}, kartrl {__version__}",
            )
        )
    yaml: Any = importlib.import_module("yaml")  # a dependency of the library
    return str(yaml.safe_dump(hub.eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True))


def _with_total(results: Sequence[Result]) -> list[Result]:
    """All results, after that of all levels together if there are several."""
    every = [episode for result in results for episode in result.episodes]
    return [*[Result("", "none", every, [])] * (len(results) > 1), *results]


def _mean_and_deviation(result: Result) -> tuple[float, float]:
    returns = np.array([episode.episodic_return for episode in result.episodes])
    return float(returns.mean()), float(returns.std())


def _dataset(env: str) -> str:
    """An environment's id as the hub takes ids of datasets."""
    namespace, slash, name = env.rpartition(":")[2].rpartition("/")
    return slash.join(re.sub(r"[^\w.-]+", "-", part, flags=re.ASCII) for part in (namespace, name) if part)
