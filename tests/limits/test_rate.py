"""Rates are parsed as users write them, and formatted as they are parsed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeboard.errors import InvalidValue
from wakeboard.limits.rules.rate import MAX_COUNT, MAX_PERIOD_S, Rate


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("60/minute", (60, 60)),
        ("5/s", (5, 1)),
        ("5 / Second", (5, 1)),
        ("100/30s", (100, 30)),
        ("10/2hours", (10, 7200)),
        ("1000/day", (1000, 86_400)),
        ("3/min", (3, 60)),
        ("7/7d", (7, 604_800)),
    ],
)
def test_a_rate_is_a_number_of_runs_and_a_time(text: str, rate: tuple[int, int]) -> None:
    assert Rate.parse(text) == Rate(*rate)


@given(st.builds(Rate, st.integers(1, MAX_COUNT), st.integers(1, MAX_PERIOD_S)))
def test_a_shown_rate_is_read_as_the_same_rate(rate: Rate) -> None:
    assert Rate.parse(str(rate)) == rate


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "such as 60/minute"),
        ("5/100ms", "such as 60/minute"),
        ("60", "such as 60/minute"),
        ("60/fortnight", "such as 60/minute"),
        ("-1/s", "such as 60/minute"),
        ("1.5/s", "such as 60/minute"),
        ("\u0666/s", "such as 60/minute"),
        ("9\x1b[31m/s", "such as 60/minute"),
        ("0/s", "write 1 to 1000000"),
        ("1000001/s", "write 1 to 1000000"),
        ("1/0s", "write 1 second to 31 days"),
        ("1/32d", "write 1 second to 31 days"),
    ],
)
def test_a_wrong_rate_is_refused_with_what_to_write(text: str, says: str) -> None:
    with pytest.raises(InvalidValue, match=says) as refused:
        Rate.parse(text)
    assert "\x1b" not in str(refused.value)
