"""Stream-K: every k tile of every tile by exactly one block, and every reader of that arithmetic agrees."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import gemmgen as api
from gemmgen.exports.kernelfile import read_kernel
from gemmgen.families import SIMT
from gemmgen.families.base import constants, first_rejection
from gemmgen.families.simt.axes import SimtConfig
from gemmgen.families.simt.operands import operands
from gemmgen.kernel.launch import Launch, Workspace
from gemmgen.kernel.model import predict
from gemmgen.kernel.source import KernelSource
from gemmgen.kernel.streamk import Schedule, Stream
from gemmgen.problem.device import DEVICES
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.render.kernel_text import render
from gemmgen.render.naming import full_name_of, parse_name
from gemmgen.search.space import explore
from gemmgen.support.errors import InvalidInput

CARD = DEVICES["H200"]
FREE = Problem(None, None, None)
KTile = tuple[int, int]  # (tile, k tile of it)

schedules = st.builds(
    Schedule,
    st.builds(Stream, blocks=st.integers(1, 12), depth=st.sampled_from([1, 8, 16])),
    tiles=st.integers(1, 60),
    k=st.integers(0, 300),
)


def dealt(given: Schedule) -> list[list[KTile]]:
    """The k tiles of each block, by cards: to a tile's owner all of it, or in the last wave its first k tiles, as many
    as are an equal part; then the other k tiles to the blocks that are left, in turn, as evenly."""
    k_tiles = max(1, len(range(0, given.k, given.stream.depth)))
    alone = given.tiles // given.stream.blocks * given.stream.blocks
    last_wave = range(alone, given.tiles)
    own = math.ceil(len(last_wave) * k_tiles / given.stream.blocks)
    hands = [[(tile, k_tile) for k_tile in range(k_tiles if tile < alone else own)] for tile in range(given.tiles)]
    deck = [(tile, k_tile) for tile in last_wave for k_tile in range(own, k_tiles)]
    idle = len(last_wave) and given.stream.blocks - len(last_wave)
    stream_blocks = min(idle, len(deck))
    cuts = [number * len(deck) // stream_blocks for number in range(stream_blocks + 1)] if stream_blocks else []
    hands += [deck[begin:end] for begin, end in itertools.pairwise(cuts)]
    return hands + [[] for _ in range(idle - stream_blocks)]


def blocks_by_tile(given: Schedule) -> list[list[int]]:
    """The blocks of each tile, in the order of its k tiles."""
    found: list[list[int]] = [[] for _ in range(given.tiles)]
    for block, hand in enumerate(dealt(given)):
        for tile, _ in hand:
            if not found[tile] or found[tile][-1] != block:
                found[tile].append(block)
    return found


@given(schedules)
def test_each_k_tile_is_one_block_s_as_dealing_them_one_by_one_says(given: Schedule) -> None:
    hands, peers = dealt(given), blocks_by_tile(given)
    every = [(tile, k_tile) for tile in range(given.tiles) for k_tile in range(given.k_tiles)]
    assert sorted(k_tile for hand in hands for k_tile in hand) == every, "each once"
    assert all(k_tiles == sorted(k_tiles) for k_tiles in hands), "in order"
    assert len(hands) == given.grid and given.data_parallel + given.last_wave == given.tiles
    assert sum(1 for hand in hands[given.tiles :] if hand) == given.stream_blocks
    assert [given.blocks_of(np.array([tile])).tolist() for tile in range(given.tiles)] == peers
    assert given.idle == sum(1 for hand in hands if not hand)
    runs = [len(list(run)) for hand in hands for _, run in itertools.groupby(hand, key=lambda k_tile: k_tile[0])]
    assert given.fewest_k_tiles == min(runs)
    streamed = [len(hand) for hand in hands[given.tiles :][: given.stream_blocks]]
    assert not streamed or max(streamed) - min(streamed) <= 1, "equal work units"
    assert all(len(hand) <= given.owner_k_tiles for hand in hands[given.data_parallel :]), "nobody has more than equal"
    if given.last_wave:
        least = given.last_wave * given.k_tiles
        assert (given.owner_k_tiles - 1) * given.stream.blocks < least, "which is no more than it has to be"


@given(schedules)
def test_partials_do_not_overlap(given: Schedule) -> None:
    """A tile's owner has the first, stream blocks those behind it, as `stream_k_fixup` has them."""
    peers = blocks_by_tile(given)
    used = []
    for in_wave, (_, *stream_blocks) in enumerate(peers[given.data_parallel :]):
        if stream_blocks:
            first = stream_blocks[0] - given.tiles + 2 * in_wave
            used += [first, *(first + 1 + block - stream_blocks[0] for block in stream_blocks)]
    assert len(set(used)) == len(used)
    assert all(0 <= partial < given.partials for partial in used)
    assert given.partials < 2 * given.stream.blocks or given.stream.blocks == 1, (
        "a workspace of fewer tiles than two waves"
    )


@given(schedules, st.randoms(use_true_random=False))
def test_arrivals_are_counted_as_dealing_them_one_by_one_counts_them(given: Schedule, random: object) -> None:
    blocks = np.array(random.sample(range(given.grid), random.randint(0, given.grid)), np.int64)  # type: ignore[attr-defined]
    here = set(blocks.tolist())
    peers = blocks_by_tile(given)[given.data_parallel :]
    arrived, needed = given.arrivals(blocks)
    assert needed.tolist() == [len(parts) for parts in peers]
    assert arrived.tolist() == [len(here.intersection(parts)) for parts in peers]


@st.composite
def launches(draw: st.DrawFn) -> tuple[Launch, Problem, tuple[int, int, int]]:
    stream = Stream(draw(st.integers(1, 9)), draw(st.sampled_from([4, 16])))
    shape = draw(st.integers(1, 40)), draw(st.integers(1, 40)), draw(st.integers(0, 100))
    return (
        Launch(64, (("M", 8), ("N", 4)), stream=stream),
        replace(FREE, dtype=draw(st.sampled_from((DType.F32, DType.F64)))),
        shape,
    )


@given(launches(), st.data())
def test_a_launch_knows_the_blocks_of_tiles_and_the_tiles_of_blocks(
    launched: tuple[Launch, Problem, tuple[int, int, int]], data: st.DataObject
) -> None:
    launch, problem, shape = launched
    case = problem.case(*shape)
    tiles = -(-case.m // 8) * -(-case.n // 4)
    assert launch.stream is not None and launch.tiles(case) == tiles
    given = launch.schedule(launch.stream, case)
    peers = blocks_by_tile(given)
    chosen = data.draw(st.lists(st.integers(0, tiles - 1), min_size=1, unique=True), "tiles")
    blocks = launch.blocks_of(case, chosen)
    assert blocks.tolist() == sorted({block for tile in chosen for block in peers[tile]})
    here = set(blocks.tolist())
    complete = [tile for tile, parts in enumerate(peers) if here.issuperset(parts)]
    assert launch.tiles_of(case, blocks).tolist() == complete and set(complete) >= set(chosen)
    left = [len(here.intersection(parts)) for parts in peers[given.data_parallel :]]
    full = [len(parts) for parts in peers[given.data_parallel :]]
    semaphores = launch.semaphores_left(case, blocks).tolist()
    counted = [0 if has == needs else has for has, needs in zip(left, full, strict=True)]
    assert semaphores[: given.last_wave] == counted, "the last to arrive sets a semaphore back to zero"
    assert not any(semaphores[given.last_wave :])
    assert launch.blocks(case) == given.grid == len(dealt(given))
    element = problem.types.accumulator.size
    assert launch.workspace(case) == Workspace(
        given.partials * 32 * element, given.stream.blocks, partial_align=element
    )


@given(launches())
def test_a_launch_that_runs_whole_leaves_no_semaphore(launched: tuple[Launch, Problem, tuple[int, int, int]]) -> None:
    launch, problem, shape = launched
    case = problem.case(*shape)
    blocks = np.arange(launch.blocks(case))
    assert not launch.semaphores_left(case, blocks).any()
    assert launch.tiles_of(case, blocks[::-1]).tolist() == list(range(launch.tiles(case)))


@pytest.mark.parametrize(("blocks", "depth", "words"), [(0, 8, "0 blocks share"), (4, 0, "0 of K are a k tile")])
def test_a_stream_without_blocks_or_depth_is_refused(blocks: int, depth: int, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Stream(blocks, depth)


def test_a_launch_does_not_both_split_and_stream() -> None:
    with pytest.raises(InvalidInput, match="2 blocks share a tile, and a stream"):
        Launch(64, (("M", 8),), splits=2, stream=Stream(4, 8))


# Kernels


def kernel(problem: Problem = FREE, **axes: int) -> KernelSource:
    return render(problem, SIMT, SIMT.default(problem).with_values(**axes))


def test_a_kernel_that_streams_says_so() -> None:
    whole, stream = kernel(), kernel(STREAM=528)
    assert full_name_of(stream) == f"{full_name_of(whole)}_stream528"
    assert parse_name(full_name_of(stream)) == (FREE, SIMT, SIMT.default(FREE).with_values(STREAM=528))
    assert stream.launch == replace(whole.launch, stream=Stream(528, 8)) and whole.launch.stream is None
    assert [p.name for p in stream.parameters if p not in whole.parameters] == ["partials", "semaphores"]
    assert stream.launch.adds_up
    for word in ("partials", "semaphores", "STREAM", "atomicInc", "work_unit_of_block"):
        assert word in stream.text and word not in whole.text
    header = stream.text.partition("namespace {")[0]
    assert "// Stream  stream-K: 528 blocks divide the k tiles of the last wave's tiles evenly" in header
    tiles = "T = ceil(M / 128) * ceil(N / 128) tiles"
    assert f"ceil(T / 528) * 528 blocks of 256 threads, for {tiles}" in header
    assert "partials: (528 + T % 528) * 16384 floats, uninitialised" in header
    assert "semaphores: 528 counters, zero before the first launch" in header


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 600))
def test_the_header_counts_as_the_launch_does(m: int, n: int, wave: int) -> None:
    launch = Launch(256, (("M", 128), ("N", 128)), stream=Stream(wave, 8))
    case, tiles = FREE.case(m, n, 8), -(-m // 128) * -(-n // 128)
    assert launch.blocks(case) == math.ceil(tiles / wave) * wave
    assert launch.workspace(case) == Workspace((wave + tiles % wave) * 4 * 16384, wave)


def test_the_record_of_a_kernel_keeps_its_stream(tmp_path: Path) -> None:
    source = api.generate(FREE, STREAM=6, BK=16, out=tmp_path)
    path = tmp_path / f"{source.name}.cu"
    assert source.launch.stream == Stream(6, 16)
    assert read_kernel(path).source == source
    path.with_suffix(".json").unlink()
    assert read_kernel(path).source == source  # from its name
    whole = api.generate(FREE, family="simt", out=tmp_path)
    path = tmp_path / f"{whole.name}.json"
    assert "stream" not in json.loads(path.read_text())["launch"]
    assert read_kernel(path.with_suffix(".cu")).source == whole


@pytest.mark.parametrize(
    ("problem", "changes", "words"),
    [
        (FREE, {"SPLIT": 2}, "a kernel is split-K or stream-K"),
        (Problem(64, 64, 64, batch=3), {}, "stream-K serves no batch"),
        (Problem(64, 64, 64, batch=None), {}, "stream-K serves no batch"),
    ],
)
def test_what_does_not_go_with_a_stream_is_refused(problem: Problem, changes: dict[str, int], words: str) -> None:
    config = SIMT.default(problem).with_values(STREAM=4, **changes)
    assert words in str(first_rejection(SIMT, problem, config, CARD.arch.limits))
    assert first_rejection(SIMT, problem, config.with_values(STREAM=0), CARD.arch.limits) is None


def test_a_wave_is_no_larger_than_a_grid() -> None:
    problem, most = Problem(64, 64, 64), CARD.arch.limits.names["MAX_BLOCKS"]
    config = SIMT.default(problem).with_values(STREAM=most)
    assert "CUDA bounds the blocks of a grid" in str(first_rejection(SIMT, problem, config, CARD.arch.limits))
    assert first_rejection(SIMT, problem, config.with_values(STREAM=most - 1), CARD.arch.limits) is None


# The search


@pytest.mark.parametrize(("device", "size"), [("H200", 4096), ("RTX 4050 Laptop", 1536)])
def test_the_search_tries_as_many_blocks_as_run_at_once(device: str, size: int) -> None:
    card, problem = DEVICES[device], Problem(size, size, 4096)
    accepted = explore(SIMT, problem, card).accepted
    tried = {config.values["STREAM"] for config in accepted}
    assert 0 in tried and len(tried) > 1
    assert tried <= {0, card.sms, 2 * card.sms, 4 * card.sms}
    for config in accepted:
        value = constants(SIMT, problem, config)
        tiles, wave = -(-size // value["BM"]) * -(-size // value["BN"]), value["STREAM"]
        assert wave == 0 or (wave / 4 < tiles < 16 * wave and tiles % wave), "the last wave leaves much idle"


@pytest.mark.parametrize("shape", [(4096, 4096, 128), (128, 128, 4096), (8192 * 2, 8192 * 4, 4096)], ids=str)
def test_no_stream_for_short_k_nor_few_nor_many_waves(shape: tuple[int, int, int]) -> None:
    assert not any(config.values["STREAM"] for config in explore(SIMT, Problem(*shape), CARD).accepted)


def test_the_model_sees_that_a_stream_fills_the_last_wave() -> None:
    def predicted(problem: Problem, stream: int) -> float:
        config = SIMT.default(problem).with_values(ASYNC=1, STAGES=3, K_UNROLL=4, BK=16, STREAM=stream)
        return predict(SIMT.plan(problem, config), CARD).time_us

    # 128 x 128 tiles: 12 * 12 are one wave of 132 and 12 tiles more; 12 * 11 are one wave.
    ragged, full = Problem(1536, 1536, 8192), Problem(1536, 1408, 8192)
    assert predicted(ragged, 132) < 0.7 * predicted(ragged, 0)
    assert predicted(full, 132) >= predicted(full, 0)


def test_a_stream_of_as_many_blocks_as_run_at_once_takes_whole_waves() -> None:
    problem = Problem(4096, 4096, 4096)
    config = SIMT.default(problem).with_values(TN=16, WN=64, STREAM=264)  # 255 registers: two blocks an SM
    streamed, tiled = (predict(SIMT.plan(problem, one), CARD, 255) for one in (config, config.with_values(STREAM=0)))
    assert streamed.occupancy.blocks == 2 and streamed.waves == 4
    assert tiled.waves == 1024 / 264


# Tiles at an edge


@given(
    sizes=st.tuples(*[st.one_of(st.none(), st.integers(1, 200))] * 3),
    layout=st.sampled_from(["rr", "rc", "cr", "cc"]),
    dtype=st.sampled_from((DType.F32, DType.F64)),
    padding=st.sampled_from([0, 4]),
    transposed=st.booleans(),
)
def test_a_tile_moves_where_c_has_room_and_accesses_start(
    sizes: tuple[int | None, int | None, int | None], layout: str, dtype: DType, padding: int, transposed: bool
) -> None:
    m, n, _ = sizes
    ldc = -(-n // 4) * 4 + padding if n is not None and padding else "dense"
    problem = Problem(*sizes, layout=Layout.parse(layout), dtype=dtype, ldc=ldc)  # type: ignore[arg-type]
    config = SIMT.default(problem).with_values(BM=32, BN=64, TM=4, TN=4, WM=16, WN=32)
    if not transposed:
        config = config.with_values(TA=0, TB=0)
    assume(first_rejection(SIMT, problem, config, CARD.arch.limits) is None)
    value = constants(SIMT, problem, config)
    for operand, size, tile in zip(operands(problem, SimtConfig(**config.values)), (m, n), (32, 64), strict=True):
        starts = [size - tile] if size is not None else []  # of a tile that has moved
        # Accesses to A and B go along m and n where their lines do, those to C along n.
        widths = [] if operand.along_k else [value[f"V{operand.X}"]]
        widths += [value["VC"]] if operand.x == "b" else []
        fits = all(start > 0 and all(start % width == 0 for width in widths) for start in starts)
        assert operand.moves == (size is not None and size % tile != 0 and fits)
        text = render(problem, SIMT, config).text
        assert (f"min(nominal.{operand.mn}, s.{operand.MN} - B{operand.MN})" in text) == operand.moves
        assert (f"static_assert(Shape::{operand.MN} % B{operand.MN}" in text) == (size is not None and size % tile == 0)


def test_padded_lines_of_c_keep_tiles_that_accesses_would_leave() -> None:
    """N = 70 with ldc = 72: C is read four floats at a time, and a tile that ends at 70 would start at 6."""
    dense, padded = Problem(70, 70, 70), Problem(70, 70, 70, ldc=72)
    config = SIMT.default(dense).with_values(BM=32, BN=64, TM=4, TN=4, WM=16, WN=32)
    axes = SimtConfig(**config.values)
    moves = [[operand.moves for operand in operands(problem, axes)] for problem in (dense, padded)]
    assert [constants(SIMT, problem, config)["VC"] for problem in (dense, padded)] == [2, 4]
    assert moves == [[True, True], [True, False]]
