"""What orders accesses beside a barrier of the whole block, and of which size: named barriers, cp.async, counters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from gemmgen.kernel.contract import Contract, Parameter
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Case, Problem
from gemmgen.render.kernel_text import environment
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.executor import Floats, Operands
from gemmgen.support.errors import CandidateFailed

ANY_SHAPE = Problem(None, None, None)
ROW = ANY_SHAPE.case(1, 96, 96)
SEEDS = range(4)  # orders of threads; copies land late and early
FUNCTIONS = """
//% from "device/cp_async.cu" import cp_async
//% from "device/warpgroup.cu" import named_barrier_arrive, named_barrier_sync
${ cp_async() }
${ named_barrier_sync() }
${ named_barrier_arrive() }
"""


def by_hand(body: str, threads: int = 96, workspace: bool = False) -> KernelSource:
    """A kernel called `k` of rows of C, whose body starts at its line 2; three blocks a row with a workspace."""
    functions = environment(ANY_SHAPE.types).from_string(FUNCTIONS).render()
    parameters = [Parameter("A", "const float*"), Parameter("B", "const float*"), Parameter("C", "float*")]
    parameters += [Parameter("partials", "float*"), Parameter("semaphores", "unsigned*")] if workspace else []
    signature = ", ".join(f"{one.ctype} {one.name}" for one in parameters)
    text = f'{functions}extern "C" __global__ void __launch_bounds__({threads}) k({signature}) {{\n{body}\n}}\n'
    launch = Launch(threads, (("M", 1), ("N", 64)), splits=3) if workspace else Launch(threads, (("M", 1),))
    return KernelSource("k", text, "test", {}, Contract(ANY_SHAPE, launch, tuple(parameters)))


@pytest.fixture(scope="module")
def emulator() -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor() as executor:
        yield executor


def run(emulator: EmulatorExecutor, source: KernelSource, case: Case = ROW) -> Floats:
    """C after a launch in each of several schedules, which all have to give the same."""
    operands = Operands(*(np.ones(matrix.elements, np.float32) for matrix in case.matrices))
    kernel = emulator.load(source)
    try:
        first, *others = [kernel.run(case, operands, seed=seed) for seed in SEEDS]
    finally:
        kernel.close()
    assert all(np.array_equal(first, other, equal_nan=True) for other in others)
    return first


def diagnoses(emulator: EmulatorExecutor, source: KernelSource, case: Case = ROW) -> list[str]:
    """What each of several schedules ends with; none may pass. Lines count from the kernel's head."""
    above = source.text.partition('extern "C"')[0].count("\n")
    operands = Operands(*(np.ones(matrix.elements, np.float32) for matrix in case.matrices))
    kernel = emulator.load(source)
    found = []
    for seed in SEEDS:
        with pytest.raises(CandidateFailed) as caught:
            kernel.run(case, operands, seed=seed)
        reason = caught.value.failure.reason
        line = r"\b(k\.cu:|line )(?:\d+, called from line )*(\d+)"
        found.append(re.sub(line, lambda at: f"{at[1]}{int(at[2]) - above}", reason))
    kernel.close()
    return found


# Warp 0 produces what warp 1 consumes; warp 2 may stand by.

PRODUCE = "const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;\n__shared__ float tile[32];"
HAND_OVER = (
    PRODUCE
    + """
        if (warp == 0) { tile[lane] = lane; GIVE }
        if (warp == 1) { TAKE C[lane] = tile[31 - lane]; }"""
)


@pytest.mark.parametrize("give", ["named_barrier_arrive(3, 64);", "named_barrier_sync(3, 64);"])
def test_a_named_barrier_orders_those_that_come_to_it(give: str, emulator: EmulatorExecutor) -> None:
    right = HAND_OVER.replace("GIVE", give).replace("TAKE", "named_barrier_sync(3, 64);")
    np.testing.assert_array_equal(run(emulator, by_hand(right))[:32], 31 - np.arange(32))
    stranger = right + "\nif (warp == 2) C[64 + lane] = tile[lane];"
    for reason in diagnoses(emulator, by_hand(stranger)):
        assert re.match(r"data race on shared memory: block 0, thread \d+ (writes|reads) byte \d+ of tile", reason)


def test_who_arrives_without_waiting_learns_nothing(emulator: EmulatorExecutor) -> None:
    body = HAND_OVER.replace("GIVE", "named_barrier_arrive(3, 64); LATER").replace(
        "TAKE", "FIRST named_barrier_sync(3, 64);"
    )
    wrong = {
        "a write after it": body.replace("LATER", "tile[lane] = 0;").replace("FIRST", ""),
        "a read after it": body.replace("LATER", "C[64 + lane] = more[lane];").replace("FIRST", "more[lane] = 1;"),
    }
    for edit in wrong.values():
        for reason in diagnoses(emulator, by_hand("__shared__ float more[32];" + edit)):
            assert "data race on shared memory" in reason


RING = """const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        __shared__ float tile[32];
        float sum = 0;
        for (int step = 0; step < 3; ++step) {
            if (warp == 0) {
                if (step > 0) named_barrier_sync(2, EMPTY);
                tile[lane] = step;
                named_barrier_arrive(1, 96);
            } else {
                named_barrier_sync(1, 96);
                sum += tile[31 - lane];
                if (step < 2 && FREES) named_barrier_arrive(2, EMPTY);
            }
        }
        if (warp > 0) C[threadIdx.x] = sum;"""


def test_a_stage_is_overwritten_once_all_its_readers_have_freed_it(emulator: EmulatorExecutor) -> None:
    right = RING.replace("EMPTY", "96").replace("FREES", "true")
    np.testing.assert_array_equal(run(emulator, by_hand(right))[32:], 3)


@pytest.mark.parametrize("careless", [1, 2])
def test_a_stage_that_one_warp_may_still_read_is_a_race_in_every_schedule(
    careless: int, emulator: EmulatorExecutor
) -> None:
    source = by_hand(RING.replace("EMPTY", "64").replace("FREES", f"warp != {careless}"))
    for reason in diagnoses(emulator, source):
        threads = [int(number) // 32 for number in re.findall(r"thread (\d+)", reason)]
        assert sorted(threads) == [0, careless] and "data race on shared memory" in reason, reason
        assert {"k.cu:8", "k.cu:12"} == set(re.findall(r"k\.cu:\d+", reason))


def test_what_one_barrier_tells_another_passes_on(emulator: EmulatorExecutor) -> None:
    body = (
        PRODUCE
        + """
        if (warp == 0) {{ tile[lane] = lane; named_barrier_arrive(1, 64); }}
        if (warp == 1) {{ {} named_barrier_arrive(2, 64); }}
        if (warp == 2) {{ named_barrier_sync(2, 64); C[lane] = tile[31 - lane]; }}"""
    )
    right = run(emulator, by_hand(body.format("named_barrier_sync(1, 64);")))
    np.testing.assert_array_equal(right[:32], 31 - np.arange(32))
    for reason in diagnoses(emulator, by_hand(body.format("named_barrier_arrive(1, 64);"))):
        assert "data race on shared memory" in reason


def test_lanes_pass_on_what_one_of_them_has_learnt(emulator: EmulatorExecutor) -> None:
    body = (
        PRODUCE
        + """
        __shared__ float flag[32];
        if (warp == 0) {{ tile[lane] = lane; named_barrier_sync(1, 64); }}
        if (warp == 1) {{ named_barrier_sync(1, 64); flag[lane] = tile[lane]; {} C[lane] = flag[31 - lane]; }}"""
    )
    np.testing.assert_array_equal(run(emulator, by_hand(body.format("__syncwarp();")))[:32], 31 - np.arange(32))
    assert all("data race" in reason for reason in diagnoses(emulator, by_hand(body.format(""))))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("named_barrier_sync(16, 96);", "comes to barrier 16 of 0 to 15"),
        ("named_barrier_sync(1, 40);", "comes to barrier 1 of 40 threads, which are no whole warps"),
        ("named_barrier_sync(1, 128);", "comes to barrier 1 of 128 threads in a block of 96"),
        (
            "if (threadIdx.x < 32) named_barrier_sync(1, 64); else named_barrier_sync(1, 96);",
            r"comes to barrier 1 of \d+ threads, where others came to one of \d+",
        ),
        (
            "if (threadIdx.x < 32) { named_barrier_arrive(1, 64); named_barrier_arrive(1, 64); }",
            "comes to barrier 1 again, before all of its 64 threads have come once",
        ),
        (
            "if (threadIdx.x < 32) named_barrier_sync(1, 64);\nelse if (threadIdx.x < 64) named_barrier_sync(2, 64);",
            r"barrier divergence in block 0: 32 of 96 threads wait at barrier 1 of line 2, where 32 of 64 threads have "
            r"come \(0, 1, 2, 3, ...\); 32 of 96 threads wait at barrier 2 of line 3, where 32 of 64 threads have come "
            r"\(32, 33, 34, 35, ...\); 32 of 96 threads have exited \(64, 65, 66, 67, ...\)",
        ),
        (
            "if (threadIdx.x % 2) named_barrier_sync(1, 96);\nelse named_barrier_sync(1, 96);",
            r"barrier divergence in block 0: 48 of 96 threads wait at a barrier of line 2 \(1, 3, 5",
        ),
        (
            "if (threadIdx.x < 64 && threadIdx.x % 2 == 0) named_barrier_sync(1, 32);\n__syncthreads();",
            r"barrier divergence in block 0: 32 of 96 threads wait at a barrier of line 2 \(0, 2, 4, 6, ...\); "
            r"64 of 96 threads wait at the __syncthreads of line 3 \(1, 3, 5, 7, ...\)",
        ),
    ],
)
def test_wrong_use_of_a_named_barrier_is_told(body: str, words: str, emulator: EmulatorExecutor) -> None:
    for reason in diagnoses(emulator, by_hand(body)):
        assert re.search(words, reason), reason


COPY = """const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        __shared__ __align__(16) float tile[2][32];
        if (warp == 0) {
            cp_async<4>(&tile[0][lane], A + lane, 4); cp_async_commit();
            cp_async<4>(&tile[1][lane], A + lane, 4); cp_async_commit();
            WAIT named_barrier_arrive(1, 64);
        }
        if (warp == 1) { named_barrier_sync(1, 64); C[lane] = tile[STAGE][31 - lane]; }"""


@pytest.mark.parametrize(("wait", "stage"), [("cp_async_wait<1>();", 0), ("cp_async_wait<0>();", 1)])
def test_a_copy_that_its_thread_has_waited_for_comes_before_who_follows(
    wait: str, stage: int, emulator: EmulatorExecutor
) -> None:
    source = by_hand(COPY.replace("WAIT", wait).replace("STAGE", str(stage)))
    np.testing.assert_array_equal(run(emulator, source)[:32], 1)


@pytest.mark.parametrize(("wait", "stage"), [("cp_async_wait<1>();", 1), ("", 0)])
def test_a_copy_under_way_is_a_race_with_who_follows(wait: str, stage: int, emulator: EmulatorExecutor) -> None:
    for reason in diagnoses(emulator, by_hand(COPY.replace("WAIT", wait).replace("STAGE", str(stage)))):
        assert re.search(r"'s cp_async writes byte \d+ of tile at k.cu:[56], .* reads it at k.cu:9, not wait", reason)


def test_a_copy_is_no_write_of_its_thread_before_it_is_waited_for(emulator: EmulatorExecutor) -> None:
    twice = (
        "__shared__ float tile[96];\n" + 2 * "cp_async<4>(&tile[threadIdx.x], A + threadIdx.x, 4); cp_async_commit();\n"
    )
    for reason in diagnoses(emulator, by_hand(twice)):
        assert re.search(
            r"cp_async writes .* at k.cu:3, thread (\d+)'s cp_async writes it at k.cu:4, not waited", reason
        )


# Elements of 1, 2 and 8 bytes.

TYPES = ["unsigned char", "unsigned short", "unsigned", "double"]


@pytest.mark.parametrize("ctype", TYPES)
def test_neighbouring_elements_of_shared_memory_are_apart(ctype: str, emulator: EmulatorExecutor) -> None:
    body = f"__shared__ {ctype} tile[96];\ntile[threadIdx.x AT] = threadIdx.x;\n"
    body += "__syncthreads();\nC[threadIdx.x] = tile[95 - threadIdx.x];"
    np.testing.assert_array_equal(run(emulator, by_hand(body.replace("AT", "")))[:96], 95 - np.arange(96))
    for reason in diagnoses(emulator, by_hand(body.replace("AT", "/ 2"))):
        assert re.search(r"writes byte \d+ of tile at k.cu:3, thread \d+ writes it at k.cu:3, no barrier", reason)


@pytest.mark.parametrize("ctype", TYPES[:3])
def test_neighbouring_elements_of_c_are_apart(ctype: str, emulator: EmulatorExecutor) -> None:
    write = f"reinterpret_cast<{ctype}*>(C)[threadIdx.x AT] = 1;"
    run(emulator, by_hand(write.replace("AT", "")))
    for reason in diagnoses(emulator, by_hand(write.replace("AT", "/ 2"))):
        assert re.search(r"data race on C: block 0, thread \d+ writes byte \d+ of C at k.cu:2, .* writes it", reason)


def test_part_of_a_larger_access_is_a_race_with_it(emulator: EmulatorExecutor) -> None:
    for other in ("reinterpret_cast<short*>(tile)[3] = 1;", "C[0] = reinterpret_cast<char*>(tile)[5];"):
        body = f"__shared__ __align__(8) float tile[2];\nif (threadIdx.x == 40) {{ {other} }}\n"
        body += "if (threadIdx.x == 2) *reinterpret_cast<double*>(tile) = 1.0;\n"
        body += "__syncthreads();\nC[threadIdx.x] = tile[0] + tile[1];"
        assert all("data race on shared memory" in reason for reason in diagnoses(emulator, by_hand(body)))


# Collectives of a warp.


def test_a_shuffle_moves_8_bytes_too(emulator: EmulatorExecutor) -> None:
    source = by_hand("""const int lane = threadIdx.x % 32;
        const double one = __shfl_sync(~0u, lane + 1 + 0x1p-40, 31 - lane);
        const long long more = __shfl_xor_sync(~0u, (1LL << 40) + lane, 5);
        C[threadIdx.x] = (one - 0x1p-40) * 1000 + (more - (1LL << 40));""")
    lanes = np.arange(96) % 32
    np.testing.assert_array_equal(run(emulator, source)[:96], (32 - lanes) * 1000 + (lanes ^ 5))


def test_lanes_at_different_collectives_do_not_meet(emulator: EmulatorExecutor) -> None:
    body = "if (threadIdx.x % 2) __shfl_sync(~0u, 1.0f, 0); else __ballot_sync(~0u, 1);"
    assert all("barrier divergence" in reason for reason in diagnoses(emulator, by_hand(body)))


# Blocks.

LAST = """__shared__ int last;
        partials[blockIdx.x * 64 + threadIdx.x % 64] = A[0];
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            last = atomicAdd(semaphores, 1u) == 2;
            FENCE
            if (last) *semaphores = 0;
        }
        __syncthreads();
        if (last && threadIdx.x == 0) C[0] = partials[0] + partials[64] + partials[128];"""


def test_the_last_block_may_put_its_counter_back(emulator: EmulatorExecutor) -> None:
    case = ANY_SHAPE.case(1, 1, 1)
    assert run(emulator, by_hand(LAST.replace("FENCE", "__threadfence();"), 64, True), case)[0] == 3
    for reason in diagnoses(emulator, by_hand(LAST.replace("FENCE", ""), 64, True), case):
        assert re.search(
            r"data race on semaphores: .*'s atomic updates .* at k.cu:7, block \d, thread 0 writes it", reason
        )


def test_blocks_pass_on_what_they_have_acquired(emulator: EmulatorExecutor) -> None:
    """The first block to come writes, and the third reads; each meets only its neighbour at a counter of its own."""
    source = by_hand(
        """if (threadIdx.x > 0) return;
        const unsigned turn = atomicInc(semaphores, 2);
        if (turn == 0) { partials[64] = 7; __threadfence(); atomicAdd(counters, 1u); }
        if (turn == 1) {
            atomicAdd(counters, 1u); FENCE atomicAdd(counters + 1, 1u);
        }
        if (turn == 2) {
            atomicAdd(counters + 1, 1u); __threadfence();
            C[0] = partials[64];
        }""",
        64,
        True,
    )
    counters = "#define counters reinterpret_cast<unsigned*>(partials + 128)\n"  # they may hold anything before
    case = ANY_SHAPE.case(1, 1, 1)
    right = replace(source, text=counters + source.text.replace("FENCE", "__threadfence();"))
    assert run(emulator, right, case)[0] == 7
    for reason in diagnoses(emulator, replace(source, text=counters + source.text.replace("FENCE", "")), case):
        assert "data race on partials: " in reason
