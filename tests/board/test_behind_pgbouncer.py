"""The board works behind PgBouncer, because none of its statements depends on a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.board.asgi import Client
from tests.postgres_servers import running_pooler

if TYPE_CHECKING:
    from pathlib import Path

    from tests.board.action_store import Store

pytestmark = pytest.mark.anyio

PAGES = ["/", "/runs", "/runs/1", "/schedules", "/calendar", "/performance", "/alerts", "/limits", "/audit", "/bulk"]


@pytest.mark.parametrize("mode", ["transaction", "session"])
async def test_the_board_works_behind_pgbouncer(database: str, store: Store, tmp_path: Path, mode: str):
    run = store.run("dead")
    with running_pooler(database, tmp_path, mode) as dsn:
        client = Client(dsn)
        for path in PAGES:
            assert (await client.get(path)).status == 200, path
        assert "queued" in (await client.follow(f"/runs/{run}/retry", reason="because")).words
        await client.close()
