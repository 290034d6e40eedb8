"""docs/library-file.md: it has every key, and what it shows is taken, or refused, as it says."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gemmgen.cli import cli
from gemmgen.exports.library.sizes import ANY_MOST, EIGHT, FEW
from gemmgen.exports.library.spec import (
    BATCHES,
    KEYS,
    LIBRARY_KEYS,
    LONGEST_NAME,
    MOST_KERNELS,
    SPREAD,
    TYPICAL_BATCH,
    Spec,
    spec_from,
)
from gemmgen.problem.sizes import SIZE_LIMIT
from gemmgen.support.errors import InvalidInput

if sys.version_info < (3, 11):
    pytest.skip("Python reads TOML from 3.11 on", allow_module_level=True)
toml = import_module("tomllib")
PAGE = (Path(__file__).parents[2] / "docs" / "library-file.md").read_text()
PRODUCT = {"name": "linear", "types": "bf16", "M": "?", "N": "?", "K": "?"}
ITEMS = ("Type", "Default", "Example", "Refused")


def sections() -> list[tuple[str, str, dict[str, str]]]:
    """(of the library or a product, key, what stands behind "- Type:" and the like)."""
    found = []
    for title, part in re.findall(r"^## Keys of (?:the|a) (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE):
        for key, text in re.findall(r"^### (\w+)\n(.*?)(?=^### |\Z)", part, re.DOTALL | re.MULTILINE):
            items = re.findall(r"^- (\w+): (.*?)(?=^- |\Z)", text, re.DOTALL | re.MULTILINE)
            found.append((title, key, dict(items)))
    return found


SECTIONS = sections()
# Keys that values of others need beside them.
BESIDE = {"bf16x6": 'types = "f32"', "scales=128": 'types = "bf16,u4,bf16"\nN = 4096\nK = 4096'}
IDS = [f"{owner}-{key}" for owner, key, _ in SECTIONS]


def shown(text: str) -> list[str]:
    """The assignments in a text."""
    return re.findall(r"`(\w+ = [^`]+)`", text)


def spec_with(owner: str, assignment: str) -> Spec:
    """A library with this key of its own, or of its product."""
    fields: dict[str, Any] = toml.loads(assignment)
    library, product = (fields, PRODUCT) if owner == "library" else ({}, {**PRODUCT, **fields})
    return spec_from({"name": "mylib", "product": [product], **library}, "sm_90", Path())


def test_every_key_has_a_section_and_no_other() -> None:
    assert [key for owner, key, _ in SECTIONS if owner == "library"] == [*LIBRARY_KEYS]
    assert [key for owner, key, _ in SECTIONS if owner == "product"] == [*KEYS]


@pytest.mark.parametrize(("owner", "key", "items"), SECTIONS, ids=IDS)
def test_a_key_has_a_type_a_default_an_example_and_what_is_refused(owner: str, key: str, items: dict[str, str]) -> None:
    needed = "equired" in items["Type"]
    assert [*items] == [item for item in ITEMS if not (needed and item == "Default")]
    without = {name: value for name, value in PRODUCT.items() if owner == "library" or name != key}
    library = {} if (owner, key) == ("library", "name") else {"name": "mylib"}
    products = {} if key == "product" else {"product": [without]}
    if not needed:
        spec_from({**library, **products}, "sm_90", Path())
        return
    with pytest.raises(InvalidInput):
        spec_from({**library, **products}, "sm_90", Path())


@pytest.mark.parametrize(("owner", "key", "items"), SECTIONS, ids=IDS)
def test_examples_are_taken_and_what_is_refused_is(owner: str, key: str, items: dict[str, str]) -> None:
    examples, refused = shown(items["Example"]), shown(items["Refused"])
    assert refused and (examples or key == "product")
    for assignment in (*examples, *refused):
        assert assignment.startswith(f"{key} = ")
    for assignment in examples:
        spec_with(owner, "\n".join([assignment, *(beside for name, beside in BESIDE.items() if name in assignment)]))
    for assignment in refused:
        with pytest.raises(InvalidInput):
            spec_with(owner, assignment)


def test_the_file_at_the_top_is_a_library() -> None:
    (block,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert spec_from(toml.loads(block), "sm_90", Path()).name == "mylinear"


def test_defaults_and_limits_are_those_of_the_code() -> None:
    fields = {name: PRODUCT[name] for name in "MNK"}
    spec = spec_from({"name": "mylib", "product": [fields]}, "sm_90", Path())
    (product,) = spec.products
    said = {key: items.get("Default", "") for owner, key, items in SECTIONS if owner == "product"}
    assert f"`{product.types}`" in said["types"] and f"`{product.types.compute.label}`" in said["compute"]
    assert f"`{product.layout}`" in said["layout"] and f"`{product.epilogue}`" in said["epilogue"]
    assert (product.batch, product.pointers, product.kernels, product.tune) == (None, False, (), ())
    batch = spec_with("product", 'batch = "?"').products[0].batch
    first, *others = BATCHES
    assert batch == TYPICAL_BATCH and f"chosen for {first}, {' and '.join(map(str, others))} products" in PAGE
    assert f"at most {LONGEST_NAME} characters" in PAGE and f"Sizes are 1 to {SIZE_LIMIT}" in PAGE
    assert f"1 to {ANY_MOST}" in PAGE and f"takes {SPREAD} sizes spread" in said["tune"]
    assert f"multiples of {EIGHT} up to {FEW}" in said["tune"] and said["kernels"].startswith(f"`{MOST_KERNELS}`")


def test_help_says_what_a_batch_may_be() -> None:
    said = " ".join(CliRunner().invoke(cli, ["library", "--help"]).output.split())
    assert 'A batch is the number of products for which kernels are chosen, or "?"' in said
