"""Masks what looks like a credential in error texts and log lines, before they are stored, logged or shown.

It recognises patterns: passwords in URLs, `password=…` and similar names, HTTP credentials, private keys, and the
tokens of well-known services. It does not know the values of secrets. In doubt it masks too much.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MASK: Final = "***"

# Each pattern starts with fixed text and has bounded parts, so that matching is linear in the length of the text.
_PRIVATE_KEY: Final = r"(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"
_KNOWN_SHAPES: Final = (
    r"\b(?:(?:AKIA|ASIA)[0-9A-Z]{16}"  # AWS
    r"|gh[oprsu]_[0-9A-Za-z]{20,255}|github_pat_[0-9A-Za-z_]{20,255}|glpat-[0-9A-Za-z_-]{16,255}"
    r"|xox[abeoprs]-[0-9A-Za-z-]{10,255}|(?:sk|rk|pk)_(?:live|test)_[0-9A-Za-z]{10,255}|sk-[0-9A-Za-z_-]{20,255}"
    r"|AIza[0-9A-Za-z_-]{30,60}|SG\.[0-9A-Za-z_-]{16,40}\.[0-9A-Za-z_-]{16,80}|(?:npm|pypi|hf|dop_v1)[_-][0-9A-Za-z_-]{20,255}"
    r"|eyJ[0-9A-Za-z_-]{8,4096}\.[0-9A-Za-z_-]{8,4096}(?:\.[0-9A-Za-z_-]{0,4096})?)"  # a JWT
)
_SLACK_HOOK: Final = r"(hooks\.slack\.com/(?:services|workflows|triggers)/)[^\s\"'<>]{1,255}"
# scheme://user:password@host. The password may hold raw "/", "@" or '"'; digits and a "/" are a port and a path.
_USERINFO: Final = r"(://[^\s:/?#@\[\]]{0,255}:)(?!\d{1,5}(?:[/?#]|\s|$))(?:[^\s\"<>]{1,1024}|[^\s<>]{1,1024})@"
_HEADER: Final = (
    r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie|x-api-key)(\\?[\"']?\s{0,3}[:=,]\s{0,3})(?!\s|\*\*\*)"
    r"(?:\\?\"[^\"\r\n]{1,4096}\"?|\\?'[^'\r\n]{1,4096}'?|[^\"'\r\n]{1,4096})"
)
_SCHEME: Final = r"(?i)\b(Bearer|Basic|Digest|Token)(\s{1,3})([0-9A-Za-z._~+/=-]{8,4096})"
# password=…, "token": "…", X-Api-Key: … The name may have anything before it (PGPASSWORD, client_secret). A value
# {$secret: NAME} is the name of a secret, and is shown.
_NAMED: Final = (
    r"(?i)(?<!\$)(password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key"
    r"|secret[_-]?key|credentials?|signature|\bsig)"
    r"(\\?[\"']?\]?\s{0,3}(?:=>|[:=])\s{0,3})"
    r"((?!\*\*\*|\{\\?[\"']?\$secret\b)(?:\\\"[^\"\\\r\n]{0,1024}(?:\\\")?|\"(?:[^\"\\\r\n]|\\.){0,1024}\"?|\\'[^'\\\r\n]{0,1024}(?:\\')?"
    r"|'(?:[^'\\\r\n]|\\.){0,1024}'?|[^\s\"'&][^\s&]{0,1023}))"
)
_NOTHING: Final = r"(?i)\W*(?:none|null|nil|true|false|undefined)?\W*"
_CODE: Final = r"[A-Za-z_][\w.]*[(\[].*|[A-Za-z_]\w*\.[A-Za-z_][\w.]*\W*"
_WORD: Final = r"[A-Za-z]{1,15}\W{0,2}"
_LOOKS_RANDOM: Final = r"(?s)[^A-Za-z].*[A-Za-z0-9]|[A-Za-z]{20}|[A-Za-z].*[0-9]"


def redact(text: str) -> str:
    """`text` with each part that looks like a credential replaced by `***`. Names and hosts stay."""
    lower = text.lower()
    for words, pattern, replacement in _RULES:
        if any(word in lower for word in words):
            text = re.sub(pattern, replacement, text)
    return text


def _scheme(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}{MASK}" if re.search(_LOOKS_RANDOM, found[3]) else found[0]


def _named(found: re.Match[str]) -> str:
    name, separator, value = found.groups()
    if re.fullmatch(_NOTHING, value) or (name.lower() == "pwd" and value[0] in "/.~"):
        return found[0]
    quoted = value[0] in "\"'\\"
    spaced = separator[-1].isspace()
    if not quoted and spaced and (re.fullmatch(_CODE, value) or _is_prose(name, separator, value, found)):
        return found[0]
    return f"{name}{separator}{MASK}"


def _is_prose(name: str, separator: str, value: str, found: re.Match[str]) -> bool:
    """Whether a match is prose such as `password: must be longer`: a word after a colon that does not end the line."""
    if ":" not in separator or not re.fullmatch(_WORD, value):
        return False
    ends_line = found.string[found.end() : found.end() + 1] in {"", "\n", "\r"}
    return not (ends_line and name.lower().startswith("pass"))


# Words of which the lower-case text must contain one before a pattern is tried. Compiling all patterns takes 10 ms,
# which is too long for a waking worker.
_RULES: Final[tuple[tuple[tuple[str, ...], str, str | Callable[[re.Match[str]], str]], ...]] = (
    (("-----begin",), _PRIVATE_KEY, MASK),
    (("://",), _USERINFO, rf"\1{MASK}@"),
    (("authorization", "cookie", "x-api-key"), _HEADER, rf"\1\2{MASK}"),
    (("bearer", "basic", "digest", "token"), _SCHEME, _scheme),
    (("pass", "pwd", "secret", "token", "key", "credential", "sig"), _NAMED, _named),
    (("hooks.slack.com",), _SLACK_HOOK, rf"\1{MASK}"),
    (
        (
            "akia",
            "asia",
            "gh",
            "glpat-",
            "xox",
            "sk-",
            "k_live",
            "k_test",
            "aiza",
            "sg.",
            "npm",
            "pypi",
            "hf",
            "dop_v1",
            "eyj",
        ),
        _KNOWN_SHAPES,
        MASK,
    ),
)
