"""Runs another program of the user's machine, such as kubectl or a credential plugin, and returns what it prints."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from wakeboard.errors import WakeboardError
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SHOWN: Final = 500  # characters of another program's error
_KLOG: Final = re.compile(r"[EIWF]\d{4} \d\d:")  # how a log line of Kubernetes begins


class ProgramMissing(WakeboardError):
    """The program is not installed."""


class ProgramFailed(WakeboardError):
    """The program failed. `said`: what it printed on standard error, for users."""

    def __init__(self, who: str, said: str) -> None:
        self.said = said
        super().__init__(f"{who} failed: {said}")


def program_output(
    words: Sequence[str],
    who: str,
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    interactive: bool = False,
) -> bytes:
    """What a program prints, within `timeout_s`. It is in no message, because it may have tokens.

    Files take the output: a process that the program leaves behind may keep a pipe open for ever. An `interactive`
    program talks to the user's terminal. Raises WakeboardError with `who` as the subject.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                list(words),
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=output,
                stderr=None if interactive else errors,
                env={**os.environ, **(env or {})},
                start_new_session=not interactive,
            )
        except FileNotFoundError:
            raise ProgramMissing(f"{who} is not installed: there is no program {words[0][:80]!r}.") from None
        except (OSError, ValueError) as exc:
            raise WakeboardError(f"{who} cannot be started: {getattr(exc, 'strerror', None) or exc}.") from None
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise WakeboardError(f"{who} did not end within {timeout_s:g} s.") from None
        finally:
            if process.returncode is None:
                _end(process, has_group=not interactive)
        if code != 0:
            errors.seek(0)
            raise ProgramFailed(who, _for_users(errors.read()) or f"exit code {code}")
        output.seek(0)
        return output.read()


def _end(process: subprocess.Popen[bytes], *, has_group: bool) -> None:
    """Ends a program, and the processes that it has started if they have a group of their own."""
    with suppress(ProcessLookupError):
        if has_group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _for_users(said: bytes) -> str:
    """What a program says without its log lines, such as "E1122 14:44:42.997 memcache.go:265] …"."""
    lines = [line for line in said.decode(errors="replace").splitlines() if not _KLOG.match(line)]
    return one_line("\n".join(lines))[:_SHOWN]
