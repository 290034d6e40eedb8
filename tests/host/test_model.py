"""Occupancy against figures worked out by hand from NVIDIA's tables; predictions against what must order them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmgen.families import MMA, NAIVE, SIMT, SKINNY, WGMMA, Config, Family
from gemmgen.families.wgmma.cost import BLOCK_START, TMA_LATENCY, box_lines
from gemmgen.families.wgmma.operands import operands
from gemmgen.judge.explain import BOUNDS, TENSOR_BOUNDS, bound_in_words
from gemmgen.kernel.cost import L2_BYTES_PER_CYCLE
from gemmgen.kernel.model import REPRESENTATIVE_SIZE, Occupancy, Prediction, occupancy, predict, representative
from gemmgen.kernel.plan import Bound, Share
from gemmgen.problem.device import ARCHS, DEVICES, MAX_REGISTERS, Arch, device_named
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.types import Types

LAPTOP = device_named("RTX 4050 Laptop")  # sm_89
SQUARE = Problem(1024, 1024, 1024)


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "expected"),
    [
        # 100 registers are allocated as 104: each of 4 partitions has 16384 / (32 * 104) = 4 warps' worth.
        ("sm_89", 256, 100, 8 * 1024, Occupancy(2, 16, 1 / 3, "registers")),
        ("sm_89", 64, 100, 4 * 1024, Occupancy(8, 16, 1 / 3, "registers")),
        ("sm_89", 256, 32, 0, Occupancy(6, 48, 1.0, "threads")),
        ("sm_89", 1024, 32, 0, Occupancy(1, 32, 2 / 3, "threads")),
        ("sm_89", 32, 16, 0, Occupancy(24, 24, 0.5, "blocks")),
        ("sm_89", 16, 16, 0, Occupancy(24, 24, 0.5, "blocks")),  # half a warp takes the place of one
        ("sm_80", 256, 32, 81 * 1024, Occupancy(2, 16, 0.25, "shared memory")),
        ("sm_80", 256, 32, 82 * 1024, Occupancy(1, 8, 0.125, "shared memory")),  # with 1 KB reserved a block
        ("sm_75", 256, 32, 32 * 1024, Occupancy(2, 16, 0.5, "shared memory")),  # none is reserved before sm_80
        ("sm_90", 256, 64, 0, Occupancy(4, 32, 0.5, "registers")),
        ("sm_90", 256, 255, 0, Occupancy(1, 8, 0.125, "registers")),
        ("sm_90", 1024, 128, 0, Occupancy(0, 0, 0.0, "registers")),
    ],
)
def test_occupancy(arch: str, threads: int, registers: int, shared: int, expected: Occupancy) -> None:
    found = occupancy(ARCHS[arch], threads, registers, shared)
    assert (found.blocks, found.warps, found.limiter) == (expected.blocks, expected.warps, expected.limiter)
    assert found.share == pytest.approx(expected.share)


@given(
    st.sampled_from(list(ARCHS.values())),
    st.integers(1, 1024),
    st.integers(1, 254),
    st.integers(0, 48 * 1024),
)
def test_more_of_anything_never_fits_more_blocks(arch: Arch, threads: int, registers: int, shared: int) -> None:
    def blocks(threads: int, registers: int, shared: int) -> int:
        return occupancy(arch, threads, registers, shared).blocks

    fit = blocks(threads, registers, shared)
    assert blocks(min(threads + 32, 1024), registers, shared) <= fit
    assert blocks(threads, registers + 1, shared) <= fit
    assert blocks(threads, registers, shared + 128) <= fit


def prediction(family: Family, registers: int | None = None, **changes: int) -> Prediction:
    config: Config = family.default(SQUARE).with_values(**changes)
    return predict(family.plan(SQUARE, config), LAPTOP, registers)


def test_the_ladder_descends() -> None:
    ladder = [
        prediction(NAIVE),
        prediction(SIMT, OUTER=0),
        prediction(SIMT, STAGES=1),
        prediction(SIMT),
    ]
    times = [rung.time_us for rung in ladder]
    assert times == sorted(times, reverse=True)
    assert times[0] > 5 * times[-1]


def test_no_prediction_beats_the_card() -> None:
    for rung in (prediction(NAIVE), prediction(SIMT), prediction(SIMT, TM=4, TN=4, WM=32, WN=16)):
        assert 0 < rung.tflops(SQUARE.case()) <= LAPTOP.tflops(DType.F32)


def test_a_kernel_that_cannot_launch_takes_forever() -> None:
    never = prediction(NAIVE, registers=255, BM=32, BN=32)
    assert never.occupancy.blocks == 0
    assert math.isinf(never.time_us) and math.isinf(never.waves)


def test_spills_cost_time() -> None:
    assert prediction(SIMT, registers=320).time_us > prediction(SIMT, registers=255).time_us


def test_waves_are_blocks_over_blocks_at_once() -> None:
    found = prediction(SIMT, registers=100)
    assert found.waves == pytest.approx((1024 // 128) ** 2 / (found.occupancy.blocks * LAPTOP.sms))


def test_waves_of_a_persistent_kernel_are_turns_of_its_blocks() -> None:
    """4096 x 4096 in tiles of 128 x 256 are 512, which 132 SMs compute in 4 turns: 128 blocks do as well."""
    problem = Problem(4096, 4096, 4096, types=Types.parse("bf16"), layout=Layout.parse("rc"))
    config = WGMMA.default(problem).with_values(BM=128, BN=256)
    plans = (WGMMA.plan(problem, config.with_values(PERSISTENT=persistent)) for persistent in (1, 0))
    turns, waves = (predict(plan, DEVICES["H200"]).waves for plan in plans)
    assert turns == 4
    assert waves == pytest.approx(512 / 132)


def test_a_consumers_epilogue_costs_what_no_products_hide() -> None:
    """It is left out where consumers take turns, and where a block has one tile alone."""

    def time_us(n: int, c: str, pingpong: int) -> float:
        problem = Problem(2048, n, 1024, types=Types.parse(f"s8,s8,{c}"), layout=Layout.parse("rc"))
        config = WGMMA.default(problem).with_values(BM=128, BN=128, STAGES=6, PINGPONG=pingpong)
        return predict(WGMMA.plan(problem, config), DEVICES["H200"]).time_us

    longer, shorter = (time_us(2048, c, 0) - time_us(2048, c, 1) for c in ("s32", "bf16"))
    assert longer == pytest.approx(2 * shorter, rel=0.05) and shorter > 0.1
    assert time_us(1024, "s32", 0) == time_us(1024, "s32", 1)


def test_functions_of_an_epilogue_cost_what_no_products_hide() -> None:
    """Of consumers in turns one multiplies while the other computes them."""

    def time_us(epilogue: str, pingpong: int) -> float:
        problem = Problem(4096, 4096, 1024, types=Types.parse("bf16"), layout=Layout.parse("rc"), epilogue=epilogue)
        config = WGMMA.default(problem).with_values(BM=128, BN=128, STAGES=6, PINGPONG=pingpong)
        return predict(WGMMA.plan(problem, config), DEVICES["H200"]).time_us

    assert time_us("acc", 0) < time_us("relu(acc)", 0) < time_us("gelu(acc)", 0) < time_us("sigmoid(acc)", 0)
    assert time_us("gelu(acc)", 1) == time_us("acc", 1)


def test_a_block_that_is_launched_for_each_tile_starts_its_copies_each_time() -> None:
    """Not its first: a launch of a single turn takes as long. And the other block of an SM computes meanwhile."""

    def lost_us(m: int, **axes: int) -> float:
        problem = Problem(m, 2112, 2048, types=Types.parse("bf16"), layout=Layout.parse("rc"))
        config = WGMMA.default(problem).with_values(BM=128, BN=128, **axes)
        plans = (WGMMA.plan(problem, config.with_values(PERSISTENT=persistent)) for persistent in (0, 1))
        one, many = (predict(plan, DEVICES["H200"]).time_us for plan in plans)
        return one - many

    assert lost_us(128) == 0
    assert lost_us(128 * 132, STAGES=6) == pytest.approx(16 * (BLOCK_START + TMA_LATENCY) / 1980, rel=0.1)


def test_a_warpgroup_alone_that_keeps_no_products_in_flight_leaves_tensor_cores_idle() -> None:
    """Beside another one, in its block or in the SM's other block, they have work."""

    def lost(**axes: int) -> float:
        problem = Problem(4096, 4096, 4096, types=Types.parse("bf16"), layout=Layout.parse("rc"))
        config = WGMMA.default(problem).with_values(**{"BM": 128, "BN": 128, "STAGES": 6, **axes})
        plans = (WGMMA.plan(problem, config.with_values(IN_FLIGHT=one)) for one in (0, 1))
        alone, beside = (predict(plan, DEVICES["H200"]).time_us for plan in plans)
        return alone / beside

    assert lost(CONSUMERS=1) > 1.1 and lost(CONSUMERS=2, PINGPONG=1) > 1.1
    assert lost(CONSUMERS=2) == 1 == lost(CONSUMERS=1, BM=64, STAGES=3, PERSISTENT=0)


def test_streams_of_many_short_blocks_wait_for_each_ones_first_bytes() -> None:
    problem = Problem(4, 4096, 4096, layout=Layout.parse("rc"))

    def time_us(split: int) -> float:
        return predict(SKINNY.plan(problem, SKINNY.default(problem).with_values(SPLIT=split)), DEVICES["H200"]).time_us

    assert time_us(1) < time_us(16) < time_us(32)


def test_of_split_sums_each_tiles_last_block_reads_all() -> None:
    """It is one SM that reads them: with twice the parts, twice as long, however many SMs wrote them."""

    def added_us(split: int) -> float:
        problem = Problem(256, 256, 64 * 64, types=Types.parse("bf16,bf16,f32"), layout=Layout.parse("rc"))
        plan = MMA.plan(problem, MMA.default(problem).with_values(BM=128, BN=128, SPLIT=split))
        case = representative(problem)
        return plan.cost(Share(case, DEVICES["H200"], plan.launch.blocks(case), 1, 0)).reduction_us

    read_us = 128 * 128 * 4 / L2_BYTES_PER_CYCLE / 1980
    assert added_us(16) - added_us(8) == pytest.approx(8 * read_us)
    assert added_us(1) == 0


def test_no_prediction_beats_a_cards_tensor_cores() -> None:
    for card in DEVICES.values():
        for types in ("f16", "s8,s8,s32"):
            problem = Problem(8192, 8192, 8192, types=Types.parse(types), layout=Layout.parse("rc"))
            found = predict(MMA.plan(problem, MMA.default(problem)), card)
            factor, sums = problem.types.factors[0], problem.types.accumulator
            assert found.tflops(representative(problem)) < card.tensor_tflops(factor, sums)


def test_where_l2_delivers_less_large_tiles_gain_on_small_ones() -> None:
    def gain(arch: Arch) -> float:
        problem = Problem(8192, 8192, 8192, types=Types.parse("s8,s8,s32"), layout=Layout.parse("rc"))
        configs = (MMA.default(problem).with_values(BM=tile, BN=tile, WM=32, WN=32) for tile in (64, 128))
        card = replace(DEVICES["L4"], arch=arch)
        small, large = (predict(MMA.plan(problem, config), card, 128).time_us for config in configs)
        return small / large

    assert gain(ARCHS["sm_89"]) > 1.2 * gain(replace(ARCHS["sm_89"], l2_share=1.0))


def test_sectors_that_are_stored_in_part_take_as_long_as_whole_ones() -> None:
    """Four lanes of mma store pairs of a row: 16 bytes of bf16, 32 of f32."""

    def time_us(c: str, exchange: int) -> float:
        problem = Problem(8192, 8192, 64, types=Types.parse(f"bf16,bf16,{c}"), layout=Layout.parse("rc"))
        config = MMA.default(problem).with_values(EXCHANGE=exchange)
        return predict(MMA.plan(problem, config), DEVICES["H200"]).time_us

    assert time_us("bf16", 0) > 1.5 * time_us("bf16", 1)
    assert time_us("f32", 0) == time_us("f32", 1)


def test_short_lines_of_a_box_take_as_long_as_long_ones() -> None:
    """Of a row-major B they have 16 columns where tiles have 176, 64 where these are 192; of a column-major one, k."""

    def slower(columns: int) -> float:
        def time_us(layout: str) -> float:
            problem = Problem(4096, 4096, 4096, types=Types.parse("bf16"), layout=Layout.parse(layout))
            config = WGMMA.default(problem).with_values(BM=128, BN=columns, STAGES=4)
            return predict(WGMMA.plan(problem, config), DEVICES["H100"]).time_us

        return time_us("rr") / time_us("rc")

    assert slower(176) > 1.3 and slower(192) == pytest.approx(1)


def test_lines_that_a_cluster_shares_are_asked_for_once() -> None:
    def lines(cluster: int, across: int) -> float:
        problem = Problem(4096, 4096, 4096, types=Types.parse("bf16"), layout=Layout.parse("rc"))
        config = WGMMA.default(problem).with_values(BM=128, BN=256, CLUSTER=cluster, ACROSS=across)
        return sum(box_lines(one, config) for one in operands(problem, config))

    assert (lines(1, 0), lines(2, 0), lines(2, 1)) == (128 + 256, 128 + 192, 96 + 256)


def test_short_runs_of_the_larger_matrix_lose_bandwidth() -> None:
    def time_us(layout: str, depth: int, m: int = 16, n: int = 16384) -> float:
        problem = Problem(m, n, 16384, types=Types.parse("bf16"), layout=Layout.parse(layout))
        config = WGMMA.default(problem).with_values(BM=64, BN=64, CONSUMERS=1, BK=depth, STAGES=512 // depth)
        return predict(WGMMA.plan(problem, config), DEVICES["H100"]).time_us

    assert time_us("rc", 64) > 1.02 * time_us("rc", 128)  # lines of B run along k
    assert time_us("rr", 64) == pytest.approx(time_us("rr", 128), rel=0.005)  # along its columns
    assert time_us("rc", 64, m=16384, n=16) == pytest.approx(time_us("rc", 64), rel=0.005)  # those of A do


def test_copies_of_less_than_a_word_cost_more() -> None:
    def time_us(k: int) -> float:
        problem = Problem(1024, 1024, k, types=Types.parse("bf16"), layout=Layout.parse("rc"))
        return predict(MMA.plan(problem, MMA.default(problem)), DEVICES["H100"]).time_us

    assert time_us(1027) > 1.7 * time_us(1026)  # words, and half of them


def test_starts_of_launches_that_copy_overlap() -> None:
    """Two matrices of 2 MB are copied before, which takes less than another launch would."""

    def time_us(k: int) -> float:
        problem = Problem(1024, 1024, k, types=Types.parse("bf16"), layout=Layout.parse("rc"))
        config = WGMMA.default(problem).with_values(BM=128, BN=128, STAGES=6)
        plan = WGMMA.plan(problem, config)
        assert len(plan.launch.prepares) == (2 if k % 8 else 0)
        return predict(plan, DEVICES["H100"]).time_us

    assert 1 < time_us(1023) - time_us(1024) < 4


def test_a_ring_goes_on_with_the_next_product_of_a_batch() -> None:
    """So that bytes are under way even where a product has a single k tile; a block of one product has that alone."""

    def time_us(persistent: int) -> float:
        problem = Problem(64, 64, 64, batch=4096, types=Types.parse("bf16"))
        config = WGMMA.default(problem).with_values(BM=64, BN=64, CONSUMERS=1, STAGES=8, PERSISTENT=persistent)
        return predict(WGMMA.plan(problem, config), DEVICES["H100"]).time_us

    assert time_us(0) > 1.5 * time_us(1)


def test_promotion_costs_what_no_products_hide() -> None:
    problem = Problem(4096, 4096, 4096, types=Types.parse("e4m3,e4m3,bf16_promoted"), layout=Layout.parse("rc"))
    configs = (WGMMA.default(problem).with_values(IN_FLIGHT=in_flight) for in_flight in (0, 1))
    alone, beside = (predict(WGMMA.plan(problem, config), DEVICES["H200"]).time_us for config in configs)
    assert 1.01 * beside < alone < 1.2 * beside


def test_every_bound_that_a_prediction_may_name_is_explained() -> None:
    assert set(BOUNDS) == set(get_args(Bound)) >= set(TENSOR_BOUNDS)
    assert prediction(SIMT, BK=32, TM=16, TN=16, WM=128, WN=64).bound == "instruction fetch"


def test_no_kernel_of_tensor_cores_is_bound_by_fmas() -> None:
    """The report of a search said so of the fastest kernels by wgmma."""
    bf16 = Problem(4096, 4096, 4096, types=Types.parse("bf16"), layout=Layout.parse("rc"))
    for family, problem in ((WGMMA, bf16), (MMA, bf16), (SIMT, Problem(4096, 4096, 4096))):
        plan = family.plan(problem, family.default(problem))
        words = [bound_in_words(plan, bound) for bound in get_args(Bound)]
        assert any("FMA" in said for said in words) == (family is SIMT), words
        assert ("the tensor cores" in " ".join(words)) == (family is not SIMT)


def test_registers_are_estimated_for_copies_that_pass_through_them_alone() -> None:
    """Whatever cp.async copies takes none: blocks of few threads, which copy much each, would seem to spill."""
    problem = Problem(4096, 4096, 4096)
    tiles = SIMT.default(problem).with_values(BM=64, BN=128, BK=32, TN=16, WM=32, WN=128)
    ring = SIMT.plan(problem, tiles.with_values(ASYNC=1, K_UNROLL=4)).work
    through = SIMT.plan(problem, tiles).work
    beside = SIMT.plan(problem, tiles.with_values(ASYNC=1)).work
    assert through.registers - beside.registers == (64 + 128) * 32 / 64
    assert ring.registers < MAX_REGISTERS < through.registers


@pytest.mark.parametrize(
    ("shape", "axes", "compiled"),
    [
        ((1024, 1024, 64), {"BK": 64, "WN": 32, "STAGES": 2}, 102),  # a single k tile
        ((1024, 1024, 64), {"BK": 64, "STAGES": 2}, 168),
        ((4096, 4096, 4096), {"BK": 64, "WN": 32, "STAGES": 2}, 162),
        ((127, 4000, 3999), {"BK": 64, "WN": 32, "STAGES": 2}, 207),  # odd lines, an element a register
    ],
)
def test_registers_of_mma_are_near_those_compiled(
    shape: tuple[int, int, int], axes: dict[str, int], compiled: int
) -> None:
    """For sm_90, by nvcc 13.0."""
    problem = Problem(*shape, types="bf16", layout="rc")
    work = MMA.plan(problem, MMA.default(problem).with_values(**axes)).work
    assert work.registers == pytest.approx(compiled, abs=12)


def test_a_typical_size_stands_for_one_that_is_left_to_run_time() -> None:
    problem = Problem(None, 768, None, batch=None, typical={"M": 16, "batch": np.int64(3)})  # type: ignore[dict-item]
    case = representative(problem)
    assert (case.m, case.n, case.k, case.batch) == (16, 768, REPRESENTATIVE_SIZE, 3)
    assert problem != replace(problem, typical={}) and problem.sizes["M"] is None
