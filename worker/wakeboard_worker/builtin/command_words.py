"""From the payload of a `command` run to the words and the environment of a program."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final, cast

from wakeboard.errors import Discard, InvalidSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wakeboard.settings import AllowedCommand

FIELDS: Final = ("command", "args", "env")

_PLACE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_OURS: Final = re.compile(r"WAKEBOARD_.*|PGPASSWORD|PGPASSFILE|PGSERVICEFILE")


class Commands:
    """The commands of the settings. Raises InvalidSettings for one that names no program."""

    def __init__(self, commands: Mapping[str, AllowedCommand]) -> None:
        self._commands = {name: command.argv for name, command in commands.items()}
        self._variables = {name: command.env for name, command in commands.items()}
        for name, words in self._commands.items():
            if not words or not words[0] or _PLACE.search(words[0]):
                raise InvalidSettings(
                    f"WAKEBOARD_COMMANDS: {name!r} must begin with a program; write for example"
                    f' {{"{name}": ["/usr/bin/pg_dump", "--file={{path}}"]}}.'
                )
            if wrong := [variable for variable in self._variables[name] if not _VARIABLE.fullmatch(variable)]:
                raise InvalidSettings(
                    f"WAKEBOARD_COMMANDS: env of {name!r} names {wrong[0]!r}, which is no name of a variable; write"
                    f' for example {{"{name}": {{"argv": ["/usr/bin/pg_dump"], "env": ["PGPASSWORD"]}}}}.'
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

    def check_env(self, payload: Mapping[str, Any]) -> None:
        """Raises Discard for a variable that the command does not let payloads set.

        Many programs take options, and so code, from environment variables, which cannot all be listed.
        """
        name: str = payload["command"]
        allowed = self._variables[name]
        given: Mapping[str, Any] = payload.get("env") or {}
        for variable in given:
            if variable not in allowed:
                raise Discard(
                    f"the command {name} lets no payload set {variable[:80]!r}: name it in env of the command in"
                    " WAKEBOARD_COMMANDS"
                )


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
