"""Where strings meet rich: what is printed is the text as it is."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from gemmgen.support.words import printable


class PlainConsole(Console):
    """A console for which no string holds markup, emoji or orders to the terminal.

    Names and paths are a user's and may hold anything. What is to be bold or red is a rich.text.Text (reports.words).
    """

    def __init__(self, *, stderr: bool, width: int) -> None:
        super().__init__(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.is_control else segment._replace(text=printable(segment.text))
