"""HTML and SVG from templates/report/, with autoescape on. Python computes, and the templates place."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partialmethod
from typing import TYPE_CHECKING, TypeVar

from gemmgen.support.files import TEMPLATES
from gemmgen.support.words import figure, percent, plural, short

if TYPE_CHECKING:
    import jinja2

Record = TypeVar("Record")


def render_html(template: str, **values: object) -> str:
    """Render templates/report/`template` with `values`, whose contents are text, never markup."""
    return _environment().get_template(template).render(**values)


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    import jinja2  # a notebook that shows no result needs none of it

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES / "report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters.update(figure=figure, short=short, percent=percent, plural=plural, px=pixels)
    return made


def pixels(value: float) -> str:
    """A coordinate to a tenth of a pixel, which is as fine as anybody sees and keeps pages small."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def shown_as(template: str) -> Callable[[type[Record]], type[Record]]:
    """A class decorator: a notebook shows the record by templates/report/cards/`template`, which calls it `it`."""

    def decorated(record: type[Record]) -> type[Record]:
        record._repr_html_ = partialmethod(_shown, f"cards/{template}")  # type: ignore[attr-defined]
        return record

    return decorated


def _shown(record: object, template: str) -> str:
    return render_html(template, it=record)
