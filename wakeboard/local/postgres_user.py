"""Who runs Postgres, and where that user can read and write.

Anyone but root runs it as themselves, and nothing here does anything. Postgres refuses root, so root runs it as
`nobody`, who must be able to enter the folders that hold the programs and the data. Where the way there is closed
(a home folder is 0700), it stays closed: the programs are copied and the data is kept below `/var/lib/wakeboard`.
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

OPEN_PLACE = Path("/var/lib/wakeboard")


@dataclass(frozen=True)
class Account:
    """The user that Postgres runs as instead of root."""

    name: str
    uid: int
    gid: int


def account_for_server() -> Account | None:
    """`nobody` when we are root; None when Postgres can run as ourselves."""
    if os.geteuid() != 0:
        _require_user_name(os.geteuid())
        return None
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        raise WakeboardError(
            "PostgreSQL refuses to run as root and there is no user named nobody to run it; "
            "start wakeboard as an ordinary user."
        ) from None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _require_user_name(uid: int) -> None:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        raise WakeboardError(
            f"PostgreSQL needs a user name, and the user {uid} has none on this machine: add a line for it to"
            " /etc/passwd, start wakeboard as another user, or name a database with --dsn."
        ) from None


def may_enter(folder: Path, account: Account) -> bool:
    """Whether the account can walk from / into the folder."""
    real = folder.resolve()
    return all(_may_pass(place, account) for place in (real, *real.parents))


def _may_pass(folder: Path, account: Account) -> bool:
    status = folder.stat()
    if status.st_uid == account.uid:
        return bool(status.st_mode & 0o100)
    if status.st_gid == account.gid:
        return bool(status.st_mode & 0o010)
    return bool(status.st_mode & 0o001)


def make_private_folder(folder: Path, account: Account | None) -> None:
    """Makes the folder if need be, readable by the account alone."""
    folder.mkdir(mode=0o700, exist_ok=True)
    give_to(folder, account)


def give_to(path: Path, account: Account | None) -> None:
    """Makes the account the owner, if there is one."""
    if account is not None:
        os.chown(path, account.uid, account.gid)


def enterable_home(folder: Path, account: Account | None, open_place: Path = OPEN_PLACE) -> Path:
    """Where the data of this folder is kept: the folder itself if it can be entered.

    Otherwise a folder below `open_place`, to which the link `elsewhere` in the folder points. Who removes the link
    has removed the data: without it the place is emptied and begun anew.
    """
    link = folder / "elsewhere"
    if not link.is_symlink():
        if account is None or may_enter(folder, account):
            return folder
        place = open_place / f"data-{_mark(folder.resolve())}"
        shutil.rmtree(place, ignore_errors=True)
        link.symlink_to(place)
    home = link.readlink()
    _make_open_folder(home)
    return home


def enterable_binaries(binaries: Path, account: Account | None, open_place: Path = OPEN_PLACE) -> Path:
    """A folder with the same programs that the account can enter: this one, or a copy below `open_place`."""
    if account is None or may_enter(binaries, account):
        return binaries
    package = binaries.parent.parent
    copy = open_place / f"programs-{_mark(binaries / 'postgres')}"
    if not copy.exists():
        _make_open_folder(open_place)
        _copy_package(package, copy)
    return copy / binaries.relative_to(package.parent)


def _mark(path: Path) -> str:
    """Short, and another one when the file at that path is replaced."""
    changed = path.stat().st_mtime_ns if path.is_file() else 0
    return hashlib.sha256(f"{path} {changed}".encode()).hexdigest()[:12]


def _make_open_folder(folder: Path) -> None:
    """Makes the folder so that anyone may enter it, whatever the umask."""
    for place in (*reversed(folder.parents), folder):
        if not place.exists():
            place.mkdir(exist_ok=True)
            place.chmod(0o755)


def _copy_package(package: Path, copy: Path) -> None:
    """Copies the programs with the libraries beside them in one move, so that two may do it at once."""
    draft = Path(tempfile.mkdtemp(prefix="copying-", dir=copy.parent))
    for part in (package, package.with_name(f"{package.name}.libs")):
        if part.exists():
            shutil.copytree(part, draft / part.name, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a"))
    _open_to_all(draft)
    with suppress(OSError):  # another process was faster
        draft.rename(copy)
    shutil.rmtree(draft, ignore_errors=True)


def _open_to_all(folder: Path) -> None:
    """Lets anyone read what lies there, and run what its owner may run."""
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
