"""Actions on one run: retry, cancel, replay (also with an edited payload) and discard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from wakeboard.actions.queries.targets import run_payload
from wakeboard.board.access.viewer import Permission
from wakeboard.board.pages.action_forms import (
    ActionForm,
    EditablePayload,
    editable_payload,
    next_page,
    read_payload,
    read_reason,
    reason_input,
    typed_payload,
)
from wakeboard.board.pages.action_targets import target_run
from wakeboard.board.routing import BoardRequest, Page, Redirect, action, page
from wakeboard.errors import InvalidValue
from wakeboard.text.humanize import full_stop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from starlette.routing import Route

    from wakeboard.actions.admin_api import AdminStore, BulkActionName, PayloadText
    from wakeboard.actions.queries.targets import RunTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionOutcome:
    """What the store answered for a run. `new_id`: the run that a replay created."""

    answer: str
    new_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAction:
    """An action on runs. `takes`: the statuses that it accepts. `done`: the message for each answer of the store.

    `effect`: what it does, for the form. `sets_payload`: the form has the payload of the new run. `path`: the last part
    of the path. `also`: a second permission that the viewer needs.
    """

    name: BulkActionName
    title: str
    path: str
    permission: Permission
    takes: Sequence[str]
    effect: str
    done: Mapping[str, str]
    apply: Callable[[AdminStore, int, PayloadText | None, str], Awaitable[ActionOutcome]]
    also: Permission | None = None
    sets_payload: bool = False
    danger: bool = False


async def _retry(store: AdminStore, run_id: int, _: PayloadText | None, reason: str) -> ActionOutcome:
    return ActionOutcome(answer=(await store.retry([run_id], reason))[0].answer)


async def _cancel(store: AdminStore, run_id: int, _: PayloadText | None, reason: str) -> ActionOutcome:
    return ActionOutcome(answer=(await store.cancel([run_id], reason or "Cancelled"))[0].answer)


async def _discard(store: AdminStore, run_id: int, _: PayloadText | None, reason: str) -> ActionOutcome:
    return ActionOutcome(answer=(await store.discard([run_id], reason or "Discarded"))[0].answer)


async def _replay(store: AdminStore, run_id: int, payload: PayloadText | None, reason: str) -> ActionOutcome:
    replayed = (await store.replay([run_id], payload, reason))[0]
    return ActionOutcome(answer=replayed.answer, new_id=replayed.new_id)


async def _discard_and_replay(
    store: AdminStore, run_id: int, payload: PayloadText | None, reason: str
) -> ActionOutcome:
    replayed = await store.discard_and_replay(run_id, payload, reason)
    return ActionOutcome(answer=replayed.answer, new_id=replayed.new_id)


STATUS_IN_WORDS: Final[Mapping[str, str]] = {
    "succeeded": "the run has succeeded",
    "failed": "an attempt of the run failed, and another follows",
    "cancelled": "the run was cancelled",
    "discarded": "the run was discarded",
    "skipped": "the run was skipped",
}
RUN_ACTIONS: Final[Mapping[str, RunAction]] = {
    "retry": RunAction(
        name="retry",
        title="Retry",
        path="retry",
        permission=Permission.RETRY,
        takes=("dead", "failed"),
        effect="It is queued again, due now, with all its attempts. Its finished steps and effects are not repeated.",
        done={"queued": "is queued again"},
        apply=_retry,
    ),
    "cancel": RunAction(
        name="cancel",
        title="Cancel",
        path="cancel",
        permission=Permission.CANCEL,
        takes=("queued", "failed", "running"),
        effect="A waiting run does not start any more. A running one is asked to stop, and may still succeed.",
        done={"cancelled": "is cancelled", "requested": "was asked to stop"},
        apply=_cancel,
        danger=True,
    ),
    "discard": RunAction(
        name="discard",
        title="Discard",
        path="discard",
        permission=Permission.DISCARD,
        takes=("dead",),
        effect="It will not run again. It stays in the history, from which you can run it again.",
        done={"discarded": "is discarded"},
        apply=_discard,
        danger=True,
    ),
    "replay": RunAction(
        name="replay",
        title="Replay",
        path="replay",
        permission=Permission.REPLAY,
        takes=("succeeded", "cancelled", "discarded"),
        effect="A new run is created from it, due now. Its steps and effects happen again.",
        done={"queued": "is replayed"},
        apply=_replay,
        sets_payload=True,
    ),
}
DISCARD_AND_REPLAY: Final = RunAction(  # of one run only
    name="replay",
    title="Discard and replay",
    path="discard-and-replay",
    permission=Permission.REPLAY,
    also=Permission.DISCARD,
    takes=("dead",),
    effect="It is discarded: it moves to the history. A new run is created from it, due now. Its steps and effects"
    " happen again.",
    done={"queued": "is discarded, and replayed"},
    apply=_discard_and_replay,
    sets_payload=True,
)


async def bulk_actions_for(request: BoardRequest, statuses: Collection[str]) -> tuple[str, ...]:
    """The names of the actions that take runs of these statuses and that the viewer may do in some namespace."""
    fitting = [what for what in RUN_ACTIONS.values() if set(what.takes) & set(statuses)]
    where = [await request.permitted_namespaces(what.permission) for what in fitting]
    return tuple(what.name for what, names in zip(fitting, where, strict=True) if names is None or names)


async def run_form(request: BoardRequest, what: RunAction, run: RunTarget) -> ActionForm:
    """The form of an action on a run. A replay shows the payload to viewers who may see all of it."""
    payload = EditablePayload(None)
    if what.sets_payload:
        stored = await request.read(("payload of run", run.id), lambda conn: run_payload(conn, run.id))
        payload = await editable_payload(request, stored, run.namespace, run_id=run.id)
    sentences = [
        f"{run.schedule or run.job_type}: {STATUS_IN_WORDS.get(run.status, f'the run is {run.status}')}.",
        what.effect,
    ]
    if run.status not in what.takes:
        takes = " or ".join(what.takes)
        sentences.append(f"The action {what.title.lower()} is for a run that is {takes}.")
    return ActionForm(
        heading=f"{what.title} run {run.id}?",
        sentences=sentences,
        submit=f"{what.title} run",
        path=f"/runs/{run.id}/{what.path}",
        next=next_page(request, f"/runs/{run.id}"),
        inputs=[reason_input(request)],
        payload=payload.text,
        masked=payload.masked,
        reveal=payload.reveal,
        danger=what.danger,
    )


def _routes(what: RunAction) -> list[Route]:
    @page(f"/runs/{{id:int}}/{what.path}")
    async def ask(request: BoardRequest) -> Page:
        run = await target_run(request)
        await _require_all(request, what, run)
        return (await run_form(request, what, run)).page()

    @action(f"/runs/{{id:int}}/{what.path}", what.permission)
    async def act(request: BoardRequest) -> Redirect | Page:
        run = await target_run(request)
        await _require_all(request, what, run)
        form = await run_form(request, what, run)
        try:
            reason = read_reason(request)
            payload = read_payload(request, form.payload or "") if form.payload is not None else None
            async with request.acting({run.namespace}) as store:
                outcome = await what.apply(store, run.id, payload, reason)
        except InvalidValue as exc:
            typed = typed_payload(request) if form.payload is not None else None
            return replace(form, payload=typed).page(str(exc))
        return _answered(what, run, outcome, form.next)

    return [ask, act]


async def _require_all(request: BoardRequest, what: RunAction, run: RunTarget) -> None:
    """Raises Forbidden unless the viewer has the permissions of the action."""
    await request.require(what.permission, {run.namespace})
    if what.also is not None:
        await request.require(what.also, {run.namespace})


def _answered(what: RunAction, run: RunTarget, outcome: ActionOutcome, path: str) -> Redirect:
    if outcome.answer not in what.done:
        why = outcome.answer.removeprefix("refused: ")
        return Redirect(path, full_stop(f"Run {run.id} was left as it is: {why}"), problem=True)
    if outcome.new_id is not None:
        text = f"Run {run.id} {what.done[outcome.answer]} as"
        return Redirect(path, text, link=f"/runs/{outcome.new_id}", label=f"run {outcome.new_id}")
    return Redirect(path, f"Run {run.id} {what.done[outcome.answer]}.")


ROUTES: Final = [route for what in (*RUN_ACTIONS.values(), DISCARD_AND_REPLAY) for route in _routes(what)]
