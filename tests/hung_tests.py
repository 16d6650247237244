"""Ends tests that hang, so that each run ends and names them.

At its timeout pytest-timeout raises an exception in the main thread, wherever that is. Two kinds of tests need more:

- An asyncio test: the exception leaves the event loop while the test's task still waits in it, and the cleanup of its
  fixtures then waits for that task for ever. Here the task gets a timeout of its own, somewhat before that of the test.
- A test whose cleanup waits without a bound, for example for a thread that waits for a lock. A minute after its timeout
  this module writes the stacks of all threads and tasks to standard error and ends the process. pytest-xdist counts the
  test as failed and ends the run.
"""

from __future__ import annotations

import asyncio
import faulthandler
import functools
import gc
import inspect
import io
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

TASK_SHARE = 0.8  # of the timeout of an asyncio test, whose fixtures have the rest
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


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    test, timeout = pyfuncitem.obj, _timeout_s(pyfuncitem)
    if not timeout or not inspect.iscoroutinefunction(test):
        return (yield)

    @functools.wraps(test)
    async def limited(**arguments: Any) -> None:
        async with asyncio.timeout(TASK_SHARE * timeout):
            await test(**arguments)

    pyfuncitem.obj = limited
    try:
        return (yield)
    finally:
        pyfuncitem.obj = test


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
