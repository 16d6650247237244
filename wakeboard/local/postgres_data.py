"""The data folder of the embedded PostgreSQL: creates it, secures it, spawns a server on it and deletes it."""

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
from wakeboard.local.child_process import ends_with_parent
from wakeboard.local.postgres_user import Account, make_private_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

SUPERUSER = "postgres"
DATABASE = "wakeboard"

PREDECESSOR_TIMEOUT_S = 15.0  # the server of a killed process shuts down by itself
POLL_INTERVAL_S = 0.01
BUILTIN_LOCALES_SINCE = 17  # major version of PostgreSQL
INHERITED_VARIABLES = ("PATH", "TMPDIR", "LD_LIBRARY_PATH")
STATUS_LINE = 7  # in postmaster.pid, counted from 0


class _Identity(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


class PostgresData:
    """The data folder HOME/data with the programs and the user that work on it.

    The server's user must not be able to read `password_file`.
    """

    def __init__(self, home: Path, binaries: Path, account: Account | None, password_file: Path) -> None:
        self.home = home
        self.account = account
        self._password_file = password_file
        self._binaries = binaries
        self._data = home / "data"

    def remove(self) -> None:
        """Deletes what `create` has created."""
        shutil.rmtree(self._data, ignore_errors=True)
        self._password_file.unlink(missing_ok=True)

    def create(self) -> None:
        """Creates a data folder with an empty database `wakeboard`, unless it exists.

        The folder is created under another name and renamed at the end, so an interrupted creation is repeated.

        Raises:
            WakeboardError: the folder is of another major version, or initdb failed.
        """
        if self._data.exists():
            self._require_same_version()
            if not self._password_is_private():
                self._set_password(self._data)
            return
        draft = self.home / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        make_private_folder(draft, self.account)
        self._run("initdb", *self._initdb_options(draft))
        self._run_single_user(draft, f"CREATE DATABASE {DATABASE};", "fsync=off")
        self._set_password(draft)
        draft.rename(self._data)

    def spawn(self, settings: Mapping[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Starts the server as a child process. On Linux it ends with this process."""
        command = [str(self._binaries / "postgres"), "-D", str(self._data)]
        command += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        linux = sys.platform == "linux"  # there, pdeathsig.py changes the user
        uid, gid = (self.account.uid, self.account.gid) if self.account else (-1, -1)
        return subprocess.Popen(
            ends_with_parent(command, uid, gid),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=self.home,
            env=_server_environment(),
            start_new_session=True,  # Ctrl-C in the terminal does not reach it: wakeboard stops the server last
            **(_Identity() if linux else self._identity()),
        )

    def is_ready(self, pid: int) -> bool:
        """Whether the server with this pid accepts connections, according to line 8 of postmaster.pid."""
        lines = self._pid_file()
        return lines[:1] == [str(pid)] and [line.strip() for line in lines[STATUS_LINE:]] == ["ready"]

    def wait_for_predecessor(self) -> None:
        """Waits until the server of a killed process has ended, and makes a stale pid file harmless.

        Postgres refuses to start if the pid in postmaster.pid is alive, even if another program has that pid by now. It
        ignores the pid of its own parent, so this writes our pid there. The other lines are kept: they protect against
        orphaned backends.

        Raises:
            WakeboardError: such a server still runs; the message contains its pid.
        """
        deadline = time.monotonic() + PREDECESSOR_TIMEOUT_S
        while (lines := self._pid_file()) and lines[0].isdigit() and self._is_our_server(int(lines[0])):
            if time.monotonic() > deadline:
                raise WakeboardError(
                    f"A PostgreSQL server of an earlier wakeboard still uses {self._data}; type: kill -INT {lines[0]}"
                )
            time.sleep(POLL_INTERVAL_S)
        if lines:
            text = "\n".join([str(os.getpid()), *lines[1:]])
            (self._data / "postmaster.pid").write_text(text + "\n", encoding="utf-8")

    def password(self) -> str:
        """The superuser's password."""
        return self._password_file.read_text(encoding="utf-8").strip()

    def write_hba_file(self, *, trusting: bool) -> Path:
        """Writes pg_hba.conf: connections need a password, except on the socket if `trusting`.

        The file belongs to us and is outside the data folder, so that the server's user cannot change it.
        """
        local = "trust" if trusting else "scram-sha-256"
        path = self.home / "pg_hba.conf"
        path.unlink(missing_ok=True)
        path.touch(mode=0o644)
        path.chmod(0o644)  # independent of the umask: the server's user reads it
        path.write_text(
            f"local all all {local}\nlocal replication all {local}\nhost all all 127.0.0.1/32 scram-sha-256\n",
            encoding="utf-8",
        )
        return path

    def _initdb_options(self, data: Path) -> list[str]:
        # Postgres's own C.UTF-8 (17 and later) sorts the same on every machine.
        builtin = (
            ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
            if self._major_version() >= BUILTIN_LOCALES_SINCE
            else []
        )
        reject = "--auth=reject"  # in case the server is started without our pg_hba.conf
        return ["-D", str(data), "-U", SUPERUSER, "-E", "UTF8", "--locale=C", "--no-sync", *builtin, reject]

    def _password_is_private(self) -> bool:
        """Whether the password file exists and only its owner, this user, can read it."""
        try:
            status = self._password_file.lstat()
        except FileNotFoundError:
            return False
        return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077

    def _set_password(self, data: Path) -> None:
        """Sets a new superuser password. The file is written last, so an interrupted change is repeated."""
        for path in (self._password_file, self.home / "password"):
            path.unlink(missing_ok=True)
        password = secrets.token_urlsafe(24)
        self._run_single_user(data, f"ALTER ROLE {SUPERUSER} PASSWORD '{password}';", "log_min_error_statement=panic")
        with os.fdopen(os.open(self._password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(password + "\n")

    def _run_single_user(self, data: Path, statement: str, *settings: str) -> None:
        """Runs a statement in single-user mode, without a server."""
        options = [word for setting in settings for word in ("-c", setting)]
        self._run("postgres", "--single", "-D", str(data), *options, "postgres", stdin=f"{statement}\n".encode())

    def _require_same_version(self) -> None:
        version = (self._data / "PG_VERSION").read_text(encoding="utf-8").strip()
        if version != str(self._major_version()):
            raise WakeboardError(
                f"{self._data} was created by PostgreSQL {version}, but this is PostgreSQL {self._major_version()}; "
                "delete it, or start with --fresh."
            )

    def _major_version(self) -> int:
        answer = subprocess.run([self._binaries / "postgres", "--version"], capture_output=True, text=True, check=True)
        return int(answer.stdout.split()[2].split(".")[0])

    def _run(self, program: str, *words: str, stdin: bytes = b"") -> None:
        command = [str(self._binaries / program), *words]
        identity = self._identity()
        result = subprocess.run(
            command, input=stdin, capture_output=True, cwd=self.home, env=_server_environment(), check=False, **identity
        )
        if result.returncode:
            errors = result.stderr.decode(errors="replace").strip().splitlines() or ["no error message"]
            raise WakeboardError(f"PostgreSQL's {program} failed in {self.home}: {errors[-1]}")

    def _identity(self) -> _Identity:
        if self.account is None:
            return _Identity()
        return _Identity(user=self.account.uid, group=self.account.gid, extra_groups=[])

    def _pid_file(self) -> list[str]:
        try:
            return (self._data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []

    def _is_our_server(self, pid: int) -> bool:
        """Whether the process is a server that `spawn` has started on this data folder."""
        return f" -D {self._data} " in f"{_command_line(pid)} "


def _server_environment() -> dict[str, str]:
    """The server's environment: a few variables only, because other processes of its user can read it."""
    return {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ} | {"LC_ALL": "C"}


def _command_line(pid: int) -> str:
    """The command line of a process; empty if there is none."""
    if sys.platform != "linux":
        return subprocess.run(["ps", "-p", str(pid), "-o", "args="], capture_output=True, text=True, check=False).stdout
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
