"""The data of one PostgreSQL server: made once, looked at, given to a server, removed."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypedDict

from wakeboard.errors import WakeboardError
from wakeboard.local.postgres_user import Account, make_private_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SUPERUSER = "postgres"
DATABASE = "wakeboard"

PREDECESSOR_GONE_WITHIN_S = 15.0  # a server whose parent was killed shuts down by itself
LOOK_EVERY_S = 0.01
BUILTIN_LOCALES_SINCE = 17  # PostgreSQL's major version
KEPT_VARIABLES = ("PATH", "TMPDIR", "LD_LIBRARY_PATH")
STATUS_LINE = 7  # of postmaster.pid, counted from 0


class _Identity(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


class PostgresData:
    """A data folder below `home`, and the programs and the user that work on it.

    `password_file` is ours alone: the server's user cannot read it.
    """

    def __init__(self, home: Path, binaries: Path, account: Account | None, password_file: Path) -> None:
        self.home = home
        self.account = account
        self._password_file = password_file
        self._binaries = binaries
        self._data = home / "data"

    def remove(self) -> None:
        """Removes what `make` made, and nothing else."""
        shutil.rmtree(self._data, ignore_errors=True)
        self._password_file.unlink(missing_ok=True)

    def make(self) -> None:
        """Makes data with an empty database `wakeboard` unless there are some; half-made ones are never taken for it.

        Raises:
            WakeboardError: there are data of another major version, or initdb failed.
        """
        if self._data.exists():
            self._refuse_another_version()
            if not self._password_is_ours():
                self._set_password(self._data)
            return
        draft = self.home / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        make_private_folder(draft, self.account)
        self._run("initdb", *self._initdb_options(draft))
        self._run_alone(draft, f"CREATE DATABASE {DATABASE};", "fsync=off")
        self._set_password(draft)
        draft.rename(self._data)

    def spawn(self, settings: Mapping[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Starts the server as a child that outlives neither `stop` nor, on Linux, this process."""
        command = [str(self._binaries / "postgres"), "-D", str(self._data)]
        command += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with_parent = sys.platform == "linux"
        return subprocess.Popen(
            self._tied_to_us(command) if with_parent else command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=self.home,
            env=_clean_environment(),
            start_new_session=True,  # Ctrl-C in the terminal is for wakeboard, which stops the server last
            **(_Identity() if with_parent else self._identity()),
        )

    def is_ready(self, pid: int) -> bool:
        """Whether the server with this pid takes connections: it says so in line 8 of postmaster.pid."""
        lines = self._pid_file()
        return lines[:1] == [str(pid)] and [line.strip() for line in lines[STATUS_LINE:]] == ["ready"]

    def wait_for_predecessor(self) -> None:
        """Waits for the server of a killed process to end, and makes sure that Postgres takes its pid file for stale.

        Postgres only asks whether the pid lives, so one that was given to another program in the meantime would keep it
        from starting. Our own pid it knows for its parent's; the rest of the file guards against orphaned backends.

        Raises:
            WakeboardError: such a server still runs; the sentence names its pid.
        """
        deadline = time.monotonic() + PREDECESSOR_GONE_WITHIN_S
        while (lines := self._pid_file()) and lines[0].isdigit() and self._is_our_server(int(lines[0])):
            if time.monotonic() > deadline:
                raise WakeboardError(
                    f"A PostgreSQL server that nobody stopped still uses {self._data}; type: kill -INT {lines[0]}"
                )
            time.sleep(LOOK_EVERY_S)
        if lines:
            text = "\n".join([str(os.getpid()), *lines[1:]])
            (self._data / "postmaster.pid").write_text(text + "\n", encoding="utf-8")

    def password(self) -> str:
        """The superuser's password."""
        return self._password_file.read_text(encoding="utf-8").strip()

    def write_access(self, *, trusting: bool) -> Path:
        """Writes who may connect, and how: with a password, or where it is `trusting`, without one on the socket.

        The file is ours, and not in the data folder, where the server's user could change it.
        """
        local = "trust" if trusting else "scram-sha-256"
        path = self.home / "pg_hba.conf"
        path.unlink(missing_ok=True)
        path.touch(mode=0o644)
        path.chmod(0o644)  # whatever the umask: the server's user reads it
        path.write_text(
            f"local all all {local}\nlocal replication all {local}\nhost all all 127.0.0.1/32 scram-sha-256\n",
            encoding="utf-8",
        )
        return path

    def _initdb_options(self, data: Path) -> list[str]:
        # C.UTF-8 inside Postgres where it has that (17 and later): the same order on every machine.
        builtin = (
            ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
            if self._major_version() >= BUILTIN_LOCALES_SINCE
            else []
        )
        nobody = "--auth=reject"  # without our pg_hba.conf
        return ["-D", str(data), "-U", SUPERUSER, "-E", "UTF8", "--locale=C", "--no-sync", *builtin, nobody]

    def _password_is_ours(self) -> bool:
        """Whether the file exists and no other user can read it: earlier releases gave it to the server's user."""
        try:
            status = self._password_file.lstat()
        except FileNotFoundError:
            return False
        return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077

    def _set_password(self, data: Path) -> None:
        """Sets a new superuser password. The file is written last, so that an interrupted change is repeated."""
        for path in (self._password_file, self.home / "password"):
            path.unlink(missing_ok=True)
        password = secrets.token_urlsafe(24)
        self._run_alone(data, f"ALTER ROLE {SUPERUSER} PASSWORD '{password}';", "log_min_error_statement=panic")
        with os.fdopen(os.open(self._password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(password + "\n")

    def _run_alone(self, data: Path, statement: str, *settings: str) -> None:
        """Runs a statement without a server."""
        options = [word for setting in settings for word in ("-c", setting)]
        self._run("postgres", "--single", "-D", str(data), *options, "postgres", given=f"{statement}\n".encode())

    def _refuse_another_version(self) -> None:
        version = (self._data / "PG_VERSION").read_text(encoding="utf-8").strip()
        if version != str(self._major_version()):
            raise WakeboardError(
                f"{self._data} was made by PostgreSQL {version} and this is PostgreSQL {self._major_version()}; "
                "remove it, or start with --fresh."
            )

    def _major_version(self) -> int:
        answer = subprocess.run([self._binaries / "postgres", "--version"], capture_output=True, text=True, check=True)
        return int(answer.stdout.split()[2].split(".")[0])

    def _run(self, program: str, *words: str, given: bytes = b"") -> None:
        command = [str(self._binaries / program), *words]
        identity = self._identity()
        result = subprocess.run(
            command, input=given, capture_output=True, cwd=self.home, env=_clean_environment(), check=False, **identity
        )
        if result.returncode:
            said = result.stderr.decode(errors="replace").strip().splitlines() or ["it says nothing"]
            raise WakeboardError(f"PostgreSQL's {program} failed in {self.home}: {said[-1]}")

    def _identity(self) -> _Identity:
        if self.account is None:
            return _Identity()
        return _Identity(user=self.account.uid, group=self.account.gid, extra_groups=[])

    def _tied_to_us(self, command: Sequence[str]) -> list[str]:
        uid, gid = (self.account.uid, self.account.gid) if self.account else (-1, -1)
        launcher = [sys.executable, "-I", "-S", str(Path(__file__).with_name("pdeathsig.py"))]
        return [*launcher, str(os.getpid()), str(uid), str(gid), *command]

    def _pid_file(self) -> list[str]:
        try:
            return (self._data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []

    def _is_our_server(self, pid: int) -> bool:
        """Whether the process is a server that was started on these data by `spawn`."""
        return f" -D {self._data} " in f"{_command_line(pid)} "


def _clean_environment() -> dict[str, str]:
    """What Postgres needs of ours, in a locale that every machine has: other processes of its user can read it."""
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ} | {"LC_ALL": "C"}


def _command_line(pid: int) -> str:
    """The process's words, joined by spaces; empty if there is no such process."""
    if sys.platform != "linux":
        return subprocess.run(["ps", "-p", str(pid), "-o", "args="], capture_output=True, text=True, check=False).stdout
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
