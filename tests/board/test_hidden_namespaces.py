"""The overview, limits and the audit log show viewers of some namespaces nothing about the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.board.asgi import VIEW, Client, GrantedViewer

if TYPE_CHECKING:
    from tests.board.action_store import Store

pytestmark = pytest.mark.anyio


async def test_schedules_queues_and_delays_of_other_namespaces_are_hidden(database: str, client: Client, store: Store):
    store.schedule("shop/a")
    for name in ("bank/a", "bank/b"):
        store.schedule(name)
    store.rows("update job_definitions set queue = 'vault' where namespace = 'bank' returning 1")
    store.rows(
        "update job_definitions set schedule_error = 'broken' where namespace = 'bank' and name = 'a' returning 1"
    )
    store.rows(
        "insert into pauses (scope, reason) values ('queue:vault', 'audit'), ('queue:default', 'disk') returning 1"
    )
    ada = Client(database, GrantedViewer("ada", {"shop": VIEW}))

    everything, own = (await client.get("/")).words, (await ada.get("/")).words

    assert "queue vault" in everything
    assert "3 schedules" in everything
    assert "1 schedules" in own
    assert "queue default" in own
    assert "vault" not in own
    assert "broken" not in own
    await ada.close()


async def test_pools_that_serve_no_visible_queue_are_hidden(database: str, client: Client, store: Store):
    store.schedule("shop/a")
    for number, (pool, queue) in enumerate([("counter", "default"), ("safe", "vault")], 1):
        columns = "worker_id, name, pool, queues, capacity, lease_s"
        row = (number, pool, pool, [queue])
        store.rows(f"insert into workers ({columns}) values (%s, %s, %s, %s, 4, 60) returning 1", *row)
    ada = Client(database, GrantedViewer("ada", {"shop": VIEW}))

    own = (await ada.get("/")).words

    assert "safe" in (await client.get("/")).words
    assert "counter" in own
    assert "safe" not in own
    await ada.close()


async def test_pauses_of_queues_of_other_namespaces_are_hidden(database: str, client: Client, store: Store):
    store.schedule("shop/a")
    store.rows("insert into pauses (scope, reason) values ('queue:vault', 'x'), ('queue:default', 'y') returning 1")
    ada = Client(database, GrantedViewer("ada", {"shop": VIEW}))

    own = (await ada.get("/limits")).words

    assert "vault" in (await client.get("/limits")).words
    assert "default" in own
    assert "vault" not in own
    await ada.close()


async def test_audit_rows_of_other_namespaces_are_hidden(database: str, client: Client, store: Store):
    for name in ("shop/a", "bank/b"):
        store.rows("select wakeboard.pause(%s, %s)", f"schedule:{store.schedule(name)}", f"because of {name}")
    ada = Client(database, GrantedViewer("ada", {"shop": VIEW}))

    own = (await ada.get("/audit")).words

    assert "because of bank/b" in (await client.get("/audit")).words
    assert "because of shop/a" in own
    assert "bank" not in own
    assert "bank" not in (await ada.get("/audit", schedule="2")).words
    await ada.close()


@pytest.mark.parametrize("sort", ["", "oldest", "due", "longest"])
async def test_runs_of_other_namespaces_are_in_no_order_of_the_list(
    database: str, client: Client, store: Store, sort: str
):
    for name in ("shop/a", "bank/b"):
        store.rows("select wakeboard.run_now(%s)", store.schedule(name))
    store.rows(
        "update job_runs set status = 'failed', failed_at = now(), started_at = now() - interval '5 s' returning 1"
    )
    ada = Client(database, GrantedViewer("ada", {"shop": VIEW}))

    everything, own = (await client.get("/runs", sort=sort)).words, (await ada.get("/runs", sort=sort)).words

    assert "bank/b" in everything
    assert "shop/a" in own
    assert "bank" not in own
    await ada.close()


async def test_a_pending_removal_hides_the_count_of_other_namespaces(database: str, client: Client, store: Store):
    number = store.schedule("shop/a")
    store.rows("select request_removal((select source from job_definitions where id = %s), 'hash', 4711)", number)
    ada = Client(database, GrantedViewer("ada", {"shop": VIEW}))

    own = (await ada.get(f"/schedules/{number}")).words

    assert "The removal of 4,711 schedules of its source waits" in (await client.get(f"/schedules/{number}")).words
    assert "The removal of schedules of its source waits" in own
    await ada.close()
