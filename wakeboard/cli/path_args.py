"""Places in the file system, as words of a call name them."""

from __future__ import annotations

from pathlib import Path

import typer


def read_place(text: str) -> Path:
    """The path. Raises BadParameter for an empty word: it is a shell variable that is not set, and no name of `.`."""
    if not text:
        raise typer.BadParameter("an empty word names no folder; write . for the current one.")
    return Path(text)
