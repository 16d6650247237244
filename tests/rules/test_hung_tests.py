from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.hung_tests import EXIT_CODE

ROOT = Path(__file__).parents[2]
HANGS = """
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


def test_a_test_that_ignores_its_timeout_ends_its_process_with_the_stacks(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 1\n")
    file = tmp_path / "test_hangs.py"
    file.write_text(HANGS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.hung_tests", "-c", str(tmp_path / "pytest.ini"), str(file)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == EXIT_CODE, ended.stdout
    assert "test_that_hangs_in_its_cleanup did not end within 0.5 s of its timeout of 1 s." in ended.stderr
    assert f'{file}", line 15 in test_that_hangs_in_its_cleanup' in ended.stderr
    assert f'{file}", line 8, in waits' in ended.stderr  # the stack of the task
