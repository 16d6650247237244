"""The list of runs: a search with qualifiers, tabs for the statuses, and pages by key.

All state is in the URL: `q` (the search), `sort`, and `after` or `before` (a place in the list).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse

from wakeboard.board.routing import BoardRequest, Page, page, stream
from wakeboard.rules.run_search import LONGEST_SEARCH, QUALIFIERS, STATUSES, parse_run_search, suggestions
from wakeboard.store.queries.run_counts import MOST_COUNTED, Count, count_runs, known_names
from wakeboard.store.queries.run_list import place, read_run_page

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from starlette.responses import Response

    from wakeboard.rules.run_search import RunSearch
    from wakeboard.store.connection import AsyncConnection
    from wakeboard.store.queries.run_list import ListedRun, RunPage

PAGE_SIZE: Final = 50
SORTS: Final = {"": "Newest first", "oldest": "Oldest first"}


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab of the list: the runs of one status, or all. `query`: the search that it stands for."""

    label: str
    query: str
    count: Count
    current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunList:
    """The model of the page.

    `text`: the search as it was typed. `problem`: what of it was not understood. `order`: how the runs are ordered.
    `newer`, `older`: the places that the links to the neighbouring pages name; "" without a neighbour. `searched`: the
    number of runs that were examined, if not all were.
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


def run_list(text: str, search: RunSearch, found: RunPage, counts: Mapping[str, Count], sort: str) -> RunList:
    """The model of the page, from what was read."""
    return RunList(
        now=found.now,
        text=text,
        problem=search.problem,
        tabs=tabs(search, counts),
        runs=found.runs,
        newer=str(found.newer) if found.newer else "",
        older=str(found.older) if found.older else "",
        sort=sort,
        order=order(search, sort),
        searched=found.searched,
        filtered=bool(search.terms),
    )


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
    sort = "oldest" if request.query.get("sort") == "oldest" else ""
    after, before = request.query.get("after", ""), request.query.get("before", "")
    at = place(after or before) if after or before else None
    namespaces = request.viewer.namespaces

    async def read(conn: AsyncConnection) -> RunPage:
        return await read_run_page(
            conn,
            search,
            namespaces=namespaces,
            count=PAGE_SIZE,
            after=at,
            back=bool(before),
            oldest_first=bool(sort),
        )

    async def count(conn: AsyncConnection) -> Mapping[str, Count]:
        return await count_runs(conn, search, namespaces=namespaces)

    counted = search.with_status("")
    found, counts = await asyncio.gather(
        request.read(("runs", search.text, sort, after, before, namespaces), read),
        request.read_slowly(("runs counted", counted, namespaces), count),
    )
    return Page("runs.html", run_list(text, search, found, counts, sort), "Runs")


@stream("/runs/suggestions")
async def run_suggestions(request: BoardRequest) -> Response:
    """How the word `word` of a search may go on: a JSON list of whole words, each with what it is for."""
    word = request.query.get("word", "")[:200]
    namespaces = request.viewer.namespaces

    async def read(conn: AsyncConnection) -> Mapping[str, list[str]]:
        return await known_names(conn, namespaces=namespaces)

    known = await request.read_slowly(("run names", namespaces), read)
    return JSONResponse([_suggestion(choice) for choice in suggestions(word, known)])


def _suggestion(choice: str) -> dict[str, Any]:
    name = choice.removeprefix("-")
    return {"text": choice, "hint": QUALIFIERS.get(name.rstrip(":."), "") if name.endswith((":", ".")) else ""}
