"""What a worker must do: one scenario for each promise, the same for workers in every language.

A scenario enqueues runs, starts the worker, injects a fault, and raises Violated if the worker broke the promise.
`why` says what goes wrong in production with a worker that does not keep it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wakeboard.conformance.scenarios.claims import CLAIMS
from wakeboard.conformance.scenarios.effects import EFFECTS
from wakeboard.conformance.scenarios.failover import FAILOVER
from wakeboard.conformance.scenarios.faults import FAULTS
from wakeboard.conformance.scenarios.leases import LEASES
from wakeboard.conformance.scenarios.logs import LOGS
from wakeboard.conformance.scenarios.outcomes import OUTCOMES
from wakeboard.conformance.scenarios.schedules import SCHEDULES

if TYPE_CHECKING:
    from wakeboard.conformance.scenario import Scenario

SCENARIOS: Final[list[Scenario]] = [*CLAIMS, *OUTCOMES, *EFFECTS, *LEASES, *FAULTS, *FAILOVER, *SCHEDULES, *LOGS]
