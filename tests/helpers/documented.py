"""The commands that README, docs, comments and help print, as a shell reads them."""

import contextlib
import io
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from commands import ROOT

from kartrl.cli import COMMANDS, make_parser

ACTIONS = [f"circuit {action}" for action in ("check", "build", "draw", "random", "drive")] + ["retro new"]
PAGES = ("README.md", "CONTRIBUTING.md", "docs", "game/README.md", "benchmarks/peers/README.md", "kartrl/kart/weights")
COMMENTED = ("benchmarks/*.toml", "benchmarks/*.py", "kartrl/config/presets/*.cfg", "Dockerfile", "Makefile")
PROGRAMS = (
    *("kartrl", "python", "python3", "python3.11", "pip", "make"),
    *("docker", "ray", "ssh", "scp", "tensorboard", "apt", "optuna-dashboard", "hf"),
)
NO_COMMANDS = ("kartrl node-0",)  # the title of a process
OF_THE_SHELL = ("ls", "head", "tail", "mv", "id", "basename", "cat")  # real programs that examples use
BEGINS = re.compile(rf"((\.venv/bin/)?({'|'.join(PROGRAMS)})|run\.py|record\.py|for|export)\s+[-\w./\"'$]")
FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`([^`]+)`")
OPTIONS = re.compile(r"((-c \S+|--set (\"[^\"]*\"|'[^']*'|\S+)|--env \S+) ?)+")  # as an example alone
# What stands for something else, and what would take long: how an example is typed here.
TYPED = (
    (r"\[[A-Z]+[^\]]*\]", ""),  # an argument that may be left out; options that may be are given
    (r"\[(-[^\]]*)\]", r"\1"),
    (r"section\.key=value", "run.seed=2"),
    (r"\bCOMMAND --help", "train --help"),
    (r"-p \.\.\.", "-p RUN"),
    (r"<name>|(?<==)NAME\b", "ppo"),
    (r"-c NAME\b", "-c pong"),
    (r"<last>", "0000001000"),
    (r"<[a-z_][^<>|]*>", "X"),
    (r"(?<=[=\w ])\.\.\.|logs/\.\.\.", ""),
    (r"\bseedN\b", "seed1"),
    (r"(?<==)N\b|(?<=--seed )N\b", "1"),
    (r"\bCHECKPOINT\b", "RUN"),
    (r"retro/FOLDER\b", "retro/my-game"),
    (r"-c all_circuits --init RUN", "-c all_circuits --init all"),
    (r"random:(\d+)-\d+", r"random:\1-\1"),
    (r"random:\d+(?![-\d])", "random:1"),
    (r"(?<=circuit random)(.*) -n 5", r"\1 -n 2"),
)


class Typed(NamedTuple):
    """A command as the shell has read it."""

    words: tuple[str, ...]  # program, without its folder, and arguments
    trusted: str  # value of KARTRL_IMPORT


def sources() -> dict[str, list[str]]:
    """Scripts of commands by where they are printed: each is run by a shell of its own."""
    found: dict[str, list[str]] = {}
    for place in PAGES:
        for page in [ROOT / place] if place.endswith(".md") else sorted((ROOT / place).rglob("*.md")):
            found[str(page.relative_to(ROOT))] = list(_of_page(page.read_text(encoding="utf-8")))
    for pattern in COMMENTED:
        for file in sorted(ROOT.glob(pattern)):
            found[str(file.relative_to(ROOT))] = list(_of_comments(file.read_text(encoding="utf-8")))
    for command in ["", *COMMANDS, *ACTIONS]:
        found[f"kartrl {command} --help"] = _help(command).partition("\nexamples:\n")[2].splitlines()
        assert found[f"kartrl {command} --help"], f"kartrl {command} --help has no examples"
    return {source: scripts for source, scripts in found.items() if scripts}


def _of_page(text: str) -> Iterator[str]:
    """Fenced blocks and code within sentences, in the order of the page."""
    for piece in re.split(r"(^ *```.*?^ *```$)", text, flags=re.DOTALL | re.MULTILINE):
        if fenced := FENCED.fullmatch(piece):
            if fenced[2] in ("", "sh") and any(BEGINS.match(line.strip()) for line in fenced[3].splitlines()):
                yield fenced[3]
            continue
        for code in INLINE.findall(piece):
            words = " ".join(code.split())
            if words in (f"kartrl {command}" for command in (*COMMANDS, *ACTIONS)):  # a mention
                yield f"{words} --help"
            elif BEGINS.match(words) and not words.startswith(NO_COMMANDS):
                yield words
            elif OPTIONS.fullmatch(words) and ("-c" in words or "." in words):
                yield f"kartrl config {words}"


def _of_comments(text: str) -> Iterator[str]:
    """Lines of comments and docstrings that are a command, or end with one."""
    lines = iter(text.splitlines())
    for line in lines:
        found = re.search(r"^(?:#.*?[.:] |#? *)((?:kartrl|python|docker|train) [-\w].*?)(?:   .*)?$", line)
        if found is None:
            continue
        command = found[1]
        while command.endswith("\\"):
            command = command[:-1] + next(lines)
        yield f"kartrl {command}" if command.startswith("train") else command


def _help(command: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):
        make_parser().parse_args([*command.split(), "--help"])
    return shown.getvalue()


def read(script: str, folder: Path) -> tuple[list[Typed], str]:
    """The commands that a shell in this folder finds in a script, without running the programs; and its errors."""
    _make_programs(folder)
    heard = folder / "heard"
    heard.write_text("")
    variables = {"PATH": str(folder / ".venv" / "bin"), "HOME": str(folder), "HEARD": str(heard)}
    for pattern, replacement in TYPED:
        script = re.sub(pattern, replacement, script)
    shell = [shutil.which("bash") or "bash", "-c", script]
    ended = subprocess.run(shell, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    records = [record.split("\x1f")[:-1] for record in heard.read_text().split("\x1e")[:-1]]
    return [Typed(tuple(words), trusted) for trusted, *words in records], ended.stderr.strip()


def _make_programs(folder: Path) -> None:
    """Programs that only write down how they were called, where examples look for them."""
    for place in (".venv/bin", "peers/sb3/bin", "peers/sf/bin"):
        programs = folder / place
        if programs.exists():
            continue
        programs.mkdir(parents=True)
        for name in (*PROGRAMS, "run.py", "record.py"):
            file = programs / name
            file.write_text(
                '#!/bin/sh\n{ printf "%s\\037" "$KARTRL_IMPORT" "${0##*/}" "$@"; printf "\\036"; } >> "$HEARD"\n'
            )
            file.chmod(0o755)
        (programs / "activate").touch()
        for name in OF_THE_SHELL:
            (programs / name).symlink_to(shutil.which(name) or os.devnull)
