"""Kernel families by name. A new family is a module here, a line below and its templates."""

from gemmgen.errors import require
from gemmgen.families.base import Axis, Config, Constraint, Derived, Family, Rejection
from gemmgen.families.naive import NAIVE
from gemmgen.families.simt import SIMT

FAMILIES: dict[str, Family] = {family.name: family for family in (SIMT, NAIVE)}


def family_named(name: str) -> Family:
    """The family called `name`; raises InvalidInput with the known names."""
    require(name in FAMILIES, f"unknown family {name!r}: known are {', '.join(FAMILIES)}")
    return FAMILIES[name]


__all__ = [
    "FAMILIES",
    "NAIVE",
    "SIMT",
    "Axis",
    "Config",
    "Constraint",
    "Derived",
    "Family",
    "Rejection",
    "family_named",
]
