"""`kartrl config`: prints the configuration that a run would have, what of it differs, or what a key means."""

import argparse
import textwrap
from pathlib import Path

from kartrl.commands.shared.arguments import Parser
from kartrl.commands.shared.results import add_formats, print_results
from kartrl.config import Config, dump, read
from kartrl.config.explanation import difference, explain
from kartrl.errors import UserError
from kartrl.files import check_replaceable, explained, user_path, write_whole
from kartrl.options import add_config, config_files

WIDTH = 100  # characters of an explanation


def add_arguments(parser: Parser) -> None:
    parser.runs(
        run,
        "config",
        "config -c mine.cfg --set model.hidden_size=128 --write run.cfg",
        "config -c pong_appo --diff",
        "config -c mine.cfg --diff my-run",
        "config explain optimizer.learning_rate",
    )
    parser.add_argument("explain", nargs="*", metavar="explain KEY", help="print what a key means, and its value")
    add_config(parser)
    parser.add_argument(
        "--diff",
        nargs="?",
        const="",
        metavar="RUN",
        help="only what differs from the built-in defaults, or from a run's configuration, which comments show",
    )
    parser.add_argument("--write", type=user_path, metavar="FILE", help="write it to a new file, to be used with -c")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    add_formats(parser, "key")


def run(options: argparse.Namespace) -> int:
    """Print it as an INI file; returns the exit status.

    Raises:
        UserError: bad input, or the file exists or cannot be written.
    """
    files = config_files(options)
    config = read(files, options.set)
    if options.explain:
        _explain(config, options, files)
    elif options.json or options.csv:
        if options.diff is not None or options.write:
            raise UserError("--json and --csv print the whole configuration: leave out --diff and --write")
        dumped = {name: section.model_dump(mode="json") for name, section in config.sections.items()}
        sections = dumped | {"levels": config.levels.uses}
        rows = [
            {"section": name, "key": key, "value": value} for name, of in sections.items() for key, value in of.items()
        ]
        print_results(options, rows, config=sections)
    else:
        text = dump(config) if options.diff is None else difference(config, _other(options.diff, config))
        if options.write:
            _write(options.write, text, options.force)
        else:
            print(text, end="")
    return 0


def _explain(config: Config, options: argparse.Namespace, files: list[str]) -> None:
    word, *keys = options.explain
    if word != "explain" or len(keys) != 1:
        raise UserError("config: expected nothing, or: explain KEY, as in: kartrl config explain optimizer.name")
    if options.diff is not None or options.write:
        raise UserError("config explain: leave out --diff and --write")
    about = explain(config, keys[0], files, options.set)
    if options.json or options.csv:
        print_results(options, [about], **about)
        return
    print(about.pop("key"))
    for name, text in about.items():
        start = f"  {name.replace('_', ' '):<9}"
        print(textwrap.fill(text, WIDTH, initial_indent=start, subsequent_indent=" " * len(start)))


def _other(run: str, config: Config) -> Config | None:
    if not run:
        return None
    from kartrl.run.folders import config_of, find_run  # loads torch

    return config_of(find_run(run, config.run.logs_folder))


def _write(file: Path, text: str, force: bool) -> None:
    check_replaceable({file: text.encode()}, force)
    with explained(f"--write {file}", "write"):
        write_whole(file, text.encode())
    print(f"Wrote {file}")
