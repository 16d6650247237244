"""The types of the fields that users write in YAML: their bounds, and validators for what a schema cannot check."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated, Any, Final, cast

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo
from pydantic.alias_generators import to_camel

from wakeboard.declared.validation_messages import refusal
from wakeboard.errors import InvalidSchedule
from wakeboard.text.canonical_json import canonical_payload
from wakeboard.text.durations import INTERVAL_IN_WORDS, parse_duration
from wakeboard.text.durations import PATTERN as DURATION
from wakeboard.text.name_patterns import WORD
from wakeboard.text.similar_names import closest
from wakeboard.ticks.compiled_ticks import LAST_YEAR, LONGEST_INTERVAL, MOMENTS, utc_text
from wakeboard.ticks.cron_parser import parse_cron
from wakeboard.ticks.zones import known_zones, unknown_zone

# RFC 3339, as the API server wants it: if it is no time, its month, day, hour, minute or second does not exist.
_COMPLETE: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _check_cron(expression: str) -> str:
    try:
        parse_cron(expression, name="")
    except InvalidSchedule as error:
        raise refusal(str(error)) from None
    return expression


def _check_zone(zone: str) -> str:
    if zone in known_zones():
        return zone
    raise refusal(unknown_zone(f'timeZone is "{zone}", which', f'"{_nearest_zone(zone)}"'))


def _nearest_zone(zone: str) -> str:
    # Never Etc/GMT+1: its sign is inverted.
    regional = [known for known in sorted(known_zones()) if "/" in known and not known.startswith("Etc/")]
    places = {known.rpartition("/")[2].lower(): known for known in regional}
    place = zone.rpartition("/")[2].lower().replace(" ", "_")
    return places.get(place) or closest(zone, regional) or "Europe/Lisbon"


def _canonical(payload: object) -> object:
    if not isinstance(payload, Mapping):
        return payload
    try:
        return canonical_payload(cast("Mapping[str, object]", payload))
    except InvalidSchedule as error:
        raise refusal(str(error)) from None


def _require_unit(written: object) -> object:
    number = written if isinstance(written, str) else str(written) if type(written) is int else ""
    if number.isdecimal():
        example = f"{number}s" if _is_interval(f"{number}s") else "90m"
        raise refusal(f"every is {written!r}, which has no unit; write {INTERVAL_IN_WORDS}, for example {example}")
    return written


def _check_interval(interval: str) -> str:
    if not _is_interval(interval):
        raise refusal(f'every is "{interval}"; write {INTERVAL_IN_WORDS}, for example 90m')
    return interval


def _is_interval(text: str) -> bool:
    seconds = parse_duration(text)
    return seconds is not None and seconds <= LONGEST_INTERVAL


def _text_of_time(written: object) -> object:
    """YAML makes a time of what is not in quotes; the API server keeps the text."""
    return written.isoformat() if isinstance(written, date) else written


def _check_moment(moment: str, info: ValidationInfo) -> str:
    try:
        written = datetime.fromisoformat(moment)
    except ValueError:
        written = None
    is_complete = _COMPLETE.fullmatch(moment) is not None
    if written is not None and is_complete and int(written.timestamp() // 1) in MOMENTS:
        return utc_text(written)
    name = to_camel(info.field_name or "")
    wanted = f"a time with a T, seconds and an offset, from 1970 to {LAST_YEAR}"
    if written is None and is_complete:
        wanted = "a time that exists"
    raise refusal(f'{name} is "{moment}"; write {wanted}, for example 2026-12-01T08:00:00Z')


CronExpression = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_check_cron)]
ZoneName = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_check_zone)]
Interval = Annotated[
    str,
    Field(max_length=9, pattern=f"^{DURATION}$"),
    BeforeValidator(_require_unit),
    AfterValidator(_check_interval),
]
Moment = Annotated[
    str,
    Field(max_length=64, json_schema_extra={"format": "date-time"}),
    BeforeValidator(_text_of_time),
    AfterValidator(_check_moment),
]
Payload = Annotated[dict[str, Any], BeforeValidator(_canonical)]
QueueName = Annotated[str, Field(max_length=63, pattern=WORD)]
JobType = Annotated[str, Field(max_length=128, pattern=WORD)]
LimitKey = Annotated[str, Field(max_length=128, pattern=WORD)]
