"""The console of rich, in which no text can steer the terminal; colours come from styles alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.segment import Segment

from wakeboard.sanitize import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType


class SafeConsole(Console):
    """Whatever is printed or drawn on it is sanitised at the end. No markup, no emoji codes, no guessed colours."""

    def __init__(self, *, soft_wrap: bool = False) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, soft_wrap=soft_wrap)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of a renderable; their text steers nothing."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)
