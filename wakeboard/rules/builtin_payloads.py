"""The shapes of the payloads of the built-in job types: `http`, `command` and `job`. Pure functions.

A JobSchedule with another shape is refused when it is loaded, so that the mistake does not wait for its first run. The
handlers ask the same functions, for the runs of applications. What only a worker knows (the hosts, commands and
CronJobs that it may use, the contents of secrets) its handlers check.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from wakeboard.rules.name_patterns import SUBDOMAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HTTP_FIELDS: Final = ("method", "url", "headers", "body")
HTTP_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
COMMAND_FIELDS: Final = ("command", "args", "env")
JOB_FIELDS: Final = ("cronJob", "env", "args")
LONGEST_CRON_JOB_NAME: Final = 52  # characters

_HTTP_URL: Final = re.compile(r"https?://([^/?#@\s]*@)?[^/?#@:\s]", re.IGNORECASE)
_SECRET: Final = "$secret"  # noqa: S105 - the key that names one


def payload_problem(job_type: str, payload: object) -> str | None:
    """What is wrong with the shape of a payload, in one sentence that says what to write; None: nothing.

    Payloads of other job types are never wrong.
    """
    problem = _PROBLEMS.get(job_type)
    return problem(cast("Mapping[str, Any]", payload) if isinstance(payload, dict) else {}) if problem else None


def _http(payload: Mapping[str, Any]) -> str | None:
    if "url" not in payload:
        return 'an http payload is an object such as {"method": "POST", "url": "https://…", "body": {…}}'
    if unknown := _unknown(payload, HTTP_FIELDS):
        return f"an http payload has no field {unknown!r}: write {', '.join(HTTP_FIELDS)}"
    method = payload.get("method", "GET")
    if not isinstance(method, str) or method.upper() not in HTTP_METHODS:
        return f"method {method!r} is not one of {', '.join(HTTP_METHODS)}"
    if not _is_secret(payload["url"]) and not _is_http_url(payload["url"]):
        return "url must be a text that begins with https:// or http:// and contains a host"
    if not isinstance(payload.get("headers") or {}, dict):
        return 'headers must be an object such as {"Accept": "application/json"}'
    return None


def _command(payload: Mapping[str, Any]) -> str | None:
    if not isinstance(payload.get("command"), str):
        return 'a command payload is an object such as {"command": "backup", "args": {"path": "…"}}'
    if unknown := _unknown(payload, COMMAND_FIELDS):
        return f"a command payload has no field {unknown!r}: write {', '.join(COMMAND_FIELDS)}"
    for name in ("args", "env"):
        if not isinstance(payload.get(name) or {}, dict):
            return f"{name} must be an object"
    return None


def _job(payload: Mapping[str, Any]) -> str | None:
    if unknown := _unknown(payload, JOB_FIELDS):
        return f"a job payload has no field {unknown!r}; its fields: {', '.join(JOB_FIELDS)}"
    name = payload.get("cronJob")
    if not isinstance(name, str) or len(name) > LONGEST_CRON_JOB_NAME or not re.fullmatch(SUBDOMAIN, name):
        return "cronJob must name a CronJob in the schedule's namespace; write for example nightly-report"
    if not isinstance(payload.get("env") or {}, dict):
        return "env must be an object; write for example {REGION: eu}"
    if not isinstance(payload.get("args", []) or [], list):
        return "args must be a list of texts; write for example [--month, '2031-01']"
    return None


_PROBLEMS: Final[Mapping[str, Callable[[Mapping[str, Any]], str | None]]] = {
    "http": _http,
    "command": _command,
    "job": _job,
}


def _unknown(payload: Mapping[str, Any], fields: tuple[str, ...]) -> str | None:
    """The first field that is not one of these, shortened."""
    return next((name[:80] for name in sorted(payload.keys() - {*fields})), None)


def _is_secret(value: object) -> bool:
    return isinstance(value, dict) and _SECRET in value


def _is_http_url(value: object) -> bool:
    return isinstance(value, str) and _HTTP_URL.match(value) is not None
