"""Where a run comes from: command, versions, commit and machine."""

import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from policies import make_checkpoint

import kartrl
from kartrl.errors import UserError
from kartrl.learning import checkpoint
from kartrl.run.provenance import provenance

WHERE = {"command": "kartrl train -c mine", "version": "kartrl 0", "packages": "torch 2", "machine": "2 cores"}


def test_command_versions_and_machine_are_one_line_each(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["kartrl", "train", "--name", "two\nlines and 'spaces'", "train"])
    found = provenance()
    assert all(text.isprintable() for text in found.values())
    assert found["command"].endswith("""train --name 'two lines and '"'"'spaces'"'"'' train""")
    assert f"numpy {importlib.metadata.version('numpy')}" in found["packages"]
    assert found["version"].startswith(f"kartrl {kartrl.__version__}")
    assert " cores, " in found["machine"]
    assert " GB of memory" in found["machine"]


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_commit_is_named_of_a_checkout_of_kartrl_alone(tmp_path):
    shutil.copytree(
        Path(kartrl.__file__).parent,
        tmp_path / "kartrl",
        ignore=lambda folder, names: (
            [name for name in names if not name.endswith(".py") and not Path(folder, name).is_dir()]
        ),
    )

    def git(*arguments):
        person = ["-c", "user.name=N", "-c", "user.email=e@example.org"]
        return subprocess.run(
            ["git", *person, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    def version():
        code = "from kartrl.run.provenance import provenance; print(provenance()['version'])"
        return subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    plain = f"kartrl {kartrl.__version__}"
    git("init")
    (tmp_path / "paper.tex").write_text("of a project that has kartrl in its virtual environment")
    git("add", "paper.tex")
    git("commit", "-m", "1")
    assert version() == plain
    git("add", "kartrl")
    git("commit", "-m", "2")
    git("tag", "v9")
    assert version() == f"{plain}, commit {git('rev-parse', 'HEAD')}"
    with (tmp_path / "kartrl" / "errors.py").open("a") as file:
        file.write("\n")
    assert version() == f"{plain}, commit {git('rev-parse', 'HEAD')}, with changes"


def test_export_leaves_out_private_provenance_of_checkpoint(tmp_path):
    stored = make_checkpoint(100)._replace(provenance=WHERE)
    checkpoint.save(tmp_path / "a.pt", stored)
    assert checkpoint.load(tmp_path / "a.pt").provenance == WHERE
    assert checkpoint.for_driving(stored, half=False).provenance.keys() == {"version", "packages"}


@pytest.mark.parametrize("wrong", [{"machine": "\x1b[2J"}, {"machine": 5}, {"a\nb": "c"}])
def test_provenance_that_is_not_a_line_of_text_is_refused(tmp_path, wrong):
    checkpoint.save(tmp_path / "a.pt", make_checkpoint(100)._replace(provenance=wrong))
    with pytest.raises(UserError, match=r"a\.pt: refused: "):
        checkpoint.load(tmp_path / "a.pt")
