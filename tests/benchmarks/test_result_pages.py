"""The pages of recorded results."""

import copy
import json
from pathlib import Path

import result_pages

from kartrl.comparison.record import fingerprint


def test_pages_equal_the_records() -> None:
    """If a default has changed, or a record: `make results`."""
    records, machines = result_pages.read_records(result_pages.RECORDS)
    pages = result_pages.make_pages(records, machines)
    written = {file.name: file.read_text(encoding="utf-8") for file in result_pages.PAGES.glob("*.md")}
    assert written == pages
    assert len(pages[result_pages.INDEX].splitlines()) <= 150
    pictures = {file.stem for file in result_pages.PAGES.glob("*.png")}
    assert pictures == {Path(name).stem for name in pages} - {Path(result_pages.INDEX).stem}
    for record in records:
        assert record["hash"] == fingerprint(record["config"])
        assert not record["commit"].endswith("changes"), "others do not have these"


def test_page_says_that_a_default_has_changed() -> None:
    records, machines = result_pages.read_records(result_pages.RECORDS)
    changed = copy.deepcopy(records[:1])
    changed[0]["config"]["optimizer.epsilon"] = 0.5
    pages = result_pages.make_pages(changed, machines)
    (page,) = (text for name, text in pages.items() if name != result_pages.INDEX)
    assert "**The defaults have changed since**" in page
    assert "optimizer.epsilon was 0.5, is " in page
    assert "| changed since |" in pages[result_pages.INDEX]


def test_page_names_what_failed(tmp_path: Path) -> None:
    records, machines = result_pages.read_records(result_pages.RECORDS)
    record = json.loads(json.dumps(records[0])) | {"failed": ["a rate of 0.1 diverges"]}
    (page,) = (text for name, text in result_pages.make_pages([record], machines).items() if name != result_pages.INDEX)
    assert "What failed: a rate of 0.1 diverges." in page
    result_pages.draw([record, record], tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 10_000
