"""The alerts page: what is wrong now, what was, who was notified, and the rules that decide it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from wakeboard.alerts.queries.page import AlertQueries
from wakeboard.alerts.rules.conditions import CONDITIONS, condition_in, page_behind
from wakeboard.alerts.rules.evaluation import is_evaluated, silence_in_words, unmeasured_after
from wakeboard.board.routing import BoardRequest, Page, page
from wakeboard.errors import InvalidValue
from wakeboard.text.durations import parse_duration
from wakeboard.text.object_ids import parse_id
from wakeboard.text.sanitize import one_line
from wakeboard.views.queries.listings import Listings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from wakeboard.alerts.queries.page import DeliveryRow, HeartbeatRow, RuleRow, ShownAlert
    from wakeboard.store.connection import AsyncConnection

PAGE_SIZE: Final = 25
DRIFTED_WITHIN: Final = timedelta(minutes=3)  # since a process had another version of a rule
LONGEST_WITHIN_S: Final = 366 * 86_400
LARGEST_VALUE: Final = 1e10  # about 300 years


@dataclass(frozen=True, slots=True)
class AlertItem:
    """An alert as the page shows it. `value`: what its rule measured, as text. `path`, `query`: what is behind it.

    `receivers`: those of its rule, with the newest delivery to each, or None. `silence`, `is_unevaluated`: as in
    RuleItem, of an open alert.
    """

    alert: ShownAlert
    value: str
    path: str
    query: Mapping[str, str]
    receivers: Sequence[tuple[str, DeliveryRow | None]]
    silence: str
    is_unevaluated: bool


@dataclass(frozen=True, slots=True)
class RuleItem:
    """A rule as the page shows it. `fields`: as a file declares them. `other`: those of another version, or none.

    `is_unevaluated`: no process evaluates it. `is_failing`: its evaluations fail.
    `silence`: how long it is silenced, or "".
    """

    rule: RuleRow
    fields: Sequence[tuple[str, str]]
    other: Sequence[tuple[str, str]]
    is_unevaluated: bool
    silence: str
    is_failing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsModel:
    """The model of the page. `older`: the link to earlier resolved alerts, or None. `restricted`: some namespaces."""

    now: datetime
    open: Sequence[AlertItem]
    resolved: Sequence[AlertItem]
    rules: Sequence[RuleItem]
    heartbeats: Sequence[HeartbeatRow]
    restricted: bool
    is_first: bool
    older: int | None


@page("/alerts")
async def alerts(request: BoardRequest) -> Page:
    """Shows alerts, rules and heartbeats."""
    namespaces = request.viewer.namespaces
    before = _before(request.query.get("before", ""))

    async def read(conn: AsyncConnection) -> AlertsModel:
        return await read_alerts_page(conn, namespaces, before)

    model = await request.read(("alerts", namespaces, before), read)
    return Page("alerts.html", model, "Alerts", may=await request.permissions(None))


async def read_alerts_page(
    conn: AsyncConnection, namespaces: frozenset[str] | None, before: int | None = None
) -> AlertsModel:
    """Reads the model, of what a viewer of these namespaces may see."""
    queries = AlertQueries(conn, namespaces)
    open_alerts = await queries.open() if before is None else []
    resolved = await queries.resolved(PAGE_SIZE + 1, before)
    deliveries = await queries.deliveries([*open_alerts, *resolved[:PAGE_SIZE]])
    now = await Listings(conn).now()
    return AlertsModel(
        now=now,
        open=[item_of(alert, deliveries, now) for alert in open_alerts],
        resolved=[item_of(alert, deliveries, now) for alert in resolved[:PAGE_SIZE]],
        rules=[rule_item(rule, now) for rule in await queries.rules()] if before is None else [],
        heartbeats=await queries.heartbeats() if before is None else [],
        restricted=namespaces is not None,
        is_first=before is None,
        older=resolved[PAGE_SIZE - 1].id if len(resolved) > PAGE_SIZE else None,
    )


def item_of(alert: ShownAlert, deliveries: Sequence[DeliveryRow], now: datetime) -> AlertItem:
    """An alert with its deliveries and links."""
    rule = readable(alert.definition)
    path, query = page_behind(rule, alert.opened_at) if rule else ("", {})
    sent = {each.receiver: each for each in deliveries if each.alert_id == alert.id}
    names = list(dict.fromkeys([*rule.get("receivers", []), *sent]))
    receivers = [(name, sent.get(name)) for name in names]
    is_open = alert.resolved_at is None
    return AlertItem(
        alert,
        value_text(rule, alert.value),
        path,
        query,
        receivers,
        silence=silence_in_words(alert.silenced_until, now) if is_open else "",
        is_unevaluated=is_open and not is_evaluated(alert.evaluated_at, now),
    )


def readable(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The rule without the fields that no file can declare: each process with a worker's role may store any object."""
    checks = {"where": _is_selection, "receivers": _is_texts, "within": _is_duration}
    return {name: value for name, value in definition.items() if checks.get(name, _is_anything)(value)}


def _is_selection(value: object) -> bool:
    return isinstance(value, dict) and _is_texts(list(cast("dict[str, object]", value).values()))


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in cast("list[object]", value))


def _is_duration(value: object) -> bool:
    return isinstance(value, str) and (parse_duration(value) or LONGEST_WITHIN_S + 1) <= LONGEST_WITHIN_S


def _is_anything(_: object) -> bool:
    return True


def value_text(rule: Mapping[str, Any], value: float) -> str:
    """What a rule measured, in its unit."""
    if not abs(value) <= LARGEST_VALUE:  # or not a number
        return f"{value:g}"
    condition = condition_in(rule)
    return condition.shown(value) if condition else f"{value:g}"


def rule_item(rule: RuleRow, now: datetime) -> RuleItem:
    """A rule with what other processes have instead."""
    drifted = rule.other_at is not None and rule.other_definition is not None and now - rule.other_at < DRIFTED_WITHIN
    other = fields_of(rule.other_definition or {}) if drifted else ()
    fields = fields_of(rule.definition)
    return RuleItem(
        rule,
        fields,
        () if other == fields else other,
        is_unevaluated=not is_evaluated(rule.evaluated_at, now),
        silence=silence_in_words(rule.silenced_until, now),
        is_failing=now - (rule.unmeasured_since or now) > unmeasured_after(rule.definition),
    )


def fields_of(definition: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The fields of a rule as a file declares them, the condition first."""
    first = [
        name for name in (*(each.name for each in CONDITIONS), "within", "where", "receivers") if name in definition
    ]
    names = [*first, *(name for name in definition if name not in first)]
    return tuple((name, _written(definition[name])) for name in names)


def _written(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{name}: {_written(inner)}" for name, inner in value.items()) + "}"  # type: ignore[misc]
        case list():
            return "[" + ", ".join(map(_written, value)) + "]"  # type: ignore[misc]
        case _:
            return one_line(str(value))


def _before(text: str) -> int | None:
    if not text:
        return None
    found = parse_id(text)
    if found is None:
        raise InvalidValue(f"before is {one_line(text)[:60]!r}: write the number of an alert")
    return found
