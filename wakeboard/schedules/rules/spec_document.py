"""Writes a stored schedule as the YAML that declares it: the inverse of `schedules.desired_schedule.definition_row`.

Only fields that differ from their defaults are written, as users write them. Applied again, the document declares the
same schedule. Text from users stays exact: what another reader of YAML could take for a number, a date or a truth value
is quoted, and characters that reorder or hide text are escaped.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import yaml

from wakeboard.schedules.rules.job_schedule import API_VERSION, JobScheduleSpec
from wakeboard.text.sanitize import escaped
from wakeboard.ticks.catch_up import DEFAULT_LIMIT
from wakeboard.ticks.compiled_ticks import AT, EVERY, utc_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS_OF_YAML: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_NESTED: Final = frozenset({"catchUp", "dst", "backoff"})


def spec_document(row: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The spec of a row of job_definitions: the fields that differ from their defaults, and the others."""
    defaults = JobScheduleSpec.model_validate({"jobType": "x"}).model_dump(by_alias=True, exclude={"job_type"})
    stored = _fields(row)
    written: dict[str, Any] = {}
    left_out: dict[str, Any] = {}
    for name, value in stored.items():
        if name in _NESTED:
            differing = {key: part for key, part in value.items() if part != defaults[name].get(key)}
            same = {key: part for key, part in value.items() if key not in differing and part is not None}
            written |= {name: differing} if differing else {}
            left_out |= {name: same} if same else {}
        elif name not in defaults or value != defaults[name]:
            written[name] = value
        else:
            left_out[name] = value
    return written, left_out


def document_text(namespace: str, name: str, spec: Mapping[str, Any]) -> str:
    """The YAML of a JobSchedule."""
    metadata = {"name": name, "namespace": namespace}
    return yaml_text({"apiVersion": API_VERSION, "kind": "JobSchedule", "metadata": metadata, "spec": spec})


def yaml_text(value: Any) -> str:
    """A value of JSON types as YAML in block style."""
    return escaped(
        yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**30, default_flow_style=False)
    )


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    limited = row["catch_up"] == "All" and row["catch_up_limit"] != DEFAULT_LIMIT
    return {
        "jobType": row["job_type"],
        **_timing(row),
        "after": row.get("after") or None,
        "timeZone": row["time_zone"],
        "payload": row["payload"],
        "queue": row["queue"],
        "priority": row["priority"],
        "suspend": row["suspended"],
        "suspendAfterDead": row["suspend_after_dead"],
        "expectSuccessWithinSeconds": row["expect_success_within_s"],
        "alertAfterMissed": row["alert_after_missed"],
        "concurrencyPolicy": row["concurrency_policy"],
        "limitKey": row["limit_key"],
        "catchUp": {"policy": row["catch_up"], "limit": row["catch_up_limit"] if limited else None},
        "startingDeadlineSeconds": row["starting_deadline_s"],
        "dst": {"gap": row["dst_gap"], "overlap": row["dst_overlap"]},
        "jitterSeconds": row["jitter_s"],
        "maxAttempts": row["max_attempts"],
        "backoff": {
            "strategy": row["backoff_strategy"].capitalize(),
            "baseSeconds": row["backoff_base_s"],
            "maxSeconds": row["backoff_cap_s"],
        },
        "timeoutSeconds": row["timeout_s"],
    }


def _timing(row: Mapping[str, Any]) -> dict[str, Any]:
    timing = row["schedule"] or ""
    kind = "every" if timing.startswith(EVERY) else "at" if timing.startswith(AT) else "schedule"
    bounds = {name: row[column] for name, column in (("startsAt", "starts_at"), ("endsAt", "ends_at"))}
    return {
        **dict.fromkeys(("schedule", "every", "at")),
        kind: row["schedule"] if kind == "schedule" else timing.partition(" ")[2],
        **{name: utc_text(moment) if isinstance(moment, datetime) else moment for name, moment in bounds.items()},
    }


class _Dumper(yaml.SafeDumper):
    """Quotes every text that is not plainly a word."""


def _text_node(_: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS_OF_YAML
    return yaml.ScalarNode("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _text_node)
