"""The page of alerts: what is open, what was, who was notified, and which rules decide it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.board.asgi import VIEW, Client, GrantedViewer

if TYPE_CHECKING:
    from tests.board.action_store import Store

pytestmark = pytest.mark.anyio

RULES: dict[str, dict[str, Any]] = {
    "dead-runs": {"dead": 1, "receivers": ["team", "on-call"]},
    "shop-fails": {"failures": 10, "within": "1h", "where": {"schedule": "shop/*"}},
    "bank-silent": {"noSuccessFor": "26h", "where": {"schedule": "bank/backup"}},
}


def claim(store: Store, rules: dict[str, dict[str, Any]], severity: str = "critical") -> dict[str, Any]:
    """Evaluates the rules as a process with them would, and returns the claims."""
    store.rows("update alert_rules set evaluated_at = evaluated_at - interval '1 minute' returning 1")
    rows = [{"name": n, "severity": severity, "interval_s": 15, "definition": rule} for n, rule in rules.items()]
    return dict(store.rows("select name, claimed_at from claim_alert_rules(%s)", json.dumps(rows)))


def fire(store: Store, name: str, summary: str, receivers: list[str] | None = None, value: float = 12) -> None:
    at = claim(store, RULES)[name]
    kind = "open" if receivers else None
    given = name, at, summary, value, [f"{summary} example"], kind, receivers or []
    store.rows("select record_alert(%s, %s, true, %s, %s, %s, %s, %s)", *given)


def resolve(store: Store, name: str) -> None:
    store.rows("select record_alert(%s, %s, false)", name, claim(store, RULES)[name])


async def words_now(client: Client) -> str:
    client.board.forget_reads()  # reads are shared for a second
    return (await client.get("/alerts")).words


async def test_without_alerts_the_page_says_where_rules_are_written(client: Client):
    words = (await client.get("/alerts")).words
    assert "No alert is open" in words
    assert "WAKEBOARD_ALERTS_FILE" in words


async def test_an_open_alert_shows_the_problem_its_receivers_and_its_runs(client: Client, store: Store):
    fire(store, "dead-runs", "3 runs are dead", ["team"], value=3)
    store.rows("update job_runs set status = 'failed', last_error = 'the receiver answered 503' returning 1")
    ((run,),) = store.rows("select id from job_runs")
    answer = await client.get("/alerts")
    assert "critical dead-runs opened" in answer.words
    assert "3 runs are dead" in answer.words
    assert "Value 3 runs" in answer.words
    assert "team : open failed" in answer.words.replace("team:", "team :")
    assert "the receiver answered 503" in answer.words
    assert "on-call : not notified" in answer.words.replace("on-call:", "on-call :")
    assert f'href="/runs/{run}"' in answer.text
    assert 'href="/runs?q=status%3Adead"' in answer.text
    overview = await client.get("/")
    assert "The alert dead-runs opened" in overview.words
    assert 'href="/alerts"' in overview.text


async def test_the_overview_counts_the_warnings_beside_an_alert(client: Client, store: Store):
    store.run("dead")
    fire(store, "dead-runs", "1 run is dead", value=1)
    words = (await client.get("/")).words
    assert "1 problem and 1 warning 1 dead run" in words  # the warning: no worker
    assert "alert dead-runs" in words


async def test_a_silenced_rule_notifies_of_its_end_only(client: Client, store: Store):
    fire(store, "dead-runs", "3 runs are dead")
    await client.post("/alerts/silence", rule="dead-runs", hours="fixed", reason="known")
    assert "Silenced until it is resolved" in await words_now(client)
    fire(store, "dead-runs", "4 runs are dead", ["team"])
    assert store.rows("select notification from alert_deliveries") == []
    await client.post("/alerts/unsilence", rule="dead-runs")
    assert "Silenced" not in await words_now(client)
    fire(store, "dead-runs", "4 runs are dead", ["team"])
    verdict = "select verdict from alert_deliveries as made, lateral alert_delivery(made.run_id)"
    assert store.rows(verdict) == [("send",)]
    await client.post("/alerts/silence", rule="dead-runs", hours="fixed")
    assert store.rows(verdict) == [("skip",)]  # it waits for its receiver
    at = claim(store, RULES)["dead-runs"]
    store.rows("select record_alert('dead-runs', %s, false, notification => 'resolved', receivers => '{team}')", at)
    assert store.rows(verdict + " where made.notification = 'resolved'") == [("send",)]
    assert store.rows("select silenced_until from alert_rules where name = 'dead-runs'") == [(None,)]
    assert [action for _, _, action, _ in store.audit()] == ["silence_alert"] * 3
    assert (
        "no alert of this rule is open" in (await client.post("/alerts/silence", rule="dead-runs", hours="fixed")).words
    )


async def test_an_open_alert_says_that_no_process_evaluates_its_rule(client: Client, store: Store):
    fire(store, "dead-runs", "3 runs are dead")
    store.rows("update alert_rules set evaluated_at = now() - interval '4 minutes' returning 1")
    assert "No process evaluates its rule any more" in await words_now(client)


async def test_resolved_alerts_are_listed_page_by_page(client: Client, store: Store):
    for number in range(30):
        fire(store, "dead-runs", f"outage {number:02}")
        resolve(store, "dead-runs")
    first = await client.get("/alerts")
    assert "No alert is open." in first.words
    assert "outage 29" in first.words
    assert "outage 04" not in first.words
    (older,) = [part.split('"')[0] for part in first.text.split('rel="next" href="')[1:]]
    second = await client.get(older)
    assert "outage 04" in second.words
    assert "outage 29" not in second.words
    assert "outage 00" in second.words
    assert (await client.get("/alerts", before="x")).status == 400


@pytest.mark.parametrize("state", ["open", "resolved"])
async def test_the_api_lists_alerts_page_by_page(client: Client, store: Store, state: str):
    for name in ("shop-fails", "bank-silent", "dead-runs"):
        fire(store, name, name)
    store.rows("update alerts set severity = 'warning' where rule = 'dead-runs' returning 1")
    for name in ("dead-runs", "bank-silent", "shop-fails") if state == "resolved" else ():
        resolve(store, name)
    found: list[str] = []
    given = {"state": state, "limit": "1"}
    while given:
        page = json.loads((await client.get("/api/v1/alerts", **given)).text)
        found += [each["rule"] for each in page["items"]]
        given = given | {"after": page["next"]} if page["next"] else {}
        assert len(page["items"]) == 1
    assert found == (
        ["bank-silent", "shop-fails", "dead-runs"] if state == "open" else ["shop-fails", "bank-silent", "dead-runs"]
    )


async def test_rules_are_shown_as_declared_and_another_version_is_a_drift(client: Client, store: Store):
    claim(store, RULES)
    words = await words_now(client)
    assert "failures : 10 within : 1h where : {schedule: shop/*}" in words
    assert "Drift" not in words
    rows = [{"name": "dead-runs", "severity": "info", "interval_s": 15, "definition": {"dead": 5}}]
    store.rows("select * from claim_alert_rules(%s)", json.dumps(rows))  # too late to evaluate it
    drift = await words_now(client)
    assert "Drift:" in drift
    assert "dead : 5" in drift
    claim(store, {"dead-runs": {"dead": 5}})
    assert "Drift:" in await words_now(client)
    store.rows("update alert_rules set other_at = other_at - interval '4 minutes' returning 1")
    assert "Drift:" not in await words_now(client)
    assert "unknown" not in await words_now(client)
    store.rows("update alert_rules set unmeasured_since = now() - interval '10 minutes' returning 1")
    failing = await words_now(client)
    assert "unknown" in failing
    assert "Its evaluations fail. The first one was 10 min ago" in failing
    store.rows("update alert_rules set evaluated_at = now() - interval '10 minutes' returning 1")
    assert "No process evaluates it any more, or another transaction has locked its row." in await words_now(client)


async def test_a_viewer_sees_the_alerts_of_rules_that_name_their_namespace(database: str, store: Store):
    fire(store, "dead-runs", "dead everywhere", ["team"])
    fire(store, "shop-fails", "shop fails")
    fire(store, "bank-silent", "bank is silent")
    resolve(store, "bank-silent")
    ada = Client(database, GrantedViewer("ada", {"shop": VIEW}))
    words = (await ada.get("/alerts")).words
    assert "shop fails" in words
    assert "bank" not in words
    assert "dead-runs" not in words
    overview = (await ada.get("/")).words
    assert "The alert shop-fails opened" in overview
    assert "bank" not in overview
    await ada.close()


async def test_a_viewer_does_not_see_another_version_that_names_a_hidden_namespace(database: str, store: Store):
    claim(store, RULES)
    hidden = {"failures": 1, "within": "1h", "where": {"schedule": "bank/payroll"}}
    rows = [{"name": "shop-fails", "severity": "info", "interval_s": 15, "definition": hidden}]
    store.rows("select * from claim_alert_rules(%s)", json.dumps(rows))
    ada = Client(database, GrantedViewer("ada", {"shop": VIEW}))
    words = (await ada.get("/alerts")).words
    assert "shop-fails" in words
    assert "payroll" not in words
    await ada.close()


@pytest.mark.parametrize(
    "definition",
    [
        *({"dead": 1, "where": where} for where in ("x", ["x"], None, {"queue": None}, {"schedule": {"a": 1}})),
        *({"dead": 1, "receivers": receivers} for receivers in (5, None, "team", [{"a": 1}], [["x"]])),
        *({"failures": 1, "within": within} for within in (5, None, "long", "9999999d")),
        {"durationOver": [], "where": {"queue": 5}},
        {"noSuccessFor": "1h", "where": {"schedule": 5}},
    ],
    ids=str,
)
async def test_any_object_as_a_rule_leaves_the_pages_readable(client: Client, store: Store, definition: dict[str, Any]):
    """The role of a worker may store any; only a former release stored such values."""
    for number, value in enumerate(("1", "NaN", "Infinity", "-Infinity", "1e300")):
        at = claim(store, {f"odd-{number}": definition})[f"odd-{number}"]
        store.rows("select record_alert(%s, %s, true, 'odd')", f"odd-{number}", at)
        store.rows("update alerts set value = %s::float8 where rule = %s returning 1", value, f"odd-{number}")
    assert "odd-4" in (await client.get("/alerts")).words
    assert (await client.get("/")).status == 200


async def test_heartbeats_are_shown_as_held_while_an_alert_is_open(client: Client, store: Store):
    store.rows("select enqueue_heartbeats(%s)", '[{"name": "watchdog", "every_s": 60}]')
    claim(store, RULES)
    words = await words_now(client)
    assert "watchdog now queued" in words
    assert "No call follows" not in words
    fire(store, "dead-runs", "3 runs are dead")
    assert "queued No call follows while an alert is open." in await words_now(client)
