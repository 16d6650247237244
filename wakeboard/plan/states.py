"""Reads a state of declared schedules: of a folder, a Git revision, a cluster, or a source in the database."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wakeboard.errors import InvalidSchedule, InvalidValue
from wakeboard.manifests import SUFFIXES, load_paths, load_texts
from wakeboard.plan.git_files import NoSuchPath, files_of_revision
from wakeboard.plan.rules.state import State
from wakeboard.schedules.rules.job_schedule import API_VERSION, load_job_schedule
from wakeboard.schedules.rules.spec_document import spec_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from wakeboard.manifests import Manifests, Parsed
    from wakeboard.plan.rules.state import Key
    from wakeboard.schedules.rules.job_schedule import JobSchedule
    from wakeboard.store.connection import AsyncConnection


def read_state(text: str, parsed: Parsed, *, may_be_empty: bool = False) -> State:
    """The state of what a user names: the path of a folder or of a file, or REVISION:PATH of the Git repository.

    What exists as a path is one. `parsed`: what was read of another state. Raises InvalidValue or WakeboardError if
    there is neither, and, unless it `may_be_empty`, if it declares nothing.
    """
    path = Path(text)
    if text and path.exists():
        manifests = load_paths([path], parsed=parsed)
    elif ":" in text:
        try:
            manifests = load_texts(files_of_revision(text, SUFFIXES), parsed)
        except NoSuchPath:
            if not may_be_empty:
                raise
            return State(text)
    elif text and may_be_empty:
        return State(text)
    else:
        raise InvalidValue(
            f"there is no folder {text!r}; of a Git revision write REVISION:PATH, such as main:schedules."
        )
    state = state_of(text, manifests)
    if state.is_empty and not may_be_empty:
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
    return _loaded(source, (((row["namespace"], row["name"]), spec_document(row)[0]) for row in rows), limits)


def cluster_state(name: str, objects: Iterable[Mapping[str, Any]], limits: Mapping[str, Mapping[str, Any]]) -> State:
    """The state of JobSchedules as the API server has them. `limits`: those that files declare; a cluster has none."""
    kept = [each for each in objects if "deletionTimestamp" not in each["metadata"]]
    keys = [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in kept]
    return _loaded(name, zip(keys, (each.get("spec") for each in kept), strict=True), limits)


def placed(state: State, namespace: Callable[[], str]) -> State:
    """The state as `kubectl apply` makes it: a schedule that names no namespace is in this one."""
    homeless = {key: each for key, each in state.schedules.items() if "namespace" not in each.metadata.model_fields_set}
    if not homeless:
        return state
    place = namespace()
    moved = {
        (place, name): each.model_copy(update={"metadata": each.metadata.model_copy(update={"namespace": place})})
        for (_, name), each in homeless.items()
    }
    others = {key: each for key, each in state.schedules.items() if key not in homeless}
    return replace(state, schedules={**others, **moved})


def _loaded(name: str, documents: Iterable[tuple[Key, Any]], limits: Mapping[str, Mapping[str, Any]]) -> State:
    schedules: dict[Key, JobSchedule] = {}
    invalid: set[Key] = set()
    problems: list[str] = []
    for key, spec in documents:
        metadata = {"namespace": key[0], "name": key[1]}
        document = {"apiVersion": API_VERSION, "kind": "JobSchedule", "metadata": metadata, "spec": spec}
        try:
            schedules[key] = load_job_schedule(document, f"{name}: {key[0]}/{key[1]}")
        except InvalidSchedule as error:
            invalid.add(key)
            problems += error.problems
    return State(name, schedules, limits, frozenset(invalid), tuple(problems))
