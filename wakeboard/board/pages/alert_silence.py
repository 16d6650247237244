"""Actions that silence a rule of alerts and end its silence. Rules belong to no namespace."""

from __future__ import annotations

from typing import Final

from wakeboard.board.access.viewer import Permission
from wakeboard.board.pages.action_forms import ActionForm, next_page, read_reason, read_span, reason_input, span_input
from wakeboard.board.routing import BoardRequest, Page, Redirect, action, page
from wakeboard.errors import InvalidValue
from wakeboard.text.sanitize import one_line
from wakeboard.views.queries.listings import Listings

LONGEST_NAME: Final = 63  # characters of a rule's name
UNTIL_FIXED: Final = "fixed"


def _rule(request: BoardRequest) -> str:
    """The rule that the URL or the form names. Raises InvalidValue."""
    name = (request.values("rule") or [""])[-1]
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise InvalidValue(f"the rule is {one_line(name)[:60]!r}: write the name of a rule")
    return name


def _silence_form(request: BoardRequest) -> ActionForm:
    rule = _rule(request)
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


def _unsilence_form(request: BoardRequest) -> ActionForm:
    rule = _rule(request)
    return ActionForm(
        heading=f"End the silence of {rule}?",
        sentences=["If its alert is open, the receivers are notified."],
        submit="End the silence",
        path=request.path,
        next=next_page(request, "/alerts"),
        inputs=[reason_input(request)],
        hidden=[("rule", rule)],
    )


@page("/alerts/silence")
async def ask_silence(request: BoardRequest) -> Page:
    """Asks for how long."""
    await request.require(Permission.PAUSE, {None})
    return _silence_form(request).page()


@action("/alerts/silence", Permission.PAUSE)
async def silence(request: BoardRequest) -> Redirect | Page:
    """Silences a rule."""
    await request.require(Permission.PAUSE, {None})
    form = _silence_form(request)
    try:
        span, reason = read_span(request, UNTIL_FIXED), read_reason(request)
        async with request.acting({None}) as store:
            now = await Listings(store.conn).now()
            until = "infinity" if span is None else now + span
            changed = await store.silence_alert(_rule(request), until, reason)
    except InvalidValue as exc:
        return form.page(str(exc))
    return Redirect(form.next, f"Silenced {_rule(request)}." if changed else "Nothing changed.", problem=not changed)


@page("/alerts/unsilence")
async def ask_unsilence(request: BoardRequest) -> Page:
    """Asks before the silence ends."""
    await request.require(Permission.PAUSE, {None})
    return _unsilence_form(request).page()


@action("/alerts/unsilence", Permission.PAUSE)
async def unsilence(request: BoardRequest) -> Redirect | Page:
    """Ends the silence of a rule."""
    await request.require(Permission.PAUSE, {None})
    form = _unsilence_form(request)
    try:
        async with request.acting({None}) as store:
            changed = await store.silence_alert(_rule(request), None, read_reason(request))
    except InvalidValue as exc:
        return form.page(str(exc))
    text = f"{_rule(request)} notifies again." if changed else f"Nothing changed: {_rule(request)} was not silenced."
    return Redirect(form.next, text, problem=not changed)


ROUTES: Final = [ask_silence, silence, ask_unsilence, unsilence]
