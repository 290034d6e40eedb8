"""What counts as right where tensor cores sum: their arithmetic passes on all data, and what is wrong does not."""

from __future__ import annotations

import numpy as np
import pytest

from gemmgen.problem.device import ARCHS
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.mma import MMAS, Mma
from gemmgen.problem.types import PROMOTION, Compute, Types
from gemmgen.support.errors import InvalidInput
from gemmgen.verification.comparison import compare
from gemmgen.verification.data import make_operands
from gemmgen.verification.linear import denormal_field
from gemmgen.verification.situation import DataKind, Situation, data_kinds
from gemmgen.verification.tensor_bound import tensor_bound
from gemmgen.verification.tensor_core import Codes, dot

# Types, compute, the instruction and an architecture that has it.
KERNELS = [
    ("bf16", "fma", "mma_m16n8k16_bf16", "sm_80"),
    ("bf16,bf16,f32", "fma", "mma_m16n8k16_bf16", "sm_90"),
    ("f16", "fma", "mma_m16n8k8_f16", "sm_75"),
    ("f32", "tf32", "mma_m16n8k8_tf32", "sm_80"),
    ("f32", "tf32", "mma_m16n8k8_tf32", "sm_90"),
    ("f16", "f16acc", "mma_m16n8k16_f16_f16", "sm_80"),
    ("f16,f16,f32", "f16acc", "mma_m16n8k16_f16_f16", "sm_90"),
    ("e4m3,e4m3,f32", "fma", "mma_m16n8k32_e4m3", "sm_120"),
    ("e4m3,e5m2,bf16", "promoted", "mma_m16n8k32_e4m3e5m2", "sm_89"),
    ("e4m3", "fast", "mma_m16n8k32_e4m3", "sm_89"),
]
ANY_KERNEL = pytest.mark.parametrize(("text", "compute", "instruction", "arch"), KERNELS)


def sums(mma: Mma, arch: str, a: Codes, b: Codes, promoted: bool) -> np.ndarray:
    """Of each row of A and column of B, whose k come last."""
    k = -(-a.shape[-1] // mma.k) * mma.k
    a, b = (np.pad(codes, ((0, 0), (0, k - codes.shape[-1]))) for codes in (a, b))
    dtype = mma.accumulator
    total = np.zeros((len(a), len(b)), np.float32)
    interval = PROMOTION if promoted else max(k, 1)
    for first in range(0, k, interval):
        at = slice(first, first + interval)
        zero = np.zeros(total.shape, dtype.bits)
        part = dot(mma, ARCHS[arch], a[:, None, at], b[None, :, at], zero).view(dtype.numpy)
        total = total + part.astype(np.float32)
    return total


def computed(what: Situation, instruction: str, arch: str, missing: int | None = None) -> np.ndarray:
    """C of a kernel that uses the instruction, k by k, but for a `missing` one."""
    case, operands, types = what.case, make_operands(what), what.case.problem.types
    a, b = case.a.view(operands.a), case.b.view(operands.b).T
    if types.compute is Compute.TF32:
        a, b = (rounded_to_tf32(values) for values in (a, b))
    if missing is not None:
        a, b = (np.delete(values, missing, axis=1) for values in (a, b))
    codes = (np.ascontiguousarray(values).view(types.a.bits) for values in (a, b))
    with np.errstate(all="ignore"):
        total = sums(MMAS[instruction], arch, *codes, types.compute is Compute.PROMOTED)
        scaled = np.float32(case.alpha) * total
        if case.beta != 0:
            scaled = scaled + np.float32(case.beta) * case.c.dtype.decode(case.c.view(operands.c)).astype(np.float32)
        stored = types.c.encode(scaled)
    result = operands.c.copy()
    case.c.view(result)[...] = stored
    return result


def rounded_to_tf32(values: np.ndarray) -> np.ndarray:
    """To nearest, ties away from zero, as cvt.rna does; Inf and NaN stay."""
    bits = values.view(np.uint32)
    return np.where(np.isfinite(values), bits + 0x1000 & 0xFFFFE000, bits).astype(np.uint32).view(np.float32)


def situations(types: Types, k: int, seeds: int) -> list[Situation]:
    problem = Problem(None, None, None, types=types)
    scalars = ((1.0, 0.0), (-1.0, 2.0))
    return [
        Situation(problem.case(13, 11, k, alpha=scalars[seed % 2][0], beta=scalars[seed % 2][1]), data, seed)
        for data in data_kinds(types)
        for seed in range(seeds)
    ]


@ANY_KERNEL
@pytest.mark.parametrize("seeds", [2, pytest.param(8, marks=pytest.mark.soak)])  # with and without C
def test_sums_of_tensor_cores_are_right(text: str, compute: str, instruction: str, arch: str, seeds: int) -> None:
    types = Types.parse(text, Compute.parse(compute))
    for k in (0, 1, 70, 300):
        for what in situations(types, k, seeds):
            comparison = compare(what, computed(what, instruction, arch))
            assert comparison.mismatch is None, f"{what}: {comparison.mismatch}"


@ANY_KERNEL
@pytest.mark.parametrize("data", ["exact", "onehot"])
def test_a_missing_product_is_wrong(text: str, compute: str, instruction: str, arch: str, data: DataKind) -> None:
    types = Types.parse(text, Compute.parse(compute))
    case = Problem(48, 11, 40, types=types).case()
    what = Situation(case, data, seed=0)
    assert compare(what, computed(what, instruction, arch, missing=39)).mismatch is not None


@pytest.mark.parametrize("text", ["f16,f16,f32", "bf16,bf16,f32"])
def test_products_of_denormals_are_aligned_by_the_exponents_of_normal_numbers(text: str) -> None:
    """Few products of denormals: what their alignment cuts is more than the sum's own bits. A fuzz run met it."""
    types = Types.parse(text)
    instruction = {"f16": "mma_m16n8k8_f16", "bf16": "mma_m16n8k16_bf16"}[types.a.label]
    case = Problem(64, 64, 2, types=types).case()
    for seed in range(8):
        what = Situation(case, "denormal", seed)
        comparison = compare(what, computed(what, instruction, "sm_90"))
        assert comparison.mismatch is None, f"{what}: {comparison.mismatch}"


@pytest.mark.parametrize(("types", "largest"), [("e4m3,e5m2,f32", DType.E4M3), ("e5m2,e4m3,f32", DType.E4M3)])
def test_the_largest_denormal_product_is_of_either_operand(types: str, largest: DType) -> None:
    case = Problem(4, 4, 4, types=types).case()
    assert denormal_field(Situation(case, "denormal", 0)) == 2.0**largest.min_exponent
    assert denormal_field(Situation(case, "special", 0)) == denormal_field(Situation(case, "denormal", 0))
    assert denormal_field(Situation(case, "random", 0)) == 0.0


def test_special_data_has_strips_of_denormals() -> None:
    """Their sums are off by more than those of normal numbers. A fuzz run met it."""
    case = Problem(38, 8, 4, types=Types.parse("f16,f16,f32"), layout="rc").case()
    for seed in range(32):
        what = Situation(case, "special", seed)
        comparison = compare(what, computed(what, "mma_m16n8k8_f16", "sm_90"))
        assert comparison.mismatch is None, f"{what}: {comparison.mismatch}"


def test_sums_of_one_sign_that_are_cut_at_each_step_are_right() -> None:
    """f32's own bound is too narrow for these."""
    mma, k = MMAS["mma_m16n8k16_f16"], 2**14
    rng = np.random.default_rng(1)
    a, b = (rng.random((4, k)).astype(np.float16) for _ in range(2))
    exact = a.astype(np.float64) @ b.T.astype(np.float64)
    found = sums(mma, "sm_80", a.view(np.uint16), b.view(np.uint16), promoted=False)
    error = np.abs(found - exact)
    f32 = 6 * np.sqrt(k + 2) * 2.0**-24 * exact
    beyond = tensor_bound(Types.parse("f16,f16,f32"), k, k, exact, exact, np.zeros((1, 1)))
    assert (error > f32).all() and (error < f32 + beyond).all() and (beyond < 12 * f32).all()


def test_what_cuda_cores_compute_is_off_by_no_more() -> None:
    one = np.ones((2, 2))
    for text in ("f32", "f64", "s8,s8,s32", "bf16,s8,f32", "bf16,f16,f32"):
        assert np.all(tensor_bound(Types.parse(text), 64, 64, one, one, one) == 0.0), text


@pytest.mark.parametrize(
    ("text", "compute"), [("bf16", "tf32"), ("bf16", "f16acc"), ("f16", "fast"), ("f32", "promoted")]
)
def test_a_compute_is_refused_for_other_types(text: str, compute: str) -> None:
    with pytest.raises(InvalidInput, match=f"A of {text}: {compute} multiplies "):
        Types.parse(text, Compute.parse(compute))


@pytest.mark.parametrize(
    ("text", "compute", "token"), [("f32", "tf32", "f32_tf32"), ("e4m3,e4m3,bf16", "fast", "e4m3e4m3bf16_fast")]
)
def test_names_say_the_compute(text: str, compute: str, token: str) -> None:
    types = Types.parse(text, Compute.parse(compute))
    assert types.token == token and Types.from_token(token) == types
    assert types != Types.parse(text)


def test_one_hot_data_of_tf32_adds_up_to_what_f32_has() -> None:
    """Far into the codes, where C would not."""
    types = Types.parse("f32", Compute.TF32)
    for seed in range(8):
        what = Situation(Problem(7, 2562, 1, types=types).case(beta=1.0), "onehot", seed)
        assert compare(what, computed(what, "mma_m16n8k8_tf32", "sm_90")).mismatch is None


def test_tf32_has_the_numbers_that_one_hot_data_reads() -> None:
    what = Situation(Problem(8, 64, 64, types=Types.parse("f32", Compute.TF32)).case(), "onehot", 4)
    operands = make_operands(what)
    for flat in (operands.a, operands.b):
        np.testing.assert_array_equal(rounded_to_tf32(flat).view(np.uint32), flat.view(np.uint32))
    assert len(np.unique(operands.b)) + len(np.unique(operands.a)) > 400
    assert DType.F32.numpy == operands.a.dtype
