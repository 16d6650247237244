"""What the workers of a queue offer to a built-in job type: hosts of `http`, commands, and the CronJobs of `job`.

Workers register it with their job types. A worker in another language that registers none leaves it unknown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from wakeboard.errors import InvalidSettings
from wakeboard.text.facts import did_you_mean
from wakeboard.text.host_patterns import host_pattern, normalized
from wakeboard.text.sanitize import one_line
from wakeboard.text.similar_names import closest

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

_URL: Final = re.compile(
    r"(https?)://(?:[^/?#@\s]*@)?([^/?#@:\s\[]+|\[[0-9a-fA-F:.]+\])(?::([0-9]{1,5}))?(?:[/?#]|$)", re.IGNORECASE
)
_PORTS: Final = {"http": 80, "https": 443}


def missing_offer(queue: str, job_type: str, target: str, offers: AbstractSet[str]) -> str | None:
    """The sentence that no worker of the queue offers what a run needs; None: one does, or that is not known.

    `target`: the url, the name of the command, or `namespace/name` of the CronJob.
    """
    workers = f"No worker of queue {one_line(queue)}"
    match job_type:
        case "http":
            host, port = _destination(target)
            if not host or any(_matches(entry, host, port) for entry in offers):
                return None
            return f"{workers} may call {one_line(host)} (httpAllowedHosts).{did_you_mean(closest(host, offers))}"
        case "command" if target not in offers:
            meant = did_you_mean(closest(target, offers))
            return f"{workers} has the command {one_line(target)} (commands).{meant}"
        case "job" if not offers & {target, "*", target.partition("/")[0]}:
            namespace, _, name = target.partition("/")
            names = [each.partition("/")[2] for each in offers if each.startswith(f"{namespace}/")]
            if not names:
                return f"{workers} runs CronJobs of the namespace {one_line(namespace)} (jobs.namespaces)."
            meant = did_you_mean(closest(name, names))
            return f"The namespace {one_line(namespace)} has no CronJob {one_line(name)}.{meant}"
        case _:
            return None


def _destination(url: str) -> tuple[str, int]:
    """The host as it is compared, and the port; no host if a secret names them or the url cannot be read."""
    found = _URL.match(url)
    if found is None:
        return "", 0
    try:
        return normalized(found[2]), int(found[3] or _PORTS[found[1].lower()])
    except ValueError:
        return "", 0


def _matches(entry: str, host: str, port: int) -> bool:
    try:
        return host_pattern(entry).matches(host, port)
    except InvalidSettings:
        return True
