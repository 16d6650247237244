"""Actions on one run and one schedule: what they change, what they answer, and what they refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.board.asgi import ALL, VIEW, Client, GrantedViewer
from wakeboard.board.access import Permission

if TYPE_CHECKING:
    from tests.board.action_store import Store

pytestmark = pytest.mark.anyio

HOSTILE = """<script>alert(1)</script>"onmouseover='x' javascript:alert(1) \u202e"""


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "before", "after", "said"),
    [
        ("release", "running", "queued", "Run {} is taken from its worker and queued again."),
        ("retry", "dead", "queued", "Run {} is queued again, due now."),
        ("cancel", "queued", "cancelled", "Run {} is cancelled."),
        ("discard", "dead", "dead", "Run {} is discarded."),
        ("replay", "cancelled", "cancelled", "Run {} is replayed as run"),
    ],
)
async def test_an_action_changes_its_run_says_so_and_is_audited(
    client: Client, store: Store, action: str, before: str, after: str, said: str
):
    run = store.run(before)
    store.rows("delete from audit_log returning 1")
    page = await client.get(f"/runs/{run}/{action}")
    assert f'action="/runs/{run}/{action}"' in page.text

    answer = await client.follow(f"/runs/{run}/{action}", reason="the disk was full", next="/runs?q=status:dead")

    assert said.format(run) in answer.words
    assert store.status(run) == after
    assert store.audit() == [("ada", "board", "revoke" if action == "release" else action, "the disk was full")]


async def test_an_action_returns_to_its_page_and_to_no_other_site(client: Client, store: Store):
    run = store.run("dead")

    assert (await client.post(f"/runs/{run}/retry", next="/runs?q=a%20b&sort=oldest")).header("location") == (
        "/runs?q=a%20b&sort=oldest"
    )
    for elsewhere in ("https://evil.example/", "//evil.example/", "/\\evil.example"):
        assert (await client.post(f"/runs/{run}/retry", next=elsewhere)).header("location") == f"/runs/{run}"


async def test_a_message_fits_into_a_cookie_however_long_the_way_back(client: Client, store: Store):
    back = "/runs?q=" + "%C3%A9" * 480
    run = store.run("dead")
    answer = await client.post(f"/runs/{run}/retry", next=back)

    assert max(len(value) for _, value in answer.headers) < 4000
    assert f"Run {run} is queued again, due now." in (await client.get(answer.header("location"))).words
    answer = await client.post(f"/runs/{run}/cancel", next=back + "%C3%A9" * 480)
    assert answer.header("location") == f"/runs/{run}"


async def test_a_message_is_shown_once_on_its_page_only(client: Client, store: Store):
    run = store.run("dead")
    await client.post(f"/runs/{run}/retry", next="/runs")

    assert "queued again" not in (await client.get("/")).words
    assert "queued again" in (await client.get("/runs")).words
    assert "queued again" not in (await client.get("/runs")).words


@pytest.mark.parametrize("forged", ["x", "bnVsbA", "eyJwYWdlIjogIi9ydW5zIn0", "%00", "W10" * 1000])
async def test_a_damaged_message_is_ignored(client: Client, forged: str):
    client.cookies["wakeboard-message"] = forged

    assert (await client.get("/runs")).status == 200


async def test_no_link_can_forge_a_message(client: Client):
    assert "forged" not in (await client.get("/runs", message="forged", q="")).words


async def test_a_hostile_reason_is_stored_and_shown_as_text(client: Client, store: Store):
    run = store.run("dead")

    await client.follow(f"/runs/{run}/retry", reason=HOSTILE + "\0\r\n next")

    assert store.audit()[0][3] == HOSTILE + "\N{REPLACEMENT CHARACTER} next"
    for path in ("/audit", f"/runs/{run}"):
        assert "<script>alert" not in (await client.get(path)).text


async def test_a_reason_that_is_too_long_is_kept_in_the_form(client: Client, store: Store):
    run = store.run("dead")

    answer = await client.post(f"/runs/{run}/retry", reason="x" * 201)

    assert answer.status == 422
    assert "the reason has 201 characters" in answer.words
    assert "x" * 201 in answer.text
    assert store.status(run) == "dead"


EXACT = '{"amount": 0.12345678901234567890, "id": 9007199254740991, "note": "</textarea>ä"}'


async def test_a_replay_shows_the_exact_payload_and_keeps_it(client: Client, store: Store):
    run = store.run()
    store.rows("update job_runs set payload = %s::jsonb where id = %s returning 1", EXACT, run)
    store.rows("select * from cancel(array[%s::bigint])", run)

    page = await client.get(f"/runs/{run}/replay")
    assert "0.12345678901234567890" in page.text
    assert "&lt;/textarea&gt;ä" in page.text
    shown = store.value("select jsonb_pretty(payload) from job_run_history where id = %s", run)
    await client.follow(f"/runs/{run}/replay", payload=shown.replace("\n", "\r\n"))

    assert store.value("select detail->>'other_payload' from audit_log where action = 'replay'") == "false"
    assert store.value("select payload::text from job_runs") == store.value("select %s::jsonb::text", EXACT)


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ("\n{broken", "is not JSON"),
        ("7", "neither an object nor a list"),
        ('{"a": 9007199254740993}', "payload.a"),
        ("[" * 5000, "nested too deeply"),
        ('{"a": NaN}', "payload.a"),
        ("1" * 5000, "too many digits"),
        ('{"a": "\\u0000"}', "payload.a"),
    ],
)
async def test_an_invalid_payload_is_refused_and_its_text_kept(
    client: Client, store: Store, payload: str, problem: str
):
    run = store.run("cancelled")

    answer = await client.post(f"/runs/{run}/replay", payload=payload.replace("\n", "\r\n"), reason="because")

    assert answer.status == 422
    assert problem in answer.words
    assert f">\n{payload.replace(chr(34), '&#34;')}</textarea>" in answer.text
    assert 'value="because"' in answer.text
    assert store.value("select count(*) from job_runs") == 0


@pytest.mark.parametrize("path", ["/runs/{}/replay", "/bulk/replay?q="])
async def test_live_updates_leave_the_form_of_an_action_alone(client: Client, store: Store, path: str):
    run = store.run("cancelled")

    assert "hx-get" in (await client.get("/runs")).text
    assert "hx-get" not in (await client.get(path.format(run))).text


async def test_a_permission_counts_in_its_namespace_only(database: str, store: Store):
    shop, bank, none = (
        store.run("dead", schedule=store.schedule("shop/a")),
        store.run("dead", schedule=store.schedule("bank/b")),
        store.run("dead"),
    )
    client = Client(database, GrantedViewer("ada", {"shop": ALL, "bank": VIEW}))

    assert (await client.post(f"/runs/{shop}/retry")).status == 303
    assert (await client.post(f"/runs/{bank}/retry")).status == 403
    assert (await client.post(f"/runs/{none}/retry")).status == 404
    assert [store.status(run) for run in (shop, bank, none)] == ["queued", "dead", "dead"]
    await client.close()


async def test_the_overview_does_not_promise_ticks_of_a_paused_schedule(client: Client, store: Store):
    paused, active = store.timed_schedule("shop/paused", "@hourly"), store.timed_schedule("shop/active", "@hourly")
    store.rows("update job_definitions set next_run_at = now() + interval '1 hour' returning 1")
    store.rows("select pause(%s, 'maintenance')", f"schedule:{paused}")

    overview = (await client.get("/")).text

    assert f'/schedules/{active}">' in overview
    assert f'/schedules/{paused}">' not in overview


async def test_a_dead_run_is_discarded_and_replayed_in_one_step(client: Client, store: Store):
    run = store.run("dead", {"day": 1})

    form = await client.get(f"/runs/{run}/discard-and-replay")
    assert f"Discard and replay run {run}?" in form.words
    done = await client.follow(f"/runs/{run}/discard-and-replay", payload='{"day": 2}', reason="wrong day")

    (new,) = [row[0] for row in store.rows("select id from job_runs")]
    assert f"Run {run} is discarded, and replayed as run {new}" in done.words
    assert (store.status(run), store.value("select payload from job_runs")) == ("dead", {"day": 2})
    assert [row[2:] for row in store.audit()] == [("discard", "wrong day"), ("replay", "wrong day")]


@pytest.mark.parametrize("missing", [Permission.DISCARD, Permission.REPLAY])
async def test_discard_and_replay_needs_both_permissions(database: str, store: Store, missing: Permission):
    run = store.run("dead")
    client = Client(database, GrantedViewer("ada", {None: ALL - {missing}}))

    assert "discard-and-replay" not in (await client.get(f"/runs/{run}")).text
    assert (await client.post(f"/runs/{run}/discard-and-replay")).status == 403
    assert store.status(run) == "dead"
    await client.close()


async def test_masked_values_of_a_deleted_run_are_not_shown_without_audit(client: Client, store: Store):
    run = store.run("queued", {"password": "hunter2"})
    assert "hunter2" in (await client.get(f"/runs/{run}/raw/payload")).text
    store.rows("delete from job_runs where id = %s returning 1", run)
    assert "hunter2" not in (await client.get(f"/runs/{run}/raw/payload")).text  # reads are shared for a second
    assert len(store.audit()) <= 1


async def test_a_viewer_who_is_shown_masked_values_is_audited(client: Client, store: Store):
    run = store.run("cancelled", {"password": "hunter2"})
    schedule = store.schedule()
    store.rows('update job_definitions set payload = \'{"token": "s3cr3t"}\' where id = %s returning 1', schedule)
    store.conn.execute("truncate audit_log")

    assert "hunter2" not in (await client.get(f"/runs/{run}")).text
    assert store.audit() == []
    assert "hunter2" in (await client.get(f"/runs/{run}/raw/payload")).text
    for path, secret in ((f"/runs/{run}/replay", "hunter2"), (f"/schedules/{schedule}/run", "s3cr3t")):
        asking = await client.get(path)
        assert secret not in asking.text
        assert "1 value of the payload is masked" in asking.words
        assert secret not in (await client.post(path, reason="x" * 201)).text
        assert secret in (await client.get(path, reveal="1")).text

    assert store.rows("select actor::text, action, run_id, definition_id from audit_log order by id") == [
        ("ada", "reveal", run, None),
        ("ada", "reveal", run, None),
        ("ada", "reveal", None, schedule),
    ]
    assert "reveal" in (await client.get("/audit")).words
    await client.get(f"/runs/{run}/raw/result")
    assert len(store.audit()) == 3


@pytest.mark.parametrize("sender", [{"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "none"}, {}])
async def test_a_request_of_another_site_reveals_nothing_in_the_users_name(
    client: Client, store: Store, sender: dict[str, str]
):
    run = store.run("cancelled", {"password": "hunter2"})
    for path in (f"/runs/{run}/raw/payload", f"/runs/{run}/replay?reveal=1"):
        answer = await client.send("GET", path, headers={"host": "127.0.0.1:8686", **sender})
        assert answer.status == 200
        assert "hunter2" not in answer.text
    assert "reveal" not in [row[2] for row in store.audit()]


async def test_masked_values_are_not_shown_if_that_cannot_be_audited(database: str, store: Store):
    run = store.run("cancelled", {"password": "hunter2"})
    client = Client(database, acting_dsn=f"{database}&options=-cdefault_transaction_read_only%3Don")

    answer = await client.get(f"/runs/{run}/raw/payload")

    assert answer.status == 503
    assert "read-only" in answer.words
    assert "hunter2" not in answer.text
    await client.close()


async def test_an_unknown_run_is_not_found(client: Client):
    for run in (1, 1 << 70):
        assert (await client.post(f"/runs/{run}/retry")).status == 404
