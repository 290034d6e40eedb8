"""JSON for people: what fits a line stands on one."""

from __future__ import annotations

import json
from typing import Any

WIDTH = 120


def json_text(value: Any, margin: str = "") -> str:
    """`value` as JSON, lists and objects over several lines only where one is too short. Raises ValueError for NaN."""
    line = json.dumps(value, allow_nan=False)
    if len(margin) + len(line) < WIDTH or not isinstance(value, dict | list | tuple) or not value:
        return line
    inner = f"{margin} "
    if isinstance(value, dict):
        parts = [f"{json.dumps(str(name))}: {json_text(one, inner)}" for name, one in value.items()]
        return f",\n{inner}".join(parts).join((f"{{\n{inner}", f"\n{margin}}}"))
    return f",\n{inner}".join(json_text(one, inner) for one in value).join((f"[\n{inner}", f"\n{margin}]"))
