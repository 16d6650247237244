"""Ends a test process whose test does not end after its timeout, so that each run ends and names the test.

At its timeout pytest-timeout raises an exception in the test. That does not end a test that waits in its cleanup, for a
thread that waits for a lock or for a task that ignores its cancellation. Nor does it end a test if asyncio hands the
exception to another task, which happens to run then. A minute later this module writes the stacks of all threads and
tasks to standard error and ends the process. pytest-xdist counts the test as failed and ends the run.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import io
import os
import threading
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

CLEANUP_S = 60  # for the cleanup after a timeout
EXIT_CODE = 70

_stderr = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_stderr] = os.dup(2)  # pytest replaces standard error while a test runs


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    timeout = _timeout_s(item)
    if not timeout:
        return (yield)
    timer = threading.Timer(timeout + CLEANUP_S, _end_process, (item, timeout))
    timer.daemon = True
    timer.start()
    try:
        return (yield)
    finally:
        timer.cancel()


def _timeout_s(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0] if marker else item.config.getini("timeout"))


def _end_process(item: pytest.Item, timeout: float) -> None:
    stderr = item.config.stash[_stderr]
    os.write(stderr, f"\n{item.nodeid} did not end within {CLEANUP_S} s of its timeout of {timeout:g} s.\n".encode())
    faulthandler.dump_traceback(stderr)
    os.write(stderr, _stacks_of_tasks().encode(errors="replace"))
    os._exit(EXIT_CODE)


def _stacks_of_tasks() -> str:
    stacks = io.StringIO()
    for found in gc.get_objects():
        if type(found) is asyncio.Task and not found.done():
            found.print_stack(limit=20, file=stacks)
    return stacks.getvalue()
