"""Processes of this checkout for tests, benchmarks and campaigns, and waiting for what they do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parents[1]
OUR_PACKAGES: Final = os.pathsep.join(str(ROOT / folder) for folder in ("", "operator", "worker"))  # for PYTHONPATH
TIMEOUT_S: Final = 60.0  # it only bounds failures; an overloaded machine needs more than 30
POLL_INTERVAL_S: Final = 0.02
LONGEST_POLL_INTERVAL_S: Final = 0.5


def wait_for(what: Callable[[], Any], *, within_s: float = TIMEOUT_S, why: Callable[[], object] = str) -> Any:
    """Polls `what` and returns its first true result. Fails after `within_s` with the text of `why`.

    The longer it has waited, the less often it asks: what it asks takes CPU from what it waits for.
    """
    began = time.monotonic()
    while not (found := what()):
        waited_s = time.monotonic() - began
        assert waited_s < within_s, f"it did not come within {within_s} s: {why()}"
        time.sleep(poll_interval_s(waited_s))
    return found


def poll_interval_s(waited_s: float) -> float:
    """The time until the next question of a wait that has lasted for `waited_s`: a twentieth of it, within bounds."""
    return min(max(POLL_INTERVAL_S, waited_s / 20), LONGEST_POLL_INTERVAL_S)


def descendants(pid: int) -> list[int]:
    """The running processes that this one has started, and theirs. Each comes before those that it has started."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    found: list[int] = []
    below = children.get(pid, [])
    while below:
        found += below
        below = [child for each in below for child in children.get(each, [])]
    return found


def inherited_environment() -> dict[str, str]:
    """Our environment without the variables that name another database."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "WAKEBOARD_"))}


def as_variables(settings: Mapping[str, object]) -> dict[str, str]:
    """Settings as environment variables: `lease_seconds=2` is WAKEBOARD_LEASE_SECONDS=2."""
    return {f"WAKEBOARD_{name.upper()}": str(value) for name, value in settings.items()}


class ModuleProcess:
    """`python -m` these words, killed at the end of `with`. `log` is its output so far; `folder` gets the file."""

    def __init__(self, words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._log = folder / f"{words[0]}-{time.monotonic_ns()}.log"
        given = {**os.environ, "PYTHONPATH": OUR_PACKAGES, **environment}
        with self._log.open("wb") as log:
            command = [sys.executable, "-m", *words]
            self._process = subprocess.Popen(command, env=given, stdout=log, stderr=log)
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.running():
            self.send(signal.SIGCONT)
            self._process.kill()
        self._process.wait(TIMEOUT_S)

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def running(self) -> bool:
        return self._process.poll() is None

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def exit_code(self) -> int:
        """Waits for its end. The code is negative if a signal killed it."""
        return self._process.wait(TIMEOUT_S)
