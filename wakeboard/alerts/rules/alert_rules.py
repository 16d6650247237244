"""Alert rules as a file declares them: their fields, defaults and bounds, and the messages for mistakes.

    apiVersion: wakeboard.dev/v1alpha1
    kind: AlertRules
    spec:
      rules:
        - name: billing-fails
          failures: 10
          within: 60m
          where: {queue: billing}

A rule has exactly one condition. docs/alerts.md describes them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import time, timedelta
from typing import Annotated, Any, Final, Literal, Self, cast

from pydantic import Field, ValidationError, create_model, model_validator

from wakeboard.alerts.rules.conditions import CONDITIONS, AlertCondition
from wakeboard.alerts.rules.fields import Duration, QuietHours, Where, shown
from wakeboard.alerts.rules.receivers import HeartbeatSpec, Receiver  # noqa: TC001 - pydantic reads it when it builds the class
from wakeboard.declared.model import Declared
from wakeboard.declared.validation_messages import Place, problems_of, refusal
from wakeboard.errors import InvalidSchedule
from wakeboard.schedules.rules.field_types import QueueName  # noqa: TC001 - the same
from wakeboard.text.durations import duration_text
from wakeboard.text.name_patterns import SUBDOMAIN

API_VERSION: Final = "wakeboard.dev/v1alpha1"
KIND: Final = "AlertRules"
# The rules that a file with receivers has without any of their condition or name.
BUILT_IN: Final = (
    {"name": "success-missed", "successMissed": 1},
    {"name": "database-went-back", "databaseWentBack": 1, "severity": "critical"},
)
MAX_RULES: Final = 200
MAX_RECEIVERS: Final = 100  # of a rule; the database stores a rule in at most 8 KiB

Severity = Literal["info", "warning", "critical"]


_FIELDS: Final[dict[str, Any]] = {
    each.field: (each.accepts | None, Field(default=None, examples=[each.example[each.name]])) for each in CONDITIONS
}
_Conditions = create_model("_Conditions", __base__=Declared, **_FIELDS)


class AlertRule(_Conditions):
    """One rule: its name, exactly one condition, and what it applies to.

    `within`: for the conditions that have it. `receivers`: names of receivers; absent: the alert is listed and not
    announced. `repeat_interval` and `quiet_hours`: absent, those of the file.
    """

    name: Annotated[str, Field(max_length=63, pattern=SUBDOMAIN)] = Field(examples=["billing-fails"])
    severity: Severity = "warning"
    within: Duration | None = None
    where: Where = Field(default=Where(), examples=[{"queue": "billing"}])
    receivers: list[str] = Field(default=[], examples=[["team"]])
    repeat_interval: Duration | None = None
    quiet_hours: QuietHours | None = None

    @property
    def condition(self) -> AlertCondition:
        """Its condition."""
        return self._conditions()[0]

    @property
    def limit(self) -> Any:
        """What the file has for its condition."""
        return getattr(self, self.condition.field)

    def _conditions(self) -> list[AlertCondition]:
        return [each for each in CONDITIONS if getattr(self, each.field) is not None]

    @model_validator(mode="after")
    def _has_one_condition(self) -> Self:
        names = [each.name for each in self._conditions()]
        if len(names) != 1:
            known = ", ".join(each.name for each in CONDITIONS)
            raise refusal(
                f"{self.name} has {' and '.join(names)}; write a rule for each of them"
                if names
                else f"{self.name} has no condition; write one of {known}, for example dead: 1"
            )
        condition = self.condition
        if condition.within == "required" and self.within is None:
            raise refusal(f"{self.name} has {condition.name} without within; write for example within: 60m")
        if condition.within == "unused" and self.within is not None:
            raise refusal(f"{self.name} has within, which {condition.name} does not use; remove it")
        if condition.needs_where and self.where == Where():
            raise refusal(
                f"{self.name} has {condition.name} without where; write for example where: {{schedule: billing/*}}"
            )
        return self

    @model_validator(mode="after")
    def _receivers_fit(self) -> Self:
        if len(self.receivers) > MAX_RECEIVERS:
            raise refusal(
                f"{self.name} has {len(self.receivers)} receivers, which is too many; write at most {MAX_RECEIVERS}"
            )
        return self


class AlertSpec(Declared):
    """The rules of a file, their receivers, and what applies to all of them.

    `queue`: of the runs that deliver notifications. `quiet_hours` do not apply to critical rules; those of a rule do.
    """

    rules: list[AlertRule] = Field(default=[], examples=[[{"name": "dead-runs", "dead": 1}]])
    receivers: list[Receiver] = Field(default=[], examples=[[{"name": "team", "slack": {}}]])
    heartbeats: list[HeartbeatSpec] = Field(default=[], examples=[[{"name": "watchdog", "url": "https://…"}]])
    repeat_interval: Duration = Field(default=timedelta(hours=4), validate_default=False)
    quiet_hours: QuietHours | None = None
    queue: QueueName = "default"

    def resolved_rules(self) -> list[AlertRule]:
        """The rules, each with the repeat interval and the quiet hours that apply to it.

        What schedules expect (spec.expectSuccessWithinSeconds), and a database that went back in time, need no rule:
        without one, all receivers get them.
        """
        everybody = [receiver.name for receiver in self.receivers[:MAX_RECEIVERS]]
        built_in = [AlertRule.model_validate({**each, "receivers": everybody}) for each in BUILT_IN if everybody]
        known = {name for rule in self.rules for name in (rule.condition.name, rule.name)}
        rules = [*self.rules, *(each for each in built_in if not known & {each.condition.name, each.name})]
        return [
            rule.model_copy(
                update={
                    "repeat_interval": rule.repeat_interval or self.repeat_interval,
                    "quiet_hours": rule.quiet_hours or (None if rule.severity == "critical" else self.quiet_hours),
                }
            )
            for rule in rules
        ]


NO_RULES: Final = AlertSpec()


class AlertRules(Declared):
    """A document with alert rules."""

    api_version: Literal["wakeboard.dev/v1alpha1"]
    kind: Literal["AlertRules"]
    metadata: dict[str, Any] = Field(default_factory=dict)
    spec: AlertSpec = Field(examples=[{"rules": []}])


def load_alert_rules(document: object, where: Callable[[Place], str]) -> AlertRules:
    """The rules that `document` declares. `where` returns file and line of a part of it, which begin each sentence.

    Raises InvalidSchedule with a sentence for each problem.
    """
    if not isinstance(document, Mapping):
        raise InvalidSchedule(f'{where(())}: these are not alert rules; begin with "apiVersion: {API_VERSION}"')
    declared, problems = None, list[tuple[Place, str]]()
    document = cast("Mapping[str, object]", document)
    try:
        declared = AlertRules.model_validate(document)
    except ValidationError as error:
        problems = problems_of(error, AlertRules.model_json_schema())
    problems += _mistakes_in_names(document.get("spec"))
    if declared is None or problems:
        raise InvalidSchedule(*(f"{where(place)}: {sentence}" for place, sentence in problems))
    return declared


def _mistakes_in_names(spec: object) -> Iterator[tuple[Place, str]]:
    """What is wrong between the parts of a spec, which may be invalid in themselves: names used twice or unknown."""
    rules, receivers, heartbeats = (_named(spec, field) for field in ("rules", "receivers", "heartbeats"))
    if len(rules) > MAX_RULES:
        yield ("spec", "rules"), f"the file has {len(rules)} rules, which is too many; write at most {MAX_RULES}"
    for kind, named in (("rules are", rules), ("receivers or heartbeats are", [*receivers, *heartbeats])):
        seen = set[str]()
        for place, name, _ in named:
            if name in seen:
                yield (*place, "name"), f"two {kind} named {shown(name)}; rename one of them"
            seen.add(name)
    known = [name for _, name, _ in receivers]
    advice = f"the receivers are {', '.join(known)}" if known else "write it into spec.receivers"
    for place, name, rule in rules:
        for index, receiver in enumerate(_list(rule.get("receivers"))):
            if isinstance(receiver, str) and receiver not in known:
                sentence = f"the rule {name} has the receiver {shown(receiver)}, which is not declared; {advice}"
                yield (*place, "receivers", index), sentence


def _named(spec: object, field: str) -> list[tuple[Place, str, Mapping[str, object]]]:
    """The place, the name and the content of each object with a name in a list of the spec."""
    items = [(("spec", field, index), _mapping(item)) for index, item in enumerate(_list(_mapping(spec).get(field)))]
    return [(place, name, item) for place, item in items if isinstance(name := item.get("name"), str)]


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def definition_of(rule: AlertRule) -> dict[str, Any]:
    """The rule for display: its fields as a file would have them, those with defaults left out."""
    fields = rule.model_dump(by_alias=True, exclude_defaults=True)
    return {name: _text(value) for name, value in fields.items() if name not in {"name", "severity"}}


def _texts(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _text(value) for name, value in fields.items()}


def _text(value: object) -> object:
    match value:
        case timedelta():
            return duration_text(value)
        case time():
            return f"{value:%H:%M}"
        case dict():
            inner = cast("dict[str, Any]", value)
            return f"{inner['times']:g} x p{round(inner['share'] * 100)}" if "times" in inner else _texts(inner)
        case _:
            return value
