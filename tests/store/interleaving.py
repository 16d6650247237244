"""Two moves that touch one run, one of them in an open transaction: what each may do to the other.

A scene is played on fresh ground: a run in some status, a first player who makes move A and keeps its transaction open,
a second one who makes move B meanwhile, and then the first commits or rolls back. The same moves made one after the
other, without anybody in the way, say what may come of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psycopg

from tests.store.sql_clients import Lease, SqlClient

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

HOLDER: Final = 71  # the worker that has the lease, where there is one
HEIR: Final = 72  # the one that would like to have it

SETUP: Final = {
    "queued": "",
    "limited": "update job_runs set limit_key = 'one'",
    "late": "update job_runs set start_before = now() - interval '1 s'",
    "suspect": "update job_runs set crash_count = 2",
    "failed": "update job_runs set status = 'failed', attempts = 1, lease_epoch = 1, started_at = now()",
    "dead": "update job_runs set status = 'dead', dead_at = now(), attempts = 1, lease_epoch = 1, started_at = now()",
    "running": (
        "update job_runs set status = 'running', attempts = 1, lease_epoch = 1, locked_by = 71, started_at = now(),"
        " locked_until = now() + interval '1 min'"
    ),
}
SETUP["limited and running"] = f"{SETUP['limited']}; {SETUP['running']}, holds_slot = true"
SETUP["to be cancelled"] = f"{SETUP['running']}, cancel_requested_at = now()"
SETUP["lapsed"] = f"{SETUP['running']}; update job_runs set locked_until = now() - interval '1 s'"
SETUP["lapsed a third time"] = f"{SETUP['lapsed']}, crash_count = 2"

_EMPTY: Final = """
delete from job_runs; delete from job_run_history; delete from job_attempts; delete from job_steps;
delete from job_effects; insert into job_limits (key) values ('one') on conflict do nothing
"""
_LOOK: Final = """
select coalesce(live::text, 'none') || ' | ' || coalesce(past::text, 'none')
       || ' | ' || array(select row(lease_epoch, outcome) from job_attempts order by 1)::text
       || ' | ' || array(select row(name, finished_at is not null) from job_steps order by 1)::text
       || ' | ' || array(select row(key, lease_epoch, finished_at is not null) from job_effects order by 1)::text
  from (select) as nothing
  left join (select status, locked_by, lease_epoch, attempts, crash_count, release_count, holds_slot,
                    cancel_requested_at is not null as asked, dead_at is not null as died, error_type
               from job_runs where id = %(run)s) as live on true
  left join (select status, locked_by, lease_epoch, attempts, reason
               from job_run_history where id = %(run)s) as past on true
"""


def as_worker(worker_id: int, player: SqlClient) -> SqlClient:
    player.worker_id = worker_id
    return player


MOVES: Final[dict[str, Callable[[SqlClient, Lease], Any]]] = {
    "claim": lambda player, _: as_worker(HEIR, player).claim(),
    "claim_limited": lambda player, _: as_worker(HEIR, player).claim_limited("one"),
    "claim_quarantined": lambda player, _: as_worker(HEIR, player).claim_quarantined(),
    "renew": lambda player, lease: as_worker(HOLDER, player).renew(lease),
    "complete": lambda player, lease: as_worker(HOLDER, player).complete(lease),
    "fail": lambda player, lease: as_worker(HOLDER, player).fail(lease),
    "give up": lambda player, lease: as_worker(HOLDER, player).fail(lease, outcome="discarded"),
    "release": lambda player, lease: as_worker(HOLDER, player).release(lease),
    "once": lambda player, lease: as_worker(HOLDER, player).once(lease, "charge"),
    "effect": lambda player, lease: as_worker(HOLDER, player).effect(lease, "mail"),
    "step": lambda player, lease: as_worker(HOLDER, player).step(lease, "Render", 1),
    "reap": lambda player, lease: player.sql("select crashed, timed_out, dead, cancelled from reap(%s)", lease.id - 1),
    "skip_past_deadline": lambda player, _: player.value("select skip_past_deadline()"),
    "cancel": lambda player, lease: player.cancel(lease.id),
    "retry": lambda player, lease: player.retry(lease.id),
    "discard": lambda player, lease: player.discard(lease.id),
}
NEVER_WAIT: Final = {
    *("claim", "claim_limited", "claim_quarantined", "renew", "reap", "skip_past_deadline"),
    *("fail", "give up", "release"),
}
PASS_BY: Final = {*NEVER_WAIT, "effect", "step"}  # these wait for the same name in another transaction, not for the run
SHARE: Final = {"once", "effect", "step"}  # they lock the run against others, not against each other or those below
BESIDE_SHARE: Final = {"renew", "cancel"}


def side_by_side(move: str, other: str) -> bool:
    """Whether a run may be under both moves at once."""
    return move in SHARE or (move in BESIDE_SHARE and other in SHARE)


@dataclass(frozen=True)
class Outcome:
    """What the moves answered, what the run is then, and whether the second player had to wait."""

    first: Any
    second: Any
    after: str
    waited: bool = False


class Scene:
    """Plays moves on one board. Both players and the onlooker have connections of their own."""

    def __init__(self, open_player: Callable[[int], SqlClient], meanwhile: ThreadPoolExecutor) -> None:
        self.first, self.second, self.onlooker = (open_player(0) for _ in range(3))
        self._meanwhile = meanwhile
        self.onlooker.sql("alter sequence job_runs_id_seq restart 1000000000")  # no other number looks like an id
        self._in_turn: dict[tuple[str, ...], Outcome] = {}

    def _set(self, status: str) -> Lease:
        self.onlooker.sql(_EMPTY)
        run = self.onlooker.enqueue()
        if SETUP[status]:
            self.onlooker.sql(SETUP[status])
        return Lease(run, self.onlooker.value("select lease_epoch from job_runs"))

    def _look(self, lease: Lease) -> str:
        places = "select (select count(*) from job_runs) + (select count(*) from job_run_history)"
        assert self.onlooker.value(places) == 1, "the run is not in exactly one table"
        return (
            self.onlooker.conn.execute(_LOOK.encode(), {"run": lease.id}).fetchall()[0][0].replace(str(lease.id), "N")
        )

    def in_turn(self, status: str, *moves: str) -> Outcome:
        """The moves one after the other, without anybody in the way."""
        if (status, *moves) not in self._in_turn:
            lease = self._set(status)
            answers = [_made(self.first, move, lease) for move in moves]
            answers += [None] * (2 - len(answers))
            self._in_turn[status, *moves] = Outcome(answers[0], answers[1], self._look(lease))
        return self._in_turn[status, *moves]

    def at_once(self, status: str, move: str, meanwhile: str, *, commit: bool) -> Outcome:
        """The first move in a transaction, the second while it is open; then the transaction ends."""
        lease = self._set(status)
        with self.first.conn.transaction(force_rollback=not commit):
            first = _made(self.first, move, lease)
            going = self._meanwhile.submit(_made, self.second, meanwhile, lease)
            waited = self.onlooker.wait_until_blocked(self.second, going.done)
        return Outcome(first, going.result(), self._look(lease), waited)


def _made(player: SqlClient, move: str, lease: Lease) -> Any:
    """The answer of a move, without the run's id."""
    try:
        with player.conn.transaction():
            answer = MOVES[move](player, lease)
    except psycopg.Error as error:
        if error.sqlstate not in {"WB001", "55P03"}:
            raise
        return "lost" if error.sqlstate == "WB001" else "busy"
    return str(answer).replace(str(lease.id), "N")
