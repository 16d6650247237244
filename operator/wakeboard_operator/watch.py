"""The stream of changes: kopf watches in a thread and a loop of its own, and only says what it saw.

kopf is the speed, not the truth: our own lists are (see reconciler.py). It writes nothing into the cluster: no
finalizer, no annotation, no event. It has a thread of its own because as a coroutine beside others it cancels their
tasks and takes over SIGTERM. Whatever it does (403, 404 and 410 included), the supervisor starts it again; one that has
not shown a version which a list has shown is deaf, and is replaced.
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

from wakeboard.rules.humanize import counted
from wakeboard_operator.kube_client import environment_proxy, in_cluster
from wakeboard_operator.resources import GROUP, PLURAL, VERSION, Key, Resource, resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

log = logging.getLogger("wakeboard.operator")

DEAF_AFTER_S: Final = 10.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
STEADY_S: Final = 60.0  # a stream that has lived so long was well
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
    """kopf need not compare what it sees with what it saw: it would copy each resource several times for that."""

    def build(self, **_: Any) -> Any:
        """What is compared: nothing."""
        return {}

    def fetch(self, **_: Any) -> Any:
        """What it was compared with last: nothing."""

    def store(self, **_: Any) -> None:
        """Notes nothing in the resource."""


class Deleted(NamedTuple):
    """A reported deletion of the object `uid`; `version` is the resourceVersion of the deletion."""

    uid: str
    version: str = "0"


class PendingChanges:
    """What has changed and has not been looked at: the latest of each resource. The stream puts, the loop takes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._waiting: dict[Key, Resource | Deleted] = {}
        self._deleted: set[str] = set()  # uids, also of objects that were created again at once
        self._any = asyncio.Event()
        self._seen: dict[Key, str] = {}  # the version that the stream showed last
        self._gone: dict[Key, str] = {}  # the version of its deletion, while a list may still name it
        self.last_at = time.monotonic()

    def put(self, key: Key, found: Resource | Deleted) -> None:
        """From the stream's thread."""
        with self._lock:
            self._waiting[key] = found
            if isinstance(found, Deleted):
                self._deleted.add(found.uid)
                self._seen.pop(key, None)
                self._gone[key] = found.version
            else:
                self._gone.pop(key, None)
                self._seen[key] = found.resource_version
            self.last_at = time.monotonic()
        self._loop.call_soon_threadsafe(self._any.set)

    async def wait(self) -> None:
        """Returns when there is something to take."""
        await self._any.wait()

    def take(self) -> dict[Key, Resource | Deleted]:
        """Everything that waits; nothing waits afterwards."""
        with self._lock:
            taken, self._waiting = self._waiting, {}
            self._any.clear()
        return taken

    def take_deleted(self) -> set[str]:
        """The uids of all objects that the stream has shown as deleted since the last call."""
        with self._lock:
            taken, self._deleted = self._deleted, set()
        return taken

    def unheard(self, listed: Iterable[Resource]) -> set[Key]:
        """Those that the stream has shown in another version than a list did, or not at all."""
        versions = {found.key: found.resource_version for found in listed}
        with self._lock:
            self._gone = {key: version for key, version in self._gone.items() if key in versions}
            return {key for key, version in versions.items() if self._seen.get(key) != version}

    def heard(self, key: Key, version: str) -> bool:
        """Whether the stream has shown this version, or one that came after it."""
        with self._lock:
            seen = self._seen.get(key) or self._gone.get(key, "0")
        return _number(seen) >= _number(version)


def _number(version: str) -> int:
    """Since Kubernetes 1.35 versions of one resource may be compared as numbers; before, they were numbers, too."""
    return int(version) if version.isdecimal() else 0


class WatchStream:
    """kopf, watching until it is stopped. A stream is used once."""

    def __init__(self, namespaces: Sequence[str], changes: PendingChanges, on_end: Callable[[], None]) -> None:
        self._namespaces = namespaces
        self._changes = changes
        self._on_end = on_end
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stream", daemon=True)

    def start(self) -> None:
        """Begins to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Asks the thread to end; it is not waited for."""
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
            if isinstance(error.__cause__ or error, aiohttp.ClientError):  # the API server's answer, which kopf retells
                log.warning("the stream of changes ended: %s", error.args[0] if error.args else type(error).__name__)
            else:
                log.exception("the stream of changes broke")
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
        async def see(event: Mapping[str, Any], **_: Any) -> None:
            raw = event["object"]
            found = resource(raw)
            if event["type"] == "DELETED":
                self._changes.put(found.key, Deleted(found.uid, found.resource_version))
            else:
                self._changes.put(found.key, found)

        _ = log_in, see
        return registry


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.posting.loggers = False
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.scanning.disabled = True  # it would watch CRDs and namespaces, which needs rights that we do not want
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


class Supervisor:
    """Keeps a stream running. `restarts` and `deaf` count what went wrong since the start."""

    def __init__(self, namespaces: Sequence[str], changes: PendingChanges) -> None:
        self._namespaces = namespaces
        self.changes = changes
        self._stream: WatchStream | None = None
        self._served = asyncio.Event()  # a list has worked: the resource is installed, and may be read
        self._expected: dict[Key, tuple[str, float]] = {}
        self.restarts = 0
        self.deaf = 0
        self.running = False

    def expect(self, listed: Iterable[Resource]) -> None:
        """A list has shown these: the stream must show them, or later versions, within ten seconds."""
        self._served.set()
        by = time.monotonic() + DEAF_AFTER_S
        unheard = self.changes.unheard(listed)
        self._expected = {
            found.key: self._expected.get(found.key, (found.resource_version, by))
            for found in listed
            if found.key in unheard
        }

    def not_served(self) -> None:
        """A list has failed: a stream that ends now begins again after the next one that works."""
        self._served.clear()

    async def run(self) -> None:
        """Watches until cancelled, from the first list on that works."""
        pause_s = FIRST_PAUSE_S
        try:
            while True:
                await self._served.wait()
                began = time.monotonic()
                await self._live_once()
                if time.monotonic() - began > STEADY_S:
                    pause_s = FIRST_PAUSE_S
                self.restarts += 1
                await asyncio.sleep(pause_s)
                pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)
        finally:
            self._end_stream()

    async def _live_once(self) -> None:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def on_end() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(ended.set)

        self._stream = WatchStream(self._namespaces, self.changes, on_end)
        self._stream.start()
        self.running = True
        while not ended.is_set() and not self._is_deaf():
            try:
                async with asyncio.timeout(1.0):
                    await ended.wait()
            except TimeoutError:
                continue
        self.running = False
        self._end_stream()

    def _is_deaf(self) -> bool:
        now = time.monotonic()
        self._expected = {
            key: (version, by) for key, (version, by) in self._expected.items() if not self.changes.heard(key, version)
        }
        late = [key for key, (_, by) in self._expected.items() if now > by]
        if late:
            self.deaf += 1
            self._expected.clear()
            missed = counted(len(late), "resource")
            log.warning("the watch has not delivered %s that a list contained: it is restarted", missed)
        return bool(late)

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._stream.stop()
            self._stream = None
