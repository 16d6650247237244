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
from wakeboard.text.output_text import MAX_CHARACTERS, printable

if TYPE_CHECKING:
    from collections.abc import Iterable

KEY: Final = "$secret"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}")  # a valid key of a Kubernetes Secret; not a path
_MASKED_PIECE: Final = 8  # characters; lines and parts of a url that are at least as long are masked by themselves, too


class Secrets:
    """The secrets of one run: resolves them by name and masks them in text."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._masked: dict[str, str] = {}  # text to mask, folded -> name of the secret

    def __bool__(self) -> bool:
        """Whether there is a text to mask."""
        return bool(self._masked)

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
            forms = {_folded(form) for form in (hidden, printable(hidden), *escaped, *quoted)}
            self._masked |= dict.fromkeys(forms - {""}, name)

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
        folded = _folded(text)
        if keep == "end":
            return text[_partial(folded, self._masked) :]
        return text[: len(text) - _partial(folded[::-1], (form[::-1] for form in self._masked))]

    def _masked_forms(self, text: str) -> str:
        masked: list[str] = []
        shown_from = 0
        for start, end, name in self._found(_folded(text)):
            if start >= shown_from:
                masked.append(f"{text[shown_from:start]}[secret {name}]")
            shown_from = max(shown_from, end)
        return "".join(masked) + text[shown_from:]

    def _found(self, folded: str) -> list[tuple[int, int, str]]:
        """Where each form is: (start, end, name), by start, the longest first."""
        found: list[tuple[int, int, str]] = []
        for form, name in self._masked.items():
            start = folded.find(form)
            while start >= 0:
                found.append((start, start + len(form), name))
                start = folded.find(form, start + len(form))
        return sorted(found, key=lambda each: (each[0], -each[1]))

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


def _folded(text: str) -> str:
    """`text` in lower case, character by character: as long as `text`, and without the two forms of a sigma."""
    return text.replace("İ", "i").lower().replace("\N{GREEK SMALL LETTER FINAL SIGMA}", "\N{GREEK SMALL LETTER SIGMA}")


def _partial(text: str, secrets: Iterable[str]) -> int:
    """Return the number of characters at the start of `text` that are the end of a secret that was cut in two.

    The algorithm of Knuth, Morris and Pratt: it looks at each character of the text and of the secrets about twice.
    """
    shorter = [0] * (len(text) + 1)  # of the first n characters: the longest beginning of `text` that ends them
    for size in range(1, len(text)):
        shorter[size + 1] = _longer(text, shorter, shorter[size], text[size])
    longest = 0
    for secret in secrets:
        size = 0
        for character in secret[max(1, len(secret) - len(text)) :]:
            size = _longer(text, shorter, size, character)
        longest = max(longest, size)
    return longest


def _longer(text: str, shorter: list[int], size: int, character: str) -> int:
    """The longest beginning of `text` that ends with `character`, after one of `size` characters."""
    while size and (size == len(text) or text[size] != character):
        size = shorter[size]
    return size + 1 if text[size : size + 1] == character else 0
