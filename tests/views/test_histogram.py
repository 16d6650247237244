"""Quantiles of a histogram differ from the exact ones by less than the stated error."""

from __future__ import annotations

import math
import random

import pytest

from wakeboard.views.rules.histogram import BUCKETS_PER_DOUBLING, MAX_RELATIVE_ERROR, Histogram, merged


def bucket_of(duration_s: float) -> int:
    """As the SQL functions compute it."""
    return math.ceil(math.log2(max(duration_s * 1000, 1)) * BUCKETS_PER_DOUBLING)


def histogram(durations_s: list[float]) -> Histogram:
    return merged(Histogram({bucket_of(duration): 1}) for duration in durations_s)


@pytest.mark.parametrize("scale", [0.002, 1.0, 3600.0, 2_678_400.0])
@pytest.mark.parametrize("share", [0.5, 0.95, 1.0])
def test_a_quantile_is_within_the_stated_error(scale: float, share: float):
    source = random.Random(7)
    durations = sorted(scale * source.lognormvariate(0, 1) for _ in range(999))
    exact = durations[math.ceil(share * len(durations)) - 1]
    assert histogram(durations).quantile(share) == pytest.approx(exact, rel=MAX_RELATIVE_ERROR * 1.000001, abs=0.001)


def test_the_stated_error_is_less_than_a_twentieth():
    assert MAX_RELATIVE_ERROR < 0.05


def test_histograms_of_parts_add_up_to_that_of_the_whole():
    durations = [0.0, 0.0005, 0.001, 0.0011, 0.5, 0.5, 90.0, 5e9]
    parts = merged([histogram(durations[:3]), histogram(durations[3:]), Histogram()])
    assert parts == histogram(durations)
    assert parts.total == len(durations)


def test_no_durations_have_no_quantile():
    assert Histogram.from_columns(None, None).quantile(0.5) is None
