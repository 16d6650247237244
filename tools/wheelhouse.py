"""Downloads the wheels that the Dockerfile installs into wheelhouse/, for builds without a network: `make wheelhouse`.

    python -m tools.wheelhouse [FOLDER] [--machine x86_64|aarch64] [--python 3.13]

`--machine` and `--python` are those of the image, not of this machine. Every file is compared with its hash in locks/.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tools.bootstrap import OUR_PIP, ROOT, report

if TYPE_CHECKING:
    from collections.abc import Sequence

LOCKS = ROOT / "locks"
NEEDED = tuple(LOCKS / f"{name}.txt" for name in ("operator", "board", "build"))  # operator has the worker's packages
GLIBCS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "linux")  # all older than the base image's
MACHINES = {"arm64": "aarch64", "AMD64": "x86_64"}  # what other systems call them


def fill(folder: Path, locks: Sequence[Path] = NEEDED, *, machine: str = "", python: str = "3.13") -> None:
    """Downloads the wheels that `locks` name for a Linux on `machine` (this one's if empty).

    Raises SystemExit if pip fails. pip prints the cause.
    """
    machine = MACHINES.get(machine or platform.machine(), machine or platform.machine())
    folder.mkdir(parents=True, exist_ok=True)
    platforms = [f"--platform={glibc}_{machine}" for glibc in GLIBCS]
    interpreter = [f"--python-version={python}", "--implementation=cp"]
    named = [word for lock in locks for word in ("-r", str(lock))]
    download = [*OUR_PIP, "download", "--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps"]
    if subprocess.call([*download, "--only-binary=:all:", *platforms, *interpreter, f"--dest={folder}", *named]):
        sys.exit("The wheels could not be downloaded; pip's output is above.")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="Downloads what the Dockerfile installs.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "wheelhouse")
    parser.add_argument("--machine", default="", help="x86_64 or aarch64; this one's if not given")
    parser.add_argument("--python", default="3.13", help="the Python of the base image")
    given = parser.parse_args()
    fill(given.folder, machine=given.machine, python=given.python)
    report(f"{len(list(given.folder.glob('*.whl')))} wheels are in {given.folder}.")


if __name__ == "__main__":
    main()
