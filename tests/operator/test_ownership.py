"""Which schedules belong to another installation, and when their statuses may be written."""

from __future__ import annotations

from wakeboard_operator.event_budget import BURST, ONE_MORE_EVERY_S, EventBudget
from wakeboard_operator.ownership import ANSWER_WITHIN_S, ASK_AGAIN_S, Others

A, B = ("billing", "a"), ("billing", "b")


def test_one_schedule_of_another_installation_is_asked_and_the_others_wait_for_the_answer() -> None:
    others = Others()
    assert others.wait_s("x", A, 100.0) == 0
    assert others.wait_s("x", B, 101.0) == ANSWER_WITHIN_S - 1
    assert others.wait_s("x", B, 100.0 + ANSWER_WITHIN_S) == 0, "nobody answers"
    assert not others.answers("x")
    assert others.is_silent("x", 100.0 + ANSWER_WITHIN_S)


def test_an_installation_is_not_silent_before_it_had_the_time_to_answer() -> None:
    others = Others()
    assert not others.is_silent("x", 100.0), "it was not asked"
    others.wait_s("x", A, 100.0)
    assert not others.is_silent("x", 100.0 + ANSWER_WITHIN_S - 1)
    others.has_answered("x", 101.0)
    assert not others.is_silent("x", 100.0 + ANSWER_WITHIN_S)
    others.wait_s("x", A, 101.0 + ASK_AGAIN_S)
    assert not others.is_silent("x", 102.0 + ASK_AGAIN_S), "it is asked again"


def test_an_installation_that_answers_is_left_alone_for_an_hour() -> None:
    others = Others()
    assert others.wait_s("x", A, 100.0) == 0
    others.has_answered("x", 101.0)
    assert others.answers("x")
    assert others.wait_s("x", A, 102.0) == others.wait_s("x", B, 102.0) == ASK_AGAIN_S - 1
    assert others.wait_s("x", B, 101.0 + ASK_AGAIN_S) == 0, "asked again"
    assert others.wait_s("x", A, 101.0 + ASK_AGAIN_S) == ANSWER_WITHIN_S


def test_installations_are_asked_apart() -> None:
    others = Others()
    others.wait_s("x", A, 100.0)
    others.has_answered("x", 101.0)
    assert others.wait_s("y", B, 102.0) == 0


def test_an_object_has_a_burst_of_events_and_then_one_every_five_minutes() -> None:
    budget = EventBudget(0.0)
    assert sum(budget.spend(1.0) for _ in range(221)) == BURST
    assert not budget.spend(100.0)
    assert budget.spend(1.0 + ONE_MORE_EVERY_S)
    assert not budget.spend(2.0 + ONE_MORE_EVERY_S)
