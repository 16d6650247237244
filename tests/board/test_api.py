"""The JSON API: the same answers, permissions, reasons and audit rows as the pages and the command line."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.board.asgi import VIEW, Answer, Client, GrantedViewer
from tests.board.past_runs import worker_of
from tests.board.test_run_log import log
from wakeboard.board.api.actions import ACTIONS
from wakeboard.board.api.endpoints import JSON as JSON_TYPE
from wakeboard.board.api.openapi import document
from wakeboard.board.api.registry import ENDPOINTS
from wakeboard.board.pages import ROUTES
from wakeboard.board.problem_details import API, MEDIA_TYPE
from wakeboard.logs.rules import Line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.board.action_store import Store
    from wakeboard.board.api.endpoints import Endpoint

pytestmark = pytest.mark.anyio

HOST = {"host": "127.0.0.1:8686"}
JSON = {"content-type": "application/json"}
BEARER = {**HOST, **JSON, "authorization": "Bearer x"}
READS = [each for each in ENDPOINTS if each.method == "GET" and JSON_TYPE in each.media and not each.is_public]
ACTS = [endpoint for endpoint in ENDPOINTS if endpoint.method == "POST"]
MEMBERS: dict[str, Any] = {
    "reason": "because",
    "scope": "all",
    "key": "openai",
    "rule": "dead",
    "hours": "1",
    "q": "",
    "confirmed": 1,
    "first": "2026-01-01",
    "last": "2026-01-02",
}


async def act(client: Client, path: str, headers: Mapping[str, str] = BEARER, **members: Any) -> Answer:
    return await client.send("POST", API + path, json.dumps(members).encode(), headers)


TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
    "array": list,
    "object": dict,
}


def has_type(value: Any, named: str | list[str]) -> bool:
    return isinstance(value, tuple(TYPES[name] for name in ([named] if isinstance(named, str) else named)))


def misfits(value: Any, schema: Any, components: Any, place: str = "answer") -> Iterator[str]:
    """Where a value is not what its schema says, for the parts of JSON Schema that the document has."""
    if "$ref" in schema:
        schema = components[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema and all(any(misfits(value, one, components)) for one in schema["anyOf"]):
        yield place
    if "type" in schema and not has_type(value, schema["type"]):
        yield f"{place}: {value!r}"
    elif "properties" in schema:
        if set(value) != set(schema["properties"]):
            yield f"{place}: {sorted(set(value) ^ set(schema['properties']))}"
        for name, inner in schema["properties"].items():
            yield from misfits(value.get(name), inner, components, f"{place}.{name}")
    elif "items" in schema:
        for each in value:
            yield from misfits(each, schema["items"], components, f"{place}[]")


def path_of(endpoint: Endpoint, parts: Mapping[str, int]) -> str:
    kind = endpoint.path.split("/")[1]
    path = re.sub(r"\{id:int\}", str(parts.get(kind, 1)), endpoint.path)
    return path.replace("{namespace:str}/{name:str}", "shop/daily")


@pytest.fixture
def parts(store: Store) -> dict[str, int]:
    return prepared_parts(store)


def prepared_parts(store: Store) -> dict[str, int]:
    """A dead run with a schedule, and a backfill."""
    timed = store.timed_schedule("shop/daily")
    run = store.run("dead", {"a": 1.5, "password": "hunter2"}, timed)
    store.rows("select pause('queue:other', 'moved')")
    store.rows("select * from set_limit('openai', 3)")
    made = store.value(
        "select id from create_backfill(%s, '{2026-01-01 02:00Z}', '2026-01-01 00:00Z', '2026-01-02 00:00Z')", timed
    )
    bulk = store.value("select id from create_bulk_action('retry', array[%s::bigint])", run)
    store.rows("select cancel_bulk_action(%s)", bulk)
    return {"runs": run, "schedules": timed, "backfills": made, "bulk": bulk}


async def test_every_read_answers_what_the_document_says(client: Client, parts: dict[str, int]):
    described = document(ENDPOINTS, "")
    for endpoint in READS:
        given = {each.name: MEMBERS[each.name] for each in endpoint.parameters if each.required}
        answer = await client.get(API + path_of(endpoint, parts), **given)

        assert (answer.status, answer.header("content-type")) == (200, "application/json"), endpoint.path
        described_answer = described["paths"][endpoint.shown_path]["get"]["responses"]["200"]["content"]
        schema = described_answer["application/json"]["schema"]
        assert not list(misfits(json.loads(answer.text), schema, described["components"]["schemas"])), endpoint.path

    by_name, by_id = [await client.get(f"{API}/schedules/{path}") for path in ("shop/daily", parts["schedules"])]
    assert by_name.text == by_id.text
    assert "There is no schedule shop/nightly" in (await client.get(f"{API}/schedules/shop/nightly")).text
    run = json.loads((await client.get(f"{API}/runs/{parts['runs']}")).text)
    assert run["payload"] == {"a": 1.5, "password": "***"}
    assert json.loads((await client.get(f"{API}/openapi.json")).text) == json.loads(json.dumps(described))
    day = json.loads((await client.get(f"{API}/calendar", day="2099-01-01", zone="Europe/Lisbon")).text)
    assert [hour["at"] for hour in day["hours"] if hour["ticks"]] == ["2099-01-01T02:00:00.000Z"]
    shown = await client.get("/api")
    assert all(endpoint.shown_path in shown.text for endpoint in ENDPOINTS)


def test_every_action_of_a_page_is_in_the_api_too():
    pages = {route.path for route in ROUTES if hasattr(route, "permission")}

    assert pages - set(ACTIONS) == {path for path in pages if path.endswith("-matching")}
    assert {endpoint.path for endpoint in ACTS} == set(ACTIONS)


async def test_no_action_without_its_permission_or_from_another_site(
    client: Client, database: str, store: Store, parts: dict[str, int]
):
    viewer = Client(database, GrantedViewer("eve", {None: VIEW}))
    before = store.everything()
    foreign = {**HOST, **JSON, "origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    for endpoint in ACTS:
        members = {each.name: MEMBERS[each.name] for each in endpoint.parameters if each.required}
        for caller, headers in ((viewer, BEARER), (client, foreign), (client, {**HOST, **JSON})):
            refused = await act(caller, path_of(endpoint, parts), headers, **members)

            assert (refused.status, refused.header("content-type")) == (403, MEDIA_TYPE), endpoint.path
            assert not refused.header("access-control-allow-origin")
        assert (await client.get(API + path_of(endpoint, parts))).status in {200, 400, 404, 405}
    await viewer.close()

    assert store.everything() == before


async def test_an_action_answers_what_it_did_and_is_audited(client: Client, store: Store, parts: dict[str, int]):
    done = await act(client, f"/runs/{parts['runs']}/discard-and-replay", reason="fixed", payload={"a": 2})
    new = json.loads(done.text)["link"]

    assert done.status == 200
    assert json.loads((await client.get(new)).text)["payload"] == {"a": 2}
    again = await act(client, f"/runs/{parts['runs']}/retry", reason="fixed")
    assert (again.status, again.header("content-type")) == (409, MEDIA_TYPE)
    assert {row[:2] for row in store.audit() if row[3] == "fixed"} == {("ada", "board")}
    limit = await act(client, "/limits/set", key="openai", max_running=0)
    assert json.loads(limit.text)["message"] == "The limit of openai is 0."
    counted = await act(
        client, f"/schedules/{parts['schedules']}/backfill", first="2026-01-01", last="2026-01-03", preview=True
    )
    assert "2 ticks" in json.loads(counted.text)["message"]


async def test_a_bulk_action_changes_the_runs_that_its_preview_counted(client: Client, store: Store):
    runs = store.dead_runs(3)
    counted = json.loads((await client.get(f"{API}/bulk/retry", q="status:dead")).text)
    assert counted == {"count": 3, "first": None}

    done = json.loads((await act(client, "/bulk/retry", q="status:dead", confirmed=3, reason="fixed")).text)
    async with asyncio.timeout(30):
        while not (shown := json.loads((await client.get(done["link"])).text))["finished_at"]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert (shown["done"], shown["refused"], shown["reason"]) == (3, 0, "fixed")
    assert {store.status(run) for run in runs} == {"queued"}
    assert json.loads((await client.get(f"{API}/bulk")).text)["items"] == [shown]
    assert (await act(client, f"{done['link'].removeprefix(API)}/cancel-retry")).status == 409


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (400, b"{", BEARER),
        (400, b"[]", BEARER),
        (400, b"\xff\xfe", BEARER),
        (400, b'{"reason": NaN}', BEARER),
        (400, b'{"reason": "a", "reason": "b"}', BEARER),
        (400, b'{"reason": "\\u0000"}', BEARER),
        (400, b'{"reason": "\\ud800"}', BEARER),
        (400, b'{"reason": 7}', BEARER),
        (400, b'{"payload": {}}', BEARER),
        (400, b'{"reason": ' + b"[" * 100_000, BEARER),
        (400, b'{"reason": ' + b"9" * 5000 + b"}", BEARER),
        (413, b" " * (1 << 20) + b"{}", BEARER),
        (415, b"reason=x", {**BEARER, "content-type": "application/x-www-form-urlencoded"}),
        (400, b'{"reason": "' + b"x" * 201 + b'"}', BEARER),
    ],
)
async def test_a_wrong_body_is_a_problem_and_changes_nothing(
    client: Client, store: Store, status: int, body: bytes, headers: Mapping[str, str]
):
    run = store.run("dead")
    answer = await client.send("POST", f"{API}/runs/{run}/retry", body, headers)

    assert (answer.status, answer.header("content-type")) == (status, MEDIA_TYPE)
    assert json.loads(answer.text)["status"] == status
    assert store.status(run) == "dead"


@pytest.mark.parametrize(
    ("status", "path"),
    [
        (400, "/runs?limit=0"),
        (400, "/runs?limit=x"),
        (400, "/runs?unknown=1"),
        (400, "/runs?limit=1&limit=2"),
        (400, "/runs?q=status:lost"),
        (400, "/runs?after=x"),
        (400, "/runs?q=%00"),
        (400, "/schedules?after=x"),
        (400, "/schedules?state=lost"),
        (400, "/audit?after=x"),
        (400, "/runs/1/log?after=x"),
        (400, "/runs/events?q=status:lost"),
        (404, "/runs/4711/log"),
        (404, "/runs/4711/events"),
        (400, "/calendar?day=tomorrow"),
        (400, "/calendar?zone=Moon/Sea"),
        (404, "/runs/99999999999999999999"),
        (404, "/schedules/4711"),
        (404, "/nothing"),
        (414, "/runs?q=" + "x" * 9000),
    ],
)
async def test_a_wrong_question_is_a_problem(client: Client, status: int, path: str):
    answer = await client.get(API + path)

    assert (answer.status, answer.header("content-type")) == (status, MEDIA_TYPE)


async def test_pages_of_a_log_have_each_line_once(database: str, client: Client):
    with worker_of(database) as worker:
        run = worker.enqueue()
        worker.claims(run)
        log(worker, run, [Line(number, 1e9 + number, 20, "shop", f"item {number}") for number in range(1, 8)])
        log(worker, run, [Line(1, 2e9, 40, "bank", "late"), Line(2, 2e9, 20, "bank", "done")], epoch=9)

    async def lines(**query: Any) -> tuple[list[str], str | None]:
        page = json.loads((await client.get(f"{API}/runs/{run}/log", **query)).text)
        return [line["text"] for line in page["items"]], page["next"]

    assert await lines() == (["late", "done"], None)
    assert await lines(level="error") == (["late"], None)
    assert await lines(lease_epoch=5, q="ITEM 3") == (["item 3"], None)
    assert await lines(attempt=2) == ([], None)
    found: list[str] = []
    query: dict[str, Any] = {"lease_epoch": 5}
    while query:
        page, following = await lines(limit=3, **query)
        found = page + found
        query = {"after": following} if following else {}
    assert found == [f"item {number}" for number in range(1, 8)]
    assert (await client.get(f"{API}/runs/{run + 1}/log")).status == 404


async def test_pages_by_key_have_each_row_once_of_the_namespaces_seen(database: str, client: Client, store: Store):
    schedule, other = store.schedule("shop/nightly"), store.schedule("bank/nightly")
    runs = [store.run("dead", schedule=schedule) for _ in range(3)] + [store.run("dead", schedule=other)]
    viewer = Client(database, GrantedViewer("eve", {"shop": VIEW}))
    for caller, path, wanted in (
        (client, "/runs", runs),
        (viewer, "/runs", runs[:3]),
        (client, "/schedules", [schedule, other]),
        (viewer, "/schedules", [schedule]),
    ):
        found: list[int] = []
        after: dict[str, str] = {}
        while True:
            page = json.loads((await caller.get(API + path, limit=2, **after)).text)
            found += [item["id"] for item in page["items"]]
            if page["next"] is None:
                break
            after = {"after": page["next"]}
        assert sorted(found) == sorted(wanted)
    assert (await viewer.get(f"{API}/runs/{runs[3]}")).status == 404
    assert (await viewer.get(f"{API}/schedules/{other}")).status == 404
    await viewer.close()
