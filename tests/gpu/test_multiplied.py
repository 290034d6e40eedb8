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
