"""The page of the effects that happen once for ever, and the action that lets one happen again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wakeboard.board.access.viewer import Permission
from wakeboard.board.pages.action_forms import ActionForm, asked_action, next_page, read_reason, reason_input
from wakeboard.board.routing import BoardRequest, Page, Redirect, page
from wakeboard.text.sanitize import one_line
from wakeboard.views.queries.forever_effects import ForeverEffectRow, list_forever_effects
from wakeboard.views.queries.listings import Listings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from wakeboard.store.connection import AsyncConnection

PAGE_SIZE: Final = 50
MAX_KEY: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectsModel:
    """The model of the page. `key`: how the listed keys begin. `following`: the link to the next page, or None.

    `restricted`: the viewer may see some namespaces only, and keys belong to all.
    """

    now: datetime
    rows: Sequence[ForeverEffectRow]
    key: str
    is_first: bool
    following: str | None
    restricted: bool


@page("/effects")
async def effects(request: BoardRequest) -> Page:
    """Shows the effects whose keys begin as the viewer has typed, in the order of the keys."""
    key, after = (request.query.get(name, "").replace("\0", "")[:MAX_KEY] for name in ("key", "after"))
    restricted = request.viewer.namespaces is not None

    async def read(conn: AsyncConnection) -> tuple[datetime, list[ForeverEffectRow]]:
        rows = [] if restricted else await list_forever_effects(conn, key, after, PAGE_SIZE + 1)
        return await Listings(conn).now(), rows

    now, rows = await request.read(("effects", restricted, key, after), read)
    more = len(rows) > PAGE_SIZE
    model = EffectsModel(
        now=now,
        rows=rows[:PAGE_SIZE],
        key=key,
        is_first=not after,
        following=request.url("/effects", key=key, after=rows[PAGE_SIZE - 1].key) if more else None,
        restricted=restricted,
    )
    return Page("effects.html", model, "Effects once for ever", may=await request.permissions(None))


async def _key(request: BoardRequest) -> str:
    await request.require(Permission.RELEASE, {None})
    return (request.values("key") or [""])[-1]


async def _form(request: BoardRequest, key: str) -> ActionForm:
    key = key[:MAX_KEY]
    return ActionForm(
        heading=f"Let {one_line(key)} happen again?",
        sentences=[
            "The next run for this key has the effect again, under another key for the provider.",
            "It is refused while a run is executing the effect.",
        ],
        submit="Release the key",
        path="/effects/release",
        next=next_page(request, "/effects"),
        inputs=[reason_input(request, required=True)],
        hidden=[("key", key)],
        danger=True,
    )


async def _release(request: BoardRequest, key: str, form: ActionForm) -> Redirect:
    reason = read_reason(request, required=True)
    async with request.acting({None}) as store:
        answer = await store.release_effect(key, reason)
    if answer != "released":
        return Redirect(form.next, f"{one_line(key)}: {answer}.", problem=True)
    return Redirect(form.next, f"The effect {one_line(key)} is released: the next run for this key has it again.")


ROUTES: Final = [effects, *asked_action("/effects/release", Permission.RELEASE, _key, _form, _release)]
