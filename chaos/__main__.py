"""`python -m chaos`: runs campaigns of random faults and prints what was lost, doubled or late. Exits 1 on a violation.

A campaign of up to 1000 faults runs in its own process with its own server and workers; several run in parallel.
Everything listens on loopback and ends with the campaign, which signals only processes that it started.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from chaos.campaign_runner import ASYNCHRONOUS, FAILOVER, OWN_NAMESPACES, CampaignRunner
from chaos.disk import can_mount
from chaos.report_page import PAGE, page, page_with_failovers, page_with_losses, summary
from chaos.results import RESULT
from chaos.upgrade import UpgradeCampaign
from testbed.pgbouncer import find_pgbouncer
from testbed.server_network import can_make_network

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.results import Result

FAULTS_AT_MOST: Final = 1000  # in one campaign


def main(words: Sequence[str] | None = None) -> int:
    """Runs the campaigns."""
    options = _options(words)
    if os.environ.get("CI") and find_pgbouncer() is None:
        sys.stderr.write("PgBouncer is not installed; `make test-packages` brings it\n")
        return 2
    folder = Path(tempfile.mkdtemp(prefix="wakeboard-chaos-"))
    folder.chmod(0o755)  # the account that runs the server may differ from ours
    if options.upgrade:
        return _upgrade(folder, options.open, as_json=options.json)
    started = time.monotonic()
    campaigns = _campaigns(options.seed, options.faults)
    can_separate = can_mount() and (can_make_network() or not options.failover)
    on = [OWN_NAMESPACES] * can_separate + [FAILOVER] * options.failover + [ASYNCHRONOUS] * options.asynchronous
    on += [f"--only={name}" for name in options.only]
    result = CampaignRunner(folder, campaigns, options.parallel, on).run()
    result.seconds = time.monotonic() - started
    if options.parts:
        result = _with_earlier_parts(result, options.parts)
    command = _command(options, result)
    print(RESULT.dump_json(result, indent=1).decode() if options.json else summary(result, command), flush=True)
    if options.write:
        before = PAGE.read_text(encoding="utf-8")
        of_cluster = page_with_losses if options.asynchronous else page_with_failovers
        write = of_cluster if options.failover else page
        PAGE.write_text(write(result, command, before), encoding="utf-8")
        print(f"written to {PAGE}", file=sys.stderr)
    if result.violations:
        print(f"logs, faults and violations: {folder}", file=sys.stderr)
        (folder / "result.json").write_bytes(RESULT.dump_json(result, indent=1))
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def _with_earlier_parts(result: Result, parts: Path) -> Result:
    """The sum of this result and of those in `parts`, which is there from now on. Several commands may add at once."""
    with parts.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if written := parts.read_bytes():
            earlier = RESULT.validate_json(written)
            seconds = earlier.seconds + result.seconds
            earlier.add(result)
            result = earlier
            result.seconds = seconds
        parts.write_bytes(RESULT.dump_json(result, indent=1))
    return result


def _command(options: argparse.Namespace, result: Result) -> str:
    """What runs the same campaigns again. Of several parts, what runs the first one: the others have other seeds."""
    faults = result.faults // len(result.seeds) if options.parts else result.faults
    arguments = ["--asynchronous" if options.asynchronous else "--failover"] * options.failover
    arguments += [f"--only '{name}'" for name in options.only]
    arguments += ["--parts FILE"] * bool(options.parts)
    words = f' CHAOS_ARGS="{" ".join(arguments)}"' if arguments else ""
    return f"make chaos CHAOS_FAULTS={faults} CHAOS_SEED={min(result.seeds)}{words}"


def _upgrade(folder: Path, open_s: float, *, as_json: bool) -> int:
    result = UpgradeCampaign(folder, open_s).run()
    print(json.dumps(result.as_json(), indent=1) if as_json else result, flush=True)
    if result.violations:
        print(f"logs and the ledger: {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=500, metavar="N", help="number of faults (default 500)")
    parser.add_argument(
        "--seed", type=int, default=None, metavar="N", help="seed of the first campaign (default random)"
    )
    parser.add_argument("--parallel", type=int, default=4, metavar="N", help="campaigns at the same time (default 4)")
    parser.add_argument("--failover", action="store_true", help="three servers and Patroni, in place of one server")
    parser.add_argument("--asynchronous", action="store_true", help="as --failover, and no commit waits for a standby")
    parser.add_argument("--only", action="append", default=[], metavar="FAULT", help="this kind of fault; may repeat")
    parser.add_argument(
        "--parts",
        type=Path,
        metavar="FILE",
        help="add the result to those of earlier parts in FILE, and report the sum",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--upgrade", action="store_true", help="instead: upgrade from the first release, and go back")
    parser.add_argument(
        "--open", type=float, default=600, metavar="SECONDS", help="a transaction beside --upgrade (default 600)"
    )
    parser.add_argument("--write", action="store_true", help="also write docs/reliability.md, or its part on failovers")
    options = parser.parse_args(words)
    options.failover |= options.asynchronous
    if options.seed is None:
        options.seed = int.from_bytes(os.urandom(3), "big")
    return options


def _campaigns(seed: int, faults: int) -> list[tuple[int, int]]:
    """The (seed, faults) of each campaign: 2200 faults from seed 7 are (7, 1000), (8, 1000), (9, 200)."""
    whole, rest = divmod(faults, FAULTS_AT_MOST)
    sizes = [FAULTS_AT_MOST] * whole + [rest] * bool(rest)
    return [(seed + number, size) for number, size in enumerate(sizes)]


if __name__ == "__main__":
    sys.exit(main())
