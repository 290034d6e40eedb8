"""In which order plans say that kernels sum, and what comes of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gemmgen.families import FAMILIES, NAIVE
from gemmgen.kernel.plan import SumOrder
from gemmgen.problem.device import ARCHS
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.mma import MMAS
from gemmgen.problem.types import Compute, Types
from gemmgen.problem.wgmma import Wgmma
from gemmgen.render.kernel_text import render
from gemmgen.verification.bit_replay import order_of, sums_of
from gemmgen.verification.tensor_core import Codes
from gemmgen.verification.tensor_core_recordings import Recording, is_recorded
from gemmgen.verification.vectors import random_vectors

SM_90, SM_89 = ARCHS["sm_90"], ARCHS["sm_89"]
BF16, TF32, E4M3 = (MMAS[f"mma_{name}"] for name in ("m16n8k16_bf16", "m16n8k8_tf32", "m16n8k32_e4m3"))


def drawn(dtype: DType, elements: int, k: int, seed: int = 1) -> Codes:
    return dtype.encode(np.random.default_rng(seed).uniform(-1, 1, (elements, k))).view(dtype.bits)


@pytest.mark.parametrize("splits", [1, 3])
def test_ranges_of_a_split_cover_k_once(splits: int) -> None:
    order = SumOrder(BF16, 32, splits)
    for k in (0, 1, order.step, 5 * order.step + 1, 1000):
        ranges = order.ranges(k)
        assert len(ranges) == splits and ranges[0][0] == 0 and ranges[-1][1] == k
        assert all(one[1] == other[0] for one, other in pairwise(ranges))
        assert all(first % order.step == 0 or first == k for first, _ in ranges)


def test_what_no_plan_says_is_not_replayed() -> None:
    problem, mma = Problem(None, None, None, types="bf16"), FAMILIES["mma"]
    assert order_of(render(problem, NAIVE, NAIVE.default(problem))) is None
    source = render(problem, mma, mma.default(problem))
    assert order_of(source) is not None
    assert order_of(replace(source, config={**source.config, "WM": 0})) is None, "no plan has this"


def test_a_wgmma_sums_as_an_mma_of_its_architecture_does() -> None:
    types, (a, b) = Types.parse("bf16,bf16,f32"), (drawn(DType.BF16, 20, 100, seed) for seed in (1, 2))
    wgmma = Wgmma(128, DType.BF16, DType.BF16, DType.F32)
    mine, theirs = (sums_of(SumOrder(one, 64), SM_90, types, a, b) for one in (wgmma, BF16))
    assert np.array_equal(mine.view(np.uint32), theirs.view(np.uint32))


def test_promoted_sums_begin_at_zero_and_are_added_up_in_f32() -> None:
    types, (a, b) = Types.parse("e4m3,e4m3,f32", Compute.PROMOTED), (drawn(DType.E4M3, 20, 100, s) for s in (1, 2))
    found = sums_of(SumOrder(E4M3, 32, promotion=32), SM_89, types, a, b)
    added = np.zeros(20, np.float32)
    for first in range(0, 100, 32):
        added += sums_of(SumOrder(E4M3, 32), SM_89, types, *(x[:, first : first + 32] for x in (a, b)))
    assert np.array_equal(found, added)
    assert not np.array_equal(found, sums_of(SumOrder(E4M3, 32), SM_89, types, a, b))


def test_tf32_is_rounded_at_ties_as_the_order_says() -> None:
    types, one = Types.parse("f32", Compute.TF32), np.ones((3, 1), np.float32).view(np.uint32)
    tie, inf = np.float32(1 + 2.0**-11), np.float32(np.inf)
    a = np.array([[tie], [-tie], [inf]], np.float32).view(np.uint32)
    away, even, cut = (sums_of(SumOrder(TF32, 8, tf32=how), SM_90, types, a, one) for how in ("away", "even", "cut"))
    assert away.tolist() == [1 + 2.0**-10, -1 - 2.0**-10, np.inf]
    assert even.tolist() == cut.tolist() == [1, -1, np.inf]
    odd = (np.float32(1 + 2.0**-10 + 2.0**-11)).reshape(1, 1).view(np.uint32)
    assert sums_of(SumOrder(TF32, 8, tf32="even"), SM_90, types, odd, one[:1]).tolist() == [1 + 2.0**-9]


def test_cards_of_some_instructions_are_recorded() -> None:
    assert is_recorded(BF16, SM_90) and is_recorded(TF32, SM_90)
    assert not is_recorded(BF16, SM_89)


def test_a_wgmma_is_recorded_where_one_of_its_types_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = random_vectors(Wgmma(8, DType.BF16, DType.BF16, DType.F32), 16, products=1, seed=1)
    Recording("sm_90", {}, ((vectors, vectors.expected("sm_90")),)).save(tmp_path / "sm_90_a_test.npz")
    monkeypatch.setattr("gemmgen.verification.tensor_core_recordings.FOLDER", tmp_path)
    assert is_recorded(Wgmma(128, DType.BF16, DType.BF16, DType.F32, trans_b=True), SM_90)
    assert not is_recorded(Wgmma(128, DType.F16, DType.F16, DType.F32), SM_90)
    assert not is_recorded(BF16, SM_90)
