"""Why a kernel is as it is: tiles, traffic, roofline, resources, occupancy, and its main loop's machine code."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gemmgen.analysis import Traffic, traffic
from gemmgen.compile import CompiledKernel, compile_kernel
from gemmgen.device import DeviceSpec
from gemmgen.errors import CandidateFailed, Failure
from gemmgen.families import config_of
from gemmgen.families.base import constants
from gemmgen.files import Store
from gemmgen.kernelfile import KernelFile
from gemmgen.model import Bound, Prediction, predict, representative
from gemmgen.problem import Case, DType
from gemmgen.sass import InstructionMix, disassemble

# What `Prediction.bound` means.
BOUNDS: dict[Bound, str] = {
    "FMA": "the FMA units: nearly every instruction is useful work",
    "issue": "instruction issue: loads and addresses take slots from the FMAs",
    "instruction fetch": "instruction fetch: the unrolled step exceeds the instruction cache",
    "shared memory": "shared memory: its reads take longer than the FMAs that they feed",
    "L2": "L2: blocks ask for tiles faster than it delivers them",
    "DRAM": "device memory: even one pass over A, B and C takes longer than the FMAs",
    "latency": "latency: too few warps an SM to hide how long a load or an FMA takes",
}


@dataclass(frozen=True)
class Tile:
    """One level of tiling: rows x columns of C that one `unit` computes, and how many of them the level above holds."""

    unit: str
    rows: int
    cols: int
    count: int
    above: str


@dataclass(frozen=True)
class Roofline:
    """What the card allows the whole problem, by its data sheet.

    intensity   FLOP for each byte that must move between chip and device memory
    ridge       intensity from which on the FMA units and not the memory bound the time
    tflops      the most that either allows
    """

    intensity: float
    ridge: float
    tflops: float

    @property
    def bound(self) -> str:
        return "compute" if self.intensity >= self.ridge else "memory"


@dataclass(frozen=True)
class Explanation:
    """All that `gemmgen explain` says of a kernel on one card.

    case         the launch that the figures are for: see model.representative
    steps        tiles along K
    prediction   from the compiled registers where it compiled
    compiled     None where `compile_failure` says why
    main_loop    None where `sass_failure` says why
    """

    kernel: KernelFile
    device: DeviceSpec
    arch: str
    case: Case
    tiles: tuple[Tile, ...]
    steps: int
    traffic: Traffic
    roofline: Roofline
    prediction: Prediction
    compiled: CompiledKernel | None
    compile_failure: Failure | None
    main_loop: InstructionMix | None
    sass_failure: Failure | None

    @property
    def last_wave(self) -> float:
        """How full the last wave of blocks is, 0 to 1."""
        waves = self.prediction.waves
        return waves - math.ceil(waves) + 1 if math.isfinite(waves) else 0.0


def explain(kernel: KernelFile, arch: str, device: DeviceSpec, store: Store) -> Explanation:
    """Explain `kernel` on `device`. A compiler or disassembler that is missing leaves its part out, with the reason."""
    source = kernel.source
    family, config = config_of(source)
    case = representative(source.problem)
    values = constants(family, source.problem, config)
    compiled = _compiled(kernel, arch, store)
    registers = compiled.registers if isinstance(compiled, CompiledKernel) else None
    mix = _main_loop(compiled, source.problem.dtype)
    return Explanation(
        kernel=kernel,
        device=device,
        arch=arch,
        case=case,
        tiles=_tiles(case, values),
        steps=-(-case.k // values.get("BK", 1)),
        traffic=traffic(source.problem, family, config),
        roofline=roofline(case, device),
        prediction=predict(source.problem, family, config, device, registers),
        compiled=compiled if isinstance(compiled, CompiledKernel) else None,
        compile_failure=compiled if isinstance(compiled, Failure) else None,
        main_loop=mix if isinstance(mix, InstructionMix) else None,
        sass_failure=mix if isinstance(mix, Failure) else None,
    )


def roofline(case: Case, device: DeviceSpec) -> Roofline:
    """The roofline of `case` on `device`."""
    intensity = case.flops / case.bytes_moved
    peak = device.tflops(case.problem.dtype)
    memory_tflops = intensity * device.bandwidth / 1000
    return Roofline(intensity, peak * 1000 / device.bandwidth, min(peak, memory_tflops))


def _tiles(case: Case, values: Mapping[str, int]) -> tuple[Tile, ...]:
    rows, cols = values["BM"], values["BN"]
    products = values.get("MB", 1) * values.get("WALK", 1)  # of a block
    blocks = -(-case.m // rows) * -(-case.n // cols) * -(-case.batch // products)
    tiles = [Tile("block", rows, cols, blocks, "grid")]
    if "MB" in values:
        tiles.append(Tile("product", rows, cols, products, "block"))
    if values.get("WM"):
        tiles.append(Tile("warp", values["WM"], values["WN"], rows * cols // (values["WM"] * values["WN"]), "block"))
    thread = values.get("TM", 1), values.get("TN", 1)
    above = tiles[-1]
    tiles.append(Tile("thread", *thread, above.rows * above.cols // (thread[0] * thread[1]), above.unit))
    return tuple(tiles)


def _compiled(kernel: KernelFile, arch: str, store: Store) -> CompiledKernel | Failure:
    try:
        return compile_kernel(kernel.source, arch, store)
    except CandidateFailed as error:
        return error.failure


def _main_loop(compiled: CompiledKernel | Failure, dtype: DType) -> InstructionMix | Failure:
    if isinstance(compiled, Failure):
        return compiled
    try:
        return disassemble(compiled.cubin, dtype.instruction).main_loop
    except CandidateFailed as error:
        return error.failure
