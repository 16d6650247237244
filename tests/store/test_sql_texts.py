"""The text of the SQL functions: one clock, the moment of the statement, and repeated rules that are the same text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import wakeboard
from wakeboard.engine.attempt_outcomes import ATTEMPT_OUTCOMES, FAILURES
from wakeboard.engine.run import ClaimedRow
from wakeboard.views.queries.listings import DUE_SINCE
from wakeboard.views.rules.run_explanation import QUARANTINED

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient

OTHER_CLOCKS = re.compile(
    r"\b(now\(|clock_timestamp|transaction_timestamp|current_timestamp|localtimestamp|timeofday)", re.IGNORECASE
)


def test_no_function_reads_another_clock(admin: SqlClient) -> None:
    """Except those which bound how long they take, `schema_state`, with which workers compare their clock,
    `is_unseen`, which asks whether its own transaction made the edit before, and those that write schedules of
    applications: each call in one long statement has its own moment."""
    sources = admin.sql("select proname, prosrc from pg_proc where pronamespace = 'wakeboard'::regnamespace")
    assert any("statement_timestamp" in source for _, source in sources)
    asking = {name for name, source in sources if OTHER_CLOCKS.search(re.sub(r"--.*", "", source))}
    writing = {"edit_schedule", "is_unseen", "remove_schedules", "schedule", "schedule_written"}
    assert asking == {"claim_by_age", "claim_in_order", "fetch_runs", "roll_up", "schema_state"} | writing


def test_no_column_defaults_to_the_start_of_the_transaction(admin: SqlClient) -> None:
    defaults = (
        "select attrelid::regclass::text, attname, pg_get_expr(adbin, adrelid) as given"
        "  from pg_attrdef join pg_attribute on attrelid = adrelid and attnum = adnum"
        " where adrelid::regclass::text ~ '^(wakeboard[.])?[a-z_]+$'"
    )
    rows = admin.sql(defaults)
    assert any("statement_timestamp" in row.given for row in rows)
    assert [row for row in rows if OTHER_CLOCKS.search(row.given)] == []


def test_a_run_is_due_when_it_was_enqueued_in_an_old_transaction(admin: SqlClient, worker: SqlClient) -> None:
    with admin.conn.transaction():
        admin.sql("select")
        run = admin.enqueue()
        assert admin.value("select run_at > now() and created_at > now() from job_runs where id = %s", run)
    with worker.conn.transaction():
        worker.sql("select")
        (lease,) = worker.claim(lease_s=60)
        assert worker.value("select started_at > now() from job_runs where id = %s", lease.id)
        assert worker.value("select locked_until = started_at + interval '60 s' from job_runs where id = %s", lease.id)


CORE: Final = Path(wakeboard.__file__).parent

CLAIMABLE: Final = (
    "locked_by = 0 and job_type = any (job_types) and timeout_s <= max_timeout_s"
    " and (start_before is null or start_before > statement_timestamp() or started_at > 'epoch')"
)
PAUSED: Final = re.compile(
    r"from pauses where scope in \('all', 'queue:' \|\| [\w.]+(?:\[[^]]+\])?"
    r"(, 'schedule:' \|\| \w+\.id)?\)"  # also of a schedule
)
OF_A_SKIPPED_RANGE: Final = ["reason", "skipped_until", "skipped_count"]


def _sql(*patterns: str) -> dict[str, str]:
    """The files' texts on one line each, without comments and the aliases of job_runs."""
    texts = {file.name: file.read_text("utf-8") for pattern in patterns for file in sorted(CORE.glob(pattern))}
    bare = {name: re.sub(r"--[^\n]*", "", text).replace("wakeboard.", "") for name, text in texts.items()}
    return {name: " ".join(re.sub(r"\b(free|run|job_runs)\.", "", text).split()) for name, text in bare.items()}


FUNCTIONS: Final = _sql("*/sql/**/*.sql")
EVERYWHERE: Final = FUNCTIONS | _sql("store/migrations/*.sql", "*/queries.py", "*/queries/*.py")


def _history_columns(function: str) -> list[str]:
    """The columns that the function inserts into job_run_history."""
    found = re.search(r"insert into job_run_history \((.*?)\) select ", FUNCTIONS[function])
    assert found, function
    return found[1].strip().split(", ")


def test_every_claim_has_the_same_rule_for_what_is_claimable() -> None:
    found = {name: text.count(CLAIMABLE) for name, text in FUNCTIONS.items() if "start_before is null" in text}
    assert found == {"advance_scan.sql": 1, "lock_due_runs.sql": 1, "claim_limited.sql": 1, "claim_oldest.sql": 0}
    rechecked = CLAIMABLE.replace("max_timeout_s and", "max_timeout_s and {} and").format(
        "run_at <= statement_timestamp() and crash_count < 2 and dead_at is null and limit_key is null"
    )
    assert {name for name, text in FUNCTIONS.items() if rechecked in text} == {"lock_due_runs.sql", "claim_oldest.sql"}


def test_paused_means_the_same_in_every_query() -> None:
    others = {
        "pause.sql",
        "resume.sql",
        "end_pauses.sql",
        "delete_expired.sql",
        "0002_installation.sql",
        "due_schedules.sql",
        "maintenance_due.sql",
        "update_expectations.sql",
    }
    for name, text in EVERYWHERE.items():
        uses = len(re.findall(r"\bfrom pauses\b(?! as pause\b| where scope \^@)", text))
        assert uses == len(list(PAUSED.finditer(text))) or name in others, name
        assert "join pauses" not in text, name  # Postgres may read all of them for each schedule


def test_the_crash_limits_are_the_same_everywhere() -> None:
    texts = " ".join(EVERYWHERE.values())
    limits = set(re.findall(r"\bcrash_count (<|>=) (\d+)", texts))
    assert limits == {("<", str(QUARANTINED)), (">=", str(QUARANTINED))}
    deaths = re.findall(r"\bcrashes_until_dead constant integer := (\d+)", texts)
    assert deaths == [str(QUARANTINED + 1)]


def test_the_outcomes_of_attempts_are_those_of_the_list(admin: SqlClient) -> None:
    check = "select pg_get_constraintdef(oid) from pg_constraint where conname = 'outcome_is_a_known_one'"
    assert re.findall(r"'(\w+)'", admin.value(check)) == list(ATTEMPT_OUTCOMES)
    everywhere = " ".join(EVERYWHERE.values())
    failing = {*re.findall(r"\b(?:outcome|measure) in \(('\w+', [^)]*)\)", everywhere)}
    assert {*re.findall(r"\b\w+ \+ timed_out\b(?: \+ \w+)*", everywhere)} == {" + ".join(FAILURES)}
    counted = ", ".join(f"'{outcome}'" for outcome in FAILURES)
    every = ", ".join(f"'{outcome}'" for outcome in ATTEMPT_OUTCOMES)  # of the constraint
    assert {found for found in failing if "'crashed'" in found} == {every, counted}


def test_lateness_is_the_same_expression_everywhere() -> None:
    """No figure counts from `run_at` alone; `due_since` is the expression."""
    using = {name for name, text in EVERYWHERE.items() if DUE_SINCE in text or "{DUE_SINCE}" in text}
    assert using == {
        *("run_facts.sql", "waiting.sql", "listings.py"),
        *("overview.py", "facts.py", "finished_runs.py"),
    }
    alone = {name for name, text in EVERYWHERE.items() if re.search(r"- run_at\b|min\(run_at\)", text)}
    assert alone == {"schedule_list.py"}  # runs of schedules, which no application enqueues


def test_every_function_after_which_runs_may_be_dead_notes_their_ends() -> None:
    """A schedule may run after any end of another one (`outcome: Ended`)."""
    dying = {
        name for name, text in FUNCTIONS.items() if re.search(r"\bdead_at = case\b[^,]*\bstatement_timestamp\(", text)
    }
    noting = {name for name, text in FUNCTIONS.items() if "perform note_dead_runs(" in text}
    assert dying == noting == {"fail.sql", "release.sql", "revoke_leases.sql"}


def test_all_columns_of_a_run_are_kept_in_history() -> None:
    completed = _history_columns("complete.sql")
    finished = _history_columns("finish_runs.sql")
    skipped = _history_columns("enqueue_due_ticks.sql")
    assert completed[:-1] == finished[:-1]
    assert (completed[-1:], finished[-1:]) == (["result"], ["reason"])
    assert skipped[:-3] == finished[: len(skipped) - 3]
    assert skipped[-3:] == OF_A_SKIPPED_RANGE
    table = re.search(r"create table job_run_history \((.*?) constraint", EVERYWHERE["0005_runs.sql"])
    assert table
    columns = [column.split()[0] for column in table[1].strip(", ").split(", ")]
    assert {*completed, *finished, *skipped} == set(columns)


def test_one_update_grants_leases_and_returns_the_columns_of_claimed_run() -> None:
    found = re.search(r"create type claimed_run as \((.*?)\);", EVERYWHERE["0005_runs.sql"])
    assert found
    assert [column.split()[0] for column in found[1].split(", ")] == list(ClaimedRow._fields)
    returned = ", ".join(ClaimedRow._fields)
    claims = {name for name, text in FUNCTIONS.items() if returned in re.sub(r"::\w+|\bclaimed\.", "", text)}
    assert claims == {"lease_runs.sql"}


def test_the_head_of_an_internal_function_names_its_callers() -> None:
    wrong: dict[str, str] = {}
    for file in sorted(CORE.glob("*/sql/*.sql")):
        head = file.read_text("utf-8").partition("\n")[0]
        if not (found := re.fullmatch(r"-- internal \(called by (.+)\)", head)):
            continue
        call = re.compile(rf"\b{file.stem}\s*\(")
        callers = [name[:-4] for name, text in FUNCTIONS.items() if name != file.name and call.search(text)]
        wanted = {"many functions"} if len(callers) > 8 else set(callers)
        if set(re.split(r", | and ", found[1])) != wanted:
            wrong[file.stem] = f"called by {', '.join(sorted(wanted))}"
    assert wrong == {}
