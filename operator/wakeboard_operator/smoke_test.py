"""The smoke test that `helm test` runs: `python -m wakeboard_operator.smoke_test --namespace NAME`.

It creates a JobSchedule of the type `ping`, requests a run, waits until its status shows that the run succeeded, and
deletes the schedule. This checks the API server, the operator, the database and a worker. It needs the rights to
create, get, patch and delete jobschedules in the namespace. Exit code 0: it succeeded. 1: it failed, with a message.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wakeboard.errors import WakeboardError
from wakeboard.kube.client import NOT_FOUND, ApiError, ApiUnavailable
from wakeboard.process.output import write_error, write_line
from wakeboard_operator.kube_client import Cluster, login
from wakeboard_operator.resources import GROUP, KIND, OURS, PLURAL, VERSION, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wakeboard.kube.client import ApiClient

POLL_S: Final = 1.0


class SmokeTestFailed(WakeboardError):
    """The message describes the last state, and where to look for the cause."""


@dataclass(frozen=True, slots=True)
class SmokeTestOptions:
    """The options of the command line."""

    namespace: str
    queue: str
    within_s: float


def progress(resource: Resource | None) -> str:
    """Returns the state of the schedule, and where to look if it does not get further."""
    if resource is None:
        return "the schedule was deleted"
    if resource.status.get("observedGeneration") != resource.generation:
        return "no operator has observed the schedule: check the operator's pods and their logs"
    stalled = condition(resource, "Stalled")
    if stalled.get("status") == "True":
        return f"the schedule is stalled ({stalled.get('reason')}): {stalled.get('message')}"
    if resource.status.get("queued"):
        return (
            "the run waits for a worker: check the pods and Jobs of the wake CronJob, whether it is suspended, and"
            " whether a pool serves the queue"
        )
    if resource.status.get("running"):
        return "a worker is running it, and has not completed it"
    return "the operator has synced the schedule, but there is no run: check the operator's logs"


def condition(resource: Resource, kind: str) -> dict[str, Any]:
    """Returns the condition of that type, or {}."""
    conditions: list[dict[str, Any]] = resource.status.get("conditions") or []
    found = [each for each in conditions if each["type"] == kind]
    return found[0] if found else {}


def is_synced(resource: Resource) -> bool:
    """Whether the operator has synced it. Raises SmokeTestFailed if it is stalled."""
    if resource.status.get("observedGeneration") != resource.generation:
        return False
    if condition(resource, "Stalled").get("status") == "True":
        raise SmokeTestFailed(progress(resource))
    return condition(resource, "Ready").get("status") == "True"


def has_succeeded(resource: Resource) -> bool:
    """Whether its run succeeded. Raises SmokeTestFailed if it finished otherwise."""
    last: dict[str, Any] = resource.status.get("lastRun") or {}
    result = last.get("result")
    if result not in (None, "succeeded"):
        failure: dict[str, Any] = resource.status.get("lastFailure") or {}
        message = failure.get("message", "no message")
        raise SmokeTestFailed(f"the run is {result}: {message}")
    return result == "succeeded"


class SmokeTest:
    """Creates, runs and deletes one schedule."""

    def __init__(self, api: ApiClient, options: SmokeTestOptions) -> None:
        self._api, self._cluster, self._options = api, Cluster(api), options
        self._began = time.monotonic()
        self.name = f"wakeboard-smoke-test-{secrets.token_hex(3)}"
        self._collection = f"/apis/{GROUP}/{VERSION}/namespaces/{options.namespace}/{PLURAL}"

    async def run(self) -> None:
        """Runs the test. Raises WakeboardError."""
        self._log(f"creates the schedule {self._options.namespace}/{self.name} in queue {self._options.queue}")
        await self._create()
        try:
            await self._until(is_synced)
            self._log("the operator has synced it; requests a run")
            await self._request_run()
            await self._until(has_succeeded)
            self._log("the run succeeded")
        finally:
            await self._remove()

    async def _create(self) -> None:
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "metadata": {"name": self.name, "labels": {"app.kubernetes.io/part-of": "wakeboard"}},
            "spec": {"jobType": "ping", "queue": self._options.queue, "timeoutSeconds": 60},
        }
        while True:
            try:
                await self._api.request("POST", self._collection, body=body)
            except ApiError as error:  # a new CRD is served only after some moments
                is_retryable = isinstance(error, ApiUnavailable) or error.status == NOT_FOUND
                if self._timed_out() or not is_retryable:
                    raise SmokeTestFailed(f"cannot create the schedule: {error}") from error
            else:
                return
            await asyncio.sleep(POLL_S)

    async def _request_run(self) -> None:
        """Call it after the operator has observed the schedule: a token in a new schedule is not executed."""
        body = {"metadata": {"annotations": {f"{OURS}run-now": "smoke-test"}}}
        try:
            await self._api.request("PATCH", f"{self._collection}/{self.name}", body=body)
        except ApiError as error:
            raise SmokeTestFailed(f"cannot request a run: {error}") from error

    async def _until(self, condition: Callable[[Resource], bool]) -> None:
        found: Resource | None = None
        while True:
            with suppress(ApiError):  # a short outage; the last answer counts
                found = await self._cluster.read((self._options.namespace, self.name))
            if found is not None and condition(found):
                return
            if self._timed_out():
                raise SmokeTestFailed(f"not done within {self._options.within_s:.0f} s: {progress(found)}.")
            await asyncio.sleep(POLL_S)

    async def _remove(self) -> None:
        try:
            await self._api.request("DELETE", f"{self._collection}/{self.name}")
        except ApiError as error:
            self._log(f"cannot delete the schedule: kubectl delete jobschedule {self.name} ({error})")

    def _timed_out(self) -> bool:
        return time.monotonic() - self._began > self._options.within_s

    def _log(self, sentence: str) -> None:
        write_line(f"{time.monotonic() - self._began:5.1f} s  {sentence}")
        sys.stdout.flush()


def parse(words: Sequence[str] | None = None) -> SmokeTestOptions:
    """Parses the command line. A usage error exits with 2."""
    parser = argparse.ArgumentParser(prog="python -m wakeboard_operator.smoke_test", description=__doc__)
    parser.add_argument("--namespace", default=os.environ.get("POD_NAMESPACE", "default"))
    parser.add_argument("--queue", default="default", help="a queue that a pool serves")
    parser.add_argument("--within", type=float, default=180.0, metavar="SECONDS")
    given = parser.parse_args(words)
    return SmokeTestOptions(given.namespace, given.queue, given.within)


async def _run(options: SmokeTestOptions) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    async with login() as api:
        await SmokeTest(api, options).run()


def main() -> int:
    """Returns the exit code."""
    try:
        asyncio.run(_run(parse()))
    except WakeboardError as error:
        write_error("wakeboard smoke test", error.with_hint)
        return 1
    except asyncio.CancelledError:
        write_error("wakeboard smoke test", "stopped.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
