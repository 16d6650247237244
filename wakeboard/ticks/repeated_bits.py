"""Repeats bits at a distance, in a few operations on whole integers."""

from __future__ import annotations


def repeated(bits: int, step: int, count: int) -> int:
    """`bits`, of which there are at most `step`, `count` times (at least once), each `step` above the one before."""
    found, made = bits, 1
    while made < count:
        more = min(made, count - made)
        found |= (found & (1 << more * step) - 1) << made * step
        made += more
    return found
