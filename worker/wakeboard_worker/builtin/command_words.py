"""From the payload of a `command` run to the words and the environment of a program."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final, cast

from wakeboard.errors import Discard, InvalidSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FIELDS: Final = ("command", "args", "env")

_PLACE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# A payload chooses values, not what runs: these tell loaders, shells and interpreters to run something else.
_CHOOSES_CODE: Final = re.compile(
    r"(LD_|DYLD_|GIT_|PYTHON|PERL5|RUBY|BASH_FUNC_|WAKEBOARD_).*"
    r"|PATH|HOME|XDG_CONFIG_HOME|IFS|BASH_ENV|SHELLOPTS|NODE_OPTIONS|_?JAVA_(TOOL_)?OPTIONS|GCONV_PATH"
    r"|PAGER|EDITOR|VISUAL"
)
_OURS: Final = re.compile(r"WAKEBOARD_.*|PGPASSWORD|PGPASSFILE|PGSERVICEFILE")


class Commands:
    """The commands of the settings. Raises InvalidSettings for one that names no program."""

    def __init__(self, commands: Mapping[str, Sequence[str]]) -> None:
        self._commands = commands
        for name, words in commands.items():
            if not words or not words[0] or _PLACE.search(words[0]):
                raise InvalidSettings(
                    f"WAKEBOARD_COMMANDS: {name!r} must begin with a program; write for example"
                    f' {{"{name}": ["/usr/bin/pg_dump", "--file={{path}}"]}}.'
                )

    def argv(self, payload: Mapping[str, Any]) -> list[str]:
        """The command's words, each place {name} filled from args: always one word, whatever it contains."""
        name: str = payload["command"]
        if name not in self._commands:
            raise Discard(f"this worker knows no command {name[:80]!r}: name it in WAKEBOARD_COMMANDS")
        given: Mapping[str, Any] = payload.get("args") or {}
        args = {arg: _text(arg, value) for arg, value in given.items()}
        places = {place for word in self._commands[name] for place in _PLACE.findall(word)}
        if wrong := sorted(places ^ args.keys()):
            takes = f"takes the args {', '.join(sorted(places))}" if places else "takes no args"
            raise Discard(f"the command {name} {takes}, and {wrong[0]!r} does not fit")
        return [_filled(word, args) for word in self._commands[name]]


def fields_of(payload: Any) -> dict[str, Any]:
    """The payload, if it has the right fields; Discard otherwise."""
    given = cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}
    if not isinstance(given.get("command"), str):
        raise Discard('a command payload is an object such as {"command": "backup", "args": {"path": "…"}}')
    for name in sorted(given.keys() - set(FIELDS)):
        raise Discard(f"a command payload has no field {name!r}: write {', '.join(FIELDS)}")
    for name in ("args", "env"):
        if not isinstance(given.get(name) or {}, dict):
            raise Discard(f"{name} must be an object")
    return given


def environment_of(extra: Mapping[str, Any]) -> dict[str, str]:
    """The worker's environment without its own settings and passwords, and with what the payload adds."""
    for name in extra:
        if not _VARIABLE.fullmatch(name):
            raise Discard(f"{name[:80]!r} cannot be the name of an environment variable")
        if _CHOOSES_CODE.fullmatch(name):
            raise Discard(f"{name} is not a payload's to set: it can choose which code runs")
    own = {name: value for name, value in os.environ.items() if not _OURS.fullmatch(name)}
    return own | {name: _text(name, value) for name, value in extra.items()}


def _filled(word: str, args: Mapping[str, str]) -> str:
    filled = _PLACE.sub(lambda place: args[place[1]], word)
    if filled.startswith("-") and not word.startswith("-"):
        raise Discard(f"an argument for {word} must not begin with '-': a program would take it for an option")
    return filled


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or "\0" in str(value):
        raise Discard(f"{name[:80]} must be a text or a number; a secret can only stand in env")
    return str(value)
