"""Chooses the user that runs Postgres, and folders that this user can enter.

Postgres refuses to run as root, so root runs it as `nobody`. Every other user runs it as themselves and needs nothing
of this module. `nobody` must be able to enter the folders of the programs and the data. Where a parent folder does not
allow that (a home folder is often 0700), its permissions are not changed. Instead, the programs are copied to
`/var/lib/wakeboard` and the data is created there.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wakeboard.errors import WakeboardError

SHARED_FOLDER = Path("/var/lib/wakeboard")


@dataclass(frozen=True)
class Account:
    """The user that Postgres runs as instead of root."""

    name: str
    uid: int
    gid: int


def server_account() -> Account | None:
    """Returns `nobody` for root. None: Postgres can run as the current user."""
    if os.geteuid() != 0:
        _require_user_name(os.geteuid())
        return None
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        raise WakeboardError(
            "PostgreSQL refuses to run as root, and there is no user named nobody to run it; "
            "start wakeboard as an ordinary user."
        ) from None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _require_user_name(uid: int) -> None:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        raise WakeboardError(
            f"PostgreSQL needs a user name, but the user {uid} has none on this machine; add the user to /etc/passwd,"
            " start wakeboard as another user, or name a database with --dsn."
        ) from None


def can_enter(folder: Path, account: Account) -> bool:
    """Whether the account can enter the folder and all its parents."""
    real = folder.resolve()
    return all(_can_search(each, account) for each in (real, *real.parents))


def _can_search(folder: Path, account: Account) -> bool:
    status = folder.stat()
    if status.st_uid == account.uid:
        return bool(status.st_mode & 0o100)
    if status.st_gid == account.gid:
        return bool(status.st_mode & 0o010)
    return bool(status.st_mode & 0o001)


def make_private_folder(folder: Path, account: Account | None) -> None:
    """Creates the folder if it does not exist, readable by the account only."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if account is not None:
        os.chown(folder, account.uid, account.gid)


def accessible_home(folder: Path, account: Account | None, shared: Path = SHARED_FOLDER) -> Path:
    """Returns the folder for the data: `folder` itself if the account can enter it, else a folder below `shared`.

    In the second case the link FOLDER/elsewhere points to it. If a user has deleted the link, the data is deleted too.
    """
    link = folder / "elsewhere"
    if not link.is_symlink():
        if account is None or can_enter(folder, account):
            return folder
        target = shared / f"data-{_fingerprint(folder.resolve())}"
        shutil.rmtree(target, ignore_errors=True)
        link.symlink_to(target)
    home = link.readlink()
    _make_shared_folder(home)
    return home


def accessible_binaries(binaries: Path, account: Account | None, shared: Path = SHARED_FOLDER) -> Path:
    """Returns `binaries` if the account can enter it, else a copy below `shared`."""
    if account is None or can_enter(binaries, account):
        return binaries
    package = binaries.parent.parent
    copy = shared / f"programs-{_fingerprint(binaries / 'postgres')}"
    if not copy.exists():
        _make_shared_folder(shared)
        _copy_package(package, copy)
    return copy / binaries.relative_to(package.parent)


def _fingerprint(path: Path) -> str:
    """A short hash of the path and, for a file, of its modification time."""
    changed = path.stat().st_mtime_ns if path.is_file() else 0
    return hashlib.sha256(f"{path} {changed}".encode()).hexdigest()[:12]


def _make_shared_folder(folder: Path) -> None:
    """Creates the folder and its parents with mode 0755, independent of the umask."""
    for each in (*reversed(folder.parents), folder):
        if not each.exists():
            each.mkdir(exist_ok=True)
            each.chmod(0o755)


def _copy_package(package: Path, copy: Path) -> None:
    """Copies the programs and their libraries, with one final rename, so that two processes may do it at once."""
    draft = Path(tempfile.mkdtemp(prefix="copying-", dir=copy.parent))
    for part in (package, package.with_name(f"{package.name}.libs")):
        if part.exists():
            shutil.copytree(part, draft / part.name, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a"))
    _make_readable(draft)
    with suppress(OSError):  # another process has created the copy
        draft.rename(copy)
    shutil.rmtree(draft, ignore_errors=True)


def _make_readable(folder: Path) -> None:
    """Makes all files readable by everyone, and executable where their owner may execute them."""
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
