"""Reads a crontab: the format of `crontab -l`, or with users that of /etc/cron.d.

It follows crontab(5) of Debian's cron and of cronie: settings apply to the lines below them, an unescaped `%` ends the
command and begins its standard input, and CRON_TZ names the zone of the lines below it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_LINES: Final = 20_000
MAX_SETTINGS: Final = 200  # each entry has a copy of those above it
_SETTING: Final = re.compile(r"""\s*("[^"]+"|'[^']+'|[^\s=#"'*@]+)\s*=(.*)""")
_ENTRY: Final = re.compile(r"(@\S+|\S+(?:\s+\S+){4})\s+(.*)")
_UNESCAPED_PERCENT: Final = re.compile(r"(?<!\\)%")


@dataclass(frozen=True, slots=True)
class CrontabLine:
    """One entry. `settings`: the variables that apply to it. `user`: None in a crontab without users.

    `stdin`: what the command reads, or None. `problem`: why the line is not understood; then the others are empty.
    """

    number: int
    schedule: str = ""
    command: str = ""
    user: str | None = None
    stdin: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    problem: str = ""


def read_crontab(text: str, *, with_users: bool) -> Iterator[CrontabLine]:
    """The entries of a crontab in order, and each line that is not understood."""
    settings: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if number > MAX_LINES:
            yield CrontabLine(number, problem=f"the crontab has more than {MAX_LINES} lines; split it")
            return
        if not stripped or stripped.startswith("#"):
            continue
        if "\0" in line:
            yield CrontabLine(number, problem="the line has a NUL character; remove it")
        elif (setting := _SETTING.fullmatch(line)) and len(settings) >= MAX_SETTINGS:
            yield CrontabLine(number, problem=f"the crontab has more than {MAX_SETTINGS} settings; split it")
            return
        elif setting:
            settings = {**settings, _unquoted(setting[1]): _unquoted(setting[2].strip())}
        else:
            yield _entry(number, stripped.removeprefix("-"), settings, with_users=with_users)


def _entry(number: int, line: str, settings: Mapping[str, str], *, with_users: bool) -> CrontabLine:
    found = _ENTRY.fullmatch(line)
    if found is None:
        return CrontabLine(
            number, problem="it is neither five fields and a command, nor @daily and a command, nor NAME=value"
        )
    schedule, rest = " ".join(found[1].split()), found[2]
    user = None
    if with_users:
        user, *words = rest.split(None, 1)
        rest = "".join(words)
    if not rest:
        return CrontabLine(number, problem="it has no command" + (" behind the user" if with_users else ""))
    command, *stdin = (part.replace("\\%", "%") for part in _UNESCAPED_PERCENT.split(rest))
    text = "\n".join(stdin) + "\n" if stdin else None
    return CrontabLine(number, schedule, command.strip(), user, text, settings)


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
