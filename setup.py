"""The package's description: README.md, with its links into this repository made to work where only the package is."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]
LINK = re.compile(r"(!?)(\[[^]]*\]\()(?!https?:|#)([^)]+)\)")


def absolute(link: re.Match[str]) -> str:
    """The link to the file in the repository: an image's content, or a page that shows a folder or file."""
    image, text, path = link.groups()
    kind = "raw" if image else "tree" if (ROOT / path).is_dir() else "blob"
    return f"{image}{text}{REPOSITORY}/{kind}/HEAD/{path})"


README = (ROOT / "README.md").read_text(encoding="utf-8")
setup(long_description=LINK.sub(absolute, README), long_description_content_type="text/markdown")
