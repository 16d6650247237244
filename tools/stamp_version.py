"""Prints a file with the version of pyproject.toml wherever it names that of a part of wakeboard.

A release changes pyproject.toml and runs `make fix`. FILES are those that name it; tools/check_repo.py finds others.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_VERSION: Final = r"\d+\.\d+\.\d+(?:[-.]?(?:a|b|rc|dev)\d+)?"
# What comes before a version, in any of the files.
_BEFORE: Final = (
    r"wakeboard/(?:operator|worker|worker-build|board|jobs):",  # an image
    r"(?m:^(?:appVersion|version): )",  # the chart
    r'"name": "[^"]*wakeboard[^"]*",\s+"version": "',  # the npm package
    r'(?m:^__version__ = ")',
    r"@host::text, '",  # what the workers of clients/ register
    r'hostname\(\), "',
    r"\nVersion ",  # README.md
    r"\*\*What ",
    r'\nsite_name = "wakeboard ',
)
NAMES_VERSION: Final = re.compile(rf"({'|'.join(_BEFORE)}){_VERSION}")
FILES: Final = (
    "README.md",
    "SECURITY.md",
    "charts/wakeboard/Chart.yaml",
    "clients/go/worker/leases.go",
    "clients/typescript/package-lock.json",
    "clients/typescript/package.json",
    "clients/typescript/src/worker.ts",
    "docs/from-cronjob.md",
    "docs/install.md",
    "docs/production.md",
    "docs/worker-image.md",
    "examples/image/packaged/Dockerfile",
    "examples/image/simple/Dockerfile",
    "wakeboard/__init__.py",
    "zensical.toml",
)


def version() -> str:
    """The version of this checkout."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def repository_address() -> str:
    """`Repository` in project.urls of pyproject.toml; "" as long as the repository has no public address.

    A release takes it from here into all that names it, and leaves it out without one.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return project.get("urls", {}).get("Repository", "").rstrip("/")


def stamped(text: str, number: str) -> str:
    """The text with this version."""
    return NAMES_VERSION.sub(rf"\g<1>{number}", text)


if __name__ == "__main__":
    sys.stdout.write(stamped((ROOT / sys.argv[1]).read_text("utf-8"), version()))
