"""Turns the errors of typer's parser into one sentence that says what to write instead.

The messages of typer and pydantic name Python types and are not written for users.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from wakeboard.text.sanitize import one_line
from wakeboard.text.similar_names import closest

MAX_QUOTED = 60  # characters of an invalid value
OF_STATUS = "--all-"  # begins the options that select all runs with a status


def usage_sentence(error: Any, global_options: Sequence[str] = ()) -> str:
    """The sentence for an error of typer's parser. `global_options`: options that every command accepts."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "wakeboard"
    problem = _problem(error, context, global_options)
    return f"{problem}{'' if problem.endswith('?') else '.'} See `{command} --help`."


def quoted(value: object) -> str:
    """An invalid value in quotes, on one line, truncated if it is long."""
    text = one_line(str(value))
    return repr(text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}…")


def _problem(error: Any, context: Any, global_options: Sequence[str]) -> str:
    match type(error).__name__:
        case "NoSuchOption":
            known = [option for each in context.command.params for option in each.opts] if context else []
            of_status = [option for option in known if option.startswith(OF_STATUS)]
            if error.option_name.startswith(OF_STATUS) and of_status:  # the nearest spelling has another meaning
                return f"there is no option {quoted(error.option_name)}; write {_alternatives(of_status)}"
            suggestion = _suggestion(error.option_name, [*known, *global_options])
            return f"there is no option {quoted(error.option_name)}{suggestion}"
        case "BadOptionUsage":
            return f"{error.option_name} needs a value"
        case "MissingParameter":
            return f"{_name(error)} is missing: {_help_of(error.param)}"
        case "BadParameter":
            return f"{_name(error)}{_reason(error)}"
        case _:
            return _parser_message(error.message, context)


def _name(error: Any) -> str:
    hint = error.param_hint if error.param_hint is not None else _spelling(error.param)
    return hint if isinstance(hint, str) else " / ".join(hint)


def _spelling(param: Any) -> str:
    return max(param.opts, key=len) if param.param_type_name == "option" else param.display_name_raw


def _help_of(param: Any) -> str:
    text = str(getattr(param, "help", "") or "a value").rstrip(".")
    return text[0].lower() + text[1:]


def _reason(error: Any) -> str:
    problems = getattr(error.__cause__, "errors", None)
    if problems is None:  # raised by a command or by read_path
        return f": {error.message.rstrip('.')}"
    return f" {quoted(problems()[0]['input'])}: write {_valid_values(error.param.type_descriptor)}"


def _valid_values(kind: Any) -> str:
    if kind.is_choice:
        return _alternatives([str(getattr(choice, "value", choice)) for choice in kind.choices])
    low, high = kind.parameter_info.min, kind.parameter_info.max
    number = "a whole number" if kind.annotation is int else "a number" if kind.annotation is float else "text"
    if high is not None:
        return f"{number} from {low} to {high:,}"
    return f"{number}, at least {low}" if low is not None else number


def _alternatives(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def _parser_message(message: str, context: Any) -> str:
    """The sentence for an error that has only a message. An unknown message is returned as it is."""
    if found := re.match(r"Got unexpected extra argument(?:\(s\)|s)? \((.*)\)", message, re.DOTALL):
        takes_cron = any("CRON" in (param.metavar or "") for param in context.command.params)
        hint = "; write a cron expression in quotes, such as '0 8 * * MON'" if takes_cron else ""
        return f"there is an unexpected argument {quoted(found[1])}{hint}"
    if found := re.match(r"No such command '(.*?)'\.", message, re.DOTALL):
        return f"there is no command {quoted(found[1])}{_suggestion(found[1], list(context.command.commands))}"
    return one_line(message).rstrip(".")


def _suggestion(word: str, known: Sequence[str]) -> str:
    close = closest(word, known)
    return f"; did you mean {close}?" if close else ""
