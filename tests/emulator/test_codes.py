"""Kernels that multiply codes of 4 and 8 bits, in the emulator: as they are defined, and bit by bit as planned."""

from __future__ import annotations

import numpy as np
import pytest

import gemmgen
from gemmgen.arrays.emulated import EmulatedBackend
from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.exports.library.spec import spec_from
from gemmgen.families import MMA, SKINNY, WGMMA
from gemmgen.families.base import first_rejection
from gemmgen.problem.device import parse_arch
from gemmgen.problem.epilogue import LINEAR, parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Types
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.support.errors import InvalidInput
from gemmgen.verification.verifier import verify

EXAMPLES = 12
SM_90 = parse_arch("sm_90").limits
KERNELS = (
    ("bf16,u4,bf16", "scales=128+zeros", "rc", (None, 136, 256), {}),
    ("bf16,u4,bf16", "scales=64", "rr", (None, 128, 256), {"BM": 64}),
    ("f16,u4,f16", "scales=32+zeros", "rc", (None, 64, 128), {"BN": 64, "CONSUMERS": 1, "BK": 64}),
    ("f16,s4,f16", "scales=128+zeros", "cc", (None, 192, 256), {"BN": 192, "CONSUMERS": 3, "BM": 32}),
    ("bf16,s4,bf16", "scales=K", "rc", (None, 256, 512), {"BN": 256, "BM": 64, "BK": 256, "STAGES": 2}),
    ("bf16,u4,f32", "scales=128", "rc", (33, 128, 512), {"SPLIT": 2, "PERSISTENT": 0, "BM": 48}),
    ("bf16,u4,bf16", "scales=128+zeros", "rc", (None, 72, 208), {}),  # K ends inside a chunk, and inside a group
    ("f16,u4,f16", "scales=128", "rc", (1, 128, 400), {"BM": 16, "SPLIT": 2, "PERSISTENT": 0}),
    ("bf16,s4,bf16", "scales=64", "rc", (None, 256, 256), {"CLUSTER": 2, "ACROSS": 1}),
    ("bf16,u4,bf16_promoted", "scales=128+zeros", "rc", (None, 136, 512), {}),
    ("f16,u4,f16_promoted", "scales=32+zeros", "rr", (None, 64, 128), {"BN": 64, "CONSUMERS": 1, "BK": 64}),
    ("bf16,s4,bf16_promoted", "scales=K", "rc", (None, 256, 512), {"BN": 256, "BM": 64, "STAGES": 2}),
    ("bf16,u4,f32_promoted", "scales=64", "rc", (33, 128, 624), {"SPLIT": 2, "PERSISTENT": 0, "BM": 48}),
    ("bf16,u8,bf16", "scales=128+zeros", "rc", (None, 72, 208), {}),
    ("f16,s8,f16", "scales=32+zeros", "rr", (None, 64, 128), {"BN": 64, "CONSUMERS": 1, "BK": 64}),
    ("f16,u8,f16", "scales=128+zeros", "cc", (None, 192, 256), {"BN": 192, "CONSUMERS": 3, "BM": 32, "STAGES": 2}),
    ("bf16,s8,bf16", "scales=64", "rc", (33, 128, 400), {"SPLIT": 2, "PERSISTENT": 0, "BM": 48}),
    ("bf16,s8,f32", "scales=K", "rc", (None, 136, 272), {}),
    ("bf16,u8,bf16_promoted", "scales=128+zeros", "rc", (None, 136, 512), {"STAGES": 2}),
    ("f16,s8,f32_promoted", "scales=64", "rc", (33, 128, 624), {"SPLIT": 2, "PERSISTENT": 0, "BM": 48, "STAGES": 3}),
)
MMA_SMALL = {"BM": 64, "BN": 64, "WM": 32, "WN": 32}
BY_MMA = (
    ("bf16,u4,bf16", "scales=128+zeros", "rc", (None, 136, 256), MMA_SMALL, "sm_80"),
    ("f16,u4,f16", "scales=32+zeros", "rr", (None, 64, 128), {"BN": 64, "BK": 64, "WN": 32}, "sm_86"),
    (
        "f16,s4,f16",
        "scales=64",
        "rc",
        (33, 200, 512),
        {"BN": 64, "BK": 64, "WN": 32, "SPLIT": 2, "EXCHANGE": 1},
        "sm_90",
    ),
    ("bf16,s4,f32", "scales=K", "cc", (40, 67, 384), {"SPLIT": 3, "BM": 16}, "sm_80"),
    ("bf16,u4,bf16", "scales=64+zeros", "rc", (None, 72, 256), {"BK": 128, "BM": 64, "WM": 32}, "sm_120"),
    ("bf16,u8,bf16", "scales=128+zeros", "rr", (None, 136, 256), MMA_SMALL, "sm_80"),
    ("bf16,s8,f32", "scales=K", "cc", (40, 67, 384), {"SPLIT": 3, "BM": 16}, "sm_90"),
    ("f16,s8,f16", "scales=32+zeros", "rc", (None, 64, 128), {"BN": 64, "BK": 64, "WN": 32}, "sm_86"),
)


@pytest.fixture(scope="module")
def executor(shared_store):
    with EmulatorExecutor(shared_store) as one:
        yield one


# `make soak` runs all.
FEW = {
    *(KERNELS[number][:4] for number in (0, 3, 5, 6, 9, 13, 14, 18)),
    *(BY_MMA[number][:4] for number in (0, 2, 3, 5)),
}


def some(kernels):
    return [one if one[:4] in FEW else pytest.param(*one, marks=pytest.mark.soak) for one in kernels]


@pytest.mark.parametrize(("types", "inputs", "layout", "sizes", "axes"), some(KERNELS), ids=str)
def test_codes_are_numbers_rounded_once_or_sums_are_scaled(types, inputs, layout, sizes, axes, executor) -> None:
    problem = Problem(
        *sizes,
        types=Types.parse(types),
        layout=layout,
        inputs=inputs,
        epilogue=parse_epilogue("scale_m+bias") if sizes[0] is None and axes else LINEAR,
    )
    config = WGMMA.default(problem).with_values(**axes)
    assert first_rejection(WGMMA, problem, config, SM_90) is None
    source = render(problem, WGMMA, config, "sm_90")
    verdict = verify(executor, source, examples=EXAMPLES, largest=160, runs=2)
    assert verdict.failure is None, verdict.failure
    assert verdict.replayed


@pytest.mark.parametrize(("types", "inputs", "layout", "sizes", "axes", "arch"), some(BY_MMA), ids=str)
def test_codes_packed_alike_are_multiplied_by_mma_sync(types, inputs, layout, sizes, axes, arch, executor) -> None:
    epilogue = LINEAR if "SPLIT" in axes else parse_epilogue("scale_m+bias")
    problem = Problem(*sizes, types=types, layout=layout, inputs=inputs, epilogue=epilogue)
    config = MMA.default(problem).with_values(**axes)
    assert first_rejection(MMA, problem, config, parse_arch(arch).limits) is None
    source = render(problem, MMA, config, arch)
    verdict = verify(executor, source, examples=EXAMPLES, largest=160, runs=2)
    assert verdict.failure is None, verdict.failure
    assert verdict.replayed


@pytest.mark.parametrize(
    ("more", "because"),
    [
        ({"k": None}, "an instruction's numbers of codes are all within K"),
        ({"k": 200}, "an instruction's numbers of codes are all within K"),
        ({"types": "f32,u8,f32"}, "no wgmma multiplies these types"),
        ({"n": 67}, "sums of C's transpose are stored only by TMA"),
    ],
)
def test_what_wgmma_does_not_take_is_refused_with_the_reason(more, because) -> None:
    fields = {"m": None, "n": 128, "k": 256, "types": "bf16,u4,bf16", "layout": "rc", "inputs": "scales=128"} | more
    problem = Problem(**fields)
    rejection = first_rejection(WGMMA, problem, WGMMA.default(problem), SM_90)
    assert rejection is not None and because in rejection.constraint.because


@pytest.mark.parametrize(
    ("types", "inputs", "warps"), [("bf16,u4,bf16", "scales=128", 3), ("f16,s8,f16", "scales=K", 2)]
)
def test_a_step_of_skinny_has_whole_chunks(types, inputs, warps) -> None:
    problem = Problem(8, 128, 768, types=types, layout="rc", inputs=inputs)
    rejection = first_rejection(SKINNY, problem, SKINNY.default(problem).with_values(WARPS=warps), SM_90)
    assert rejection is not None and rejection.constraint.because == "the codes of a block's next step begin a chunk"
    whole = SKINNY.default(problem).with_values(WARPS=2 * warps)
    assert first_rejection(SKINNY, problem, whole, SM_90) is None


BY_SKINNY = (
    ("bf16,u8,bf16", "scales=128+zeros", "rc", (None, 136, 416), {"WARPS": 4}),
    ("f16,s8,f16", "scales=32", "rr", (3, 72, 256), {"WARPS": 2, "T": 32, "UNROLL": 2}),
    ("bf16,s8,f32", "scales=K", "rc", (20, 64, 512), {"WARPS": 4, "S": 16, "SPLIT": 2, "UNROLL": 2}),
)


@pytest.mark.parametrize(("types", "inputs", "layout", "sizes", "axes"), BY_SKINNY, ids=str)
def test_codes_of_8_bits_are_streamed_to_registers(types, inputs, layout, sizes, axes, executor) -> None:
    problem = Problem(*sizes, types=types, layout=layout, inputs=inputs)
    config = SKINNY.default(problem).with_values(**axes)
    assert first_rejection(SKINNY, problem, config, SM_90) is None
    verdict = verify(executor, render(problem, SKINNY, config, "sm_90"), examples=EXAMPLES, largest=160, runs=2)
    assert verdict.failure is None, verdict.failure


def halves(codes):
    """Two codes to a byte, the first in the lower half."""
    return (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)


def test_a_library_packs_codes_once_for_all_its_kernels(shared_store, tmp_path) -> None:
    sizes = {"M": "1..4096", "N": 256, "K": 512}
    fields = {"name": "linear", "types": "bf16,u4,bf16", "layout": "rc", "inputs": "scales=128", **sizes}
    problem = spec_from({"name": "w4", "product": [fields]}, "sm_90", tmp_path).products[0].general
    files = []
    for rows in (16, 64):
        source = render(problem, WGMMA, WGMMA.default(problem).with_values(BM=rows), "sm_90")
        (tmp_path / f"{source.name}.cu").write_text(source.text)
        files.append(f"{source.name}.cu")
    document = {"name": "w4", "architectures": ["sm_90a"], "product": [{**fields, "kernels": files}]}
    gemmgen.library(spec_from(document, "sm_90", tmp_path), to=tmp_path / "w4", device="emulator", examples=0, points=8)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 16, (256, 512), np.uint8)
    scales = (rng.random((4, 256)) / 100).astype(problem.types.a.numpy)
    weights = (codes * scales.repeat(128, 0).T.astype(float)).astype(scales.dtype).astype(float)
    with gemmgen.load_library(tmp_path / "w4", device="emulator") as products:
        linear = products["linear"]
        packed = linear.pack_b(halves(codes), scales)
        for rows in (3, 70):
            a = rng.standard_normal((rows, 512)).astype(scales.dtype)
            np.testing.assert_allclose(
                linear(a, packed).astype(float), a.astype(float) @ weights.T, rtol=0.01, atol=0.01
            )
        chosen = [linear.kernel_for(np.empty((rows, 512), a.dtype), packed).name for rows in (16, 4096)]
    assert len({*chosen}) == 2


@pytest.mark.parametrize(
    ("types", "inputs", "layout"),
    [
        ("bf16,u4,bf16", "scales=128+zeros", "rc"),
        ("f16,s4,f16", "scales=64", "rr"),
        ("bf16,u8,bf16", "scales=128+zeros", "rc"),
        ("f16,s8,f16", "scales=64", "rr"),
    ],
)
def test_arrays_are_multiplied_by_codes_packed_before(types, inputs, layout, shared_store) -> None:
    problem = Problem(None, 128, 256, types=types, layout=layout, inputs=inputs)
    source = render(problem, WGMMA, WGMMA.default(problem), "sm_90")
    number, group = problem.types.a, problem.inputs.group
    rng, groups, bits = np.random.default_rng(0), 256 // group, problem.code_bits
    codes = rng.integers(0, 2**bits, (128, 256), np.uint8)
    zeros = rng.integers(0, 2**bits, (groups, 128), np.uint8) if problem.inputs.zeros else None
    scales = (rng.random((groups, 128)) / 2 ** (bits + 2)).astype(number.numpy)
    a = rng.standard_normal((5, 256)).astype(number.numpy)
    stored = halves if bits == 4 else lambda one: one.view(problem.types.b.numpy)
    held = stored(codes if layout == "rc" else np.ascontiguousarray(codes.T))
    with ArrayKernel(source, EmulatedBackend(source, shared_store)) as kernel:
        c = kernel(a, kernel.pack_b(held, scales, None if zeros is None else stored(zeros)))
        with pytest.raises(InvalidInput, match="multiplies codes with scales: pack_b takes them"):
            kernel.prepare_b(held)
        with pytest.raises(InvalidInput, match="codes have K = 128: this kernel is built for K = 256"):
            kernel.pack_b(held[:, : 16 * bits] if layout == "rc" else held[:128], scales, zeros)
        with pytest.raises(InvalidInput, match=r"scales_b has \d+ elements: this product has \d+"):
            kernel.pack_b(held, scales[:1], None if zeros is None else stored(zeros))
    values = codes.astype(int) if zeros is None else codes.astype(int) - zeros.repeat(group, 0).T
    sign = 2 ** (bits - 1)
    values = (values ^ sign) - sign if problem.types.b.is_signed else values
    weights = (values * scales.repeat(group, 0).T.astype(float)).astype(number.numpy).astype(float)
    np.testing.assert_allclose(c.astype(float), a.astype(float) @ weights.T, rtol=0.01, atol=0.01)
