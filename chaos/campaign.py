"""One campaign: the stage is put up, the script is played, everything drains, and what is in the tables is checked.

Run as a process of its own (`python -m chaos.campaign`): it prints how far it is, line by line, and its result as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg

from chaos.applications import LIMITS, Applications, Told
from chaos.checker import check, describe
from chaos.draining import drain, try_every_worker
from chaos.endings import judge_endings
from chaos.environment import Stage
from chaos.faults.catalogue import BY_NAME
from chaos.plan import Strike, write_script
from chaos.recovery import measured
from chaos.results import UNDONE, Result, Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.faults.fault import Struck

CURTAIN_S: Final = 2.0  # of peace before the first fault
STRIKES_AT_ONCE: Final = 24
SAMPLE_EVERY_S: Final = 0.1


class Campaign:
    """Plays the script that `seed` writes, on a stage in `folder`."""

    def __init__(self, seed: int, faults: int, folder: Path, *, on_small_disk: bool, rate: float) -> None:
        self.script = write_script(seed, faults)
        self.result = Result(seeds=[seed], faults=faults)
        self.stage = Stage(folder, on_small_disk=on_small_disk)
        self.told = Told()
        self._rate = rate
        self._over = threading.Event()
        self._noting = threading.Lock()

    def play(self) -> Result:
        """Plays it, in the main thread."""
        began = time.monotonic()
        try:
            self.stage.put_up()
            self.result.about = self._about()
            director = threading.Thread(target=self._direct, name="director", daemon=True)
            director.start()
            self.stage.serve()
            director.join()
        finally:
            self.stage.take_down()
        self.result.violations += judge_endings(self.stage.cast.ended, self.result)
        self.result.seconds = time.monotonic() - began
        return self.result

    def _about(self) -> str:
        version = self.stage.ask("show server_version")[0][0].split()[0]
        return f"PostgreSQL {version}; beside this release: {self.stage.other_release}"

    def _direct(self) -> None:
        try:
            self._play_script()
        except BaseException:  # noqa: BLE001 - whatever it is, the campaign did not prove what it should
            self._fail(traceback.format_exc())
        finally:
            self._over.set()
            self.stage.end_serving()

    def _play_script(self) -> None:
        stage = self.stage
        applications = Applications(
            stage.dsn_through(stage.direct, "chaos_app"),
            stage.dsn_through(stage.direct, "postgres"),
            self.told,
            self._rate,
        )
        sampler = threading.Thread(target=self._sample_limits, name="sampler", daemon=True)
        applications.start()
        sampler.start()
        time.sleep(CURTAIN_S)
        self._play_beside([strike for strike in self.script if strike.at_s is not None])
        stage.bring_up()
        for strike in self.script:
            if strike.at_s is None:
                self._strike_alone(strike)
        applications.stop()
        stage.bring_up()
        self._finish()

    def _play_beside(self, strikes: Sequence[Strike]) -> None:
        curtain = time.monotonic()
        with ThreadPoolExecutor(STRIKES_AT_ONCE, thread_name_prefix="strike") as pool:
            for strike in strikes:
                time.sleep(max(0.0, curtain + (strike.at_s or 0.0) - time.monotonic()))
                pool.submit(self._strike, strike)

    def _strike_alone(self, strike: Strike) -> None:
        time.sleep(0.3)
        recoveries = measured(self.stage, strike.kind, lambda: self._strike(strike))[1]
        if recoveries.serves is not None:
            self.result.recoveries.append(recoveries)

    def _strike(self, strike: Strike) -> Struck | None:
        kind = BY_NAME[strike.kind]
        struck = None
        try:
            if not self._can(kind.needs):
                self._note(self.result.left_out, strike)
                return None
            began = time.time()
            struck = kind().strike(self.stage, strike.draw)
            self._note(self.result.struck if struck else self.result.missed, strike)
            with (self.stage.logs / "strikes.log").open("a") as log:
                log.write(f"{began:.3f} {time.time():.3f} {strike.number} {strike.kind}: {struck}\n")
        except Exception:  # noqa: BLE001 - a fault that could not be done is told at the end
            self._fail(f"fault {strike.number}, {strike.kind}:\n{traceback.format_exc()}")
        return struck

    def _can(self, needs: str) -> bool:
        return {"disk": self.stage.disk, "pooler": self.stage.pooler, "": True}[needs] is not None

    def _note(self, counter: Any, strike: Strike) -> None:
        with self._noting:
            counter[strike.kind] += 1
            done = sum((self.result.struck + self.result.missed + self.result.left_out).values())
        _say({"done": done, "kind": strike.kind})

    def _fail(self, what: str) -> None:
        self.result.violations.append(Violation("other", UNDONE, what[-3000:]))

    def _finish(self) -> None:
        """Everything drains; every worker works; nothing more is done; what is there is checked."""
        _say({"phase": "draining"})
        stage, result = self.stage, self.result
        drained_s, stuck = drain(stage, self.told)
        result.drained_s.append(round(drained_s, 1))
        result.violations += stuck
        result.violations += try_every_worker(stage)
        stage.cast.stop()
        self._over.set()
        with stage.watch() as conn:
            result.violations += check(conn, self.told)
            describe(conn, result)
        result.counts["acknowledged enqueues"] += len(self.told.acknowledged)
        result.counts["enqueues without an answer"] += len(self.told.unsure - self.told.acknowledged.keys())
        result.counts["server starts"] += stage.server.starts

    def _sample_limits(self) -> None:
        query = "select limit_key, count(*) from wakeboard.job_runs where holds_slot group by 1"
        while not self._over.wait(SAMPLE_EVERY_S):
            try:
                with self.stage.watch() as conn:
                    while not self._over.wait(SAMPLE_EVERY_S):
                        self.result.counts["samples of the limits"] += 1
                        for key, count in conn.execute(query).fetchall():
                            if count > LIMITS.get(key, 1):
                                self.result.violations.append(
                                    Violation("other", "limits are never exceeded", f"sampled {key}: {count}")
                                )
            except psycopg.Error:
                continue


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Plays one campaign; the last line is its result."""
    parser = argparse.ArgumentParser(prog="python -m chaos.campaign")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--faults", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--small-disk", action="store_true")
    parser.add_argument("--rate", type=float, default=50.0)
    given = parser.parse_args()
    campaign = Campaign(given.seed, given.faults, given.folder, on_small_disk=given.small_disk, rate=given.rate)
    _say({"result": campaign.play().to_json()})


if __name__ == "__main__":
    main()
