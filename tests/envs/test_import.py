"""An environment's module that cannot be imported is refused in one line."""

from pathlib import Path

import pytest
from commands import assert_clear
from looks import describe_env

from kartrl.config import read
from kartrl.errors import UserError


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("no_such_module:Env-v0", ""),
        ("broken_module:Env-v0", "raise RuntimeError('broken')"),
        ("quitting_module:Env-v0", "raise SystemExit('bye')"),
        ("../above:Env-v0", ""),
        (":Env-v0", ""),
        ("os:path:Env-v0", ""),
    ],
)
def test_a_module_that_cannot_be_imported_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str
) -> None:
    if content:
        (tmp_path / f"{name.partition(':')[0]}.py").write_text(content)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UserError, match=r"\[environment\] id = ") as refused:
        describe_env(read(overrides=[f"environment.id={name}"]))
    assert_clear(refused.value)
