"""The explanation of a kernel: tiles, traffic, roofline, resources, occupancy, and its main loop's machine code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from gemmgen.exports.kernelfile import KernelFile
from gemmgen.families import config_to_blame, plan_of
from gemmgen.kernel.analysis import Traffic, traffic
from gemmgen.kernel.model import LAUNCH_US, Prediction, predict, representative
from gemmgen.kernel.plan import Bound, Plan, Tile
from gemmgen.problem.device import WARP, DeviceSpec
from gemmgen.problem.dtype import WORD
from gemmgen.problem.gemm import Case
from gemmgen.render.kernel_text import render_plan
from gemmgen.render.rerender import edited_axes, with_axes
from gemmgen.run.compile import CompiledKernel, compile_kernel
from gemmgen.run.sass import FmaUse, InstructionMix, Sass, disassemble, fma_use, skips
from gemmgen.support.errors import CandidateFailed, Failure
from gemmgen.support.files import Store
from gemmgen.support.html import shown_as
from gemmgen.support.short_repr import brief

# The meaning of `Prediction.bound` for FMAs and, below, where it differs for tensor cores.
BOUNDS: dict[Bound, str] = {
    "FMA": "the FMA units: nearly every instruction is useful work",
    "issue": "instruction issue: loads and addresses take slots from the FMAs",
    "instruction fetch": "instruction fetch: the unrolled step exceeds the instruction cache",
    "shared memory": "shared memory: its reads take longer than the FMAs that they feed",
    "L2": "L2: blocks ask for tiles faster than it delivers them",
    "DRAM": "device memory: even one pass over A, B and C takes longer than the FMAs",
    "latency": "latency: too few warps an SM to hide how long a load or an FMA takes",
}
TENSOR_BOUNDS: dict[Bound, str] = {
    "FMA": "the tensor cores: their products take longer than what goes on beside them",
    "issue": "instruction issue: fragments and addresses take slots from the products",
    "shared memory": "shared memory: its reads take longer than the products that they feed",
    "DRAM": "device memory: even one pass over A, B and C takes longer than the products",
    "latency": "latency: too few bytes are under way to hide how long a load takes",
}


@dataclass(frozen=True)
class TileLevel:
    """One level of tiling: rows x columns of C that one `unit` computes, and how many of them the level above holds."""

    unit: str
    rows: int
    cols: int
    count: int
    above: str


@dataclass(frozen=True)
class Roofline:
    """The bounds of the card for the whole problem, by its data sheet.

    intensity   FLOP per byte that must move between chip and device memory
    ridge       intensity above which the arithmetic units, not the memory, bound the time
    tflops      the highest rate that both allow
    """

    intensity: float
    ridge: float
    tflops: float

    @property
    def bound(self) -> str:
        return "compute" if self.intensity >= self.ridge else "memory"


@dataclass(frozen=True)
class Wavefronts:
    """Shared-memory cycles per FMA of a warp, to read values and to write tiles."""

    reads: float
    writes: float


@dataclass(frozen=True)
class LoopUse:
    """The load of the main loop on an SM's units, by its machine code and by the family's model.

    fma                the possible utilisation of the FMA pipe
    wavefronts         counts by the machine code, which shows no bank conflicts
    model_fma_share    share of FMAs among the FMAs, reads and copies in the source
    model_wavefronts   counts by the model, including conflicts of writes
    model_fma_use      the predicted share of the card's FMA rate, for the whole launch
    """

    fma: FmaUse
    wavefronts: Wavefronts
    model_fma_share: float
    model_wavefronts: Wavefronts
    model_fma_use: float


@dataclass(frozen=True)
class Edited:
    """The effect of edits by hand on the main loop, and so on the time.

    cycles   cycles per FMA, relative to those of the kernel that gemmgen renders with the text's constants
    time_us  predicted from that, if FMAs or issue bound the time; else that kernel's time
    """

    cycles: float
    time_us: float


@shown_as("explanation.html")
@brief
@dataclass(frozen=True)
class Explanation:
    """All that `gemmgen explain` reports about a kernel on one card.

    axes         axes to which an edit by hand gave other values: the figures are for these
    case         the launch to which the figures belong: see model.representative
    parts        parts of K, one per block; with `stream` the last tiles of C have others
    steps        steps of a block along its part of K
    used         share of the tiles' elements that belong to C: the others lie past its edges, or are computed twice
    prediction   from the compiled registers, if it compiled
    compiled     None if it did not compile: `compile_failure` says why
    main_loop    None if it is not known: `sass_failure` says why
    loop_use     None in that case, too, and if the main loop has no FMA
    edited       None if the text was not edited, or if either main loop is not known
    """

    kernel: KernelFile
    axes: Mapping[str, int]
    device: DeviceSpec
    arch: str
    case: Case
    tiles: tuple[TileLevel, ...]
    parts: int
    steps: int
    used: float
    traffic: Traffic
    roofline: Roofline
    prediction: Prediction
    compiled: CompiledKernel | None
    compile_failure: Failure | None
    main_loop: InstructionMix | None
    loop_use: LoopUse | None
    sass_failure: Failure | None
    edited: Edited | None = None

    @cached_property
    def plan(self) -> Plan:
        """The plan of the config that the text's constants give."""
        return plan_of(with_axes(self.kernel.source, dict(self.axes)))

    @property
    def recorded(self) -> Mapping[str, Any] | None:
        """The record of the compiled kernel in its JSON; None if that does not belong to this text."""
        return _recorded(self.kernel)

    @property
    def last_wave(self) -> float:
        """The fill of the last wave of blocks, 0 to 1."""
        waves = self.prediction.waves
        return waves - math.ceil(waves) + 1 if math.isfinite(waves) else 0.0


def explain(kernel: KernelFile, arch: str, device: DeviceSpec, store: Store | None) -> Explanation:
    """Explain `kernel` on `device`. If a compiler or disassembler is missing, that part is left out, with the
    reason.

    Without `store` nothing is compiled: registers come from its JSON, or are estimated.

    Raises InvalidInput if its family or an axis is not known, or if its config breaks a constraint that figures need.
    """
    with config_to_blame(kernel.source):
        return _explained(kernel, arch, device, store)


def _explained(kernel: KernelFile, arch: str, device: DeviceSpec, store: Store | None) -> Explanation:
    source = kernel.source
    axes = edited_axes(source, device.arch) if kernel.edited else {}
    case, plan = representative(source.problem), plan_of(with_axes(source, axes))
    compiled = _compiled(kernel, arch, store)
    recorded = _recorded(kernel) or {}
    registers = compiled.registers if isinstance(compiled, CompiledKernel) else recorded.get("registers")
    sass = _disassembled(compiled, plan.instruction)
    prediction = predict(plan, device, registers)
    moved, work = traffic(plan), plan.work
    use = None
    if isinstance(sass, Sass) and sass.main_loop.fmas:
        use = _loop_use(sass, plan, moved, prediction, case, device)
    return Explanation(
        kernel=kernel,
        axes=axes,
        device=device,
        arch=arch,
        case=case,
        tiles=tuple(_tiles(case, plan)),
        parts=plan.launch.splits,
        steps=math.ceil(case.k / plan.launch.splits / (work.k_tile or work.depth)) * case.problem.types.compute.pairs,
        used=_used(case, plan),
        traffic=moved,
        roofline=roofline(case, device, peak(plan, device)),
        prediction=prediction,
        compiled=compiled if isinstance(compiled, CompiledKernel) else None,
        compile_failure=compiled if isinstance(compiled, Failure) else None,
        main_loop=sass.main_loop if isinstance(sass, Sass) else None,
        loop_use=use,
        sass_failure=sass if isinstance(sass, Failure) else None,
        edited=_edited(kernel, plan, arch, device, store, use, prediction),
    )


def peak(plan: Plan, device: DeviceSpec) -> float:
    """TFLOPS, or TOPS, with all of the card's units busy that multiply; pairs of pieces count once."""
    pairs = plan.problem.types.compute.pairs
    return 2 * device.sms * plan.lanes(device) * plan.work.products / pairs * device.clock_ghz / 1000


def cuda_cores(case: Case, device: DeviceSpec) -> float:
    """The rate in TFLOPS, or TOPS, of `case` with all CUDA cores busy."""
    types = case.problem.types
    return device.tflops(types.accumulator) * types.products_at_once


def bound_in_words(plan: Plan, bound: Bound) -> str:
    """The meaning, in words, of `bound` taking longest in a block of `plan`."""
    return BOUNDS[bound] if plan.mma is None else TENSOR_BOUNDS.get(bound, BOUNDS[bound])


def roofline(case: Case, device: DeviceSpec, peak: float) -> Roofline:
    """The roofline of `case` on `device`, whose peak is `peak` TFLOPS."""
    intensity = case.flops / case.bytes_moved
    memory_tflops = intensity * device.bandwidth / 1000
    return Roofline(intensity, peak * 1000 / device.bandwidth, min(peak, memory_tflops))


def _tiles(case: Case, plan: Plan) -> Iterator[TileLevel]:
    """The levels of tiling, from the grid down to a thread."""
    launch = plan.launch
    first = "tile" if launch.adds_up else "cluster" if launch.cluster > 1 else "block"
    levels = [Tile(first, *_grid_tile(plan), launch.typical_tiles(case))]
    if launch.blocks_per_tile > 1:
        levels.append(Tile("block", *plan.tile, launch.blocks_per_tile))
    levels += plan.tiles
    for above, level in pairwise([Tile("grid", case.m, case.n, 1), *levels]):
        yield TileLevel(**asdict(level), above=above.unit)


def _grid_tile(plan: Plan) -> tuple[int, int]:
    """Rows and columns of C that the grid counts as one tile; each block of a cluster has a part of them."""
    whole, (rows, cols) = dict(plan.launch.grid), plan.tile
    return (whole["M"], whole["N"]) if plan.launch.cluster > 1 else (rows, cols)


def _used(case: Case, plan: Plan) -> float:
    rows, cols = _grid_tile(plan)
    return case.m * case.n / (-(-case.m // rows) * rows * -(-case.n // cols) * cols)


def _recorded(kernel: KernelFile) -> Mapping[str, Any] | None:
    return None if kernel.edited or kernel.record is None else kernel.record.get("resources")


def _compiled(kernel: KernelFile, arch: str, store: Store | None) -> CompiledKernel | Failure:
    if store is None:
        return Failure("unavailable", "nothing was compiled for this page", "report")
    try:
        return compile_kernel(kernel.source, arch, store)
    except CandidateFailed as error:
        return error.failure


def _disassembled(compiled: CompiledKernel | Failure, instruction: str) -> Sass | Failure:
    if isinstance(compiled, Failure):
        return compiled
    try:
        return disassemble(compiled.cubin, instruction)
    except CandidateFailed as error:
        return error.failure


def _edited(
    kernel: KernelFile,
    plan: Plan,
    arch: str,
    device: DeviceSpec,
    store: Store | None,
    use: LoopUse | None,
    prediction: Prediction,
) -> Edited | None:
    if not kernel.edited or use is None:
        return None
    original = _disassembled(_compiled(KernelFile(render_plan(plan, arch)), arch, store), plan.instruction)
    if isinstance(original, Failure) or not original.main_loop.fmas:
        return None
    cycles = _fma_use(original, plan, device).allowed / use.fma.allowed
    work_us = prediction.time_us - LAUNCH_US
    return Edited(cycles, LAUNCH_US + work_us * (cycles if prediction.bound in ("FMA", "issue") else 1.0))


def _fma_use(sass: Sass, plan: Plan, device: DeviceSpec) -> FmaUse:
    dtype = plan.problem.types.accumulator
    return fma_use(sass.loop, plan.work, device.arch, dtype, plan.lanes(device) if plan.mma else None)


def _loop_use(
    sass: Sass, plan: Plan, moved: Traffic, prediction: Prediction, case: Case, device: DeviceSpec
) -> LoopUse:
    """Compare the main loop's machine code, which has FMAs, with the family's counts."""
    work, loop, often = plan.work, sass.loop, skips(plan.work)
    per_word = WORD * work.wavefronts / work.read_bytes if work.read_bytes else 1.0  # lanes may share words
    fmas, step = sass.main_loop.fmas, work.fmas * work.depth
    return LoopUse(
        fma=_fma_use(sass, plan, device),
        wavefronts=Wavefronts(
            loop.wavefronts(("LDS", "LDSM"), per_word, often) / fmas,
            loop.wavefronts(("STS", "LDGSTS"), 1.0, often) / fmas,
        ),
        model_fma_share=moved.ffma_share,
        model_wavefronts=Wavefronts(
            work.wavefronts / work.fmas, work.copy_wavefronts / (-(-plan.consumers // WARP) * step)
        ),
        model_fma_use=prediction.tflops(case) / peak(plan, device),
    )
