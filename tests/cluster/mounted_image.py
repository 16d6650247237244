"""An image's files in a folder, and programs that run in them as a hardened pod runs them.

Like in a container the program is PID 1 of its namespace, has the image's user and environment, no other variables,
and a read-only root file system. Its network is this machine's.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

from testbed.cluster.processes import children

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from testbed.cluster.buildah import Buildah

TIMEOUT_S = 60
OF_ITS_OWN = ("unshare", "--mount", "--propagation=private")
# $1: the image's root; then pairs of a folder of this machine and where it is seen, up to `--`; then the program
ENTER = """
root=$1; shift
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount --rbind /dev "$root/dev"
mount -t tmpfs shm "$root/dev/shm"
while [ "$1" != -- ]; do mount --bind "$1" "$root$2"; shift 2; done
shift
exec unshare --fork --kill-child --pid --mount-proc="$root/proc" "$@"
"""


class MountedImage:
    """One image of `builder`, opened. `root` is the folder of its files, `config` says how it is run."""

    def __init__(self, builder: Buildah, reference: str) -> None:
        self.root = builder.open(reference)
        self.config: dict[str, Any] = builder.config(reference)

    def start(
        self,
        *words: str,
        command: Sequence[str] | None = None,
        environment: Mapping[str, object] | None = None,
        mounts: Mapping[Path, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Starts the image's program with `words`, or another `command`; its output is one pipe.

        The process that is returned holds the namespaces; the program is its child. End the program (`pid1`):
        a kill of its parent does not end it, because the kernel clears the parent-death signal when the user changes.
        """
        variables = [*self.config["Env"], *(f"{name}={value}" for name, value in (environment or {}).items())]
        as_its_user = ["chroot", f"--userspec={self.config['User']}", "--groups=", str(self.root)]
        there = ["env", "-i", f"--chdir={self.config.get('WorkingDir') or '/'}", *variables]
        seen = [word for folder, place in (mounts or {}).items() for word in (str(folder), place)]
        enter = [*OF_ITS_OWN, "sh", "-euc", ENTER, "sh", str(self.root), *seen, "--"]
        program = [*(command or self.config["Entrypoint"]), *words]
        return subprocess.Popen(
            [*enter, *as_its_user, *there, *program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def run(
        self, *words: str, command: Sequence[str] | None = None, environment: Mapping[str, object] | None = None
    ) -> tuple[int, str]:
        """The exit code and the output of the image's program with `words`, or of another `command`."""
        with self.start(*words, command=command, environment=environment) as process:
            output, _ = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, output


def pid1(process: subprocess.Popen[str]) -> int | None:
    """The PID, as this machine counts, of the program that was started; None: not yet."""
    found = _children(process.pid)
    return found[0] if found else None


def second_process(process: subprocess.Popen[str]) -> int | None:
    """The PID of its child; None: not yet."""
    first = pid1(process)
    found = _children(first) if first else []
    return found[0] if found else None


def _children(pid: int) -> list[int]:
    try:
        return children(pid)
    except FileNotFoundError:
        return []
