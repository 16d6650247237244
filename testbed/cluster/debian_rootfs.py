"""Root file systems from Debian's packages, made by mmdebstrap: base images without a registry.

They are kept in the user's cache under a hash of their inputs. Package versions are those of the day of the build.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.bootstrap import report

if TYPE_CHECKING:
    from pathlib import Path

SUITE = "trixie"
EPOCH = "1767225600"  # 2026-01-01: the time of every file that a build makes
LICENCES = "/usr/share/doc/*/copyright"  # what is distributed has them
NOT_NEEDED = ("/usr/share/doc/*", "/usr/share/i18n/*", "/usr/share/locale/*", "/usr/share/man/*")
LOG_TAIL = 20  # lines of a failed mmdebstrap


@dataclass(frozen=True)
class DebianRootfs:
    """The essential packages of Debian, `packages` and what they need, without the paths `left_out`."""

    packages: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()  # folders that the packages' own scripts make

    @property
    def key(self) -> str:
        """What names it in the cache."""
        decides = " ".join([*self._command("-"), platform.machine()])
        return hashlib.sha256(decides.encode()).hexdigest()[:16]

    def make(self, folder: Path) -> Path:
        """The tar of its files, in `folder`; made if it is not there yet. Raises SystemExit with mmdebstrap's words."""
        target = folder / f"{self.key}.tar"
        if target.exists():
            return target
        report(f"Making a root file system with {', '.join(self.packages)} from Debian's packages (half a minute).")
        began = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_suffix(".unfinished.tar")
        environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
        answer = subprocess.run(
            self._command(str(unfinished)), env=environment, stderr=subprocess.PIPE, text=True, check=False
        )
        if answer.returncode:
            log_tail = answer.stderr.splitlines()[-LOG_TAIL:]
            sys.exit("\n".join([*log_tail, "mmdebstrap failed; its output is above."]))
        unfinished.rename(target)
        report(f"  {time.monotonic() - began:.0f} s, {target.stat().st_size / 1e6:.0f} MB")
        return target

    def _command(self, target: str) -> list[str]:
        left_out = [f"--dpkgopt=path-exclude={path}" for path in (*NOT_NEEDED, *self.left_out)]
        left_out.append(f"--dpkgopt=path-include={LICENCES}")
        removed = [f'--customize-hook=rm -rf "$1"{path}' for path in self.removed]
        packages = f"--include={','.join(self.packages)}"
        return ["mmdebstrap", "--variant=essential", packages, *left_out, *removed, SUITE, target]


PYTHON = DebianRootfs(packages=("ca-certificates", "python3-venv"))
POSTGRES = DebianRootfs(
    packages=("postgresql-17",),
    left_out=(  # the compiler of long queries, 200 MB
        "/usr/lib/*/libLLVM*",
        "/usr/lib/*/libz3*",
        "/usr/lib/postgresql/*/lib/*llvmjit*",
        "/usr/lib/postgresql/*/lib/bitcode/*",
    ),
    removed=("/etc/postgresql/17", "/var/lib/postgresql/17"),
)
