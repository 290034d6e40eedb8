"""References' products on the card: what numpy makes of the same operands. Skipped where there is no card."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.types import Types
from gemmgen.run.gpu import executor
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.verification.data import make_operands
from gemmgen.verification.device_products import products_by
from gemmgen.verification.products import products
from gemmgen.verification.situation import EXACT_KINDS, Situation, data_kinds
from gemmgen.verification.window import Window

SCALED = (
    ("bf16,u4,bf16", "scales=32+zeros"),
    ("f16,s4,f16", "scales=K"),
    ("f32,u8,f32", "scales=64+zeros"),
    ("bf16,s8,bf16", "scales=128+zeros"),
    ("bf16,u4,bf16_promoted", "scales=64+zeros"),
    ("bf16,s4,bf16_promoted", "scales=K"),
    ("e4m3,e4m3,bf16_promoted", "blocks"),
    ("e4m3,e4m3,f32_promoted", "blocks+lines+padded"),
)


@pytest.mark.parametrize(("types", "inputs"), SCALED)
@pytest.mark.parametrize("layout", ["rc", "cr"])
def test_products_of_scaled_numbers_are_numpys(
    gpu: GpuExecutor, monkeypatch: pytest.MonkeyPatch, types: str, inputs: str, layout: str
) -> None:
    monkeypatch.setattr(executor, "MULTIPLY_FLOPS", 0)
    parsed = Types.parse(types)
    problem = Problem(70, 131, 300, types=parsed, layout=Layout.parse(layout), inputs=inputs, lda=None, ldb=None)
    dense = problem.case()
    case = problem.case(lda=dense.lda + 8, ldb=dense.ldb + 16)
    for data in data_kinds(parsed):
        if problem.scaled_depth and data == "special":
            continue  # numpy finds sums that are in doubt
        made = products_by(gpu.multiply, Situation(case, data, seed=5))
        assert made is not None
        wanted = products(case, data, 5, Window.whole(case))
        for kind, ours, theirs in zip(("product", "size", "largest"), made, wanted, strict=True):
            if data in EXACT_KINDS and kind == "size":  # they need none
                continue
            if data in EXACT_KINDS:
                np.testing.assert_array_equal(ours, theirs)
            else:
                sizes = np.abs(wanted[1])
                most = sizes[np.isfinite(sizes)].max(initial=0.0)
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * most)


@pytest.mark.parametrize("types", ["f32", "f64", "bf16", "f16", "e4m3,e5m2,bf16", "s8,s8,s32", "u8,s8,bf16"])
@pytest.mark.parametrize(("layout", "batch"), [("rr", 1), ("rc", 1), ("cr", 3), ("cc", 1)])
def test_products_of_a_card_are_numpys(
    gpu: GpuExecutor, monkeypatch: pytest.MonkeyPatch, types: str, layout: str, batch: int
) -> None:
    monkeypatch.setattr(executor, "MULTIPLY_FLOPS", 0)
    parsed = Types.parse(types)
    problem = Problem(130, 71, 97, types=parsed, layout=Layout.parse(layout), batch=batch, lda=None, ldb=None)
    dense = problem.case()
    case = replace(problem.case(lda=dense.lda + 8, ldb=dense.ldb + 16), beta=1.0)
    for data in data_kinds(parsed):
        what = Situation(case, data, seed=5)
        assert make_operands(what)
        made = products_by(gpu.multiply, what)
        assert made is not None
        wanted = products(case, data, 5, Window.whole(case))
        for ours, theirs in zip(made[:2], wanted[:2], strict=True):
            np.testing.assert_array_equal(np.isfinite(ours), np.isfinite(theirs))
            finite = np.isfinite(theirs) & np.isfinite(wanted[1])
            off = np.abs(np.subtract(ours, theirs, where=finite, out=np.zeros_like(theirs)))
            assert (off <= np.where(finite, 97 * 2.0**-52 * np.abs(wanted[1]) + 1e-300, 0)).all()
            if data in EXACT_KINDS or parsed.accumulator.is_integer:
                assert np.array_equal(ours, theirs)
        np.testing.assert_array_equal(made[2], wanted[2])
