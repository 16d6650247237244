"""Every page, endpoint and command that reads, for a database of `generated_schedules.py`.

The board's routes, the parameters of its endpoints and the commands of the command line say what there is. One that has
no arguments here raises LookupError, in the test and in the measurement: so a new one is never left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from testbed.generated_schedules import HUGE
from wakeboard.board.api.endpoints import EVENTS
from wakeboard.board.api.registry import ENDPOINTS
from wakeboard.board.pages import ROUTES
from wakeboard.board.pages.events import events
from wakeboard.board.pages.schedules import SORTS
from wakeboard.board.problem_details import API
from wakeboard.cli.app import COMMANDS
from wakeboard.views.queries.schedule_list import HEALTHS, STATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SCHEDULE_ID: Final = 91
SCHEDULE: Final = f"{HUGE}/customer-91-digest"
RUN_ID: Final = 90  # finished, of the schedule
_PARTS: Final = {"namespace": HUGE, "name": SCHEDULE.partition("/")[2], "what": "payload"}
_FILTERS: Final = (
    *({"state": state} for state in STATES),
    *({"health": health} for health in HEALTHS),
    {"q": "customer-9"},
    {"q": "tenant-7/"},
    {"q": "digest"},
    {"namespace": HUGE},
    {"namespace": "tenant-7"},
    {"namespace": HUGE, "health": "failing"},
    {"namespace": HUGE, "state": "suspended", "q": "report"},
    {"job_type": "job_7"},
    {"queue": "mail"},
    {"queue": "mail", "job_type": "job_7", "health": "failing"},
    {"label": "team"},
    {},
)
# Parameters of pages, by path; those of endpoints are found.
_QUERIES: Final[Mapping[str, tuple[Mapping[str, str], ...]]] = {
    "/": ({"period": "1h"}, {"period": "90d"}),
    "/schedules": tuple({"sort": sort, **one} for sort in SORTS for one in _FILTERS),
    "/calendar": tuple(
        {**view, **one}
        for view in ({}, {"view": "week"}, {"at": "2036-01-01T00:00Z"}, {"frequent": "1"})
        for one in _FILTERS
    ),
    "/runs": tuple(
        {"q": text, "sort": sort}
        for text in (
            "",
            f"schedule:{SCHEDULE}",
            "schedule:customer-9*",
            "schedule:*9-digest",
            "status:dead",
            "type:job_7",
        )
        for sort in ("", "oldest", "due", "longest")
    ),
    "/runs/suggestions": tuple(
        {"word": word} for word in ("schedule:", "schedule:cust", f"schedule:{HUGE}/", "type:j")
    ),
    "/performance": tuple(
        {"by": by, "period": period, "q": text}
        for by in ("job_type", "queue", "schedule", "step")
        for period in ("24h", "90d")
        for text in ("", "customer")
    ),
    "/audit": ({"schedule": SCHEDULE}, {"schedule": str(SCHEDULE_ID)}, {"actor": "ada"}),
    "/pause": ({"scope": "all"}, {"scope": "queue:mail"}),
    "/resume": ({"scope": "all"}, {"scope": "queue:imports"}),
    **{f"/schedules/{verb}-matching": _FILTERS for verb in ("pause", "resume")},
    **{
        f"/bulk/{action}": tuple({"q": text} for text in ("status:dead", f"schedule:{HUGE}/*", "type:job_7"))
        for action in ("retry", "cancel", "discard", "replay")
    },
}
_VALUES: Final = {  # of parameters of endpoints that have no choices
    "q": "customer-9",
    "namespace": HUGE,
    "job_type": "job_7",
    "queue": "mail",
    "label": "team",
    "name": SCHEDULE,
    "count": "100",
    "day": "2036-01-01",
    "zone": "Europe/Lisbon",
    "first": "2026-01-01",
    "last": "2026-01-02",
    "schedule": str(SCHEDULE_ID),
    "run": str(RUN_ID),
    "actor": "ada",
    "action": "pause",
    "bulk": "1",
    "since": "1h",
    "key": "invoice",
    "behind": "1",
}
_NOT_ALONE: Final = {"limit", "after", "attempt", "lease_epoch", "level", "end"}  # how much of a list, or of a log


def board_paths() -> list[str]:
    """The paths of all pages and of the endpoints that read, with their parameters. Streams of events do not end."""
    pages = [route.path for route in ROUTES if "GET" in (route.methods or ()) and route is not events]
    found = [_filled(path) + _query(one) for path in pages for one in ({}, *_QUERIES.get(path, ()))]
    for endpoint in ENDPOINTS:
        if endpoint.method != "GET" or endpoint.media == (EVENTS,) or endpoint.is_public:
            continue
        path = API + _filled(endpoint.path)
        required = {each.name: _VALUES[each.name] for each in endpoint.parameters if each.required}
        found.append(path + _query(required))
        for parameter in endpoint.parameters:
            if parameter.name not in _NOT_ALONE:
                values = parameter.choices or (_VALUES[parameter.name],)
                found += [path + _query({**required, parameter.name: value}) for value in values]
    return [*dict.fromkeys(found)]


def _filled(path: str) -> str:
    """A path with its variable parts."""
    own_id = SCHEDULE_ID if path.startswith("/schedules") else RUN_ID if path.startswith("/runs") else 1
    return re.sub(r"\{(\w+)(?::\w+)?\}", lambda part: str({"id": own_id, **_PARTS}[part[1]]), path)


def _query(values: Mapping[str, str]) -> str:
    return f"?{urlencode(values)}" if values else ""


_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "plan": ("--source file:declared {folder}",),
    "apply": ("{folder}", "{folder} --dry-run", "{folder} --prune --dry-run", "{folder} --prune"),
    "schedules": ("", "-n 1200", "--json -n 1200", f"--namespace {HUGE} --json -n 500", "--namespace tenant-7 --json"),
    "schedule": (SCHEDULE, SCHEDULE.partition("/")[2], "unknown"),
    "next": (SCHEDULE, f"{SCHEDULE} --json"),
    "runs": ("", f"--schedule {SCHEDULE}", "--schedule customer-91-digest", "--status dead"),
    "run": (f"{RUN_ID}",),
    "compare": (f"{RUN_ID} {RUN_ID - 1}",),
    "explain": (f"{RUN_ID}", SCHEDULE, "customr-91-digest"),
    "graph": ("", "--json"),
    "logs": (f"{RUN_ID}", f"--schedule {SCHEDULE}"),
    "workers": ("",),
    "queues": ("", "--json"),
    "failures": ("",),
    "alerts": ("",),
    "audit": ("", SCHEDULE),
    "enqueue": ("ping",),
    "run-now": (SCHEDULE,),
    "backfill": ("", f"{SCHEDULE} --from 2026-11-01 --to 2026-11-02 --dry-run"),
    "retry": ("--all-dead --dry-run", f"--all-dead --schedule {SCHEDULE} --dry-run"),
    "cancel": (f"--all-queued --schedule {SCHEDULE} --dry-run",),
    "replay": (f"--all-succeeded --schedule {SCHEDULE} --dry-run",),
    "discard": ("--all-dead --dry-run",),
    "release": (f"--all-running --schedule {SCHEDULE} --dry-run",),
    "pause": (f"schedule {SCHEDULE}", "queue mail", "all", "", "--json"),
    "resume": (f"schedule {SCHEDULE}", "queue mail", "all"),
    "limit": ("", "bank"),
    "check": ("", "--json"),
    "migrate": ("--dry-run",),
    "effects list": ("",),
}
_NO_READS: Final = {  # of schedules: they serve, test, write files, or act on one thing that is no schedule
    *("new", "up", "import", "board", "worker", "conformance", "version", "confirm removal"),
    *("alerts check", "alerts test", "alerts silence", "alerts unsilence", "effects release", "effects install"),
}


def command_words(folder: Path) -> Iterator[list[str]]:
    """The words of all commands that read. `folder`: of YAML files, such as `write_declared` writes."""
    for command in COMMANDS:
        if command not in _NO_READS:
            for words in _WORDS[command]:
                yield [*command.split(), *words.format(folder=folder).split()]


def write_declared(folder: Path, count: int) -> Path:
    """Writes YAML files of so many schedules into `folder/declared`, each tenth after the one before."""
    declared = folder / "declared"
    declared.mkdir()
    for n in range(count):
        when = f"after: [{{schedule: declared-{n - 1}}}]" if n % 10 == 9 else f"schedule: {n % 60} {n % 24} * * *"
        (declared / f"{n}.yaml").write_text(
            "apiVersion: wakeboard.dev/v1alpha1\nkind: JobSchedule\n"
            f"metadata: {{name: declared-{n}, namespace: {HUGE}}}\nspec:\n  {when}\n  jobType: declared\n"
        )
    return declared
