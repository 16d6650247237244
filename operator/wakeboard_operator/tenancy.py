"""Who may use which queues and job types: the policy of the operator's settings.

It keeps honest teams apart in one database. It is no boundary against a hostile one: whoever can write rows or handlers
of a pool has its powers. One pool and one database for each zone of trust.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from wakeboard_operator.problems import NOT_ALLOWED, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence


class Tenant(BaseModel):
    """What some namespaces may use; each is a list of names, `*` and `?` allowed."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, validate_by_name=True)

    namespaces: list[str] = Field(min_length=1)
    queues: list[str] = Field(default=["*"], min_length=1)
    job_types: list[str] = Field(default=["*"], min_length=1)


def outside(tenancy: Sequence[Tenant], namespace: str, queue: str, job_type: str) -> Problem | None:
    """Why a schedule may not be; None: it may. Without a policy everything may be."""
    if not tenancy:
        return None
    mine = [tenant for tenant in tenancy if _fits(namespace, tenant.namespaces)]
    if any(_fits(queue, tenant.queues) and _fits(job_type, tenant.job_types) for tenant in mine):
        return None
    allowed = "; ".join(
        f"queues {', '.join(tenant.queues)} with job types {', '.join(tenant.job_types)}" for tenant in mine
    )
    return Problem(
        NOT_ALLOWED,
        f"namespace {namespace} may not use queue {queue} with job type {job_type}."
        f" It may use: {allowed or 'nothing'}. The operator's tenancy setting decides.",
    )


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
