"""The Python worker keeps each promise that `wakeboard conformance` tests in workers of other languages.

What other languages test of their logs is planted into a copy of it: the suite finds each fault.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import wakeboard_worker
from testbed.processes import OUR_PACKAGES
from tests.conformance.planted_faults import PYTHON_FAULTS, Fault
from wakeboard.conformance.scenarios import SCENARIOS
from wakeboard.conformance.suite import chosen_scenarios

if TYPE_CHECKING:
    from wakeboard.conformance.suite import ScenarioResult, Suite

pytestmark = pytest.mark.xdist_group("conformance of the Python worker")

COMMAND = [sys.executable, "-m", "wakeboard_worker", "--forever"]


def environment(packages: str = OUR_PACKAGES) -> dict[str, str]:
    return {"WAKEBOARD_HANDLERS": "wakeboard.conformance.handlers", "PYTHONPATH": packages}


@pytest.fixture(scope="module")
def results(suite: Suite) -> dict[str, ScenarioResult]:
    return {each.scenario: each for each in suite.run(COMMAND, SCENARIOS, environment=environment())}


@pytest.mark.parametrize("name", [scenario.name for scenario in SCENARIOS])
def test_the_python_worker_conforms(name: str, results: dict[str, ScenarioResult]) -> None:
    result = results[name]
    assert result.held, "\n".join([result.promise, result.found, *result.output])


@pytest.mark.parametrize("fault", PYTHON_FAULTS, ids=[fault.name for fault in PYTHON_FAULTS])
def test_the_suite_finds_the_fault(suite: Suite, tmp_path: Path, fault: Fault) -> None:
    copy = shutil.copytree(Path(wakeboard_worker.__file__).parent, tmp_path / "wakeboard_worker")
    file = copy / f"{fault.file}.py"
    file.write_text(fault.planted(file.read_text(encoding="utf-8")), encoding="utf-8")
    planted = environment(f"{tmp_path}:{OUR_PACKAGES}")
    (result,) = suite.run(COMMAND, chosen_scenarios([fault.scenario]), environment=planted, patience_s=12)
    assert not result.held
    assert fault.found in result.found
