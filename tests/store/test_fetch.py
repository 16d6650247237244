"""What a worker gets: whose turn it is, and when it asks again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient

TIMES = ("oldest_at", "next_scan_at", "limited_at", "ask_at", "yields_since", "alone_since")
AGED = (
    "select jsonb_populate_record(s, jsonb_build_object("
    + ", ".join(f"'{name}', (s).{name} - late" for name in TIMES)
    + "))::text from (select %s::text::fetch_state as s, make_interval(secs => %s) as late) as state"
)


class Fetched(NamedTuple):
    """The priorities of the runs, and the rest of the answer."""

    ids: list[int]
    priorities: list[int]
    answer: dict[str, Any]

    @property
    def state(self) -> str:
        return self.answer["state"]


def fetch(worker: SqlClient, count: int, state: str | None = None, queues: str = "{default}", **named: Any) -> Fetched:
    query = "select id, priority, payload::text from fetch_runs(%s, 60, %s, '{ping}', %s, %s" + "".join(
        f", {name} => %s" for name in named
    )
    *runs, last = worker.sql(query + ")", worker.worker_id, queues, count, state, *named.values())
    return Fetched([run[0] for run in runs], [run[1] for run in runs], json.loads(last[2]))


def later(worker: SqlClient, state: str, seconds: float) -> str:
    """The state as if so much time had passed."""
    return worker.value(AGED, state, seconds)


def end(worker: SqlClient) -> None:
    worker.sql("delete from job_runs where locked_by = %s", worker.worker_id)


@pytest.mark.parametrize("capacity", [1, 7, 20, 150])
def test_one_of_any_twenty_runs_of_a_backlog_is_the_oldest(admin: SqlClient, worker: SqlClient, capacity: int) -> None:
    fetches = 3000 // capacity if capacity > 20 else 45
    admin.sql(
        "insert into job_runs (job_type, priority, run_at)"
        " select 'ping', case when i % 4 = 0 then 1 else 5 end, now() - make_interval(hours => 1 + (i % 4 = 0)::int)"
        "   from generate_series(1, 8000) as i"
    )
    state, old = None, 0
    for turn in range(1, fetches + 1):
        found = fetch(worker, capacity, state)
        assert len(found.ids) == capacity
        assert found.answer["again"]
        old += found.priorities.count(1)
        assert abs(old - turn * capacity / 20) <= 1
        end(worker)
        state = later(worker, found.state, 1)


def test_queues_of_a_priority_take_turns(admin: SqlClient, worker: SqlClient) -> None:
    admin.sql(
        "insert into job_runs (job_type, queue) select 'ping', unnest('{a,b,c}'::text[]) from generate_series(1, 9)"
    )
    state, served = None, set[str]()
    for _ in range(3):
        found = fetch(worker, 3, state, "{a,b,c}")
        served |= set(worker.column("select queue from job_runs where id = any (%s)", found.ids))
        state = found.state
    assert served == {"a", "b", "c"}


def test_a_run_behind_the_scan_is_found_by_the_next_full_scan(admin: SqlClient, worker: SqlClient) -> None:
    admin.sql("insert into job_runs (job_type) select 'ping' from generate_series(1, 30)")
    found = fetch(worker, 10)
    late = admin.enqueue(run_at="2020-01-01 00:00Z")
    found = fetch(worker, 10, found.state)
    assert late not in found.ids
    assert late in fetch(worker, 10, later(worker, found.state, 3)).ids


FOREIGN = (
    "insert into job_runs (job_type, priority, run_at)"
    " select 'foreign', %s, now() - '2 h'::interval from generate_series(1, 2500)"
)


@pytest.mark.parametrize("priority", [1, 5])
def test_a_run_behind_thousands_of_foreign_ones_is_found_in_a_backlog(
    admin: SqlClient, worker: SqlClient, priority: int
) -> None:
    """Of a higher priority than the backlog, at once; of a lower one, by its age."""
    admin.sql(
        "insert into job_runs (job_type, run_at) select 'ping', now() - '1 h'::interval from generate_series(1, 300)"
    )
    found = fetch(worker, 2)
    admin.sql(FOREIGN, priority)
    wanted = admin.enqueue(priority=priority, run_at="2026-01-01 00:00Z")
    admin.sql("update job_runs set run_at = now() - '90 min'::interval where id = %s", wanted)
    for _ in range(50):
        found = fetch(worker, 2, later(worker, found.state, 1))
        end(worker)
        if wanted in found.ids:
            return
    raise AssertionError("it waits for the end of the backlog")


def test_runs_with_and_without_a_limit_key_take_turns(admin: SqlClient, worker: SqlClient) -> None:
    admin.sql("select set_limit('printer', 1000)")
    admin.sql(
        "select enqueue('ping', limit_key => case when i % 2 = 0 then 'printer' end) from generate_series(1, 200) as i"
    )
    state, limited = None, 0
    for _ in range(20):
        found = fetch(worker, 2, state)
        limited += found.answer["limited"]
        state = found.state
    assert 18 <= limited <= 22


def test_an_empty_queue_is_asked_for_again_when_something_is_due(admin: SqlClient, worker: SqlClient) -> None:
    admin.sql("insert into job_runs (job_type, run_at) values ('ping', now() + interval '20 s')")
    found = fetch(worker, 10)
    assert (found.ids, found.answer["again"], found.answer["waits"]) == ([], False, False)
    assert 15 < found.answer["due_s"] <= 20
    assert fetch(worker, 10, found.state, within_s=5).answer["due_s"] is None


def test_a_run_that_waits_for_its_limit_is_asked_for_soon(admin: SqlClient, worker: SqlClient) -> None:
    first, second = admin.enqueue(limit_key="printer"), admin.enqueue(limit_key="printer")
    found = fetch(worker, 10)
    assert found.ids in ([first], [second])
    assert found.answer["limited"] == 1
    found = fetch(worker, 10, found.state)
    assert (found.ids, found.answer["waits"]) == ([], True)
    assert 0 < found.answer["retry_s"] <= 0.05
    end(worker)
    assert len(fetch(worker, 10, later(worker, found.state, 1)).ids) == 1


def test_a_limited_run_of_the_future_costs_no_more_fetches(admin: SqlClient, worker: SqlClient) -> None:
    admin.enqueue(limit_key="printer", run_at="2090-01-01 00:00Z")
    found = fetch(worker, 10)
    assert [found.answer[name] for name in ("again", "waits", "due_s", "retry_s")] == [False, False, None, None]


@pytest.mark.parametrize("keys", [199, 200, 400, 401])
def test_all_limit_keys_have_their_turn(admin: SqlClient, worker: SqlClient, keys: int) -> None:
    admin.sql("select enqueue('ping', limit_key => 'key-' || i) from generate_series(1, %s) as i", keys)
    state, found = None, set[int]()
    for _ in range(12):
        fetched = fetch(worker, 100, state)
        found |= set(fetched.ids)
        state = fetched.state
    assert len(found) == keys


@pytest.mark.parametrize("keys", [200, 450])
def test_limit_keys_that_wait_are_read_once_and_then_later(admin: SqlClient, worker: SqlClient, keys: int) -> None:
    """Whether their slots are taken, or their runs are due tomorrow: a worker must neither spin nor stay for ever."""
    paused = "insert into job_limits (key, paused_until) select 'key-' || i, now() + '1 day'"
    admin.sql(f"{paused} from generate_series(1, %s) as i", keys)
    admin.sql("select enqueue('ping', limit_key => 'key-' || i) from generate_series(1, %s) as i", keys)
    state, asked_again = None, 0
    for _ in range(20):
        found = fetch(worker, 100, state)
        asked_again += found.answer["again"]
        assert found.answer["again"] or found.answer["retry_s"] > 0
        state = found.state
    assert asked_again == 0, "the worker spins"
    admin.sql("update job_runs set run_at = now() + interval '1 day'")
    answers: list[tuple[bool, float | None]] = []
    for _ in range(8):  # to the end of this round, and the next one
        found = fetch(worker, 100, state)
        answers.append((found.answer["again"], found.answer["retry_s"]))
        state = later(worker, found.state, 1)
    assert (False, None) in answers


def test_a_worker_without_room_for_limited_runs_gets_the_others(admin: SqlClient, worker: SqlClient) -> None:
    admin.enqueue(limit_key="printer")
    free = admin.enqueue()
    assert fetch(worker, 10, limited_count=0).ids == [free]


def test_a_quarantined_run_comes_alone(admin: SqlClient, worker: SqlClient) -> None:
    poison = admin.enqueue()
    admin.crashed(poison, 2)
    assert fetch(worker, 9).answer["waits"], "the worker must ask again when its runs have ended"
    assert fetch(worker, 0, alone=True).ids == [], "a count of 0 leases nothing"
    found = fetch(worker, 9, alone=True)
    assert found.ids == [poison]
    admin.enqueue()
    found = fetch(worker, 9, found.state)
    assert found.ids == [], "a run came beside a quarantined one"
    end(worker)
    assert len(fetch(worker, 9, found.state).ids) == 1, "runs of another executor keep these waiting"


def test_a_busy_worker_yields_half_of_its_time_to_quarantine(admin: SqlClient, worker: SqlClient) -> None:
    """The quarantined run waits, and the runs in flight never end."""
    admin.crashed(admin.enqueue(run_at="2020-01-01 00:00Z"), 2)
    state, without, longest, since = None, 0, 0, 0
    for second in range(0, 6000, 5):
        admin.enqueue()
        found = fetch(worker, 1, state)
        without += not found.ids
        since = second if found.ids else since
        longest = max(longest, second - since)
        state = later(worker, found.state, 5)
    assert 0.3 < without * 5 / 6000 < 0.55
    assert longest > 10 * 30, "it yields for longer each time"


def test_after_a_quarantined_run_others_have_as_long(admin: SqlClient, worker: SqlClient) -> None:
    admin.crashed(admin.enqueue(run_at="2020-01-01 00:00Z"), 2)
    found = fetch(worker, 1, alone=True)
    state = later(worker, found.state, 600)
    end(worker)
    admin.crashed(admin.enqueue(run_at="2020-01-01 00:00Z"), 2)
    for passed in range(0, 590, 59):
        admin.enqueue()
        found = fetch(worker, 1, state)
        assert found.ids, passed
        state = later(worker, found.state, 59)
    admin.enqueue()
    assert not fetch(worker, 1, later(worker, state, 30)).ids


@pytest.mark.parametrize("state", ["", "()", "(1,2)", "nonsense", "({other},,,,,,,,,,,,,,,,,,,,,,,)"])
def test_a_state_of_another_release_begins_again(admin: SqlClient, worker: SqlClient, state: str) -> None:
    run = admin.enqueue()
    assert fetch(worker, 1, state).ids == [run]
