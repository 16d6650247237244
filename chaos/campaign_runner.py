"""Runs campaigns in parallel, each in a process of its own, and shows their progress."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from chaos.disk import OWN_MOUNTS
from chaos.results import RESULT, UNDONE, Result, Violation
from testbed.processes import OUR_PACKAGES, ROOT
from testbed.server_network import OWN_NETWORK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

OWN_NAMESPACES: Final = "--own-namespaces"  # of mounts and, with several servers, of the network
FAILOVER: Final = "--failover"
ASYNCHRONOUS: Final = "--asynchronous"  # with FAILOVER
KEPT_OUTPUT: Final = 3000  # characters of a campaign that failed


class CampaignRunner:
    """Campaigns given as (seed, faults), with these options. OWN_NAMESPACES gives each its own."""

    def __init__(
        self, folder: Path, campaigns: Sequence[tuple[int, int]], parallel: int, options: Sequence[str]
    ) -> None:
        self._folder, self._campaigns, self._parallel = folder, campaigns, parallel
        self._options = options
        self._done: dict[int, int] = {}
        self._started = time.monotonic()
        self._lock = threading.Lock()

    def run(self) -> Result:
        """Runs all of them. Returns the sum of their results."""
        total = Result()
        with ThreadPoolExecutor(self._parallel) as pool:
            for result in pool.map(self._run_one, self._campaigns):
                total.add(result)
        self._show_progress(end=True)
        return total

    def _run_one(self, campaign: tuple[int, int]) -> Result:
        seed, faults = campaign
        folder = self._folder / f"seed-{seed}"
        folder.mkdir()
        folder.chmod(0o755)
        command = [sys.executable, "-m", "chaos.campaign", "--seed", str(seed), "--faults", str(faults)]
        command += ["--folder", str(folder), *self._options]
        if OWN_NAMESPACES in self._options:
            command = [*OWN_MOUNTS, *(OWN_NETWORK if FAILOVER in self._options else []), *command]
        environment = {**os.environ, "PYTHONPATH": OUR_PACKAGES}
        with (folder / "stderr").open("wb") as stderr:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=stderr)
            result = self._read(seed, process)
        if result is None:
            output = (folder / "stderr").read_text(errors="replace")[-KEPT_OUTPUT:]
            failed = Violation("other", UNDONE, f"seed {seed} ended: {output}")
            return Result(seeds=[seed], faults=faults, violations=[failed])
        result.violations = [replace(one, detail=f"seed {seed} of {faults}: {one.detail}") for one in result.violations]
        return result

    def _read(self, seed: int, process: subprocess.Popen[bytes]) -> Result | None:
        """Reads the messages of a campaign. Returns None if it ended without a result."""
        result = None
        assert process.stdout is not None
        for line in process.stdout:
            message: dict[str, Any] = json.loads(line)
            if "result" in message:
                result = RESULT.validate_python(message["result"])
            elif "done" in message:
                self._done[seed] = message["done"]
                self._show_progress()
        process.wait()
        return result

    def _show_progress(self, *, end: bool = False) -> None:
        if not sys.stderr.isatty():
            return
        with self._lock:
            done, total = sum(self._done.values()), sum(faults for _, faults in self._campaigns)
            seconds = time.monotonic() - self._started
            line = f"{done} of {total} faults, {done / max(seconds, 0.1):.1f} per second, {seconds:.0f} s"
            sys.stderr.write("\r" + line.ljust(70) + ("\n" if end else ""))
            sys.stderr.flush()
