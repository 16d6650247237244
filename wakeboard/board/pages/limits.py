"""Limits and queues: which limit keys bound their runs, which queues are paused, and the action that sets a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wakeboard.board.access.viewer import Permission
from wakeboard.board.pages.action_forms import ActionForm, Input, asked_action, next_page, read_reason, reason_input
from wakeboard.board.routing import BoardRequest, Page, Redirect, page
from wakeboard.errors import InvalidValue
from wakeboard.limits.queries import list_limits
from wakeboard.limits.rules.rate import Rate
from wakeboard.text.sanitize import one_line
from wakeboard.views.queries.listings import Listings
from wakeboard.views.queries.schedule_list import filter_choices

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.limits.queries import LimitRow
    from wakeboard.store.connection import AsyncConnection
    from wakeboard.text.facts import Pause

HIGHEST_LIMIT: Final = 1_000_000
MAX_DIGITS: Final = 10
MAX_NAME: Final = 128
MAX_RATE: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsModel:
    """The model of the page. `pauses`: of everything and of queues.

    `restricted`: the viewer may see some namespaces only. Then there are no limit keys, and only the pauses of queues
    that have schedules of these namespaces.
    """

    now: datetime
    limits: list[LimitRow]
    pauses: list[Pause]
    queues: list[str]
    restricted: bool

    @property
    def everything(self) -> Pause | None:
        """The pause of everything."""
        return next((pause for pause in self.pauses if pause.kind == "all"), None)

    def pause_of(self, queue: str) -> Pause | None:
        """The pause of a queue."""
        return next((pause for pause in self.pauses if pause.kind == "queue" and pause.name == queue), None)


@page("/limits")
async def limits(request: BoardRequest) -> Page:
    """Shows limits, queues and pauses."""
    return Page("limits.html", await read_limits(request), "Limits and pauses", may=await request.permissions(None))


async def read_limits(request: BoardRequest) -> LimitsModel:
    """The model, of what the viewer may see."""
    namespaces = request.viewer.namespaces
    restricted = namespaces is not None

    async def read(conn: AsyncConnection) -> LimitsModel:
        listings = Listings(conn)
        pauses = [pause for pause in await listings.pauses() if pause.kind != "schedule"]
        if restricted:
            own = {None, *(await filter_choices(conn, namespaces)).queues}
            pauses = [pause for pause in pauses if pause.name in own]
        paused = {pause.name for pause in pauses if pause.kind == "queue" and pause.name}
        return LimitsModel(
            now=await listings.now(),
            limits=[] if restricted else await list_limits(conn),
            pauses=pauses,
            queues=sorted(paused) if restricted else await listings.queues(),
            restricted=restricted,
        )

    return await request.read(("limits", namespaces), read)


# -- limits ------------------------------------------------------------------------------------------------------------


async def _limit_form(request: BoardRequest, _: None) -> ActionForm:
    key = (request.values("key") or [""])[-1]
    shown = (request.values("max_running") or [""])[-1]
    return ActionForm(
        heading=f"Limit of {one_line(key)}" if key else "Set a limit",
        sentences=[
            "So many runs with this limit key may run at once, and start so often.",
            "Those that are running are not stopped.",
        ],
        submit="Set limit",
        path="/limits/set",
        next=next_page(request, "/limits"),
        inputs=[
            Input(name="key", label="Limit key", value=key[:MAX_NAME], required=True, max_length=MAX_NAME),
            Input(
                name="max_running",
                label="At most",
                value=shown[:10],
                hint="0 to 1,000,000. Empty: the default, which is 1, or any number beside a rate.",
                numeric=True,
                max_length=10,
            ),
            Input(
                name="rate",
                label="Rate",
                value=(request.values("rate") or [""])[-1][:MAX_RATE],
                hint="Such as 60/minute, 5/second or 100/30s. Empty: no rate limit.",
                max_length=MAX_RATE,
            ),
            Input(
                name="burst",
                label="Burst",
                value=(request.values("burst") or [""])[-1][:10],
                hint="How many start at once after a pause: 1 to 1,000,000. Empty: 1.",
                numeric=True,
                max_length=10,
            ),
            reason_input(request),
        ],
    )


async def _require(request: BoardRequest) -> None:
    await request.require(Permission.LIMIT, {None})


async def _set_limit(request: BoardRequest, _: None, form: ActionForm) -> Redirect:
    """Sets a limit, or resets it to the default."""
    key, rate_text, reason = request.field("key").strip(), request.field("rate").strip(), read_reason(request)
    if not key:
        raise InvalidValue("write a limit key, such as openai")
    at_most, burst = _number(request, "max_running", "limit", 0), _number(request, "burst", "burst", 1)
    rate = Rate.parse(rate_text) if rate_text else None
    if burst is not None and rate is None:
        raise InvalidValue("a burst belongs to a rate: write one, such as 60/minute")
    async with request.acting({None}) as store:
        await store.set_rate_limit(key, rate, burst or 1, reason)
        await store.set_limit(key, at_most, reason)
    limit = f"{at_most:,}" if at_most is not None else "any number" if rate else "the default, 1"
    return Redirect(form.next, f"The limit of {key} is {limit}{f', and {rate}' if rate else ''}.")


def _number(request: BoardRequest, name: str, label: str, least: int) -> int | None:
    """The whole number in a field of the form; None: it is empty. Raises InvalidValue."""
    text = request.field(name).strip().replace(",", "")
    if not text:
        return None
    if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS and least <= int(text) <= HIGHEST_LIMIT:
        return int(text)
    raise InvalidValue(f"the {label} is {one_line(text)[:20]}: write a whole number from {least} to 1,000,000")


ROUTES: Final = [limits, *asked_action("/limits/set", Permission.LIMIT, _require, _limit_form, _set_limit)]
