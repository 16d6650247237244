"""Builds programs from pinned Go modules into the user's cache, for tests and checks.

The key of a build is a hash of all its inputs, so that checkouts share it and stale builds are not used. Go keeps its
own cache, so that a build after a small edit takes seconds. If Go is missing or too old, a toolchain is installed from
`locks/go.txt` into a separate folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tools.bootstrap import install, report

if TYPE_CHECKING:
    from collections.abc import Generator

ROOT = Path(__file__).resolve().parents[1]
GO_LOCK = ROOT / "locks" / "go.txt"
PROGRESS_INTERVAL = 20.0  # seconds
LINES_KEPT = 40  # of the output of a failed build
ATTEMPTS = 3  # of a build whose downloads fail
PAUSE_S = 10.0  # seconds between them
DOWNLOAD_FAILED = re.compile(r"dial tcp|i/o timeout|TLS handshake|connection reset|unexpected EOF|50\d \w")


def cache() -> Path:
    """The folder of this user's builds."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wakeboard"


def key(module: Path, linker_flags: str) -> str:
    """The cache key for a build of the module in the folder `module`."""
    digest = hashlib.sha256(f"{linker_flags} {sys.platform} {platform.machine()}".encode())
    for file in (*sorted(module.rglob("*.go")), module / "go.mod", module / "go.sum"):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def pinned(module: Path, pattern: str) -> str:
    """The match of the pattern's group in the module's go.mod."""
    found = re.search(pattern, (module / "go.mod").read_text())
    assert found, f"go.mod has no {pattern}"
    return found[1]


def build(what: str, module: Path, packages: str, linker_flags: str, target: Path) -> None:
    """Builds `packages` ("." or "tool", those that go.mod names) into `target`; exits with Go's output if it fails.

    A target that is a folder gets a program for each package, by its own name. `what` is shown as progress. Go keeps
    what it has downloaded, so a build that lost the network is repeated.
    """
    go = find_go(pinned(module, r"\ngo (\S+)"))
    report(f"Building {what}. The first time takes minutes; it is kept for the next.")
    command = [go, "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", linker_flags, "-o", str(target), packages]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    for attempts_left in reversed(range(ATTEMPTS)):
        with subprocess.Popen(command, cwd=module, env=environment, stderr=subprocess.PIPE, text=True) as building:
            assert building.stderr is not None
            log_tail = _report_progress(what, building.stderr)
        if not building.returncode:
            return
        if not attempts_left or not any(map(DOWNLOAD_FAILED.search, log_tail)):
            sys.exit("\n".join([*log_tail, f"Go could not build {what}; its output is above."]))
        report(f"{log_tail[-1]}\nA download failed; Go tries again in {PAUSE_S:.0f} s.")
        time.sleep(PAUSE_S)


@contextmanager
def file_lock(lock: Path, what: str) -> Generator[None]:
    """While one process builds `what`, a second one that wants the same waits, and says so."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"Another process builds {what}; waiting for it.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _report_progress(what: str, lines: IO[str]) -> deque[str]:
    """Says now and then how far a build is, as Go names each package that it compiles; returns Go's last lines."""
    began = reported = time.monotonic()
    log_tail: deque[str] = deque(maxlen=LINES_KEPT)
    for number, line in enumerate(lines, 1):
        log_tail.append(line.rstrip())
        if time.monotonic() - reported > PROGRESS_INTERVAL:
            reported = time.monotonic()
            package = log_tail[-1].split()[-1]
            report(f"  {what}, {reported - began:4.0f} s: {number} modules and packages done, now {package}")
    return log_tail


def find_go(at_least: str) -> str:
    """This machine's Go if it is new enough, else one that is installed for this purpose alone."""
    machines = shutil.which("go")
    if machines and _version_of(machines) >= _numbers(at_least):
        return machines
    folder = cache() / f"go-{hashlib.sha256(GO_LOCK.read_bytes()).hexdigest()[:16]}"
    go = folder / "go" / "bin" / "go"
    with file_lock(cache() / "go-lock", "the Go toolchain"):
        if not go.exists():
            report("This machine has no Go that is new enough: installing the one that locks/go.txt names.")
            unfinished = folder.with_name(f"{folder.name}-unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            install("--target", str(unfinished), "--require-hashes", "-r", str(GO_LOCK))
            unfinished.rename(folder)
    return str(go)


def _version_of(go: str) -> tuple[int, ...]:
    command = [go, "env", "GOVERSION"]
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    answer = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)
    return _numbers(answer.stdout)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
