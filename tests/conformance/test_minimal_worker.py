"""The minimal worker of docs/workers-in-any-language.md keeps the promises that need no long wait."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from testbed.processes import ROOT
from wakeboard.conformance.suite import chosen_scenarios

if TYPE_CHECKING:
    from wakeboard.conformance.suite import ScenarioResult, Suite

pytestmark = pytest.mark.xdist_group("conformance of the minimal worker")
WORKER = ROOT / "examples" / "minimal_worker" / "conformance.py"
# Each of its mechanisms once: the others wait for leases to expire, or repeat what these do.
NAMES = [
    *("retry", "delays", "steps", "effects", "once", "effects-forever", "schedule", "tick", "timeout", "cancel"),
    *(
        "foreign-types",
        "limits",
        "poison",
        "stalled-claim",
        "lost-reply",
        "forgetful-server",
        "restored-server",
        "sigterm",
    ),
]


@pytest.fixture(scope="module")
def results(suite: Suite) -> dict[str, ScenarioResult]:
    found = suite.run([sys.executable, str(WORKER)], chosen_scenarios(NAMES))
    return {result.scenario: result for result in found}


@pytest.mark.parametrize("name", NAMES)
def test_the_minimal_worker_conforms(name: str, results: dict[str, ScenarioResult]) -> None:
    result = results[name]
    assert result.held, "\n".join([result.promise, result.found, *result.output])
