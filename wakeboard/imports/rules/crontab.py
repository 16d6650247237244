"""Reads a crontab: the format of `crontab -l`, or with users that of /etc/cron.d.

It follows crontab(5) of Debian's cron and of cronie: settings apply to the lines below them, an unescaped `%` ends the
command and begins its standard input, and CRON_TZ names the zone of the lines below it. OpenBSD's flags in front of a
command are understood. A line whose shape is that of another format, such as one with a column of users, is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from wakeboard.imports.rules.crontab_schedule import sixth_field

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

MAX_LINES: Final = 20_000
MAX_SETTINGS: Final = 200  # each entry has a copy of those above it
_SETTING: Final = re.compile(r"""[ \t]*("[^"]+"|'[^']+'|[^\s=#"'*@]+)[ \t]*=(.*)""")
_ENTRY: Final = re.compile(r"(@[^ \t]+|[^ \t]+(?:[ \t]+[^ \t]+){4})[ \t]+(.*)")
_ZONES: Final = frozenset({"CRON_TZ", "TZ"})
_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.@\\-]*\$?")
_FLAGS: Final = re.compile(r"(?:-[nqs]+[ \t]+)+")
_SURELY_USERS: Final = frozenset({"root", "nobody", "daemon", "operator", "www-data", "apache"})  # and no programs
# cron reads the command in pairs, so a backslash escapes the next one, and the standard input without pairs.
_COMMAND: Final = re.compile(r"(?:\\.|[^%\\]|\\$)*")
_ESCAPED: Final = re.compile(r"\\(.)")
_UNESCAPED_PERCENT: Final = re.compile(r"(?<!\\)%")

_ZONE_IN_FRONT = (
    "cron takes the whole line as the value of {name}; a zone in front of a schedule is of Go programs such as "
    "supercronic, so write CRON_TZ=ZONE in a line of its own"
)
_SIX_FIELDS = (
    'its command begins with "{word}", which looks like a sixth field: cron has five, and crontabs of containers '
    "(supercronic, ofelia), Quartz, Spring and AWS have seconds or years; write five fields"
)
_NO_USER = 'its user would be "{user}", which is no name; if the crontab has no column of users, leave out --with-users'


@dataclass(frozen=True, slots=True)
class CrontabLine:
    """One entry. `settings`: the variables that apply to it. `user`: None in a crontab without users.

    `flags`: letters of OpenBSD's flags. `stdin`: what the command reads, or None. `problem`: why the line is not
    understood; then the others are empty.
    """

    number: int
    schedule: str = ""
    command: str = ""
    user: str | None = None
    flags: str = ""
    stdin: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    problem: str = ""


def read_crontab(text: str, *, with_users: bool) -> Iterator[CrontabLine]:
    """The entries of a crontab in order, and each line that is not understood."""
    settings: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip(" \t\r")
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
        elif setting and setting[1] in _ZONES and len(setting[2].split()) > 1:
            yield CrontabLine(number, problem=_ZONE_IN_FRONT.format(name=setting[1]))
        elif setting:
            settings = {**settings, _unquoted(setting[1]): _unquoted(setting[2].strip())}
        else:
            not_logged = stripped.startswith("-*")  # of SUSE and cronie; "-5" is more likely a mistake
            yield _entry(number, stripped[1:] if not_logged else stripped, settings, with_users=with_users)


def _entry(number: int, line: str, settings: Mapping[str, str], *, with_users: bool) -> CrontabLine:
    found = _ENTRY.fullmatch(line)
    if found is None:
        return CrontabLine(
            number, problem="it is neither five fields and a command, nor @daily and a command, nor NAME=value"
        )
    schedule, rest = " ".join(found[1].split()), found[2]
    if word := sixth_field(rest):
        return CrontabLine(number, problem=_SIX_FIELDS.format(word=word))
    user = None
    if with_users:
        user, *words = rest.split(None, 1)
        rest = "".join(words)
        if not _USER.fullmatch(user):
            return CrontabLine(number, problem=_NO_USER.format(user=user[:60]))
    flags = _FLAGS.match(rest)
    rest = rest[flags.end() :] if flags else rest
    if not rest:
        return CrontabLine(number, problem="it has no command" + (" behind the user" if with_users else ""))
    command, text = _command_and_input(rest)
    letters = "".join(sorted(set(flags[0]) & set("nqs"))) if flags else ""
    return CrontabLine(number, schedule, command.strip(), user, letters, text, settings)


def _command_and_input(rest: str) -> tuple[str, str | None]:
    found = _COMMAND.match(rest)
    command = found[0] if found else ""
    lines = [part.replace("\\%", "%") for part in _UNESCAPED_PERCENT.split(rest[len(command) + 1 :])]
    unescaped = _ESCAPED.sub(lambda pair: "%" if pair[1] == "%" else pair[0], command)
    return unescaped, "\n".join(lines) + "\n" if len(command) < len(rest) else None


def column_of_users(lines: Iterable[CrontabLine], users: Collection[str] = ()) -> list[str]:
    """The first words of the commands if they are users, as in /etc/cron.d, in their order; else none.

    They are if one of them is a user of each system, or one of these `users`, whose name no program has. A command
    follows a user, and none begins with "-".
    """
    commands = [line.command.split(None, 1) for line in lines if not line.problem]
    commands = [words for words in commands if len(words) > 1 and not words[1].startswith("-")]
    first = dict.fromkeys(words[0] for words in commands if _USER.fullmatch(words[0]))
    return list(first) if first.keys() & {*_SURELY_USERS, *users} else []


def unknown_users(lines: Iterable[CrontabLine], users: Collection[str]) -> list[str]:
    """The names in the column of users that are neither users of each system nor these `users`, in their order."""
    return [
        name for name in dict.fromkeys(line.user for line in lines) if name and name not in {*_SURELY_USERS, *users}
    ]


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
