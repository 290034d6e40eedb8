"""A lowered config: all that follows from it, computed once. Code that has a plan needs neither family nor axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol

from gemmgen.kernel.config import Config, Constraint, Derived
from gemmgen.kernel.contract import Contract
from gemmgen.kernel.expression import names_in, without_guards
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.streamk import Schedule
from gemmgen.problem.device import Arch, DeviceSpec
from gemmgen.problem.gemm import Case, Problem
from gemmgen.problem.mma import Mma, factors
from gemmgen.problem.pieces import Pieces
from gemmgen.problem.wgmma import Wgmma

# SASS opcodes of warps, by (multiplies integers, bits of an element); a warpgroup's opcode is xGMMA.
TENSOR_OPCODES = {(True, 8): "IMMA", (False, 8): "QMMA", (False, 64): "DMMA"}


@dataclass(frozen=True)
class Work:
    """The work of one thread, or of one block where it says so, for each step of `depth` along K.

    outputs        elements of C per thread, or sums per thread where several threads share an element
    shared_reads   shared-memory read instructions per thread and k
    read_bytes     bytes of these reads per thread and k
    wavefronts     shared-memory cycles per warp and k for these reads
    copies         instructions by which a thread brings its elements of the tiles to shared memory, a step
    copy_wavefronts  shared-memory cycles that writing the block's tiles takes, a step
    global_bytes   bytes that the block reads from global memory, a step
    prefetch       steps that global loads are issued ahead of their use (0: the block waits for them)
    registers      per thread, estimated before the kernel is compiled
    k_slices       threads of a block that sum the same element, each over its slice of a step's k (sliced-K)
    products       that one instruction multiplies and sums
    k_tile         k between two barriers, where that is not a step (0: it is)
    k_unroll       k of a step that one iteration of the mainloop takes where it prefetches fragments, else 0
    producers      threads of a block that only start copies
    turns          groups of warps that take turns at a block's tiles: one's C leaves beside another's products
    """

    outputs: int
    depth: int
    shared_reads: float
    read_bytes: float
    wavefronts: float
    copies: float
    copy_wavefronts: float
    global_bytes: float
    prefetch: int
    registers: int
    k_slices: int = 1
    products: int = 1
    k_tile: int = 0
    k_unroll: int = 0
    producers: int = 0
    turns: int = 1

    @property
    def fmas(self) -> float:
        """FMAs per thread and k."""
        return self.outputs / self.k_slices / self.products


Bound = Literal["FMA", "issue", "instruction fetch", "shared memory", "L2", "DRAM", "latency"]


@dataclass(frozen=True)
class Share:
    """What an SM of `device` has of the launch for `case`.

    blocks    of the launch; with stream-K as many as there would be without, which have as much work
    resident  blocks that run at once on the SM
    spilled   registers of a thread for which there is no room
    """

    case: Case
    device: DeviceSpec
    blocks: int
    resident: int
    spilled: int


@dataclass(frozen=True)
class Cost:
    """The terms of a predicted time: see `model.predict`.

    units         cycles that each unit of an SM needs for one step of its resident blocks
    step          cycles that the step takes
    steps         of a block
    between       cycles from a block's last products to the first ones of the block that follows it on the SM
    memory_us     microseconds in which device memory moves the operands
    reduction_us  microseconds in which blocks add up what each has of a tile
    """

    units: Mapping[Bound, float]
    step: float
    steps: int
    between: float
    memory_us: float
    reduction_us: float


@dataclass(frozen=True)
class Tile:
    """One level of tiling below the tile of C that a block computes: one `unit` computes rows x columns of C.

    count  how many tiles of this level the level above holds
    """

    unit: str
    rows: int
    cols: int
    count: int


class Author(Protocol):
    """What a family says of one of its plans: see `gemmgen.families.base.Family`, which this room cannot import."""

    @property
    def name(self) -> str: ...
    @property
    def constraints(self) -> tuple[Constraint, ...]: ...
    def template(self, config: Config) -> str: ...
    def declares(self, plan: Plan) -> tuple[Derived, ...]: ...
    def view(self, plan: Plan) -> object: ...
    def cost(self, plan: Plan, share: Share) -> Cost: ...
    def tiles(self, plan: Plan) -> tuple[Tile, ...]: ...
    def prose(self, plan: Plan) -> tuple[str, ...]: ...
    def never(self, plan: Plan) -> Iterator[Never]: ...


@dataclass(frozen=True)
class Never:
    """A condition `text` of a kernel that never has this `outcome`, and the reason, which the plan knows.

    Kernels test it nevertheless: without the test their machine code would differ.

    function  the end of the name of the function that tests it; empty: any
    """

    text: str
    outcome: bool
    because: str
    function: str = ""


@dataclass(frozen=True)
class SumOrder:
    """The order in which a kernel sums along K, which decides the bits of its results.

    K is divided into `splits` ranges, all but the last ones of the same whole number of `step`s. A range is summed by
    `mma` from 0 on, the first k first, with zeros behind its end; the sums of ranges are added in their order.

    promotion  k that are summed from 0 on before the sum is added up in the accumulator type; 0: the whole range
    tf32       how operands of f32 become tf32: tensor cores cut them, or they are rounded before, with ties away from
               zero or to even
    pieces     the pieces that operands are split into: all of `promotion` is summed for one pair, then for the next
    """

    mma: Mma | Wgmma
    step: int
    splits: int = 1
    promotion: int = 0
    tf32: Literal["cut", "away", "even"] = "cut"
    pieces: Pieces | None = None

    def __str__(self) -> str:
        parts = [f"sums of {self.mma.function}, the first k first"]
        parts += [f"of {len(self.pieces.pairs)} pairs of pieces, small ones first"] if self.pieces else []
        parts += [f"added up after each {self.promotion} k"] if self.promotion else []
        parts += [f"in {self.splits} ranges of K"] if self.splits > 1 else []
        return ", ".join(parts)

    def summation(self, arch: Arch) -> str:
        """The class of summation on `arch`, in words: kernels of one class compute equal bits of equal operands.

        It leaves out how many rows and columns an instruction has, because sums do not depend on them. Ranges of K
        depend on the step, too.
        """
        sums = self.mma.sums_on(arch)
        multiplied = factors(self.mma.a, self.mma.b)
        parts = [f"sums of {self.mma.k} products of {multiplied} in {self.mma.accumulator.label}"]
        parts += [f"rounded {self.tf32}"] if multiplied == "tf32" else []
        parts += [f"of terms cut to {sums.fraction} bits, {sums.kept} of which stay"] if sums else []
        parts += [f"of {len(self.pieces.pairs)} pairs of pieces of {self.pieces.dtype.label}"] if self.pieces else []
        parts += [f"added up after each {self.promotion} k"] if self.promotion else []
        parts += [f"in {self.splits} ranges of K of whole {self.step}"] if self.splits > 1 else []
        return ", ".join(parts)

    def ranges(self, k: int) -> tuple[tuple[int, int], ...]:
        """(first, end) of each range of K."""
        extent = -(-k // (self.splits * self.step)) * self.step
        return tuple((min(k, i * extent), min(k, (i + 1) * extent)) for i in range(self.splits))


@dataclass(frozen=True)
class Plan:
    """A config of a family, lowered for a problem.

    Values that only a text or a person needs are computed on demand: a search compares thousands and renders a few.

    constants     every fact, axis and derived constant by name
    tile          rows and columns of one C that a block computes
    shared_bytes  shared memory per block, in bytes, static or dynamic
    mma           the tensor-core instruction that multiplies and sums; None: CUDA cores do
    sums          the order of summation; None if unknown
    """

    problem: Problem
    config: Config
    author: Author = field(repr=False)
    constants: Mapping[str, int] = field(repr=False, compare=False)
    tile: tuple[int, int] = field(compare=False)
    shared_bytes: int = field(compare=False)
    work: Work = field(compare=False)
    launch: Launch = field(compare=False)
    mma: Mma | Wgmma | None = field(default=None, compare=False)
    sums: SumOrder | None = field(default=None, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """The state for pickling, as plans travel between processes: a read-only view of constants cannot be
        pickled."""
        return {**vars(self), "constants": dict(self.constants)}

    @property
    def family(self) -> str:
        """The family's name."""
        return self.author.name

    def summation(self, arch: Arch) -> str | None:
        """The class of summation: see SumOrder. Integers wrap around, so that any order gives their sums; None if the
        order is unknown."""
        if self.problem.types.accumulator.is_integer:
            return "exact sums of integers"
        return None if self.sums is None else self.sums.summation(arch)

    @property
    def instruction(self) -> str:
        """The SASS opcode of the multiply-add."""
        if self.mma is not None:
            opcode = TENSOR_OPCODES.get((self.mma.a.is_integer, self.mma.a.storage_bits), "HMMA")
            return f"{opcode[0]}GMMA" if isinstance(self.mma, Wgmma) else opcode
        return "IDP" if self.work.products > 1 else self.problem.types.accumulator.arithmetic.instruction

    @property
    def units(self) -> str:
        """The units that multiply: "FMA units" or "tensor cores"."""
        return "FMA units" if self.mma is None else "tensor cores"

    def lanes(self, device: DeviceSpec) -> float:
        """Multiply-add instructions that an SM of `device` starts per cycle, times the threads of a warp."""
        if self.mma is not None:
            macs = device.arch.wgmma_macs if isinstance(self.mma, Wgmma) else device.arch.mma_macs
            return macs(self.mma.a) * device.tensor_share(self.mma.accumulator) / self.work.products
        return device.arch.lanes(self.problem.types.accumulator)

    @property
    def consumers(self) -> int:
        """Threads per block that compute."""
        return self.launch.threads - self.work.producers

    @property
    def results(self) -> int:
        """Elements of C that a block computes at once."""
        return self.work.outputs * self.consumers // self.work.k_slices

    @cached_property
    def edges(self) -> frozenset[str]:
        """The sizes (M, N, K, batch) that may not be a whole number of tiles: accesses are checked only there."""
        tiles = {"M": self.tile[0], "N": self.tile[1], "K": self.work.depth, "batch": 1, **dict(self.launch.grid)}
        known = {name: size for name, size in self.problem.sizes.items() if name in tiles}
        cut = {"M"} if self.launch.groups else set()  # where a group ends
        return frozenset(name for name, size in known.items() if name in cut or size is None or size % tiles[name] != 0)

    @property
    def k_tiles(self) -> tuple[float, float]:
        """The fewest and the most steps along K per tile of C: 0 and infinite if K is a run-time size."""
        if self.problem.k is None:
            return 0, math.inf
        most = -(-self.problem.k // self.work.depth)
        if not self.launch.adds_up:
            return 0 if self.problem.inputs.along_k else most, most
        return 0 if self.schedule is None else min(most, self.schedule.fewest_k_tiles), most

    @property
    def schedule(self) -> Schedule | None:
        """The stream-K schedule, or None where blocks do not stream or sizes are left to run time."""
        problem, stream = self.problem, self.launch.stream
        if stream is None or None in (problem.m, problem.n, problem.k, problem.batch):
            return None
        return self.launch.schedule(stream, problem.case())

    def cost(self, share: Share) -> Cost:
        return self.author.cost(self, share)

    @property
    def template(self) -> str:
        return self.author.template(self.config)

    @cached_property
    def declares(self) -> tuple[Derived, ...]:
        return self.author.declares(self)

    @property
    def asserts(self) -> tuple[Constraint, ...]:
        """The constraints that the kernel's own constants decide, without parts that cannot apply to it."""
        known = {line.name for line in self.declares}
        asked = (
            (without_guards(rule.expression, self.constants), rule)
            for rule in self.author.constraints
            if rule.in_kernel
        )
        return tuple(
            replace(rule, expression=expression)
            for expression, rule in asked
            if expression is not None and names_in(expression) <= known
        )

    @property
    def contract(self) -> Contract:
        """What its kernel promises to callers."""
        return Contract.of(self.problem, self.launch)

    @property
    def view(self) -> object:
        return self.author.view(self)

    @property
    def tiles(self) -> tuple[Tile, ...]:
        return self.author.tiles(self)

    @property
    def prose(self) -> tuple[str, ...]:
        return self.author.prose(self)

    @property
    def never(self) -> tuple[Never, ...]:
        return (*self.author.never(self), *_never_copied(self.problem, self.launch))


def _never_copied(problem: Problem, launch: Launch) -> Iterator[Never]:
    """Outcomes that no launch of an operand's copy reaches: see templates/prepare/prepare.cu."""
    for one in launch.copies:
        (lines, height), (length, width), *_ = one.grid(problem)
        function, across = one.entry(""), f"first / {one.chunk(problem)} + chunk"
        tests = (
            (
                lines,
                height,
                "line < lines",
                "first_line + line >= lines" if one.transposes(problem) else "line >= lines",
            ),
            (length, width, "from < length", f"{across if one.transposes(problem) else 'chunk'} >= chunks"),
        )
        for size, tile, inside, outside in tests:
            known = problem.sizes[size]
            if known is not None and known % tile == 0:
                because = f"a block copies {tile} at a time, which divide {size}"
                yield Never(inside, False, because, function)
                yield Never(outside, True, because, function)
