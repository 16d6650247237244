"""Settings of the operator: those of the core, and its own."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_settings import NoDecode

from wakeboard.settings import Names, Settings, read_settings_as
from wakeboard_operator.tenancy import Tenant  # noqa: TC001 - pydantic looks at it when it makes the class


class OperatorSettings(Settings):
    """Everything that can be set for an operator, with its unit and its default."""

    # the operator
    source: str = Field(
        "",
        max_length=253,
        pattern="^([a-z0-9][a-z0-9._:-]*)?$",
        description="Name of this cluster among the sources of the database. Empty: `k8s:` and the cluster's uid.",
    )
    namespaces: Names = Field([], description="Namespaces to look at. Empty: all. A list needs a source.")
    tenancy: Annotated[list[Tenant], NoDecode] = Field(
        [],
        description="Who may use what, as JSON:"
        ' `[{"namespaces": ["billing"], "queues": ["billing"], "jobTypes": ["*"]}]`. Empty: everybody everything.',
    )
    adopt_foreign_schedules: bool = Field(
        default=False, description="Take over schedules whose status was written from another database."
    )
    operator_port: int = Field(
        8080, ge=0, le=65_535, description="Port of /healthz, /readyz and /metrics. 0: any free one."
    )
    reconcile_seconds: float = Field(
        60.0, ge=1, le=3600, description="The operator lists every JobSchedule at least so often."
    )
    status_writes_per_second: float = Field(
        50.0,
        gt=0,
        le=1000,
        description="Status writes per second for times and counts. Conditions are written at once.",
    )
    status_min_interval_seconds: float = Field(
        5.0,
        ge=0,
        le=3600,
        description="Seconds between two status writes for times and counts of one schedule.",
    )
    status_errors: Literal["full", "type-only"] = Field(
        "full",
        description="What statuses and events show of a handler's error: `full`, its type and message; `type-only`,"
        " its type. What looks like a credential is masked either way.",
    )
    leader_lease_seconds: int = Field(15, ge=3, le=300, description="How long leadership holds without being renewed.")
    release: str = Field(
        "",
        max_length=253,
        description="What this operator was installed as. A standby is Ready while its own release leads, of whatever"
        " version; behind another release it is not. Empty: the version of wakeboard.",
    )

    @model_validator(mode="after")
    def _a_part_of_a_cluster_has_a_name(self) -> OperatorSettings:
        if self.namespaces and not self.source:
            raise ValueError("WAKEBOARD_NAMESPACES needs WAKEBOARD_SOURCE: a name for what this operator looks at")
        return self

    @field_validator("namespaces", mode="before")
    @classmethod
    def _split_namespaces(cls, value: Any) -> Any:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("tenancy", mode="before")
    @classmethod
    def _parse_tenancy(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value or "[]")
        except json.JSONDecodeError as error:
            raise ValueError(f"must be a JSON list ({error.msg})") from error


def read_operator_settings(**given: Any) -> OperatorSettings:
    """Settings from the environment. Raises InvalidSettings with a sentence for each that cannot be honoured."""
    return read_settings_as(OperatorSettings, given)
