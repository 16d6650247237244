"""Watches JobSchedules with kopf, in a thread and an event loop of its own.

The watch makes syncs fast. Lists make them correct (reconciler.py). kopf writes nothing into the cluster: no finalizer,
no annotation, no event. It has its own thread because it cancels the tasks of its loop and takes over SIGTERM. The
supervisor restarts a watch that ends for any reason (403, 404 and 410 included). It also replaces a stalled watch: one
that has not delivered a version which a list contained.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import aiohttp
import kopf

from wakeboard.process.backoff import BackoffDelays
from wakeboard.process.egress_proxy import environment_proxy
from wakeboard.text.humanize import counted
from wakeboard_operator.kube_client import in_cluster
from wakeboard_operator.resources import GROUP, PLURAL, VERSION, Key, Resource, resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

log = logging.getLogger("wakeboard.operator")

STALLED_AFTER_S: Final = 10.0
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
STEADY_S: Final = 60.0  # a watch that has lived this long resets the backoff
STOP_WITHIN_S: Final = 5.0
SERVER_TIMEOUT_S: Final = 300  # each watch ends after that, and another begins


class Login(kopf.ConnectionInfo):
    """A login that checks the API server's certificate as kubectl does: chain, dates and name.

    Since 3.13 Python also asks for key identifiers, which the authorities of clusters made before 2020 do not have.
    """

    def as_ssl_context(self) -> ssl.SSLContext:
        """The context of kopf's requests."""
        context = super().as_ssl_context()
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context


class _NoDiffs(kopf.DiffBaseStorage):
    """Switches off kopf's comparison of versions, which copies each resource several times."""

    def build(self, **_: Any) -> Any:
        """Nothing to compare."""
        return {}

    def fetch(self, **_: Any) -> Any:
        """Nothing was compared."""

    def store(self, **_: Any) -> None:
        """Stores nothing in the resource."""


class Deleted(NamedTuple):
    """A reported deletion of the object `uid`; `version` is the resourceVersion of the deletion."""

    uid: str
    version: str = "0"


class PendingChanges:
    """The changes that are not yet synced: the latest of each resource. Filled by the watch thread. Thread-safe."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._waiting: dict[Key, Resource | Deleted] = {}
        self._deleted: set[str] = set()  # uids, also of objects that were created again at once
        self._any = asyncio.Event()
        self._delivered: dict[Key, str] = {}  # the version that the watch delivered last
        self._gone: dict[Key, str] = {}  # the version of a deletion, while lists may contain the object
        self._has_gap = False
        self.last_at = time.monotonic()

    def put(self, key: Key, found: Resource | Deleted, *, listed: bool = False) -> None:
        """Adds a change. Called by the watch thread. `listed`: the watch has found it in a list, as when it begins."""
        with self._lock:
            self._has_gap |= listed and key in self._delivered
            self._waiting[key] = found
            if isinstance(found, Deleted):
                self._deleted.add(found.uid)
                self._delivered.pop(key, None)
                self._gone[key] = found.version
            else:
                self._gone.pop(key, None)
                self._delivered[key] = found.resource_version
            self.last_at = time.monotonic()
        self._loop.call_soon_threadsafe(self._any.set)

    def begin_again(self) -> None:
        """Notes a gap, if the watch has delivered anything: another stream takes the place of the one that ended."""
        with self._lock:
            self._has_gap |= bool(self._delivered)
        if self._has_gap:
            self._any.set()

    async def wait(self) -> None:
        """Waits for a change or a gap."""
        await self._any.wait()

    def take(self) -> dict[Key, Resource | Deleted]:
        """Returns all changes and clears them."""
        with self._lock:
            taken, self._waiting = self._waiting, {}
            self._any.clear()
        return taken

    def take_deleted(self) -> set[str]:
        """Returns the uids of the objects that were deleted since the last call."""
        with self._lock:
            taken, self._deleted = self._deleted, set()
        return taken

    def take_gap(self) -> bool:
        """Returns whether the watch has begun again since the last call. It reports no deletion in between.

        kopf begins it again by itself after 410, which only shows by an object that is listed once more. If all were
        deleted, nothing shows it, and the next resync finds them.
        """
        with self._lock:
            taken, self._has_gap = self._has_gap, False
        return taken

    def undelivered(self, listed: Iterable[Resource]) -> set[Key]:
        """Returns the listed resources of which the watch has delivered another version, or none."""
        versions = {found.key: found.resource_version for found in listed}
        with self._lock:
            self._gone = {key: version for key, version in self._gone.items() if key in versions}
            return {key for key, version in versions.items() if self._delivered.get(key) != version}

    def has_delivered(self, key: Key, version: str) -> bool:
        """Whether the watch has delivered this version or a later one."""
        with self._lock:
            seen = self._delivered.get(key) or self._gone.get(key, "0")
        return _number(seen) >= _number(version)


def _number(version: str) -> int:
    """The resourceVersion as a number. Kubernetes guarantees since 1.35 that they compare as numbers, as before."""
    return int(version) if version.isdecimal() else 0


class WatchStream:
    """One watch by kopf, until it is stopped. Cannot be restarted."""

    def __init__(self, namespaces: Sequence[str], changes: PendingChanges, on_end: Callable[[], None]) -> None:
        self._namespaces = namespaces
        self._changes = changes
        self._on_end = on_end
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self.problem: str | None = None  # the answer of the API server that ended it
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Asks the thread to end, and does not wait for it."""
        self._ready.wait(STOP_WITHIN_S)
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(self._stop.set)
            except RuntimeError:  # it has just been closed
                return

    def _run(self) -> None:
        try:
            asyncio.run(self._watch())
        except Exception as error:
            if isinstance(error.__cause__ or error, aiohttp.ClientError):  # an answer of the API server
                self.problem = f"the watch ended: {error.args[0] if error.args else type(error).__name__}"
                log.warning("%s", self.problem)
            else:
                log.exception("the watch failed")
        finally:
            self._ready.set()
            self._on_end()

    async def _watch(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await kopf.operator(
            registry=self._registry(),
            settings=_settings(),
            standalone=True,
            clusterwide=not self._namespaces,
            namespaces=self._namespaces,
            stop_flag=self._stop,
        )

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()

        @kopf.on.login(registry=registry)  # pyright: ignore[reportArgumentType]
        def log_in(**given: Any) -> kopf.ConnectionInfo | None:
            found = kopf.login_with_service_account(**given) if in_cluster() else kopf.login_with_kubeconfig(**given)
            if found is None:
                return None
            login = Login(**vars(found))
            return replace(login, proxy_url=login.proxy_url or environment_proxy(login.server))

        @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
        async def on_event(event: Mapping[str, Any], **_: Any) -> None:
            raw = event["object"]
            found = resource(raw)
            if event["type"] == "DELETED":
                self._changes.put(found.key, Deleted(found.uid, found.resource_version))
            else:
                self._changes.put(found.key, found, listed=event["type"] is None)

        _ = log_in, on_event
        return registry


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.posting.loggers = False
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.scanning.disabled = True  # scanning needs the right to watch CRDs and namespaces
    settings.process.ultimate_exiting_timeout = None
    settings.watching.server_timeout = SERVER_TIMEOUT_S
    settings.watching.client_timeout = SERVER_TIMEOUT_S + 30
    settings.watching.connect_timeout = 10
    settings.watching.chunk_size = 500
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = (0.5, 1, 2)
    settings.queueing.idle_timeout = 0.5
    settings.queueing.exit_timeout = 0.5
    settings.queueing.error_delays = ()
    return settings


class WatchSupervisor:
    """Keeps a watch running. `restarts` and `stalled` count restarts and stalled watches since the start.

    `problem` is why the last watch ended, until another one has lived for ten seconds.
    """

    def __init__(self, namespaces: Sequence[str], changes: PendingChanges) -> None:
        self._namespaces = namespaces
        self.changes = changes
        self._stream: WatchStream | None = None
        self._served = asyncio.Event()  # a list has succeeded: the CRD is installed and may be read
        self._expected: dict[Key, tuple[str, float]] = {}
        self.restarts = 0
        self.stalled = 0
        self.problem: str | None = None

    def expect(self, listed: Iterable[Resource]) -> None:
        """Expects the watch to deliver these listed versions, or later ones, within ten seconds."""
        self._served.set()
        by = time.monotonic() + STALLED_AFTER_S
        undelivered = self.changes.undelivered(listed)
        self._expected = {
            found.key: self._expected.get(found.key, (found.resource_version, by))
            for found in listed
            if found.key in undelivered
        }

    def list_failed(self) -> None:
        """Delays the restart of a watch that ends until the next list succeeds."""
        self._served.clear()

    async def run(self) -> None:
        """Watches until cancelled. Starts after the first successful list."""
        backoff = BackoffDelays(SHORTEST_PAUSE_S, LONGEST_PAUSE_S)
        try:
            while True:
                await self._served.wait()
                began = time.monotonic()
                await self._run_stream()
                if time.monotonic() - began > STEADY_S:
                    backoff.reset()
                self.restarts += 1
                await asyncio.sleep(backoff.next_s())
        finally:
            self._end_stream()

    async def _run_stream(self) -> None:
        self.changes.begin_again()
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def on_end() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(ended.set)

        self._stream = WatchStream(self._namespaces, self.changes, on_end)
        self._stream.start()
        began = time.monotonic()
        while not ended.is_set() and not self._is_stalled():
            try:
                async with asyncio.timeout(1.0):
                    await ended.wait()
            except TimeoutError:
                if time.monotonic() - began > STALLED_AFTER_S:
                    self.problem = None
        self.problem = self._stream.problem or self.problem
        self._end_stream()

    def _is_stalled(self) -> bool:
        now = time.monotonic()
        self._expected = {
            key: (version, by)
            for key, (version, by) in self._expected.items()
            if not self.changes.has_delivered(key, version)
        }
        late = [key for key, (_, by) in self._expected.items() if now > by]
        if late:
            self.stalled += 1
            self._expected.clear()
            missed = counted(len(late), "resource")
            log.warning("the watch has not delivered %s that a list contained: it is restarted", missed)
        return bool(late)

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._stream.stop()
            self._stream = None
