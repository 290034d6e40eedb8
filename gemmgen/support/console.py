"""A console for rich that prints strings literally."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from gemmgen.support.words import printable


class PlainConsole(Console):
    """A console that finds no markup, emoji or terminal control sequences in strings.

    Names and paths come from users and may hold anything. Bold or red text is a rich.text.Text (reports.words).
    """

    def __init__(self, *, stderr: bool, width: int) -> None:
        super().__init__(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.is_control else segment._replace(text=printable(segment.text))
