"""An outage of the database gives few log lines for all parts of a process."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest

from wakeboard.errors import DatabaseUnavailable
from wakeboard.process.failure_log import Outages

GONE = DatabaseUnavailable("Connection refused.")


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def outages(clock: Clock, caplog: pytest.LogCaptureFixture) -> Outages:
    caplog.set_level(logging.INFO)
    return Outages(logging.getLogger("test"), clock)


def test_an_outage_is_logged_at_its_start_and_its_end(
    outages: Outages, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(150):
        outages.lost("claims", GONE)
        outages.lost("heartbeat", GONE)
        clock.now += 1
    outages.recovered("claims")
    outages.recovered("heartbeat")
    assert caplog.messages == [
        "waiting for the database (claims): Connection refused.",
        "waiting for 60 s for the database (claims): Connection refused.",
        "waiting for 120 s for the database (claims): Connection refused.",
        "the database answers again, after 150.0 s",
    ]


def test_the_line_of_an_outage_says_what_to_do(outages: Outages, caplog: pytest.LogCaptureFixture) -> None:
    full = DatabaseUnavailable("could not extend file x: No space left on device")
    full.hint = "Free space on that disk."
    outages.lost("claims", full)
    assert caplog.messages[0].endswith(
        "(claims): could not extend file x: No space left on device. Free space on that disk."
    )


def test_an_outage_ends_when_every_part_has_an_answer(
    outages: Outages, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    outages.lost("claims", GONE)
    outages.lost("outcomes", GONE)
    outages.recovered("heartbeat")
    outages.recovered("claims")
    assert len(caplog.messages) == 1
    clock.now += 2
    outages.recovered("outcomes")
    assert caplog.messages[1:] == ["the database answers again, after 2.0 s"]


def test_a_part_that_gave_up_does_not_prolong_the_outage(outages: Outages, caplog: pytest.LogCaptureFixture) -> None:
    outages.lost("claims", GONE)
    outages.lost("outcomes", GONE)
    outages.remove("outcomes")
    outages.recovered("claims")
    assert caplog.messages[-1].startswith("the database answers again")


def test_a_connection_that_breaks_again_and_again_makes_one_line_a_minute(
    outages: Outages, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(60):
        outages.lost("claims", GONE)
        clock.now += 1
        outages.recovered("claims")
        clock.now += 1
    assert len([line for line in caplog.messages if line.startswith("waiting")]) == 2


def test_a_second_outage_is_logged_at_once(outages: Outages, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        outages.lost("claims", GONE)
        clock.now += 1
        outages.recovered("claims")
        clock.now += 10
    assert len(caplog.messages) == 4


def test_an_outage_soon_after_another_one_has_lines_of_its_own(
    outages: Outages, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for error in (GONE, DatabaseUnavailable("role is not permitted to log in.")):
        for _ in range(10):
            outages.lost("claims", error)
            clock.now += 1
        outages.recovered("claims")
        clock.now += 1.5
    assert caplog.messages == [
        "waiting for the database (claims): Connection refused.",
        "the database answers again, after 10.0 s",
        "waiting for the database (claims): role is not permitted to log in.",
        "the database answers again, after 10.0 s",
    ]
