"""JSON as people read it says the same as any other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmgen.support.jsontext import DEEPEST, WIDTH, json_text, json_value

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=9), inner, max_size=6),
    max_leaves=30,
)


@given(VALUES)
def test_it_reads_as_what_was_written(value: Any) -> None:
    assert json.loads(json_text(value)) == value


def test_what_fits_a_line_stands_on_one() -> None:
    document = {"sizes": {"M": [1, 4096], "N": [1, 9]}, "flags": ["-O3"] * 40, "name": "k"}
    lines = json_text(document).splitlines()
    assert lines[1] == ' "sizes": {"M": [1, 4096], "N": [1, 9]},' and lines[-2] == ' "name": "k"'
    assert len(lines) == 2 + 2 + 2 + 3 and all(len(line) <= WIDTH for line in lines)


def test_short_entries_share_lines_and_long_ones_do_not() -> None:
    sentences = ["a sentence that is long enough for a line of its own, say"] * 3
    document = {**{f"size_{i}": i for i in range(30)}, "says": sentences, "maps": [{"box": 64}] * 20, "last": None}
    lines = json_text(document).splitlines()
    assert all(len(line) <= WIDTH for line in lines)
    assert lines[1].startswith(' "size_0": 0, "size_1": 1,') and lines[-2] == ' "last": null'
    assert sum("sentence" in line for line in lines) == 3 and sum("box" in line for line in lines) == 20


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text([float("nan")])


@pytest.mark.parametrize("depth", [DEEPEST + 1, 900, 100_000])
def test_what_is_nested_too_deeply_is_refused(depth: int) -> None:
    for opening, closing in (("[", "]"), ('{"a": ', "}")):
        with pytest.raises(ValueError, match=f"nested more than {DEEPEST} deep"):
            json_value(f"{opening * depth}1{closing * depth}")


def test_what_is_nested_less_is_read() -> None:
    text = "[" * DEEPEST + "1" + "]" * DEEPEST
    assert json.dumps(json_value(text)) == text and json_value("1") == 1
