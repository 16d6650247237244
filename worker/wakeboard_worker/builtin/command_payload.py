"""Turns the payload of a `command` run into the argument list and the environment of a program, or refuses it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final, cast

from wakeboard.errors import Discard, InvalidSettings
from wakeboard.schedules.rules.builtin_payloads import payload_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wakeboard.settings import AllowedCommand

_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_HIDDEN_VARIABLE: Final = re.compile(r"WAKEBOARD_.*|PGPASSWORD|PGPASSFILE|PGSERVICEFILE")


class Commands:
    """The commands that the settings allow. Raises InvalidSettings for a command without a program."""

    def __init__(self, commands: Mapping[str, AllowedCommand]) -> None:
        self._commands = {name: command.argv for name, command in commands.items()}
        self._literal = {name for name, command in commands.items() if command.literal}
        self._variables = {name: command.env for name, command in commands.items()}
        for name, argv in self._commands.items():
            if not argv or not argv[0] or (name not in self._literal and _PLACEHOLDER.search(argv[0])):
                raise InvalidSettings(
                    f"WAKEBOARD_COMMANDS: {name!r} must begin with a program; write for example"
                    f' {{"{name}": ["/usr/bin/pg_dump", "--file={{path}}"]}}.'
                )
            if wrong := [variable for variable in self._variables[name] if not _VARIABLE.fullmatch(variable)]:
                raise InvalidSettings(
                    f"WAKEBOARD_COMMANDS: env of {name!r} names {wrong[0]!r}, which is not a valid variable name; write"
                    f' for example {{"{name}": {{"argv": ["/usr/bin/pg_dump"], "env": ["PGPASSWORD"]}}}}.'
                )

    def argv(self, payload: Mapping[str, Any]) -> list[str]:
        """Return the argument list. Each placeholder {name} is filled from args and never splits an argument."""
        name: str = payload["command"]
        if name not in self._commands:
            raise Discard(f"this worker has no command {name[:80]!r}: add it to WAKEBOARD_COMMANDS")
        values: Mapping[str, Any] = payload.get("args") or {}
        args = {arg: _text(arg, value) for arg, value in values.items()}
        words = self._commands[name]
        literal = name in self._literal
        placeholders = set[str]() if literal else {found for word in words for found in _PLACEHOLDER.findall(word)}
        if wrong := sorted(placeholders ^ args.keys()):
            takes = f"takes the args {', '.join(sorted(placeholders))}" if placeholders else "takes no args"
            raise Discard(f"the command {name} {takes}, and {wrong[0]!r} is missing or unknown")
        return list(words) if literal else [_fill(word, args) for word in words]

    def check_env(self, payload: Mapping[str, Any]) -> None:
        """Raise Discard for a variable that the command does not list in `env`.

        This is an allowlist, because many programs read options, and so code, from environment variables.
        """
        name: str = payload["command"]
        allowed = self._variables[name]
        variables: Mapping[str, Any] = payload.get("env") or {}
        for variable in variables:
            if variable not in allowed:
                raise Discard(
                    f"the command {name} does not let a payload set {variable[:80]!r}: add it to env of the command in"
                    " WAKEBOARD_COMMANDS"
                )


def fields_of(payload: Any) -> dict[str, Any]:
    """Return the payload. Raises Discard if its fields are invalid."""
    if problem := payload_problem("command", payload):
        raise Discard(problem)
    return cast("dict[str, Any]", payload)


def environment_of(extra: Mapping[str, Any]) -> dict[str, str]:
    """Return the worker's environment without wakeboard's settings and passwords, plus the variables of the payload."""
    inherited = {name: value for name, value in os.environ.items() if not _HIDDEN_VARIABLE.fullmatch(name)}
    return inherited | {name: _text(name, value) for name, value in extra.items()}


def _fill(word: str, args: Mapping[str, str]) -> str:
    filled = _PLACEHOLDER.sub(lambda placeholder: args[placeholder[1]], word)
    if filled.startswith("-") and not word.startswith("-"):
        raise Discard(f"an argument for {word} must not begin with '-': the program would read it as an option")
    return filled


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or "\0" in str(value):
        raise Discard(f"{name[:80]} must be a text or a number; a secret is allowed in env only")
    return str(value)
