"""The shapes of the payloads of the built-in job types: `http`, `command` and `job`. Pure functions.

A JobSchedule with another shape is refused by the API server (the chart's admission policy is generated from these
shapes), and when it is loaded, so that the mistake does not wait for its first run. The handlers ask the same
functions, for the runs of applications. What only a worker knows (the hosts, commands and CronJobs that it may use, the
contents of secrets) its handlers check.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from wakeboard.text.name_patterns import SUBDOMAIN
from wakeboard.text.sanitize import shortened

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_CRON_JOB_NAME: Final = 52  # characters
SECRET: Final = "$secret"  # noqa: S105 - the key that names one


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a payload.

    `kind`: what its value is; None: anything. `pattern`: of a text, with the same meaning in Python and RE2; it matches
    the whole text. `secret`: the value may name a secret instead. `problem`: the sentence about any other value.
    """

    name: str
    kind: Literal["text", "object", "list"] | None = None
    pattern: str | None = None
    longest: int = 8192  # characters, of a text with a pattern
    required: bool = False
    secret: bool = False
    problem: str = ""


SHAPES: Final[Mapping[str, tuple[Field, ...]]] = {
    "http": (
        Field(
            name="method",
            kind="text",
            pattern="(?i)GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS",
            problem="method is one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS; write for example method: POST",
        ),
        Field(
            name="url",
            kind="text",
            pattern=r"(?is)https?://([^/?#@\s]*@)?[^/?#@:\s].*",
            required=True,
            secret=True,
            problem="url must be a text that begins with https:// or http:// and contains a host; write for example "
            "url: https://api.example.com/reports",
        ),
        Field(
            name="headers",
            kind="object",
            problem='headers must be an object; write for example {"Accept": "application/json"}',
        ),
        Field(name="body"),
    ),
    "command": (
        Field(
            name="command",
            kind="text",
            required=True,
            problem="command must name a command of the workers; write for example command: backup",
        ),
        Field(name="args", kind="object", problem='args must be an object; write for example {"path": "/data"}'),
        Field(name="env", kind="object", problem='env must be an object; write for example {"REGION": "eu"}'),
    ),
    "job": (
        Field(
            name="cronJob",
            kind="text",
            pattern=SUBDOMAIN,
            longest=LONGEST_CRON_JOB_NAME,
            required=True,
            problem="cronJob must name a CronJob in the schedule's namespace; write for example nightly-report",
        ),
        Field(name="env", kind="object", problem="env must be an object; write for example {REGION: eu}"),
        Field(name="args", kind="list", problem="args must be a list of texts; write for example [--month, '2031-01']"),
    ),
}


def payload_problem(job_type: str, payload: object) -> str | None:
    """What is wrong with the shape of a payload, in one sentence that says what to write; None: nothing.

    A null counts as absent. Payloads of other job types are never wrong.
    """
    fields = SHAPES.get(job_type)
    if fields is None:
        return None
    values = cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}
    known = {field.name for field in fields}
    unknown = sorted(name for name, value in values.items() if value is not None and name not in known)
    if unknown:
        return unknown_field(job_type, shortened(unknown[0], 80))
    return next((field.problem for field in fields if not _fits(values.get(field.name), field)), None)


def unknown_field(job_type: str, name: str) -> str:
    """The sentence about a field that a payload of the job type does not have."""
    return f"its payload has no field '{name}'; the fields are {', '.join(field.name for field in SHAPES[job_type])}"


def _fits(value: object, field: Field) -> bool:
    if value is None:
        return not field.required
    match field.kind:
        case None:
            return True
        case "object":
            return isinstance(value, dict)
        case "list":
            return isinstance(value, list)
        case "text" if isinstance(value, str):
            return field.pattern is None or (
                len(value) <= field.longest and re.fullmatch(field.pattern, value) is not None
            )
        case "text":
            return field.secret and isinstance(value, dict) and SECRET in value
