"""`{"$secret": "NAME"}` in a payload: resolved here, in the worker, and nowhere else; taken out of whatever people see.

A secret is a file NAME in the folder `secrets_dir` (mounted from a Kubernetes Secret), else the variable
WAKEBOARD_SECRET_NAME. `{"$secret": "token", "prefix": "Bearer "}` puts a text before it. Payloads, and so the database,
hold names only.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from urllib.parse import quote, quote_plus

from wakeboard.errors import Discard
from wakeboard_worker.builtin.output_text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

KEY: Final = "$secret"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}")  # what a key of a Kubernetes Secret may be; no path
_LINE: Final = 8  # characters: longer lines of a secret with several lines are hidden one by one, too


class Secrets:
    """The secrets that one run uses: by name, and hidden from whatever it says."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._hidden: dict[str, str] = {}  # text -> name of the secret that it would give away

    def resolve(self, value: Any) -> Any:
        """`value` with each {"$secret": NAME} in it replaced. Raises Discard for a name that is not there."""
        if isinstance(value, list):
            return [self.resolve(item) for item in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        found = cast("dict[str, Any]", value)
        if KEY not in found:
            return {key: self.resolve(item) for key, item in found.items()}
        name, prefix = found[KEY], found.get("prefix", "")
        if found.keys() - {KEY, "prefix"} or not isinstance(prefix, str) or not isinstance(name, str):
            raise Discard(f'a secret is written {{"{KEY}": "NAME"}}, or with a text before it: "prefix": "Bearer "')
        return prefix + self._secret(name)

    def hide(self, text: str, name: str) -> None:
        """From now on `redact` takes `text` out, in the ways in which it may be written elsewhere."""
        lines = [line for line in text.splitlines() if len(line) >= _LINE]
        for hidden in (text, *lines):
            escaped = json.dumps(hidden)[1:-1], json.dumps(hidden, ensure_ascii=False)[1:-1]
            quoted = quote(hidden), quote(hidden, safe=""), quote_plus(hidden)
            self._hidden |= dict.fromkeys((hidden, plain(hidden), *escaped, *quoted), name)

    def redact(self, text: str, cut: Literal["start", "end"] | None = None) -> str:
        """`text` without secrets, in whatever letter case: a host comes back in lower case.

        Where it was cut before, half a secret at that end is taken out as well.
        """
        if not self._hidden:
            return text
        if cut == "start":
            text = text[_half(text, self._hidden) :]
        elif cut == "end":
            text = text[: len(text) - _half(text[::-1], (form[::-1] for form in self._hidden))]
        forms = sorted(self._hidden.items(), key=lambda form: len(form[0]), reverse=True)
        for_case = {hidden.lower(): name for hidden, name in forms}
        return re.sub(
            "|".join(re.escape(hidden) for hidden, _ in forms),
            lambda found: f"[secret {for_case.get(found[0].lower(), 'of this run')}]",
            text,
            flags=re.IGNORECASE,
        )

    def gives_away(self, text: str) -> bool:
        """Whether there is a secret in `text`."""
        return self.redact(text) != text

    def _secret(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise Discard(f"the name of a secret has letters, digits, '.', '_' and '-' only, unlike {name[:80]!r}")
        secret = self._read(name)
        if not secret:
            raise Discard(f"the secret {name!r} is empty")
        self.hide(secret, name)
        return secret

    def _read(self, name: str) -> str:
        variable = "WAKEBOARD_SECRET_" + re.sub(r"[^A-Za-z0-9]", "_", name).upper()
        file = Path(self._folder, name)
        if self._folder and file.is_file():
            try:
                return file.read_text("utf-8").rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                why = "is no UTF-8 text" if isinstance(error, ValueError) else f"cannot be read: {error.strerror}"
                raise Discard(f"the file of the secret {name!r} {why}") from None
        if variable in os.environ:
            return os.environ[variable].rstrip("\r\n")
        raise Discard(f"this worker has no secret {name!r}: mount a file of that name, or set {variable}")


def _half(text: str, secrets: Iterable[str]) -> int:
    """How many characters at the start of `text` are the end of a secret whose beginning was cut off."""
    return max(
        (
            size
            for secret in secrets
            for size in range(1, min(len(secret), len(text) + 1))
            if text[:size].lower() == secret[-size:].lower()
        ),
        default=0,
    )
