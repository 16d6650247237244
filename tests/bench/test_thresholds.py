"""Thresholds: the page says of each whether it is kept."""

from __future__ import annotations

from bench.tables import at_least, at_most, thresholds_table


def test_the_median_decides() -> None:
    assert at_least("rate", 100, [10, 100, 500]).met
    assert not at_least("rate", 100, [99, 99, 500]).met
    assert at_most("ms", 5, [5, 4, 900]).met
    assert not at_most("ms", 5, [1, 5.1, 6]).met


def test_missed_thresholds_come_first_with_their_reason() -> None:
    table = thresholds_table(
        [at_most("kept, ms", 5, [4]), at_least("missed, runs/s", 200_000, [100_000], "the server")]
    )

    assert table.note == "2 thresholds: the median keeps 1 and misses 1."
    assert table.rows == [
        ("missed, runs/s", "at least 200,000", "100,000", "**missed** the server"),
        ("kept, ms", "at most 5", "4.00", ""),
    ]
