"""Actions on all runs that fit a search, in the API: what one would change, and what those that began have done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wakeboard.actions.run_actions import BULK_ACTIONS
from wakeboard.board.api.endpoints import AFTER, DEFAULT_LIMIT, LIMIT, Endpoint, Items, Parameter
from wakeboard.board.api.reads import SEARCH, before_id, page_of
from wakeboard.board.pages.bulk import found_bulk_action, permitted, previewed, read_bulk_actions
from wakeboard.views.queries.audit import BulkActionRow, BulkActionRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wakeboard.actions.run_actions import RunAction
    from wakeboard.board.routing import BoardRequest


@dataclass(frozen=True, slots=True)
class BulkPreview:
    """How many runs an action would change; send it as `confirmed`.

    `first`: counting stopped there, because it took long: send it as `first`, too, and as `end` of a preview of the
    runs before; null: all were counted.
    """

    count: int
    first: int | None


async def _bulk_actions(request: BoardRequest, given: Mapping[str, Any]) -> Items:
    count = given.get("limit", DEFAULT_LIMIT)
    return page_of(await read_bulk_actions(request, count + 1, before_id(given)), count, lambda row: str(row.id))


async def _bulk_action(request: BoardRequest, _: Mapping[str, Any]) -> BulkActionRow:
    return (await found_bulk_action(request))[0]


async def _refused(request: BoardRequest, _: Mapping[str, Any]) -> Items:
    return Items((await found_bulk_action(request))[1])


def _preview_of(what: RunAction) -> Endpoint:
    async def answer(request: BoardRequest, _: Mapping[str, Any]) -> BulkPreview:
        found = (await previewed(request, what, await permitted(request, what)))[2]
        return BulkPreview(found.count, found.first)

    return Endpoint(
        path=f"/bulk/{what.name}",
        summary=f"How many runs that fit a search `POST /bulk/{what.name}` would change.",
        kind=BulkPreview,
        answer=answer,
        parameters=(SEARCH_NEEDED, END),
    )


SEARCH_NEEDED: Final = Parameter(SEARCH.name, SEARCH.text, required=True)
FIRST: Final = Parameter("first", "Only runs from this place on: `first` of the preview.", "integer")
END: Final = Parameter("end", "Only runs before this place: `first` of a preview of newer runs.", "integer")
BULK_ENDPOINTS: Final = [
    Endpoint(
        path="/bulk",
        summary="Bulk actions, newest first.",
        kind=BulkActionRow,
        is_list=True,
        answer=_bulk_actions,
        parameters=(LIMIT, AFTER),
    ),
    Endpoint(path="/bulk/{id:int}", summary="A bulk action.", kind=BulkActionRow, answer=_bulk_action),
    Endpoint(
        path="/bulk/{id:int}/refused",
        summary="Its first runs that were refused.",
        kind=BulkActionRun,
        is_list=True,
        answer=_refused,
    ),
    *(_preview_of(what) for what in BULK_ACTIONS.values()),
]
