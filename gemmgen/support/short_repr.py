"""Records with a readable repr: a kernel's text, its machine code and long lists are replaced by their length."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import fields
from typing import Any, TypeVar

LONGEST = 1000  # characters
LONGEST_FIELD = 160
MOST_ENTRIES = 32

Record = TypeVar("Record")


def brief(record: type[Record]) -> type[Record]:
    """A class decorator: the repr of this dataclass has at most LONGEST characters."""
    record.__repr__ = _repr  # type: ignore[method-assign]
    return record


def _repr(record: Any) -> str:
    values = (f"{field.name}={_short(getattr(record, field.name))}" for field in fields(record) if field.repr)
    return _cut(f"{type(record).__name__}({', '.join(values)})", LONGEST)


def _short(value: object) -> str:
    """`value` as Python writes it, or its length if it is large, in which case it is never written out."""
    if isinstance(value, str | bytes) and len(value) > LONGEST_FIELD:
        return f"<{len(value):,} {'characters' if isinstance(value, str) else 'bytes'}>"
    if isinstance(value, Sized) and not isinstance(value, str | bytes) and len(value) > MOST_ENTRIES:
        return f"<{len(value):,} entries>"
    return _cut(repr(value), LONGEST_FIELD)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
