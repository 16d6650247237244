"""Actions that silence a rule of alerts and end its silence. Rules belong to no namespace."""

from __future__ import annotations

from typing import Final

from wakeboard.board.access.viewer import Permission
from wakeboard.board.pages.action_forms import (
    ActionForm,
    asked_action,
    next_page,
    read_reason,
    read_span,
    reason_input,
    span_input,
)
from wakeboard.board.routing import BoardRequest, Redirect
from wakeboard.errors import InvalidValue
from wakeboard.text.sanitize import one_line
from wakeboard.views.queries.listings import Listings

LONGEST_NAME: Final = 63  # characters of a rule's name
UNTIL_FIXED: Final = "fixed"


async def _rule(request: BoardRequest) -> str:
    """The rule that the URL or the form names. Raises InvalidValue."""
    await request.require(Permission.PAUSE, {None})
    name = (request.values("rule") or [""])[-1]
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise InvalidValue(f"the rule is {one_line(name)[:60]!r}: write the name of a rule")
    return name


async def _silence_form(request: BoardRequest, rule: str) -> ActionForm:
    return ActionForm(
        heading=f"Silence {rule}?",
        sentences=["Its alert stays listed, and no notification says that it is open. Its end is announced."],
        submit=f"Silence {rule}",
        path=request.path,
        next=next_page(request, "/alerts"),
        inputs=[
            span_input(request, (UNTIL_FIXED, "until its alert is resolved"), default="1"),
            reason_input(request),
        ],
        hidden=[("rule", rule)],
    )


async def _silence(request: BoardRequest, rule: str, form: ActionForm) -> Redirect:
    span, reason = read_span(request, UNTIL_FIXED), read_reason(request)
    async with request.acting({None}) as store:
        until = "infinity" if span is None else await Listings(store.conn).now() + span
        changed = await store.silence_alert(rule, until, reason)
    return Redirect(form.next, f"Silenced {rule}." if changed else "Nothing changed.", problem=not changed)


async def _unsilence_form(request: BoardRequest, rule: str) -> ActionForm:
    return ActionForm(
        heading=f"End the silence of {rule}?",
        sentences=["If its alert is open, the receivers are notified."],
        submit="End the silence",
        path=request.path,
        next=next_page(request, "/alerts"),
        inputs=[reason_input(request)],
        hidden=[("rule", rule)],
    )


async def _unsilence(request: BoardRequest, rule: str, form: ActionForm) -> Redirect:
    async with request.acting({None}) as store:
        changed = await store.silence_alert(rule, None, read_reason(request))
    text = f"{rule} notifies again." if changed else f"Nothing changed: {rule} was not silenced."
    return Redirect(form.next, text, problem=not changed)


ROUTES: Final = [
    *asked_action("/alerts/silence", Permission.PAUSE, _rule, _silence_form, _silence),
    *asked_action("/alerts/unsilence", Permission.PAUSE, _rule, _unsilence_form, _unsilence),
]
