"""The suite's problems for tensor cores, and their goals.

If cuBLASLt has no kernel for a problem, the row has no baseline, and its goal requires nothing: it takes 8-bit operands
only k-major, and neither groups of rows nor images.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from gemmgen.kernel.model import representative
from gemmgen.lab.fma_shapes import LINEAR_LAYER
from gemmgen.lab.group import Goal, Group, cubes, every, thin_side, weight_bytes
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.images import Conv
from gemmgen.problem.inputs import Inputs
from gemmgen.problem.matrix import Layout
from gemmgen.problem.types import Compute, Types
from gemmgen.run.gpu.lt_epilogue import adds_residual, own_epilogue

FEW = 128  # rows or columns of C up to which the weights' bytes count as much as the products
BLOCK = 64  # sizes that it divides fill the tiles of tensor cores
LARGE_WEIGHTS = 128e6  # bytes of them, from which on reading them is to be near the card's bandwidth
SATURATING = 16  # rows up to which it is
VOCABULARY = (4096, 50257, 768)  # GPT-2's last layer
BF16, F16 = Types.of(DType.BF16), Types.of(DType.F16)
TF32 = Types(DType.F32, DType.F32, DType.F32, Compute.TF32)
PIECES = Types(DType.F32, DType.F32, DType.F32, Compute.BF16X6)
PROMOTED, FAST = (Types(DType.E4M3, DType.E4M3, DType.BF16, compute) for compute in (Compute.PROMOTED, Compute.FAST))
CODES = Types(DType.BF16, DType.U4, DType.BF16)
S8, SCALED_S8 = Types(DType.S8, DType.S8, DType.S32), Types(DType.S8, DType.S8, DType.BF16)
CUBES = cubes(1024, 2048, 4096, 8192)
LARGE = (
    *CUBES,
    (16384, 4096, 4096),
    (4096, 512, 4096),
    (512, 4096, 4096),
    (4096, 14336, 4096),
    (8192, 1024, 8192),
)
AWKWARD = ((4095, 4097, 1023), (127, 4000, 3999), *cubes(1000, 4097), (1023, 1025, 1027), VOCABULARY)
BYTES = (*CUBES, *((m, 8192, 8192) for m in (16, 64, 128)))
STREAMED = tuple((m, size, size) for size in (4096, 8192, 16384) for m in (1, 2, 4))  # of 8-bit operands
LAYERS = (
    (4, 4096, 4096),
    (4, 8192, 8192),
    (16, 4096, 1024),
    (4096, 4096, 1024),
    (16, 28672, 8192),
    (8192, 28672, 8192),
)
# N, K and, for a few rows, the most that a kernel of codes is to take over the time that moving the bytes takes.
CODED = ((4096, 4096, 1.35), (8192, 8192, 1.15), (28672, 8192, 1.2))
BLOCKED = (
    *((4096, 4096, 7168), (4096, 7168, 2048), (4096, 24576, 1536), (128, 7168, 2048)),
    *((64, 2112, 7168), (128, 2112, 7168), (128, 24576, 1536), (512, 24576, 1536), (512, 7168, 16384)),
    (4096, 7168, 16384),
)
# Groups, rows of all of them, N and K, of mixtures of experts. 256 experts of 4096 x 7168 are left out: the host would
# draw and multiply matrices of 15 GB to verify a kernel.
EXPERTS = (
    *((8, 64, 28672, 4096), (8, 4096, 28672, 4096), (64, 8192, 2816, 2048)),
    *((128, 8192, 1536, 2048), (128, 256, 1536, 2048), (32, 4096, 4096, 7168)),
)
# Images, their height, width and channels, filters, and the stride: of ResNet-50 and of a diffusion model, 3 x 3 taps.
# Convolutions of 1 x 1 taps with stride 1 are plain products.
LAYERS_OF_IMAGES = (
    *((32, (56, 56, 64), 64, 1), (32, (28, 28, 128), 128, 1), (32, (14, 14, 256), 256, 1), (32, (7, 7, 512), 512, 1)),
    *((32, (56, 56, 128), 128, 2), (2, (64, 64, 320), 320, 1), (2, (16, 16, 1280), 1280, 1)),
    (128, (56, 56, 256), 256, 1),
)
GATED = ((16, 14336, 4096), (4096, 14336, 4096))  # two products each
ATTENTION = ((1024, 1024, 64, "rc"), (1024, 64, 1024, "rr"))  # of 64 heads: Q * K^T, and what it weighs of V
# Attention, whose heads lie side by side in a token's row: heads, those that share K and V, elements of a head, tokens.
HEADS, SHARING, WIDTH, TOKENS = 32, 4, 128, 1024
BATCHES = ((8, 4096), (8, 65536), (16, 4096), (16, 65536), (32, 4096), (32, 65536), (64, 512), (128, 512))
BATCH_GOALS = ((16, 4.0), (32, 2.0), (64, 1.2))  # up to a largest size; 1.1 beyond


def _large(types: Types) -> tuple[Problem, ...]:
    return (*every(types, LARGE, "rr", "rc"), *every(types, cubes(4096), "cr", "cc"))


def is_awkward(problem: Problem) -> bool:
    """Whether lines are aligned to fewer than 16 bytes, or tiles of a large C, or of K, are partly empty."""
    case = representative(problem)
    lines = (matrix.ld * matrix.dtype.size % 16 for matrix in (case.a, case.b))
    partial = any(size % BLOCK for size in (case.m, case.n, case.k))
    return any(lines) or (partial and thin_side(problem) > FEW)


def _awkward_goal(problem: Problem) -> Goal:
    case = representative(problem)
    return Goal(3.0 if any(ld % 2 for ld in (case.lda, case.ldb, case.ldc)) else 1.1)


def _few_rows(types: Types) -> Iterator[Problem]:
    """M rows times N x K weights of the sizes in language models."""
    weights = ((4096, 4096), (8192, 8192), (4096, 14336), (14336, 4096))
    rows = [*product((1, 2, 4, 8, 16, 32, 64, 128), weights), *product((1, 2, 4, 8), [(16384, 16384)])]
    yield from every(types, ((m, n, k) for m, (n, k) in rows), "rr", "rc")


def _few_rows_goal(problem: Problem) -> Goal:
    rows = thin_side(problem)
    return Goal(1.2 if rows <= 4 else 1.05 if rows <= 16 else 0.98, _share(problem))


def _share(problem: Problem) -> float | None:
    """The goal as a share of the bandwidth, if large weights are read for few rows."""
    return 0.85 if thin_side(problem) <= SATURATING and weight_bytes(problem) >= LARGE_WEIGHTS else None


def _batched() -> Iterator[Problem]:
    for (size, batch), pointers in product(BATCHES, (False, True)):
        yield Problem(size, size, size, types=BF16, batch=batch, pointers=pointers)
    for (m, n, k, layout), pointers in product(ATTENTION, (False, True)):
        yield Problem(m, n, k, types=BF16, layout=Layout.parse(layout), batch=64, pointers=pointers)
    yield from _attention(TOKENS, HEADS, HEADS, WIDTH)
    yield from _attention(TOKENS, SHARING, HEADS // SHARING, 0)
    yield from _attention(SHARING, HEADS // SHARING, HEADS // SHARING, WIDTH)


def _attention(rows: int, heads: int, kept: int, apart: int) -> Iterator[Problem]:
    """Both products of a launch for so many `heads`: scores with a mask that all share, and what these weigh of V.

    rows   rows of each: tokens, or the heads that share K and V, of one token
    kept   heads that a row of K, or V, holds side by side
    apart  elements from a head's K, or V, to the next; 0: all share them
    """
    step, row = (WIDTH, HEADS * WIDTH) if rows == TOKENS else (rows * WIDTH, WIDTH)  # from a head, or row, to the next
    each: dict[str, Any] = {"batch": heads, "ldb": kept * WIDTH, "stride_b": apart}
    of_scores: dict[str, Any] = {"types": Types(DType.BF16, DType.BF16, DType.F32), "layout": "rc"}
    of_scores |= {"epilogue": "alpha * acc + residual", "stride_residual": 0}
    yield Problem(rows, TOKENS, WIDTH, lda=row, stride_a=step, **each, **of_scores)
    yield Problem(rows, WIDTH, TOKENS, types=BF16, ldc=row, stride_c=step, **each)


def _batched_goal(problem: Problem) -> Goal:
    case = representative(problem)
    largest = max(case.m, case.n, case.k)
    return Goal(next((ratio for size, ratio in BATCH_GOALS if largest <= size), 1.1))


def _bytes(types: Types) -> tuple[Problem, ...]:
    """Problems of 8-bit types, including one whose operands are not k-major."""
    return (*every(types, BYTES, "rc"), *every(types, cubes(4096), "rr"))


def _integer_goal(problem: Problem) -> Goal:
    return Goal(1.0 if thin_side(problem) <= 4 else 1.02, _share(problem))


def _fused() -> Iterator[Problem]:
    """Linear layers, gated layers, and scaled integers; other groups have only the products of these layers."""
    yield Problem(*LINEAR_LAYER, epilogue="bias+gelu")
    yield from every(BF16, LAYERS, "rc", epilogue="bias+gelu")
    yield from every(BF16, LAYERS[3:4], "rc", epilogue="bias+gelu_tanh")
    yield from every(BF16, GATED, "rc", epilogue="swiglu")
    yield from every(SCALED_S8, (*STREAMED, *BYTES), "rc", epilogue="scale_m+scale_n")


def _fused_goal(problem: Problem) -> Goal:
    """The goal against cuBLASLt's own epilogue, or against its product followed by a kernel."""
    types = problem.types
    if types.uniform:
        return Goal(1.0)
    apart = 1.2 if types.accumulator.is_integer else 1.3
    return Goal(apart if own_epilogue(problem) is None else 1.05, _share(problem))


def _f64() -> Iterator[Problem]:
    yield from every(Types.of(DType.F64), cubes(512, 1000, 1024, 2048, 4096, 8192), "rr")
    yield Problem(1024, 1024, 1024, dtype=DType.F64, layout=Layout.parse("cr"))
    yield from (Problem(size, size, size, dtype=DType.F64, batch=batch) for size, batch in ((16, 4096), (64, 2048)))


def _f64_goal(problem: Problem) -> Goal:
    return Goal(1.0 if not problem.batched and thin_side(problem) >= 1024 else None)


def _codes() -> Iterator[Problem]:
    """Weights of 4 bits, as decoding and short prompts multiply them."""
    for (n, k, _), m in product(CODED, (1, 2, 4, 8, 16, 64, 128, 1024, 4096)):
        yield Problem(m, n, k, types=CODES, layout="rc", inputs="scales=128")


def _codes_goal(problem: Problem) -> Goal:
    """For a few rows the goal is a share of the time that moving the bytes takes; then of a bf16 product's time."""
    case = representative(problem)
    rows = thin_side(problem)
    if rows <= SATURATING:
        return Goal(moving=next(1 / slower for n, k, slower in CODED if (n, k) == (case.n, case.k)))
    return Goal(2.1 if rows <= 64 else 1.3 if rows <= 128 else 0.95)


def _experts() -> Iterator[Problem]:
    for groups, m, n, k in EXPERTS:
        yield Problem(m, n, k, types=BF16, layout="rc", inputs=f"groups={groups}")


def _convolutions() -> Iterator[Problem]:
    for images, size, filters, stride in LAYERS_OF_IMAGES:
        yield Conv(images, size, filters, taps=3, pad=1, stride=stride)


TENSOR_GROUPS = (
    Group("bf16 large", "bf16, large", _large(BF16), lambda problem: Goal(0.97), geomean=1.03),
    Group("f16 large", "f16, large", _large(F16), lambda problem: Goal(0.97), geomean=1.03),
    Group("awkward", "bf16, lines or sizes that suit no tile", every(BF16, AWKWARD, "rr", "rc"), _awkward_goal),
    Group("bf16", f"bf16, up to {FEW} rows or columns of C", tuple(_few_rows(BF16)), _few_rows_goal),
    Group("f16", f"f16, up to {FEW} rows or columns of C", tuple(_few_rows(F16)), _few_rows_goal),
    Group("bf16 batched", "bf16, batched", tuple(_batched()), _batched_goal),
    Group("tf32", "tf32", every(TF32, CUBES, "rr", "rc"), lambda problem: Goal(), geomean=1.03),
    Group("f32 by bf16x6", "f32 by bf16x6", every(PIECES, cubes(2048, 4096, 8192), "rr"), lambda problem: Goal(2.0)),
    Group("fp8", "fp8, sums promoted to f32", _bytes(PROMOTED), lambda problem: Goal(1.05)),
    Group("fp8 fast", "fp8, sums as tensor cores keep them", _bytes(FAST), lambda problem: Goal(1.02)),
    Group(
        "fp8 blocks",
        "fp8 with scales of 1 x 128 and 128 x 128",
        every(PROMOTED, BLOCKED, "rc", inputs="blocks"),
        lambda problem: Goal(1.0),
        geomean=1.1,
    ),
    Group("codes", "bf16 by codes of 4 bits, against cuBLASLt's products of bf16", tuple(_codes()), _codes_goal),
    Group("experts", "bf16, groups of rows with a B each", tuple(_experts()), lambda problem: Goal()),
    Group("convolutions", "bf16, convolutions of 3 x 3 taps", tuple(_convolutions()), lambda problem: Goal()),
    Group("s8", "s8 and u8 to s32", (*every(S8, STREAMED, "rc"), *_bytes(S8)), _integer_goal),
    Group("fused", "with an epilogue", tuple(_fused()), _fused_goal),
    Group("f64", "f64", tuple(_f64()), _f64_goal),
)


def tensor_group(problem: Problem) -> str:
    """The name of a problem's group, if its types or epilogue do not put it into a group of f32."""
    if not problem.epilogue.is_linear:
        scores = problem.batched and adds_residual(problem) and problem.types.a is not DType.F32
        return "bf16 batched" if scores else "fused"
    return _plain_group(problem) if problem.inputs.is_plain else _inputs_group(problem.inputs)


def _inputs_group(inputs: Inputs) -> str:
    """The group of a product that has more than two plain matrices."""
    if inputs.conv is not None:
        return "convolutions"
    if inputs.groups or inputs.gathered:
        return "experts"
    return "fp8 blocks" if inputs.blocks else "codes"


def _plain_group(problem: Problem) -> str:
    """The group of a product of plain matrices."""
    types = problem.types
    if types.accumulator is DType.F64:
        return "f64"
    if types.a is DType.F32 and types.compute is not Compute.FMA:
        return "tf32" if types.compute is Compute.TF32 else "f32 by bf16x6"
    if types.accumulator.is_integer:
        return "s8"
    if {types.a, types.b} & {DType.E4M3, DType.E5M2}:
        return "fp8 fast" if types.compute is Compute.FAST else "fp8"
    return _half_group(problem)


def _half_group(problem: Problem) -> str:
    """The group of a problem with 16-bit operands."""
    if problem.batched:
        return "bf16 batched"
    if is_awkward(problem):
        return "awkward"
    name = "f16" if problem.types.a is DType.F16 else "bf16"
    return name if thin_side(problem) <= FEW else f"{name} large"
