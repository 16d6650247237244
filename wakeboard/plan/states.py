"""Reads a state of declared schedules: of a folder, a Git revision, or a source in the database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from wakeboard.errors import InvalidSchedule, InvalidValue
from wakeboard.manifests import SUFFIXES, load_paths, load_texts
from wakeboard.plan.git_files import files_of_revision
from wakeboard.plan.rules.state import State
from wakeboard.schedules.rules.job_schedule import API_VERSION, load_job_schedule
from wakeboard.schedules.rules.spec_document import spec_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wakeboard.manifests import Manifests, Parsed
    from wakeboard.plan.rules.state import Key
    from wakeboard.schedules.rules.job_schedule import JobSchedule
    from wakeboard.store.connection import AsyncConnection


def read_state(text: str, parsed: Parsed) -> State:
    """The state of what a user names: the path of a folder or of a file, or REVISION:PATH of the Git repository.

    What exists as a path is one. `parsed`: what was read of another state. Raises InvalidValue or
    WakeboardError if there is neither.
    """
    path = Path(text)
    if text and path.exists():
        manifests = load_paths([path], parsed=parsed)
    elif ":" in text:
        manifests = load_texts(files_of_revision(text, SUFFIXES), parsed)
    else:
        raise InvalidValue(
            f"there is no folder {text!r}; of a Git revision write REVISION:PATH, such as main:schedules."
        )
    state = state_of(text, manifests)
    if not (state.schedules or state.limits or state.problems):
        raise InvalidValue(
            f"{text} declares nothing: it has no YAML file with a JobSchedule; name the folder with them."
        )
    return state


def state_of(name: str, manifests: Manifests) -> State:
    """The state that a folder declares."""
    return State(
        name=name,
        schedules={(each.metadata.namespace, each.metadata.name): each for each in manifests.schedules},
        limits={str(row["key"]): row for row in manifests.limits.rows()} if manifests.limits else {},
        invalid=manifests.invalid,
        problems=manifests.problems,
        complete=manifests.complete,
    )


async def read_source(conn: AsyncConnection, source: str) -> State:
    """The state that a source has declared in the database."""
    from wakeboard.limits.queries import declared_limit_rows
    from wakeboard.views.queries.schedule_page import schedules_of_source

    rows = await schedules_of_source(conn, source)
    return stored_state(source, rows, await declared_limit_rows(conn, source))


def stored_state(source: str, rows: Sequence[Mapping[str, Any]], limits: Mapping[str, Mapping[str, Any]]) -> State:
    """The state of stored rows. A schedule that this version refuses is not compared, and is a problem."""
    schedules: dict[Key, JobSchedule] = {}
    invalid: set[Key] = set()
    problems: list[str] = []
    for row in rows:
        key = row["namespace"], row["name"]
        try:
            schedules[key] = load_job_schedule(
                {
                    "apiVersion": API_VERSION,
                    "kind": "JobSchedule",
                    "metadata": {"namespace": row["namespace"], "name": row["name"]},
                    "spec": spec_document(row)[0],
                },
                f"{source}: {row['namespace']}/{row['name']}",
            )
        except InvalidSchedule as error:
            invalid.add(key)
            problems += error.problems
    return State(source, schedules, limits, frozenset(invalid), tuple(problems))
