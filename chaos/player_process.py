"""Plays campaigns side by side, each in a process of its own, and shows how far they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from chaos.disk import OWN_MOUNTS
from chaos.processes import PROJECT
from chaos.results import UNDONE, Result, Violation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

KEPT_WORDS: Final = 3000  # characters of what a broken campaign said


class Playing:
    """Campaigns given as (seed, faults). `small_disk`: each has mounts of its own."""

    def __init__(
        self, folder: Path, campaigns: Sequence[tuple[int, int]], side_by_side: int, *, small_disk: bool
    ) -> None:
        self._folder, self._campaigns, self._side_by_side = folder, campaigns, side_by_side
        self._small_disk = small_disk
        self._done: dict[int, int] = {}
        self._began = time.monotonic()
        self._showing = threading.Lock()

    def play(self) -> Result:
        """Plays all of them; their results in one."""
        total = Result()
        with ThreadPoolExecutor(self._side_by_side) as pool:
            for result in pool.map(self._play_one, self._campaigns):
                total.add(result)
        self._show(end=True)
        return total

    def _play_one(self, campaign: tuple[int, int]) -> Result:
        seed, faults = campaign
        folder = self._folder / f"seed-{seed}"
        folder.mkdir()
        folder.chmod(0o755)
        command = [sys.executable, "-m", "chaos.campaign", "--seed", str(seed), "--faults", str(faults)]
        command += ["--folder", str(folder)]
        if self._small_disk:
            command = [*OWN_MOUNTS, *command, "--small-disk"]
        words = [str(PROJECT), str(PROJECT / "worker"), str(PROJECT / "operator")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(words)}
        with (folder / "said").open("wb") as said:
            process = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, stderr=said)
            result = self._listen(seed, process)
        if result is None:
            words_said = (folder / "said").read_text(errors="replace")[-KEPT_WORDS:]
            broken = Violation("other", UNDONE, f"seed {seed} ended: {words_said}")
            return Result(seeds=[seed], faults=faults, violations=[broken])
        result.violations = [
            Violation(one.sort, one.promise, f"seed {seed} of {faults}: {one.detail}") for one in result.violations
        ]
        return result

    def _listen(self, seed: int, process: subprocess.Popen[bytes]) -> Result | None:
        """What it says; None if it ended without a result."""
        result = None
        assert process.stdout is not None
        for line in process.stdout:
            said: dict[str, Any] = json.loads(line)
            if "result" in said:
                result = Result.from_json(said["result"])
            elif "done" in said:
                self._done[seed] = said["done"]
                self._show()
        process.wait()
        return result

    def _show(self, *, end: bool = False) -> None:
        if not sys.stderr.isatty():
            return
        with self._showing:
            done, all_of_them = sum(self._done.values()), sum(faults for _, faults in self._campaigns)
            seconds = time.monotonic() - self._began
            line = f"{done} of {all_of_them} faults, {done / max(seconds, 0.1):.1f} a second, {seconds:.0f} s"
            sys.stderr.write("\r" + line.ljust(70) + ("\n" if end else ""))
            sys.stderr.flush()
