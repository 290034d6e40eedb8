"""Kernel families by name. A new family is a module here, a line below and its templates."""

from collections.abc import Iterator
from contextlib import contextmanager

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
from gemmgen.support.errors import GemmgenError, require

FAMILIES: dict[str, Family] = {
    family.name: family for family in (SIMT, SKINNY, BATCHED, NAIVE, THREAD_TILE, MMA, WGMMA, WMMA, BATCHED_MMA)
}
DEFAULT_FAMILY = SIMT.name
# Where nobody names one; each says which problems it suits.
SEARCHED: tuple[Family, ...] = (SIMT, SKINNY, BATCHED, BATCHED_MMA, MMA, WGMMA)


def family_named(name: str) -> Family:
    """The family called `name`; raises InvalidInput with the known names."""
    require(name in FAMILIES, f"unknown family {name!r}: known are {', '.join(FAMILIES)}")
    return FAMILIES[name]


def config_of(source: KernelSource) -> tuple[Family, Config]:
    """The family and the config that `source` was rendered from. Raises InvalidInput for names that are none."""
    family = family_named(source.family)
    return family, family.config_type().with_values(**source.config)


def plan_of(source: KernelSource) -> Plan:
    """The plan that `source` was rendered from.

    Raises InvalidInput for names that are none, or a constraint that its config breaks where no plan can be made of it.
    """
    family, config = config_of(source)
    with config_to_blame(source):
        return family.plan(source.problem, config)


@contextmanager
def config_to_blame(source: KernelSource) -> Iterator[None]:
    """Where what is computed of a config fails, raises InvalidInput with the constraint that the config breaks.

    That of a JSON is not checked before: one of another version may break a constraint of today's and be sound.
    """
    try:
        yield
    except GemmgenError:
        raise
    except Exception:  # whatever comes of what a constraint rules out: a divisor that is 0, say
        family, config = config_of(source)
        check(family, source.problem, config, parse_arch(source.arch).limits)
        raise


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
]
