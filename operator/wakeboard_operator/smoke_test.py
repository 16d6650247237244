"""What `helm test` runs: `python -m wakeboard_operator.smoke_test --namespace NAME`.

It makes a JobSchedule of the type `ping`, asks for a run, waits until a worker has run it and its status says so, and
removes it again. So the whole way is gone once: API server, operator, database, worker, and back. It needs to create,
get, patch and delete jobschedules in that namespace. 0: it worked; 1: it did not, and a sentence says how far it came.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from kubernetes.aio import client

from wakeboard.errors import WakeboardError
from wakeboard.output import write_error, write_line
from wakeboard_operator.kube_client import Cluster, ListFailed, login
from wakeboard_operator.resources import GROUP, KIND, OURS, PLURAL, VERSION, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LOOK_EVERY_S: Final = 1.0
MERGE_PATCH: Final = "application/merge-patch+json"


class SmokeTestFailed(WakeboardError):
    """The sentence says how far it came, and where to look."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A trial as the command line asks for it."""

    namespace: str
    queue: str
    within_s: float


def how_far(resource: Resource | None) -> str:
    """Where a schedule is on its way, and where to look when it stays there."""
    if resource is None:
        return "somebody removed the schedule"
    if resource.status.get("observedGeneration") != resource.generation:
        return "no operator has looked at the schedule: look at the operator's pods and their logs"
    stalled = condition(resource, "Stalled")
    if stalled.get("status") == "True":
        return f"the schedule cannot be honoured ({stalled.get('reason')}): {stalled.get('message')}"
    if resource.status.get("queued"):
        return (
            "the run waits for a worker: look at the pods and Jobs of the wake CronJob, whether it is suspended, and"
            " whether a pool serves the queue"
        )
    if resource.status.get("running"):
        return "a worker runs it, and has not told the outcome"
    return "the operator knows the schedule, but no run has come of it: look at the operator's logs"


def condition(resource: Resource, kind: str) -> dict[str, Any]:
    """The condition of that type; {}: it has none."""
    conditions: list[dict[str, Any]] = resource.status.get("conditions") or []
    found = [each for each in conditions if each["type"] == kind]
    return found[0] if found else {}


def known(resource: Resource) -> bool:
    """Whether the operator has brought it to the database. Raises TrialFailed if it will not."""
    if resource.status.get("observedGeneration") != resource.generation:
        return False
    if condition(resource, "Stalled").get("status") == "True":
        raise SmokeTestFailed(how_far(resource))
    return condition(resource, "Ready").get("status") == "True"


def ran(resource: Resource) -> bool:
    """Whether its run is over. Raises TrialFailed if it did not succeed."""
    last: dict[str, Any] = resource.status.get("lastRun") or {}
    result = last.get("result")
    if result not in (None, "succeeded"):
        failure: dict[str, Any] = resource.status.get("lastFailure") or {}
        said = failure.get("message", "nothing")
        raise SmokeTestFailed(f"the run is {result}, and it said: {said}")
    return result == "succeeded"


class SmokeTest:
    """One schedule, from its making to its removal."""

    def __init__(self, api: client.ApiClient, wanted: Wanted) -> None:
        self._cluster = Cluster(api)
        self._resources: Any = client.CustomObjectsApi(api)
        self._wanted = wanted
        self._began = time.monotonic()
        self.name = f"wakeboard-trial-{secrets.token_hex(3)}"

    async def run(self) -> None:
        """Raises TrialFailed, or another error in one sentence."""
        self._tell(f"makes the schedule {self._wanted.namespace}/{self.name} for the queue {self._wanted.queue}")
        await self._make()
        try:
            await self._until(known)
            self._tell("the operator has brought it to the database; asks for a run")
            await self._ask_for_a_run()
            await self._until(ran)
            self._tell("its status says that the run succeeded")
        finally:
            await self._remove()

    async def _make(self) -> None:
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "metadata": {"name": self.name, "labels": {"app.kubernetes.io/part-of": "wakeboard"}},
            "spec": {"jobType": "ping", "queue": self._wanted.queue, "timeoutSeconds": 60},
        }
        while True:
            try:
                await self._resources.create_namespaced_custom_object(
                    GROUP, VERSION, self._wanted.namespace, PLURAL, body
                )
            except client.ApiException as error:
                if self._too_late() or not _may_pass(error):
                    raise SmokeTestFailed(f"the schedule cannot be made: {_failure_text(error)}") from error
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                if self._too_late():
                    raise SmokeTestFailed(
                        f"the API server cannot be reached: {error or type(error).__name__}"
                    ) from error
            else:
                return
            await asyncio.sleep(LOOK_EVERY_S)

    async def _ask_for_a_run(self) -> None:
        """After the operator has seen it: a token that is there from the beginning is not executed."""
        body = {"metadata": {"annotations": {f"{OURS}run-now": "trial"}}}
        try:
            await self._resources.patch_namespaced_custom_object(
                GROUP, VERSION, self._wanted.namespace, PLURAL, self.name, body, _content_type=MERGE_PATCH
            )
        except client.ApiException as error:
            raise SmokeTestFailed(f"the run cannot be asked for: {_failure_text(error)}") from error

    async def _until(self, true: Callable[[Resource], bool]) -> None:
        found: Resource | None = None
        while True:
            with suppress(ListFailed):  # away for a moment; the last answer counts
                found = await self._cluster.read((self._wanted.namespace, self.name))
            if found is not None and true(found):
                return
            if self._too_late():
                raise SmokeTestFailed(f"it took longer than {self._wanted.within_s:.0f} s: {how_far(found)}.")
            await asyncio.sleep(LOOK_EVERY_S)

    async def _remove(self) -> None:
        try:
            await self._resources.delete_namespaced_custom_object(
                GROUP, VERSION, self._wanted.namespace, PLURAL, self.name
            )
        except (client.ApiException, aiohttp.ClientError, TimeoutError, OSError) as error:
            self._tell(f"the schedule could not be removed: kubectl delete jobschedule {self.name} ({error})")

    def _too_late(self) -> bool:
        return time.monotonic() - self._began > self._wanted.within_s

    def _tell(self, sentence: str) -> None:
        write_line(f"{time.monotonic() - self._began:5.1f} s  {sentence}")
        sys.stdout.flush()


def _failure_text(refusal: Any) -> str:
    """The API server's own sentence. Their exceptions have no types."""
    try:
        return str(json.loads(refusal.body)["message"])
    except (KeyError, TypeError, ValueError):
        return f"{refusal.status} {refusal.reason}"


def _may_pass(refusal: Any) -> bool:
    """Whether another try may help: a definition is served some moments after it was made."""
    return refusal.status in {404, 429, 500, 503}


def parse(words: Sequence[str] | None = None) -> Wanted:
    """What the command line asks for; a usage error ends the process with 2."""
    parser = argparse.ArgumentParser(prog="python -m wakeboard_operator.smoke_test", description=__doc__)
    parser.add_argument("--namespace", default=os.environ.get("POD_NAMESPACE", "default"))
    parser.add_argument("--queue", default="default", help="one that a pool serves")
    parser.add_argument("--within", type=float, default=180.0, metavar="SECONDS")
    given = parser.parse_args(words)
    return Wanted(given.namespace, given.queue, given.within)


async def _go(wanted: Wanted) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    async with login() as api:
        await SmokeTest(api, wanted).run()


def main() -> int:
    """The exit code."""
    try:
        asyncio.run(_go(parse()))
    except WakeboardError as error:
        write_error("wakeboard trial", str(error))
        return 1
    except asyncio.CancelledError:
        write_error("wakeboard trial", "it was asked to stop.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
