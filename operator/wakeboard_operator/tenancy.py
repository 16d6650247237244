"""Tenancy: which namespaces may use which queues and job types, from the operator's settings.

It separates teams that share a database. It is not a security boundary: a user who can write rows or handlers of a pool
has the rights of that pool. Use one pool and one database for each trust zone.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from wakeboard_operator.problems import NOT_ALLOWED, ScheduleProblem

if TYPE_CHECKING:
    from collections.abc import Sequence


class Tenant(BaseModel):
    """What some namespaces may use. Each field is a list of names, in which `*` and `?` are wildcards."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, validate_by_name=True)

    namespaces: list[str] = Field(min_length=1)
    queues: list[str] = Field(default=["*"], min_length=1)
    job_types: list[str] = Field(default=["*"], min_length=1)


def tenancy_problem(tenancy: Sequence[Tenant], namespace: str, queue: str, job_type: str) -> ScheduleProblem | None:
    """Returns why a schedule is not allowed, or None. Without a policy everything is allowed."""
    if not tenancy:
        return None
    matching = [tenant for tenant in tenancy if _matches(namespace, tenant.namespaces)]
    if any(_matches(queue, tenant.queues) and _matches(job_type, tenant.job_types) for tenant in matching):
        return None
    allowed = "; ".join(
        f"queues {', '.join(tenant.queues)} with job types {', '.join(tenant.job_types)}" for tenant in matching
    )
    return ScheduleProblem(
        NOT_ALLOWED,
        f"namespace {namespace} may not use queue {queue} with job type {job_type}."
        f" It may use: {allowed or 'nothing'}. The operator's tenancy setting decides.",
    )


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
