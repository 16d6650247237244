"""Resolves what the user typed: a schedule by its name, runs by id or uuid, filter options to a RunSearch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from wakeboard.cli.support.time_args import time_since
from wakeboard.cli.support.usage_errors import quoted
from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.text.humanize import counted
from wakeboard.text.object_ids import parse_id
from wakeboard.text.similar_names import closest

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from wakeboard.cli.support.read_model import ReadModel
    from wakeboard.cli.support.session import CommandSession
    from wakeboard.views.rules.run_search import RunSearch
    from wakeboard.views.rules.schedule_rows import ScheduleName

UUID_DIGITS = 32
MIN_UUID_DIGITS = 8
MAX_CHOICES = 5  # names in an error message
_UUID_PREFIX = re.compile(r"[0-9a-f-]+…?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class UuidRange:
    """The uuids that begin with `text`. `run_id`: `text` is an id too, and a run that has it precedes them."""

    text: str
    first: UUID
    last: UUID
    run_id: int | None = None

    @property
    def complete(self) -> bool:
        """`text` is a whole uuid."""
        return self.first == self.last


async def find_schedule(listings: ReadModel, text: str, *, include_removed: bool = False) -> ScheduleName:
    """The schedule called name, namespace/name or source/namespace/name. A current schedule precedes a removed one.

    Raises WakeboardError if there is none (with the closest name) or more than one.
    """
    first, _, rest = text.partition("/")
    matching = await listings.schedule_names(text, whole=True)
    matching += [known for known in await listings.schedule_names(rest, whole=True) if known.full == text]
    for removed in (False, True) if include_removed else (False,):
        found = [known for known in matching if known.removed == removed]
        if len(found) == 1:
            return found[0]
        if found:
            raise WakeboardError(f"{text!r} is the name of {counted(len(found), 'schedule')}: write {_choices(found)}.")
    names = [
        known
        for begin in dict.fromkeys((text, f"{first}/", text[:1], ""))
        for known in await listings.schedule_names(begin)
        if include_removed or not known.removed
    ]
    raise WakeboardError(f"there is no schedule {quoted(text)}{_suggestion(text, names)}")


def no_longer_there(known: ScheduleName) -> WakeboardError:
    """The error for a schedule that was found, and deleted meanwhile."""
    return WakeboardError(f"there is no schedule {quoted(known.short)} any more.")


def _choices(found: Sequence[ScheduleName]) -> str:
    shorts = [known.short for known in found]
    return _listed(shorts if len(set(shorts)) == len(shorts) else [known.full for known in found])


def _suggestion(text: str, names: Sequence[ScheduleName]) -> str:
    if not names:
        return ": there are no schedules yet (`wakeboard apply DIR` creates them, or an application)."
    by_name = {known.name: known.short for known in names} | {known.short: known.short for known in names}
    close = closest(text, by_name)
    return f"; did you mean {close}?" if close else ": `wakeboard schedules` lists them."


async def find_runs(listings: ReadModel, runs: Sequence[int | UuidRange]) -> list[int]:
    """The ids of these runs. Raises WakeboardError if a uuid matches no run, or several."""
    complete = [run.first for run in runs if isinstance(run, UuidRange) and run.complete]
    known = await listings.ids_of(complete) if complete else {}
    return [run if isinstance(run, int) else await _id_of(listings, run, known) for run in runs]


async def _id_of(listings: ReadModel, uuids: UuidRange, known: Mapping[UUID, int]) -> int:
    if uuids.run_id is not None and await listings.has_run(uuids.run_id):
        return uuids.run_id
    if uuids.first in known:
        return known[uuids.first]
    found = [] if uuids.complete else await listings.ids_between(uuids.first, uuids.last)
    if not found and uuids.run_id is not None:
        return uuids.run_id  # the caller says that there is no such run, or knows what happened to it
    if not found:
        raise no_such_run(uuids.text)
    if len(found) > 1:
        choices = _listed([str(uuid) for uuid, _ in found])
        raise WakeboardError(f"the uuids of several runs begin with {uuids.text}: write {choices}.")
    return found[0][1]


def no_such_run(text: str) -> WakeboardError:
    """The error for a run that is neither live nor in history."""
    return WakeboardError(f"there is no run {text}; it may be older than the retention of the history.")


def parse_run(text: str) -> int | UuidRange:
    """Parses a run's id, its uuid, or the beginning of its uuid. Raises InvalidValue."""
    run_id = parse_id(text)
    digits = text.rstrip("…").replace("-", "").lower()
    may_be_uuid = _UUID_PREFIX.fullmatch(text) and MIN_UUID_DIGITS <= len(digits) <= UUID_DIGITS
    if run_id is not None and not may_be_uuid:
        return run_id
    if (text.isdigit() and run_id is None) or not may_be_uuid:
        raise InvalidValue(
            f"{quoted(text)} is not a run: write its id (a whole number), its uuid, or the first 8 characters of its"
            " uuid."
        )
    return UuidRange(text, UUID(digits.ljust(UUID_DIGITS, "0")), UUID(digits.ljust(UUID_DIGITS, "f")), run_id)


def _listed(names: Sequence[str]) -> str:
    *others, last = names[:MAX_CHOICES]
    more = f" or one of {len(names) - MAX_CHOICES} more" if len(names) > MAX_CHOICES else ""
    return (f"{', '.join(others)} or {last}" if others else last) + more


async def run_search(
    session: CommandSession,
    statuses: Sequence[str] | None,
    schedule: str | None,
    job_type: str | None,
    queue: str | None,
    since: timedelta | datetime | None,
) -> RunSearch:
    """The search that these options are. Raises WakeboardError if there is no such schedule."""
    from wakeboard.views.rules.run_search import RunSearch, exact_term

    known = await find_schedule(session.listings, schedule, include_removed=True) if schedule is not None else None
    terms = [
        *session.listings.scope,
        exact_term("status", *statuses) if statuses else None,
        exact_term("schedule", known.short) if known else None,
        exact_term("type", job_type) if job_type is not None else None,
        exact_term("queue", queue) if queue is not None else None,
        exact_term("since", moment=time_since(since, session.now)) if since is not None else None,
    ]
    return RunSearch(terms=tuple(term for term in terms if term is not None))
