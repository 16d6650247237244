"""Finding what a person means: a schedule by as much of its name as is unique, runs by id or uuid."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING
from uuid import UUID

from wakeboard.cli.usage_errors import shown
from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.rules.humanize import counted

if TYPE_CHECKING:
    from wakeboard.store.queries.listings import Listings, ScheduleName

LARGEST_ID = 2**63 - 1
LONGEST_ID = 40  # characters, leading zeros among them
UUID_DIGITS = 32
LEAST_UUID = 8  # digits that tell a run from others
_UUID_BEGINS = re.compile(r"[0-9a-f-]+…?", re.IGNORECASE)
SHOWN = 5  # names in a sentence


@dataclass(frozen=True, slots=True)
class Uuids:
    """The uuids that begin with `text`."""

    text: str
    first: UUID
    last: UUID

    @property
    def whole(self) -> bool:
        """Nothing is left out."""
        return self.first == self.last


async def find_schedule(reports: Listings, text: str, *, removed_too: bool = False) -> ScheduleName:
    """The schedule called name, namespace/name or source/namespace/name. One that exists goes before a removed one.

    Raises WakeboardError when there is none (with the nearest name) or several.
    """
    *_, name = text.split("/")
    fitting = [known for known in await reports.schedule_names(name) if addresses(text, known)]
    for removed in (False, True) if removed_too else (False,):
        found = [known for known in fitting if known.removed == removed]
        if found:
            return the_one(text, found)
    names = [known for known in await reports.schedule_names() if removed_too or not known.removed]
    raise WakeboardError(f"there is no schedule {shown(text)}{nearest_schedule(text, names)}")


def addresses(text: str, known: ScheduleName) -> bool:
    """Whether `text` may mean this schedule."""
    return text in {known.name, known.short, known.full}


def the_one(text: str, found: Sequence[ScheduleName]) -> ScheduleName:
    """The schedule if it is the only one that fits. Raises WakeboardError with the names to choose from."""
    if len(found) == 1:
        return found[0]
    shorts = [known.short for known in found]
    names = shorts if len(set(shorts)) == len(shorts) else [known.full for known in found]
    raise WakeboardError(f"{text!r} is the name of {counted(len(found), 'schedule')}: write {_listed(names)}.")


def nearest_schedule(text: str, names: Sequence[ScheduleName]) -> str:
    """The rest of a sentence about a schedule that is not there."""
    if not names:
        return ": there are no schedules yet (`wakeboard apply DIR` brings some)."
    shorts = {known.short: known.short for known in names}
    near = get_close_matches(text, shorts | {known.name: known.short for known in names}, n=1)
    if near:
        return f"; did you mean {({known.name: known.short for known in names} | shorts)[near[0]]}?"
    return ": `wakeboard schedules` lists them."


async def find_runs(reports: Listings, runs: Sequence[int | Uuids]) -> list[int]:
    """The ids of runs given by id or uuid. Raises WakeboardError for a uuid that no run has, or several."""
    whole = [run.first for run in runs if isinstance(run, Uuids) and run.whole]
    known = await reports.ids_of(whole) if whole else {}
    return [run if isinstance(run, int) else await _id_of(reports, run, known) for run in runs]


async def _id_of(reports: Listings, uuids: Uuids, known: Mapping[UUID, int]) -> int:
    if uuids.first in known:
        return known[uuids.first]
    found = [] if uuids.whole else await reports.ids_between(uuids.first, uuids.last)
    if not found:
        raise WakeboardError(f"there is no run {uuids.text}; it may be older than the history that is kept.")
    if len(found) > 1:
        choices = _listed([str(uuid) for uuid, _ in found])
        raise WakeboardError(f"{uuids.text} begins the uuid of several runs: write {choices}.")
    return found[0][1]


def read_run(text: str) -> int | Uuids:
    """A run's id, its uuid, or the beginning of its uuid, as written. Raises InvalidValue."""
    if text.isascii() and text.isdigit() and len(text) < LONGEST_ID and int(text) <= LARGEST_ID:
        return int(text)
    digits = text.rstrip("…").replace("-", "").lower()
    if text.isdigit() or not (_UUID_BEGINS.fullmatch(text) and LEAST_UUID <= len(digits) <= UUID_DIGITS):
        raise InvalidValue(
            f"{shown(text)} is no run: write its id (a whole number), its uuid, or the first 8 characters of that."
        )
    return Uuids(text, UUID(digits.ljust(UUID_DIGITS, "0")), UUID(digits.ljust(UUID_DIGITS, "f")))


def _listed(names: Sequence[str]) -> str:
    shown = list(names[:SHOWN])
    rest = f" or one of {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(shown[:-1]) + f" or {shown[-1]}" + rest if len(shown) > 1 else shown[0]
