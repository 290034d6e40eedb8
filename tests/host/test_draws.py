"""The same seed draws the same, whatever else the process has imported; every seed meets every stratum."""

from __future__ import annotations

import math
import random
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from itertools import islice, product
from pathlib import Path

import numpy as np
import pytest

from gemmgen.families import BATCHED, FAMILIES, NAIVE, SIMT, WGMMA
from gemmgen.families.base import Family
from gemmgen.problem.device import ARCHS
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.types import Compute, Types
from gemmgen.render.kernel_text import render
from gemmgen.run.turns import by_turns
from gemmgen.support.errors import InvalidInput
from gemmgen.verification.checks import sampled
from gemmgen.verification.data import data_seed, make_operands
from gemmgen.verification.random_kernels import draw_points
from gemmgen.verification.situation import (
    DATA_KINDS,
    FAR_SIZES,
    MOST_PRODUCTS_BYTES,
    RARE_KINDS,
    ROUND,
    SCALAR_KINDS,
    SIDES,
    SIZES,
    SOME_BATCH,
    STRATA,
    TINY,
    VAST_ELEMENTS,
    VAST_PARTIALS,
    Situation,
    far_situations,
    products_beyond_16_bits,
    side_of,
    stratum,
    vast_situations,
    with_room,
)
from gemmgen.verification.strategies import ENDS, extreme_scalars, full_mantissa
from gemmgen.verification.verifier import DEFAULT_EXAMPLES, stratified_test

FREE = Problem(None, None, None)
REPOSITORY = Path(__file__).parents[2]
DRAW = """
from gemmgen.problem.device import ARCHS
from gemmgen.problem.gemm import Problem
from gemmgen.verification.verifier import stratified_test
stratified_test(print, Problem(None, 64, None), 160, 150, 5)
"""


def drawn(folder: Path, first: str) -> str:
    words = [sys.executable, "-c", first + DRAW]
    environment = {"PYTHONPATH": f"{REPOSITORY}:{folder}", "PYTHONHASHSEED": "random"}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


def test_imported_modules_do_not_change_what_is_drawn(tmp_path: Path) -> None:
    numbers = ", ".join(str(number) for number in range(40, 140))
    (tmp_path / "mine.py").write_text(f"NUMBERS = [{numbers}]\n")
    plain = drawn(tmp_path, "")
    assert plain.count("data=") == 150
    assert drawn(tmp_path, "import mine, gemmgen.cli") == plain


def test_every_stratum_has_its_turn() -> None:
    strata = [stratum(example) for example in range(2 * STRATA)]
    assert strata[:STRATA] == strata[STRATA:]
    assert {(one.data, one.sizes, one.far) for one in strata} >= set(product(DATA_KINDS, SIZES, FAR_SIZES))
    rare = {(one.data, one.side) for one in strata[: 2 * ROUND * len(RARE_KINDS)] if one.data in RARE_KINDS}
    assert rare == set(product(RARE_KINDS, SIDES))
    assert {one.data for one in strata[:3]} == set(DATA_KINDS), "even the shortest of runs meets all"
    scalars = {(one.data, one.scalars) for one in strata[: ROUND * len(SCALAR_KINDS)] if one.data in DATA_KINDS}
    assert scalars == set(product(DATA_KINDS, SCALAR_KINDS))
    assert {(one.data, one.sizes) for one in strata if one.data in RARE_KINDS} == set(product(RARE_KINDS, SIZES))
    assert {one.sizes for one in strata[: len(SIZES)]} == set(SIZES)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 10))])
def test_every_seed_draws_of_every_stratum(seed: int) -> None:
    drawn: list[Situation] = []
    stratified_test(drawn.append, FREE, FAR_SIZES[-1], DEFAULT_EXAMPLES, seed)
    assert len(drawn) == DEFAULT_EXAMPLES
    kinds = Counter(one.data for one in drawn)
    assert min(kinds[kind] for kind in DATA_KINDS) >= 0.2 * len(drawn)
    assert min(kinds[kind] for kind in RARE_KINDS) >= 5
    for data in ("special", "onehot", "denormal"):
        assert {side_of(data_seed(one)) for one in drawn if one.data == data} == set(SIDES)
    scalars = [scalar for one in drawn for scalar in (one.case.alpha, one.case.beta)]
    assert any(math.isinf(one) for one in scalars) and any(math.isnan(one) for one in scalars)
    for low, high in ((0, 2.0**-64), (1, 2), (2.0**64, 2.0**128)):
        assert sum(low < abs(one) < high and 2**10 * math.frexp(one)[0] % 1 != 0 for one in scalars) >= 4
    assert any(one == 0 and math.copysign(1, one) < 0 for one in scalars)
    for size in FAR_SIZES:
        for far in ("m", "n"):
            assert len({one.data for one in drawn if getattr(one.case, far) == size}) >= 2
    for far in ("m", "n"):
        assert sum(getattr(one.case, far) > 2048 for one in drawn) >= 6, "more than 8 tiles of 256"
    tiny = [one for one in drawn if max(one.case.m, one.case.n, one.case.k) <= TINY]
    assert len(tiny) >= 8 and {one.data for one in tiny} >= set(DATA_KINDS)
    usual = {one.case for one in drawn if TINY < max(one.case.m, one.case.n) < FAR_SIZES[0]}
    assert len(usual) >= 20
    assert len({one.seed for one in drawn}) >= 0.8 * len(drawn)


@pytest.mark.parametrize(
    ("types", "k"), [("s8,s8,s32", 520), ("s8,s8,s8", 520), ("s8,u8,f16", 64), ("u8,u8,bf16", 999)]
)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 4))])
def test_sums_of_integers_meet_their_limits_where_c_shows_them(types: str, k: int, seed: int) -> None:
    """Few of 100 situations have such sums, and C holds them."""
    problem = Problem(4, 5, k, types=Types.parse(types))
    a, b = (float(dtype.largest) for dtype in problem.types.operands[:2])
    drawn: list[Situation] = []
    stratified_test(drawn.append, problem, FAR_SIZES[-1], DEFAULT_EXAMPLES, seed)
    held = 0
    for one in drawn:
        operands = make_operands(one)
        sums = one.case.a.view(operands.a).astype(np.float64) @ one.case.b.view(operands.b).astype(np.float64)
        stored = one.case.c.dtype.is_integer and problem.types.scalar.is_integer
        scale = 1.0 if stored else one.case.alpha
        held += bool(np.all(abs(sums) > 0.98 * a * b * k) and np.all(abs(sums * scale) <= problem.types.c.largest))
    assert 5 <= held <= 30


def test_a_wide_tile_meets_the_largest_k_that_it_has_time_for() -> None:
    problem = Problem(None, None, None, types=Types.parse("bf16"), layout=Layout("r", "c"), ld_align=8)
    (deep, *_) = vast_situations(render(problem, WGMMA, WGMMA.default(problem)), FAR_SIZES[-1])
    assert 2**15 < deep.case.k < 2**16 and deep.case.k % 64 == 1


def test_blocks_of_a_persistent_kernel_compute_their_samples_in_turns() -> None:
    problem = Problem(4096, 4096, 4096, types=Types.parse("bf16"), layout=Layout("r", "c"))
    launch, case = render(problem, WGMMA, WGMMA.default(problem)).launch, problem.case()
    samples = [sampled(case, launch, seed) for seed in range(9)]
    turns = [launch.tiles(case) // by_turns(launch, case, tiles)[1] for tiles in samples]
    assert turns == [1, 4, 2] * 3
    assert all(len(set(tiles)) == 4 for tiles in samples)


@pytest.mark.parametrize(
    ("problem", "family", "shapes"),
    [
        (FREE, NAIVE, ["5x5x65801", "1056000x1x1", "1x528000x1"]),
        (FREE, SIMT, ["5x5x65801", "8448000x1x1", "1x4224000x1"]),
        (replace(FREE, m=8), SIMT, ["8x5x65801"]),  # 33,000 of its tiles are too many columns
        (Problem(None, 4096, 4096), NAIVE, []),
        (Problem(None, 21, None), NAIVE, ["5x21x65801"]),
        (Problem(64, 64, 64), NAIVE, []),
    ],
)
def test_depths_and_tiles_beyond_16_bits_are_tried_where_they_take_little(
    problem: Problem, family: Family, shapes: list[str]
) -> None:
    vast = vast_situations(render(problem, family, family.default(problem)), FAR_SIZES[-1])
    assert [str(situation.case).split()[0] for situation in vast] == shapes
    assert all(sum(matrix.elements for matrix in situation.case.matrices) <= VAST_ELEMENTS for situation in vast)


@pytest.mark.parametrize(
    ("problem", "batch"),
    [
        (Problem(32, 32, 32, types=Types.parse("bf16"), batch=None), [65_793]),
        (Problem(None, 4, None, batch=None), [65_793]),
        (Problem(32, 32, 32, batch=None, pointers=True), [65_793]),
        (Problem(32, 32, 32, batch=7), []),
        (Problem(32, 32, 64, batch=None), []),
    ],
)
def test_a_gpu_runs_a_batch_of_products_beyond_16_bits_where_memory_is_enough(
    problem: Problem, batch: list[int]
) -> None:
    found = products_beyond_16_bits(problem)
    assert [one.case.batch for one in found] == batch
    assert all(sum(matrix.bytes for matrix in one.case.matrices) <= MOST_PRODUCTS_BYTES for one in found)


def test_products_whose_partial_sums_take_gigabytes_have_no_room_in_the_emulator() -> None:
    problem = Problem(None, 64, None, batch=None, pointers=True)
    found = products_beyond_16_bits(problem)
    for split, room in ((1, found), (6, [])):
        source = render(problem, SIMT, SIMT.default(problem).with_values(SPLIT=split))
        assert found and with_room(source.launch, found) == room


def test_k_tiles_that_16_bits_do_not_count_are_tried_where_tiles_are_small() -> None:
    config = SIMT.default(FREE).with_values(BM=32, BN=32, TM=4, TN=4, WM=16, WN=32, BK=8)
    vast = vast_situations(render(FREE, SIMT, config), FAR_SIZES[-1])
    assert [situation.case.k for situation in vast if situation.case.k > 1] == [65_801, 8 * 65_537 + 1]


def test_sizes_that_tiles_divide_and_large_ones_are_tried_together() -> None:
    far = far_situations(render(FREE, SIMT, SIMT.default(FREE)), FAR_SIZES[-1])
    assert sum(one.case.m % 256 == one.case.n % 256 == one.case.k % 512 == 0 for one in far) == 2
    assert any(min(one.case.m, one.case.n) > 1024 for one in far)


def test_far_sizes_whose_partial_sums_take_gigabytes_are_left_out() -> None:
    problem = replace(FREE, batch=17)
    for split, most in ((1, 70_001), (24, 2177)):
        source = render(problem, SIMT, SIMT.default(problem).with_values(SPLIT=split))
        far = far_situations(source, FAR_SIZES[-1])
        assert all(source.launch.workspace(one.case).partials <= VAST_PARTIALS for one in far)
        assert max(max(one.case.m, one.case.n) for one in far) == most, "others stay"


def test_batches_beyond_16_bits_are_tried() -> None:
    problem = replace(FREE, batch=None)
    vast = vast_situations(render(problem, NAIVE, NAIVE.default(problem)), FAR_SIZES[-1])
    assert 200_000 in [situation.case.batch for situation in vast]
    small = Problem(8, 8, 8, batch=None)
    (many,) = vast_situations(render(small, BATCHED, BATCHED.default(small)), FAR_SIZES[-1])
    assert many.case.batch > 2**16


def test_a_batch_of_what_a_block_computes_is_tried() -> None:
    problem = Problem(8, 8, 8, batch=None)
    source = render(problem, BATCHED, BATCHED.default(problem))
    products = dict(source.launch.grid)["batch"]
    assert products > 1
    far = [situation for situation in far_situations(source, FAR_SIZES[-1]) if situation.data == "exact"]
    assert [situation.case.batch for situation in far] == [products, SOME_BATCH]


@pytest.mark.parametrize(
    ("problem", "count"), [(FREE, 1), (Problem(8, 8, 8), 1), (Problem(8, 8, 8, types="s8,s8,s32"), 0)]
)
def test_alpha_0_meets_nan_and_infinity(problem: Problem, count: int) -> None:
    far = far_situations(render(problem, NAIVE, NAIVE.default(problem)), FAR_SIZES[-1])
    scaled = [one for one in far if (one.case.alpha, one.case.beta, one.data) == (0, 1, "special")]
    assert len(scaled) == count


def test_no_depth_meets_an_alpha_that_is_no_number() -> None:
    (empty,) = (
        one for one in far_situations(render(FREE, NAIVE, NAIVE.default(FREE)), FAR_SIZES[-1]) if not one.case.k
    )
    assert math.isnan(empty.case.alpha) and empty.case.beta == 2 and empty.data == "exact"
    for problem in (Problem(None, None, 8), replace(FREE, types=Types.parse("s8,s8,s32"))):
        assert all(one.case.k for one in far_situations(render(problem, NAIVE, NAIVE.default(problem)), FAR_SIZES[-1]))


@pytest.mark.parametrize(("epilogue", "met"), [("acc", True), ("zero_a", False)])
def test_zero_points_of_a_c_without_nan_meet_no_alpha_that_is_no_number(epilogue: str, met: bool) -> None:
    problem = Problem(None, None, None, types="u8,s8,s8", epilogue=epilogue)
    far = far_situations(render(problem, NAIVE, NAIVE.default(problem)), FAR_SIZES[-1])
    assert any(math.isnan(one.case.alpha) for one in far) == met


@pytest.mark.parametrize(("dtype", "near"), [(DType.F32, 2.0**-10), (DType.F32, 2.0**-16), (DType.F64, 2.0**-10)])
def test_some_scalars_are_nearly_one_and_minus_one(dtype: DType, near: float) -> None:
    """With a mantissa as full as the others'."""
    scalars = [full_mantissa(number, dtype) for number in range(1, 1000)]
    off = [abs(scalar) - 1 for scalar in scalars]
    assert all((x * 2 ** (dtype.precision - 1)) % 2 == 1 for x in off)
    few = [scalar for scalar, x in zip(scalars, off, strict=True) if x < near]
    assert len(few) > 50 and len(few) < 500 and (min(few) < 0 or near < 2.0**-10)


def test_scalars_are_extreme_each_by_itself_and_together() -> None:
    def sizes(scalar: float) -> str:
        return "0" if scalar == 0 else "tiny" if abs(scalar) < 2.0**-60 else "huge" if abs(scalar) > 2.0**60 else "1"

    drawn = [extreme_scalars(Types.parse("f32"), False, turn, 1.5, 1.25) for turn in range(len(ENDS))]
    assert {(sizes(alpha), sizes(beta)) for alpha, beta in drawn} == {
        *(("tiny", "0"), ("huge", "0"), ("0", "tiny"), ("1", "0"), ("tiny", "tiny"), ("0", "huge"), ("huge", "huge"))
    }


def test_kernels_of_tensor_cores_are_drawn_with_other_computes() -> None:
    drawn = islice(draw_points([FAMILIES["mma"]], ARCHS["sm_90"].limits, seed=1), 30)
    assert {point.problem.types.compute for point in drawn} >= {Compute.FMA, Compute.TF32, Compute.F16}


def test_a_family_that_an_architecture_has_not_is_passed_over() -> None:
    limits = ARCHS["sm_80"].limits
    with pytest.raises(InvalidInput, match="no kernel of wgmma is accepted on sm_80"):
        next(draw_points([FAMILIES["wgmma"]], limits, seed=0))
    assert next(draw_points([FAMILIES["wgmma"], NAIVE], limits, seed=0)).family is NAIVE


def test_threads_that_draw_random_numbers_do_not_disturb_draws() -> None:
    """Those of dask do; hypothesis warns of it, which is an error here."""
    over = threading.Event()

    def disturb() -> None:
        while not over.is_set():
            random.random()

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        points = list(islice(draw_points([NAIVE], ARCHS["sm_90"].limits, 1), 8))
    finally:
        over.set()
        thread.join()
    assert [point.name for point in points] == [
        point.name for point in islice(draw_points([NAIVE], ARCHS["sm_90"].limits, 1), 8)
    ]


def test_an_interrupt_before_hypothesis_has_begun_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hypothesis.core.StateForActualGivenExecution.run_engine", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(draw_points([NAIVE], ARCHS["sm_90"].limits, 0))
