"""The list of runs: a search with qualifiers, tabs for the statuses, and pages by key.

All state is in the URL: `q` (the search), `sort`, and `after` or `before` (a place in the list).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse

from wakeboard.board.pages.run_actions import bulk_actions_for
from wakeboard.board.routing import BoardRequest, Page, page, stream
from wakeboard.errors import QueryTimedOut
from wakeboard.views.queries.run_counts import MOST_COUNTED, Count, count_runs, known_names
from wakeboard.views.queries.run_list import RunPage, position, read_run_page
from wakeboard.views.queries.run_orders import FIRST_DUE, SORTED, read_first_due_runs, read_longest_runs
from wakeboard.views.rules.run_search import LONGEST_SEARCH, QUALIFIERS, STATUSES, is_run_id, parse_run_search, quoted
from wakeboard.views.rules.search_suggestions import suggestions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.responses import Response

    from wakeboard.store.connection import AsyncConnection
    from wakeboard.views.queries.run_list import ListedRun
    from wakeboard.views.rules.run_search import RunSearch

PAGE_SIZE: Final = 50
MOST_ERRORS: Final = 6
SORTS: Final = {"": "Newest first", "oldest": "Oldest first", "due": "Due first", "longest": "Longest first"}

SORTED_ONCE: Final = {"due": read_first_due_runs, "longest": read_longest_runs}  # they read some runs and have one page


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab of the list: the runs of one status, or all. `query`: the search that it stands for."""

    label: str
    query: str
    count: Count
    current: bool


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """How many runs of the page have this type of error. `query`: the search for all of them."""

    error_type: str
    runs: int
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListPage:
    """The model of the page.

    `text`: the search as it was typed. `problem`: what of it was not understood. `order`: how the runs are ordered.
    `newer`, `older`: the places that the links to the neighbouring pages name; "" without a neighbour. `searched`: the
    number of runs that were examined, if not all were. `named`: the run whose id is the search.
    `stopped`: the search took too long.
    `bulk`: the actions on many runs that the viewer may do. `errors`: of the failed and dead runs of this page, if some
    have the same type.
    """

    now: datetime
    text: str
    problem: str
    tabs: list[Tab]
    runs: list[ListedRun]
    newer: str
    older: str
    sort: str
    order: str
    searched: int | None
    filtered: bool
    named: int | None
    stopped: bool
    bulk: tuple[str, ...] = ()
    errors: Sequence[ErrorCount] = ()
    sorts: Mapping[str, str] = field(default_factory=lambda: SORTS)


def run_list(
    text: str, search: RunSearch, found: RunPage | None, counts: Mapping[str, Count], sort: str, named: int | None
) -> RunListPage:
    """The model of the page, from what was read. `found` None: the search took too long."""
    problem = f"{search.problem} The list leaves this part out." if search.problem else search.hint
    stopped = found is None
    if found is None:
        found = RunPage(now=datetime.now(UTC), runs=[], newer=None, older=None, searched=None)
        problem = "The search took too long and was stopped; narrow it, for example by schedule: or status:."
    return RunListPage(
        now=found.now,
        text=text,
        problem=problem,
        tabs=tabs(search, counts),
        runs=found.runs,
        newer=str(found.newer) if found.newer else "",
        older=str(found.older) if found.older else "",
        sort=sort,
        order=order(search, sort),
        searched=found.searched,
        filtered=bool(search.terms),
        named=named,
        stopped=stopped,
        errors=error_counts(search, found.runs),
    )


def error_counts(search: RunSearch, runs: Sequence[ListedRun]) -> list[ErrorCount]:
    """The types of the errors of failed and dead runs, the most frequent first; none if all are different."""
    if search.of("error"):
        return []
    found = Counter(run.error_type for run in runs if run.error_type and run.status in {"failed", "dead"})
    if not found or max(found.values()) == 1:
        return []
    return [
        ErrorCount(name, count, f"{search.text} error:{quoted(name)}".strip())
        for name, count in found.most_common(MOST_ERRORS)
    ]


def tabs(search: RunSearch, counts: Mapping[str, Count]) -> list[Tab]:
    """A tab for all statuses and one for each, with its count."""
    whole = sum(count.runs for count in counts.values())
    all_of_them = Count(min(whole, MOST_COUNTED), whole > MOST_COUNTED or any(count.more for count in counts.values()))
    chosen = search.statuses
    return [
        Tab("All", search.with_status(""), all_of_them, current=len(chosen) == len(STATUSES)),
        *(
            Tab(status.capitalize(), search.with_status(status), counts[status], current=chosen == (status,))
            for status in STATUSES
        ),
    ]


def order(search: RunSearch, sort: str) -> str:
    """The order of the list in words."""
    if sort == "due":
        return f"due first, of the first {FIRST_DUE:,} of each queue and priority, and of those with a limit"
    if sort == "longest":
        return f"longest first, of the newest {SORTED} that have ended, run, failed or are dead"
    first = "oldest" if sort else "newest"
    match search.statuses:
        case ("dead",):
            return f"{first} first, by when they became dead"
        case ("failed",):
            return f"{first} first, by when they failed"
        case _:
            return f"{first} first"


@page("/runs")
async def runs(request: BoardRequest) -> Page:
    """Shows the runs that fit the search."""
    text = request.query.get("q", "")[: LONGEST_SEARCH + 1]
    search = parse_run_search(text)
    sort = request.query.get("sort", "")
    sort = sort if sort in SORTS else ""
    after, before = request.query.get("after", ""), request.query.get("before", "")
    at = position(after or before) if after or before else None
    namespaces = request.viewer.namespaces

    async def read(conn: AsyncConnection) -> RunPage:
        if sort in SORTED_ONCE:
            return await SORTED_ONCE[sort](conn, search, namespaces=namespaces, count=PAGE_SIZE)
        return await read_run_page(
            conn,
            search,
            namespaces=namespaces,
            count=PAGE_SIZE,
            after=at,
            back=bool(before),
            oldest_first=bool(sort),
        )

    async def found() -> RunPage | None:
        try:
            return await request.read(("runs", search.text, sort, after, before, namespaces), read, scans=search.scans)
        except QueryTimedOut:  # the search box stays, so that the user can change the search
            return None

    shown, counts, named = await asyncio.gather(found(), _counts(request, search), _named_run(request, search))
    model = run_list(text, search, shown, counts, sort, named)
    return Page("runs.html", replace(model, bulk=await bulk_actions_for(request, search.statuses)), "Runs")


async def _counts(request: BoardRequest, search: RunSearch) -> Mapping[str, Count]:
    namespaces = request.viewer.namespaces

    async def count(conn: AsyncConnection) -> Mapping[str, Count]:
        return await count_runs(conn, search, namespaces=namespaces)

    try:
        return await request.read_cached(
            ("runs counted", search.with_status(""), namespaces), count, scans=search.scans
        )
    except QueryTimedOut:
        return dict.fromkeys(STATUSES, Count(0, more=True))


async def _named_run(request: BoardRequest, search: RunSearch) -> int | None:
    """The run whose id is the whole search; None: the search is something else, or there is none."""
    if len(search.terms) != 1 or search.terms[0].qualifier or not is_run_id(search.terms[0].values[0]):
        return None
    by_id = parse_run_search(f"id:{search.terms[0].values[0].text}")
    namespaces = request.viewer.namespaces

    async def read(conn: AsyncConnection) -> RunPage:
        return await read_run_page(conn, by_id, namespaces=namespaces, count=1)

    found = await request.read(("run by id", by_id.text, namespaces), read)
    return found.runs[0].id if found.runs else None


@stream("/runs/suggestions")
async def run_suggestions(request: BoardRequest) -> Response:
    """How the word `word` of a search may go on: a JSON list of whole words, each with what it is for."""
    word = request.query.get("word", "")[:200]
    namespaces = request.viewer.namespaces

    async def read(conn: AsyncConnection) -> Mapping[str, list[str]]:
        return await known_names(conn, namespaces=namespaces)

    known = await request.read_cached(("run names", namespaces), read)
    return JSONResponse([_suggestion(choice) for choice in suggestions(word, known)])


def _suggestion(choice: str) -> dict[str, Any]:
    name = choice.removeprefix("-")
    return {"text": choice, "hint": QUALIFIERS.get(name.rstrip(":."), "") if name.endswith((":", ".")) else ""}
