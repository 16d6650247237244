"""Another release to run next to this one: the newest earlier code with this schema, else this code renumbered."""

from __future__ import annotations

import subprocess
import tarfile
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Final

import wakeboard
from testbed.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PARTS: Final = ("wakeboard", "worker")
LOOK_BACK: Final = 20  # commits
NUMBER: Final = "0.1.99"


@dataclass(frozen=True, slots=True)
class Release:
    """The folder of its code, and the version that it reports (empty: its own)."""

    code: Path
    number: str
    description: str

    def __str__(self) -> str:
        return self.description


def find_other_release(folder: Path) -> Release:
    """The newest earlier code with this schema, extracted to `folder`; this code as NUMBER if Git has none."""
    for commit in _earlier_commits():
        if _differs(commit) and _has_this_schema(commit):
            _extract(commit, folder)
            return Release(folder, "", f"the code of commit {commit[:10]}")
    return Release(ROOT, NUMBER, f"the same code ({wakeboard.__version__}) reporting version {NUMBER}")


def _git(*words: str) -> bytes:
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return b""


def _earlier_commits() -> list[str]:
    return _git("log", f"-{LOOK_BACK}", "--format=%H", "--", *PARTS).decode().split()[1:]


def _differs(commit: str) -> bool:
    return bool(_git("diff", "--name-only", commit, "--", *PARTS))


def _has_this_schema(commit: str) -> bool:
    return not _git("diff", "--name-only", commit, "--", "wakeboard/store/migrations")


def _extract(commit: str, folder: Path) -> None:
    with tarfile.open(fileobj=BytesIO(_git("archive", commit, *PARTS))) as archive:
        archive.extractall(folder, filter="data")
