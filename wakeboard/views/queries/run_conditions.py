"""Turns a search for runs into conditions of SQL, with all values as parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, LiteralString

from psycopg.sql import SQL, Composed, Placeholder

from wakeboard.views.queries.listings import LIVE, PAST
from wakeboard.views.rules.run_search import is_run_id, is_uuid_start, number_range

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from wakeboard.views.rules.run_search import RunSearch, Term, Value

Table = Literal["live", "past"]


@dataclass(slots=True)
class Conditions:
    """The terms of a search as SQL over the alias `run`, and the values of its parameters."""

    table: Table
    parts: list[Composed] = field(default_factory=list[Composed])
    values: dict[str, Any] = field(default_factory=dict[str, Any])

    def add(self, query: LiteralString, *given: Any) -> None:
        """Adds a condition; each {} in it stands for one of the values."""
        names = [f"{self.table}{len(self.values) + at}" for at in range(len(given))]
        self.values.update(zip(names, given, strict=True))
        self.parts.append(SQL(query).format(*map(Placeholder, names)))

    def and_(self) -> Composed:
        """All conditions, each after `and`."""
        return Composed([SQL(" and {}").format(part) for part in self.parts])


# Each: the table it is read from decides about limit keys, statuses and times.
_TERMS: Final[dict[str, tuple[LiteralString, LiteralString]]] = {
    "type": ("(run.job_type like any ({}))", "not (run.job_type like any ({}))"),
    "queue": ("(run.queue like any ({}))", "not (run.queue like any ({}))"),
    "trigger": ("(run.trigger::text = any ({}))", "not (run.trigger::text = any ({}))"),
    "id": ("(run.id = any ({}))", "not (run.id = any ({}))"),
    "uuid": ("(run.uuid::text like any ({}))", "not (run.uuid::text like any ({}))"),
    "schedule": ("(run.schedule like any ({}))", "(run.schedule like any ({})) is not true"),
    "error": (
        "(run.error_type || ': ' || coalesce(run.last_error, '') ilike any ({}))",
        "(run.error_type || ': ' || coalesce(run.last_error, '') ilike any ({})) is not true",
    ),
}
_NUMBERS: Final[dict[str, LiteralString]] = {  # a value is a range
    "priority": "run.priority between {} and {}",
    "attempts": "run.attempts between {} and {}",
    "generation": "run.definition_generation between {} and {}",
}
# Without the keys of one schedule or backfill, which have a colon.
_LIMIT: Final[dict[str, LiteralString]] = {
    "live": "(coalesce(run.shared_limit_key, run.limit_key) like any ({})"
    " and strpos(coalesce(run.shared_limit_key, run.limit_key)::text, ':') = 0)",
    "past": "(run.limit_key like any ({}) and strpos(run.limit_key::text, ':') = 0)",
}
# Objects and lists never match as a whole: their text may hold values that are masked.
_PAYLOAD: LiteralString = (
    "(jsonb_typeof(run.payload #> {path}) not in ('object', 'array') and (run.payload #>> {path}) like any ({values})"
    " or jsonb_typeof(run.payload #> {path}) = 'array' and (run.payload #> {path}) ?| {words})"
)
# A run names its worker by a number. An attempt that failed keeps the name.
_WORKER: LiteralString = (
    "(run.locked_by in (select worker_id from wakeboard.workers where name like any ({})"
    " union all select worker_id from wakeboard.past_workers where name like any ({}))"
    " or exists (select from wakeboard.job_attempts where run_id = run.id and worker like any ({})))"
)
_WORD: LiteralString = (
    "(run.job_type ilike {} or coalesce(run.schedule, '') ilike {} or run.id = {} or run.uuid::text like {})"
)
# Of each run that is examined, because a namespace may have a million schedules.
_MINE: LiteralString = (
    "(select def.namespace from wakeboard.job_definitions as def where def.id = run.definition_id) = any ({})"
)
_MOMENTS: Final[dict[str, dict[str, LiteralString]]] = {
    "since": {
        "live": "greatest(run.created_at, run.started_at, run.failed_at, run.dead_at) >= {}",
        "past": "run.finished_at >= {}",
    },
    "until": {"live": "run.created_at < {}", "past": "run.finished_at < {}"},
}


def patterns(term: Term) -> list[str]:
    """The patterns of SQL's LIKE that the values of a term stand for."""
    match term.qualifier:
        case "error":
            return [contains_pattern(value) for value in term.values]
        case "schedule":  # a name without its namespace fits in every namespace
            return [
                pattern if "/" in pattern or pattern == "%" else f"%/{pattern}"
                for pattern in map(like_pattern, term.values)
            ]
        case "uuid":
            return [f"{value.text.lower()}%" for value in term.values]
        case _:
            return [like_pattern(value) for value in term.values]


def conditions_of(
    search: RunSearch, table: Table, now: datetime, namespaces: Collection[str] | None, *, by_schedule: bool
) -> Conditions:
    """The conditions of a table. `by_schedule`: the list is read by the ids of schedules, which were found before."""
    made = Conditions(table)
    own = LIVE if table == "live" else PAST
    wanted = [status for status in search.statuses if status in own]
    if len(wanted) < len(own):
        stored = ["dead" if status == "discarded" else status for status in wanted]
        made.add("(run.status = any ({}::text[]::wakeboard.run_status[]))", stored)  # the type that has statistics
    if namespaces is not None and not by_schedule:
        made.add(_MINE, sorted(namespaces))
    for term in search.terms:
        if not (by_schedule and term.qualifier == "schedule" and not term.negated):
            _add_term(made, term, table, now)
    return made


def _add_term(made: Conditions, term: Term, table: Table, now: datetime) -> None:
    moment = now - term.moment if isinstance(term.moment, timedelta) else term.moment
    match term.qualifier:
        case "status":
            pass
        case "since" | "until":
            made.add(_MOMENTS[term.qualifier][table], moment)
        case "limit":
            made.add(_LIMIT[table] + " is not true" if term.negated else _LIMIT[table], patterns(term))
        case "priority" | "attempts" | "generation":
            _add_number_term(made, term)
        case "id":
            made.add(_TERMS["id"][term.negated], [int(value.text) for value in term.values])
        case "trigger":
            made.add(_TERMS["trigger"][term.negated], [value.text for value in term.values])
        case "worker":
            made.add(f"not {_WORKER}" if term.negated else _WORKER, patterns(term), patterns(term), patterns(term))
        case "payload":
            _add_payload_term(made, term)
        case "":
            _add_word(made, term)
        case name:
            made.add(_TERMS[name][term.negated], patterns(term))


def _add_number_term(made: Conditions, term: Term) -> None:
    ranges = [each for value in term.values if (each := number_range(value))]
    query: LiteralString = _NUMBERS[term.qualifier]
    either: LiteralString = " or ".join([query for _ in ranges])
    made.add(f"({either}) is not true" if term.negated else f"({either})", *chain.from_iterable(ranges))


def _add_payload_term(made: Conditions, term: Term) -> None:
    values = {"path": list(term.path), "values": patterns(term), "words": [value.text for value in term.values]}
    names = {key: f"{made.table}{len(made.values)}_{key}" for key in values}
    made.values.update({names[key]: value for key, value in values.items()})
    fits = SQL(_PAYLOAD).format(**{key: Placeholder(name) for key, name in names.items()})
    made.parts.append(SQL("({}) is not true").format(fits) if term.negated else fits)


def _add_word(made: Conditions, term: Term) -> None:
    value = term.values[0]
    text = contains_pattern(value)
    run_id = int(value.text) if is_run_id(value) else 0
    uuid = f"{value.text.lower()}%" if is_uuid_start(value) else ""
    query: LiteralString = f"not {_WORD}" if term.negated else _WORD
    made.add(query, text, text, run_id, uuid)


def like_pattern(value: Value) -> str:
    """The pattern that matches the whole value; `*` of a wild one matches any text."""
    escaped = re.sub(r"([\\%_])", r"\\\1", value.text)
    return escaped.replace("*", "%") if value.wild else escaped


def contains_pattern(value: Value) -> str:
    """The pattern that matches text that contains the value."""
    return f"%{like_pattern(value)}%"
