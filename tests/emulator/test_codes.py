"""Kernels of wgmma that multiply codes of 4 bits, in the emulator: as they are defined, and bit by bit as planned."""

from __future__ import annotations

import pytest

from gemmgen.families import WGMMA
from gemmgen.families.base import first_rejection
from gemmgen.problem.device import parse_arch
from gemmgen.problem.epilogue import LINEAR, parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.verification.verifier import verify

EXAMPLES = 12
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
)


@pytest.fixture(scope="module")
def executor(shared_store):
    with EmulatorExecutor(shared_store) as one:
        yield one


@pytest.mark.parametrize(("types", "inputs", "layout", "sizes", "axes"), KERNELS, ids=str)
def test_codes_are_numbers_rounded_once(types, inputs, layout, sizes, axes, executor) -> None:
    problem = Problem(
        *sizes,
        types=types,
        layout=layout,
        inputs=inputs,
        epilogue=parse_epilogue("scale_m+bias") if sizes[0] is None and axes else LINEAR,
    )
    config = WGMMA.default(problem).with_values(**axes)
    assert first_rejection(WGMMA, problem, config, parse_arch("sm_90").limits) is None
    source = render(problem, WGMMA, config, "sm_90")
    verdict = verify(executor, source, examples=EXAMPLES, largest=160, runs=2)
    assert verdict.failure is None, verdict.failure
    assert verdict.replayed


@pytest.mark.parametrize(
    ("more", "because"),
    [
        ({"k": None}, "an instruction's numbers of codes are all within K"),
        ({"k": 200}, "an instruction's numbers of codes are all within K"),
        ({"types": "bf16,u8,bf16"}, "it multiplies B of 4 bits"),
        ({"n": 67}, "sums of C's transpose are stored only by TMA"),
    ],
)
def test_what_wgmma_does_not_take_is_refused_with_the_reason(more, because) -> None:
    fields = {"m": None, "n": 128, "k": 256, "types": "bf16,u4,bf16", "layout": "rc", "inputs": "scales=128"} | more
    problem = Problem(**fields)
    rejection = first_rejection(WGMMA, problem, WGMMA.default(problem), parse_arch("sm_90").limits)
    assert rejection is not None and because in rejection.constraint.because
