"""Turns the errors of typer's parser into one sentence that says what to write instead.

The messages of typer and pydantic are written for programmers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from wakeboard.rules.sanitize import one_line

SHOWN = 60  # characters of a refused value


def usage_sentence(error: Any, everywhere: Sequence[str] = ()) -> str:
    """The sentence for an error of typer's parser. `everywhere`: options that every command accepts."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "wakeboard"
    return f"{_problem(error, context, everywhere)}. `{command} --help` shows what can be written."


def shown(value: object) -> str:
    """A refused value on one line, cut when it is long."""
    text = one_line(str(value))
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")


def _problem(error: Any, context: Any, everywhere: Sequence[str]) -> str:
    match type(error).__name__:
        case "NoSuchOption":
            known = [option for each in context.command.params for option in each.opts] if context else []
            return f"there is no option {shown(error.option_name)}{_meant(error.option_name, [*known, *everywhere])}"
        case "BadOptionUsage":
            return f"{error.option_name} needs a value after it"
        case "MissingParameter":
            return f"{_name(error)} is missing: {_help_of(error.param)}"
        case "BadParameter":
            return f"{_name(error)}{_refused(error)}"
        case _:
            return _of_the_line(error.message, context)


def _name(error: Any) -> str:
    hint = error.param_hint if error.param_hint is not None else _spelling(error.param)
    return hint if isinstance(hint, str) else " / ".join(hint)


def _spelling(param: Any) -> str:
    return max(param.opts, key=len) if param.param_type_name == "option" else param.display_name_raw


def _help_of(param: Any) -> str:
    text = str(getattr(param, "help", "") or "a value").rstrip(".")
    return text[0].lower() + text[1:]


def _refused(error: Any) -> str:
    problems = getattr(error.__cause__, "errors", None)
    if problems is None:  # one of our own
        return f": {error.message.rstrip('.')}"
    return f" {shown(problems()[0]['input'])}: write {_wanted(error.param.type_descriptor)}"


def _wanted(kind: Any) -> str:
    if kind.is_choice:
        *others, last = (str(getattr(choice, "value", choice)) for choice in kind.choices)
        return f"{', '.join(others)} or {last}"
    low, high = kind.parameter_info.min, kind.parameter_info.max
    number = "a whole number" if kind.annotation is int else "a number" if kind.annotation is float else "text"
    if high is not None:
        return f"{number} from {low} to {high:,}"
    return f"{number}, at least {low}" if low is not None else number


def _of_the_line(message: str, context: Any) -> str:
    """The sentence for an error about the whole line; an unknown message is passed on."""
    if found := re.match(r"Got unexpected extra argument(?:\(s\)|s)? \((.*)\)", message, re.DOTALL):
        return f"{shown(found[1])} is more than this command takes"
    if found := re.match(r"No such command '(.*?)'\.", message, re.DOTALL):
        return f"there is no command {shown(found[1])}{_meant(found[1], list(context.command.commands))}"
    return one_line(message).rstrip(".")


def _meant(word: str, known: Sequence[str]) -> str:
    near = get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""
