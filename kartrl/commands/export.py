"""`kartrl export`: writes a small checkpoint for sharing, a folder for a hub, or an ONNX file, each with a card."""

import argparse
import contextlib
import importlib.metadata
import importlib.util
import itertools
import json
import os
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from kartrl import __version__
from kartrl.commands.evaluate import evaluate
from kartrl.commands.shared.arguments import FILM_STEPS, Parser, add_levels
from kartrl.commands.shared.policy import Driving
from kartrl.config import Config, Run, dump, read, settings
from kartrl.config.chosen import unchosen
from kartrl.config.cluster import Cluster
from kartrl.envs.episode import Result
from kartrl.envs.world import World
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError
from kartrl.files import (
    check_folder,
    check_replaceable,
    explained,
    output_file,
    safe_name,
    user_path,
    whole_file,
    write_whole,
)
from kartrl.hardware.machine import describe_machine
from kartrl.kart.game_files import BUNDLED, build_id, game_folder
from kartrl.kart.world import KartWorld
from kartrl.metrics.tables import make_console, say
from kartrl.options import POLICY, whole_number

if TYPE_CHECKING:
    from kartrl.learning.checkpoint import Checkpoint

EPISODES = 3  # for the card
MIT = "mit"  # as the hub calls it
LICENCE = "MIT, as kartrl"
OWN = ("logs", "name", "init", "init_optimizer")  # keys of [run] that concern the user's other runs and folders


def add_arguments(parser: Parser) -> None:
    parser.runs(
        run, "export my-run -o my-policy", "export my-run -o my-kart.pt --half", "export my-run --onnx -o my-kart.onnx"
    )
    parser.add_argument("checkpoint", metavar="RUN", type=os.path.expanduser, help=POLICY)
    parser.add_argument(
        "-o",
        "--output",
        type=user_path,
        required=True,
        metavar="FOLDER",
        help="a folder for `kartrl push`: weights, configuration, card with results, film, licence; or a .pt file: "
        "weights, with the card beside it as .md (--onnx: .onnx and .json)",
    )
    parser.add_argument("--license", metavar="ID", help="of a folder: the hub's name of the licence (default mit)")
    parser.add_argument("--force", action="store_true", help="replace files of these names")
    parser.add_argument("--half", action="store_true", help="save the weights in half precision, in half the space")
    parser.add_argument(
        "--onnx",
        action="store_true",
        help="write an ONNX file for other programs instead, and a card beside it as .json, both once the file has "
        "been found to equal the policy on 1,000 observations",
    )
    add_levels(parser, "for the model card, drive on these circuits only")
    parser.add_argument(
        "--episodes",
        type=partial(whole_number, least=0),
        help=f"races per circuit for the model card (default {EPISODES}; 0: none)",
    )


def run(options: argparse.Namespace) -> int:
    """Write both files; returns the exit status."""
    from kartrl.run.folders import find_checkpoint  # loads torch

    path = find_checkpoint(options.checkpoint, "export")
    episodes = EPISODES if options.episodes is None else options.episodes
    if not options.onnx and _is_folder(options.output):
        choices = options.half, options.state, episodes, options.license or MIT
        export_folder(path, options.output, *choices, options.force, make_console())
        return 0
    if options.license is not None:
        raise UserError(f"--license {options.license}: is for a folder, as in -o my-policy; leave it out")
    if options.output.suffix == ".onnx" and not options.onnx:
        raise UserError(f"-o {options.output}: an ONNX file is written with --onnx")
    suffix, card = (".onnx", ".json") if options.onnx else (".pt", ".md")
    output = output_file(options.output, path.stem, suffix)
    check_replaceable(dict.fromkeys((output, output.with_suffix(card))), options.force)
    check_folder(output)
    if options.onnx:
        if options.half:
            raise UserError("--onnx: the file has single precision; leave out --half")
        if options.episodes is not None:
            raise UserError("--onnx: its card has no results; leave out --episodes")
        export_onnx(path, output, options.state, make_console())
        return 0
    export(path, output, options.half, options.state, episodes, make_console())
    return 0


def _is_folder(output: Path) -> bool:
    """Whether -o names a folder: one that exists, or a new one, whose name may end with a version."""
    return output.is_dir() or not output.suffix or output.suffix[1:].isdigit()


def export(path: Path, output: Path, half: bool, levels: Sequence[str], episodes: int, console: Console) -> None:
    """Write the checkpoint at `path` without what only training needs, and its card, once it has been evaluated.

    Args:
        output: the new checkpoint; the card has the same name with the suffix .md.
        levels: to evaluate on; if empty, those of its configuration.
        episodes: per level; 0: the card has no results.

    Raises:
        UserError: the checkpoint, a level or the device is missing, or the files cannot be written.
    """
    card = output.with_suffix(".md")
    with explained(f"-o {output}", "write"), whole_file(output) as weights:
        given, world, _, results = _save_driven(path, weights, half, levels, episodes, console, str(output))
        write_whole(card, describe(output.name, given, half, results, world).encode())
    size = output.stat().st_size / 1e6
    say(console, f"Weights: {output} ({size:.2f} MB)\nCard: {card}")


def export_folder(
    path: Path,
    output: Path,
    half: bool,
    levels: Sequence[str],
    episodes: int,
    licence: str,
    force: bool,
    console: Console,
) -> None:
    """Write what a hub shows and `kartrl push` uploads into a folder, which may be new, all of it or nothing.

    Args:
        episodes: per level, for the results, and one more for the film; 0: there are neither.
        force: replace files of these names.

    The others are as in `export`.

    Raises:
        UserError: as `export`; or the library that knows the hub's forms is missing.
    """
    from kartrl.commands.shared.hub_card import card_head, eval_results
    from kartrl.run.policies import CARD, FILES, SETTINGS, TERMS, WEIGHTS  # loads torch

    if importlib.util.find_spec("huggingface_hub") is None:
        raise UserError(f"-o {output}: a folder needs huggingface_hub: pip install 'kartrl[hub]' (-o FILE.pt does not)")
    check_replaceable(dict.fromkeys(output / name for name in FILES), force)
    name = safe_name(output.absolute().name)
    with explained(f"-o {output}", "write"):
        beside = next(place for place in (output.absolute(), *output.absolute().parents) if place.is_dir())
        with tempfile.TemporaryDirectory(prefix=f".{name}.", suffix=".tmp", dir=beside) as made:
            work = Path(made)
            choices = half, levels, episodes
            given, world, driven, results = _save_driven(path, work / WEIGHTS, *choices, console, str(output))
            texts = {SETTINGS: dump(world.config)}
            body = describe(name, given, half, results, world, licence)
            if results:
                _film(work, driven, console)
                texts[".eval_results/kartrl.yaml"] = eval_results(world.config, results)
            texts[CARD] = card_head(name, world.config, results, licence) + body + _use(work)
            own = _own_licence()
            if licence == MIT and own:
                texts[TERMS] = own
            for file, text in texts.items():
                (work / file).parent.mkdir(exist_ok=True)
                (work / file).write_text(text, encoding="utf-8")
            for file in FILES:
                if (work / file).is_file():
                    (output / file).parent.mkdir(parents=True, exist_ok=True)
                    (work / file).replace(output / file)
                elif file != TERMS or _is_text(output / file, own):  # of an earlier export; other terms are the user's
                    (output / file).unlink(missing_ok=True)
    say(console, f"Policy: {output}")


def _save_driven(
    path: Path,
    output: Path,
    half: bool,
    levels: Sequence[str],
    episodes: int,
    console: Console,
    name: str,
) -> "tuple[Checkpoint, World, Sequence[str], list[Result]]":
    """Save what driving needs of a checkpoint, evaluate that, and return the checkpoint, its world, levels and results.

    Args:
        name: of the policy in what is printed.
    """
    from kartrl.driving.driver import openable  # loads torch
    from kartrl.learning import checkpoint

    whole = checkpoint.load(path)
    if episodes:
        checkpoint.check_imports(whole.config)  # an error here, before an earlier file is overwritten
    world = load_world(_impersonal(whole.config))
    given = whole._replace(config=world.config)
    if levels:
        world.find_levels(levels, console)  # an error here, before an earlier file is overwritten
    elif episodes and (trained := load_world(whole.config).level_keys()):
        levels = load_world(openable(path, whole.config)[0]).level_keys()
        if not levels:
            raise UserError(
                f"{path}: was trained only on {world.level_word}s in files that are not opened ({', '.join(trained)}); "
                "evaluate it on others with -l, or use --episodes 0"
            )
    try:
        with explained(f"-o {name}", "write"):
            checkpoint.save(output, checkpoint.for_driving(given, half))
    except checkpoint.NotFinite as error:
        raise UserError(f"{path}: {error}; export it without --half") from error
    results = evaluate(output, Driving(levels), episodes, console, name=name) if episodes else []
    uses = load_world(whole.config).find_uses([result.level for result in results])
    return whole, world, levels, [result._replace(use=uses.get(result.level, result.use)) for result in results]


def _film(work: Path, levels: Sequence[str], console: Console) -> None:
    """Film an episode on the first level as the hub shows it, `replay.mp4`, if the environment can be filmed."""
    from kartrl.commands.record import record
    from kartrl.run.policies import WEIGHTS

    quiet = make_console(quiet=True)
    try:
        with Driving(levels).opened(work / WEIGHTS, quiet) as driver:
            driving = Driving(driver.levels[:1], max_steps=FILM_STEPS)
        record(work / WEIGHTS, driving, work / "replay.mp4", 1, quiet)
    except UserError as error:
        say(console, f"No film: {error}")


def _is_text(file: Path, text: str) -> bool:
    return file.is_file() and file.read_bytes() == text.encode()


def _own_licence() -> str:
    """The text of kartrl's licence; "" in a checkout that is not installed."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.distribution("kartrl").read_text("licenses/LICENSE") or ""
    return ""


def _use(work: Path) -> str:
    """The end of a card: how the policy is driven, and the film."""
    text = "With [kartrl](https://github.com/kartrl/kartrl), `-p hf://USER/NAME` names it, and `-p FOLDER` a copy."
    shown = {"replay.mp4": "[Film](replay.mp4)", "replay.png": "![The driven line](replay.png)"}
    return "\n\n".join(["\n## Use", text, *(link for name, link in shown.items() if (work / name).is_file()), ""])


def export_onnx(path: Path, output: Path, levels: Sequence[str], console: Console) -> None:
    """Write the policy of a checkpoint as an ONNX file, and its card, with the suffix .json, beside it.

    Args:
        levels: on which the file is compared with the policy; if empty, those of its configuration.

    Raises:
        UserError: the checkpoint, a level or a library is missing, the file would differ from the policy, or cannot be
            written.
    """
    from kartrl.driving import onnx_file  # loads torch
    from kartrl.learning import checkpoint

    onnx_file.check_installed()
    with Driving(levels).opened(path, console) as driver:
        data, about = onnx_file.make_file(driver, checkpoint.load(path))
    card = output.with_suffix(".json")
    with explained(f"-o {output}", "write"):
        write_whole(output, data)
        write_whole(card, f"{json.dumps(about, indent=1)}\n".encode())
    equal = about["equality"]
    say(
        console,
        f"ONNX: {output} ({len(data) / 1e6:.2f} MB), as the policy on {equal['observations']:,} observations: numbers "
        f"within {equal['policy_max_difference']:.1g}, {equal['equal_greedy_actions']:.1%} of greedy actions equal\n"
        f"Card: {card}",
    )


def _impersonal(config: Config) -> Config:
    """The configuration without the user's own names, files and machine."""
    run = config.run.model_copy(update={name: getattr(Run(), name) for name in OWN})
    config = unchosen(load_world(config).impersonal(), ("model.precision",))
    return config.replaced(run=run, cluster=Cluster())


def describe(
    name: str, given: "Checkpoint", half: bool, results: Sequence[Result], world: World, licence: str = LICENCE
) -> str:
    """The model card of a checkpoint with this file name, as Markdown; the configuration is its world's."""
    import torch

    from kartrl.comparison.report import markdown_table

    config, counters = world.config, given.counters
    earlier = "" if given.config.run.init == "none" else ", after those of the run whose weights it began with"
    numbers = sum(tensor.numel() for tensor in given.network.values())
    rows = {
        "drives": config.environment.id,
        "weights": f"{numbers:,} numbers, {'half' if half else 'single'} precision",
        "algorithm": config.algorithm.name,
        "seed": str(config.run.seed),
        "steps": f"{counters.agent_steps:,} agent steps, {counters.updates:,} updates{earlier}",
        "minutes": f"{counters.seconds / 60:.1f} of training",
        "hardware": f"{describe_machine()} (on which this card was written)",
        "made with": f"kartrl {__version__}, PyTorch {torch.__version__}",
        "licence": licence,
    }
    if isinstance(world, KartWorld):
        folder = game_folder(world.kart.game)
        rows["ROM"] = f"{folder.name}, build {build_id(folder):08x}" if folder.name == BUNDLED else folder.name
    lines = [f"# {name}", "", markdown_table(["", ""], [list(row) for row in rows.items()])[:-1]]
    if results:
        headings = [world.level_word, "use", *world.summary_columns]
        cells = [
            [result.level or config.environment.id, result.use, *world.summarize(result.episodes)] for result in results
        ]
        lines += ["", "## Results", "", "Greedy, with this file.", "", markdown_table(headings, cells)[:-1]]
    # settings leave out the sections of other algorithms
    ours = read(overrides=[f"algorithm.name={config.algorithm.name}", f"environment.id={config.environment.id}"])
    standard = Config()
    shown = {"algorithm.name": standard.algorithm.name, "environment.id": standard.environment.id}
    changed = dict(settings(config).items() - (settings(ours) | shown).items())
    own, default = config.levels.uses, ours.levels.uses
    uses = {key: "none" for key in default if key not in own}
    uses |= dict(itertools.dropwhile(lambda item: default.get(item[0]) == item[1], own.items()))
    levels = [f"levels.{key} = {use}" for key, use in uses.items()]
    others = sorted(f"{key} = {value}" for key, value in changed.items() if not key.startswith("levels."))
    lines += [
        "",
        "## Configuration",
        "",
        "What differs from `default.cfg`; of `[levels]`, later lines count.",
        "",
        "```",
    ]
    lines += [*others, *levels]
    return "\n".join([*lines, "```", ""])
