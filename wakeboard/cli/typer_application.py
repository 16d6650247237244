"""Makes typer applications of commands: each is a module of wakeboard.cli.commands, or an action of run_actions.py."""

from __future__ import annotations

from importlib import import_module
from inspect import getdoc
from typing import TYPE_CHECKING

import typer
from typer.core import TyperArgument

from wakeboard.actions.run_actions import RUN_ACTIONS
from wakeboard.cli.commands.run_actions import EXAMPLES, command_of
from wakeboard.cli.support.advice import with_program

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

# Without this, typer shows the Python type of an argument after its name.
TyperArgument.display_type_rich = lambda self, ctx: None  # noqa: ARG005


def new_application(*, completes: bool = True) -> typer.Typer:
    """An application without commands. `completes`: it has options that install completion."""
    return typer.Typer(
        add_completion=completes,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


def examples(*lines: str) -> str:
    """The examples at the end of a help text, one per line: the command, two spaces, what it does."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def add_commands(
    application: typer.Typer,
    commands: Collection[str],
    described: Mapping[str, str | None] | None = None,
    program: str = "wakeboard",
) -> None:
    """Adds commands. `described`: the groups among their words; one without a text is a command, too.

    `program`: what users type before a command.
    """
    groups = {
        name: typer.Typer(name=name, no_args_is_help=True, help=text) if text else typer.Typer(name=name)
        for name, text in (described or {}).items()
    }
    for words in commands:
        command, lines = command_called(words)
        about = with_program(getdoc(command) or "", program, commands)
        shown = [with_program(f"`{line}", program, commands).removeprefix("`") for line in lines]
        group, _, name = words.rpartition(" ")
        if name in groups:
            groups[name].callback(invoke_without_command=True, help=about, epilog=examples(*shown))(command)
        else:
            groups.get(group, application).command(name, help=about, epilog=examples(*shown))(command)
    for group in groups.values():
        application.add_typer(group)


def command_called(words: str) -> tuple[Callable[..., None], Sequence[str]]:
    """The function of a command, and its examples."""
    for action in RUN_ACTIONS:
        if action == words:
            return command_of(action), EXAMPLES[action]
    module = import_module(f"wakeboard.cli.commands.{words.replace('-', '_').replace(' ', '_')}")
    return module.command, module.EXAMPLES
