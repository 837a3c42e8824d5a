"""Links of all documents."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = "docs", "results", "findings", "benchmarks", "game", "kartrl", "examples"


def _prose(document: Path) -> str:
    return re.sub(r"^( *)```.*?^\1```", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def _anchors(document: Path) -> set[str]:
    """As GitHub makes them of headings: lower case, hyphens for spaces, without other signs."""
    titles = re.findall(r"^#+ (.*)$", _prose(document), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


def test_links_of_documents_lead_to_what_exists():
    documents = [*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))]
    broken = []
    for document in documents:
        for link in re.findall(r"\]\(([^)\s]+)\)", _prose(document)):
            path, _, anchor = link.partition("#")
            target = document.parent / path if path else document
            if not link.startswith("http") and not (target.exists() and (not anchor or anchor in _anchors(target))):
                broken.append(f"{document.relative_to(ROOT)}: {link}")
    assert len(documents) > 20
    assert not broken, broken
