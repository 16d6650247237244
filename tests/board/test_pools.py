"""The overview says of each pool when it woke and when it wakes next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from wakeboard.board.pages.overview import shown_pool
from wakeboard.views.queries.overview import PoolRow

NOW = datetime(2026, 11, 22, 12, 0, 30, tzinfo=UTC)


def pool(*started_s_ago: int) -> PoolRow:
    wakes = [NOW - timedelta(seconds=ago) for ago in started_s_ago]
    return PoolRow(pool="default", workers=0, capacity=0, last_seen=NOW, versions=[], queues=[], wakes=wakes)


@pytest.mark.parametrize(
    ("started_s_ago", "next_in_s"),
    [
        ((145, 88, 27), 30),
        ((627, 327, 27), 270),
        ((4227, 327), None),
        ((9_999, 145, 88, 27), 30),
        ((200, 88, 27), None),
        ((27,), None),
        ((), None),
    ],
)
def test_the_next_wake_is_known_of_a_pool_that_wakes_regularly(started_s_ago: tuple[int, ...], next_in_s: int | None):
    shown = shown_pool(pool(*started_s_ago), NOW)
    assert shown.next_at == (None if next_in_s is None else NOW + timedelta(seconds=next_in_s))
    assert (shown.strip is not None) == bool(started_s_ago)
