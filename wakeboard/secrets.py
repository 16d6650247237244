"""Resolves `{"$secret": "NAME"}` in payloads, and masks the secrets in results, errors and logs.

A secret is the file NAME in the folder `secrets_dir` (mounted from a Kubernetes Secret), else the environment variable
WAKEBOARD_SECRET_NAME. `{"$secret": "token", "prefix": "Bearer "}` puts a text before the secret. Payloads, and so the
database, contain names only. Only the process that uses a secret resolves it: a worker, or an operator that delivers
alerts.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from urllib.parse import quote, quote_plus

from wakeboard.errors import Discard
from wakeboard.rules.output_text import MAX_CHARACTERS, printable

if TYPE_CHECKING:
    from collections.abc import Iterable

KEY: Final = "$secret"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}")  # a valid key of a Kubernetes Secret; not a path
_MASKED_PIECE: Final = 8  # characters; lines and parts of a url that are at least as long are masked by themselves, too


class Secrets:
    """The secrets of one run: resolves them by name and masks them in text."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._masked: dict[str, str] = {}  # text to mask -> name of the secret

    def resolve(self, value: Any) -> Any:
        """Return `value` with each {"$secret": NAME} replaced. Raises Discard for a missing or invalid secret."""
        if isinstance(value, list):
            return [self.resolve(item) for item in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        fields = cast("dict[str, Any]", value)
        if KEY not in fields:
            return {key: self.resolve(item) for key, item in fields.items()}
        name, prefix = fields[KEY], fields.get("prefix", "")
        if fields.keys() - {KEY, "prefix"} or not isinstance(prefix, str) or not isinstance(name, str):
            raise Discard(
                f'write a secret as {{"{KEY}": "NAME"}}, or with a text before it as'
                f' {{"{KEY}": "NAME", "prefix": "Bearer "}}'
            )
        return prefix + self._secret(name)

    def hide(self, text: str, name: str) -> None:
        """Make `redact` mask `text` as the secret `name`, also where it is escaped as JSON or in a URL."""
        lines = [line for line in text.splitlines() if len(line) >= _MASKED_PIECE]
        for hidden in (text, *lines):
            escaped = json.dumps(hidden)[1:-1], json.dumps(hidden, ensure_ascii=False)[1:-1]
            quoted = quote(hidden), quote(hidden, safe=""), quote_plus(hidden)
            self._masked |= dict.fromkeys((hidden, printable(hidden), *escaped, *quoted), name)

    def hide_url(self, text: str, name: str) -> None:
        """Make `redact` mask the url `text` and its parts, also as aiohttp writes them, or raise ValueError."""
        from yarl import URL

        url = URL(text)
        wholes = {str(url), url.raw_path_qs, url.path_qs, url.raw_path, url.path, url.raw_password, url.password}
        queries = [*url.query.keys(), *url.query.values(), url.raw_query_string, url.query_string]
        pieces = [*url.parts, *url.raw_parts, *queries, url.raw_host, url.host, url.raw_user, url.user]
        long = {piece for piece in pieces if piece and len(piece) >= _MASKED_PIECE}
        for part in (wholes | long) - {"/", "", None}:
            self.hide(cast("str", part), name)

    def redact(self, text: str, keep: Literal["start", "end"] = "start", *, was_cut: bool = False) -> str:
        """Return at most MAX_CHARACTERS of `text`, with secrets masked in any letter case (hosts become lower case).

        `keep`: the part of a longer text that is shown. `was_cut`: the other part of `text` is missing already. A part
        of a secret at the cut is removed, too.
        """
        shown = text[:MAX_CHARACTERS] if keep == "start" else text[-MAX_CHARACTERS:]
        if was_cut or len(shown) < len(text):
            shown = self._without_partial(shown, keep)
        masked = self._masked_forms(shown)
        if max(len(text), len(masked)) <= MAX_CHARACTERS:
            return masked
        return masked[: MAX_CHARACTERS - 1] + "…" if keep == "start" else "…" + masked[1 - MAX_CHARACTERS :]

    def _without_partial(self, text: str, keep: Literal["start", "end"]) -> str:
        if keep == "end":
            return text[_partial(text, self._masked) :]
        return text[: len(text) - _partial(text[::-1], (form[::-1] for form in self._masked))]

    def _masked_forms(self, text: str) -> str:
        if not self._masked:
            return text
        forms = sorted(self._masked.items(), key=lambda form: len(form[0]), reverse=True)
        for_case = {hidden.lower(): name for hidden, name in forms}
        return re.sub(
            "|".join(re.escape(hidden) for hidden, _ in forms),
            lambda match: f"[secret {for_case.get(match[0].lower(), 'of this run')}]",
            text,
            flags=re.IGNORECASE,
        )

    def contains_secret(self, text: str) -> bool:
        """Whether `text` contains a secret."""
        return self._masked_forms(text) != text

    def _secret(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise Discard(
                f"the name of a secret may contain letters, digits, '.', '_' and '-' only, unlike {name[:80]!r}"
            )
        secret = self._read(name)
        if not secret:
            raise Discard(f"the secret {name!r} is empty")
        self.hide(secret, name)
        return secret

    def _read(self, name: str) -> str:
        variable = variable_of(name)
        file = Path(self._folder, name)
        if self._folder and file.is_file():
            try:
                return file.read_text("utf-8").rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                reason = "is not UTF-8 text" if isinstance(error, ValueError) else f"cannot be read: {error.strerror}"
                raise Discard(f"the file of the secret {name!r} {reason}") from None
        if variable in os.environ:
            return os.environ[variable].rstrip("\r\n")
        raise Discard(f"this process has no secret {name!r}: mount a file of that name, or set {variable}")


def variable_of(name: str) -> str:
    """The environment variable of a secret."""
    return "WAKEBOARD_SECRET_" + re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def _partial(text: str, secrets: Iterable[str]) -> int:
    """Return the number of characters at the start of `text` that are the end of a secret that was cut in two."""
    return max(
        (
            size
            for secret in secrets
            for size in range(1, min(len(secret), len(text) + 1))
            if text[:size].lower() == secret[-size:].lower()
        ),
        default=0,
    )
