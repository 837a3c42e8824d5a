"""What benchmarks import of kartrl."""

import ast
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def imported(file: Path) -> set[str]:
    """The modules that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def test_benchmarks_import_no_commands() -> None:
    files = list(BENCHMARKS.rglob("*.py"))
    assert files
    found = {file.name: sorted(name for name in imported(file) if name.startswith("kartrl.commands")) for file in files}
    assert not any(found.values()), found
