"""Kernels of every element type compute the right thing, and its conversions are those of the types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from gemmgen.families import NAIVE, SIMT, SKINNY, Family
from gemmgen.families.base import check
from gemmgen.kernel.contract import Contract
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import MADE_BY, KernelSource
from gemmgen.problem.device import ARCHS
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.types import Types
from gemmgen.render.kernel_text import environment, render
from gemmgen.render.naming import parse_name
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.executor import Operands
from gemmgen.verification.data import make_operands
from gemmgen.verification.situation import Situation
from gemmgen.verification.verifier import THOROUGH, verify


@pytest.fixture(scope="module")
def emulator() -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor() as executor:
        yield executor


EXAMPLES = 16
SMALL = 96  # sizes whose launches are all watched: a kernel that meets no others is compiled once
NARROW = {"f16": DType.F16, "bf16": DType.BF16, "e4m3": DType.E4M3, "e5m2": DType.E5M2}


@pytest.mark.parametrize(
    ("text", "layout", "examples"),
    [
        ("bf16", "rr", THOROUGH),  # sizes beyond 16 bits, for one of them here
        ("f16", "cr", EXAMPLES),
        ("e4m3", "rc", EXAMPLES),
        ("e5m2,e4m3,f32", "cc", EXAMPLES),
        ("s8,u8,s32", "rr", EXAMPLES),
        ("u8,s8,s8", "rc", EXAMPLES),
    ],
)
def test_naive_kernels_are_right(emulator: EmulatorExecutor, text: str, layout: str, examples: int) -> None:
    problem = Problem(None, None, None, types=Types.parse(text), layout=Layout.parse(layout), pointer_align=4)
    computes(emulator, render(problem, NAIVE, NAIVE.default(problem)), examples)


def computes(emulator: EmulatorExecutor, source: KernelSource, examples: int) -> None:
    """Of all sizes in several schedules where `examples` are THOROUGH, else of small ones."""
    small = {} if examples >= THOROUGH else {"largest": SMALL, "runs": 1}
    verdict = verify(emulator, source, examples=examples, seed=2, **small)
    assert verdict.passed, f"{verdict.situation}: {verdict.failure}"


# C[i] of A[i], of another type.
CONVERT = """
//% from "device/convert.cu" import element_types
${ element_types() }

extern "C" __global__ void __launch_bounds__(256) k(const ${ element.A }* A, ${ element.C }* C, int M)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < M) C[i] = static_cast<${ element.C }>(A[i]);
}
"""


def converted(
    emulator: EmulatorExecutor, given: npt.NDArray[np.generic], types: str, arch: str
) -> npt.NDArray[np.generic]:
    """`given`, of the first of `types`, as the last of them."""
    problem = Problem(None, 1, 1, types=Types.parse(types))
    text = f"{MADE_BY}a test --arch {arch}\n{environment(problem.types, arch).from_string(CONVERT).render()}"
    launch = Launch(256, (("M", 256),))
    taken = [one for one in Contract.of(problem, launch).parameters if one.name in ("A", "C", "M")]
    kernel = emulator.load(KernelSource("k", text, "test", {}, Contract(problem, launch, tuple(taken))))
    case = problem.case(m=len(given))
    b, c = np.zeros(case.b.elements, problem.types.b.numpy), np.zeros(case.c.elements, problem.types.c.numpy)
    result = kernel.run(case, Operands(given, b, c), watch=False)
    kernel.close()
    return result


def near_every_number() -> npt.NDArray[np.float32]:
    """Random bits, every narrow number, the middles between neighbours, and what is next to these."""
    rng = np.random.default_rng(0)
    values = [rng.integers(0, 2**32, 100_000, np.uint32).view(np.float32), np.float32([0, -0.0, np.inf, -np.inf])]
    for dtype in NARROW.values():
        numbers = np.unique(dtype.decode(dtype.finite())).astype(np.float32)
        middles = ((numbers[:-1].astype(np.float64) + numbers[1:]) / 2).astype(np.float32)
        values += [
            numbers,
            middles,
            np.nextafter(middles, np.float32(np.inf)),
            np.nextafter(middles, np.float32(-np.inf)),
        ]
        values.append(np.clip(dtype.largest * np.array([1.01, -1.1, 2]), -3e38, 3e38).astype(np.float32))
    given = np.concatenate(values)
    return given[~np.isnan(given)]


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])  # by arithmetic, and by instructions
@pytest.mark.parametrize("label", NARROW)
def test_stores_round_as_the_types_do(label: str, arch: str, emulator: EmulatorExecutor) -> None:
    given, dtype = near_every_number(), NARROW[label]
    stored = converted(emulator, given, f"f32,f32,{label}", arch).view(dtype.bits)
    want = dtype.encode(given).view(dtype.bits)
    wrong = np.flatnonzero(stored != want)
    assert not len(wrong), f"{given[wrong[0]]!r} is stored as {stored[wrong[0]]:#x}, not {want[wrong[0]]:#x}"


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("label", NARROW)
def test_every_number_is_read_as_what_it_is(label: str, arch: str, emulator: EmulatorExecutor) -> None:
    dtype = NARROW[label]
    codes = np.arange(2 ** (8 * dtype.bits.itemsize), dtype=dtype.bits).view(dtype.numpy)
    np.testing.assert_array_equal(converted(emulator, codes, f"{label},f32,f32", arch), dtype.decode(codes))


@pytest.mark.parametrize(
    ("name", "examples"),
    [
        ("gemm_bf16_rc_3xNxK_la8_skinny_s8_t16_w2_k0_u2_async1_mma1_v4_split2", EXAMPLES),
        ("gemm_e4m3_rr_2xNxK_la16_skinny_s2_t8_l8_w2_k0_u2_d4_v4_split1", EXAMPLES),
        ("gemm_s8u8s32_rc_3xNxK_la4_skinny_s4_t2_w2_k0_u4_async1_v4_split2", EXAMPLES),
        ("gemm_s8s8s32_rc_3xNxK_skinny_s4_t2_w2_k1024_u2_v4_split2", EXAMPLES),
        *(
            pytest.param(name, examples, marks=pytest.mark.soak)
            for name, examples in (
                ("gemm_bf16_rc_3xNxK_skinny_s4_t4_w2_k512_u2_v4_split1", THOROUGH),
                ("gemm_f16_rr_9xNxK_la4_skinny_s8_t8_l8_w2_k0_u2_d4_mma1_v4_split1", EXAMPLES),
                ("gemm_f16_rr_1xNxK_la8_skinny_s1_t8_l4_w2_k0_u2_d4_async1_v4_split2", EXAMPLES),
                ("gemm_e5m2u8f32_rr_3xNxK_la2_skinny_s4_t4_w2_k256_u2_v4_split1", EXAMPLES),
                ("gemm_s8f32f32_cc_3xNxK_la16_skinny_s2_t2_w2_k0_u2_v4_split1", EXAMPLES),
            )
        ),
        ("gemm_bf16_rc_p7_16x8x24_batched_mb4_4x4_v4_pad4_s1_async0_tiles4_minb1", EXAMPLES),
        ("gemm_s8u8s8_rr_bB_8x8x8_batched_mb2_4x4_v4_pad0_s1_async0_tiles1_minb1", EXAMPLES),
        (
            "gemm_f16bf16f32_cr_MxNxK_la4_simt_outer1_32x32x8_4x4_w0x0_v4_ta0_tb0_pad0_s2_async0_unroll0_slices1_minb1_g8_split1",
            EXAMPLES,
        ),
    ],
)
def test_other_families_convert_as_well(emulator: EmulatorExecutor, name: str, examples: int) -> None:
    problem, family, config = parse_name(name)
    check(family, problem, config, ARCHS["sm_90"].limits)
    computes(emulator, render(problem, family, config), examples)


@pytest.mark.parametrize(
    "name",
    [
        "gemm_u8u8s32_rr_2x8x140000_skinny_s2_t4_w2_k256_u2_v4_split3",
        "gemm_u8u8s32_rc_8x8x140000_simt_outer1_8x8x32_2x2_w0x0_v4_ta1_tb1_pad4_s1_async0_unroll0_slices1_minb1_g1_split2",
        "gemm_u8u8s32_rr_b2_2x2x140000_naive_8x8",
    ],
)
def test_integer_sums_wrap_wherever_they_are_added(emulator: EmulatorExecutor, name: str) -> None:
    """255 * 255 * K passes 2^31, in a thread, among a block's and among blocks of a split."""
    problem, family, config = parse_name(name)
    check(family, problem, config, ARCHS["sm_90"].limits)
    kernel = emulator.load(render(problem, family, config))
    case = problem.case(alpha=3.0)
    operands = make_operands(Situation(case, "random", 0))
    full = {"A": np.full_like(operands.a, 255), "B": np.full_like(operands.b, 254)}
    result = kernel.run(case, replace(operands, a=full["A"], b=full["B"]))
    kernel.close()
    wrapped = DType.S32.wrap(np.array(3 * 255 * 254 * 140000))
    assert (case.c.view(result) == wrapped).all()


@pytest.mark.parametrize(
    ("text", "arch", "family"),
    [
        ("bf16", "sm_75", SIMT),
        ("e4m3", "sm_86", SKINNY),  # which unpacks registers
        ("e5m2", "sm_80", NAIVE),
    ],
)
def test_older_architectures_convert_by_arithmetic(
    emulator: EmulatorExecutor, text: str, arch: str, family: Family
) -> None:
    problem = Problem(4, 64, None, types=Types.parse(text))
    made = family.default(problem)
    check(family, problem, made, ARCHS[arch].limits)
    source = render(problem, family, made, arch)
    computes(emulator, source, EXAMPLES)
