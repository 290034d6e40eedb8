"""`batched`: many small products on CUDA cores. A block holds several A and B whole, and needs no steps along K.

    grid -> block: BATCH_TILES batch tiles of MB products -> LANES threads per product -> thread TM x TN

Matrices pass through shared memory, copied by all threads of the block together, so that neighbouring threads read
neighbouring addresses whichever matrix they belong to. STAGES groups are in flight or in use at once. In shared memory
they lie line by line as in global memory. If lines run along k, a thread reads DEPTH neighbours of each of its rows (A)
or columns (B) at once; else it reads its rows or columns of one k as vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import cast

from gemmgen.families.base import (
    CUDA_CORES,
    ONE_PRODUCT,
    PDL_CONSTRAINTS,
    PDL_LAST,
    Family,
    Side,
    constants,
    elements_of,
    launch_of,
    pdl_axis,
    rules,
    sides,
    sizes_of,
)
from gemmgen.kernel.config import Config, Derived, axis
from gemmgen.kernel.cost import block_cost, instructions, registers, unit_cycles
from gemmgen.kernel.notes import main_loop
from gemmgen.kernel.plan import Cost, Plan, Share, Tile, Work
from gemmgen.problem.device import WARP
from gemmgen.problem.dtype import WORD
from gemmgen.problem.gemm import Problem
from gemmgen.support.words import plural


@dataclass(frozen=True)
class BatchedConfig(Config):
    """The axes of `batched`."""

    PATTERN = "mb{MB}_{TM}x{TN}_v{VEC}_pad{PAD}_s{STAGES}_async{ASYNC}_tiles{BATCH_TILES}_minb{MINB}[_pdl{PDL}]"

    MB: int = axis(4, (8, 4, 16, 2, 32, 1), "products that a block computes at once")
    TM: int = axis(4, (4, 8, 2, 1, 3, 5, 6, 7), "rows of C that a thread computes")
    TN: int = axis(4, (4, 8, 2, 1, 3, 5, 6, 7), "columns of C that a thread computes")
    VEC: int = axis(4, (4, 2, 1), "elements of the widest access to shared memory: 1, 2, or 4 of 4 bytes")
    PAD: int = axis(4, (4, 0), "elements after each shared line of an operand stored along k: spreads banks")
    STAGES: int = axis(1, (2, 1, 3), "batch tiles of MB products that shared memory holds")
    ASYNC: int = axis(0, (1, 0), "1: cp.async copies to shared memory, 0: through registers")
    BATCH_TILES: int = axis(1, (4, 1, 2, 8), "batch tiles of MB products that a block computes one after the other")
    MINB: int = axis(1, (1,), "blocks that must fit an SM at once: caps a thread's registers")
    PDL: int = pdl_axis(0)


CHECKED = {
    "BATCH != 1": "it serves batches only",
    "M >= 1 and N >= 1 and K >= 1": "sizes must be fixed, as shared memory holds whole matrices",
    "MB >= 1 and TM >= 1 and TN >= 1": "a block has at least one element to compute",
    "STAGES >= 1 and BATCH_TILES >= 1 and MINB >= 1": "counts start at one",
    "MB * BATCH_TILES <= 65536": "the products of a block are counted in 32 bits",
    "VEC == 1 or VEC == 2 or VEC == 4": "an access is a power of two wide",
    "VEC * ELEMENT_BYTES <= 16": "an access is at most 16 bytes wide",
    "ASYNC <= 1": "a switch is 0 or 1",
    "ASYNC <= UNIFORM": "cp.async converts nothing",
    "STAGES <= BATCH_TILES": "a stage serves at least one of a block's batch tiles",
    "ASYNC == 1 or STAGES == 1": "copies through registers wait for their data",
    "PAD == 0 or A_ALONG_K + B_ALONG_K >= 1": "padding helps only tiles whose lines run along k",
    "M % TM == 0": "threads split the rows evenly",
    "N % TN == 0": "threads split the columns evenly",
    "(BATCH + MB * BATCH_TILES - 1) / (MB * BATCH_TILES) <= MAX_BLOCKS": "CUDA bounds the blocks of a grid",
}

ASSERTED = {
    "ASYNC <= HAS_CP_ASYNC": "cp.async needs sm_80 or newer",
    "PITCH_A % VA == 0 and PITCH_A % READ_A == 0": "vector accesses to A's shared lines stay aligned",
    "PITCH_B % VB == 0 and PITCH_B % READ_B == 0": "vector accesses to B's shared lines stay aligned",
    "THREADS <= MAX_THREADS": "the architecture bounds the threads of a block",
    "THREADS * MINB <= MAX_SM_THREADS": "the architecture bounds the threads of an SM",
    "SHARED_BYTES <= MAX_SHARED_BYTES": "the architecture bounds the shared memory of a block",
}

SLOW = {
    "VEC * ELEMENT_BYTES == 16": (
        "narrower accesses only add instructions (lines that are not aligned narrow their own)"
    ),
    "ASYNC == 1 or HAS_CP_ASYNC * UNIFORM == 0": "copies through registers stall the threads",
    "PAD >= A_ALONG_K and PAD >= B_ALONG_K": "without padding, lines along k cause bank conflicts",
    "TM * TN >= 4 or M % 2 == 1 or N % 2 == 1": "a smaller thread tile reads more than it multiplies",
    "TM * TN * ELEMENT_BYTES <= 256": "a larger thread tile leaves an SM short of warps",
    "THREADS >= 64": "smaller blocks leave an SM short of warps",
    "THREADS <= 512": "large blocks start and end together, so that memory idles in between",
    "THREADS % 32 == 0 or LANES > 32": "a warp that is not full wastes issue slots",
    "A_ITERATIONS <= 32 and B_ITERATIONS <= 32": "a thread cannot have so many copies in flight",
}

CONSTRAINTS = rules(CHECKED, ASSERTED, ONE_PRODUCT, CUDA_CORES, *PDL_CONSTRAINTS)
PRUNING = rules(SLOW, {}, PDL_LAST)


def line_length(problem: Problem, operand: Side) -> int:
    """Elements per line of the operand; 0 if it is a run-time size, which the constraints refuse."""
    return (problem.k if operand.along_k else problem.m if operand.x == "a" else problem.n) or 0


def copy_width(problem: Problem, config: BatchedConfig, operand: Side) -> int:
    """Elements per copying access: VEC, capped by the length and alignment of the operand's lines."""
    limit, types = problem.vector_limit(operand.ld), problem.types
    widest = config.VEC * types.accumulator.size // problem.dtype_of(operand.X).size
    width = gcd(max(1, widest), limit, line_length(problem, operand))
    # Shared lines are as far apart as their accesses are wide, or a multiple of it.
    return width if types.uniform or not operand.along_k else gcd(width, config.PAD)


def patch(config: BatchedConfig, operand: Side) -> int:
    """Neighbouring rows (A) or columns (B) per thread: as many as one read takes if lines run along them."""
    return 1 if operand.along_k else gcd(config.VEC, config.TM if operand.x == "a" else config.TN)


def depth(problem: Problem, config: BatchedConfig) -> int:
    """Values of k for which a thread reads its operands at once."""
    return gcd(config.VEC, problem.k or 0) if any(operand.along_k for operand in sides(problem)) else 1


@dataclass(frozen=True)
class BatchedView:
    """The record that the template of `batched` needs beside the constants.

    asynchronous  whether cp.async copies to shared memory, rather than threads through registers
    """

    a: Side
    b: Side
    asynchronous: bool


class Batched(Family):
    """The family record: see `gemmgen.families.base.Family`."""

    name = "batched"
    config_type = BatchedConfig
    constraints = CONSTRAINTS
    pruning = PRUNING
    secondary = frozenset({"STAGES", "ASYNC", "MINB", "PAD"})
    details = ("PDL",)
    small_batches = True

    def default(self, problem: Problem) -> Config:
        pad = 4 if any(operand.along_k for operand in sides(problem)) else 0
        tm, tn = gcd(4, problem.m or 4), gcd(4, problem.n or 4)
        lanes = (problem.m or 4) // tm * ((problem.n or 4) // tn)
        return BatchedConfig(
            MB=max(1, min(4, 128 // lanes)), TM=tm, TN=tn, VEC=problem.types.accumulator.widest, PAD=pad
        )

    def facts(self, problem: Problem) -> dict[str, int]:
        a, b = sides(problem)
        return {**sizes_of(problem), "A_ALONG_K": int(a.along_k), "B_ALONG_K": int(b.along_k)}

    def derive(self, problem: Problem, config: Config) -> tuple[Derived, ...]:
        batched = cast(BatchedConfig, config)
        a, b = sides(problem)
        m, n, k = problem.m or 0, problem.n or 0, problem.k or 0
        fm, fn = patch(batched, a), patch(batched, b)
        sums, step = problem.types.accumulator, depth(problem, batched)
        elements, size = elements_of(problem), sums.size
        return (
            Derived("BM", str(m), "rows of C: all of them"),
            Derived("BN", str(n), "columns of C: all of them"),
            Derived("BK", str(k), "K: all of it"),
            Derived("LANES_M", "BM / TM", "threads down a matrix"),
            Derived("LANES_N", "BN / TN", "threads across a matrix"),
            Derived("LANES", "LANES_M * LANES_N", "threads a product"),
            Derived("THREADS", "MB * LANES", "threads a block"),
            Derived("PAIR", str(gcd(2, n // batched.TN)), "neighbouring threads that compute the same rows"),
            Derived("DEPTH", str(step), "k for which a thread loads its fragments at once"),
            Derived("UNROLL", str(max(1, min(k, 32) // step)), "of the loop along k: iterations that are unrolled"),
            Derived("FM", str(fm), "neighbouring rows of a thread's patch of C"),
            Derived("FN", str(fn), "neighbouring columns of a thread's patch of C"),
            Derived("STEP_M", "FM * LANES_M", "rows from one patch of a thread to its next"),
            Derived("STEP_N", "FN * LANES_N", "columns from one patch of a thread to its next"),
            Derived("VC", str(gcd(fn, problem.vector_limit("ldc"))), f"{elements} of an access to C"),
            *_operand_constants(problem, batched, a),
            *_operand_constants(problem, batched, b),
            Derived(
                "BYTES_A", f"({size} * STAGES * MB * SHARED_A + 15) / 16 * 16", "from the first shared A to the first B"
            ),
            Derived("SHARED_BYTES", "BYTES_A + ELEMENT_BYTES * STAGES * MB * SHARED_B", "of a block"),
        )

    def plan(self, problem: Problem, config: Config) -> Plan:
        batched, value = cast(BatchedConfig, config), constants(self, problem, config)
        size = problem.types.accumulator.size
        copies = value["A_ITERATIONS"] + value["B_ITERATIONS"]
        moved = size * batched.MB * (value["BM"] + value["BN"]) * value["BK"]
        a, b = problem.types.a.size, problem.types.b.size
        fetched = batched.MB * (a * value["BM"] + b * value["BN"]) * value["BK"]
        read = size * (batched.TM + batched.TN)
        work = Work(
            outputs=batched.TM * batched.TN,
            depth=value["BK"],
            shared_reads=batched.TM / value["READ_A"] + batched.TN / value["READ_B"],
            read_bytes=read,
            wavefronts=read / WORD / value["PAIR"],
            copies=copies if batched.ASYNC else 2 * copies,
            copy_wavefronts=moved / (WARP * WORD),
            global_bytes=fetched,
            prefetch=batched.STAGES - 1,
            registers=registers(problem.types.accumulator, batched.TM * batched.TN),
        )
        launch = launch_of(value, (("batch", batched.MB * batched.BATCH_TILES),))
        return Plan(problem, config, self, value, (value["BM"], value["BN"]), value["SHARED_BYTES"], work, launch)

    def cost(self, plan: Plan, share: Share) -> Cost:
        units = unit_cycles(plan, share, instructions(plan, share))
        return block_cost(plan, share, units, passes=cast(BatchedConfig, plan.config).BATCH_TILES)

    def template(self, config: Config) -> str:
        return "batched/batched.cu"

    def unused(self, plan: Plan) -> frozenset[str]:
        choices = {"VEC", "ASYNC", "PDL", "SHARED_BYTES"}
        if not any(operand.along_k for operand in sides(plan.problem)):
            choices.add("PAD")
        if not plan.launch.shared_bytes:
            choices.add("BYTES_A")
        return frozenset(choices)

    def view(self, plan: Plan) -> BatchedView:
        a, b = sides(plan.problem)
        return BatchedView(a, b, cast(BatchedConfig, plan.config).ASYNC == 1)

    def tiles(self, plan: Plan) -> tuple[Tile, ...]:
        batched, (rows, cols) = cast(BatchedConfig, plan.config), plan.tile
        return (
            Tile("product", rows, cols, batched.MB * batched.BATCH_TILES),
            Tile("thread", batched.TM, batched.TN, plan.constants["LANES"]),
        )

    def prose(self, plan: Plan) -> tuple[str, ...]:
        batched, threads = cast(BatchedConfig, plan.config), plan.launch.threads
        block = f"{plural(batched.MB, 'product')} at once by {threads} threads"
        if batched.BATCH_TILES > 1:
            block += f", {batched.MB * batched.BATCH_TILES} in all"
        return f"Block   {block}, {plan.shared_bytes} bytes of shared memory", *main_loop(plan)


def _operand_constants(problem: Problem, config: BatchedConfig, operand: Side) -> tuple[Derived, ...]:
    X, mn, elements = operand.X, f"B{operand.MN}", elements_of(problem)
    line, lines = ("BK", mn) if operand.along_k else (mn, "BK")
    read = "DEPTH" if operand.along_k else f"F{operand.MN}"
    constant = (
        (f"V{X}", str(copy_width(problem, config, operand)), f"{elements} of an access to {X}"),
        (f"READ_{X}", read, f"{elements} of a thread's shared read of {X}"),
        (f"{X}_CONTIGUOUS", line, f"{elements} of {X} along its contiguous dimension"),
        (f"{X}_ACCESSES", f"{line} / V{X} * {lines}", f"accesses that fetch a matrix {X}"),
        (f"{X}_ITERATIONS", f"(MB * {X}_ACCESSES + THREADS - 1) / THREADS", "accesses of a thread to all MB, at most"),
        (
            f"PITCH_{X}",
            f"{line} + PAD" if operand.along_k else line,
            f"{elements} from one row of {X}'s shared tile to the next",
        ),
        (f"SHARED_{X}", f"{lines} * PITCH_{X}", f"{elements} of a shared matrix {X}"),
    )
    return tuple(Derived(*one, group=f"How {X} gets to shared memory") for one in constant)


BATCHED = Batched()
