"""Actions on many runs: a selection of the list, or all that match a search.

GET /bulk/retry shows what the action would do: how many runs, of which kinds, and some of them. POST creates a bulk
action after the number of runs was typed; it never has more runs than that. The board executes it in the background.
/bulk/ID shows the progress, where the action can be cancelled half-way.

A preview that takes long stops and says up to where it has counted. The action has these runs only. A link leads to a
preview of the older ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from wakeboard.actions.queries.run_preview import Preview, preview_runs
from wakeboard.actions.queries.run_selection import MOST_RUNS, RunQuery, ids_of_selected, moment_of
from wakeboard.actions.run_actions import BULK_ACTIONS
from wakeboard.board.access.viewer import Permission
from wakeboard.board.pages.action_forms import ActionForm, Input, next_page, read_reason, reason_input
from wakeboard.board.pages.errors import NotFound
from wakeboard.board.routing import BoardRequest, Page, Redirect, action, page
from wakeboard.errors import Forbidden, InvalidValue
from wakeboard.text.humanize import counted, full_stop
from wakeboard.text.object_ids import is_id, parse_id
from wakeboard.views.queries.audit import BulkActionRow, BulkActionRun, bulk_action, bulk_action_runs, bulk_actions
from wakeboard.views.queries.listings import Listings
from wakeboard.views.rules.run_search import LONGEST_SEARCH, RunSearch, parse_run_search

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.routing import Route

    from wakeboard.actions.run_actions import RunAction
    from wakeboard.store.connection import AsyncConnection

PAGE_SIZE: Final = 50
MOST_SELECTED: Final = 1000  # runs that a form lists by id
REFUSED_SHOWN: Final = 50
CREATION_TIMEOUT_S: Final = 60  # a million runs take some seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionForm:
    """What the user selected: `ids`, or None for all runs that match the search `text`.

    `first`, `end`: only the runs between these places; see `RunQuery`.
    """

    text: str
    search: RunSearch
    ids: tuple[int, ...] | None
    first: int | None
    end: int | None

    def query(self, what: RunAction, namespaces: frozenset[str] | None) -> RunQuery:
        """The runs that an action on this selection changes."""
        return RunQuery(
            search=self.search,
            takes=what.takes,
            ids=self.ids,
            namespaces=namespaces,
            first=self.first,
            end=self.end,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkForm:
    """The model of the page that asks: what would be done to which runs.

    `bounds`: the part of the runs that were counted, in words; "" for all. `older`: a link to a preview of those before
    them; "" without any.
    """

    form: ActionForm
    what: str
    takes: tuple[str, ...]
    preview: Preview
    selection: SelectionForm
    too_many: bool
    bounds: str
    older: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkProgress:
    """The model of the progress page.

    `refused`: the first refused runs. `waits`: why the next batch is not executed now, or "". `next`: the page that the
    viewer came from.
    """

    now: datetime
    action: BulkActionRow
    refused: list[BulkActionRun]
    waits: str
    next: str
    refused_shown: int = REFUSED_SHOWN

    @property
    def percent(self) -> int:
        """How much of it is done."""
        return 100 * self.action.done // self.action.total if self.action.total else 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkList:
    """The model of the list. `older`: where the next page begins; None: this is the last one."""

    now: datetime
    actions: list[BulkActionRow]
    is_first: bool
    older: int | None


# -- asking and creating -----------------------------------------------------------------------------------------------


def selection_of(request: BoardRequest) -> SelectionForm:
    """What the URL or the form selects. Raises InvalidValue for a search that was not understood as a whole."""
    given = request.values("id")
    ids = tuple(sorted({number for text in given if (number := parse_id(text)) is not None}))
    if len(ids) > MOST_SELECTED:
        raise InvalidValue(
            f"you have selected {counted(len(ids), 'run')}; select at most {MOST_SELECTED}, or act on all that match"
        )
    text = (request.values("q") or [""])[-1][: LONGEST_SEARCH + 1]
    search = parse_run_search(text)
    if search.problem:
        raise InvalidValue(f"the search is not clear, so nothing is done: {search.problem}")
    all_matching = "q" in request.form or "q" in request.query
    first, end = (parse_id((request.values(name) or [""])[-1]) for name in ("first", "end"))
    return SelectionForm(text=text, search=search, ids=None if all_matching else ids, first=first, end=end)


def bounds_in_words(query: RunQuery) -> str:
    """The part of the runs that a query is limited to: "that ended before 2026-11-22 10:00:00 UTC"; "" for all."""
    past = query.table == "past"

    def shown(place: int) -> str:
        return f"{moment_of(place):%Y-%m-%d %H:%M:%S} UTC" if past else str(place)

    parts = [
        f"{'on or after' if past else 'from'} {shown(query.first)}" if query.first is not None else "",
        f"before {shown(query.end)}" if query.end is not None else "",
    ]
    words = " and ".join(part for part in parts if part)
    return words and f"{'that ended' if past else 'with ids'} {words}"


def shown_filter(selection: SelectionForm, query: RunQuery) -> str:
    """The selection for users, and for the audit log."""
    if selection.ids is not None:
        return f"selected: {', '.join(map(str, selection.ids))}"
    bounds = bounds_in_words(query)
    return (selection.search.text or "all runs") + (f" ({bounds})" if bounds else "")


async def permitted(request: BoardRequest, what: RunAction) -> frozenset[str] | None:
    """Where the viewer may do the action; None: everywhere. Raises Forbidden for a viewer who may do it nowhere."""
    namespaces = await request.permitted_namespaces(Permission(what.name))
    await request.require(Permission(what.name), _everywhere(namespaces))
    return namespaces


def _everywhere(namespaces: frozenset[str] | None) -> Collection[str | None]:
    return {None} if namespaces is None else namespaces


async def previewed(
    request: BoardRequest, what: RunAction, namespaces: frozenset[str] | None
) -> tuple[SelectionForm, RunQuery, Preview]:
    """What the URL or the form selects, and which runs the action would change."""
    selection = selection_of(request)
    wanted = selection.query(what, namespaces)
    found = await request.read(
        ("bulk preview", what.name, wanted), lambda conn: preview_runs(conn, wanted), scans=selection.ids is None
    )
    return selection, wanted, found


async def _ask(request: BoardRequest, what: RunAction, namespaces: frozenset[str] | None) -> BulkForm:
    selection, wanted, preview = await previewed(request, what, namespaces)
    first = wanted.first if preview.first is None else preview.first
    back = next_page(request, "/runs")
    hidden = [("q", selection.text)] if selection.ids is None else [("id", str(run_id)) for run_id in selection.ids]
    hidden += [(name, str(place)) for name, place in (("first", first), ("end", wanted.end)) if place is not None]
    inputs = [reason_input(request)]
    if selection.ids is None:
        inputs.append(
            Input(
                name="confirmed",
                label=f"Type {preview.count} to confirm",
                value=request.field("confirmed")[:20],
                required=True,
                numeric=True,
                max_length=20,
            )
        )
    form = ActionForm(
        heading=f"{what.name.capitalize()} {counted(preview.count, 'run')}?" if preview.count else "Nothing to do",
        sentences=[what.effect.replace("It is", "Each is").replace("from it", "from each")],
        submit=f"{what.name.capitalize()} {counted(preview.count, 'run')}",
        path=f"/bulk/{what.name}",
        next=back,
        inputs=inputs,
        hidden=[*hidden, ("count", str(preview.count))],
        danger=what.danger,
    )
    return BulkForm(
        form=form,
        what=what.name,
        takes=what.takes,
        preview=preview,
        selection=selection,
        too_many=preview.count > MOST_RUNS,
        bounds=bounds_in_words(replace(wanted, first=first)),
        older=older_link(request, what, selection, preview, back),
    )


def older_link(request: BoardRequest, what: RunAction, selection: SelectionForm, preview: Preview, back: str) -> str:
    """A link to a preview of the runs that this one has not counted; "" if it has counted all."""
    if preview.first is None:
        return ""
    return (
        request.url(f"/bulk/{what.name}") + "?" + urlencode({"q": selection.text, "end": preview.first, "next": back})
    )


def _shown(model: BulkForm, problem: str = "") -> Page:
    status = 422 if problem else 200
    model = replace(model, form=replace(model.form, problem=problem))
    return Page("actions/bulk_form.html", model, model.form.heading, status)


def confirmed_count(request: BoardRequest, selection: SelectionForm) -> int:
    """The number of runs that the user has confirmed. Raises InvalidValue."""
    if selection.ids is not None:
        return len(selection.ids)
    typed = "".join(char for char in request.field("confirmed") if char not in ", _.\N{NO-BREAK SPACE}'")
    shown = request.field("count") or typed  # a program has no page with a number
    if not typed.isascii() or not typed.isdecimal() or typed != shown:
        raise InvalidValue(f"type the number of runs, {shown[:20]}, to confirm")
    return min(int(typed), MOST_RUNS)


def _creating_routes(what: RunAction) -> list[Route]:
    @page(f"/bulk/{what.name}")
    async def ask(request: BoardRequest) -> Page:
        return _shown(await _ask(request, what, await permitted(request, what)))

    @action(f"/bulk/{what.name}", Permission(what.name))
    async def create(request: BoardRequest) -> Redirect | Page:
        namespaces = await permitted(request, what)
        selection = selection_of(request)
        try:
            reason = read_reason(request)
            most = confirmed_count(request, selection)
        except InvalidValue as exc:
            return _shown(await _ask(request, what, namespaces), f"{exc}.")
        wanted = selection.query(what, namespaces)
        async with request.acting(_everywhere(namespaces), statement_timeout_s=CREATION_TIMEOUT_S) as store:
            query, values = await ids_of_selected(store.conn, wanted, most)
            created = await store.create_bulk_action(
                what.name, query, values, shown_filter=shown_filter(selection, wanted), reason=reason
            )
        request.board.bulk_actions.wake()
        path, label = f"/bulk/{created.id}", f"Bulk action {created.id} has begun"
        return Redirect(request.link(path, next=next_page(request, "/runs")), link=path, label=label)

    return [ask, create]


# -- progress ----------------------------------------------------------------------------------------------------------


def may_see(request: BoardRequest, found: BulkActionRow | None) -> bool:
    """Viewers of some namespaces see their own bulk actions, whose runs are in these. Others see all."""
    return found is not None and (request.viewer.namespaces is None or _is_own(request, found))


def may_cancel(request: BoardRequest, found: BulkActionRow, namespaces: frozenset[str] | None) -> bool:
    """Whether a viewer who may do the action in these namespaces may end it. Other users' runs may be anywhere."""
    return namespaces is None or (bool(namespaces) and _is_own(request, found))


def _is_own(request: BoardRequest, found: BulkActionRow) -> bool:
    return found.source == "board" and found.actor == request.viewer.name


async def found_bulk_action(request: BoardRequest) -> tuple[BulkActionRow, list[BulkActionRun], datetime]:
    """The bulk action that the path names, its first refused runs, and when they were read. Raises NotFound."""
    bulk_action_id: int = request.parts["id"]

    async def read(conn: AsyncConnection) -> tuple[BulkActionRow | None, list[BulkActionRun], datetime]:
        found = await bulk_action(conn, bulk_action_id)
        refused = await bulk_action_runs(conn, bulk_action_id, REFUSED_SHOWN + 1, refused=True) if found else []
        return found, refused, await Listings(conn).now()

    if is_id(bulk_action_id):
        found, refused, now = await request.read(("bulk action", bulk_action_id), read)
        if found is not None and may_see(request, found):
            return found, refused, now
    raise NotFound(f"there is no bulk action {bulk_action_id}, or it was deleted")


@page("/bulk/{id:int}")
async def progress(request: BoardRequest) -> Page:
    """Shows the progress of a bulk action."""
    found, refused, now = await found_bulk_action(request)
    problem = "" if found.finished_at else request.board.bulk_actions.problem_of(found.id)
    waits = full_stop(problem.removesuffix("; try again"))
    model = BulkProgress(now=now, action=found, refused=refused, waits=waits, next=next_page(request, "/runs"))
    namespaces = await request.permitted_namespaces(Permission(found.action))
    may = frozenset({Permission.CANCEL} if may_cancel(request, found, namespaces) else ())
    return Page("bulk.html", model, f"{found.action.capitalize()} {counted(found.total, 'run')}", may=may)


def _cancelling_route(what: RunAction) -> Route:
    """A viewer who may do an action may also end it half-way: each action has a path with its permission."""

    @action(f"/bulk/{{id:int}}/cancel-{what.name}", Permission(what.name))
    async def cancel(request: BoardRequest) -> Redirect | Page:
        namespaces = await permitted(request, what)
        found, _, _ = await found_bulk_action(request)
        if found.action != what.name:
            raise NotFound(f"bulk action {found.id} is not a {what.name}")
        if not may_cancel(request, found, namespaces):
            raise Forbidden(
                f"the user {request.viewer.name} may not end the bulk action of {found.actor}: it may have runs in"
                f" namespaces in which {request.viewer.name} lacks the permission {what.name}"
            )
        async with request.acting(_everywhere(namespaces)) as store:
            cancelled = await store.cancel_bulk_action(found.id)
        path = request.link(f"/bulk/{found.id}", next=next_page(request, "/runs"))
        if not cancelled:
            return Redirect(path, "It had ended before.", problem=True)
        return Redirect(path, "Stopped. The runs that were done stay as they are.")

    return cancel


async def read_bulk_actions(request: BoardRequest, count: int, before: int | None) -> list[BulkActionRow]:
    """The bulk actions that the viewer may see, newest first."""
    actor = None if request.viewer.namespaces is None else request.viewer.name

    async def read(conn: AsyncConnection) -> list[BulkActionRow]:
        return await bulk_actions(conn, count, before=before, board_actor=actor)

    return await request.read(("bulk actions", count, before, actor), read)


@page("/bulk")
async def bulk_list(request: BoardRequest) -> Page:
    """Shows bulk actions, newest first."""
    before = parse_id(request.query.get("before", ""))
    found = await read_bulk_actions(request, PAGE_SIZE + 1, before)
    model = BulkList(
        now=datetime.now(UTC),
        actions=found[:PAGE_SIZE],
        is_first=before is None,
        older=found[PAGE_SIZE - 1].id if len(found) > PAGE_SIZE else None,
    )
    return Page("bulk_list.html", model, "Bulk actions")


ROUTES: Final = [
    bulk_list,
    *(route for what in BULK_ACTIONS.values() for route in _creating_routes(what)),
    *(_cancelling_route(what) for what in BULK_ACTIONS.values()),
    progress,
]
