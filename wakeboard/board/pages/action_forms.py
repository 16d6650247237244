"""The form that asks before an action: what it will do, the reason, and where to return.

GET shows it as a page, which actions.js opens in a dialog. POST to the same path acts. A form with an invalid field is
shown again with the problem and with everything that was typed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeVar

from wakeboard.actions.admin_api import PayloadText
from wakeboard.board.access.viewer import Permission
from wakeboard.board.paths import safe_path
from wakeboard.board.routing import BoardRequest, Page, Redirect, action, page
from wakeboard.errors import InvalidValue
from wakeboard.text.canonical_json import parse_payload
from wakeboard.text.humanize import counted, full_stop
from wakeboard.text.mask_json import mask_json
from wakeboard.text.sanitize import printable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.routing import Route

MAX_REASON: Final = 200  # characters that the store keeps
HOURS: Final = {"1": "one hour", "8": "8 hours", "24": "a day", "168": "a week"}
REVEAL: Final = "reveal"  # the parameter of the URL that asks for masked values

_Target = TypeVar("_Target")


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A line of the form. `numeric`: for whole numbers. `moment`: for a date and a time.

    `choices`: the values to choose from, each with its label.
    """

    name: str
    label: str
    value: str = ""
    hint: str = ""
    required: bool = False
    numeric: bool = False
    moment: bool = False
    choices: Sequence[tuple[str, str]] = ()
    max_length: int = MAX_REASON


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionForm:
    """The model of a form. `path`: GET shows the form and POST acts. `next`: where both buttons lead.

    `payload`: the text of the field for it; None: there is none. `masked`: so many values of it are masked, and
    `reveal` shows them. `problem`: why the form is shown again. `items`: what the action changes.
    `preview`: the label of the button that only says what would change.
    """

    heading: str
    sentences: Sequence[str]
    submit: str
    path: str
    next: str
    inputs: Sequence[Input] = ()
    hidden: Sequence[tuple[str, str]] = ()
    payload: str | None = None
    masked: int = 0
    reveal: str = ""
    problem: str = ""
    danger: bool = False
    preview: str = ""
    items: Sequence[str] = field(default_factory=tuple[str, ...])

    def page(self, problem: str = "") -> Page:
        """The page with the form; with a problem its status is 422."""
        shown = replace(self, problem=full_stop(problem))
        return Page("actions/form.html", shown, self.heading, 422 if problem else 200)


def asked_action(
    path: str,
    permission: Permission,
    find: Callable[[BoardRequest], Awaitable[_Target]],
    form_of: Callable[[BoardRequest, _Target], Awaitable[ActionForm]],
    act: Callable[[BoardRequest, _Target, ActionForm], Awaitable[Redirect | Page]],
) -> list[Route]:
    """The form (GET) and the action (POST) of a path.

    `find`: what the action changes. It raises NotFound, and Forbidden for a viewer who may not change it. `act`: raises
    InvalidValue for what was typed, with which the form is then shown again.
    """

    @page(path)
    async def ask(request: BoardRequest) -> Page:
        return (await form_of(request, await find(request))).page()

    @action(path, permission)
    async def do(request: BoardRequest) -> Redirect | Page:
        target = await find(request)
        form = await form_of(request, target)
        try:
            return await act(request, target, form)
        except InvalidValue as exc:
            typed = typed_payload(request) if form.payload is not None else None
            return replace(form, payload=typed).page(str(exc))

    return [ask, do]


def next_page(request: BoardRequest, otherwise: str) -> str:
    """The page to which an action returns: the one that the form or the link names, if it is inside the board."""
    return safe_path(request.field("next") or request.query.get("next", ""), otherwise)


def reason_input(request: BoardRequest, *, required: bool = False) -> Input:
    """The field for the reason, with what was typed."""
    return Input(
        name="reason",
        label="Reason" if required else "Reason (optional)",
        value=printable(request.field("reason")),
        hint="It is shown on the audit page.",
        required=required,
    )


def read_reason(request: BoardRequest, *, required: bool = False) -> str:
    """The reason in one line. Raises InvalidValue if it is too long, or missing where it is required."""
    reason = " ".join(request.field("reason").replace("\0", "\N{REPLACEMENT CHARACTER}").split())
    if len(reason) > MAX_REASON:
        raise InvalidValue(f"the reason has {counted(len(reason), 'character')}; write at most {MAX_REASON}")
    if required and not reason:
        raise InvalidValue("write a reason: it is shown wherever this pause is")
    return reason


def span_input(request: BoardRequest, open_end: tuple[str, str], default: str) -> Input:
    """The field for how long something lasts. `open_end`: the value and the label of the choice without an end."""
    value = request.field("hours") or default
    return Input(name="hours", label="For", value=value, choices=[*HOURS.items(), open_end])


def read_span(request: BoardRequest, open_end: str) -> timedelta | None:
    """For how long; None: `open_end` was chosen. Raises InvalidValue."""
    hours = request.field("hours")
    if hours not in {*HOURS, open_end}:
        raise InvalidValue("choose for how long")
    return None if hours == open_end else timedelta(hours=int(hours))


@dataclass(frozen=True, slots=True)
class EditablePayload:
    """The payload in a form. `text` None: it is not shown. `masked`, `reveal`: as in ActionForm."""

    text: str | None
    masked: int = 0
    reveal: str = ""


async def editable_payload(
    request: BoardRequest,
    text: str,
    namespace: str | None,
    *,
    run_id: int | None = None,
    definition_id: int | None = None,
) -> EditablePayload:
    """The payload of a run or a schedule for the form.

    Values that are masked are shown to a viewer who may see them and asks for them. To show them is audited, and to
    send the form is not audited again.
    """
    masked = mask_json(text).masked
    if not masked:
        return EditablePayload(text)
    may = await request.viewer.may(Permission.REVEAL, namespace)
    if request.form:
        return EditablePayload(text if may and "payload" in request.form else None, masked)
    if REVEAL in request.query:
        shown = await request.reveal("payload", namespace, run_id=run_id, definition_id=definition_id)
        return EditablePayload(text if shown else None, masked)
    following = request.url(request.path, next=request.query.get("next"), **{REVEAL: "1"})
    return EditablePayload(None, masked, following if may else "")


def read_payload(request: BoardRequest, shown: str | None) -> PayloadText | None:
    """The edited payload; None if it is the one that was `shown`, or the form had none. Raises InvalidValue."""
    if "payload" not in request.form:
        return None
    if shown is None:
        raise InvalidValue("the payload has masked values, which you may not see, so leave it as it is")
    text = typed_payload(request)
    if text.strip() == shown.strip():
        return None
    parse_payload(text)
    return PayloadText(text)


def typed_payload(request: BoardRequest) -> str:
    """The payload as it was typed. Browsers send every line end as CR LF."""
    return request.field("payload").replace("\r\n", "\n")
