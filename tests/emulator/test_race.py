"""Races on shared memory are found exactly, whatever order the threads run in: here the natural one, unless said."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from gemmgen.families import NAIVE, SIMT
from gemmgen.kernel.contract import Contract, Parameter
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Case, Problem
from gemmgen.render.kernel_text import environment, render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.executor import Floats, Operands
from gemmgen.support.errors import CandidateFailed

ANY_SHAPE = Problem(None, None, None)
SIMT_SMALL = SIMT.default(ANY_SHAPE).with_values(BM=32, BN=64, TM=4, TN=4, WM=16, WN=32)
SKELETONS = {
    "single_buffer": {"STAGES": 1},
    "double_buffer": {"STAGES": 2},
    "cp_async_stages": {"STAGES": 3, "ASYNC": 1},
    "cp_async_dynamic": {"STAGES": 4, "ASYNC": 1, "BK": 32, "BM": 64, "BN": 128, "TM": 8, "TN": 8, "WM": 32, "WN": 64},
    "inner": {"STAGES": 1, "OUTER": 0, "WM": 0, "WN": 0},
}
PLACE = r"[a-z]\w*\.cu:\d+(?:, called from line \d+)*"
FUNCTIONS = """
//% from "device/cp_async.cu" import cp_async
//% from "device/dynamic_shared.cu" import dynamic_shared
${ cp_async() }
${ dynamic_shared() }
"""
ARRAY = r"byte \d+ of (?:[AB]s|dynamic shared memory)"


def skeleton(name: str) -> KernelSource:
    return render(ANY_SHAPE, SIMT, SIMT_SMALL.with_values(**SKELETONS[name]))


def by_hand(body: str, threads: int = 64) -> KernelSource:
    """A kernel called `k` whose body starts at its line 2."""
    functions = environment(ANY_SHAPE.types).from_string(FUNCTIONS).render()
    head = f'extern "C" __global__ void __launch_bounds__({threads}) k(const float* A, const float* B, float* C)'
    parameters = (Parameter("A", "const float*"), Parameter("B", "const float*"), Parameter("C", "float*"))
    contract = Contract(ANY_SHAPE, Launch(threads, (("M", 1),)), parameters)
    return KernelSource("k", f"{functions}{head} {{\n{body}\n}}\n", "test", {}, contract)


def data(case: Case) -> Operands:
    return Operands(*(np.ones(matrix.elements, np.float32) for matrix in case.matrices))


@pytest.fixture(scope="module")
def emulator() -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor() as executor:
        yield executor


def run(emulator: EmulatorExecutor, source: KernelSource, case: Case, seed: int = 0) -> Floats:
    kernel = emulator.load(source)
    try:
        return kernel.run(case, data(case), seed=seed)
    finally:
        kernel.close()


def race(emulator: EmulatorExecutor, source: KernelSource, seed: int = 0, case: Case | None = None) -> str:
    """The diagnosis of a launch that must fail; it counts lines from the kernel's head."""
    with pytest.raises(CandidateFailed) as caught:
        run(emulator, source, case or ANY_SHAPE.case(1, 64, 64), seed)
    failure = caught.value.failure
    kind = "race" if "data race" in failure.reason else "crash"
    assert (failure.kind, failure.source) == (kind, "emulator")
    above = source.text.partition('extern "C"')[0].count("\n")
    return re.sub(r"\bk\.cu:(?:\d+, called from line )*(\d+)", lambda at: f"k.cu:{int(at[1]) - above}", failure.reason)


BARRIERS = [(name, number) for name in SKELETONS for number in range(skeleton(name).text.count("__syncthreads();"))]


@pytest.mark.parametrize(("name", "number"), BARRIERS)
def test_each_missing_barrier_is_a_race(name: str, number: int, emulator: EmulatorExecutor) -> None:
    source = skeleton(name)
    parts = source.text.split("__syncthreads();")
    text = "__syncthreads();".join(parts[: number + 1]) + "__syncthreads();".join(parts[number + 1 :])
    case = ANY_SHAPE.case(40, 70, 200)
    reason = race(emulator, replace(source, text=text), case=case)
    assert re.fullmatch(
        rf"data race on shared memory: block 0, thread \d+('s cp_async)? (reads|writes) {ARRAY} at {PLACE}, "
        rf"thread \d+('s cp_async)? (reads|writes) it at {PLACE}, (no barrier between|not waited for yet)",
        reason,
    ), reason


@pytest.mark.parametrize("name", SKELETONS)
def test_correct_skeletons_race_under_no_seed(name: str, emulator: EmulatorExecutor) -> None:
    kernel = emulator.load(skeleton(name))
    for case in (ANY_SHAPE.case(40, 70, 50), ANY_SHAPE.case(1, 1, 1), ANY_SHAPE.case(3, 5, 0)):
        for seed in range(8):
            np.testing.assert_array_equal(kernel.run(case, data(case), seed=seed)[: case.n], case.k)


def test_large_launches_are_watched_in_part(emulator: EmulatorExecutor) -> None:
    source = skeleton("double_buffer")
    large = ANY_SHAPE.case(256, 256, 256)
    np.testing.assert_array_equal(run(emulator, source, large), large.k)
    wrong = replace(source, text=source.text.replace("__syncthreads();", ""))
    assert "data race" in race(emulator, wrong, case=large)
    assert "data race" in race(emulator, wrong, case=large, seed=8)


def test_a_naive_kernel_has_no_shared_memory(emulator: EmulatorExecutor) -> None:
    case = ANY_SHAPE.case(9, 10, 11)
    np.testing.assert_array_equal(run(emulator, render(ANY_SHAPE, NAIVE, NAIVE.default(ANY_SHAPE)), case), 11)


def test_both_lines_and_the_array_are_named(emulator: EmulatorExecutor) -> None:
    source = by_hand("""__shared__ float other[64], tile[64];
        other[threadIdx.x] = B[threadIdx.x];
        tile[threadIdx.x] = A[threadIdx.x];
        if (threadIdx.x == 0) C[0] = tile[1] + other[0];""")
    assert race(emulator, source) == (
        "data race on shared memory: block 0, thread 1 writes byte 4 of tile at k.cu:4, "
        "thread 0 reads it at k.cu:5, no barrier between"
    )


def test_reads_are_no_race(emulator: EmulatorExecutor) -> None:
    body = """__shared__ float tile[64];
        tile[threadIdx.x] = threadIdx.x;
        __syncthreads();
        float sum = 0;
        for (int i = 0; i < 64; ++i) sum += tile[i];
        C[threadIdx.x] = sum + tile[threadIdx.x];
        __syncthreads();
        tile[63 - threadIdx.x] = sum;"""
    np.testing.assert_array_equal(run(emulator, by_hand(body), ANY_SHAPE.case(1, 64, 1)), 2016 + np.arange(64))


def test_the_same_value_twice_is_a_race(emulator: EmulatorExecutor) -> None:
    assert race(emulator, by_hand("__shared__ float one;\none = A[0];\n__syncthreads();\nC[threadIdx.x] = one;")) == (
        "data race on shared memory: block 0, thread 0 writes byte 0 of one at k.cu:3, "
        "thread 1 writes it at k.cu:3, no barrier between"
    )


@pytest.mark.parametrize("reader", [0, 1, 33, 63])
@pytest.mark.parametrize("writer", [2, 40])
def test_a_write_races_with_any_earlier_read(reader: int, writer: int, emulator: EmulatorExecutor) -> None:
    source = by_hand(f"""__shared__ float tile;
        if (threadIdx.x == 5) tile = 1.0f;
        __syncthreads();
        if (threadIdx.x == {reader}) C[0] = tile;
        if (threadIdx.x == {writer}) tile = 2.0f;""")
    for seed in range(4):
        reason = race(emulator, source, seed)
        assert {f"thread {reader}", f"thread {writer}"} == set(re.findall(r"thread \d+", reason))


def test_bytes_of_one_word_are_apart(emulator: EmulatorExecutor) -> None:
    body = """__shared__ unsigned char bytes[64];
        bytes[threadIdx.x] = threadIdx.x;
        {}
        C[threadIdx.x] = bytes[63 - threadIdx.x];"""
    case = ANY_SHAPE.case(1, 64, 1)
    np.testing.assert_array_equal(run(emulator, by_hand(body.format("__syncthreads();")), case), 63 - np.arange(64))
    assert "data race" in race(emulator, by_hand(body.format("")))


def test_a_warp_barrier_orders_its_warp_alone(emulator: EmulatorExecutor) -> None:
    body = """__shared__ float tile[64];
        tile[threadIdx.x] = threadIdx.x;
        {}
        const float value = tile[threadIdx.x ^ {}];
        {}
        tile[threadIdx.x] = 1.0f;
        C[threadIdx.x] = value;"""
    case = ANY_SHAPE.case(1, 64, 1)
    for meet in ("__syncwarp();", "__shfl_xor_sync(~0u, 1.0f, 1);"):
        right = run(emulator, by_hand(body.format(meet, 1, meet)), case)
        np.testing.assert_array_equal(right, np.arange(64) ^ 1)
        assert "data race" in race(emulator, by_hand(body.format(meet, 1, "")))
        assert "data race" in race(emulator, by_hand(body.format(meet, 32, meet)), seed=1)


def test_a_warp_barrier_of_some_lanes_orders_these(emulator: EmulatorExecutor) -> None:
    body = """__shared__ float tile[64];
        if (threadIdx.x < 16) {{
            tile[threadIdx.x] = threadIdx.x;
            __syncwarp(0xffffu);
            C[threadIdx.x] = tile[15 - threadIdx.x];
        }} else if (threadIdx.x == {0}) C[16] = tile[3];"""
    case = ANY_SHAPE.case(1, 64, 1)
    np.testing.assert_array_equal(run(emulator, by_hand(body.format(99)), case)[:16], 15 - np.arange(16))
    assert "thread 3 writes byte 12 of tile at k.cu:4, thread 20 reads it at k.cu:7" in race(
        emulator, by_hand(body.format(20), threads=32)
    )


COPY = """__shared__ __align__(16) float tile[64];
        cp_async<4>(&tile[threadIdx.x], A + threadIdx.x, 4);
        cp_async_commit();
        {}
        C[threadIdx.x] = tile[threadIdx.x ^ {}];"""


@pytest.mark.parametrize("seed", range(4))  # copies land late and early
def test_cp_async_is_under_way_until_its_wait(seed: int, emulator: EmulatorExecutor) -> None:
    case = ANY_SHAPE.case(1, 64, 64)
    both = by_hand(COPY.format("cp_async_wait<0>(); __syncthreads();", 1))
    np.testing.assert_array_equal(run(emulator, both, case, seed), 1)
    own = by_hand(COPY.format("cp_async_wait<0>();", 0))
    np.testing.assert_array_equal(run(emulator, own, case, seed), 1)
    for missing, other in (("", 0), ("__syncthreads();", 0), ("__syncthreads();", 1), ("__syncthreads();", 32)):
        reason = race(emulator, by_hand(COPY.format(missing, other)), seed)
        assert re.fullmatch(
            r"data race on shared memory: block \d, thread \d+'s cp_async writes byte \d+ of tile at k.cu:3, "
            r"thread \d+ reads it at k.cu:6, not waited for yet",
            reason,
        )


def test_cp_async_needs_a_barrier_too(emulator: EmulatorExecutor) -> None:
    source = by_hand(COPY.format("cp_async_wait<0>();", 32))
    for seed in range(4):
        assert re.search(
            r"'s cp_async writes byte \d+ of tile at k.cu:3, thread \d+ reads it at k.cu:6, no"
            r"|reads byte \d+ of tile at k.cu:6, thread \d+'s cp_async writes it at k.cu:3, no barrier between",
            race(emulator, source, seed),
        )


def test_cp_async_into_what_is_still_read(emulator: EmulatorExecutor) -> None:
    source = by_hand("""__shared__ float tile[64];
        tile[threadIdx.x] = 1;
        __syncthreads();
        C[threadIdx.x] = tile[63 - threadIdx.x];
        cp_async<4>(&tile[threadIdx.x], A + threadIdx.x, 4);""")
    for seed in range(4):
        reason = race(emulator, source, seed)
        assert re.search(
            r"'s cp_async writes byte \d+ of tile at k.cu:6, thread \d+ reads it at k.cu:5, n"
            r"|reads byte \d+ of tile at k.cu:5, thread \d+'s cp_async writes it at k.cu:6, no barrier between",
            reason,
        ), reason


def test_what_nothing_wrote(emulator: EmulatorExecutor) -> None:
    source = by_hand("""__shared__ float tile[64];
        if (threadIdx.x != 5) tile[threadIdx.x] = threadIdx.x;
        __syncthreads();
        C[threadIdx.x] = tile[threadIdx.x];""")
    assert race(emulator, source) == ("block 0, thread 5 reads byte 20 of tile at k.cu:5, which no thread has written")


def test_nothing_is_left_of_the_block_before(emulator: EmulatorExecutor) -> None:
    source = by_hand("""__shared__ float tile[64];
        if (blockIdx.x != 1) tile[threadIdx.x] = threadIdx.x;
        if (threadIdx.x == 0) C[blockIdx.x] = tile[0];""")
    assert "block 1, thread 0 reads byte 0 of tile at k.cu:4, which" in race(
        emulator, source, case=ANY_SHAPE.case(2, 64, 1)
    )


@pytest.mark.parametrize("seed", [0, 1, 5, 8])
def test_the_same_seed_gives_the_same_report(seed: int, emulator: EmulatorExecutor) -> None:
    source = skeleton("single_buffer")
    wrong = replace(source, text=source.text.replace("__syncthreads();", "", 1))
    case = ANY_SHAPE.case(20, 40, 30)
    assert len({race(emulator, wrong, seed, case) for _ in range(3)}) == 1


def test_two_threads_write_one_element_of_c(emulator: EmulatorExecutor) -> None:
    assert race(emulator, by_hand("C[threadIdx.x / 2] = 1.0f;")) == (
        "data race on C: block 0, thread 0 writes byte 0 of C at k.cu:2, "
        "block 0, thread 1 writes it at k.cu:2, no barrier between"
    )
    ordered = by_hand("if (threadIdx.x < 9) C[threadIdx.x] = 1;\n__syncthreads();\nif (threadIdx.x == 40) C[3] += 2;")
    assert run(emulator, ordered, ANY_SHAPE.case(1, 9, 1))[3] == 3


def test_two_blocks_share_an_element_of_c(emulator: EmulatorExecutor) -> None:
    for first, second, diagnosis in (
        ("C[1] = 1;", "C[1] = 2;", "writes byte 4 of C at k.cu:2, block 2, thread 0 writes it at k.cu:3"),
        ("C[1] = 1;", "C[0] = C[1];", "writes byte 4 of C at k.cu:2, block 2, thread 0 reads it at k.cu:3"),
        ("C[0] = C[1];", "C[1] = 2;", "reads byte 4 of C at k.cu:2, block 2, thread 0 writes it at k.cu:3"),
    ):
        blocks = "if (blockIdx.x == 0 && threadIdx.x == 0) {}\nif (blockIdx.x == 2 && threadIdx.x == 0) {}"
        body = blocks.replace("{}", first, 1).replace("{}", second)
        reason = race(emulator, by_hand(body), case=ANY_SHAPE.case(3, 4, 1, beta=1.0))
        assert reason == f"data race on C: block 0, thread 0 {diagnosis}, and nothing orders blocks"
    both_read = by_hand("if (threadIdx.x == 0) C[blockIdx.x] = C[100];")
    assert run(emulator, both_read, ANY_SHAPE.case(4, 40, 1, beta=1.0))[3] == 1


# Blocks that share a tile: what one leaves for another is ordered by a fence, an atomic, an atomic and a fence.

WRITE = "partials[blockIdx.x * 64 + threadIdx.x] = A[0];"
TAKE = "if (threadIdx.x == 0) { FENCE last = atomicInc(semaphores, 2) == 2; FENCE }".replace(
    "FENCE", "__threadfence();"
)
TAKE_UNFENCED = TAKE.replace("__threadfence();", "", 1)  # before it is taken
READ = """if (last == 0) return;
        float sum = 0;
        for (int block = 0; block < 3; ++block) sum += partials[block * 64 + threadIdx.x];
        C[threadIdx.x] = sum;"""
ROW = ANY_SHAPE.case(1, 64, 1)


def sharing(*lines: str) -> KernelSource:
    """A kernel whose three blocks share a tile."""
    source = by_hand("\n".join(("__shared__ int last;", *lines)))
    workspace = (Parameter("partials", "float*"), Parameter("semaphores", "unsigned*"))
    text = source.text.replace("float* C)", "float* C, float* partials, unsigned* semaphores)")
    launch = Launch(64, (("M", 1), ("N", 64)), splits=3)
    return replace(source, text=text).promising(launch=launch, parameters=(*source.parameters, *workspace))


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize(
    "lines",
    [
        (WRITE, "__syncthreads();", TAKE, "__syncthreads();", READ),
        # Every thread fences what it wrote, and what it reads; one takes the semaphore.
        (
            *(WRITE, "__threadfence();", "__syncthreads();"),
            "if (threadIdx.x == 0) last = atomicInc(semaphores, 2) == 2;",
            *("__syncthreads();", "__threadfence();", READ),
        ),
    ],
)
def test_fences_and_semaphores_order_blocks(lines: tuple[str, ...], seed: int, emulator: EmulatorExecutor) -> None:
    np.testing.assert_array_equal(run(emulator, sharing(*lines), ROW, seed), 3)


@pytest.mark.parametrize(
    "lines",
    [
        (WRITE, "__syncthreads();", TAKE_UNFENCED, "__syncthreads();", READ),
        (WRITE, "__syncthreads();", TAKE.replace("__threadfence(); }", "}"), "__syncthreads();", READ),
        (WRITE, TAKE, "__syncthreads();", READ),
        # The fence of a thread that wrote nothing, with no barrier in between.
        (WRITE, "if (threadIdx.x == 1) __threadfence();", TAKE_UNFENCED, "__syncthreads();", READ),
        # What is written after the fence is not released.
        ("__threadfence();", WRITE, "__syncthreads();", TAKE_UNFENCED, "__syncthreads();", READ),
    ],
)
def test_a_fence_or_barrier_that_is_missing_is_a_race_on_partials(
    lines: tuple[str, ...], emulator: EmulatorExecutor
) -> None:
    reason = race(emulator, sharing(*lines), case=ROW)
    assert re.fullmatch(
        r"data race on partials: block \d, thread \d+ writes byte \d+ of partials at k.cu:\d+, "
        r"block 2, thread \d+ reads it at k.cu:\d+, and nothing orders blocks",
        reason,
    )


def test_a_plain_access_to_a_counter_races_with_an_atomic(emulator: EmulatorExecutor) -> None:
    source = sharing(
        "if (threadIdx.x > 0) return;", "if (blockIdx.x == 0) atomicInc(semaphores, 2); else semaphores[0] = 0;"
    )
    reason = race(emulator, source, case=ANY_SHAPE.case(1, 1, 1))
    assert "data race on semaphores: block 0, thread 0's atomic updates byte 0 of semaphores at k.cu:4" in reason


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("if (threadIdx.x == 0) atomicInc(semaphores, 7);", r"leaves semaphores\[0\] = 3: the next launch needs it"),
        ("if (threadIdx.x + blockIdx.x == 0) partials[3 * 64] = 1;", "writes (0 bytes after|beside partials, 768)"),
        ("if (threadIdx.x == 0) atomicInc(semaphores + 1, 2);", "(after|from) (the end of|its start)"),
        ("if (threadIdx.x == 0) C[0] = partials[0];", "data race on C"),
    ],
)
def test_the_workspace_is_guarded(line: str, words: str, emulator: EmulatorExecutor) -> None:
    for seed in (0, 1):
        with pytest.raises(CandidateFailed) as caught:
            run(emulator, sharing(line), ANY_SHAPE.case(1, 1, 1), seed)
        assert caught.value.failure.kind == ("race" if "data race" in words else "crash")
        assert re.search(words, caught.value.failure.reason), caught.value.failure.reason


# Blocks whose atomics meet in one word, which the last to come reads and writes.

ADD = "atomicAdd(partials + threadIdx.x, A[0]);"
COLLECT = """if (last == 0) return;
        if (threadIdx.x == 0) C[0] = partials[63] == 0 ? 2 : 3;
        __syncthreads();
        partials[threadIdx.x] = 0;"""


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_atomics_that_semaphores_follow_are_ordered(seed: int, emulator: EmulatorExecutor) -> None:
    source = sharing(ADD, "__syncthreads();", TAKE, "__syncthreads();", COLLECT)
    assert run(emulator, source, ANY_SHAPE.case(1, 1, 1), seed)[0] == 3


@pytest.mark.parametrize(
    "lines",
    [
        (ADD, "__syncthreads();", TAKE_UNFENCED, "__syncthreads();", COLLECT),
        (ADD, "__syncthreads();", TAKE.replace("__threadfence(); }", "}"), "__syncthreads();", COLLECT),
        (ADD, TAKE, "__syncthreads();", COLLECT),
        (TAKE, ADD, "__syncthreads();", COLLECT),  # the last block's own are the last ones here, not everywhere
        # The second block's come in order, the first one's do not.
        (f"if (blockIdx.x != 0) {ADD} __syncthreads();", TAKE, f"if (blockIdx.x == 0) {ADD} __syncthreads();", COLLECT),
        (ADD, "__syncthreads();", TAKE, "__syncthreads();", "if (threadIdx.x == 0) C[blockIdx.x * 0] = partials[63];"),
        (ADD, "__syncthreads();", TAKE, "__syncthreads();", "partials[threadIdx.x] = 0;"),
    ],
)
def test_atomics_that_nothing_orders_are_a_race_with_who_reads_the_sums(
    lines: tuple[str, ...], emulator: EmulatorExecutor
) -> None:
    reason = race(emulator, sharing(*lines), case=ANY_SHAPE.case(1, 1, 1))
    assert re.match(
        r"data race on partials: block \d, thread \d+('s atomic updates| writes| reads) byte \d+ of", reason
    )


OUTSIDE = """__shared__ __align__(16) float first[64], second[64];
        first[threadIdx.x] = second[threadIdx.x] = A[0];
        __syncthreads();
        if (threadIdx.x == 0) {{ {} }}
        C[threadIdx.x] = first[threadIdx.x] + second[threadIdx.x];"""


@pytest.mark.parametrize(
    ("access", "place"),
    [
        ("C[0] = first[64 + blockIdx.x];", " reads 0 bytes after the end of first"),
        ("C[0] = second[64 + blockIdx.x];", " reads 0 bytes after the end of second"),
        ("C[0] = first[-1 - int(blockIdx.x)];", " reads 4 bytes before the start of first"),
        ("second[-3 - int(blockIdx.x)] = 1;", " writes 12 bytes before the start of second"),
        ("first[64 + blockIdx.x] = 1;", " writes 0 bytes after the end of first"),
        (
            "C[0] = reinterpret_cast<float4*>(first + 60 + 4 * blockIdx.x)[1].x;",
            " reads 0 bytes after the end of first",
        ),
        ("cp_async<4>(first + 64 + blockIdx.x, A, 4);", "'s cp.async writes 0 bytes after the end of first"),
    ],
)
def test_static_arrays_are_bounded_to_the_byte(access: str, place: str, emulator: EmulatorExecutor) -> None:
    assert race(emulator, by_hand(OUTSIDE.format(access))) == f"block 0, thread 0{place} (k.cu:5)"


@pytest.mark.parametrize(
    ("access", "place"),
    [
        ("C[0] = memory[25];", "reads 0 bytes after the end of dynamic shared memory"),
        ("memory[26] = 1;", "writes 4 bytes after the end of dynamic shared memory"),
        ("C[0] = memory[-1];", "reads 4 bytes before the start of dynamic shared memory"),
        ("memory[-2] = 1;", "writes 8 bytes before the start of dynamic shared memory"),
        ("memory[-2000] = 1;", "writes 8000 bytes before the start of dynamic shared memory"),
    ],
)
def test_dynamic_shared_memory_is_bounded_to_the_byte(access: str, place: str, emulator: EmulatorExecutor) -> None:
    body = f"float* memory = reinterpret_cast<float*>(dynamic_shared());\nif (threadIdx.x == 0) {access}"
    source = by_hand(body).promising(launch=Launch(64, (("M", 1),), 100))
    assert f"block 0, thread 0 {place}" in race(emulator, source)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", "ABC")
def test_operands_are_bounded_to_the_byte(name: str, seed: int, emulator: EmulatorExecutor) -> None:
    case = ANY_SHAPE.case(1, 3, 3)  # 12 bytes of A and C, 36 of B: neither end is a page's
    end = {"A": 3, "B": 9, "C": 3}[name]
    for index, place in ((-1, f"4 bytes before the start of {name}"), (end, f"0 bytes after the end of {name}")):
        reason = race(emulator, by_hand(f"if (threadIdx.x == 0) C[0] = {name}[{index}];"), seed, case)
        assert f"block 0, thread 0 reads {place}" in reason
    copied = "__shared__ float to[4];\nif (threadIdx.x == 0) cp_async<4>(to, {name}{index:+}, 4);"
    reason = race(emulator, by_hand(copied.format(name=name, index=end)), seed, case)
    assert re.fullmatch(
        rf"block 0, thread 0 reads 0 bytes after the end of {name} \(row \d, column 0\) \(k.cu:3\)", reason
    )


def test_a_kernel_may_have_variables_of_its_own(emulator: EmulatorExecutor) -> None:
    source = by_hand(
        "__shared__ float tile[64];\ntile[threadIdx.x] = table[threadIdx.x % 4] + count[0];\n"
        "C[threadIdx.x] = tile[threadIdx.x] + blockIdx.x + gridDim.x;"
    )
    own = "__device__ float table[4] = {1, 2, 3, 4}; __device__ int count[1];\n"
    result = run(emulator, replace(source, text=own + source.text), ANY_SHAPE.case(1, 64, 1))
    np.testing.assert_array_equal(result, 2 + np.arange(64) % 4)
