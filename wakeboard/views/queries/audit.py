"""Read-only queries of the audit log and of bulk actions.

Lists are read by key, newest first: pass the id of the last row as `before` for the next ones. Each page is a short
scan of an index, however many rows there are. Needs SELECT on the tables, which the viewer's and the operator's role
have. The fields of the rows are public: they are the keys of `--json`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg.rows import class_row

from wakeboard.store.statements import read
from wakeboard.views.rules.audit_rows import AuditRow

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import psycopg


ACTIONS = (  # that write audit rows: the names of the SQL functions
    "acknowledge_server_changes",
    "cancel",
    "cancel_backfill",
    "cancel_bulk_action",
    "confirm_removal",
    "create_backfill",
    "create_bulk_action",
    "discard",
    "pause",
    "release_effect",
    "replay",
    "resume",
    "retry",
    "reveal",
    "revoke",
    "run_now",
    "send_test_notification",
    "set_audit_retention",
    "set_max_schedules",
    "set_limit",
    "set_misfire_grace",
    "set_rate_limit",
    "set_retention",
    "silence_alert",
)
SOURCES = ("board", "cli", "kubectl", "sql", "up")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Selects the audit rows that match all given fields.

    `run_id`: rows of this run, also of the replay that created it. `since`: at or after that time. `namespaces`: only
    rows of schedules in these, and of their runs. `outline`: without the rows of the single runs of bulk actions.
    `schedule`: the namespace/name of a schedule, of whichever source.
    """

    actor: str | None = None
    action: str | None = None
    source: str | None = None
    schedule: str | None = None
    run_id: int | None = None
    definition_id: int | None = None
    bulk_action_id: int | None = None
    since: datetime | None = None
    namespaces: Sequence[str] | None = None
    outline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkActionRow:
    """A bulk action and its progress. `done`: runs with an answer, of which `refused` were refused.

    `filter`: which runs, as it was shown to the user. `finished_at` None: batches remain. `cancelled_at`: it ended
    before all runs were done.
    """

    id: int
    action: str
    filter: str
    reason: str
    actor: str
    source: str
    database_user: str
    created_at: datetime
    total: int
    done: int
    refused: int
    cancelled_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkActionRun:
    """A run of a bulk action. `answer` None: it was not executed, or not yet."""

    run_id: int
    answer: str | None


_ROWS: LiteralString = """
select id, at, actor::text, source::text, database_user, action, run_id, run_uuid, new_run_id, definition_id, schedule,
       scope, reason, detail, bulk_action_id
  from wakeboard.audit_log
 where (%(before)s::bigint is null or id < %(before)s)
       and (%(actor)s::text is null or actor = %(actor)s)
       and (%(action)s::text is null or action = %(action)s)
       and (%(source)s::text is null or source = %(source)s)
       and (%(schedule)s::text is null
            or definition_id in (select def.id from wakeboard.job_definitions as def
                                  where def.namespace collate "C" = split_part(%(schedule)s, '/', 1)
                                    and def.name collate "C" = substr(%(schedule)s, strpos(%(schedule)s, '/') + 1)))
       and (%(run_id)s::bigint is null or run_id = %(run_id)s or new_run_id = %(run_id)s)
       and (%(definition_id)s::bigint is null or definition_id = %(definition_id)s)
       and (%(bulk_action_id)s::bigint is null or bulk_action_id = %(bulk_action_id)s)
       and (%(since)s::timestamptz is null or at >= %(since)s)
       and (not %(outline)s::boolean or bulk_action_id is null or run_id is null)
"""
_AUDIT: LiteralString = f"{_ROWS} order by id desc limit %(count)s"
# Each namespace has its newest rows at the end of an index.
_AUDIT_OF_NAMESPACES: LiteralString = f"""
select kept.*
  from unnest(%(namespaces)s::text[]) as visible (namespace)
 cross join lateral (
   {_ROWS} and schedule is not null and split_part(schedule, '/', 1) = visible.namespace
    order by id desc limit %(count)s) as kept
 order by id desc
 limit %(count)s
"""
_BULK_ACTIONS: LiteralString = """
select id, action, filter, reason, actor::text, source::text, database_user, created_at, total, done, refused,
       cancelled_at, finished_at
  from wakeboard.bulk_actions
 where (%(before)s::bigint is null or id < %(before)s)
       and (%(id)s::bigint is null or id = %(id)s)
       and (not %(unfinished)s::boolean or finished_at is null)
       and (%(board_actor)s::text is null or source = 'board' and actor = %(board_actor)s)
 order by id desc
 limit %(count)s
"""
_BULK_ACTION_RUNS: LiteralString = """
select run_id, answer
  from wakeboard.bulk_action_runs
 where bulk_action_id = %(id)s and (not %(refused)s::boolean or answer like 'refused%%')
 order by run_id
 limit %(count)s
"""


async def audit_rows(
    conn: psycopg.AsyncConnection[Any], wanted: AuditFilter, count: int, *, before: int | None = None
) -> list[AuditRow]:
    """The newest `count` rows that fit, newest first. `before`: only rows with a smaller id."""
    values = {**asdict(wanted), "count": count, "before": before}
    if wanted.namespaces is None:
        return await read(conn, class_row(AuditRow), _AUDIT, values)
    values["namespaces"] = sorted(set(wanted.namespaces))  # a tuple is sent as a row
    return await read(conn, class_row(AuditRow), _AUDIT_OF_NAMESPACES, values)


async def bulk_actions(
    conn: psycopg.AsyncConnection[Any],
    count: int,
    *,
    before: int | None = None,
    unfinished: bool = False,
    board_actor: str | None = None,
) -> list[BulkActionRow]:
    """The newest `count` bulk actions, newest first.

    `unfinished`: only those with batches that remain. `board_actor`: only those that this user of the board created.
    """
    values = {"before": before, "id": None, "unfinished": unfinished, "count": count, "board_actor": board_actor}
    return await read(conn, class_row(BulkActionRow), _BULK_ACTIONS, values)


async def bulk_action(conn: psycopg.AsyncConnection[Any], bulk_action_id: int) -> BulkActionRow | None:
    """The bulk action with this id; None: there is none, or it was deleted."""
    values = {"before": None, "id": bulk_action_id, "unfinished": False, "count": 1, "board_actor": None}
    found = await read(conn, class_row(BulkActionRow), _BULK_ACTIONS, values)
    return found[0] if found else None


async def bulk_action_runs(
    conn: psycopg.AsyncConnection[Any], bulk_action_id: int, count: int, *, refused: bool = False
) -> list[BulkActionRun]:
    """The first runs of a bulk action, by id. `refused`: only refused ones."""
    values = {"id": bulk_action_id, "count": count, "refused": refused}
    return await read(conn, class_row(BulkActionRun), _BULK_ACTION_RUNS, values)
