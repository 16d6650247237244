"""A Rich console that sanitises all text, so that only styles control the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.segment import Segment

from wakeboard.text.sanitize import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType


class SafeConsole(Console):
    """Sanitises everything that is printed or drawn. Markup, emoji codes and automatic highlighting are off."""

    def __init__(self, *, soft_wrap: bool = False) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, soft_wrap=soft_wrap)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Renders to segments whose text is sanitised."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)
