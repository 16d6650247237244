"""What a scenario is: one promise of a worker, and the function that tests it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from wakeboard.conformance.harness import Harness

SLACK_S: Final = 10.0  # what a busy machine may add to a duration that is checked


@dataclass(frozen=True, slots=True)
class Scenario:
    """One promise, and the function that tests it. `why`: what goes wrong in production if it is not kept."""

    name: str
    promise: str
    why: str
    test: Callable[[Harness], None]


def registration(
    scenarios: list[Scenario],
) -> Callable[[str, str], Callable[[Callable[[Harness], None]], Callable[[Harness], None]]]:
    """A decorator that adds a scenario, under the name of its function."""

    def scenario(promise: str, why: str) -> Callable[[Callable[[Harness], None]], Callable[[Harness], None]]:
        def register(test: Callable[[Harness], None]) -> Callable[[Harness], None]:
            scenarios.append(Scenario(test.__name__.replace("_", "-"), promise, why, test))
            return test

        return register

    return scenario
