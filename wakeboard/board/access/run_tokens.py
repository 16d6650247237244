"""Which run tokens a board accepts, and whose pages may use them.

The secrets are lines of a file. To change them, add a line, let applications sign with it, and delete the old line when
the tokens that were signed with it have expired. To end all tokens at once, replace the lines.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from wakeboard.board.access.checked_file import CheckedFile
from wakeboard.engine.run_tokens import MIN_SECRET, RunToken, verify_run_token
from wakeboard.errors import InvalidSettings

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

WHAT: Final = "file of secrets for run tokens"


class RunTokenAccess:
    """The secrets of a file, and the origins of pages, such as https://app.example.com.

    Raises InvalidSettings for an invalid file.
    """

    def __init__(self, path: Path, origins: Collection[str] = ()) -> None:
        self._file = CheckedFile(path, WHAT, partial(_parse, path))
        self.origins = frozenset(origin.lower() for origin in origins)

    def verified(self, token: str) -> RunToken | None:
        """What a token says that is valid now; None otherwise. Raises InvalidSettings if the file is invalid by now."""
        return verify_run_token(token, self._file.content(), datetime.now(UTC))


def _parse(path: Path, text: str) -> list[str]:
    secrets = [line.strip() for line in text.splitlines() if line.strip()]
    if not secrets or min(map(len, secrets)) < MIN_SECRET:
        raise InvalidSettings(
            f"the {WHAT} {path} has no secret, or a short one: write a random one of {MIN_SECRET} or more characters on"
            " each line, such as `openssl rand -hex 32` prints."
        )
    return secrets
