"""Kernel families by name. A new family is a module here, a line below and its templates."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gemmgen.families.base import Family, check
from gemmgen.families.batched.family import BATCHED
from gemmgen.families.batched_mma.family import BATCHED_MMA
from gemmgen.families.mma.family import MMA
from gemmgen.families.naive.family import NAIVE
from gemmgen.families.simt.family import SIMT
from gemmgen.families.skinny.family import SKINNY
from gemmgen.families.thread_tile.family import THREAD_TILE
from gemmgen.families.wgmma.family import WGMMA
from gemmgen.families.wmma.family import WMMA
from gemmgen.kernel.config import Config
from gemmgen.kernel.plan import Plan
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import parse_arch
from gemmgen.support.errors import GemmgenError, InvalidInput, require

FAMILIES: dict[str, Family] = {
    family.name: family for family in (SIMT, SKINNY, BATCHED, NAIVE, THREAD_TILE, MMA, WGMMA, WMMA, BATCHED_MMA)
}
DEFAULT_FAMILY = SIMT.name
# The families that are searched by default; each says which problems it suits.
SEARCHED: tuple[Family, ...] = (SIMT, SKINNY, BATCHED, BATCHED_MMA, MMA, WGMMA)


def family_named(name: str) -> Family:
    """Return the family called `name`; raise InvalidInput, with the known names, if there is none."""
    require(name in FAMILIES, f"unknown family {name!r}: known are {', '.join(FAMILIES)}")
    return FAMILIES[name]


def config_of(source: KernelSource) -> tuple[Family, Config]:
    """Return the family and the config that `source` was rendered from. Raises InvalidInput for unknown names."""
    family = family_named(source.family)
    return family, family.config_type().with_values(**source.config)


def plan_of(source: KernelSource) -> Plan:
    """Return the plan that `source` was rendered from.

    Raises InvalidInput for unknown names, or with the broken constraint if the config has no plan.
    """
    family, config = config_of(source)
    with config_to_blame(source):
        return family.plan(source.problem, config)


def k_tile_of(source: KernelSource) -> int:
    """The k of a k tile of `source`, as its plan says; 1 for a kernel without k tiles, or of no known family."""
    try:
        work = plan_of(source).work
    except InvalidInput:
        return 1
    return work.k_tile or work.depth


@contextmanager
def config_to_blame(source: KernelSource) -> Iterator[None]:
    """If a computation from a config fails, raise InvalidInput with the constraint that the config breaks.

    A config from JSON is not checked before: one of another version may break a present constraint and still be valid.
    """
    try:
        yield
    except GemmgenError:
        raise
    except Exception:  # whatever comes of what a constraint rules out: a divisor that is 0, say
        family, config = config_of(source)
        check(family, source.problem, config, parse_arch(source.arch).limits)
        raise


def summation_of(source: KernelSource) -> str | None:
    """The class of summation of a kernel, by its plan; None if it has no plan, or if that states no order."""
    with suppress(InvalidInput):
        return plan_of(source).summation(parse_arch(source.arch))
    return None


__all__ = [
    "BATCHED",
    "BATCHED_MMA",
    "DEFAULT_FAMILY",
    "FAMILIES",
    "MMA",
    "NAIVE",
    "SEARCHED",
    "SIMT",
    "SKINNY",
    "THREAD_TILE",
    "WGMMA",
    "WMMA",
    "Config",
    "Family",
    "config_of",
    "config_to_blame",
    "family_named",
    "plan_of",
    "summation_of",
]
