"""Parses what a user types to find runs: `status:dead type:send_* payload.customer:42 since:2h`.

A search is a list of terms; a run must fit all of them. A term is a qualifier with values, of which one must fit, or a
bare word. A leading `-` or `NOT` negates a term. A value in double quotes may contain spaces, commas and colons;
`*` outside quotes stands for any text. Words that cannot be understood are left out and reported in one sentence, so
that a page can show the rest. Length and number of terms are bounded before anything is parsed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from wakeboard.errors import InvalidValue
from wakeboard.text.object_ids import parse_id
from wakeboard.text.sanitize import one_line
from wakeboard.text.secret_keys import is_secret_key
from wakeboard.text.similar_names import closest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LONGEST_SEARCH: Final = 1000  # characters
LONGEST_VALUE: Final = 200  # characters
MOST_TERMS: Final = 20
MOST_VALUES: Final = 50  # of one term

STATUSES: Final = ("queued", "running", "failed", "dead", "succeeded", "cancelled", "skipped", "discarded")
TRIGGERS: Final = ("tick", "manual", "replay", "backfill", "application")
QUALIFIERS: Final[Mapping[str, str]] = {  # and what each is for
    "status": "status:dead,failed",
    "type": "job type, type:send_*",
    "schedule": "schedule:billing/*",
    "queue": "queue:default",
    "priority": "1 to 5, of which 5 goes first; priority:>=4",
    "error": "text of the error, error:timeout",
    "payload": "a value in the payload, payload.customer:42",
    "since": "since:2h or since:2026-11-21",
    "until": "until:30m or until:2026-11-21T12:00",
    "limit": "limit key, limit:openai",
    "trigger": "trigger:tick,manual,replay,backfill,application",
    "worker": "the worker that ran an attempt, worker:jobs-*",
    "attempts": "how many were made, attempts:0 or attempts:>3",
    "generation": "of the schedule, generation:3 or generation:3..5",
    "id": "id:42",
    "uuid": "beginning of the uuid, uuid:0192f0c1",
}
OPERATORS: Final[Mapping[str, str]] = {
    "AND": "A run must fit all words, also without AND; write type:send_mail status:dead.",
    "OR": 'Write values with a comma for or, such as status:dead,failed; "or" in quotes is the word itself.',
}
OPEN_QUOTE: Final = 'A quote is not closed, so the value goes on to the end of the search; write another ".'
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO: Final = re.compile(r"(\d{1,6})(s|m|min|h|d|w)")
_UUID_START: Final = re.compile(r"[0-9a-fA-F-]{1,36}")
NUMBERS: Final = ("priority", "attempts", "generation")  # qualifiers whose values are numbers or ranges of them
LARGEST_NUMBER: Final = 10**9
_RANGE: Final = re.compile(
    r"(?P<sign>[<>]=?|)(?P<number>[0-9]{1,9})|(?P<low>[0-9]{1,9}|\*?)\.\.(?P<high>[0-9]{1,9}|\*?)"
)
_NAME: Final = re.compile(r"([A-Za-z_]+)((?:\.(?:\"[^\"]*\"|[^\s\":.]+))*):")
_PATH_PART: Final = re.compile(r"\.(?:\"([^\"]*)\"|([^\s\":.]+))")
_LISTED: Final = re.compile(r"(?:\"(?:[^\"\\]|\\.)*\"?|[^\",])+")  # values between commas
_QUOTED_OR_PLAIN: Final = re.compile(r"\"((?:[^\"\\]|\\.)*)\"?|([^\"]+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Value:
    """A value as the user means it. `wild`: each `*` in the text stands for any text."""

    text: str
    wild: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A part of a search.

    `qualifier`: a key of QUALIFIERS, or "" for a bare word. `path`: of a payload term, the keys down to the value.
    `values`: one of them must fit. `moment`: of since and until, a time, or how long ago. `text`: as it was typed.
    """

    qualifier: str
    values: tuple[Value, ...]
    text: str
    negated: bool = False
    path: tuple[str, ...] = ()
    moment: datetime | timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSearch:
    """A search that was understood: a run fits if it fits all terms. `problem`: what was left out and why, or "".

    `hint`: what was read in a way that the user may not mean, or "".
    """

    terms: tuple[Term, ...] = ()
    problem: str = ""
    hint: str = ""

    @property
    def text(self) -> str:
        """The search as text, which `parse_run_search` reads again."""
        return " ".join(term.text for term in self.terms)

    @property
    def statuses(self) -> tuple[str, ...]:
        """The statuses that a run may have."""
        allowed = STATUSES
        for term in self.terms:
            if term.qualifier == "status":
                named = {value.text for value in term.values}
                allowed = tuple(status for status in allowed if (status in named) != term.negated)
        return allowed

    def with_status(self, status: str) -> str:
        """The text of this search for one status; "" for all."""
        others = [term.text for term in self.terms if term.qualifier != "status"]
        return " ".join([f"status:{status}", *others] if status else others)

    @property
    def scans(self) -> bool:
        """Whether it compares texts for which there is no index: of payloads, errors and bare words."""
        return bool(self.of("payload", "error", ""))

    def of(self, *qualifiers: str) -> Sequence[Term]:
        """The terms with one of these qualifiers."""
        return [term for term in self.terms if term.qualifier in qualifiers]


def parse_run_search(text: str) -> RunSearch:
    """The search that a user typed. It never raises: `problem` reports the first part that was left out."""
    if len(text) > LONGEST_SEARCH:
        return RunSearch(problem=f"The search is longer than {LONGEST_SEARCH:,} characters; write a shorter one.")
    terms: list[Term] = []
    problem = ""
    negated = False
    for word in _words(text):
        if word == "NOT" and not negated:
            negated = True
            continue
        if word in {"AND", "OR"}:
            problem = problem or OPERATORS[word]
            continue
        try:
            terms.append(_next_term(word, terms, negated=negated))
        except InvalidValue as exc:
            problem = problem or str(exc)
        negated = False
    if negated:
        problem = problem or "NOT stands at the end; write a term after it, for example NOT type:send_mail."
    is_open = text.replace('\\"', "").count('"') % 2 == 1
    return RunSearch(terms=tuple(terms), problem=problem, hint=OPEN_QUOTE if is_open else "")


def _next_term(word: str, terms: Sequence[Term], *, negated: bool) -> Term:
    """The term that a word is, after these terms. Raises InvalidValue."""
    term = _term(word, negated=negated)
    if term.qualifier == "status" and any(earlier.qualifier == "status" for earlier in terms):
        raise InvalidValue("status: is given twice; write status:dead,failed for runs with either status.")
    if len(terms) == MOST_TERMS:
        raise InvalidValue(f"A search has at most {MOST_TERMS} terms; write several values as type:one,other.")
    return term


def _words(text: str) -> Iterable[str]:
    """Splits at white space outside double quotes. A quote that is not closed ends with the text."""
    word, quoted, escaped = "", False, False
    for char in text.strip():
        if char.isspace() and not quoted:
            if word:
                yield word
            word = ""
            continue
        quoted = quoted != (char == '"' and not escaped)
        escaped = char == "\\" and quoted and not escaped
        word += char
    if word:
        yield word + '"' * quoted


def _term(word: str, *, negated: bool) -> Term:
    body = word
    if body.startswith("-") and len(body) > 1:
        body, negated = body[1:], True
    text = f"-{body}" if negated else body
    named = _NAME.match(body)
    if named is None:
        values = (_values(body, "a word", split=False)[0],)
        return Term(qualifier="", values=values, text=text, negated=negated)
    name = named[1].lower()
    path = tuple(quoted or plain for quoted, plain in _PATH_PART.findall(named[2]))
    _check_name(name, path, body)
    values = _values(body[named.end() :], f"{name}:", split=name not in {"since", "until"})
    moment = _moment(name, values[0].text) if name in {"since", "until"} else None
    if moment is not None and negated:
        raise InvalidValue(
            f"{name}: cannot be turned around; write {'until' if name == 'since' else 'since'}: instead."
        )
    for value in values:
        _check_value(name, value)
    if name == "status":
        values = tuple(Value(value.text.lower()) for value in values)
    return Term(qualifier=name, values=values, text=text, negated=negated, path=path, moment=moment)


def _check_name(name: str, path: tuple[str, ...], body: str) -> None:
    if name not in QUALIFIERS:
        near = closest(name, list(QUALIFIERS))
        instead = f"write {near}:" if near else f"write one of {', '.join(QUALIFIERS)}"
        quoted = body.replace('"', "")[:40]
        raise InvalidValue(
            f'there is no qualifier "{one_line(name[:40])}"; {instead}, or "{one_line(quoted)}" for the text.'
        )
    if name == "payload" and not path:
        raise InvalidValue("payload: needs the key of a value; write for example payload.customer:42.")
    secret = next((key for key in path if is_secret_key(key)), None)
    if secret is not None:
        raise InvalidValue(f"Values of {one_line(secret[:40])} are masked and cannot be searched; search another key.")
    if name != "payload" and path:
        raise InvalidValue(f"{name} has no parts; write {name}: instead of {name}.{one_line(path[0][:40])}:.")


def _values(text: str, what: str, *, split: bool) -> tuple[Value, ...]:
    """Splits at commas outside quotes, and takes the quotes away."""
    found = [_value(part) for part in (_LISTED.findall(text) if split else [text]) if part]
    if not found:
        raise InvalidValue(f"{what} has no value; write for example {_example(what)}.")
    if len(found) > MOST_VALUES:
        raise InvalidValue(f"{what} has more than {MOST_VALUES} values; write a pattern such as send_*.")
    for value in found:
        if len(value.text) > LONGEST_VALUE:
            raise InvalidValue(f"A value of {what} is longer than {LONGEST_VALUE} characters; write a part of it.")
        if "\0" in value.text:
            raise InvalidValue("A search cannot contain the character NUL; leave it out.")
    return tuple(found)


def _value(part: str) -> Value:
    pieces = _QUOTED_OR_PLAIN.findall(part)
    text = "".join(re.sub(r"\\(.)", r"\1", quoted) if quoted else plain for quoted, plain in pieces)
    return Value(text, wild=any("*" in plain for _, plain in pieces))


def _example(what: str) -> str:
    name = what.rstrip(":")
    hint = QUALIFIERS.get(name, "send_mail")
    if name in {"since", "until", "trigger", "priority"}:
        return f"{name}:{ {'trigger': 'tick', 'priority': '1'}.get(name, '2h') }"
    return hint.rpartition(", ")[2]


def _check_value(name: str, value: Value) -> None:
    shown = one_line(value.text[:60])
    if name == "status" and value.text.lower() not in STATUSES:
        near = closest(value.text, STATUSES)
        instead = f"status:{near}" if near else ", ".join(STATUSES)
        raise InvalidValue(f'"{shown}" is not a status; write {instead}.')
    if name == "trigger" and value.text not in TRIGGERS:
        raise InvalidValue(f'"{shown}" is not a trigger; write {", ".join(TRIGGERS)}.')
    if name == "id" and parse_id(value.text) is None:
        raise InvalidValue(f'"{shown}" is not a number from 1 on; write for example {name}:42.')
    if name in NUMBERS and number_range(value) is None:
        raise InvalidValue(f'"{shown}" is no number or range; write {name}:2, {name}:>2, {name}:2..4 or {name}:3..')
    if name == "uuid" and not _UUID_START.fullmatch(value.text):
        raise InvalidValue(f'"{shown}" is not the beginning of a uuid; write for example uuid:0192f0c1.')


def number_range(value: Value) -> tuple[int, int] | None:
    """The first and the last number that a value of NUMBERS stands for, such as 3, >3, <=3, 3..5 or 3..; None: none."""
    found = _RANGE.fullmatch(value.text)
    if found is None or value.text.strip("*") == "..":
        return None
    if not found["number"]:
        low, high = found["low"].strip("*"), found["high"].strip("*")
        return int(low or 0), int(high or LARGEST_NUMBER)
    number = int(found["number"])
    match found["sign"]:
        case ">" | ">=":
            return number + (found["sign"] == ">"), LARGEST_NUMBER
        case "<" | "<=":
            return 0, number - (found["sign"] == "<")
        case _:
            return number, number


def is_run_id(value: Value) -> bool:
    """Whether a bare word may be the id of a run."""
    return parse_id(value.text) is not None


def is_uuid_start(value: Value) -> bool:
    """Whether a bare word may be the beginning of a uuid: at least eight characters of one."""
    return len(value.text) >= 8 and _UUID_START.fullmatch(value.text) is not None  # noqa: PLR2004


def _moment(name: str, text: str) -> datetime | timedelta:
    ago = _AGO.fullmatch(text)
    if ago:
        span = timedelta(**{_UNITS[ago[2][0]]: int(ago[1])})
        if span <= timedelta(days=36_500):
            return span
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValue(
            f'"{one_line(text[:60])}" is no time; write {name}:2h (ago), {name}:7d or {name}:2026-11-21T12:00 (UTC).'
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if not 1970 <= moment.year <= 3000:  # noqa: PLR2004
        raise InvalidValue(f"{name}: takes times from the year 1970 to 3000.")
    return moment


def exact_term(qualifier: str, *values: str, moment: datetime | timedelta | None = None) -> Term:
    """The term that means exactly these values, which are not checked."""
    text = f"{qualifier}:{','.join(map(quoted, values))}"
    return Term(qualifier=qualifier, values=tuple(map(Value, values)), text=text, moment=moment)


def quoted(text: str) -> str:
    """A value as it must be written in a search to mean exactly this text."""
    if re.fullmatch(r"[^\s\",*\\:]+", text) and not text.startswith("-"):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
