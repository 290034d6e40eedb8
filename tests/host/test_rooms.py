"""The list of rooms in docs/design.md is the import contract's."""

import re
from pathlib import Path

import gemmgen

ROOT = Path(__file__).parents[2]
PACKAGE = Path(str(gemmgen.__file__)).parent


def layers() -> list[str]:
    """The contract's rooms, from the top to the bottom."""
    text = (ROOT / "pyproject.toml").read_text()
    listed = re.search(r"layers = \[(.*?)\n\]", text, re.DOTALL)
    assert listed is not None
    return re.findall(r"\w+", re.sub("#.*", "", listed[1]))


def test_the_design_lists_the_rooms_of_the_contract_in_their_order() -> None:
    listed = re.findall(r"^    ([a-z]+)/?  ", (ROOT / "docs" / "design.md").read_text(), re.MULTILINE)
    assert listed == [*(name for name in layers() if name != "__main__"), "templates"]


def test_nothing_lies_beside_the_rooms_but_the_front_door() -> None:
    beside = {path.stem for path in PACKAGE.glob("*.py")}
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert beside == {"__init__", "__main__"}
    assert rooms == {*layers()} - {"__main__"}
