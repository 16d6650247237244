"""Ids that users type: what no run and no schedule can have is refused before it reaches the database."""

from __future__ import annotations

import pytest

from wakeboard.text.object_ids import LARGEST_ID, is_id, parse_id


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("42", 42),
        ("0042", 42),
        (str(LARGEST_ID), LARGEST_ID),
        (f"000{LARGEST_ID}", LARGEST_ID),
        (str(LARGEST_ID + 1), None),
        ("9" * 5000, None),  # Python refuses to read so many digits
        ("0" * 5000, None),
        ("0", None),
        ("-1", None),
        ("+1", None),
        ("1_000", None),
        (" 1", None),
        ("\u0661", None),
        ("\u00b2", None),
        ("", None),
    ],
)
def test_only_decimal_digits_of_a_positive_bigint_are_an_id(text: str, number: int | None):
    assert parse_id(text) == number


@pytest.mark.parametrize("value", [True, 1.0, "1", None, 0, -1, LARGEST_ID + 1])
def test_no_other_value_is_an_id(value: object):
    assert not is_id(value)
