"""`python -m chaos`: plays campaigns of random faults, and prints what was lost, doubled or late; 1 if a promise broke.

A campaign of up to 1000 faults has a server and a cast of its own, in a process of its own; several run side by side.
All of it listens on loopback and ends by itself, and no process is signalled that a campaign did not start.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from chaos.disk import can_mount
from chaos.pgbouncer import find_pgbouncer
from chaos.player_process import Playing
from chaos.report_page import PAGE, page, summary

if TYPE_CHECKING:
    from collections.abc import Sequence

FAULTS_AT_MOST: Final = 1000  # in one campaign


def main(words: Sequence[str] | None = None) -> int:
    """Plays what was asked for."""
    options = _options(words)
    if os.environ.get("CI") and find_pgbouncer() is None:
        sys.stderr.write("PgBouncer is not installed; `make test-postgres` brings it\n")
        return 2
    folder = Path(tempfile.mkdtemp(prefix="wakeboard-chaos-"))
    folder.chmod(0o755)  # the account that runs the server may differ from ours
    began = time.monotonic()
    playing = Playing(folder, _campaigns(options.seed, options.faults), options.side_by_side, small_disk=can_mount())
    result = playing.play()
    result.seconds = time.monotonic() - began
    command = f"make chaos CHAOS_FAULTS={options.faults} CHAOS_SEED={options.seed}"
    print(json.dumps(result.to_json(), indent=1) if options.json else summary(result, command), flush=True)
    if options.write:
        PAGE.write_text(page(result, command), encoding="utf-8")
        print(f"written to {PAGE}", file=sys.stderr)
    if result.violations:
        print(f"logs, strikes and what was found: {folder}", file=sys.stderr)
        (folder / "result.json").write_text(json.dumps(result.to_json(), indent=1))
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=500, metavar="N", help="how many (500)")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="of the first campaign; chosen if not said")
    parser.add_argument("--side-by-side", type=int, default=4, metavar="N", help="campaigns at once (4)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--write", action="store_true", help="write docs/reliability.md as well")
    options = parser.parse_args(words)
    if options.seed is None:
        options.seed = int.from_bytes(os.urandom(3), "big")
    return options


def _campaigns(seed: int, faults: int) -> list[tuple[int, int]]:
    """(seed, faults) of each: 2200 faults from seed 7 are (7, 1000), (8, 1000), (9, 200)."""
    whole, rest = divmod(faults, FAULTS_AT_MOST)
    sizes = [FAULTS_AT_MOST] * whole + [rest] * bool(rest)
    return [(seed + number, size) for number, size in enumerate(sizes)]


if __name__ == "__main__":
    sys.exit(main())
