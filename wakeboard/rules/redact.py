"""Masks what looks like a credential in error texts and log lines, before they are stored, logged or shown.

It recognises patterns: passwords in URLs, `password=…` and similar names, HTTP credentials, private keys, and the
tokens of well-known services. It does not know the values of secrets. A value of letters only may be a word: it is
masked after `=`, and after a colon if the name is that of a password and the value ends the line.

Any user may write the text, and the masking often runs in an event loop. So each text is cut before it is searched, and
no pattern looks at a character more often than a fixed number of times.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

MASK: Final = "***"

MAX_SHOWN: Final = 16_000  # characters of a log message, a stack or an error that are shown
MARGIN: Final = 4_096  # characters behind a cut that are searched, too: half a credential may not be recognised

# Each pattern is searched only in a text with one of its fixed parts. A pattern with a required end, such as the "@" of
# a URL, stops where its own beginning may come again.
_PRIVATE_KEY: Final = (
    r"(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)"
)
_KNOWN_SHAPES: Final = (
    r"\b(?:(?:AKIA|ASIA)[0-9A-Z]{16}"  # AWS
    r"|gh[oprsu]_[0-9A-Za-z]{20,}|github_pat_[0-9A-Za-z_]{20,}|glpat-[0-9A-Za-z_-]{16,}"
    r"|xox[abeoprs]-[0-9A-Za-z-]{10,}|(?:sk|rk|pk)_(?:live|test)_[0-9A-Za-z]{10,}|sk-[0-9A-Za-z_-]{20,}"
    r"|AIza[0-9A-Za-z_-]{30,}|SG\.[0-9A-Za-z_-]{16,40}\.[0-9A-Za-z_-]{16,}|(?:npm|pypi|hf|dop_v1)[_-][0-9A-Za-z_-]{20,}"
    r"|hv[sbr]\.[0-9A-Za-z_-]{20,})"  # Vault
)
# A JWT. A run without a dot is matched, too, so that it is not searched again from a later start.
_JWT: Final = r"\beyJ[0-9A-Za-z_-]+(\.[0-9A-Za-z_-]{8,}(?:\.[0-9A-Za-z_-]*)?)?"
_WEBHOOK: Final = (
    r"(hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/|api\.telegram\.org/bot)"
    r"[^\s\"'<>]+"
)
# scheme://user:password@host. The password may hold raw "/", "@" or '"', but no "://"; digits and a "/" are a port and
# a path.
_USERINFO: Final = r"(://[^\s:/?#@\[\]]{0,255}:)(?!\d{1,5}(?:[/?#]|\s|$))(?:(?:(?!://)[^\s\"<>])+|(?:(?!://)[^\s<>])+)@"
# scheme://token@host
_USER: Final = r"(://)([^\s:/?#@\[\]\"'<>]{16,})@"
_HEADER: Final = (
    r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie|x-api-key)(\\?[\"']?\s{0,3}[:=,]\s{0,3}(?:b(?=[\"']))?)(?!\s|b?\*\*\*)"
    r"(?:\\?\"[^\"\r\n]+\"?|\\?'[^'\r\n]+'?|[^\"'\r\n]+)"
)
_SCHEME: Final = r"(?i)\b(Bearer|Basic|Digest|Token)(\s{1,3})([0-9A-Za-z._~+/=-]{8,})"
# password=…, "token": "…", X-Api-Key: … The name may have anything before it (PGPASSWORD, client_secret). A value
# {$secret: NAME} is the name of a secret, and is shown. The name may also be that of a variable of a container
# ({"name": "TOKEN", "value": "…"}), or of a column in an error of PostgreSQL (Key (token)=(…)).
_NAMED: Final = (
    r"(?i)(?<!\$)(password|passwd|passphrase|passcode|(?<![a-z])pass|(?-i:(?<=[a-z])Pass)|pwd|secret|token|credentials?|signature"
    r"|\bsig|(?:api|access|private|secret|account|encryption|master|shared|signing|subscription)[_-]?key|access[_-]?key[_-]?id)"
    r"(\\?[\"']?\]?\s{0,3}(?:=>|[:=]|%3[AD])\s{0,3}|\)=\(|\\?[\"']\s?,\s{0,3}\\?[\"']value\\?[\"']\s?:\s{0,3})"
    r"((?!\*\*\*|\{\\?[\"']?\$secret\b)(?:\\\"[^\"\\\r\n]*(?:\\\")?|\"(?:[^\"\\\r\n]|\\.)*\"?|\\'[^'\\\r\n]*(?:\\')?"
    r"|'(?:[^'\\\r\n]|\\.)*'?|[^\s\"'&][^\s&]*))"
)
_OPTION: Final = r"(?i)(--(?:[a-z]{1,20}-)?(?:password|passwd|token|secret|api-key))(\s{1,3})([^\s\"']+)"
_ELEMENT: Final = r"(?i)(<[\w:.-]{0,40}(?:password|passwd|token|secret)>)[^<]+"
_NOTHING: Final = r"(?i)\W*+(?:(?:none|null|nil|true|false|undefined)\W*)?"
_CODE: Final = r"[A-Za-z_.]+[(\[][^0-9]*|[A-Za-z_]+\.[A-Za-z_.]++\W*"
_WORD: Final = r"[A-Za-z]{1,15}\W{0,2}"
_COUNT: Final = r"[0-9]{1,5}(?:[./][0-9]{1,5})?%?\W?"
_SHORT_WORD: Final = rf"{_COUNT}|[A-Za-z]{{1,5}}\W{{0,2}}"
_MORE_WORDS: Final = r" {1,3}\(?[A-Za-z]"
# The user of a URL is a token if one of its parts, joined by "-", "_" or ".", is this long and has letters and digits.
# Words and versions are a name.
_LONG_PART: Final = r"[A-Za-z0-9+=%~]{16,}"
_WORD_END: Final = r"[\s\"'&<>]"  # no token contains one of these
_UUID: Final = r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_LOOKS_RANDOM: Final = r"(?s)\A[A-Za-z]*[^A-Za-z].*[A-Za-z0-9]|[A-Za-z]{20}|\A[^A-Za-z]*[A-Za-z].*[0-9]"


def redact(text: str, longest: int = MAX_SHOWN, keep: Literal["start", "end", "both"] = "both") -> str:
    """At most `longest` characters of `text`, with each part that looks like a credential replaced by `***`.

    Names and hosts stay. `keep`: the part of a longer text that is shown; `both` leaves out the middle. A word that
    goes on for more than MARGIN characters behind a cut is replaced, too. A credential that contains spaces, such as a
    header or a private key, is not recognised if it begins so far before the part that is shown.
    """
    if len(text) <= longest + MARGIN:
        text = _masked(text)
    if len(text) <= longest:
        return text
    match keep:
        case "start":
            return _start(text, longest - 1) + "…"
        case "end":
            return "…" + _end(text, longest - 1)
        case "both":
            half = longest // 2 - 20
            return f"{_start(text, half)} …({len(text) - 2 * half} left out)… {_end(text, half)}"


def _start(text: str, length: int) -> str:
    masked = _masked(text[: length + MARGIN])
    torn = _word_length(masked[::-1]) if length + MARGIN < len(text) else 0
    return (masked[: len(masked) - torn] + MASK * bool(torn))[:length]


def _end(text: str, length: int) -> str:
    masked = _masked(text[-length - MARGIN :])
    torn = _word_length(masked) if length + MARGIN < len(text) else 0
    return (MASK * bool(torn) + masked[torn:])[-length:]


def _word_length(text: str) -> int:
    """The length of the word that `text` begins with. If a cut tore it, it may be a part of a credential."""
    end = re.search(_WORD_END, text)
    return end.start() if end else len(text)


def _masked(text: str) -> str:
    lower = text.lower()
    for words, pattern, replacement in _RULES:
        if any(word in lower for word in words):
            text = re.sub(pattern, replacement, text)
    return text


def _jwt(found: re.Match[str]) -> str:
    return MASK if found[1] else found[0]


def _scheme(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}{MASK}" if re.search(_LOOKS_RANDOM, found[3]) else found[0]


def _user(found: re.Match[str]) -> str:
    """A user without a password is a token if a part of it is long and has letters and digits."""
    user = found[2]
    parts = [part for part in re.split(r"[-_.]", user) if re.fullmatch(_LONG_PART, part)]
    is_token = any(re.search(r"[0-9]", part) and re.search(r"[A-Za-z]", part) for part in parts)
    return f"{found[1]}{MASK}@" if is_token or re.fullmatch(_UUID, user) else found[0]


def _named(found: re.Match[str]) -> str:
    name, separator, value = found.groups()
    if re.fullmatch(_NOTHING, value) or (name.lower() == "pwd" and value[0] in "/.~"):
        return found[0]
    quoted = value[0] in "\"'\\"
    spaced = separator[-1].isspace()
    if name.lower() == "pass" and not _is_compound(found) and re.fullmatch(_SHORT_WORD if spaced else _COUNT, value):
        return found[0]  # `pass: ok`, `pass=3`: the result of a test
    if not quoted and spaced and (re.fullmatch(_CODE, value) or _is_prose(name, separator, value, found)):
        return found[0]
    return f"{name}{separator}{MASK}"


def _is_compound(found: re.Match[str]) -> bool:
    """Whether the name is a part of a longer one, as in `client_secret`, or has several words itself."""
    before = found.string[found.start() - 1 : found.start()]
    return not found[1].isalpha() or before.isalnum() or before in {"_", "-"}


def _is_prose(name: str, separator: str, value: str, found: re.Match[str]) -> bool:
    """Whether a match is prose such as `password: must be longer`: a word after a colon that does not end the line.

    After a name of several words, such as `client_secret`, another word must follow.
    """
    if ":" not in separator or not re.fullmatch(_WORD, value):
        return False
    if _is_compound(found):
        return re.match(_MORE_WORDS, found.string[found.end() : found.end() + 5]) is not None
    ends_line = found.string[found.end() : found.end() + 1] in {"", "\n", "\r"}
    return not (ends_line and name.lower().startswith("pass"))


# Words of which the lower-case text must contain one before a pattern is tried. Compiling all patterns takes 10 ms,
# which is too long for a waking worker.
_RULES: Final[tuple[tuple[tuple[str, ...], str, str | Callable[[re.Match[str]], str]], ...]] = (
    (("-----begin",), _PRIVATE_KEY, MASK),
    (("://",), _USERINFO, rf"\1{MASK}@"),
    (("://",), _USER, _user),
    (("authorization", "cookie", "x-api-key"), _HEADER, rf"\1\2{MASK}"),
    (("bearer", "basic", "digest", "token"), _SCHEME, _scheme),
    (("pass", "pwd", "secret", "token", "key", "credential", "sig"), _NAMED, _named),
    (("--",), _OPTION, _scheme),
    (("password>", "passwd>", "token>", "secret>"), _ELEMENT, rf"\1{MASK}"),
    (("hooks.slack.com", "discord", "telegram"), _WEBHOOK, rf"\1{MASK}"),
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
            "hv",
        ),
        _KNOWN_SHAPES,
        MASK,
    ),
    (("eyj",), _JWT, _jwt),
)
