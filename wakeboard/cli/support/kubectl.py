"""Reads a cluster with `kubectl`, and so with the user's kubeconfig, context and login.

kubectl is a program of the user's machine, not a library of ours: every way to log in that it knows works.
"""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any, Final

from wakeboard.cli.support.program_output import ProgramFailed, ProgramMissing, program_output
from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.text.name_patterns import LABEL

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from wakeboard.imports.cron_jobs import CronJobs

TIMEOUT_S: Final = 60
WHERE: Final = "the cluster"
DEFAULT_NAMESPACE: Final = "default"  # of a context that names none
JOB_SCHEDULES: Final = "jobschedules.wakeboard.dev"


def kubectl_options(*, context: str = "", kubeconfig: str = "") -> list[str]:
    """The options of kubectl that choose this context."""
    return [
        *([f"--context={context}"] if context else []),
        *([f"--kubeconfig={kubeconfig}"] if kubeconfig else []),
    ]


def cluster_cron_jobs(namespaces: Sequence[str], *, all_namespaces: bool) -> CronJobs:
    """The CronJobs of these namespaces; without any, those of the context's namespace.

    Raises InvalidValue for an invalid namespace, and WakeboardError with what kubectl says.
    """
    from wakeboard.imports.cron_jobs import cron_jobs_of

    require_namespaces(namespaces)
    scopes = [["--all-namespaces"]] if all_namespaces else [["--namespace", each] for each in namespaces] or [[]]
    instead = "name a folder of manifests, or - for standard input"
    first, *others = [cron_jobs_of(io.BytesIO(_get("cronjobs.batch", scope, instead)), WHERE) for scope in scopes]
    for other in others:
        first.found += other.found
        first.problems += other.problems
    return first


def cluster_job_schedules(namespaces: Collection[str], *, context: str, selector: str) -> list[dict[str, Any]]:
    """The JobSchedules of these namespaces, as objects. Raises WakeboardError with what kubectl says."""
    chosen = [*kubectl_options(context=context), *([f"--selector={selector}"] if selector else [])]
    found: list[dict[str, Any]] = []
    for namespace in sorted(namespaces):
        said = _get(JOB_SCHEDULES, ["--namespace", namespace, *chosen], "name a folder or REVISION:PATH")
        try:
            found += json.loads(said)["items"]
        except (ValueError, LookupError, TypeError):
            raise WakeboardError("kubectl printed no list: is `kubectl` the program of Kubernetes?") from None
    return found


def context_namespace(context: str) -> str:
    """The namespace of objects that name none, as of `kubectl apply`."""
    words = ["config", "view", "--minify", "--output=jsonpath={.contexts[0].context.namespace}"]
    said = program_output(
        ["kubectl", *words, *kubectl_options(context=context)], "kubectl config view", timeout_s=TIMEOUT_S
    )
    return said.decode(errors="replace").strip() or DEFAULT_NAMESPACE


def require_namespaces(namespaces: Sequence[str]) -> None:
    """Raises InvalidValue for a value of --namespace that is none."""
    for namespace in namespaces:
        if not re.fullmatch(LABEL, namespace):
            raise InvalidValue(f"--namespace {namespace[:80]!r} is not a namespace; write for example billing.")


def _get(resource: str, options: Sequence[str], instead: str) -> bytes:
    """The JSON of objects. `instead`: what the user can do without a cluster."""
    words = ["kubectl", "get", resource, "--output=json", f"--request-timeout={TIMEOUT_S}s", *options]
    who = f"kubectl get {resource.partition('.')[0]}"
    try:
        return program_output(words, who, timeout_s=2 * TIMEOUT_S)
    except ProgramMissing:
        raise WakeboardError(f"kubectl is not installed; install it, or {instead}.") from None
    except ProgramFailed as failed:
        end = "" if failed.said.endswith((".", "?")) else "."
        raise WakeboardError(f"{failed}{end} Check `kubectl config current-context`, or {instead}.") from None
