"""Lists a collection and watches it: a list gives the state, the watch every later change.

The watch continues at the version of its last event or bookmark, also after a lost connection or a restart of the API
server. If that version is too old (410), the collection is listed again. Nothing is requested while nothing changes,
but for a new watch every five to ten minutes.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from wakeboard.kube.client import GONE, UNSURE, ApiRefused, ApiUnavailable
from wakeboard.process.backoff import BackoffDelays

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wakeboard.kube.client import ApiClient

log = logging.getLogger("wakeboard.kube")

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 10.0
MIN_WATCH_S, MAX_WATCH_S = 300, 600
SHORTEST_WATCH_S: Final = 1.0


class Listener(Protocol):
    """What gets the state of a collection, and its changes."""

    def read(self, item: Mapping[str, Any]) -> Any:
        """Reduces an object of a list to what is kept."""

    def listing(self) -> None:
        """A list is about to be requested."""

    def listed(self, items: Sequence[Any]) -> None:
        """This is the whole collection, as `read` has reduced it."""

    def changed(self, item: Mapping[str, Any], *, deleted: bool) -> None:
        """One object was added, changed or deleted."""


class Watch:
    """Lists and watches `path`, with the selectors of `query`, until it is cancelled. `without`: what a problem means.

    `synced`: it has been listed. `lists`: how often. `version`: of the last event. `problem`: why it cannot be watched.
    `refused_since`: when the API server began to refuse it, `back_at`: when the last problem ended (time.monotonic()).
    """

    def __init__(
        self, api: ApiClient, path: str, query: Mapping[str, str], listener: Listener, without: str = ""
    ) -> None:
        self._api, self.path, self._query, self._listener, self._without = api, path, query, listener, without
        self.version = ""
        self._backoff = BackoffDelays(SHORTEST_PAUSE_S, LONGEST_PAUSE_S)
        self.synced = asyncio.Event()
        self.problem = ""
        self.refused_since, self.back_at = math.inf, -math.inf
        self.lists = 0

    async def run(self) -> None:
        """Runs until it is cancelled. Errors are logged once, and retried with a backoff."""
        while True:
            try:
                if not self.version:
                    await self._list()
                began = time.monotonic()
                await self._watch()
                if time.monotonic() - began < SHORTEST_WATCH_S:  # the server ends watches at once
                    await asyncio.sleep(SHORTEST_WATCH_S)
            except Exception as error:  # noqa: BLE001 - a watch never ends
                if not isinstance(error, ApiUnavailable):
                    self.version = ""  # expired (410), or an object that cannot be read: list again
                if isinstance(error, ApiRefused) and error.status == GONE:
                    continue
                self._note(error)
                await asyncio.sleep(self._backoff.next_s())

    async def _list(self) -> None:
        self._listener.listing()
        items: list[Any] = []
        version = ""
        async for page in self._api.pages(self.path, self._query):
            items += map(self._listener.read, page["items"])
            version = page["metadata"]["resourceVersion"]
        self._listener.listed(items)
        self.version = version
        self.lists += 1
        self.synced.set()
        self._worked()

    async def _watch(self) -> None:
        query = {
            **self._query,
            "watch": "1",
            "resourceVersion": self.version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(MIN_WATCH_S, MAX_WATCH_S)),  # noqa: S311 - no secret
        }
        async with self._api.watch(self.path, query) as events:
            self._worked()
            async for event in events:
                found = event["object"]
                if event["type"] == "ERROR":
                    raise ApiRefused(int(found.get("code") or 0), "", str(found.get("message") or "the watch failed"))
                self.version = found["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self._listener.changed(found, deleted=event["type"] == "DELETED")

    def _worked(self) -> None:
        self._backoff.reset()
        if self.problem:
            log.info("%s is watched again", self.path)
            self.back_at = time.monotonic()
        self.problem, self.refused_since = "", math.inf

    def _note(self, error: Exception) -> None:
        problem = str(error) or type(error).__name__
        if not self.problem:
            log.warning("%s%s cannot be watched: %s", self._without, self.path, problem)
        self.problem = problem
        is_refused = not isinstance(error, ApiUnavailable) or error.status in UNSURE
        self.refused_since = min(self.refused_since, time.monotonic()) if is_refused else math.inf
