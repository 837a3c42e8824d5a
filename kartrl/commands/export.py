"""`kartrl export`: writes a small checkpoint for sharing, or an ONNX file, and a card next to it."""

import argparse
import itertools
import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from kartrl import __version__
from kartrl.commands.arguments import POLICY, Parser, add_levels
from kartrl.commands.evaluate import evaluate
from kartrl.config import Config, Run, read, settings
from kartrl.config.chosen import unchosen
from kartrl.config.cluster import Cluster
from kartrl.envs.episode import Result
from kartrl.envs.world import World
from kartrl.envs.worlds import load_world
from kartrl.errors import UserError
from kartrl.files import check_replaceable, output_file, user_path, write_whole
from kartrl.hardware.machine import describe_machine
from kartrl.kart.game_files import BUNDLED, build_id, game_folder
from kartrl.kart.world import KartWorld
from kartrl.options import whole_number

if TYPE_CHECKING:
    from kartrl.learning.checkpoint import Checkpoint

LICENCE = "MIT, as kartrl"
OWN = ("logs", "name", "init", "init_optimizer")  # keys of [run] that concern the user's other runs and folders


def add_arguments(parser: Parser) -> None:
    """Add the arguments of `kartrl export`."""
    parser.runs(run, "export my-run -o my-kart.pt --half", "export my-run --onnx -o my-kart.onnx")
    parser.add_argument("checkpoint", metavar="RUN", type=os.path.expanduser, help=POLICY)
    parser.add_argument(
        "-o",
        "--output",
        type=user_path,
        required=True,
        metavar="FILE",
        help="the new .pt file; the model card is saved beside it as .md (--onnx: .onnx and .json)",
    )
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
        default=3,
        help="races per circuit for the model card (default 3; 0: none)",
    )


def run(options: argparse.Namespace) -> int:
    """Write both files; returns the exit status."""
    from kartrl.run.folders import find_checkpoint  # loads torch

    path = find_checkpoint(options.checkpoint, "export")
    suffix, card = (".onnx", ".json") if options.onnx else (".pt", ".md")
    output = output_file(options.output, path.stem, suffix)
    check_replaceable(dict.fromkeys((output, output.with_suffix(card))), options.force)
    if options.onnx:
        if options.half:
            raise UserError("--onnx: the file has single precision; leave out --half")
        export_onnx(path, output, options.state, Console())
        return 0
    export(path, output, options.half, options.state, options.episodes, "auto", Console())
    return 0


def export(
    path: Path, output: Path, half: bool, levels: Sequence[str], episodes: int, device: str, console: Console
) -> None:
    """Write the checkpoint at `path` without what only training needs, evaluate it, and write the card.

    Args:
        output: the new checkpoint; the card has the same name with the suffix .md.
        levels: to evaluate on; if empty, those of its configuration.
        episodes: per level; 0: the card has no results.

    Raises:
        UserError: the checkpoint, a level or the device is missing, or the files cannot be written.
    """
    from kartrl.driving.driver import openable  # loads torch
    from kartrl.learning import checkpoint

    whole = checkpoint.load(path)
    if episodes:
        checkpoint.check_imports(whole.config)  # an error here, before an earlier file is overwritten
    given = whole._replace(config=_impersonal(whole.config))
    world = load_world(given.config)
    if levels:
        world.find_levels(levels, console)  # an error here, before an earlier file is overwritten
    elif episodes and (trained := load_world(whole.config).level_keys()):
        levels = load_world(openable(path, whole.config)[0]).level_keys()
        if not levels:
            raise UserError(
                f"{path}: was trained only on {world.level_word}s in files that are not opened ({', '.join(trained)}); "
                "evaluate it on others with -s, or use --episodes 0"
            )
    try:
        checkpoint.save(output, checkpoint.for_driving(given, half))
    except checkpoint.NotFinite as error:
        raise UserError(f"{path}: {error}; export it without --half") from error
    except OSError as error:
        raise UserError(f"-o {output}: cannot write ({error.strerror or error})") from error
    results = evaluate(output, levels, episodes, True, device, console) if episodes else []
    uses = load_world(whole.config).find_uses([result.level for result in results])
    results = [result._replace(use=uses.get(result.level, result.use)) for result in results]
    card = output.with_suffix(".md")
    write_whole(card, describe(output.name, given, half, results, world).encode())
    size = output.stat().st_size / 1e6
    console.print(f"Weights: {output} ({size:.2f} MB)\nCard: {card}", highlight=False, markup=False, soft_wrap=True)


def export_onnx(path: Path, output: Path, levels: Sequence[str], console: Console) -> None:
    """Write the policy of a checkpoint as an ONNX file, and its card, with the suffix .json, beside it.

    Args:
        levels: on which the file is compared with the policy; if empty, those of its configuration.

    Raises:
        UserError: the checkpoint, a level or a library is missing, the file would differ from the policy, or cannot be
            written.
    """
    from kartrl.driving import onnx_file  # loads torch
    from kartrl.driving.driver import open_driver
    from kartrl.learning import checkpoint

    onnx_file.check_installed()
    with open_driver(path, levels, "cpu", console=console) as driver:
        data, about = onnx_file.make_file(driver, checkpoint.load(path))
    card = output.with_suffix(".json")
    try:
        write_whole(output, data)
        write_whole(card, f"{json.dumps(about, indent=1)}\n".encode())
    except OSError as error:
        raise UserError(f"-o {output}: cannot write ({error.strerror or error})") from error
    equal = about["equality"]
    console.print(
        f"ONNX: {output} ({len(data) / 1e6:.2f} MB), as the policy on {equal['observations']:,} observations: numbers "
        f"within {equal['policy_max_difference']:.1g}, {equal['equal_greedy_actions']:.1%} of greedy actions equal\n"
        f"Card: {card}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _impersonal(config: Config) -> Config:
    """The configuration without the user's own names, files and machine."""
    run = config.run.model_copy(update={name: getattr(Run(), name) for name in OWN})
    config = unchosen(load_world(config).impersonal(), ("model.precision",))
    return config.replaced(run=run, cluster=Cluster())


def describe(name: str, given: "Checkpoint", half: bool, results: Sequence[Result], world: World) -> str:
    """The model card of a checkpoint with this file name, as Markdown."""
    import torch

    from kartrl.comparison.report import markdown_table

    config, counters = given.config, given.counters
    numbers = sum(tensor.numel() for tensor in given.network.values())
    rows = {
        "drives": config.environment.id,
        "weights": f"{numbers:,} numbers, {'half' if half else 'single'} precision",
        "algorithm": config.algorithm.name,
        "seed": str(config.run.seed),
        "steps": f"{counters.agent_steps:,} agent steps, {counters.updates:,} updates",
        "minutes": f"{counters.seconds / 60:.1f} of training",
        "hardware": f"{describe_machine()} (on which this card was written)",
        "made with": f"kartrl {__version__}, PyTorch {torch.__version__}",
        "licence": LICENCE,
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
