"""The worker's command line and exit code.

0: the worker has run, even if runs failed. 1: it could not run, or it exited early because of handlers that did not
stop or that kept their run locked. The log contains the reason.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import sys
from typing import TYPE_CHECKING

from wakeboard.errors import WakeboardError
from wakeboard.process.output import write_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard_worker.signals import StopSignal

_DESCRIPTION = """
Claims due runs, calls their handlers, reports the outcomes, and exits. All other settings are WAKEBOARD_* variables.
"""


def parse_stay_s(arguments: Sequence[str] | None = None) -> float:
    """Parse the command line. Returns the minimum time in seconds for which the worker stays, even if nothing is due.

    0: it exits as soon as nothing is due. inf: it stays until SIGTERM. A usage error ends the process with code 2.
    """
    parser = argparse.ArgumentParser(prog="python -m wakeboard_worker", description=_DESCRIPTION)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--drain", action="store_true", help="exit when nothing is due (the default)")
    choice.add_argument("--linger", type=float, metavar="SECONDS", default=0.0, help="stay for at least this long")
    choice.add_argument("--forever", action="store_true", help="stay until SIGTERM")
    options = parser.parse_args(arguments)
    return math.inf if options.forever else options.linger


def main(stop_signal: StopSignal, arguments: Sequence[str] | None = None) -> None:
    """Run a worker and end the process."""
    stay_s = parse_stay_s(arguments)
    code = 1
    gc.disable()  # imports create no garbage, and to look for some takes 5 % of an idle wake
    try:
        from wakeboard.settings import read_settings, unknown_settings
        from wakeboard_worker.logs import log, start_logging

        settings = read_settings()
        start_logging(settings, stays=math.isinf(stay_s))
        for sentence in unknown_settings(os.environ):
            log.warning("%s", sentence)
        import asyncio

        from wakeboard_worker.worker import run_worker

        # Runs are many small, short-lived objects. With the default thresholds the collector costs 6 %.
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()

        # Not asyncio.run: it waits for all tasks at its end, and so for handlers that do not stop.
        code = asyncio.Runner().run(run_worker(settings, stay_s, stop_signal))
    except WakeboardError as error:
        if os.environ.get("WAKEBOARD_DEBUG"):
            raise
        write_error("wakeboard worker", error.with_hint)
    except Exception:  # noqa: BLE001 - the interpreter would wait for threads that do not end
        sys.excepthook(*sys.exc_info())  # pyright: ignore[reportArgumentType]  an exception is being handled
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)  # skips the interpreter's shutdown, which takes 50 ms; all connections are closed
