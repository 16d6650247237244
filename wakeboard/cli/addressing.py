"""Finding what a person means: a schedule by as much of its name as is unique, runs by id or uuid."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING
from uuid import UUID

from wakeboard.errors import WakeboardError

if TYPE_CHECKING:
    from wakeboard.store.reports import Reports, ScheduleName

LARGEST_ID = 2**63 - 1
SHOWN = 5  # names in a sentence


async def find_schedule(reports: Reports, text: str, *, removed_too: bool = False) -> ScheduleName:
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
    raise WakeboardError(f"there is no schedule {text!r}{nearest_schedule(text, names)}")


def addresses(text: str, known: ScheduleName) -> bool:
    """Whether `text` may mean this schedule."""
    return text in {known.name, known.short, known.full}


def the_one(text: str, found: Sequence[ScheduleName]) -> ScheduleName:
    """The schedule if it is the only one that fits. Raises WakeboardError with the names to choose from."""
    if len(found) == 1:
        return found[0]
    shorts = [known.short for known in found]
    names = shorts if len(set(shorts)) == len(shorts) else [known.full for known in found]
    raise WakeboardError(f"{text!r} is the name of {len(found)} schedules: write {_listed(names)}.")


def nearest_schedule(text: str, names: Sequence[ScheduleName]) -> str:
    """The rest of a sentence about a schedule that is not there."""
    if not names:
        return ": there are no schedules yet (`wakeboard apply DIR` brings some)."
    shorts = {known.short: known.short for known in names}
    near = get_close_matches(text, shorts | {known.name: known.short for known in names}, n=1)
    if near:
        return f"; did you mean {({known.name: known.short for known in names} | shorts)[near[0]]}?"
    return ": `wakeboard schedules` lists them."


async def find_runs(reports: Reports, texts: Sequence[str]) -> list[int]:
    """The ids of runs given by id or uuid. Raises WakeboardError for what is neither, and for an unknown uuid."""
    parsed = [read_run(text) for text in texts]
    uuids = [run for run in parsed if isinstance(run, UUID)]
    ids = await reports.ids_of(uuids) if uuids else {}
    unknown = [run for run in uuids if run not in ids]
    if unknown:
        raise WakeboardError(f"there is no run {unknown[0]}; it may be older than the history that is kept.")
    return [ids[run] if isinstance(run, UUID) else run for run in parsed]


def read_run(text: str) -> int | UUID:
    """A run's id or uuid, as written. Raises WakeboardError."""
    if text.isascii() and text.isdigit() and int(text) <= LARGEST_ID:
        return int(text)
    try:
        return UUID(text)
    except ValueError:
        raise WakeboardError(
            f"{text!r} is no run: write its id (a whole number) or its uuid, as `wakeboard runs` shows them."
        ) from None


def _listed(names: Sequence[str]) -> str:
    shown = list(names[:SHOWN])
    rest = f" or one of {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(shown[:-1]) + f" or {shown[-1]}" + rest if len(shown) > 1 else shown[0]
