"""Each run of the tests ends, whatever a test waits for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.hung_tests import EXIT_CODE

ROOT = Path(__file__).parents[2]
HANGS_IN_ITS_CLEANUP = """
import asyncio
from tests import hung_tests

hung_tests.CLEANUP_S = 0.5

async def waits():
    await asyncio.sleep(60)

def test_that_hangs_in_its_cleanup():
    with asyncio.Runner() as runner:
        try:
            runner.run(waits())
        finally:
            runner.run(waits())
"""
WAITS_IN_A_TASK = """
import asyncio
import pytest
from tests import hung_tests

hung_tests.TASK_SHARE = 0.02

@pytest.fixture
async def opened():
    yield
    await asyncio.sleep(0)

@pytest.mark.anyio
async def test_that_waits_for_ever(opened):
    while True:
        await asyncio.sleep(0.01)

@pytest.mark.anyio
async def test_that_passes(opened):
    pass
"""


def run(folder: Path, tests: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text(f"[pytest]\ntimeout = {timeout_s}\n")
    (folder / "test_hangs.py").write_text(tests)
    words = ("-p", "tests.hung_tests", "-c", str(folder / "pytest.ini"), str(folder / "test_hangs.py"))
    command = [sys.executable, "-m", "pytest", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def test_a_test_that_ignores_its_timeout_ends_its_process_with_the_stacks(tmp_path: Path) -> None:
    ended = run(tmp_path, HANGS_IN_ITS_CLEANUP, timeout_s=1)
    assert ended.returncode == EXIT_CODE, ended.stdout
    assert "test_that_hangs_in_its_cleanup did not end within 0.5 s of its timeout of 1 s." in ended.stderr
    assert 'test_hangs.py", line 15 in test_that_hangs_in_its_cleanup' in ended.stderr
    assert 'test_hangs.py", line 8, in waits' in ended.stderr  # the stack of the task


def test_an_asyncio_test_that_waits_for_ever_fails_and_the_next_one_runs(tmp_path: Path) -> None:
    ended = run(tmp_path, WAITS_IN_A_TASK, timeout_s=50)
    assert "raise TimeoutError" in ended.stdout, ended.stderr
    assert "1 failed, 1 passed" in ended.stdout
