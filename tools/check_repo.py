"""House rules that no other tool knows: lock files name no host, files are short."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONG_FILE = 500  # lines
SOURCE = {".py", ".sql", ".sh"}


def files() -> list[str]:
    """What Git knows or would add, by path from the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return sorted(name for name in names if (ROOT / name).is_file())


def locks_that_name_a_host(names: list[str]) -> list[str]:
    """A lock must install through whatever index a machine is set up for."""
    locks = [name for name in names if name.startswith("locks/")]
    return [f"{name} names a host; make lock leaves it out" for name in locks if "://" in (ROOT / name).read_text()]


def long_files(names: list[str]) -> list[str]:
    """Files that are probably two."""
    sources = [name for name in names if Path(name).suffix in SOURCE]
    lengths = {name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in sources}
    return [f"warning: {name} has {length} lines" for name, length in lengths.items() if length > LONG_FILE]


def main() -> int:
    """Prints what it finds; returns 1 if more than warnings."""
    names = files()
    errors = locks_that_name_a_host(names)
    for finding in errors + long_files(names):
        print(finding)
    return int(bool(errors))


if __name__ == "__main__":
    sys.exit(main())
