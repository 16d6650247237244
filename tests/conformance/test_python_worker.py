"""The Python worker keeps each promise that `wakeboard conformance` tests in workers of other languages."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from testbed.processes import OUR_PACKAGES
from wakeboard.conformance.scenarios import SCENARIOS

if TYPE_CHECKING:
    from wakeboard.conformance.suite import ScenarioResult, Suite

pytestmark = pytest.mark.xdist_group("conformance of the Python worker")


@pytest.fixture(scope="module")
def results(suite: Suite) -> dict[str, ScenarioResult]:
    command = [sys.executable, "-m", "wakeboard_worker", "--forever"]
    environment = {"WAKEBOARD_HANDLERS": "wakeboard.conformance.handlers", "PYTHONPATH": OUR_PACKAGES}
    return {each.scenario: each for each in suite.run(command, SCENARIOS, environment=environment)}


@pytest.mark.parametrize("name", [scenario.name for scenario in SCENARIOS])
def test_the_python_worker_conforms(name: str, results: dict[str, ScenarioResult]) -> None:
    result = results[name]
    assert result.held, "\n".join([result.promise, result.found, *result.output])
