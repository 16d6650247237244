"""Which schedules belong to another installation, and when their statuses may be written."""

from __future__ import annotations

from wakeboard_operator.event_budget import BURST, REFILL_INTERVAL_S, EventBudget
from wakeboard_operator.ownership import RECHECK_S, REPAIR_TIMEOUT_S, OtherInstallations

A, B = ("billing", "a"), ("billing", "b")


def test_one_schedule_of_another_installation_is_asked_for_all() -> None:
    others = OtherInstallations()
    assert others.probe_wait_s("x", A, 100.0) == 0
    assert others.probe_wait_s("x", B, 101.0) == REPAIR_TIMEOUT_S - 1
    assert others.probe_wait_s("x", B, 100.0 + REPAIR_TIMEOUT_S) == 0, "the other installation does not answer"
    assert not others.answers("x")
    assert others.is_silent("x", 100.0 + REPAIR_TIMEOUT_S)


def test_an_installation_is_not_silent_before_it_had_the_time_to_answer() -> None:
    others = OtherInstallations()
    assert not others.is_silent("x", 100.0), "it was not asked"
    others.probe_wait_s("x", A, 100.0)
    assert not others.is_silent("x", 100.0 + REPAIR_TIMEOUT_S - 1)
    others.record_repair("x", 101.0)
    assert not others.is_silent("x", 100.0 + REPAIR_TIMEOUT_S)
    others.probe_wait_s("x", A, 101.0 + RECHECK_S)
    assert not others.is_silent("x", 102.0 + RECHECK_S), "it is asked again"


def test_an_installation_that_answers_is_left_alone_for_an_hour() -> None:
    others = OtherInstallations()
    assert others.probe_wait_s("x", A, 100.0) == 0
    others.record_repair("x", 101.0)
    assert others.answers("x")
    assert others.probe_wait_s("x", A, 102.0) == others.probe_wait_s("x", B, 102.0) == RECHECK_S - 1
    assert others.probe_wait_s("x", B, 101.0 + RECHECK_S) == 0, "asked again"
    assert others.probe_wait_s("x", A, 101.0 + RECHECK_S) == REPAIR_TIMEOUT_S


def test_an_object_has_few_events_after_a_burst() -> None:
    budget = EventBudget(0.0)
    assert sum(budget.spend(1.0) for _ in range(221)) == BURST
    assert not budget.spend(100.0)
    assert budget.spend(1.0 + REFILL_INTERVAL_S)
    assert not budget.spend(2.0 + REFILL_INTERVAL_S)
