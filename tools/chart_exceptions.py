"""Accepted findings of the chart's linters, each with a reason. An exemption that matches no finding is an error."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Finding:
    """What a linter reported about an object (`Deployment/wakeboard-operator`) in a rendering (`pools`)."""

    linter: str
    rule: str
    rendering: str
    thing: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Exemption:
    """Accepts findings of these rules about objects whose full name matches `things`.

    `renderings`: only if the full name of the rendering matches.
    """

    rules: tuple[str, ...]
    things: str
    reason: str
    renderings: str = ".*"

    def covers(self, finding: Finding) -> bool:
        """Whether this is one of them."""
        here = re.fullmatch(self.renderings, finding.rendering) and re.fullmatch(self.things, finding.thing)
        return finding.rule in self.rules and here is not None


EXEMPTIONS: Final = (
    Exemption(
        ("container-image-pull-policy", "CKV_K8S_15"),
        r".*",
        "The default tag is a release, which never changes: pulling it each minute would make a wake slower, and a wake"
        " would fail with the registry. image.pullPolicy changes it.",
    ),
    Exemption(
        ("CKV_K8S_43",),
        r".*",
        "The chart cannot know digests of images that are built after it; image.digest takes one.",
    ),
    Exemption(
        ("container-cpu-limit", "CKV_K8S_11"),
        r".*",
        "CPU is shared by its requests. A limit would only slow a start, and a throttled heartbeat loses leases.",
    ),
    Exemption(
        ("CKV_K8S_35",),
        r".*",
        "The connection string is read from the environment, as by libpq; our errors never print it, and commands of"
        " the built-in handler get an environment without it.",
    ),
    Exemption(
        ("pod-networkpolicy", "CKV2_K8S_6"),
        r".*",
        "networkPolicy.enabled makes policies for every pod, as in the rendering `everything`; it is off by default"
        " because only the administrator knows the addresses of the database and the API server.",
        renderings=r"(?!everything).*",
    ),
    Exemption(
        ("CKV_K8S_38",),
        r"(Deployment/.*(operator|board|container-jobs)|Pod/.*-smoke-test)",
        "The operator, the board behind a proxy, a pool with jobs and the pod of `helm test` talk to the API server; no"
        " other pod mounts a token.",
    ),
    Exemption(
        ("CKV_K8S_8", "CKV_K8S_9"),
        r"(Pod/.*-smoke-test|Deployment/.*-worker-.*)",
        "They serve no requests, so they need no readiness. A worker that hangs loses its leases, and other workers"
        " take its runs.",
    ),
    Exemption(
        ("pod-probes-identical",),
        r"Deployment/.*board",
        "Both ask whether the process answers. A board is ready without its database, because its pages say what is"
        " wrong with it, and an Ingress would not.",
    ),
    Exemption(
        ("deployment-has-host-podantiaffinity", "deployment-has-poddisruptionbudget"),
        r"Deployment/.*-worker-.*",
        "A worker that is drained gives its runs back and others take them; worker.affinity spreads them where wanted.",
    ),
    Exemption(
        ("deployment-replicas",),
        r"Deployment/jobs-operator",
        "The rendering `bare` asks for one operator. By default there are two.",
    ),
    Exemption(
        ("container-security-context-user-group-id", "CKV_K8S_40"),
        r"StatefulSet/.*-dev-database",
        "The official Postgres image has its user at 999. For trials only; devDatabase.runAsUser changes it.",
    ),
    Exemption(
        ("container-security-context-user-group-id", "CKV_K8S_40"),
        r".*",
        "OpenShift's admission sets the ids, from the range of the namespace.",
        renderings="openshift",
    ),
    Exemption(
        ("statefulset-has-servicename",),
        r"StatefulSet/.*-dev-database",
        "One pod, found by its Service's own address, which outlives the pod's; no client uses pod names.",
    ),
)


def unexcused(findings: Iterable[Finding], exemptions: Iterable[Exemption] = EXEMPTIONS) -> list[str]:
    """A sentence for each finding that no exemption covers, and for each exemption that covers none."""
    found = list(findings)
    found_in: dict[str, list[str]] = {}  # where each was found
    for finding in found:
        if not any(exemption.covers(finding) for exemption in exemptions):
            found_in.setdefault(f"{finding.thing}: {finding.sentence} ({finding.rule})", []).append(finding.rendering)
    idle = [
        f"Nothing needs the exemption of {rule} for {exemption.things}: remove it from tools/chart_exceptions.py."
        for exemption in exemptions
        for rule in exemption.rules
        if not any(finding.rule == rule and exemption.covers(finding) for finding in found)
    ]
    return [f"{sentence} in {', '.join(sorted(set(places)))}" for sentence, places in found_in.items()] + idle
