"""The page of one run: its state and what happens next, a timeline, and its texts as they are stored."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.responses import PlainTextResponse

from wakeboard.board.access.viewer import Permission
from wakeboard.board.pages.errors import NotFound
from wakeboard.board.pages.run_timeline import Event, TimeAxis, hidden_attempts, time_axis, timeline
from wakeboard.board.routing import BoardRequest, Page, page, stream
from wakeboard.text.mask_json import mask_json, pretty_json
from wakeboard.text.object_ids import is_id
from wakeboard.text.sanitize import printable
from wakeboard.views.queries.run_page import RunHistory, read_run_history, read_shown_run, read_step_result
from wakeboard.views.rules.run_explanation import explain_run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

    from wakeboard.store.connection import AsyncConnection
    from wakeboard.text.facts import Fact
    from wakeboard.views.rules.run_detail_rows import RunDetails, StepRow
    from wakeboard.views.rules.run_rows import StoredRun

OPEN_LINES: Final = 40  # longer texts are folded
SHOWN_ELSEWHERE: Final = frozenset({"advice", "error"})  # facts that the page has as buttons, or below


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text of a run. `shown`: for the page. `copied`: a JSON string of what the copy button copies. `raw`: its path.

    `masked`: the number of values that are hidden because of their key. `stored`: the text as it is stored, if it has
    no such values.
    """

    title: str
    shown: str
    copied: str
    raw: str
    size: int
    masked: int = 0
    stored: str = ""

    @property
    def long(self) -> bool:
        """Whether it is folded."""
        return self.shown.count("\n") >= OPEN_LINES


@dataclass(frozen=True, slots=True, kw_only=True)
class RunModel:
    """The model of the page. `may_reveal`: the raw texts hold the values that are masked here."""

    history: RunHistory
    facts: list[Fact]
    events: list[Event]
    hidden_attempts: int
    axis: TimeAxis | None
    payload: Text
    result: Text | None
    error: Text | None
    stack: Text | None
    steps: Mapping[str, Text]
    may_reveal: bool

    @property
    def run(self) -> RunDetails:
        """The run."""
        return self.history.run

    @property
    def error_first(self) -> bool:
        """Whether the error is why the run is in its status, so that it stands at the top."""
        return self.run.status not in {"succeeded", "running", "queued"}

    @property
    def error_attempt(self) -> str:
        """The lease epoch of the last attempt of the timeline that has the error; "" if none has."""
        stored = self.error.stored if self.error else None
        return next((event.key for event in reversed(self.events) if event.key and event.error == stored), "")

    @property
    def stack_listed(self) -> bool:
        """Whether an attempt of the timeline has the stack."""
        return any(event.stack == self.run.stack for event in self.events)


def run_model(history: RunHistory, *, may_reveal: bool, with_counts: bool) -> RunModel:
    """The model of the page, from what was read. `with_counts`: the viewer may know how many other runs there are."""
    run = history.run
    events = timeline(history)
    raw = f"/runs/{run.id}/raw"
    return RunModel(
        history=history,
        facts=what_next(history, with_counts=with_counts),
        events=events,
        hidden_attempts=hidden_attempts(history),
        axis=time_axis(history, events),
        payload=json_shown("Payload", run.payload, f"{raw}/payload"),
        result=json_shown("Result", run.result, f"{raw}/result") if run.result is not None else None,
        error=plain_shown(_error_title(run), _error(run), f"{raw}/error") if run.error else None,
        stack=plain_shown("Stack", run.stack, f"{raw}/stack") if run.stack else None,
        steps={step.name: shown for step in run.steps if (shown := _step_result(step))},
        may_reveal=may_reveal,
    )


def what_next(history: RunHistory, *, with_counts: bool = True) -> list[Fact]:
    """What happens to the run next, or why it does not run now. Facts only, the most important first."""
    if history.situation is None:
        return []
    facts = explain_run(history.situation, with_counts=with_counts)
    return [fact for fact in facts if fact.name not in SHOWN_ELSEWHERE]


def json_shown(title: str, text: str, raw: str) -> Text:
    """A JSON text with secrets masked. What is copied differs from what is stored only in these."""
    masked = mask_json(text)
    return Text(
        title=title,
        shown=pretty_json(masked.text),
        copied=json.dumps(masked.text),
        raw=raw,
        size=len(text.encode()),
        masked=masked.masked,
    )


def plain_shown(title: str, text: str, raw: str) -> Text:
    """A text of any kind. Characters that are unsafe to show are replaced where it is shown, not where it is copied."""
    copied = json.dumps(text)
    return Text(title=title, shown=printable(text), copied=copied, raw=raw, size=len(text.encode()), stored=text)


def _error_title(run: StoredRun) -> str:
    return "Error of an earlier attempt" if run.status in {"succeeded", "running", "queued"} else "Error"


def _error(run: StoredRun) -> str:
    return ": ".join(part for part in (run.error_type, run.error) if part)


def _step_result(step: StepRow) -> Text | None:
    """The result of a step; None: it has none, or one that is too long for the page."""
    if step.result is None or step.result == "null" or len(step.result) != step.length:
        return None
    return json_shown(f"Result of {step.name}", step.result, "")


@page("/runs/{id:int}")
async def run(request: BoardRequest) -> Page:
    """Shows a run."""
    run_id: int = request.parts["id"]
    namespaces = request.viewer.namespaces

    async def read(conn: AsyncConnection) -> RunHistory | None:
        return await read_run_history(conn, run_id, namespaces=namespaces)

    history = await request.read(("run", run_id, namespaces), read) if is_id(run_id) else None
    if history is None:
        raise _not_found(run_id)
    may = await request.permissions(history.schedule.namespace if history.schedule else None)
    model = run_model(history, may_reveal=Permission.REVEAL in may, with_counts=namespaces is None)
    return Page("run.html", model, f"Run {run_id}", may=may)


@stream("/runs/{id:int}/raw/{what:str}")
async def raw_text(request: BoardRequest) -> Response:
    """Downloads a text of a run as it is stored: payload, result, error, stack, or with `name` the result of a step.

    Without the permission to reveal them, the values of secret keys are masked. With it, the download is audited.
    """
    run_id: int = request.parts["id"]
    what: str = request.parts["what"]
    name = request.query.get("name", "")

    async def read(conn: AsyncConnection) -> tuple[str | None, str | None]:
        shown = await read_shown_run(conn, run_id, namespaces=request.viewer.namespaces)
        if shown is None:
            raise _not_found(run_id)
        texts = {"payload": shown.payload, "result": shown.result, "error": _error(shown) or None, "stack": shown.stack}
        text = await read_step_result(conn, run_id, name) if what == "step" else texts.get(what)
        return text, (shown.schedule or "").partition("/")[0] if shown.definition_id else None

    if not is_id(run_id):
        raise _not_found(run_id)
    text, namespace = await request.read(("raw", run_id, what, name, request.viewer.namespaces), read)
    if text is None:
        raise NotFound(f"run {run_id} has no such text")
    if what not in {"error", "stack"} and (masked := mask_json(text)).masked:
        shown = f"result of step {name}" if what == "step" else what
        text = text if await request.reveal(shown, namespace, run_id=run_id) else masked.text
    headers = {"Content-Disposition": f'attachment; filename="run-{run_id}-{what}.txt"'}
    return PlainTextResponse(text, headers=headers)


def _not_found(run_id: int) -> NotFound:
    return NotFound(f"there is no run {run_id}, or it was deleted from the history")
