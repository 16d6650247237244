"""The Go worker keeps each promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testbed.clients import go_worker
from wakeboard.conformance.scenarios import SCENARIOS

if TYPE_CHECKING:
    from wakeboard.conformance.suite import Suite, Verdict

pytestmark = pytest.mark.xdist_group("conformance of the Go worker")


@pytest.fixture(scope="module")
def verdicts(suite: Suite) -> dict[str, Verdict]:
    return {verdict.scenario: verdict for verdict in suite.verdicts([str(go_worker())], SCENARIOS)}


@pytest.mark.parametrize("name", [scenario.name for scenario in SCENARIOS])
def test_the_go_worker_conforms(name: str, verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts[name]
    assert verdict.held, "\n".join([verdict.promise, verdict.found, *verdict.output])
