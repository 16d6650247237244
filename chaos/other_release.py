"""Other releases to run next to this one: the first published one, and one that is later than this."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Final

from testbed.processes import ROOT

FIRST: Final = "03bd174d80877542388734637dbffd1dc7d82681"  # the commit of the first published schema
PARTS: Final = ("wakeboard", "worker", "operator")
MAINTENANCE: Final = "chaos/maintenance_process.py"  # calls modules of the operator, so it is that of the same commit

# It changes the tables that every process uses.
LATER_MIGRATION: Final = """-- locks: job_definitions, job_keys, job_runs
alter table job_definitions add column later text;
alter table job_keys add column later text;
alter table job_runs add column later text;
"""


def extract_first_release(folder: Path) -> Path:
    """Puts the code of the first published release into `folder`, and its maintenance process as a module of its own.

    Raises RuntimeError if Git cannot tell.
    """
    command = ["git", "-c", f"safe.directory={ROOT}", "archive", FIRST, *PARTS, MAINTENANCE]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=60)
    if found.returncode:
        raise RuntimeError(
            f"the first published release, commit {FIRST[:10]}, is not in this clone; run `git fetch --unshallow`."
            f" Git says: {found.stderr.decode(errors='replace').strip()}"
        )
    with tarfile.open(fileobj=BytesIO(found.stdout)) as archive:
        archive.extractall(folder, filter="data")
    shutil.move(folder / MAINTENANCE, folder / Path(MAINTENANCE).name)
    (folder / MAINTENANCE).parent.rmdir()  # it would be a second package chaos
    return folder


def make_later_release(folder: Path) -> Path:
    """Puts this code into `folder`, with one more migration, and a revision that replaces all SQL functions."""
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    store = folder / "wakeboard" / "store"
    newest = max(int(file.name[:4]) for file in (store / "migrations").glob("*.sql"))
    (store / "migrations" / f"{newest + 1:04}_later.sql").write_text(LATER_MIGRATION)
    number, texts = (store / "REVISION").read_text().split()[:2]
    (store / "REVISION").write_text(f"{int(number) + 1} {texts}\n")
    return folder
