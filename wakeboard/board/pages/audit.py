"""The audit page: who changed what, when, why and through which program. Newest first, page by page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from wakeboard.board.routing import BoardRequest, Page, page
from wakeboard.errors import InvalidValue
from wakeboard.text.object_ids import parse_id
from wakeboard.text.sanitize import one_line
from wakeboard.views.queries.audit import ACTIONS, SOURCES, AuditFilter, audit_rows
from wakeboard.views.queries.listings import Listings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wakeboard.store.connection import AsyncConnection
    from wakeboard.views.rules.audit_rows import AuditRow

PAGE_SIZE: Final = 50
OF_SCHEDULE: Final = 20
FIELDS: Final = ("actor", "action", "source", "run", "schedule", "bulk", "since")
SINCE: Final[Mapping[str, timedelta]] = {
    "1h": timedelta(hours=1),
    "24h": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditModel:
    """The model of the page. `query`: the filters as they were given. `older`: the link to the next page, or None."""

    now: datetime
    rows: Sequence[AuditRow]
    query: Mapping[str, str]
    is_first: bool
    older: str | None
    actions: Sequence[str] = ACTIONS
    sources: Sequence[str] = SOURCES
    spans: Sequence[str] = tuple(SINCE)


def audit_filter(query: Mapping[str, str], namespaces: frozenset[str] | None, now: datetime) -> AuditFilter:
    """The filter that the URL asks for, within what the viewer may see. Raises InvalidValue."""
    action, source, since = query["action"], query["source"], query["since"]
    if action and action not in ACTIONS:
        raise InvalidValue(f"action is {one_line(action)[:60]!r}: choose one of {', '.join(ACTIONS)}")
    if source and source not in SOURCES:
        raise InvalidValue(f"source is {one_line(source)[:60]!r}: choose one of {', '.join(SOURCES)}")
    schedule = query["schedule"]
    bulk = _number("bulk", query["bulk"])
    return AuditFilter(
        actor=query["actor"] or None,
        action=action or None,
        source=source or None,
        run_id=_number("run", query["run"]),
        definition_id=int(schedule) if _is_number(schedule) else None,
        schedule=schedule if schedule and not _is_number(schedule) else None,
        bulk_action_id=bulk,
        since=_since(since, now),
        namespaces=None if namespaces is None else tuple(sorted(namespaces)),
        outline=bulk is None and not query["run"],
    )


def _is_number(text: str) -> bool:
    return parse_id(text) is not None


def _number(name: str, text: str) -> int | None:
    if text and not _is_number(text):
        raise InvalidValue(f"{name} is {one_line(text)[:60]!r}: write a number")
    return int(text) if text else None


def _since(text: str, now: datetime) -> datetime | None:
    if not text:
        return None
    if text in SINCE:
        return (now - SINCE[text]).replace(second=0, microsecond=0)  # of a whole minute, so that reads are shared
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValue(f"since is {one_line(text)[:60]!r}: write for example 24h or 2026-11-21T12:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@page("/audit")
async def audit(request: BoardRequest) -> Page:
    """Shows audit rows."""
    query = {name: request.query.get(name, "").strip()[:200].replace("\0", "") for name in FIELDS}
    before = _number("before", request.query.get("before", ""))
    wanted = audit_filter(query, request.viewer.namespaces, datetime.now(UTC))

    async def read(conn: AsyncConnection) -> tuple[datetime, list[AuditRow]]:
        return await Listings(conn).now(), await audit_rows(conn, wanted, PAGE_SIZE + 1, before=before)

    now, rows = await request.read(("audit", wanted, before), read)
    links: dict[str, Any] = dict(query)
    model = AuditModel(
        now=now,
        rows=rows[:PAGE_SIZE],
        query=query,
        is_first=before is None,
        older=request.url("/audit", **links, before=rows[PAGE_SIZE - 1].id) if len(rows) > PAGE_SIZE else None,
    )
    return Page("audit.html", model, "Audit")


async def audit_of_schedule(request: BoardRequest, definition_id: int) -> list[AuditRow]:
    """The newest rows of a schedule and its runs, for its page."""
    wanted = AuditFilter(definition_id=definition_id, outline=True)
    return await request.read(("audit of schedule", definition_id), lambda conn: audit_rows(conn, wanted, OF_SCHEDULE))
