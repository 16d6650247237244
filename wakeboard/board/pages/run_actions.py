"""The actions on one run, each with a page that asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wakeboard.actions.queries.targets import run_payload
from wakeboard.actions.run_actions import BULK_ACTIONS, DISCARD_AND_REPLAY, RUN_ACTIONS
from wakeboard.board.access.viewer import Permission
from wakeboard.board.pages.action_forms import (
    ActionForm,
    EditablePayload,
    asked_action,
    editable_payload,
    next_page,
    read_payload,
    read_reason,
    reason_input,
)
from wakeboard.board.pages.action_targets import target_run
from wakeboard.board.routing import BoardRequest, Redirect
from wakeboard.text.humanize import full_stop

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from starlette.routing import Route

    from wakeboard.actions.queries.targets import RunTarget
    from wakeboard.actions.run_actions import RunAction
    from wakeboard.engine.answers import Answer, Replayed

STATUS_IN_WORDS: Final[Mapping[str, str]] = {
    "succeeded": "the run has succeeded",
    "failed": "an attempt of the run failed, and another follows",
    "cancelled": "the run was cancelled",
    "discarded": "the run was discarded",
    "skipped": "the run was skipped",
}


async def bulk_actions_for(request: BoardRequest, statuses: Collection[str]) -> tuple[str, ...]:
    """The names of the actions that take runs of these statuses and that the viewer may do in some namespace."""
    fitting = [what for what in BULK_ACTIONS.values() if set(what.takes) & set(statuses)]
    where = [await request.permitted_namespaces(Permission(what.name)) for what in fitting]
    return tuple(what.name for what, names in zip(fitting, where, strict=True) if names is None or names)


async def run_form(request: BoardRequest, what: RunAction, run: RunTarget) -> ActionForm:
    """The form of an action on a run. A replay shows the payload to viewers who may see all of it."""
    payload = EditablePayload(None)
    if what.creates_runs:
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
    async def find(request: BoardRequest) -> RunTarget:
        run = await target_run(request)
        for part in reversed(what.parts):
            await request.require(Permission(part), {run.namespace})
        return run

    async def form_of(request: BoardRequest, run: RunTarget) -> ActionForm:
        return await run_form(request, what, run)

    async def act(request: BoardRequest, run: RunTarget, form: ActionForm) -> Redirect:
        reason = read_reason(request)
        payload = read_payload(request, form.payload) if what.creates_runs else None
        async with request.acting({run.namespace}) as store:
            (answer,) = await what.apply(store, [run.id], payload, reason)
        return _answered(what, answer, form.next)

    return asked_action(f"/runs/{{id:int}}/{what.path}", Permission(what.name), find, form_of, act)


def _answered(what: RunAction, answer: Answer | Replayed, path: str) -> Redirect:
    if answer.answer not in what.done:
        why = answer.answer.removeprefix("refused: ")
        text = full_stop(f"Run {answer.id} was left as it is: {why}")
        return Redirect(path, text, problem=True, answer=answer.answer)
    text = f"Run {answer.id} {what.done[answer.answer]}"
    if (new_id := getattr(answer, "new_id", None)) is not None:
        return Redirect(path, f"{text} as", link=f"/runs/{new_id}", label=f"run {new_id}", answer=answer.answer)
    return Redirect(path, f"{text}.", answer=answer.answer)


ROUTES: Final = [route for what in (*RUN_ACTIONS.values(), DISCARD_AND_REPLAY) for route in _routes(what)]
