"""Changes: the latest of each resource, put by the stream's thread and taken by the loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.operator.examples import resource
from wakeboard_operator.watch import Deleted, PendingChanges

pytestmark = pytest.mark.anyio


async def test_a_burst_of_changes_is_the_latest_of_each() -> None:
    changes = PendingChanges(asyncio.get_running_loop())

    def burst() -> None:
        for version in range(1000):
            name = f"s{version % 3}"
            changes.put(("billing", name), resource(name=name, resource_version=str(version)))

    thread = threading.Thread(target=burst)
    thread.start()
    await changes.wait()
    thread.join()
    taken = changes.take()
    assert {found.resource_version for found in taken.values() if not isinstance(found, Deleted)} == {
        "997",
        "998",
        "999",
    }
    assert changes.take() == {}


async def test_a_deletion_takes_the_place_of_what_came_before() -> None:
    changes = PendingChanges(asyncio.get_running_loop())
    changes.put(("billing", "report"), resource())
    changes.put(("billing", "report"), Deleted("u1"))
    assert changes.take() == {("billing", "report"): Deleted("u1")}
    changes.put(("billing", "report"), resource(uid="u2"))
    assert changes.take_deleted() == {"u1"}
    assert changes.take_deleted() == set()


async def test_a_watch_that_begins_again_may_have_missed_deletions() -> None:
    changes = PendingChanges(asyncio.get_running_loop())
    changes.put(("billing", "report"), resource(), listed=True)
    changes.put(("billing", "report"), resource(resource_version="101"))
    assert not changes.take_gap()
    changes.put(("billing", "report"), resource(resource_version="101"), listed=True)
    assert changes.take_gap()
    assert not changes.take_gap()


async def test_a_replacing_stream_may_have_missed_every_deletion() -> None:
    changes = PendingChanges(asyncio.get_running_loop())
    changes.begin_again()
    changes.put(("billing", "report"), resource(), listed=True)
    changes.take()
    assert not changes.take_gap()
    changes.begin_again()
    await changes.wait()
    assert changes.take_gap()


async def test_a_listed_version_that_the_watch_lacks_is_undelivered() -> None:
    changes = PendingChanges(asyncio.get_running_loop())
    seen, unseen = resource(name="seen", resource_version="7"), resource(name="unseen", resource_version="9")
    changes.put(seen.key, seen)
    assert changes.undelivered([seen, unseen]) == {unseen.key}
    assert changes.has_delivered(seen.key, "6")
    assert changes.has_delivered(seen.key, "7")
    assert not changes.has_delivered(seen.key, "8")
    assert not changes.has_delivered(unseen.key, "9")


async def test_what_was_deleted_after_it_was_listed_counts_as_delivered() -> None:
    changes = PendingChanges(asyncio.get_running_loop())
    listed = resource(resource_version="7")
    changes.put(listed.key, listed)
    changes.put(listed.key, Deleted(listed.uid, "8"))
    assert changes.undelivered([listed]) == {listed.key}
    assert changes.has_delivered(listed.key, "7")
    assert not changes.has_delivered(listed.key, "9"), "created again since"
