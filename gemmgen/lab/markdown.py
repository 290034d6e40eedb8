"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table in Markdown, of columns named as for `gemmgen.cli.reports.words.table`."""
    yield markdown_line(*(column.lstrip("<") for column in columns))
    yield markdown_line(*("---" if column.startswith("<") else "---:" for column in columns))
    yield from (markdown_line(*row) for row in rows)


def markdown_line(*cells: str) -> str:
    """A line of such a table."""
    return f"| {' | '.join(cells)} |"
