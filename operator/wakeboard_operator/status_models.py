"""The status of a JobSchedule: what `kubectl` shows and other tools read.

These models are the one place where its fields and their documentation stand. The custom resource definition is made
from them, and the operator writes nothing else. What is unknown is absent, never null.

Words that may grow (conditions, results, actions) are plain text in the resource definition, so that an operator that
knows a new one can write it under an older definition.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from wakeboard.rules.redact import redact
from wakeboard.rules.sanitize import one_line

_PORTABLE: Final = 2**53  # the last whole number that every language reads alike

ConditionType = Annotated[
    Literal["Ready", "Healthy", "Suspended", "Stalled"], WithJsonSchema({"type": "string", "maxLength": 64})
]
Result = Annotated[
    Literal["succeeded", "cancelled", "skipped", "dead"], WithJsonSchema({"type": "string", "maxLength": 64})
]
Action = Annotated[
    Literal["run-now", "retry-dead", "discard-dead"], WithJsonSchema({"type": "string", "maxLength": 64})
]
Count = Annotated[int, Field(ge=0, le=_PORTABLE, json_schema_extra={"format": "int64"})]
RunId = Annotated[int, Field(ge=1, le=_PORTABLE, json_schema_extra={"format": "int64"})]
Generation = Annotated[int, Field(ge=-1, le=_PORTABLE, json_schema_extra={"format": "int64"})]


def _shown(longest: int) -> BeforeValidator:
    """For text that comes from users: one safe line without credentials, cut to `longest` characters."""
    return BeforeValidator(lambda text: one_line(redact(text))[:longest] if isinstance(text, str) else text)


def _in_kubernetes(name: str) -> str:
    """camelCase, with ID in capitals."""
    camel = to_camel(name)
    return f"{camel[:-2]}ID" if camel.endswith("Id") else camel


class _Part(BaseModel):
    """A part of the status, named as Kubernetes names fields; what a newer operator wrote is read past."""

    model_config = ConfigDict(
        frozen=True, alias_generator=_in_kubernetes, validate_by_name=True, validate_by_alias=True
    )


class Condition(_Part):
    """One answer about the schedule, in the shape that all of Kubernetes uses."""

    type: ConditionType = Field(
        description="What is answered. Ready: the spec is accepted and stands in the database. Healthy: no run is dead "
        "and the last one went well. Suspended: no runs are made by schedule. Stalled: the spec cannot be honoured and "
        "waits for somebody to change it."
    )
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it is so.")
    observed_generation: Generation | None = Field(
        default=None, description="The generation of the spec that the answer is about."
    )
    last_transition_time: AwareDatetime = Field(description="When `status` last changed.")
    reason: Annotated[str, Field(max_length=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")] = Field(
        description="Why, in one word for programs."
    )
    message: Annotated[str, _shown(2000), Field(max_length=32_768)] = Field(
        description="Why, in a sentence for people."
    )


class LastRun(_Part):
    """The run that ended last."""

    id: RunId = Field(description="Its number: `wakeboard run ID` tells the whole story.")
    scheduled_for: AwareDatetime | None = Field(
        default=None, description="The moment at which it was due by schedule. Absent for a run made by hand."
    )
    finished_at: AwareDatetime = Field(description="When it ended.")
    result: Result = Field(description="How it ended: succeeded, cancelled, skipped, or dead.")


class LastFailure(_Part):
    """The attempt that failed last, whether or not a later one went well."""

    time: AwareDatetime = Field(description="When it failed.")
    reason: Annotated[str, _shown(200), Field(max_length=200)] = Field(description="The type of the error.")
    message: Annotated[str, _shown(2000), Field(max_length=2000)] = Field(description="What the error says, shortened.")
    run_id: RunId = Field(description="The number of the run that it was an attempt of.")


class LastAction(_Part):
    """The action that was last asked for by an annotation, such as `wakeboard.dev/run-now`."""

    action: Action = Field(description="What was asked for: run-now, retry-dead or discard-dead.")
    token: Annotated[str, Field(max_length=253)] = Field(
        description="The value of the annotation. Each token is acted upon once."
    )
    time: AwareDatetime = Field(description="When the operator acted.")
    result: Annotated[str, _shown(1024), Field(max_length=1024)] = Field(description="What came of it.")


class JobScheduleStatus(_Part):
    """What has become of it: whether it is accepted, when it runs next, and how it has been doing."""

    observed_generation: Generation = Field(
        default=-1, description="The generation of the spec that the operator has looked at; -1 before it has."
    )
    accepted_generation: Generation | None = Field(
        default=None,
        description="The generation of the spec that is in force: the newest one that could be honoured.",
    )
    conditions: Annotated[list[Condition], Field(max_length=16)] | None = Field(
        default=None,
        description="Whether it is Ready, Healthy, Suspended, Stalled, and why.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    next_run_time: AwareDatetime | None = Field(
        default=None,
        description="When it is due next, in UTC. Absent if it runs only on demand, is suspended, or never runs again.",
    )
    last_run: LastRun | None = None
    last_success_time: AwareDatetime | None = Field(default=None, description="When a run last succeeded.")
    last_failure: LastFailure | None = None
    running: Count | None = Field(default=None, description="How many of its runs are being executed now.")
    queued: Count | None = Field(default=None, description="How many of its runs wait to be executed.")
    failed: Count | None = Field(
        default=None, description="How many of its runs have failed and will be tried again by themselves."
    )
    dead: Count | None = Field(
        default=None, description="How many of its runs were given up and wait for a person to retry or discard them."
    )
    oldest_dead_time: AwareDatetime | None = Field(
        default=None, description="When the oldest of its dead runs was given up."
    )
    last_action: LastAction | None = None
    installation: Annotated[str, Field(max_length=64)] | None = Field(
        default=None,
        description="The id of the database that runs it. An operator that stands before another database leaves the "
        "resource alone, unless it was installed as `release`.",
    )
    release: Annotated[str, Field(max_length=253)] | None = Field(
        default=None,
        description="What the operator was installed as that wrote the status: the namespace and the name of its "
        "release.",
    )
