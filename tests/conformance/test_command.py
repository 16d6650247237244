"""`wakeboard conformance`: its report, its exit code, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from testbed.processes import OUR_PACKAGES, inherited_environment


def conformance(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **inherited_environment(),
        "PYTHONPATH": OUR_PACKAGES,
        "WAKEBOARD_HANDLERS": "wakeboard.conformance.handlers",
    }
    command = [sys.executable, "-c", "import sys; from wakeboard.cli import main; sys.exit(main())", "conformance"]
    return subprocess.run([*command, *words], env=environment, capture_output=True, text=True, timeout=100, check=False)


def test_it_reports_what_held_and_what_did_not():
    answer = conformance("--json", "--only", "result", "--", sys.executable, "-m", "wakeboard_worker", "--forever")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    (result,) = json.loads(answer.stdout)
    assert (result["scenario"], result["held"], result["found"]) == ("result", True, "")

    answer = conformance("--only", "result", "--", sys.executable, "-c", "print('no such table')")
    assert answer.returncode == 1, answer.stderr
    assert "the worker ended with exit code 0, before SIGTERM" in answer.stdout
    assert "| no such table" in answer.stdout
    assert "0 of 1 scenarios held." in answer.stdout


def test_a_program_or_a_scenario_that_does_not_exist_is_refused_before_anything_starts():
    missing = conformance("--", os.devnull + "/worker")
    assert missing.returncode == 1
    assert "there is no program" in missing.stderr
    unknown = conformance("--only", "resullt", "--", sys.executable)
    assert unknown.returncode == 2
    assert "there is no scenario 'resullt'" in unknown.stderr
