"""Says which job of `enqueue_many` was refused.

One statement enqueues all jobs, and the checks take whole columns, so a refusal names no job. This module looks for the
job after the refusal, so a successful call does no more work. The transaction has failed by then, so this module sends
no query. It names no job rather than a wrong one.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from wakeboard.engine.typed_payloads import plain_payload
from wakeboard.errors import InvalidValue
from wakeboard.text.canonical_json import check_payload
from wakeboard.text.sanitize import shortened

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

EXAMPLE: Final = 'Job("send_mail", {"to": 42})'
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")
_NAMED: Final = ("queue", "job_type", "limit_key", "idempotency_key")
_MAX_PARENTS: Final = 1000


def shown(value: object) -> str:
    """The repr of a value, cut to 60 characters."""
    return shortened(repr(value))


def is_iterable(value: object) -> bool:
    """Whether a `for` can read it. Does not begin to read it: some iterables can be read only once."""
    return hasattr(type(value), "__iter__") or hasattr(type(value), "__getitem__")


def check_fields(jobs: Sequence[object], fields: Iterable[str]) -> None:
    """Raises InvalidValue with the place and the type of the first object that lacks one of the fields of a `Job`."""
    for place, job in enumerate(jobs):
        if not all(hasattr(job, name) for name in fields):
            raise InvalidValue(f"jobs[{place}] is of type {type(job).__name__}, not a Job; write {EXAMPLE}") from None


def of_job(place: int, job: Any, problem: InvalidValue | str) -> InvalidValue:
    """The problem of the job at this place, such as `jobs[3] (send_mail): priority is 6; write …`."""
    job_type: object = job.job_type
    named = f" ({job_type})" if isinstance(job_type, str) and _NAME.fullmatch(job_type) else ""
    return InvalidValue(f"jobs[{place}]{named}: {problem}")


@contextmanager
def naming_job(jobs: Sequence[Any], parents: str | None, *, unique: bool) -> Generator[None]:
    """Adds to the database's refusal the place of the first job that has the refused value.

    The refusal stays as it is if no job has it, or if different values fit the message. `parents`: JSON with the runs
    that each job waits for; None if none waits. `unique`: the call has `unique_for`.
    """
    try:
        yield
    except InvalidValue as problem:
        raise _located(problem, jobs, parents, unique=unique) from problem.__cause__


def _located(problem: InvalidValue, jobs: Sequence[Any], parents: str | None, *, unique: bool) -> InvalidValue:
    message = str(problem)
    if message.startswith("payload "):
        return _with_invalid_payload(jobs) or problem
    if message.startswith("a job type is null"):
        message = "job_type is None; write the name of a job type"
    place = _place(message, jobs, json.loads(parents) if parents is not None else [], unique=unique)
    return problem if place is None else of_job(place, jobs[place], message)


def _with_invalid_payload(jobs: Sequence[Any]) -> InvalidValue | None:
    """The problem of the first payload that Python refuses as well. Its message has the place in the payload."""
    for place, job in enumerate(jobs):
        try:
            check_payload(json.loads(json.dumps({} if job.payload is None else plain_payload(job.payload))))
        except InvalidValue as problem:
            return of_job(place, job, problem)
    return None


def _place(message: str, jobs: Sequence[Any], parents: list[list[Any] | None], *, unique: bool) -> int | None:
    """The place of the first job that the message can mean."""
    if found := re.match(r"after holds run (\d+)(?: with the uuid ([0-9a-f-]+))?,", message):
        wrong = [any(_is_run(run, int(found[1]), found[2]) for run in runs or ()) for runs in parents]
    elif message.startswith("after is "):
        wrong = [len(runs or ()) > _MAX_PARENTS for runs in parents]
    elif message.startswith("a run has unique_for or an idempotency key"):
        wrong = [job.idempotency_key is not None for job in jobs]
    elif message.endswith("write no key: the payload is a list, which has none"):
        wrong = [isinstance(job.payload, list | tuple) for job in jobs]
    elif message.startswith("job_type is None"):
        wrong = [job.job_type is None for job in jobs]
    else:
        wrong = _has_value(message, jobs)
    if wrong.count(True) > 1 and not message.startswith(("idempotency_key ", "a run has unique_for")):
        # The database does not check a job that finds an earlier run.
        wrong = [] if unique else [each and job.idempotency_key is None for each, job in zip(wrong, jobs, strict=True)]
    return wrong.index(True) if True in wrong else None


def _is_run(parent: int | dict[str, Any], run_id: int, uuid: str | None) -> bool:
    if uuid is None:
        return run_id == (parent["id"] if isinstance(parent, dict) else parent)
    return parent == {"id": run_id, "uuid": uuid}


def _has_value(message: str, jobs: Sequence[Any]) -> list[bool]:
    """Whether each job has the text that the message shows. Empty if different texts fit it."""
    name = next((name for name in _NAMED if message.startswith(f"{name} is ")), None)
    if name is None:
        return []
    values: list[str | None] = [getattr(job, name) for job in jobs]
    meant = {
        value for value in set(values) if value is not None and message.startswith(f"{name} is {_as_shown(value)};")
    }
    return [value in meant for value in values] if len(meant) == 1 else []


def _as_shown(value: str) -> str:
    """A text as refuse_value.sql shows it."""
    return json.dumps(shortened(value), ensure_ascii=False)
