"""What holds for every route: actions need a permission, GET changes nothing, other sites can do nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.board.asgi import VIEW, Client, GrantedViewer
from wakeboard.board.access.viewer import Permission
from wakeboard.board.bulk_runner import BulkActionRunner
from wakeboard.board.pages import ROUTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.routing import Route

    from tests.board.action_store import Store

pytestmark = pytest.mark.anyio

FORM: dict[str, Any] = {
    "reason": "because",
    "q": "",
    "count": "1",
    "confirmed": "1",
    "scope": "all",
    "key": "openai",
    "rule": "dead",
    "hours": "1",
    "max_running": "3",
    "payload": "{}",
}
WITHOUT_A_VIEWER = {"/login", "/logout", "/healthz", "/readyz"}


def routes(method: str) -> list[Route]:
    return [route for route in ROUTES if method in (route.methods or ()) and route.path not in WITHOUT_A_VIEWER]


def path_of(pattern: str, parts: Mapping[str, str]) -> str:
    """A path that the route of this pattern answers."""
    path = pattern.replace("/bulk/{id:int}", f"/bulk/{parts['bulk']}")
    path = path.replace("/backfills/{id:int}", f"/backfills/{parts['backfill']}")
    path = path.replace("/api/v1/schedules/{id:int}/backfill", f"/api/v1/schedules/{parts['timed']}/backfill")
    path = path.replace("/schedules/{id:int}", f"/schedules/{parts['schedule']}")
    path = path.replace("{namespace}/{name:path}", "shop/nightly").replace("{what:str}", "payload")
    return re.sub(r"\{id:int\}", parts["run"], path)


def _stay_idle(_: BulkActionRunner) -> None:
    """Executes no bulk action."""


@pytest.fixture
def parts(store: Store, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """Rows that every route can be called for: a dead run, a schedule, a bulk action that no board executes."""
    monkeypatch.setattr(BulkActionRunner, "start", _stay_idle)
    return made_parts(store)


def made_parts(store: Store) -> dict[str, str]:
    """The ids of a dead run, a schedule, one with ticks of its own, a bulk action and a backfill, which it creates."""
    schedule = store.schedule()
    run = store.run("dead", schedule=schedule)
    store.rows("select pause('queue:other', 'moved')")
    timed = store.timed_schedule("shop/daily")
    store.rows(
        "insert into schedule_dependencies (definition_id, place, parent_name, parent_id, outcome, ticks)"
        " values (%s, 1, 'daily', %s, 'Succeeded', 'Same') returning place",
        *(schedule, timed),
    )
    made = store.value(
        "select id from create_backfill(%s, '{2026-01-01 02:00Z}', '2026-01-01 00:00Z', '2026-01-02 00:00Z')", timed
    )
    bulk = store.value("select id from create_bulk_action('retry', array[%s::bigint])", run)
    return {"run": str(run), "schedule": str(schedule), "timed": str(timed), "bulk": str(bulk), "backfill": str(made)}


def test_every_action_has_a_permission_other_than_to_view():
    actions = routes("POST")

    assert len(actions) >= 20
    assert all(getattr(route, "permission", Permission.VIEW) is not Permission.VIEW for route in actions)
    assert {getattr(route, "permission", None) for route in actions} == set(Permission) - {
        Permission.VIEW,
        Permission.REVEAL,
    }


async def test_every_action_answers_403_to_a_viewer_and_changes_nothing(
    database: str, store: Store, parts: Mapping[str, str]
):
    before = store.everything()

    for namespace in (None, "shop"):
        client = Client(database, GrantedViewer("eve", {namespace: VIEW}))
        answers = {
            route.path: (await client.post(path_of(route.path, parts), **FORM)).status for route in routes("POST")
        }
        assert answers == dict.fromkeys(answers, 403)
        await client.close()
    assert store.everything() == before


async def test_no_page_changes_anything_by_get(database: str, store: Store, parts: Mapping[str, str]):
    client = Client(database)
    before = store.everything()
    pages = [route for route in routes("GET") if route.path != "/events"]

    answers = {route.path: (await client.get(path_of(route.path, parts), **FORM)).status for route in pages}

    assert {path: status for path, status in answers.items() if status >= 400} == {}
    assert store.everything() == before
    await client.close()


async def test_no_action_is_done_by_get_head_or_put(client: Client, store: Store, parts: Mapping[str, str]):
    before = store.everything()

    for route in routes("POST"):
        for method in ("PUT", "DELETE", "PATCH"):
            assert (await client.send(method, path_of(route.path, parts))).status == 405

    assert store.everything() == before


HOST = {"host": "127.0.0.1:8686"}
FORM_TYPE = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({**HOST, "sec-fetch-site": "cross-site", "origin": "https://evil.example"}, 403),  # a form
        ({**HOST, "sec-fetch-site": "same-site", "origin": "http://127.0.0.1:9999"}, 403),
        ({**HOST, "sec-fetch-site": "none"}, 403),
        ({**HOST, "origin": "null", "content-type": "text/plain"}, 403),  # a sandboxed frame
        ({**HOST, "origin": "http://127.0.0.1:8687"}, 403),
        ({**HOST, "origin": "https://evil.example", "content-type": "text/plain"}, 403),
        ({**HOST}, 403),
        ({"host": "evil.example", "origin": "http://evil.example", "sec-fetch-site": "same-origin"}, 421),  # rebound
        ({"host": "127.0.0.1.evil.example", "sec-fetch-site": "same-origin"}, 421),
    ],
)
async def test_an_action_from_elsewhere_is_refused_and_changes_nothing(
    client: Client, store: Store, parts: Mapping[str, str], headers: Mapping[str, str], status: int
):
    before = store.everything()

    for route in routes("POST"):
        answer = await client.post(path_of(route.path, parts), headers={**FORM_TYPE, **headers}, **FORM)
        assert answer.status == status, route.path
        assert not answer.header("access-control-allow-origin")

    assert store.everything() == before


@pytest.mark.parametrize(
    "headers",
    [
        {**HOST, "sec-fetch-site": "same-origin"},
        {**HOST, "origin": "http://127.0.0.1:8686"},  # a browser that sends no Sec-Fetch-Site
        {**HOST, "authorization": "Bearer x"},  # a program
    ],
)
async def test_an_action_from_a_page_of_the_board_is_done(
    client: Client, store: Store, parts: Mapping[str, str], headers: Mapping[str, str]
):
    answer = await client.post(f"/runs/{parts['run']}/retry", headers={**FORM_TYPE, **headers})

    assert answer.status == 303
    assert store.status(int(parts["run"])) == "queued"


async def test_an_action_and_its_audit_row_commit_together_or_not_at_all(
    client: Client, store: Store, parts: Mapping[str, str]
):
    store.conn.execute("alter table audit_log add constraint no_more check (reason <> 'refuse me') not valid")
    before = store.everything()

    answer = await client.post(f"/runs/{parts['run']}/retry", reason="refuse me")

    assert answer.status >= 400
    assert store.everything() == before
