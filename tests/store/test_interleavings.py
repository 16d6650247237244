"""For each two operations on one run: called concurrently they end as in sequence, or one of them skips the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.store.interleaving import NEVER_WAIT, OPERATIONS, SETUP, SKIP, Interleaving, may_overlap

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import SqlClient

pytestmark = pytest.mark.every_postgres


@pytest.fixture
def interleaving(open_client: Callable[[int], SqlClient], meanwhile: ThreadPoolExecutor) -> Interleaving:
    return Interleaving(open_client, meanwhile)


def touched(interleaving: Interleaving, operation: str) -> list[str]:
    """The statuses in which the operation changes the run."""
    return [
        status
        for status in SETUP
        if interleaving.in_sequence(status, operation).after != interleaving.in_sequence(status).after
        or (operation == "renew" and "running" in status)
    ]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_in_an_open_transaction_and_any_other_end_as_in_sequence(
    interleaving: Interleaving, operation: str
) -> None:
    statuses = touched(interleaving, operation)
    assert statuses
    for status in statuses:
        for other in OPERATIONS:
            case = f"{status} run: {operation}, and concurrently {other}"
            result = interleaving.concurrently(status, operation, other, commit=True)
            then, before, alone = (
                interleaving.in_sequence(status, operation, other),
                interleaving.in_sequence(status, other, operation),
                interleaving.in_sequence(status, operation),
            )
            assert not (result.waited and other in NEVER_WAIT), case
            assert result.first == alone.first, case
            if result.waited:
                assert (result.second, result.after) == (then.second, then.after), case
            else:
                assert result.after in {then.after, before.after, alone.after}, case
            if not may_overlap(operation, other) and result.after != alone.after:
                assert result.waited, f"{case}: it did not wait, and changed the run"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_that_is_rolled_back_leaves_the_other_as_if_alone(
    interleaving: Interleaving, operation: str
) -> None:
    for status in touched(interleaving, operation):
        for other in OPERATIONS:
            case = f"{status} run: {operation}, rolled back, and concurrently {other}"
            result = interleaving.concurrently(status, operation, other, commit=False)
            alone, untouched = interleaving.in_sequence(status, other), interleaving.in_sequence(status)
            assert not (result.waited and other in NEVER_WAIT), case
            if other in SKIP and not result.waited:
                assert result.after in {alone.after, untouched.after}, case
            else:
                assert (result.second, result.after) == (alone.first, alone.after), case
