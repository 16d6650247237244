"""Settings of the operator: those of the core, and its own. docs/settings.md is generated from the fields."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_settings import NoDecode

from wakeboard.settings import Names, Settings, read_settings_as
from wakeboard_operator.tenancy import Tenant  # noqa: TC001 - pydantic reads it when it builds the class


class OperatorSettings(Settings):
    """All settings of an operator."""

    # operator
    source: str = Field(
        "",
        max_length=253,
        pattern="^([a-z0-9][a-z0-9._:-]*)?$",
        description="Name of this cluster, or of a part of it, in the database. Empty: `k8s:` and the cluster's uid.",
    )
    namespaces: Names = Field(
        [], description="Namespaces whose schedules the operator manages. Empty: all. A list requires a source."
    )
    tenancy: Annotated[list[Tenant], NoDecode] = Field(
        [],
        description="Queues and job types that the schedules of each namespace may use, as JSON:"
        ' `[{"namespaces": ["billing"], "queues": ["billing"], "jobTypes": ["*"]}]`. Empty: no restriction.',
    )
    adopt_foreign_schedules: bool = Field(
        default=False, description="Take over schedules whose status names another database."
    )
    operator_port: int = Field(
        8080, ge=0, le=65_535, description="Port of /healthz, /readyz and /metrics. 0: any free port."
    )
    limits_file: str = Field(
        "",
        description="YAML file with the limits of limit keys (`kind: Limits`), which it declares. It is read"
        " again when it changes. Empty: none; `up` and `apply` read the documents in their folder.",
    )
    watch_worker_pods: bool = Field(
        default=True,
        description="Watch the worker pods in the operator's own namespace (`POD_NAMESPACE`), and queue the runs of a"
        " worker again as soon as the kubelet reports that its process has ended. Otherwise leases decide.",
    )
    reconcile_seconds: float = Field(
        60.0, ge=1, le=3600, description="Maximum number of seconds between two lists of all JobSchedules."
    )
    status_writes_per_second: float = Field(
        50.0,
        gt=0,
        le=1000,
        description="Maximum status writes per second for times and counts. Condition changes are written immediately.",
    )
    status_min_interval_seconds: float = Field(
        5.0,
        ge=0,
        le=3600,
        description="Minimum number of seconds between two status writes for times and counts of one schedule.",
    )
    status_errors: Literal["full", "type-only"] = Field(
        "full",
        description="What statuses and events show of a handler's error. `full`: its type and message; `type-only`: its"
        " type. Credentials in messages are masked.",
    )
    leader_lease_seconds: int = Field(
        15,
        ge=3,
        le=300,
        description="Seconds until the leadership expires if the operator does not renew it. A standby takes over after"
        " this time at the latest.",
    )
    release: str = Field(
        "",
        max_length=253,
        description="Name of the Helm release. A standby is ready while an operator of the same release is the leader,"
        " also of another version. Empty: the version of wakeboard.",
    )

    @model_validator(mode="after")
    def _namespaces_require_a_source(self) -> OperatorSettings:
        if self.namespaces and not self.source:
            raise ValueError("WAKEBOARD_NAMESPACES requires WAKEBOARD_SOURCE: a name for this part of the cluster")
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
    """Settings from the environment. Raises InvalidSettings with one sentence for each invalid variable."""
    return read_settings_as(OperatorSettings, given)
