"""Prints wakeboard/store/REVISION: a number that grows whenever a function's text changes, and their hash.

`migrate` compares the numbers: an older checkout does not replace the functions of a newer one of the same release. A
file with conflict markers gets a number above both sides.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

CORE = Path(__file__).resolve().parents[1] / "wakeboard"
LINE = re.compile(r"^(\d+) (\w+)$", re.MULTILINE)


def next_revision(before: str, texts: str) -> int:
    """The revision of functions with the hash `texts`, after a file with the content `before`."""
    found = LINE.findall(before)
    unchanged = [known for _, known in found] == [texts]
    return max((int(revision) for revision, _ in found), default=0) + (not unchanged)


def main() -> None:
    """Prints the file."""
    files = sorted(CORE.glob("*/sql/**/*.sql"), key=lambda file: file.name)
    texts = hashlib.sha256(b"\n".join(file.read_bytes() for file in files)).hexdigest()[:32]
    here = CORE / "store/REVISION"
    before = here.read_text("utf-8") if here.exists() else ""
    print(next_revision(before, texts), texts)


if __name__ == "__main__":
    main()
