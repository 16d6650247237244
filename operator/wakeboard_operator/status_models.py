"""The status of a JobSchedule, as kubectl and other tools read it.

These models define its fields and their documentation. The custom resource definition is generated from them, and the
operator writes nothing else. Unknown values are absent, never null.

Enumerations that may get new values (conditions, results, actions) are plain strings in the resource definition, so
that a newer operator can write them under an older definition.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from wakeboard.text.redact import redact
from wakeboard.text.sanitize import one_line

_PORTABLE: Final = 2**53  # the largest integer that every JSON parser reads exactly

ConditionType = Annotated[
    Literal["Ready", "Healthy", "Suspended", "Stalled"], WithJsonSchema({"type": "string", "maxLength": 64})
]
Result = Annotated[
    Literal["succeeded", "cancelled", "skipped", "dead"], WithJsonSchema({"type": "string", "maxLength": 64})
]
Action = Annotated[
    Literal["run-now", "retry-dead", "discard-dead", "backfill"], WithJsonSchema({"type": "string", "maxLength": 64})
]
Count = Annotated[int, Field(ge=0, le=_PORTABLE, json_schema_extra={"format": "int64"})]
RunId = Annotated[int, Field(ge=1, le=_PORTABLE, json_schema_extra={"format": "int64"})]
Generation = Annotated[int, Field(ge=-1, le=_PORTABLE, json_schema_extra={"format": "int64"})]


def _shown(longest: int) -> BeforeValidator:
    """For text that comes from users: one safe line without credentials, cut to `longest` characters."""
    return BeforeValidator(
        lambda text: one_line(redact(text, longest, "start"))[:longest] if isinstance(text, str) else text
    )


def _in_kubernetes(name: str) -> str:
    """camelCase, with ID in capitals."""
    camel = to_camel(name)
    return f"{camel[:-2]}ID" if camel.endswith("Id") else camel


class _Part(BaseModel):
    """A part of the status, named as Kubernetes names fields; fields of newer operators are ignored."""

    model_config = ConfigDict(
        frozen=True, alias_generator=_in_kubernetes, validate_by_name=True, validate_by_alias=True
    )


class Condition(_Part):
    """One condition of the schedule, in the format that is standard in Kubernetes."""

    type: ConditionType = Field(
        description="The condition. Ready: the spec is accepted and synced. Healthy: no run is dead and the last one "
        "went well. Suspended: no runs are scheduled. Stalled: the spec is invalid or not allowed, and must be changed."
    )
    status: Literal["True", "False", "Unknown"] = Field(description="Whether the condition holds.")
    observed_generation: Generation | None = Field(
        default=None, description="The generation of the spec that the condition is about."
    )
    last_transition_time: AwareDatetime = Field(description="When `status` last changed.")
    reason: Annotated[str, Field(max_length=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")] = Field(
        description="The reason, for programs."
    )
    message: Annotated[str, _shown(2000), Field(max_length=32_768)] = Field(description="The reason, for users.")


class LastRun(_Part):
    """The run that finished last."""

    id: RunId = Field(description="The number of the run: `wakeboard run ID` shows its details.")
    scheduled_for: AwareDatetime | None = Field(
        default=None, description="The tick that it was scheduled for. Absent for a run on demand."
    )
    finished_at: AwareDatetime = Field(description="When it finished.")
    result: Result = Field(description="Its final status: succeeded, cancelled, skipped, or dead.")


class LastFailure(_Part):
    """The attempt that failed last, even if a later one succeeded."""

    time: AwareDatetime = Field(description="When it failed.")
    reason: Annotated[str, _shown(200), Field(max_length=200)] = Field(description="The type of the error.")
    message: Annotated[str, _shown(2000), Field(max_length=2000)] = Field(
        description="The message of the error, shortened."
    )
    run_id: RunId = Field(description="The number of the run.")


class LastAction(_Part):
    """The last action that an annotation requested, such as `wakeboard.dev/run-now`."""

    action: Action = Field(description="The action: run-now, retry-dead, discard-dead or backfill.")
    token: Annotated[str, Field(max_length=253)] = Field(
        description="The value of the annotation. Each token is acted upon once."
    )
    time: AwareDatetime = Field(description="When the operator performed it.")
    result: Annotated[str, _shown(1024), Field(max_length=1024)] = Field(description="The result of the action.")


class JobScheduleStatus(_Part):
    """Whether the schedule is accepted, when it runs next, and the results of its runs."""

    observed_generation: Generation = Field(
        default=-1, description="The generation of the spec that the operator has observed; -1 before the first time."
    )
    accepted_generation: Generation | None = Field(
        default=None,
        description="The generation of the spec that is in force: the newest valid one.",
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
    waiting_for: Annotated[str, _shown(300), Field(max_length=300)] | None = Field(
        default=None,
        description="What blocks a schedule with `after`: a dead run of another schedule, a schedule that does not "
        "exist, or itself (a cycle). Absent if nothing does.",
    )
    last_run: LastRun | None = None
    last_success_time: AwareDatetime | None = Field(default=None, description="When a run last succeeded.")
    last_failure: LastFailure | None = None
    running: Count | None = Field(default=None, description="The number of running runs.")
    queued: Count | None = Field(default=None, description="The number of queued runs.")
    failed: Count | None = Field(default=None, description="The number of failed runs that will be retried.")
    dead: Count | None = Field(
        default=None, description="The number of dead runs, which wait for a user to retry or discard them."
    )
    oldest_dead_time: AwareDatetime | None = Field(default=None, description="When the oldest dead run died.")
    last_action: LastAction | None = None
    installation: Annotated[str, Field(max_length=64)] | None = Field(
        default=None,
        description="The id of the database that runs it. An operator of another database does not run it, unless it "
        "belongs to `release`.",
    )
    release: Annotated[str, Field(max_length=253)] | None = Field(
        default=None,
        description="The namespace and name of the Helm release whose operator wrote the status.",
    )
