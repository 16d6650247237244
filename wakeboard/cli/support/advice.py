"""Names the user's program in advice: `wakeboard retry 1` is `kubectl wakeboard retry 1` for users of the plugin.

Sentences name commands of `wakeboard`, also those that come from the board. What the plugin lacks keeps its name.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_program: ContextVar[tuple[str, Collection[str]]] = ContextVar("_program", default=("wakeboard", ()))


def use_program(name: str, commands: Collection[str]) -> None:
    """Sets the program of this context, and which commands of `wakeboard` it has under its own name."""
    _program.set((name, commands))


def advice(text: str) -> str:
    """The text, with each command in backquotes as the user types it."""
    return with_program(text, *_program.get())


def with_program(text: str, name: str, commands: Collection[str]) -> str:
    """As `advice`, for this program."""
    if not commands:
        return text
    return re.sub(
        "`wakeboard ([a-z-]+)", lambda found: f"`{name} {found[1]}" if found[1] in commands else found[0], text
    )
