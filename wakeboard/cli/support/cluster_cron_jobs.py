"""Reads the CronJobs of a cluster with `kubectl`, and so with the user's kubeconfig, context and login.

kubectl is a program of the user's machine, not a library of ours: every way to log in that it knows works.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from typing import TYPE_CHECKING

from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.imports.cron_jobs import cron_jobs_of
from wakeboard.text.name_patterns import LABEL
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.imports.cron_jobs import CronJobs

TIMEOUT_S = 60
WHERE = "the cluster"
_SHOWN = 500  # characters of kubectl's error


def cluster_cron_jobs(namespaces: Sequence[str], *, all_namespaces: bool) -> CronJobs:
    """The CronJobs of these namespaces; without any, those of the context's namespace.

    Raises InvalidValue for an invalid namespace, and WakeboardError with what kubectl says.
    """
    for namespace in namespaces:
        if not re.fullmatch(LABEL, namespace):
            raise InvalidValue(f"--namespace {namespace[:80]!r} is not a namespace; write for example billing.")
    scopes = [["--all-namespaces"]] if all_namespaces else [["--namespace", each] for each in namespaces] or [[]]
    first, *others = [_get(scope) for scope in scopes]
    for other in others:
        first.found += other.found
        first.problems += other.problems
    return first


def _get(scope: Sequence[str]) -> CronJobs:
    words = ["kubectl", "get", "cronjobs.batch", "--output=json", f"--request-timeout={TIMEOUT_S}s", *scope]
    with tempfile.TemporaryFile() as output:
        try:
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.PIPE,
                timeout=2 * TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError:
            raise WakeboardError(
                "kubectl is not installed; install it, or name a folder or - for standard input."
            ) from None
        except subprocess.TimeoutExpired:
            raise WakeboardError(f"kubectl did not answer within {2 * TIMEOUT_S} seconds.") from None
        if done.returncode != 0:
            said = _without_log_lines(done.stderr.decode(errors="replace"))[:_SHOWN] or f"exit code {done.returncode}"
            end = "" if said.endswith((".", "?")) else "."
            raise WakeboardError(
                f"kubectl get cronjobs failed: {said}{end} Check `kubectl config current-context`, or name a folder of"
                " manifests, or - for standard input."
            )
        output.seek(0)
        return cron_jobs_of(output, WHERE)


def _without_log_lines(said: str) -> str:
    """What kubectl says for users: its log lines, such as "E1122 14:44:42.997 memcache.go:265] …", are left out."""
    lines = [line for line in said.splitlines() if not re.match(r"[EIWF]\d{4} \d\d:", line)]
    return one_line("\n".join(lines))
