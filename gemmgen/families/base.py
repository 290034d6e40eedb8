"""The definition of a kernel family: its parameters, derived constants, constraints, and how it lowers a config.

A family module defines a frozen `Config` whose fields are axes, and a `Family` that ties it to its templates. Search,
naming, error messages, `static_assert`s and the tables all read these records.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache, wraps
from operator import attrgetter
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from gemmgen.kernel.config import Config, Constraint, Derived, Rules, axis
from gemmgen.kernel.cost import block_cost, instructions, unit_cycles
from gemmgen.kernel.expression import assign, names_in, show_values
from gemmgen.kernel.launch import DEPENDENT_LAUNCH, Launch
from gemmgen.kernel.plan import Cost, Never, Plan, Share, Tile
from gemmgen.kernel.streamk import Stream
from gemmgen.problem.convolution import Convolution
from gemmgen.problem.device import STATIC_SHARED_BYTES, Limits
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Compute
from gemmgen.support.errors import InvalidInput
from gemmgen.support.words import plural

AnyConfig = TypeVar("AnyConfig", bound=Config)
Made = TypeVar("Made")
Maker = Callable[[Problem, AnyConfig], Made]
TILES = "(M + BM - 1) / BM * ((N + BN - 1) / BN)"  # of one matrix C


def grid_fits(blocks: str) -> Constraint:
    """The constraint that CUDA can launch a grid of `blocks` blocks."""
    return Constraint(f"{blocks} <= MAX_BLOCKS", "CUDA bounds the blocks of a grid", in_kernel=False)


def rules(checked: Mapping[str, str], asserted: Mapping[str, str], *shared: Constraint) -> tuple[Constraint, ...]:
    """The constraints of a family: reasons by expression, and those that families share. A kernel's text asserts
    `asserted`, too, for those who edit it by hand."""
    return (
        *(Constraint(expression, because, in_kernel=False) for expression, because in checked.items()),
        *(Constraint(expression, because) for expression, because in asserted.items()),
        *shared,
    )


ONE_PRODUCT = Constraint("PRODUCTS == 1", "acc2, the sums of a second product, are for wgmma and naive", False)
PLAIN_INPUTS = Constraint(
    "PLAIN == 1", "it multiplies no A and B that --inputs says are no plain matrices: naive does", False
)
CODED_INPUTS = Constraint(
    "PLAIN + CODES == 1 and ONE_B == 1 and SCATTERED == 0",
    "besides plain matrices it multiplies codes of B with scales along K",
    False,
)
CODED_AND_IMAGE_INPUTS = Constraint(
    "PLAIN + CODES + IMAGES == 1 and ONE_B == 1 and SCATTERED == 0",
    "besides plain matrices it multiplies codes of B with scales along K, images",
    False,
)
GROUPED_AND_IMAGE_INPUTS = Constraint(
    "PLAIN + CODES + BLOCKS + IMAGES == 1 or GROUPS + K_GROUPS + GATHERED + SCATTERED > 0",
    "besides plain matrices it multiplies codes of B with scales along K, blocks with scales, groups of rows or of K, "
    "gathered or scattered rows, images",
    False,
)
CUDA_CORES = Constraint("FMA == 1", "only tensor cores compute as --compute asks", False)
GRID_FITS = grid_fits(f"{TILES} * BATCH")


def split_axis() -> Any:
    """The axis SPLIT, for families whose kernels can share a tile of C by templates/device/split.cu."""
    return axis(1, (1, 2, 3, 4, 6, 8, 16, 32), "split-K: blocks that compute the same tile of C, each over a part of K")


def pdl_axis(default: int) -> Any:
    """The axis PDL, for families whose kernels can wait for the kernel before: see templates/device/dependent_launch.cu
    and `Kernel.dependent`."""
    order = "1: blocks start as SMs are free; 0: behind the kernel before, in their order"
    return axis(default, (default, 1 - default), f"programmatic dependent launch, {order}")


PDL_CONSTRAINTS = (
    Constraint("PDL <= 1", "a switch is 0 or 1", in_kernel=False),
    Constraint("PDL == 0 or ARCH >= 90", "programmatic dependent launch needs sm_90 or newer", in_kernel=False),
)
PDL_LAST = Constraint("PDL == 0", "this axis is tried last, for the fastest kernels only")
SPLIT_FITS = (
    Constraint("SPLIT >= 1", "counts start at one", in_kernel=False),
    grid_fits(f"{TILES} * BATCH * SPLIT"),
)
SPLIT_CONSTRAINTS = (ONE_PRODUCT, *SPLIT_FITS)


@dataclass(frozen=True)
class Side:
    """A or B, by its names in a rendered kernel.

    x        "a" or "b"
    mn       its dimension beside k, "m" or "n"
    along_k  whether its lines (the contiguous direction) run along k
    """

    x: str
    mn: str
    along_k: bool

    @property
    def X(self) -> str:
        return self.x.upper()

    @property
    def MN(self) -> str:
        return self.mn.upper()

    @property
    def extent(self) -> Literal["rows", "columns"]:
        """What C has along `mn`."""
        return "rows" if self.x == "a" else "columns"

    @property
    def ld(self) -> Literal["lda", "ldb"]:
        return "lda" if self.x == "a" else "ldb"


def shared_by(
    config_type: type[AnyConfig], *axes: str, **parts: Callable[[int], int]
) -> Callable[[Maker[AnyConfig, Made]], Maker[AnyConfig, Made]]:
    """A decorator that caches a function of a problem and a config. Configs that agree in `axes`, and in the results of
    `parts`, share one entry: a space has many configs. The function may read nothing else of the config."""
    values_of = attrgetter(*axes, *parts)
    names, changes = (*axes, *parts), tuple((len(axes) + place, part) for place, part in enumerate(parts.values()))

    def decorated(make: Maker[AnyConfig, Made]) -> Maker[AnyConfig, Made]:
        @lru_cache(maxsize=2**12)
        def kept(problem: Problem, *values: int) -> Made:
            return make(problem, config_type(**dict(zip(names, values, strict=True))))

        @wraps(make)
        def asked(problem: Problem, config: AnyConfig) -> Made:
            values = list(values_of(config))
            for place, part in changes:
                values[place] = part(values[place])
            return kept(problem, *values)

        return asked

    return decorated


@lru_cache(maxsize=64)  # a search asks for each of its configs
def sides(problem: Problem) -> tuple[Side, Side]:
    """Return A and B of `problem`."""
    return Side("a", "m", problem.layout.a == "r"), Side("b", "n", problem.layout.b == "c")


def run_bytes(problem: Problem, rows: int, columns: int, depth: int) -> int:
    """Contiguous bytes per line of the larger of A and B, in k tiles of `depth`, `rows` of A or `columns` of B."""
    a, b = sides(problem)
    larger, across = (a, rows) if (problem.m or 0) > (problem.n or 0) else (b, columns)
    return (depth if larger.along_k else across) * problem.dtype_of(larger.X).size


@cache
def image_constants(conv: Convolution | None) -> tuple[Derived, ...]:
    """The sizes of a convolution, as constants of a kernel that finds output pixels and taps itself.

    A product of matrices has none.
    """
    named = conv.named if conv is not None else ()
    return tuple(Derived(name, str(number), meaning, "Convolution") for name, number, meaning in named)


def unread_of_images(problem: Problem, *names: str) -> frozenset[str]:
    """These of `image_constants`, for a kernel that does not read them; none of a product of matrices."""
    return frozenset(names if problem.inputs.conv is not None else ())


def never_cut(plan: Plan) -> Iterator[Never]:
    """Edge conditions that no access reaches because accesses divide the contiguous size: see the templates' load_edge,
    store_edge."""
    problem, value = plan.problem, plan.constants
    a, b = sides(problem)
    lines = {
        "VA": ("K", problem.k) if a.along_k else ("M", problem.m),
        "VB": ("K", problem.k) if b.along_k else ("N", problem.n),
    }
    if all(name in value and size is not None and size % value[name] == 0 for name, (_, size) in lines.items()):
        words = " and ".join(f"{value[name]} of {name[1]} divide {size}" for name, (size, _) in lines.items())
        yield Never("i < valid", True, f"accesses to {words}", "load_edge")
    if problem.n is not None and "VC" in value and problem.n % value["VC"] == 0:
        because = f"an access to C has {plural(value['VC'], 'element')}, which divide N"
        yield Never("i < valid", True, because, "store_edge")
        for outcome in (False, True):  # behind it
            yield Never(f"beta == {problem.types.scalar.arithmetic.zero}", outcome, because, "store_edge")


def sizes_of(problem: Problem) -> dict[str, int]:
    """The facts that every family has: M, N, K and BATCH (0 at run time), ELEMENT_BYTES (of sums), UNIFORM (1: operands
    are stored in the type of the sums), FMA (0: CUDA cores are less exact than the problem promises), SUMMED (which
    of A and B have rows or columns that an epilogue sums), PRODUCTS (matrices side by side in B), PLAIN (1: elements
    of A and B are multiplied as they are), BLOCKS (1: blocks of A and B have scales), CODES (1: B holds codes, with
    scales along K), GROUPS (of rows that the device counts, with a B each; 0: none), MASKED (1: with an A and a C each,
    too), K_GROUPS (along K, with a C each), ONE_B (1: there are no groups), GATHERED (1: an index names A's rows),
    SCATTERED (1: one names C's) and IMAGES (1: A holds images)."""
    sizes = {"M": problem.m or 0, "N": problem.n or 0, "K": problem.k or 0, "BATCH": problem.batch or 0}
    types = problem.types
    return {
        **sizes,
        "ELEMENT_BYTES": types.accumulator.size,
        "UNIFORM": int(types.uniform),
        "FMA": int(types.compute is Compute.FMA or (problem.scaled_depth > 0 and problem.coded)),
        "SUMMED": len(problem.epilogue.sums),
        "PRODUCTS": problem.products,
        "PLAIN": int(problem.inputs.is_plain),
        "BLOCKS": int(problem.inputs.blocks),
        "CODES": int(problem.coded),
        "GROUPS": problem.inputs.ragged_groups,
        "MASKED": int(problem.inputs.masked),
        "K_GROUPS": problem.inputs.k_groups,
        "ONE_B": int(not problem.inputs.groups),
        "GATHERED": int(problem.inputs.gathered),
        "SCATTERED": int(problem.inputs.scattered),
        "IMAGES": int(problem.inputs.conv is not None),
    }


def elements_of(problem: Problem) -> str:
    """The word for elements in comments: "floats", say, if A, B, C and the sums share one type; else "elements"."""
    types = problem.types
    return f"{types.accumulator.ctype}s" if types.uniform else "elements"


def tile_grid(problem: Problem, value: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """The grid of a family whose blocks compute BM x BN of one matrix: see `Launch.grid`."""
    tiles = (("M", value["BM"]), ("N", value["BN"]))
    return (*tiles, ("batch", 1)) if problem.batched else tiles


def launch_of(
    value: Mapping[str, int],
    grid: tuple[tuple[str, int], ...],
    *,
    dynamic: bool = False,
    splits: int = 1,
    stream: Stream | None = None,
    summed: int = 0,
    **more: Any,
) -> Launch:
    """The launch that the constants THREADS, SHARED_BYTES and PDL give; `dynamic` if static arrays will not do.

    In blocks that share tiles each thread leaves `summed` sums of A and B. `more` holds fields that few launches set.
    """
    shared = value["SHARED_BYTES"]
    shares = splits > 1 or stream is not None
    bytes_ = shared if dynamic or shared > STATIC_SHARED_BYTES else 0
    attributes = (DEPENDENT_LAUNCH,) if value.get("PDL") else ()
    summed *= shares * value["THREADS"]
    return Launch(value["THREADS"], grid, bytes_, splits, stream, attributes=attributes, summed=summed, **more)


@dataclass(frozen=True)
class Rejection:
    """A constraint that a config breaks, with the numbers that break it."""

    constraint: Constraint
    names: Mapping[str, int] = field(hash=False)

    @property
    def values(self) -> str:
        return show_values(self.constraint.expression, self.names)

    def __str__(self) -> str:
        return f"{self.constraint.expression} fails ({self.values}): {self.constraint.because}"


class Family(ABC):
    """A kernel family: the one place that knows its axes. Other code asks its plans, or the fields and methods here.

    name           its name in kernels' names and on the command line
    config_type    its axes
    constraints    conditions that every kernel must satisfy
    pruning        conditions that the search adds: kernels that break them work, but are slow for the given reason
    secondary      axes that change how a tile travels or is split, not its size: the model tells their values apart
                   poorly, so the search tries one config of each shape first and varies these later
    kinds          axes that change how a kernel works, so that the model may err for all kernels with one value
    details        axes that the model hardly prices: the search varies them last, one by one, for the fastest kernels
    small          axes of a kernel with small tiles: its blocks have few threads, and small matrices have many blocks
    small_batches  whether it serves only batches of small products of fixed sizes
    multiple       sizes of its products are multiples of this
    types          examples of its types, as `Types.parse` reads them, if it serves only a few
    any_inputs     whether it serves every `Problem.inputs`; others serve plain ones
    scaled_inputs  whether it serves codes of B with scales along K, too
    grouped_inputs  whether it serves groups of rows, masked or not, and along K, and blocks with scales, beside these
    image_inputs   whether it serves images, of which A's rows are made, too; beside groups gathered and scattered rows
    arch_specific  whether its kernels need instructions of one architecture: they are compiled for sm_90a, others for
                   sm_90
    """

    name: str
    config_type: type[Config]
    constraints: tuple[Constraint, ...]
    pruning: tuple[Constraint, ...] = ()
    secondary: frozenset[str] = frozenset()
    kinds: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    small: Mapping[str, int] = MappingProxyType({})
    small_batches: bool = False
    multiple: int = 1
    types: tuple[str, ...] = ()
    any_inputs: bool = False
    scaled_inputs: bool = False
    grouped_inputs: bool = False
    image_inputs: bool = False
    arch_specific: bool = False

    @property
    def rules(self) -> tuple[Constraint, ...]:
        """`constraints`, and what holds of all families."""
        if self.any_inputs:
            return self.constraints
        beside = CODED_INPUTS if self.scaled_inputs else PLAIN_INPUTS
        if self.image_inputs:
            beside = GROUPED_AND_IMAGE_INPUTS if self.grouped_inputs else CODED_AND_IMAGE_INPUTS
        return (beside, *self.constraints)

    def __reduce__(self) -> str:
        """The module-level name of the family, "WGMMA": processes exchange families by it."""
        return next(name for name, one in vars(sys.modules[type(self).__module__]).items() if one is self)

    @abstractmethod
    def default(self, problem: Problem) -> Config:
        """A valid config for `problem`, from which `gemmgen generate --set` starts."""

    def suited(self, problem: Problem, config: Config) -> Config:
        """Adapt `config`, which suits one problem, to another: values that do not depend on the problem stay."""
        return config

    def facts(self, problem: Problem) -> dict[str, int]:
        """Names that constraints may read and that the problem alone decides, including those of `sizes_of`."""
        return sizes_of(problem)

    @abstractmethod
    def derive(self, problem: Problem, config: Config) -> tuple[Derived, ...]:
        """Constants that follow from the config, including THREADS and SHARED_BYTES; each comes after those that it
        reads.

        They may depend on the problem: layouts, alignment, fixed sizes. A constant MINB bounds the registers per
        thread.
        """

    @abstractmethod
    def plan(self, problem: Problem, config: Config) -> Plan:
        """Lower `config`, which satisfies the constraints, for `problem`: the work of a block, and its launch."""

    def cost(self, plan: Plan, share: Share) -> Cost:
        """The terms of the predicted time of one launch. Here those of blocks that copy tiles, then multiply them."""
        return block_cost(plan, share, unit_cycles(plan, share, instructions(plan, share)))

    @abstractmethod
    def template(self, config: Config) -> str:
        """Path of the kernel skeleton below templates/."""

    def schedule(self, config: Config) -> str:
        """The name of the main loop's schedule: the skeleton's name, unless a family tells more schedules apart."""
        return _stem(self.template(config))

    def declares(self, plan: Plan) -> tuple[Derived, ...]:
        """The axes and constants that the kernel's text reads; each comes after those that it reads itself."""
        unused = self.unused(plan)
        axes = (
            Derived(item.name, str(plan.constants[item.name]), item.meaning, "Parameters")
            for item in plan.config.axes()
        )
        return tuple(line for line in (*axes, *self.derive(plan.problem, plan.config)) if line.name not in unused)

    @abstractmethod
    def unused(self, plan: Plan) -> frozenset[str]:
        """Names that this kernel's body never reads, so that its text leaves them out."""

    def view(self, plan: Plan) -> object:
        """The record of named choices that the template needs beyond the constants; it holds no code."""
        return None

    @abstractmethod
    def tiles(self, plan: Plan) -> tuple[Tile, ...]:
        """The levels of tiling below the block's, the largest first."""

    @abstractmethod
    def prose(self, plan: Plan) -> tuple[str, ...]:
        """Lines for the comment at the kernel's top, each with a label and a sentence."""

    def never(self, plan: Plan) -> Iterator[Never]:
        """Outcomes of the kernel's conditions that no launch of `plan` reaches, by the condition's text."""
        yield from ()


@cache
def _stem(path: str) -> str:
    return PurePath(path).stem


@lru_cache(maxsize=2**15)  # the space and the model ask for those of each config
def constants(family: Family, problem: Problem, config: Config) -> Mapping[str, int]:
    """Every fact, axis and derived constant by name."""
    names = {**_facts(family, problem), **config.values}
    assign([(line.name, line.expression) for line in family.derive(problem, config)], names)
    return MappingProxyType(names)


@lru_cache(maxsize=64)
def _facts(family: Family, problem: Problem) -> Mapping[str, int]:
    return MappingProxyType(family.facts(problem))


def first_rejection(family: Family, problem: Problem, config: Config, limits: Limits) -> Rejection | None:
    """The first constraint that `config` breaks for `problem` under `limits`, or None."""
    for name, value in config.values.items():
        if value < 0:
            return Rejection(Constraint(f"{name} >= 0", "no parameter is negative"), {name: value})
    names = _before_derived(family, problem, config, limits)
    broken = _rules(family, frozenset(names)).first_broken(names)
    if broken is None:  # derived constants may divide by what constraints on axes alone rule out
        names.update(constants(family, problem, config))
        broken = _rules(family).first_broken(names)
    return None if broken is None else Rejection(broken, names)


def runs_on(family: Family, limits: Limits) -> bool:
    """Whether the constraints that read only `limits` hold; if one does not, the family has no kernel there."""
    names = limits.names
    return _rules(family, frozenset(names)).first_broken(names) is None


def _before_derived(family: Family, problem: Problem, config: Config, limits: Limits) -> dict[str, int]:
    """The names that are known before constants are derived: limits, facts and axes."""
    return {**limits.names, **_facts(family, problem), **config.values}


def broken_count(family: Family, problem: Problem, config: Config, limits: Limits) -> int:
    """The number of constraints that `config` breaks. If one on axes alone is broken, all others count as broken,
    too."""
    names = _before_derived(family, problem, config, limits)
    early = _rules(family, frozenset(names)).count_broken(names)
    if early:  # derived constants may divide by what these rule out
        return early + len(family.rules)
    names.update(constants(family, problem, config))
    return _rules(family).count_broken(names)


@lru_cache(maxsize=64)
def _rules(family: Family, known: frozenset[str] | None = None) -> Rules:
    """The family's constraints; if `known` is given, only those that read no other names."""
    return Rules(rule for rule in family.rules if known is None or names_in(rule.expression) <= known)


def check(family: Family, problem: Problem, config: Config, limits: Limits) -> None:
    """Raise InvalidInput unless every constraint holds; the message proposes the nearest values."""
    rejection = first_rejection(family, problem, config, limits)
    if rejection is None:
        return
    nearest = "; ".join(nearest_values(family, problem, config, limits))
    raise InvalidInput(f"{rejection}" + (f". Nearest that would do: {nearest}" if nearest else ""))


def nearest_values(family: Family, problem: Problem, config: Config, limits: Limits) -> Iterator[str]:
    """For each axis that can mend the config alone: the closest values below and above."""
    for item in config.axes():
        current = getattr(config, item.name)

        def works(value: int, name: str = item.name) -> bool:
            return first_rejection(family, problem, config.with_values(**{name: value}), limits) is None

        candidates = [value for value in item.values if value != current and works(value)]
        below = max((value for value in candidates if value < current), default=None)
        above = min((value for value in candidates if value > current), default=None)
        found = [str(value) for value in (below, above) if value is not None]
        if found:
            yield f"{item.name} = {' or '.join(found)}"
