"""`{"$secret": "NAME"}` in a payload: resolved here, in the worker, and nowhere else; taken out of whatever people see.

A secret is a file NAME in the folder `secrets_dir` (mounted from a Kubernetes Secret), else the variable
WAKEBOARD_SECRET_NAME. Payloads in the database hold names only.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final, cast

from wakeboard.errors import Discard

KEY: Final = "$secret"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}")
_SHORTEST_REDACTED: Final = 4  # characters; a shorter value would take holes into every text


class Secrets:
    """Secrets by name, and the ones that this run has used."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._used: dict[str, str] = {}  # value -> name

    def resolve(self, value: Any) -> Any:
        """`value` with each {"$secret": NAME} in it replaced. Raises Discard for a name that is not there."""
        if isinstance(value, list):
            return [self.resolve(item) for item in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        found = cast("dict[str, Any]", value)
        if KEY not in found:
            return {key: self.resolve(item) for key, item in found.items()}
        name = found[KEY]
        if len(found) > 1 or not isinstance(name, str) or not _NAME.fullmatch(name):
            raise Discard(f'a secret is written {{"{KEY}": "NAME"}}, with letters, digits, ., _ and - in its name')
        secret = self._read(name)
        self._used[secret] = name
        return secret

    def redact(self, text: str) -> str:
        """`text` without the values of secrets that were used."""
        for secret, name in sorted(self._used.items(), key=lambda item: -len(item[0])):
            if len(secret) >= _SHORTEST_REDACTED:
                text = text.replace(secret, f"[secret {name}]")
        return text

    def _read(self, name: str) -> str:
        if self._folder:
            file = Path(self._folder, name)
            if file.is_file():
                return file.read_text("utf-8").rstrip("\r\n")
        variable = "WAKEBOARD_SECRET_" + re.sub(r"[^A-Za-z0-9]", "_", name).upper()
        if variable in os.environ:
            return os.environ[variable]
        raise Discard(f"this worker has no secret {name!r}: mount a file of that name, or set {variable}")
