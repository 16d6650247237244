"""The worker's command line, and the exit code of a wake.

0: the wake worked, whatever became of its runs. 1: it could not work, and one sentence says why.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wakeboard.errors import WakeboardError
from wakeboard.output import write_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard_worker.signals import StopSignal

_DESCRIPTION = """
One wake: claim what is due, run it, record the outcomes, and go. Everything else is set by WAKEBOARD_* variables.
"""


@dataclass(frozen=True, slots=True)
class Mode:
    """How long a worker stays: `forever`, or at least `linger_s` seconds, or (0) until nothing is due."""

    forever: bool = False
    linger_s: float = 0.0

    @property
    def drains(self) -> bool:
        """Whether it goes by itself."""
        return not self.forever


def parse_mode(words: Sequence[str] | None = None) -> Mode:
    """The mode that the command line asks for; a usage error ends the process with 2."""
    parser = argparse.ArgumentParser(prog="python -m wakeboard_worker", description=_DESCRIPTION)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--drain", action="store_true", help="go when nothing is due (this is what happens anyway)")
    choice.add_argument("--linger", type=float, metavar="SECONDS", default=0.0, help="stay for at least so long")
    choice.add_argument("--forever", action="store_true", help="stay until SIGTERM")
    given = parser.parse_args(words)
    return Mode(given.forever, given.linger)


def main(stopping: StopSignal, words: Sequence[str] | None = None) -> None:
    """Runs one wake and ends the process."""
    mode = parse_mode(words)
    code = 1
    try:
        from wakeboard.settings import read_settings, unknown_settings
        from wakeboard_worker.logs import log, start_logging

        settings = read_settings()
        start_logging(settings)
        for sentence in unknown_settings(os.environ):
            log.warning("%s", sentence)
        from wakeboard_worker.worker import wake

        # Runs are many small objects with a short life: the collector's default finds work too often (MEASURED: 6 %).
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        import asyncio

        # Not asyncio.run: at its end it waits for every task, and so for a handler that does not stop.
        code = asyncio.Runner().run(wake(settings, mode, stopping))
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
