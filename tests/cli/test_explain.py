"""`wakeboard explain` names each obstacle of a run or a schedule, in one sentence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import anyio

from tests.cli.sample_store import WORKER
from wakeboard.health.queries.facts import read_due
from wakeboard.store.connection import connect

if TYPE_CHECKING:
    from tests.cli.conftest import Cli, Explain
    from tests.cli.sample_store import SampleStore

CLAIMABLE = (
    "A worker that is free and allows a timeout of 600 s (WAKEBOARD_MAX_TIMEOUT_SECONDS) claims it,"
    " unless another transaction has locked it or its limit."
)

# -- runs that wait


def test_a_run_that_nothing_holds_is_claimable(served: SampleStore, explain: Explain):
    run = served.enqueue()
    assert explain(run) == [f"run {run} of ping is queued.", "It became due ….", CLAIMABLE]


def test_a_pause_says_what_it_holds_who_paused_and_why(served: SampleStore, explain: Explain):
    definition = served.add_schedule("report")
    run = served.run_now(definition)
    served.sql("select wakeboard.pause('all', 'the disk is full', 'ana')")
    served.sql("select wakeboard.pause('queue:default', actor => 'bob')")
    served.sql("select wakeboard.pause(%s, 'wrong figures', 'eve')", f"schedule:{definition}")
    assert explain(run)[1:4] == [
        "Everything is paused by ana since …: the disk is full.",
        "The queue default is paused by bob since ….",
        "Its schedule, which creates no further runs meanwhile, is paused by eve since …: wrong figures.",
    ]


def test_a_run_behind_a_full_limit_names_the_runs_that_hold_it(served: SampleStore, explain: Explain):
    served.sql("select wakeboard.set_limit('openai', 2)")
    holders = [served.enqueue(limit_key="openai") for _ in range(2)]
    for run in holders:
        served.sql("update wakeboard.job_runs set run_at = run_at - interval '1 s' where id = %s", run)
    query = "select id from wakeboard.claim_limited(%s, 60, '{default}', '{ping}', '{openai}', 2)"
    assert sorted(row[0] for row in served.sql(query, WORKER)) == holders

    waiting = explain(served.enqueue(limit_key="openai"))

    assert waiting[1] == (
        f"The limit key openai allows 2 runs at a time, and 2 are running: runs {holders[0]}, {holders[1]}."
    )


def test_a_run_behind_an_exhausted_rate_says_when_the_next_one_starts(served: SampleStore, cli: Cli, explain: Explain):
    cli("limit", "mail", "--rate", "1/hour")
    served.claim(served.enqueue(limit_key="mail"))
    line = explain(served.enqueue(limit_key="mail"))[1]
    assert re.fullmatch(r"The limit key mail has used up its rate; the next run starts in (59|60) min\.", line)


def test_a_run_that_no_worker_serves_says_so(served: SampleStore, explain: Explain):
    assert explain(served.enqueue(queue="gpu"))[1] == "No worker has served the queue gpu in the last 10 minutes."
    assert explain(served.enqueue("unknown"))[1] == (
        "No worker of the queue default has had a handler for unknown in the last 10 minutes."
    )


def test_a_run_counts_the_runs_before_it(served: SampleStore, explain: Explain):
    served.enqueue()
    for _ in range(2):
        served.enqueue(priority=5)
    served.enqueue(queue="other")
    run = served.enqueue()
    assert explain(run)[1:] == ["It waits behind 2 runs of higher priority and 1 earlier run of its queue."]
    for _ in range(3):
        served.enqueue(limit_key="mail", priority=4)
    assert explain(served.enqueue(limit_key="mail"))[1] == (
        "It waits behind 3 runs of higher priority of its queue and limit key."
    )


def test_a_run_does_not_wait_behind_runs_that_its_workers_cannot_claim(served: SampleStore, explain: Explain):
    """Another pool serves `invoice`. No worker serves `unknown`. The third one is skipped at its deadline."""
    served.sql("insert into wakeboard.worker_types (job_type, queue, pool) values ('invoice', 'default', 'other')")
    served.enqueue("unknown")
    served.enqueue("invoice", priority=5)
    late = served.enqueue()
    served.sql("update wakeboard.job_runs set start_before = now() - interval '1 min' where id = %s", late)
    run = served.enqueue()
    assert explain(run)[1:] == ["It became due ….", CLAIMABLE]
    served.enqueue(priority=5)
    assert explain(run)[1:] == ["It waits behind 1 run of higher priority of its queue."]
    served.sql("update wakeboard.worker_types set last_known_at = now() - interval '11 min' where pool <> 'other'")
    assert "waits behind" not in str(explain(run))


def test_the_runs_before_it_are_a_lower_bound_if_some_are_unread(served: SampleStore, explain: Explain):
    served.enqueue(priority=5)
    served.sql("insert into wakeboard.job_runs (job_type, priority) select 'unknown', 5 from generate_series(1, 1100)")
    assert explain(served.enqueue())[1] == "It waits behind 1+ runs of higher priority of its queue."


# -- runs that run, are dead or have ended


def test_a_running_run_says_where_since_when_and_for_how_long(served: SampleStore, explain: Explain):
    run = served.enqueue()
    served.claim(run)
    served.sql("select wakeboard.cancel(array[%s]::bigint[])", run)
    assert explain(run) == [
        f"run {run} of ping is running.",
        "The worker worker-a has been executing attempt 1 of 5 since ….",
        "Its lease ends … unless the worker renews it.",
        "A stop was requested ….",
    ]
    served.sql("update wakeboard.job_runs set locked_until = now() - interval '1 s' where id = %s", run)
    assert explain(run)[1] == (
        "The worker worker-a has not renewed its lease, which expired …. Maintenance takes it back,"
        " unless another transaction has locked the run."
    )


def test_a_dead_run_says_why_and_what_to_type(served: SampleStore, explain: Explain):
    run = served.enqueue()
    served.fail(run, "no\nluck", outcome="discarded")
    assert explain(run) == [
        f"run {run} of ping is dead.",
        "It stays dead until a user retries or discards it. It became dead ….",
        "Its last error, after 1 of 5 attempts: ValueError: no luck",
        f"`wakeboard retry {run}` runs it again, `wakeboard discard {run}` moves it to history.",
    ]
    served.sql("update wakeboard.job_runs set crash_count = 3 where id = %s", run)
    assert explain(run)[2] == "It was running at 3 crashes of its workers."


def test_a_finished_run_says_what_happened(served: SampleStore, explain: Explain):
    run = served.run_with_status("succeeded")
    again = f"`wakeboard replay {run}` enqueues a copy of it."
    happened = explain(run)
    assert re.fullmatch(r"Attempt 1 of 5 succeeded …, after \d+ ms\.", happened[1])
    assert happened[2] == again

    cancelled = served.enqueue()
    served.sql("select wakeboard.cancel(array[%s]::bigint[], 'a mistake', 'ana')", cancelled)
    assert explain(cancelled)[1] == "It was cancelled by ana …: a mistake."
    assert explain(served.run_with_status("discarded"))[2] == (
        "Its last error, after 1 of 5 attempts: ValueError: no luck"
    )


# -- schedules


def test_an_active_schedule_says_when_its_next_tick_is(served: SampleStore, explain: Explain):
    served.add_schedule("report")
    assert explain("report") == ["schedule billing/report is active.", "Its next tick is …."]
    assert explain("billing/report") == explain("report")


def test_a_schedule_whose_removal_waits_says_what_to_confirm(served: SampleStore, explain: Explain):
    definition = served.add_schedule("report")
    served.sql("select wakeboard.request_removal('file:test', 'hash', 12)")
    assert explain("report")[1] == (
        "The removal of 12 schedules of its source waits for `wakeboard confirm removal file:test` since …;"
        " it may be one of them."
    )
    served.sql("select wakeboard.suspend_definitions('file:test', array[%s]::bigint[])", definition)
    assert explain("report") == [
        "schedule billing/report is suspended.",
        "It is suspended, because its object no longer exists: no tick becomes a run.",
        "The removal of 12 schedules of its source waits for `wakeboard confirm removal file:test` since ….",
    ]


def test_a_suspended_schedule_says_who_suspended_it(served: SampleStore, explain: Explain):
    served.sql("select wakeboard.schedule('past/report', 'report', suspended => true)")
    declared = served.add_schedule("past/declared")
    served.sql("update wakeboard.job_definitions set suspended = true where id = %s", declared)
    assert explain("past/report")[1] == "It is suspended by an application (`suspended`): no tick becomes a run."
    assert explain("past/declared")[1] == "It is suspended by its specification (suspend: true): no tick becomes a run."


def test_a_removed_schedule_says_what_removed_it(served: SampleStore, cli: Cli, explain: Explain):
    served.sql("select wakeboard.schedule('past/once', 'report', at => '2020-01-01T00:00:00Z')")
    served.sql("select wakeboard.schedule('past/report', 'report', cron => '@daily')")
    definition = served.sql("select id from wakeboard.job_definitions where name = 'once'")[0][0]
    served.sql(
        "update wakeboard.job_definitions set removed_at = statement_timestamp(), next_run_at = null where id = %s",
        definition,
    )
    served.sql("select wakeboard.unschedule('past/report')")
    declared = served.add_schedule("past/declared")
    served.sql("select wakeboard.remove_definitions('file:test', array[%s]::bigint[])", declared)
    assert explain("past/once")[:2] == ["schedule past/once is removed.", "It removed itself …, after its last tick."]
    assert explain("past/report")[1] == "It was removed …: an application removed it."
    assert explain("past/declared")[1] == "It was removed …: its source file:test no longer declares it."
    assert cli("next", "past/once").lines[0] == "past/once: at 2020-01-01T00:00:00Z. It is removed."


def test_a_late_tick_reports_missing_maintenance(sample: SampleStore, explain: Explain):
    sample.add_schedule("report", due_in="-10 min")
    assert explain("report")[1:3] == [
        "Its tick of … has not become a run yet.",
        "No operator leads, and no worker has been seen yet.",
    ]
    sample.register_worker("report")
    sample.sql("select * from wakeboard.reap(0, always => true)")
    assert explain("report")[2:] == ["Maintenance was last done …."]
    for table, column in (("workers", "last_seen"), ("worker_types", "last_known_at")):
        sample.sql(f"update wakeboard.{table} set {column} = now() - interval '5 min'")
    assert explain("report")[2] == "No operator leads, and no worker has been seen since …."
    sample.sql("select * from wakeboard.acquire_leadership('k8s:one', 'operator', '1.0', 15)")
    assert explain("report")[2] == "Maintenance was last done …."


def test_a_schedule_that_no_worker_has_seen_shows_its_ticks(served: SampleStore, cli: Cli, explain: Explain):
    sql = "select wakeboard.schedule(%s, 'report', {} => %s, starts_at => '2020-01-01T00:30:00Z')"
    for name, argument, text in (("cron", "cron", "30 * * * *"), ("every", "every", "1 h")):
        served.sql(sql.format(argument), f"new/{name}", text)
        assert "No worker has computed its ticks yet, which count from …." in explain(f"new/{name}")
        assert ":30 " in cli("next", f"new/{name}").lines[2]


def test_a_misspelled_job_type_is_answered_with_the_one_that_is_meant(
    sample: SampleStore, explain: Explain, cli: Cli, database: str
):
    async def meant_in_up() -> list[str | None]:
        async with await connect(database) as conn:
            return [each.meant for each in await read_due(conn)]

    sample.register_worker("send_mail")
    sample.add_schedule("mails", job_type="send_mial")
    run = sample.enqueue("sendmail")
    sample.sql("update wakeboard.job_runs set run_at = now() - interval '1 h', created_at = now() - interval '1 h'")
    question = "Did you mean send_mail?"
    assert [line.endswith(question) for line in explain("mails")].count(True) == 1
    assert [line.endswith(question) for line in explain(run)].count(True) == 1
    assert "Did you mean send_mail?" in " ".join(cli("check").out.split())
    assert anyio.run(meant_in_up) == ["send_mail"]
    sample.register_worker("send_mail", "sendmail")
    sample.sql("update wakeboard.worker_types set last_known_at = now() - interval '1 h'")  # it was no mistake
    assert anyio.run(meant_in_up) == [None]


def test_a_schedule_names_its_dead_runs_its_last_run_and_skipped_ticks(served: SampleStore, explain: Explain):
    definition = served.add_schedule("report", due_in="-1 minute")
    first, second = served.run_now(definition), served.run_now(definition)
    served.succeed(first)
    served.fail(second, outcome="discarded")
    enqueue = (
        "select * from wakeboard.enqueue_due_ticks(%s, %s, array(select next_run_at from wakeboard.job_definitions"
    )
    served.sql(
        f"{enqueue} where id = any (%s)), array[now() + interval '1 h'], array[now() - interval '1 min'], '{{null}}',"
        " '{}', '{}', %s, array[now() - interval '1 h'], array[now() - interval '1 min'], '{60}', '{Paused}')",
        [definition], [1], [definition], [definition],
    )  # fmt: skip
    assert explain("report")[2:] == [
        f"Its run {second} is dead.",
        "60 ticks up to … were skipped: it was paused.",
        f"Its last run {first} succeeded ….",
    ]
    skipped = served.value("select id from wakeboard.job_run_history where status = 'skipped'")
    assert explain(skipped)[1:] == ["60 ticks up to … were skipped: it was paused."]


# -- what the user types, and the answer


def test_a_schedule_may_be_called_like_a_uuid(served: SampleStore, explain: Explain):
    served.add_schedule("deadbeef")
    assert explain("deadbeef")[0] == "schedule billing/deadbeef is active."
    run = served.enqueue()
    uuid = served.value("select uuid::text from wakeboard.job_runs where id = %s", run)
    assert explain(uuid[:8])[0] == explain(uuid)[0] == f"run {run} of ping is queued."


def test_json_has_each_fact_with_its_name_and_time(served: SampleStore, cli: Cli):
    run = served.enqueue(run_at="2999-01-01 00:00Z")
    assert cli("explain", str(run), "--json").json == {
        "kind": "run", "id": run, "name": None, "state": "queued",
        "facts": [
            {
                "fact": "not_due",
                "text": "It is due 2999-01-01T00:00:00.000Z.",
                "at": "2999-01-01T00:00:00.000Z",
            }
        ],
    }  # fmt: skip
    definition = served.add_schedule("report")
    found = cli("explain", "report", "--json").json
    assert (found["kind"], found["id"], found["name"], found["state"]) == (
        "schedule", definition, "billing/report", "active",
    )  # fmt: skip
    assert [fact["fact"] for fact in found["facts"]] == ["next_tick"]


def test_an_open_circuit_is_named_by_explain_schedules_and_check(cli: Cli, sample: SampleStore):
    definition = sample.add_schedule("weekly-report", suspend_after_dead=3)
    sample.sql(
        "update wakeboard.job_definitions set circuit_opened_at = now(), circuit_probes = 0,"
        f" circuit_probe_at = now() + interval '1 h' where id = {definition}"
    )
    explained = cli("explain", "billing/weekly-report").out
    assert "because 3 runs of its ticks died one after another: its ticks are skipped." in explained
    assert "schedule billing/weekly-report has an open circuit.\n" in explained
    assert "`wakeboard resume schedule billing/weekly-report` continues now." in explained
    assert "circuit open" in cli("schedules").out
    assert (
        "1 schedule stopped after dead runs (suspendAfterDead), for example billing/weekly-report." in cli("check").out
    )
    assert cli("resume", "schedule", "weekly-report").out == "schedule billing/weekly-report is resumed.\n"
    assert "circuit" not in cli("explain", "billing/weekly-report").out
    assert "circuit open" not in cli("schedules").out
