"""What a change of the server means for the commits of the former one, in sentences. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Final

from wakeboard.text.humanize import counted
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from datetime import datetime

_HAPPENED: Final = {
    "restarted": "The server has lost the end of its log",
    "promoted": "A replica was promoted, or a backup restored",
    "moved": "The database was restored from a dump, or moved to another server",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerChange:
    """Another server, or the same one after a restart, went on with the database, perhaps from an earlier moment.

    `id` 0: maintenance has not recorded it yet. `kind`: restarted, promoted or moved. `lost`: a process had committed
    something that is gone; otherwise it is unknown whether anything is. `kept_until`: the newest commit that is known
    to be kept. `seen_until`: until when the process `seen_by` had used the former server. `seen_id`: the highest id of
    a run that had been given then; `kept_id`: the highest one that cannot come again; `ids_again`: how many of those
    between can come twice.
    """

    id: int
    noticed_at: datetime
    kind: str
    lost: bool
    from_system: int | None = None
    from_timeline: int | None = None
    to_system: int | None = None
    to_timeline: int | None = None
    kept_until: datetime
    kept_id: int = 0
    seen_until: datetime | None = None
    seen_id: int | None = None
    seen_by: str | None = None
    ids_again: int = 0


def moment(at: datetime) -> str:
    """A moment to the millisecond, in UTC."""
    utc = at.astimezone(UTC)
    return f"{utc:%Y-%m-%d %H:%M:%S}.{utc.microsecond // 1000:03} UTC"


def change_sentence(change: ServerChange) -> str:
    """What happened, when, and whether commits were lost, as far as is known."""
    where = f" (timeline {change.from_timeline} to {change.to_timeline})" if change.kind == "promoted" else ""
    noticed = f"noticed at {moment(change.noticed_at)}" if change.id else "not recorded yet"
    return f"{_HAPPENED[change.kind]}{where}, {noticed}. {_loss(change)}{_ids(change)}"


def _loss(change: ServerChange) -> str:
    kept = moment(change.kept_until)
    if change.lost:
        return f"Commits after {kept} are lost.{_seen(change)}"
    if change.kind == "moved":
        return f"It has what was committed until {kept}; whether later commits are lost is unknown.{_seen(change)}"
    return f"Whether commits after {kept} are lost is unknown: none had to wait for a replica."


def _seen(change: ServerChange) -> str:
    if change.seen_until is None:
        return ""
    return f" The former server had still answered {one_line(change.seen_by or '')} at {moment(change.seen_until)}."


def _ids(change: ServerChange) -> str:
    if not change.ids_again:
        return ""
    again = counted(change.ids_again, "run id")
    return f" At least {again} can come twice: {change.kept_id + 1} to {change.seen_id}."
