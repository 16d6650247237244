"""Who may use which queues and job types."""

from __future__ import annotations

import pytest

from wakeboard_operator.tenancy import Tenant, tenancy_problem

POLICY = [
    Tenant(namespaces=["billing", "billing-*"], queues=["billing"], job_types=["invoice_*", "ping"]),
    Tenant(namespaces=["ops"]),
]


@pytest.mark.parametrize(
    ("namespace", "queue", "job_type"),
    [("billing", "billing", "invoice_all"), ("billing-test", "billing", "ping"), ("ops", "default", "anything")],
)
def test_what_the_policy_names_may_be(namespace: str, queue: str, job_type: str) -> None:
    assert tenancy_problem(POLICY, namespace, queue, job_type) is None


@pytest.mark.parametrize(
    ("namespace", "queue", "job_type"),
    [("billing", "default", "ping"), ("billing", "billing", "command"), ("other", "default", "ping")],
)
def test_the_rest_is_not_allowed_and_the_message_says_what_is(namespace: str, queue: str, job_type: str) -> None:
    problem = tenancy_problem(POLICY, namespace, queue, job_type)
    assert problem is not None
    assert problem.reason == "NotAllowed"
    assert namespace in problem.message
    if namespace == "billing":
        assert "queues billing with job types invoice_*, ping" in problem.message


def test_without_a_policy_everything_may_be() -> None:
    assert tenancy_problem([], "any", "any", "any") is None
