"""Options and argument parsers that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wakeboard.cli.support.shell_completion import complete_queue, complete_schedule

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.", show_default=False)]
JobType = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only runs of this job type.")]
OfSchedule = Annotated[
    str | None,
    typer.Option("--schedule", metavar="NAME", help="Only runs of this schedule.", autocompletion=complete_schedule),
]
OfQueue = Annotated[
    str | None, typer.Option("--queue", metavar="NAME", help="Only runs in this queue.", autocompletion=complete_queue)
]
Payload = Annotated[
    str | None,
    typer.Option(
        "--payload",
        metavar="PAYLOAD",
        help="Another payload: JSON, @FILE for a file, or - for standard input.",
        show_default=False,
    ),
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for the audit log.", show_default=False)]
Strict = Annotated[bool, typer.Option("--strict", help="Exit 1 for warnings too.", show_default=False)]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Only runs with activity since then: 90s, 2h, 3d, or an ISO 8601 time."
    ),
]


def read_path(text: str) -> Path:
    """Parses a path. Raises BadParameter for "", which Path would read as the current folder (an unset variable)."""
    if not text:
        raise typer.BadParameter("the path is empty; write . for the current folder.")
    return Path(text)
