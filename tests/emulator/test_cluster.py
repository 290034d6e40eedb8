"""Clusters in the emulator: their barrier, arrivals at another block's mbarriers, TMA loads to several blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gemmgen.kernel.contract import Contract
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.kernel.tensor_map import TensorMap
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import environment
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.executor import Floats, Operands
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store

SEEDS = range(4)
KERNEL = (Path(__file__).parents[1] / "kernels" / "cluster.cu").read_text()
PROBLEM = Problem(4, 96, 96)


@pytest.fixture(scope="module")
def emulator(shared_store: Store) -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor(shared_store) as executor:
        yield executor


@pytest.fixture(scope="module")
def text() -> str:
    return environment(PROBLEM.types).from_string(KERNEL).render()


def source_of(text: str, cluster: int = 2) -> KernelSource:
    launch = Launch(64, (("M", cluster),), 2048, cluster=cluster, maps=(TensorMap("A", (32, 1)),))
    return KernelSource("k", text, "test", {}, Contract.of(PROBLEM, launch))


def given() -> Operands:
    case = PROBLEM.case()
    values = np.random.default_rng(1).integers(-8, 8, case.a.elements).astype(np.float32)
    return Operands(values, np.zeros(case.b.elements, np.float32), np.zeros(case.c.elements, np.float32))


def run(emulator: EmulatorExecutor, text: str, seed: int = 0, cluster: int = 2, **how: object) -> Floats:
    kernel = emulator.load(source_of(text, cluster))
    try:
        return PROBLEM.case().c.view(kernel.run(PROBLEM.case(), given(), seed=seed, **how))  # type: ignore[arg-type]
    finally:
        kernel.close()


def edited(text: str, *edits: tuple[str, str]) -> str:
    """Those of the kernel, not of its functions."""
    functions, head, body = text.partition('extern "C"')
    for old, new in edits:
        assert old in body
        body = body.replace(old, new)
    return functions + head + body


def reason_of(emulator: EmulatorExecutor, text: str, seed: int = 0, **how: int) -> str:
    with pytest.raises(CandidateFailed) as caught:
        run(emulator, text, seed, **how)
    return caught.value.failure.reason


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_of_a_cluster_bring_rows_to_each_other(seed: int, text: str, emulator: EmulatorExecutor) -> None:
    a = PROBLEM.case().a.view(given().a)
    wanted = np.array([a[row // 2 * 2] + (2 + row % 2) * a[row // 2 * 2 + 1] for row in range(4)])
    np.testing.assert_array_equal(run(emulator, text, seed), wanted)
    np.testing.assert_array_equal(run(emulator, text, seed, watch=False), wanted)


def test_a_cluster_runs_as_a_whole(text: str, emulator: EmulatorExecutor) -> None:
    a = PROBLEM.case().a.view(given().a)
    found = run(emulator, text, 1, blocks=[3, 2])
    np.testing.assert_array_equal(found[2], a[2] + 2 * a[3])
    assert not found[:2].any()


OWN_EMPTY = ("mbarrier_init(&shared.empty[stage], 2)", "mbarrier_init(&shared.empty[stage], 1)")
ARRIVES = "if (lane < 2) mbarrier_arrive_cluster(&shared.empty[stage], lane);"
LAST = "    cluster_sync();  // until"
FIRST = "    }\n    cluster_sync();\n"


MULTICAST, EXPECTED = "blockIdx.x, 3);", "expect_tx(&shared.full[stage], 256)"
SHARED = "dynamic shared memory of block"
LOAD_AND_READ = f"thread \\d+('s TMA load writes| reads) byte \\d+ of {SHARED} .* (TMA load writes|reads) it"
WRONG = {
    "starts apart": (
        [(FIRST, "    }\n    __syncthreads();\n")],
        f"uses the mbarrier at byte 512 of {SHARED} .* initialis",
    ),
    "arrives twice": ([(FIRST, "    }\n    cluster_arrive();\n")], "before it has waited there|initialis"),
    "waits for nothing": (
        [(FIRST, "    }\n    cluster_wait();\n")],
        "waits at the cluster's barrier, where it has not",
    ),
    "one block": (
        [(MULTICAST, "blockIdx.x, 1);")],
        r"deadlock in the cluster that begins with block [02]: .*32 of 64 threads of block (\d) "
        r"wait at line \d+, called from line \d+, for phase 0"
        rf" [^;]* byte 512 of {SHARED} \1, where 0 of 1 arrivals and 256 bytes are missing",
    ),
    "a third block": ([(MULTICAST, "blockIdx.x, 7);")], "accesses shared memory of rank 2 in a cluster of 2 blocks"),
    "no block": ([(MULTICAST, "blockIdx.x, 0);")], "TMA loads to no block"),
    "half": ([(EXPECTED, EXPECTED.replace("256", "128"))], LOAD_AND_READ),
    "twice": ([(EXPECTED, EXPECTED.replace("256", "512"))], "0 of 1 arrivals and 256 bytes are missing"),
    "own stage": (
        [OWN_EMPTY, (ARRIVES, "if (lane == 0) mbarrier_arrive(&shared.empty[stage]);")],
        LOAD_AND_READ,
    ),
    "forgotten peer": (
        [(ARRIVES, "if (lane == 0) mbarrier_arrive(&shared.empty[stage]);")],
        f"deadlock .* byte 528 of {SHARED} \\d, where 1 of 2 arrivals are missing",
    ),
    "no such rank": (
        [(ARRIVES, ARRIVES.replace("lane)", "2)"))],
        "maps an address to shared memory of rank 2 in a cluster of 2 blocks",
    ),
    "count": (
        [OWN_EMPTY],
        rf"one arrival too many|deadlock .* for phase 2 [^;]* byte 528 of {SHARED} \d, where 1 of 1 arrivals",
    ),
    "exits early": (
        [(LAST, "    // until")],
        r"of block \d, which has exited|nothing orders that before block \d+ exits",
    ),
}


@pytest.mark.parametrize(("edits", "words"), WRONG.values(), ids=WRONG)
def test_wrong_use_of_a_cluster_is_told(
    edits: list[tuple[str, str]], words: str, text: str, emulator: EmulatorExecutor
) -> None:
    wrong = edited(text, *edits)
    reasons = [reason_of(emulator, wrong, seed) for seed in SEEDS]
    assert all(re.search(words, reason) for reason in reasons), reasons


def test_between_arrival_and_wait_nothing_is_ordered(text: str, emulator: EmulatorExecutor) -> None:
    halves = "    }\n    cluster_arrive();\n    cluster_wait();\n"
    assert run(emulator, edited(text, (FIRST, halves)), 1).any()
    early = edited(
        text,
        ("    if (threadIdx.x == 0) {", "    cluster_arrive();\n    if (threadIdx.x == 0) {"),
        (FIRST, "    }\n    cluster_wait();\n"),
    )
    assert "orders that after its initialisation" in reason_of(emulator, early, 1)


def test_a_launch_in_other_clusters_is_refused(text: str, emulator: EmulatorExecutor) -> None:
    assert "a kernel whose __cluster_dims__ are 2: a GPU refuses it" in reason_of(emulator, text, cluster=4)


def test_the_blocks_of_a_cluster_meet_at_barriers_of_their_own(text: str, emulator: EmulatorExecutor) -> None:
    wrong = edited(text, ("const int lane", "if (rank == 0) __syncthreads();\n    const int lane"))
    assert run(emulator, wrong, 1).any()
    halves = edited(text, ("const int lane", "if (threadIdx.x < 32 * (2 - rank)) __syncthreads();\n    const int lane"))
    assert re.search("32 of 64 threads of block 1 wait at the __syncthreads", reason_of(emulator, halves, 1))


RANKS = """
//% from "device/cluster.cu" import cluster_at_once
${ cluster_at_once() }
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1)
k(const float* A, const float* B, float* C)
{
    if (threadIdx.x >= 32) return;  // nobody waits for who has exited
    cluster_sync();
    if (threadIdx.x == 0) C[blockIdx.x] = 100 * gridDim.x + cluster_rank();
}
"""


@pytest.mark.parametrize(("cluster", "threads"), [(4, 64), (16, 1024), (4, 40)])
def test_a_block_knows_its_rank(cluster: int, threads: int, emulator: EmulatorExecutor) -> None:
    problem = Problem(32, 1, 1)
    text = environment(problem.types).from_string(RANKS).render().replace("CLUSTER", str(cluster))
    launch = Launch(threads, (("M", cluster),), cluster=cluster)
    contract = Contract(problem, launch, Contract.of(problem, launch).parameters[:3])
    kernel = emulator.load(KernelSource("k", text, "test", {}, contract))
    case = problem.case()
    operands = Operands(*(np.zeros(matrix.elements, np.float32) for matrix in case.matrices))
    for seed in SEEDS:
        found = kernel.run(case, operands, seed=seed)
        np.testing.assert_array_equal(found.ravel(), 3200 + np.arange(32) % cluster)
    kernel.close()


TOLD = """
//% from "device/cluster.cu" import cluster, mbarrier_arrive_cluster
//% from "device/dynamic_shared.cu" import dynamic_shared
//% from "device/mbarrier.cu" import mbarrier, mbarrier_arrive
//% from "device/shared_address.cu" import shared_address
${ shared_address() }
${ mbarrier(mbarrier_arrive()) }
${ cluster() }
${ mbarrier_arrive_cluster() }
${ dynamic_shared() }
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32)
k(const float* A, const float* B, float* C)
{
    unsigned long long* const there = reinterpret_cast<unsigned long long*>(dynamic_shared());
    if (threadIdx.x == 0) mbarrier_init(there, 1);
    cluster_sync();
    if (cluster_rank() == 1 && threadIdx.x == 0) {
        C[1] = 5;
        TELLS
    }
    WAITS
    if (cluster_rank() == 0 && threadIdx.x == 0) C[0] = C[1];
    cluster_sync();
}
"""


@pytest.mark.parametrize(
    ("tells", "waits", "ordered"),
    [
        ("mbarrier_arrive_cluster(there, 0);", "if (cluster_rank() == 0) mbarrier_wait(there, 0);", False),
        ("", "cluster_sync();", True),
        ("", "cluster_arrive(); cluster_wait();", True),
        ("", "if (cluster_rank() == 0) cluster_sync(); else { cluster_arrive(); cluster_wait(); }", True),
        ("", "if (cluster_rank() == 0) { cluster_arrive(); cluster_wait(); } else cluster_sync();", True),
        ("", "__syncthreads();", False),
    ],
)
def test_what_a_block_writes_to_memory_the_clusters_barrier_tells(
    tells: str, waits: str, ordered: bool, emulator: EmulatorExecutor
) -> None:
    problem = Problem(2, 1, 1)
    text = environment(problem.types).from_string(TOLD).render().replace("TELLS", tells).replace("WAITS", waits)
    launch = Launch(32, (("M", 2),), 128, cluster=2)
    contract = Contract(problem, launch, Contract.of(problem, launch).parameters[:3])
    kernel = emulator.load(KernelSource("k", text, "test", {}, contract))
    case = problem.case(beta=1)  # C may be read
    operands = Operands(*(np.ones(matrix.elements, np.float32) for matrix in case.matrices))
    for seed in SEEDS:
        if ordered:
            np.testing.assert_array_equal(kernel.run(case, operands, seed=seed).ravel(), [5, 5])
            continue
        with pytest.raises(CandidateFailed, match=r"data race on C: .* at k.cu:\d+, and nothing orders blocks"):
            kernel.run(case, operands, seed=seed)
    kernel.close()


SUMS = """
//% from "device/cluster.cu" import cluster, load_shared_cluster
//% from "device/dynamic_shared.cu" import dynamic_shared
//% from "device/shared_address.cu" import shared_address
${ shared_address() }
${ cluster() }
${ load_shared_cluster("float") }
${ dynamic_shared() }
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS)
k(const float* A, const float* B, float* C)
{
    float* const own = reinterpret_cast<float*>(dynamic_shared());
    for (int i = 0; i < 4; ++i) own[4 * threadIdx.x + i] = 1 + cluster_rank();
    cluster_sync();  // of all
    float sum = 0;
    for (unsigned rank = 0; rank < CLUSTER; ++rank) {
        float part[4];
        load_shared_cluster(own + 4 * threadIdx.x, rank, part);
        sum += part[3];
    }
    cluster_arrive();
    cluster_wait();
    if (threadIdx.x == 0) C[blockIdx.x] = sum;
}
"""


def sums(
    emulator: EmulatorExecutor, cluster: int, threads: int, edit: tuple[str, str] = ("", ""), seed: int = 0
) -> Floats:
    problem = Problem(16, 1, 1)
    text = edited(environment(problem.types).from_string(SUMS).render(), edit)
    text = text.replace("CLUSTER", str(cluster)).replace("THREADS", str(threads))
    launch = Launch(threads, (("M", cluster),), 16 * threads, cluster=cluster)
    contract = Contract(problem, launch, Contract.of(problem, launch).parameters[:3])
    kernel = emulator.load(KernelSource("k", text, "test", {}, contract))
    operands = Operands(*(np.ones(matrix.elements, np.float32) for matrix in problem.case().matrices))
    try:
        return kernel.run(problem.case(), operands, seed=seed).ravel()
    finally:
        kernel.close()


STATIC = (
    "float* const own = reinterpret_cast<float*>(dynamic_shared());",
    "__shared__ alignas(16) float own[4 * THREADS];",
)


@pytest.mark.parametrize(
    ("cluster", "threads", "edit"), [(2, 32, ("", "")), (8, 256, ("", "")), (8, 40, ("", "")), (2, 40, STATIC)]
)
def test_blocks_read_each_others_shared_memory(
    cluster: int, threads: int, edit: tuple[str, str], emulator: EmulatorExecutor
) -> None:
    for seed in SEEDS:
        found = sums(emulator, cluster, threads, edit, seed)
        np.testing.assert_array_equal(found, cluster * (cluster + 1) / 2)


UNREAD = ("    cluster_arrive();\n    cluster_wait();\n", "")
FAR = {
    "before it is written": (
        ("cluster_sync();  // of all", ""),
        "data race on shared memory|which no thread has written",
    ),
    "with its own block's barrier": (
        ("cluster_sync();  // of all", "__syncthreads();"),
        "data race on shared memory|which no",
    ),
    "of a block that has exited": (UNREAD, r"nothing orders that before block \d+ exits|which has exited"),
    "that is written again": (
        ("    cluster_arrive();", "    own[4 * threadIdx.x] = 0;\n    cluster_arrive();"),
        r"data race on shared memory: block \d+, thread",
    ),
    "of a block that there is not": (
        ("rank, part", "rank + 1, part"),
        "maps an address to shared memory of rank 2 in a cluster of 2 blocks",
    ),
    "beside what a block has": (
        ("own + 4 *", "own + 4 + 4 *"),
        f"reads 0 bytes after the end of {SHARED} [0-9]",
    ),
    "at an address of 4 bytes": (
        ("own + 4 *", "own + 1 + 3 *"),
        f"reads 16 bytes at a misaligned address, which 16 does not divide .byte 4 of {SHARED} [0-9]",
    ),
}


@pytest.mark.parametrize("wrong", FAR)
def test_a_wrong_read_of_another_blocks_shared_memory_is_told(wrong: str, emulator: EmulatorExecutor) -> None:
    edit, reason = FAR[wrong]
    for seed in SEEDS:
        with pytest.raises(CandidateFailed, match=reason) as caught:
            sums(emulator, 2, 32, edit, seed)
        assert caught.value.failure.kind in ("crash", "race")
