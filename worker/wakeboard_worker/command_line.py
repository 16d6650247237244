"""The worker's command line, and the exit code of a wake.

0: the wake worked, whatever became of its runs. 1: it could not work, and one sentence says why.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import sys
from typing import TYPE_CHECKING

from wakeboard.errors import WakeboardError
from wakeboard.output import write_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard_worker.signals import StopSignal

_DESCRIPTION = """
One wake: claim what is due, run it, record the outcomes, and go. Everything else is set by WAKEBOARD_* variables.
"""


def parse_stay_s(words: Sequence[str] | None = None) -> float:
    """Reads from the command line for how many seconds the worker stays without due runs.

    0: it exits as soon as nothing is due. inf: until SIGTERM. A usage error ends the process with exit code 2.
    """
    parser = argparse.ArgumentParser(prog="python -m wakeboard_worker", description=_DESCRIPTION)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--drain", action="store_true", help="go when nothing is due (this is what happens anyway)")
    choice.add_argument("--linger", type=float, metavar="SECONDS", default=0.0, help="stay for at least so long")
    choice.add_argument("--forever", action="store_true", help="stay until SIGTERM")
    options = parser.parse_args(words)
    return math.inf if options.forever else options.linger


def main(stopping: StopSignal, words: Sequence[str] | None = None) -> None:
    """Runs one wake and ends the process."""
    stay_s = parse_stay_s(words)
    code = 1
    try:
        from wakeboard.settings import read_settings, unknown_settings
        from wakeboard_worker.logs import log, start_logging

        settings = read_settings()
        start_logging(settings)
        for sentence in unknown_settings(os.environ):
            log.warning("%s", sentence)
        from wakeboard_worker.worker import run_worker

        # Runs are many small objects with a short life: the collector's default finds work too often (MEASURED: 6 %).
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        import asyncio

        # Not asyncio.run: at its end it waits for every task, and so for a handler that does not stop.
        code = asyncio.Runner().run(run_worker(settings, stay_s, stopping))
    except WakeboardError as error:
        if os.environ.get("WAKEBOARD_DEBUG"):
            raise
        write_error("wakeboard worker", str(error))
    except Exception:  # noqa: BLE001 - the interpreter would show it, too, and then wait for threads that never end
        sys.excepthook(*sys.exc_info())  # pyright: ignore[reportArgumentType]  there is one here
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)  # everything is closed; the interpreter's own farewell takes 50 ms
