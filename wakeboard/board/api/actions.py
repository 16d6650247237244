"""The actions of the API: each is an action of the board's pages, with the fields of its form as JSON.

The function, the permission and the audit row are those of the page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wakeboard.actions.run_actions import BULK_ACTIONS
from wakeboard.board.api.bulk import END, FIRST, SEARCH_NEEDED
from wakeboard.board.api.endpoints import FIRST_TICK, LAST_TICK, Endpoint, Parameter, json_answer
from wakeboard.board.pages import ROUTES
from wakeboard.board.pages.action_forms import HOURS, MAX_REASON, ActionForm
from wakeboard.board.pages.alert_silence import UNTIL_FIXED
from wakeboard.board.pages.pauses import UNTIL_RESUMED
from wakeboard.board.problem_details import API, problem
from wakeboard.board.routing import NotDone, Redirect, answer_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.routing import Route

    from wakeboard.board.routing import BoardRequest, Page


@dataclass(frozen=True, slots=True)
class Done:
    """What an action did, in a sentence. `link`: the path of what it created, or null.

    `answer`: of an action on one run, schedule or backfill, the words for it on the command line; otherwise null.
    """

    message: str
    link: str | None = None
    answer: str | None = None


REASON: Final = Parameter("reason", "For the audit log.", longest=MAX_REASON)
_NEEDED: Final = Parameter("reason", "Is shown wherever this is.", required=True, longest=MAX_REASON)
_PAYLOAD: Final = Parameter("payload", "Payload of the new run, an object or a list; without it, the same.", "json")
_HOURS: Final = Parameter("hours", "For how many hours; empty: until it is resumed.", choices=(*HOURS, UNTIL_RESUMED))
_SILENCE: Final = Parameter(
    "hours", "For how many hours, or until the alert is resolved.", choices=(*HOURS, UNTIL_FIXED), required=True
)
_SCOPE: Final = Parameter("scope", "`all`, or `queue:` and the name of a queue.", required=True)
_RULE: Final = Parameter("rule", "The name of the rule.", required=True)
_KEY: Final = Parameter("key", "The key.", required=True)
_LIMIT: Final = (
    Parameter("key", "The limit key.", required=True),
    Parameter("max_running", "How many may run at once; without it the default.", "integer", most=1_000_000),
    Parameter("rate", "How often runs start, such as 60/minute; without it as often as they can."),
    Parameter("burst", "How many start at once after a pause.", "integer", least=1, most=1_000_000),
)
_BACKFILL: Final = (
    FIRST_TICK,
    LAST_TICK,
    Parameter("at_once", "How many of its runs may run at once; 1 without it.", "integer", least=1, most=1_000_000),
    Parameter("again", "Also run ticks that have run.", "boolean"),
    Parameter("preview", "Only count the ticks.", "boolean"),
    Parameter("confirmed", "The number of ticks, if there are many.", "integer"),
)
_BULK: Final = (
    SEARCH_NEEDED,
    Parameter("confirmed", "The number of runs of the preview: no more are changed.", "integer", required=True),
    FIRST,
    END,
    REASON,
)
ACTIONS: Final[Mapping[str, tuple[str, tuple[Parameter, ...]]]] = {
    "/runs/{id:int}/retry": ("Queue a dead or failed run again.", (REASON,)),
    "/runs/{id:int}/cancel": ("Cancel a run, or ask a running one to stop.", (REASON,)),
    "/runs/{id:int}/discard": ("Move a dead run to the history.", (REASON,)),
    "/runs/{id:int}/replay": ("Enqueue a copy of a run that has ended.", (REASON, _PAYLOAD)),
    "/runs/{id:int}/release": ("Take a running run from its worker.", (REASON,)),
    "/runs/{id:int}/discard-and-replay": ("Discard a dead run and enqueue a copy of it.", (REASON, _PAYLOAD)),
    "/schedules/{id:int}/run": ("Run a schedule now.", (REASON, _PAYLOAD)),
    "/schedules/{id:int}/pause": ("Pause a schedule.", (_NEEDED, _HOURS)),
    "/schedules/{id:int}/resume": ("Resume a schedule.", (REASON,)),
    "/schedules/{id:int}/backfill": ("Run a range of past ticks.", (*_BACKFILL, REASON)),
    "/backfills/{id:int}/pause": ("Pause a backfill.", (REASON,)),
    "/backfills/{id:int}/resume": ("Resume a backfill.", (REASON,)),
    "/backfills/{id:int}/cancel": ("Cancel a backfill.", (REASON,)),
    "/pause": ("Pause everything or a queue.", (_SCOPE, _NEEDED, _HOURS)),
    "/resume": ("Resume everything or a queue.", (_SCOPE, REASON)),
    "/limits/set": ("Set a limit, or reset it to the default.", (*_LIMIT, REASON)),
    "/alerts/silence": ("Silence a rule of alerts.", (_RULE, _SILENCE, REASON)),
    "/alerts/unsilence": ("End the silence of a rule.", (_RULE, REASON)),
    **{f"/bulk/{name}": (f"Begin to {name} all runs that fit a search.", _BULK) for name in BULK_ACTIONS},
    **{f"/bulk/{{id:int}}/cancel-{name}": ("End a bulk action before all runs are done.", ()) for name in BULK_ACTIONS},
    "/effects/release": ("Let an effect that happens once for ever happen again.", (_KEY, _NEEDED)),
}


def _endpoint(route: Route) -> Endpoint:
    summary, parameters = ACTIONS[route.path]

    async def answer(request: BoardRequest, _: Mapping[str, Any]) -> Any:
        return _shown(await answer_of(route.act, request))  # type: ignore[attr-defined]

    return Endpoint(
        method="POST",
        path=route.path,
        summary=summary,
        kind=Done,
        answer=answer,
        parameters=parameters,
        permission=route.permission,  # type: ignore[attr-defined]
    )


def _shown(answered: Redirect | Page) -> Any:
    """What the page of an action answers, for a program: a redirect with a problem is a conflict."""
    if isinstance(answered, Redirect):
        if answered.problem:
            more: dict[str, Any] = {"answer": answered.answer} if answered.answer else {}
            return problem(409, answered.message, None, **more)
        is_object = re.fullmatch(r"/[a-z]+/[0-9]+", answered.link)
        text = f"{answered.message} {answered.label}." if is_object else answered.message
        created = answered.created or (answered.link if is_object else "")
        return Done(text.strip(), API + created if created else None, answered.answer or None)
    match answered.model:
        case NotDone(problem=why, certain=certain):
            return problem(answered.status, why, certain=certain)
        case ActionForm(problem="", sentences=sentences):
            return json_answer(Done(" ".join(sentences)))
        case shown:
            why = getattr(getattr(shown, "form", shown), "problem", "")
            return problem(answered.status, why or "the action was not done")


ACTION_ENDPOINTS: Final = [
    _endpoint(route) for route in ROUTES if route.path in ACTIONS and "POST" in (route.methods or ())
]
