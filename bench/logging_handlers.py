"""Handlers that print and log, for measured workers."""

from __future__ import annotations

import logging
import time
from typing import Final

import wakeboard
from bench.handler_reports import report

TICKS_PER_S: Final = 100
LINES: Final = 100  # of a tick
WORK: Final = 400  # rounds of a loop that belong to each line
_nowhere: Final = logging.getLogger("nowhere")
_nowhere.addHandler(logging.NullHandler())
_nowhere.setLevel(logging.INFO)
_nowhere.propagate = False


@wakeboard.handler("print_a_line")
async def print_a_line(run: wakeboard.Run) -> None:
    """One line."""
    report(run)
    print(f"the order {run.id} is paid")


@wakeboard.handler("log_to_nothing")
async def log_to_nothing(run: wakeboard.Run) -> None:
    """A call of `logging` whose record goes nowhere."""
    report(run)
    _nowhere.info("the order %s is paid", run.id)


@wakeboard.handler("print_much")
def print_much(run: wakeboard.Run) -> dict[str, float]:
    """10,000 lines a second, with some work for each. Returns how long all of it took, and the CPU time."""
    began, worked = time.perf_counter(), 0.0
    for tick in range(run.payload["seconds"] * TICKS_PER_S):
        begins_at = began + tick / TICKS_PER_S
        time.sleep(max(0.0, begins_at - time.perf_counter()))
        now = time.thread_time()
        for line in range(LINES):
            sum(range(WORK))
            print(f"tick {tick}: the order {line} of customer {line * 7919 % 1000} is paid, and its receipt is sent")
        worked += time.thread_time() - now
    return {"seconds": time.perf_counter() - began, "worked": worked}


@wakeboard.handler("print_at_times")
def print_at_times(run: wakeboard.Run) -> None:
    """A line at irregular times, as of a usual handler."""
    for number in range(run.payload["lines"]):
        time.sleep(0.05 + 0.013 * (number % 11))
        print(f"line {number}")
