"""Logs in with tokens that are listed in a file: one line for each, with a name, a role and the token's SHA-256.

    # name   role      sha256 of the token
    anna     operator  5f1c…
    display  viewer    77ab…

`wakeboard board --new-token NAME` prints a token and its line. The file holds no token, and it is read again when it
changes.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, cast, get_args

from wakeboard.board.access.checked_file import CheckedFile
from wakeboard.board.access.viewer import Role, RoleViewer, token_of
from wakeboard.errors import InvalidSettings, InvalidValue

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import HTTPConnection

    from wakeboard.board.access.viewer import KnownNamespaces, Viewer

WHAT: Final = "token file"
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}"
_LINE: Final = re.compile(rf"({_NAME})\s+(\S+)\s+([0-9a-f]{{64}})")


class _Entry(NamedTuple):
    name: str
    role: Role
    digest: str


class TokenAccess:
    """The tokens of one file. Raises InvalidSettings for a file that is missing, invalid or empty."""

    asks_for_token = True

    def __init__(self, path: Path) -> None:
        self._file = CheckedFile(path, WHAT, partial(_parse, path))

    async def viewer(self, request: HTTPConnection, known: KnownNamespaces) -> Viewer | None:  # noqa: ARG002
        """The owner of the request's token. Raises InvalidSettings if the file has become invalid."""
        token = token_of(request)
        if not token:
            return None
        digest = digest_of(token)
        matching = [entry for entry in self._file.content() if hmac.compare_digest(entry.digest, digest)]
        return RoleViewer(matching[0].name, matching[0].role) if matching else None

    async def close(self) -> None:
        """Has opened nothing."""


def check_token_name(name: str) -> None:
    """Raises InvalidValue for a name that the file may not hold."""
    if not re.fullmatch(_NAME, name):
        raise InvalidValue("write letters, digits, dots, underscores, hyphens and @, such as anna@example.com")


def new_token() -> str:
    """A random token of 43 characters."""
    return secrets.token_urlsafe(32)


def digest_of(token: str) -> str:
    """The SHA-256 of a token in hexadecimal."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _parse(path: Path, text: str) -> list[_Entry]:
    """The entries of a token file. Raises InvalidSettings with the number of the first invalid line."""
    entries: list[_Entry] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].strip()
        if not words:
            continue
        found = _LINE.fullmatch(words)
        if found is None or found[2] not in get_args(Role):
            raise InvalidSettings(
                f"line {number} of the token file {path} is invalid: write a name, viewer or operator, and the SHA-256"
                " of the token in lower-case hexadecimal, as `wakeboard board --new-token NAME` prints them."
            )
        entries.append(_Entry(found[1], cast("Role", found[2]), found[3]))
    if not entries:
        raise InvalidSettings(f"the token file {path} lists no token.")
    return entries
