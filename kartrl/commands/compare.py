"""`kartrl compare`: a table and a picture of several runs; with an experiment, trained first."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from kartrl.comparison.experiment import read_experiment, train_all
from kartrl.comparison.report import Comparison, draw, make_comparison, markdown
from kartrl.comparison.runs import group, read_run
from kartrl.errors import UserError
from kartrl.files import whole_file, write_whole


class Question(NamedTuple):
    """What is asked of the runs."""

    by: str | None  # key of the configuration; None: the algorithm
    metric: str
    least: float | None  # of the metric: when was it reached?


def compare(names: Sequence[str], question: Question, output: Path | None, console: Console) -> int:
    """Compare runs that there are; the exit status.

    Args:
        names: folders of runs, or their names in logs.
        output: the table and the picture go there, as .md and .png.

    Raises:
        UserError: a run is not there, or two cannot be compared.
    """
    if not names:
        raise UserError("which runs? Give their folders or names, or an experiment: --config EXPERIMENT.toml")
    runs = [read_run(name, question.metric) for name in dict.fromkeys(names)]
    by = question.by or "algorithm.name"
    _tell(make_comparison(group(runs, by), question.metric, by, question.least), output, console)
    return 0


def compare_experiment(file: Path, question: Question, output: Path | None, console: Console) -> int:
    """Train what an experiment's file names and is not trained yet, then compare; the exit status: 1 if a run failed.

    Raises:
        UserError: as `read_experiment`, `train_all` and `compare`.
    """
    by = question.by or "algorithm"
    folder, cells = read_experiment(file, by)
    try:
        failed = train_all(cells, console)
    except KeyboardInterrupt:
        console.print("Interrupted; give the same command to go on", highlight=False)
        raise
    except OSError as error:
        raise UserError(f"{folder}: cannot write ({error.strerror or error}); name another folder") from error
    done = [cell for cell in cells if cell not in failed]
    if done:
        runs = [read_run(str(cell.folder), question.metric) for cell in done]
        groups = group(runs, by, [] if question.by else [cell.algorithm for cell in done])
        comparison = make_comparison(groups, question.metric, by, question.least)
        _tell(comparison, output or folder / "comparison", console)
    if failed:
        names = ", ".join(cell.folder.name for cell in failed)
        console.print(f"Failed: {names}; give the same command to retry", style="red", highlight=False, soft_wrap=True)
    return 1 if failed else 0


def _tell(comparison: Comparison, output: Path | None, console: Console) -> None:
    text = markdown(comparison)
    console.print(text, highlight=False, markup=False, soft_wrap=True)
    if output is None:
        return
    base = output.with_suffix("") if output.suffix in (".md", ".png") else output
    table, picture = base.with_name(f"{base.name}.md"), base.with_name(f"{base.name}.png")
    try:
        write_whole(table, f"{text}\n![The same runs]({picture.name})\n".encode())
        with whole_file(picture) as file:
            draw(comparison, file)
    except OSError as error:
        raise UserError(f"-o {output}: cannot write ({error.strerror or error})") from error
    console.print(f"Written to {table} and {picture}", highlight=False, markup=False, soft_wrap=True)
