"""Pauses between attempts."""

from __future__ import annotations

from wakeboard.process.backoff import BackoffDelays


def test_pauses_double_up_to_the_longest_and_begin_again_after_a_success():
    backoff = BackoffDelays(1.0, 5.0)
    for longest_s in (1, 2, 4, 5, 5):
        assert longest_s / 2 <= backoff.next_s() <= longest_s
    backoff.reset()
    assert backoff.next_s() <= 1
