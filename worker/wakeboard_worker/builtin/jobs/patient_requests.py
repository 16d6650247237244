"""Requests of one attempt to the API server. One that is away is waited for, and fails no attempt.

Away are: no connection, no answer in time, 429, 5xx, and the refusals of a server that starts (kube/client.py).
Shortly before its timeout the attempt is given back, uncounted: the next one waits again, or adopts the Job. The step
`API server away` shows what was wrong first. A server that is ready and answers 500 for ten seconds has refused the
request.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from wakeboard.kube.client import (
    CONFLICT,
    FORBIDDEN,
    READY,
    REQUEST_TIMEOUT_S,
    SERVER_ERROR,
    UNAUTHORIZED,
    UNSURE,
    ApiRefused,
    ApiUnavailable,
)
from wakeboard.process.backoff import BackoffDelays
from wakeboard_worker.builtin.jobs.outcomes import JobRefused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wakeboard.engine.run import Run
    from wakeboard.kube.client import ApiClient
    from wakeboard.kube.watch import Watch

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0
ANSWER_WITHIN_S: Final = 10.0  # for a server that is ready, but answers with 500, as for a webhook without a server
SYNC_WITHIN_S: Final = 30.0  # for the first list of a watch that the API server refuses
SYNC_CHECK_S: Final = 1.0
AWAY_AFTER_S: Final = 5.0  # without an answer
RESERVED_S: Final = 1.0  # before the timeout, to release the run
NEVER: Final = float("inf")
ANSWERING: Final = frozenset({READY, UNAUTHORIZED, FORBIDDEN})  # of /readyz


class Released(Exception):
    """Release the run, uncounted: the API server is or was away. The next attempt adopts its Job."""


class PatientRequests:
    """The requests of an attempt of `run`, which began at `began`. `away_s`: how long the server was away in all."""

    def __init__(self, run: Run, api: ApiClient, began: float) -> None:
        self._run, self._api = run, api
        self._release_at = began + release_after_s(run.timeout_s)
        self._is_noted = False
        self.away_s = 0.0

    async def ask(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Sends a request until the API server answers it. Raises ApiRefused, and Released before the timeout."""
        since, unsure_since, backoff = NEVER, NEVER, BackoffDelays(SHORTEST_PAUSE_S, LONGEST_PAUSE_S)
        try:
            while True:
                asked_at = time.monotonic()
                try:
                    async with asyncio.timeout(self.left_s()):
                        return await self._api.request(method, path, query, body)
                except TimeoutError:
                    problem = ApiUnavailable("the API server gives no answer")
                except ApiUnavailable as error:
                    problem = error
                except ApiRefused as error:
                    if (method, error.status, error.reason) != ("POST", CONFLICT, "Conflict"):
                        raise
                    problem = ApiUnavailable(str(error), SERVER_ERROR)  # two requests have changed a quota at once
                since = min(since, asked_at)
                unsure_since = min(unsure_since, asked_at) if problem.status in UNSURE else NEVER
                if time.monotonic() - unsure_since > ANSWER_WITHIN_S and await self._api.readiness() in ANSWERING:
                    raise ApiRefused(problem.status, "", str(problem))
                await self._note_away(str(problem), since)
                await asyncio.sleep(min(backoff.next_s(), self.left_s()))
        finally:
            if since != NEVER:
                self.away_s += time.monotonic() - since

    async def wait_for_watches(self, watches: Sequence[Watch]) -> None:
        """Waits until every watch has its first list. Raises JobRefused if the API server refuses one, and Released."""
        since = time.monotonic()
        for watch in watches:
            while not watch.synced.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(SYNC_CHECK_S, self.left_s())):
                        await watch.synced.wait()
                        break
                if time.monotonic() - watch.refused_since > SYNC_WITHIN_S:
                    raise JobRefused(f"the Jobs of this pool cannot be watched: {watch.problem}")
                await self._note_away(watch.problem or "it gives no answer", since)
        self.away_s += time.monotonic() - since

    def left_s(self) -> float:
        """For a request, or a pause between two."""
        if self._run.stopped_because is not None:
            return REQUEST_TIMEOUT_S
        return max(RESERVED_S, self._release_at - time.monotonic())

    async def _note_away(self, problem: str, since: float) -> None:
        """Records that the API server is away. Raises Released if the timeout is near."""
        if self._run.stopped_because is not None:
            return
        now = time.monotonic()
        if not self._is_noted and (now - since > AWAY_AFTER_S or now >= self._release_at):
            self._is_noted = True
            self._run.log.warning("the attempt waits for the API server: %s", problem)
            at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            await self._run.step("API server away", lambda: {"problem": problem, "at": at})
        if now >= self._release_at:
            raise Released(problem)


def release_after_s(timeout_s: float) -> float:
    """Seconds after the start of an attempt when it stops waiting for an API server that is away."""
    return max(timeout_s - RESERVED_S, timeout_s / 2)
