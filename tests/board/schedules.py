"""Schedules and finished runs for tests of pages, and what pages show."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import urlopen

import psycopg
from psycopg.types.json import Jsonb

from testbed.board_server import serving
from wakeboard.board import BoardOptions
from wakeboard.board.access import RoleViewer
from wakeboard.ticks.cron_parser import parse_cron

if TYPE_CHECKING:
    from collections.abc import Generator
    from datetime import datetime, timedelta

    from starlette.requests import HTTPConnection


class Schedules:
    """Writes schedules and runs into a database, without waiting for anything to run."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self.conn = conn

    def add(self, name: str, cron: str | None = "0 3 * * *", *, namespace: str = "billing", **columns: Any) -> int:
        """A schedule. `columns`: of job_definitions. Returns its id."""
        values = {
            "source": "file:test",
            "namespace": namespace,
            "name": name,
            "spec_hash": "5a" * 32,
            "job_type": "send_mail",
            "schedule": cron,
            "cron_fields": None if cron is None else parse_cron(cron, name=f"{namespace}/{name}").to_text(),
            **{column: Jsonb(value) if isinstance(value, dict) else value for column, value in columns.items()},
        }
        names = ", ".join(values)
        places = ", ".join(f"%({column})s" for column in values)
        query = f"insert into wakeboard.job_definitions ({names}) values ({places}) returning id"
        row = self.conn.execute(query.encode(), values).fetchone()
        assert row is not None
        return row[0]

    def ran(
        self,
        schedule_id: int,
        ended: datetime,
        *,
        took: timedelta | None = None,
        status: str = "succeeded",
        **more: Any,
    ) -> int:
        """A run in the history. `took` None: it never started. Returns its id."""
        values = {
            "scheduled_for": ended if took is None else ended - took,
            "finished_at": ended,
            "started_at": None if took is None else ended - took,
            "status": status,
            "definition_id": schedule_id,
            "reason": None,
            "skipped_until": None,
            "skipped_count": None,
            **more,
        }
        row = self.conn.execute(
            """
            insert into wakeboard.job_run_history (
              id, uuid, scheduled_for, run_at, created_at, started_at, finished_at, locked_by, lease_epoch, status,
              trigger, backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, attempts, max_attempts, crash_count,
              release_count, priority, queue, job_type, payload, definition_id, definition_generation, schedule, reason,
              skipped_until, skipped_count)
            select nextval('wakeboard.job_runs_id_seq'), gen_random_uuid(), %(scheduled_for)s, %(scheduled_for)s,
                   %(scheduled_for)s, coalesce(%(started_at)s::timestamptz, 'epoch'), %(finished_at)s, 0, 0,
                   %(status)s::wakeboard.run_status, 'tick', 'exponential', 10, 3600, 600, 1, 5, 0, 0, 3, def.queue,
                   def.job_type, '{}', def.id, def.generation, def.namespace || '/' || def.name, %(reason)s,
                   %(skipped_until)s, %(skipped_count)s
              from wakeboard.job_definitions as def where def.id = %(definition_id)s
            returning id
            """,
            values,
        ).fetchone()
        assert row is not None
        return row[0]

    def now(self) -> datetime:
        """The time of the database."""
        row = self.conn.execute("select now()").fetchone()
        assert row is not None
        return row[0]


@contextmanager
def schedules_in(database: str) -> Generator[Schedules]:
    """A connection for writing schedules. Each statement commits."""
    with psycopg.connect(database, autocommit=True) as conn:
        yield Schedules(conn)


@dataclass(frozen=True)
class Answer:
    """What the board answered. `html`: the source; `text`: without tags."""

    status: int
    html: str

    @property
    def text(self) -> str:
        return " ".join(unescape(re.sub(r"<[^>]*>", " ", self.html)).split())

    def all(self, pattern: str) -> list[Any]:
        """All that a regular expression finds in the source, with entities resolved."""
        found: list[Any] = re.findall(pattern, self.html, re.DOTALL)
        return [unescape(each) if isinstance(each, str) else tuple(map(unescape, each)) for each in found]

    def link(self, relation: str) -> str | None:
        """The path of the link with this relation."""
        found = self.all(f'<a rel="{relation}" href="([^"]*)"')
        return found[-1] if found else None

    @property
    def schedule_ids(self) -> list[int]:
        """The schedules of a list, in its order."""
        return [int(each) for each in self.all(r'<tr id="schedule-(\d+)"')]


def get(board: str, path: str) -> Answer:
    """Asks a board for a page."""
    try:
        with urlopen(board + path) as answer:
            return Answer(answer.status, answer.read().decode())
    except HTTPError as error:
        return Answer(error.code, error.read().decode())


@dataclass(frozen=True)
class TeamAccess:
    """Lets everyone in as a viewer of these namespaces."""

    namespaces: frozenset[str]
    asks_for_token = False

    async def viewer(self, request: HTTPConnection, known: object) -> RoleViewer:  # noqa: ARG002
        return RoleViewer("ana", "viewer", self.namespaces)

    async def close(self) -> None:
        pass


@contextmanager
def serving_team(database: str, *namespaces: str) -> Generator[str]:
    """A board whose viewers see these namespaces."""
    with serving(BoardOptions(dsn=database, access=TeamAccess(frozenset(namespaces)))) as address:
        yield address
