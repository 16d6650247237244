"""Masks what looks like a credential in error texts and log lines, before they are stored, logged or shown.

It recognises the patterns of mask_rules.py: passwords in URLs, `password=…` and similar names, HTTP credentials,
private keys, and the tokens of well-known services. It does not know the values of secrets. A value of letters only may
be a word: it is masked after `=`, and after a colon if the name is that of a password and the value ends the line.

Any user may write the text, and the masking often runs in an event loop. So each text is cut before it is searched, and
no pattern looks at a character more often than a fixed number of times.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from wakeboard.text.mask_rules import MASK_RULES

if TYPE_CHECKING:
    from wakeboard.text.mask_rules import MaskRule, Part

MASK: Final = "***"

MAX_SHOWN: Final = 16_000  # characters of a log message, a stack or an error that are shown
MARGIN: Final = 4_096  # characters behind a cut that are searched, too: half a credential may not be recognised
ENDING: Final = ".aaaaaaaa@"  # of any credential whose rule needs one: the dot of a JWT, the @ of a URL
WORD_END: Final = r"[\s\"'&<>]"  # no token contains one of these
_ALL_WORDS: Final = {word for rule in MASK_RULES for word in rule.words}
_WORDS: Final = [word for word in _ALL_WORDS if not any(other in word for other in _ALL_WORDS - {word})]
AFTER: Final = 5  # characters behind a match that say whether it is prose


def redact(text: str, longest: int = MAX_SHOWN, keep: Literal["start", "end", "both"] = "both") -> str:
    """At most `longest` characters of `text`, with each part that looks like a credential replaced by `***`.

    Names and hosts stay. `keep`: the part of a longer text that is shown; `both` leaves out the middle. A word that
    begins more than MARGIN characters before the part that is shown may be a credential: up to MARGIN shown characters
    of it are replaced. A credential that contains spaces, such as a header or a private key, is not recognised there.
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
    ending = ENDING if length + MARGIN < len(text) else ""
    return _masked(text[: length + MARGIN] + ending).removesuffix(ending)[:length]


def _end(text: str, length: int) -> str:
    read = length + MARGIN
    masked = _masked(text[-read:])
    if read < len(text):
        word = re.search(WORD_END, masked)
        torn = min(word.start() if word else len(masked), 2 * MARGIN)
        masked = MASK * bool(torn) + masked[torn:]
    return masked[-length:]


def looks_clean(text: str) -> bool:
    """Whether `redact` leaves each line of the text as it is, unless a line is too long. A fifth of its time."""
    return _has_no_word(text.lower())


def _has_no_word(lower: str) -> bool:
    return not any(map(lower.__contains__, _WORDS))


def _masked(text: str) -> str:
    lower = text.lower()
    if _has_no_word(lower):
        return text
    for rule in MASK_RULES:
        if any(word in lower for word in rule.words):
            flags = re.ASCII | (re.IGNORECASE if rule.ignore_case else 0)
            text = re.sub(rule.pattern, partial(_replacement, rule), text, flags=flags)
    return text


def _replacement(rule: MaskRule, found: re.Match[str]) -> str:
    if not found.lastindex or (rule.unless and _stays(rule, found)):
        return found[0]
    begin, end = found.span(found.lastindex)
    return f"{found.string[found.start() : begin]}{MASK}{found.string[end : found.end()]}"


def _stays(rule: MaskRule, found: re.Match[str]) -> bool:
    text, groups, value = found.string, [group or "" for group in found.groups()], found[found.lastindex or 0]
    begin = found.start(1)
    parts: dict[Part, str] = {
        "before": text[max(begin - 1, 0) : max(begin, 0)],
        "name": groups[0],
        "separator": groups[1] if len(groups) > 1 else "",
        "value": value,
        "after": text[found.end() : found.end() + AFTER],
    }
    flags = re.ASCII | re.IGNORECASE
    return any(
        all(re.fullmatch(pattern, parts[part], flags) for part, pattern in condition.items())
        for condition in rule.unless
    )
