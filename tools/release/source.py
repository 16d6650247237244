"""The commit that a release is made of, and whether it may be called one."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from tools.stamp_version import repository_address, version

ROOT: Final = Path(__file__).resolve().parents[2]
SEMANTIC: Final = r"\d+\.\d+\.\d+(-(a|b|rc|dev)\d+)?"  # npm, Go and Helm know no other, and Python reads it, too


@dataclass(frozen=True, slots=True)
class Source:
    """`version` is that of pyproject.toml, `time` is the commit's, in seconds since 1970.

    `tag` is empty if no tag of this version names the commit. `modified`: some file is not as it was committed.
    `repository` is its public address, empty if it has none.
    """

    version: str
    commit: str
    time: int
    tag: str
    modified: bool
    repository: str = ""

    @classmethod
    def read(cls) -> Self:
        """That of this checkout. Raises SystemExit if it is none, or if a tag names the commit that is not its own.

        Every tag that begins with `v` counts, because CI makes a release of it.
        """
        number = version()
        if not re.fullmatch(SEMANTIC, number):
            sys.exit(
                f"pyproject.toml has the version {number}: write it like 1.2.3 or 1.2.3-rc1, for npm, Go and Helm."
            )
        commit, time = _git("log", "-1", "--format=%H %ct").split()
        tags = [tag for tag in _git("tag", "--points-at", "HEAD").split() if tag.startswith("v")]
        if problem := next(filter(None, (tag_problem(tag, number) for tag in tags)), ""):
            sys.exit(problem)
        modified = bool(_git("status", "--porcelain").strip())
        return cls(number, commit, int(time), f"v{number}" if tags else "", modified, repository_address())

    @property
    def unfit(self) -> str:
        """Why this is not to be published; empty if it is."""
        if self.modified:
            return "some files are not committed (git status)"
        return "" if self.tag else f"the commit has no tag v{self.version}"

    @property
    def date(self) -> str:
        """The commit's time, as in `2026-11-28T03:24:09Z`."""
        return f"{datetime.fromtimestamp(self.time, UTC):%Y-%m-%dT%H:%M:%SZ}"

    def __str__(self) -> str:
        name = f"wakeboard {self.version}, commit {self.commit[:12]} of {self.date[:10]}"
        return f"{name}. Do not publish it: {self.unfit}." if self.unfit else f"{name}, tag {self.tag}."


def tag_problem(tag: str, number: str) -> str:
    """Why the commit of this version must not have this tag; empty if it may."""
    if not re.fullmatch(f"v{SEMANTIC}", tag):
        return f"The commit has the tag {tag}, which is no version: name it v{number}, or begin it with another letter."
    if tag != f"v{number}":
        return f"The commit has the tag {tag}, and pyproject.toml the version {number}: change one of the two."
    return ""


def tracked_files(folder: str) -> list[str]:
    """The files in a folder of the project that Git has or would add, relative to the folder."""
    words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ".")
    names = _git(*words, folder=ROOT / folder).split("\0")
    return sorted(name for name in names if name and (ROOT / folder / name).is_file())


def _git(*words: str, folder: Path = ROOT) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        sys.exit("A release needs git, which says what commit it is of. On Debian or Ubuntu: sudo apt-get install git")
    if done.returncode:
        sys.exit(f"A release is made in a clone of the repository: git {words[0]} says: {done.stderr.strip()}")
    return done.stdout
