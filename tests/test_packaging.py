"""The package, its locks and what the repository holds."""

import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import kartrl

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("requirements.lock", "requirements-dev.lock")
OUR_ROM = Path("kartrl/kart/games/KartRL-Snes/rom.sfc")
OUR_ROMS = [OUR_ROM, Path("kartrl/retro/games/Rapids-Nes-v0/rom.nes")]
ROM_SUFFIXES = {".sfc", ".smc", ".swc", ".fig", ".srm", ".nes", ".gb", ".gba", ".gen", ".z64", ".n64", ".zip", ".7z"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _lock(name: str) -> dict[str, Requirement]:
    """The pins of a lock by package."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): pin for pin in pins}


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)


def _repository_files() -> list[Path]:
    """What git has, or would take."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    listed = _run("git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed.returncode:
        pytest.skip(f"not a git checkout: {listed.stderr.strip()}")
    return sorted({Path(name) for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()})


@pytest.mark.parametrize(
    ("option", "expected"), [("--help", "import-rom"), ("--version", f"kartrl {kartrl.__version__}")]
)
def test_console_command(option: str, expected: str) -> None:
    result = _run(str(Path(sys.executable).with_name("kartrl")), option)
    assert result.returncode == 0, result.stderr
    assert expected in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize("name", LOCKS)
def test_lock_is_exact_and_portable(name: str) -> None:
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            assert re.fullmatch(r"[a-z0-9-]+==[A-Za-z0-9.]+( ; .+)?", line), line
            assert not re.search(r"://|@ |/|\\|--|\+", line), line
            assert not re.match(r"nvidia-(?!ml-py)|cuda-|triton", line), f"{line}: a library of one build of torch only"


@pytest.mark.parametrize("extras", [(), ("atari", "dev")])
def test_lock_agrees_with_pyproject(extras: tuple[str, ...]) -> None:
    lock = _lock(LOCKS[bool(extras)])
    wanted = list(PROJECT["dependencies"])
    for extra in extras:
        wanted += PROJECT["optional-dependencies"][extra]
    for requirement in map(Requirement, wanted):
        pin = lock[canonicalize_name(requirement.name)]
        (version,) = pin.specifier
        assert requirement.specifier.contains(version.version), f"{pin} does not meet {requirement}: run `make lock`"
        assert (requirement.marker is None) == (pin.marker is None), requirement


def test_locks_agree() -> None:
    run, dev = (_lock(name) for name in LOCKS)
    assert {name: str(pin) for name, pin in run.items()} == {name: str(dev[name]) for name in run}


def test_all_places_name_the_same_pythons() -> None:
    first, behind = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"]).groups()
    first, last = int(first), int(behind) - 1
    names = ("Makefile", "kartrl/commands/doctor/machine.py", "README.md")
    makefile, doctor, readme = ((ROOT / name).read_text(encoding="utf-8") for name in names)
    for text in (makefile, doctor):
        assert f"(3, {first}) <= sys.version_info[:2] <= (3, {last})" in text
    for text in (makefile, doctor, readme):
        assert f"Python 3.{first} to 3.{last}" in text
    candidates = re.search(r"\$\(or \$\(PYTHON\),(.*?)\) none", makefile)[1].split()
    assert candidates == ["python3", *(f"python3.{minor}" for minor in range(last, first - 1, -1)), "python"]
    assert f"--python-version 3.{first} " in makefile


def test_emulator_is_asked_for_only_where_it_has_wheels() -> None:
    marker = _lock(LOCKS[0])["stable-retro"].marker
    assert marker is not None
    for platform, machine, expected in [
        ("linux", "x86_64", True),
        ("darwin", "arm64", True),
        ("linux", "aarch64", False),
        ("darwin", "x86_64", False),
        ("win32", "AMD64", False),
    ]:
        assert marker.evaluate({"sys_platform": platform, "platform_machine": machine}) is expected


def test_no_foreign_rom() -> None:
    files = _repository_files()
    assert [path for path in files if path.suffix.lower() in ROM_SUFFIXES] in ([], OUR_ROMS)
    states = [path for path in files if path.suffix == ".state"]
    assert all(path.parent in [rom.parent for rom in OUR_ROMS] for path in states), states
    # Super Mario Kart, as dumped and behind a copier's header
    cartridge = "47e103d8398cf5b7cbb42b95df3a3c270691163b"
    for path in files:
        content = (ROOT / path).read_bytes()
        assert hashlib.sha1(content).hexdigest() != cartridge, path
        assert hashlib.sha1(content[512:]).hexdigest() != cartridge, path


def _in_image(path: str) -> bool:
    """Whether .dockerignore lets a file into an image: the last pattern that fits it or a folder around it decides."""
    included = True
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            pattern = re.escape(line.removeprefix("!")).replace(r"\*\*/", "(.*/)?").replace(r"\*", "[^/]*")
            if re.fullmatch(f"{pattern}(/.*)?", path):
                included = line.startswith("!")
    return included


def test_no_cartridge_gets_into_an_image() -> None:
    shipped = [path for path in _repository_files() if _in_image(path.as_posix())]
    for path in (*OUR_ROMS, *map(Path, ("run.py", "kartrl/cli.py", "docker/start", "requirements.lock"))):
        assert path in shipped
    assert {path.name for path in shipped if path.parent == OUR_ROMS[1].parent} >= {"Level01.state", "Level16.state"}
    assert {path.name for path in shipped if path.parent == OUR_ROM.parent} >= {
        f"MarioCircuit.Act{act}.state" for act in (1, 2, 3, 4)
    }
    for folder in (
        "",
        "kartrl/",
        "kartrl/kart/games/",
        "kartrl/kart/games/SuperMarioKart-Snes/",
        "kartrl/kart/games/KartRL-Snes/",
        "docker/",
    ):
        for suffix in (*ROM_SUFFIXES & {".sfc", ".smc", ".swc", ".fig", ".srm", ".nes", ".zip", ".7z"}, ".state"):
            if not folder.endswith("KartRL-Snes/") or suffix != ".state":
                assert not _in_image(f"{folder}Super Mario Kart (USA){suffix}")
    assert not _in_image("logs/run/best.pt")
    assert not _in_image(".git/config")


def test_the_container_is_an_ordinary_user() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    user = re.findall(r"^USER (\d+):(\d+)$", dockerfile, re.MULTILINE)[-1]
    assert "0" not in user
    assert not re.search(r"chmod|sudo|setuid", dockerfile)
    copied = dockerfile.index("COPY . .")
    assert "chown" not in dockerfile[copied:], "it cannot change its own program"


def test_docker_lines_publish_pages_and_warn() -> None:
    """README's is the short one, beside a warning; docs/ keep TensorBoard, which has no login, to this computer."""
    files = [
        "README.md",
        "docker/start",
        *(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")),
    ]
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in files}
    commands = [line for text in texts.values() for line in text.splitlines() if "docker run" in line]
    published = [port for line in commands for port in re.findall(r"-p (\S*6006)", line)]
    assert len(published) >= 5
    assert published[:1] == ["6006:6006"]
    assert "&& docker run -p 6006:6006 -p 6007:6007 kartrl\n" in texts["README.md"]
    assert set(published[1:]) == {"127.0.0.1:6006:6006"}
    assert "`-p 127.0.0.1:6006:6006` keeps it to this computer" in texts["README.md"]
    assert not any("--bind_all" in text for text in texts.values())
    assert "no login" in texts["README.md"]
    assert "TensorBoard has no authentication" in texts["docs/docker.md"]


def test_tables_have_as_many_columns_as_their_headings() -> None:
    seen = 0
    for path in (name for name in _repository_files() if name.suffix == ".md"):
        lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
        for number, (heading, line) in enumerate(pairwise(lines), 2):
            if re.fullmatch(r"\|( *:?-+:? *\|)+", line):
                seen += 1
                assert heading.count("|") == line.count("|"), f"{path}:{number} is shown as text, not as a table"
    assert seen > 50


def test_wheel_has_games_presets_and_working_links(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "kartrl", source / "kartrl", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    cartridge = source / "kartrl/kart/games/SuperMarioKart-Snes"
    cartridge.mkdir(parents=True, exist_ok=True)
    for name in ("rom.sfc", "rom.smc", "MarioCircuit.Act1.state"):
        (cartridge / name).write_bytes(b"the user's own")
    weights = source / "kartrl/kart/weights"  # whether or not some come along by now
    weights.mkdir(exist_ok=True)
    for name in ("kart.pt", "kart.md"):
        (weights / name).touch()
    options = [
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--disable-pip-version-check",
        "--wheel-dir",
        str(tmp_path),
    ]
    built = _run(sys.executable, "-m", "pip", "wheel", *options, str(source))
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("kartrl-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
        (about,) = (archive.read(name).decode() for name in inside if name.endswith("/METADATA"))
    ours = {path.relative_to(source).as_posix() for path in (source / "kartrl").rglob("*") if path.is_file()}
    own = {
        path.relative_to(source).as_posix() for path in cartridge.iterdir() if path.read_bytes() == b"the user's own"
    }
    assert ours - own <= inside
    assert not own & inside
    assert {"kartrl/py.typed", "kartrl/config/presets/pong.cfg"} <= inside
    repository = PROJECT["urls"]["Repository"]
    links = re.findall(r"\]\(([^)]+)\)", about)
    assert len(links) > 25
    assert all(link.startswith("https://") for link in links), links
    named = [link.removeprefix(repository).split("/", 3)[1::2] for link in links if link.startswith(f"{repository}/")]
    assert len(named) > 20
    assert all((ROOT / path.partition("#")[0]).exists() for _, path in named), named
    assert {kind for kind, path in named if (ROOT / path).is_dir()} <= {"tree"}
