"""What `mma` serves on which architecture, and that its swizzle leaves no two lines of an access in the same banks."""

from __future__ import annotations

import re
from itertools import product

import pytest

from gemmgen.families import MMA
from gemmgen.families.base import constants, first_rejection
from gemmgen.families.mma.operands import LDMATRIX, LDMATRIX_PAIRS, fragment_of
from gemmgen.problem.convolution import Convolution
from gemmgen.problem.device import ARCHS
from gemmgen.problem.gemm import Problem
from gemmgen.problem.inputs import Inputs
from gemmgen.problem.types import Compute, Types

BANKS, BANK = 128, 4  # bytes that lie in banks of their own, and of one


def served(types: str, compute: Compute, layout: str = "rc", **axes: int) -> set[str]:
    """The architectures on which `types` are, with copies through registers, which all have."""
    problem = Problem(256, 256, 256, types=Types.parse(types, compute), layout=layout)
    config = MMA.default(problem).with_values(**{"ASYNC": 0, "STAGES": 2, **axes})
    return {name for name, arch in ARCHS.items() if first_rejection(MMA, problem, config, arch.limits) is None}


SINCE_80 = {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}


@pytest.mark.parametrize(
    ("types", "compute", "axes", "archs"),
    [
        ("bf16", Compute.FMA, {}, SINCE_80),
        ("f16", Compute.FMA, {"MMA_K": 8}, {"sm_75", *SINCE_80}),
        ("s8,u8,s32", Compute.FMA, {"MMA_K": 16}, {"sm_75"}),
        ("f32", Compute.FMA, {}, set()),
        ("f32", Compute.TF32, {}, SINCE_80),
        ("e4m3", Compute.FMA, {}, {"sm_120"}),  # elsewhere sums are cut to 13 bits, or it is no instruction
        ("e4m3", Compute.FAST, {}, {"sm_89", "sm_120"}),
        ("f64", Compute.FMA, {"MMA_K": 8}, {"sm_90"}),
        ("f64", Compute.FMA, {"MMA_K": 4}, SINCE_80),
        ("f64", Compute.FMA, {"MMA_K": 16}, set()),  # registers of a fragment hold half of it
        ("f16", Compute.F16, {}, SINCE_80),
        ("bf16,f16,f32", Compute.FMA, {}, set()),
    ],
)
def test_a_kernel_is_for_architectures_that_have_its_instruction(
    types: str, compute: Compute, axes: dict[str, int], archs: set[str]
) -> None:
    assert served(types, compute, **axes) == archs


@pytest.mark.parametrize("layout", ["rr", "rc", "cr", "cc"])
@pytest.mark.parametrize(
    ("types", "compute", "axes", "archs"),
    [
        ("s8,s8,s32", Compute.FMA, {}, SINCE_80),
        ("u8,s8,bf16", Compute.FMA, {"MMA_K": 16}, {"sm_75"}),
        ("e4m3,e5m2,f16", Compute.FMA, {}, {"sm_120"}),
        ("e4m3,e5m2,f16", Compute.FAST, {}, {"sm_89", "sm_120"}),
        ("e4m3", Compute.PROMOTED, {}, {"sm_89", "sm_120"}),
    ],
)
def test_elements_of_8_bits_lie_in_any_order(
    types: str, compute: Compute, axes: dict[str, int], archs: set[str], layout: str
) -> None:
    assert served(types, compute, layout, **axes) == archs


def test_lines_that_no_cp_async_fits_go_through_registers() -> None:
    problem = Problem(256, 256, 255, types="bf16", layout="rc")
    assert MMA.default(problem).values["ASYNC"] == 0
    assert MMA.default(Problem(256, 256, 254, types="bf16", layout="rc")).values["ASYNC"] == 1


@pytest.mark.parametrize(
    ("inputs", "changed", "reason"),
    [
        ("im2col=8x9x3_3x3", {}, "cp.async copies 4, 8 or 16 bytes of a pixel"),
        ("im2col=8x9x8_3x3", {"lda": 9}, "cp.async copies 4, 8 or 16 bytes of a pixel"),
        ("im2col=40x9x8_30x3", {}, "a bit for each row and column of taps"),
        ("gathered", {}, "besides plain matrices .* images"),
        ("groups=8", {}, "besides plain matrices .* images"),
        ("scattered", {}, "besides plain matrices .* images"),
    ],
)
def test_images_that_are_refused_say_why(inputs: str, changed: dict[str, int], reason: str) -> None:
    conv = Inputs.parse(inputs).conv
    problem = Problem(None, 64, conv.depth if conv else 64, types="bf16", layout="rc", inputs=inputs, **changed)
    rejection = first_rejection(MMA, problem, MMA.default(problem), ARCHS["sm_80"].limits)
    assert rejection is not None and re.search(reason, rejection.constraint.because)


def test_gradients_of_filters_and_copies_of_pixels_through_registers_are_refused() -> None:
    inputs = "im2col=8x9x8_3x3"
    wgrad = Problem(64, 72, None, types="bf16", layout="cr", inputs=inputs + "+wgrad")
    fprop = Problem(None, 64, 72, types="bf16", layout="rc", inputs=inputs)
    through = MMA.default(fprop).with_values(ASYNC=0, STAGES=2)
    for problem, config, reason in (
        (wgrad, MMA.default(wgrad), "gradients of filters"),
        (fprop, through, "by cp.async"),
    ):
        rejection = first_rejection(MMA, problem, config, ARCHS["sm_80"].limits)
        assert rejection is not None and reason in rejection.constraint.because


@pytest.mark.parametrize("arch", sorted(SINCE_80))
def test_images_are_served_wherever_cp_async_is(arch: str) -> None:
    problem = Problem(None, 64, 576, types="bf16", layout="rc", inputs="im2col=56x56x64_3x3_p1x1", epilogue="bias+relu")
    assert first_rejection(MMA, problem, MMA.default(problem), ARCHS[arch].limits) is None


@pytest.mark.parametrize(
    ("conv", "crosses"),
    [
        ("8x9x8_3x3", (False, False)),
        ("8x9x8_3x3_p1x0", (True, False)),
        ("8x9x8_3x3_p0x0x1x0", (True, False)),
        ("9x9x8_3x3_p0x0x1x0_s2x1", (False, False)),  # the last place ends above the padding
        ("8x9x8_3x3_p0x0x0x2_d1x2", (False, True)),
        ("8x9x8_1x1_s2x2", (False, False)),
    ],
)
def test_taps_lie_around_images_where_padding_is_reached(conv: str, crosses: tuple[bool, bool]) -> None:
    assert Convolution.parse(conv).crosses == crosses


def line_of_pairs(lane: int) -> int:
    """As the kernel has it."""
    return lane // 16 * 16 + lane // 2 % 4 * 4 + (lane // 4 + lane // 8) % 2 * 2 + lane % 2


@pytest.mark.parametrize("types", ["bf16", "s8,s8,s32", "f64"])
@pytest.mark.parametrize("layout", ["rc", "cr"])
@pytest.mark.parametrize(
    "axes",
    [{}, {"BM": 64, "WM": 32, "BN": 32, "WN": 16}, {"BM": 16, "WM": 16, "BN": 256}, {"BM": 32, "WM": 32, "BK": 128}],
    ids=str,
)
def test_what_is_read_at_once_lies_in_banks_of_its_own(types: str, layout: str, axes: dict[str, int]) -> None:
    problem = Problem(512, 512, 512, types=types, layout=layout)
    value = constants(MMA, problem, MMA.default(problem).with_values(**axes))
    for X, along_k in (("A", layout[0] == "r"), ("B", layout[1] == "c")):
        size, line = problem.dtype_of(X).size, value["BK"] if along_k else value["BM" if X == "A" else "BN"]

        def address(row: int, at: int, X: str = X, size: int = size, line: int = line) -> int:
            """Of element `at` of a line, in bytes: as swizzled_a of the kernel has it."""
            place = at ^ row // value[f"{X}_PHASE"] % value[f"{X}_SWIZZLED"] * value[f"CHUNK_{X}"]
            return (row * line + place) * size

        fragment = fragment_of(problem.dtype_of(X), along_k)
        if fragment == LDMATRIX:
            reads = [[(first + row, 0, 16) for row in range(8)] for first in (0, 8)]
        elif fragment == LDMATRIX_PAIRS:
            reads = [[(line_of_pairs(8 * matrix + row), 0, 16) for row in range(8)] for matrix in range(4)]
        else:  # half a warp: four rows or columns of C, each at four k
            at_k = [(mn, k) for mn, k in product(range(4), range(4))]
            reads = [[(mn, k, size) if along_k else (k, mn, size) for mn, k in at_k]]
        for read in reads:
            banks = [
                (address(row, at) + byte) % BANKS // BANK for row, at, width in read for byte in range(0, width, BANK)
            ]
            assert len(set(banks)) == len(banks) == BANKS // BANK
