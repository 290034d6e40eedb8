"""A kernel of TMA, mbarriers and wgmma in the emulator: the model's bits, and each bug is found in every order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gemmgen.kernel.contract import Contract
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.kernel.tensor_map import TensorMap
from gemmgen.problem.device import parse_arch
from gemmgen.problem.gemm import Case, Problem
from gemmgen.problem.mma import MMAS
from gemmgen.problem.types import Types
from gemmgen.problem.wgmma import wgmmas
from gemmgen.render.kernel_text import environment
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.emulator.launches import EmulatedKernel
from gemmgen.run.executor import Floats, Operands
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store
from gemmgen.verification.tensor_core import dot
from gemmgen.verification.verifier import verify

PROBLEM = Problem(None, None, None, layout="rc", types=Types.parse("bf16,bf16,f32"))
SEEDS = range(6)  # orders of threads; TMA lands late or early, wgmma computes late or early
STAGES = 3
INSTRUCTION = wgmmas()["wgmma_m64n64k16_bf16"]

TEXT = (Path(__file__).parents[1] / "kernels" / "wgmma.cu").read_text()


def kernel_source(n: int = 0, **launch: object) -> KernelSource:
    """The kernel, for `n` columns of C or any number of whole chunks of 16 bytes."""
    text = environment(PROBLEM.types).from_string(TEXT).render(instruction=INSTRUCTION, n=n)
    maps = (TensorMap("A", (64, 64), 128), TensorMap("B", (64, 64), 128), TensorMap("C", (64, 64)))
    shared = STAGES * 2 * 64 * 64 * 2 + 64 * 64 * 4
    geometry = Launch(160, (("M", 128), ("N", 64)), shared, maps=maps)
    geometry = replace(geometry, **launch)  # type: ignore[arg-type]
    return KernelSource("k", text, "test", {}, Contract.of(PROBLEM, geometry))


@pytest.fixture(scope="module")
def emulator(shared_store: Store) -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor(shared_store) as executor:
        yield executor


def operands(case: Case, seed: int = 0) -> Operands:
    random = np.random.default_rng(seed)
    storages = [matrix.dtype.encode(random.normal(size=matrix.elements)) for matrix in case.matrices]
    return Operands(
        *(storage.view(matrix.dtype.numpy) for storage, matrix in zip(storages, case.matrices, strict=True))
    )


def expected(case: Case, given: Operands) -> Floats:
    """The elements of C by the model of the tensor core: 16 of k a step."""
    a, b = case.a.view(given.a.view(np.uint16)), case.b.view(given.b.view(np.uint16))
    padding = ((0, 0), (0, -case.k % 16))
    factors = [np.pad(one, padding)[shape] for one, shape in ((a, np.s_[:, None]), (b.T, np.s_[None, :]))]
    sums = dot(
        MMAS["mma_m16n8k16_bf16"],
        parse_arch("sm_90"),
        *np.broadcast_arrays(*factors),
        np.zeros((case.m, case.n), np.uint32),
    )
    return sums.view(np.float32)


def run(kernel: EmulatedKernel, case: Case, seed: int, watch: bool = True) -> Floats:
    given = operands(case)
    return case.c.view(kernel.run(case, given, seed=seed, watch=watch))


# What is said of a bug, by every order of threads, or nothing where the bits are wrong; and what it puts where.
ARRIVE = "if (threadIdx.x == 0) mbarrier_arrive(&empty[stage]);"
WAIT, EXPECT = "wgmma_wait<0>();", "mbarrier_arrive_expect_tx(&full[stage], 2 * TILE_BYTES);"
DESCRIPTOR_A = "make_descriptor<128>(As + stage * TILE_BYTES, 16, 1024)"
DESCRIPTOR_B = "make_descriptor<128>(Bs + stage * TILE_BYTES, 16, 1024)"
LOAD_A = "tma_load_2d(As + stage * TILE_BYTES, &map_a, &full[stage], k * BK, first_m + tile * 64);"
UNDER_WAY = "not waited for yet"
# PTX that copies a sum in flight to a register that keeps a value from turn to turn, or to a free one. ptxas waits for
# the product before the copy, but not behind a wait that leaves the product in flight.
USED = "setp.eq.s32 first, %1, 0; @first mov.f32 held, 0f00000000; add.f32 sum, held, held; mov.f32 held, %0;"
FREE = "mov.f32 held, %0; wgmma.wait_group.sync.aligned 0; add.f32 sum, held, held; mov.f32 %0, held;"
COPY_TO_USED, COPY_TO_FREE = (
    f'asm volatile("{{ .reg .pred first; .reg .f32 held, sum; {body} }}" : "+f"(d[5]) : "r"(k));'
    for body in (USED, FREE)
)
BUGS: dict[str, tuple[str, dict[str, str]]] = {
    "no proxy fence": (
        "thread .* writes .* thread 0's TMA store reads it at .* by the async proxy, without a proxy fence between",
        {"fence_proxy_async();": ""},
    ),
    "no barrier before the store": (
        "(TMA store reads .* writes it|writes .* TMA store reads it)",
        {"named_barrier_sync(2, 128);": ""},
    ),
    "a staged tile that is not free": (
        f"data race .*'s TMA store reads .* thread .* writes it at .*, {UNDER_WAY}",
        {"if (threadIdx.x == 0 && tile > 0) tma_store_wait_read<0>();": ""},
    ),
    "no wait for the last store": (
        "exits while a TMA store may still read shared memory",
        {"if (threadIdx.x == 0) tma_store_wait_read<0>();": ""},
    ),
    "no commit of stores": (
        f"exits with a TMA store that no tma_store_commit follows|'s TMA store reads .* writes it at .*, {UNDER_WAY}",
        {"tma_store_commit();": ""},
    ),
    "no fence of products": ("no wgmma_fence comes before its first wgmma", {"wgmma_fence();": ""}),
    "a fence for the first tile alone": (
        "accumulators of a wgmma have been written since the last wgmma_fence",
        {"wgmma_fence();": "if (tile == 0) wgmma_fence();"},
    ),
    "no commit of products": ("waits for no wgmma: no wgmma_commit follows", {"wgmma_commit();": ""}),
    "accumulators touched in flight": (
        rf"reads registers in flight: those of the wgmma at k\.cu:\d+, called from line \d+, {UNDER_WAY}",
        {WAIT: "d[5] += 1.0f; wgmma_wait<0>();"},
    ),
    "a copy in flight to a register in use": (
        r"copies registers in flight, those of the wgmma at k\.cu:\d+, called from line \d+, to a register that still "
        rf"holds a value, read after that wgmma at k\.cu:\d+: .*, so the copy reads sums that are {UNDER_WAY}",
        {WAIT: f"wgmma_wait<1>(); {COPY_TO_USED} wgmma_wait<0>();"},
    ),
    "a group left in flight": (
        f"data race .*wgmma reads .*TMA load writes it .*, {UNDER_WAY}|reads registers in flight",
        {WAIT: "wgmma_wait<1>();"},
    ),
    "no wait for products": (
        f"data race .*wgmma reads .*TMA load writes it .*, {UNDER_WAY}|reads registers in flight",
        {WAIT: ""},
    ),
    "a stage freed before its products": (
        f"data race .*wgmma reads .*TMA load writes it .*, {UNDER_WAY}",
        {WAIT: f"{ARRIVE} wgmma_wait<0>();", ARRIVE: ""},
    ),
    "each thread frees a stage": (
        r"deadlock in block 0: .* for phase 1\d\d \(parity \d\) of the mbarrier at byte \d+ of empty|data race",
        {ARRIVE: "mbarrier_arrive(&empty[stage]);"},
    ),
    "no stage is freed": (
        r"deadlock in block 0: .* wait at line \d+, called from line \d+, for phase 0 \(parity 0\) of the mbarrier "
        r"at byte \d+ of empty, where 1 of 1 arrivals are missing \(\d+\)",
        {ARRIVE: ""},
    ),
    "a count of warps": (
        "deadlock in block 0: .* of empty, where 3 of 4 arrivals are missing",
        {"mbarrier_init(&empty[s], 1);": "mbarrier_init(&empty[s], 4);"},
    ),
    "bytes of one operand": (
        f"data race .*TMA load writes .*wgmma reads it at .*, {UNDER_WAY}|bytes came that it does not expect",
        {EXPECT: "mbarrier_arrive_expect_tx(&full[stage], TILE_BYTES);"},
    ),
    "bytes of three operands": (
        "deadlock in block 0: .* of full, where 0 of 1 arrivals and 8192 bytes are missing",
        {EXPECT: "mbarrier_arrive_expect_tx(&full[stage], 3 * TILE_BYTES);"},
    ),
    "a producer that starts with parity 0": (
        r"deadlock in block 0: .* phase 0 \(parity 0\) of the mbarrier at .* of empty",
        {"mbarrier_wait(&empty[stage], phase ^ 1);": "mbarrier_wait(&empty[stage], phase);"},
    ),
    "a producer that does not wait": (
        f"data race .*TMA load writes .*, {UNDER_WAY}|one arrival too many",
        {"mbarrier_wait(&empty[stage], phase ^ 1);": ""},
    ),
    "consumers whose parity does not flip": (
        f"data race .*{UNDER_WAY}|deadlock|one arrival too many",
        {"if (stage == 0) phase ^= 1;": ""},
    ),
    "consumers that start each tile anew": (
        f"data race .*{UNDER_WAY}|deadlock|one arrival too many",
        {"for (int i = 0; i < 32; ++i) d[i] = 0.0f;": "for (int i = 0; i < 32; ++i) d[i] = 0.0f; stage = phase = 0;"},
    ),
    "barriers that TMA does not see": (
        "TMA uses the mbarrier at .* of full, whose initialisation at .* no fence_mbarrier_init covers",
        {"fence_mbarrier_init();": ""},
    ),
    "barriers that others do not see": (
        "which no thread has initialised|nothing orders that after its initialisation",
        {"__syncthreads();": ""},
    ),
    "two lanes that load": ("one arrival too many|data race", {"elect_one()": "threadIdx.x % 32 < 2"}),
    "a barrier of all threads": (
        "wait at barrier 1 of line .*, where 128 of 160 threads have come",
        {"named_barrier_sync(1, 128);": "named_barrier_sync(1, 160);"},
    ),
    "a stage inside a pattern": (
        r"TMA of a box whose place in shared memory 1024 does not divide \(byte \d+ of dynamic",
        {LOAD_A: LOAD_A.replace("TILE_BYTES,", "TILE_BYTES + 512,")},
    ),
    "a descriptor inside a pattern": (
        "the descriptor of a wgmma's A starts at shared address .*, inside a pattern of 1024 bytes",
        {DESCRIPTOR_A: DESCRIPTOR_A.replace("TILE_BYTES,", "TILE_BYTES + 128,")},
    ),
    "a stride beyond shared memory": (
        r"a wgmma's B leads to shared address \d+ \(\d+ bytes after the end of dynamic shared memory\)",
        {DESCRIPTOR_B: DESCRIPTOR_B.replace("1024)", "65536)")},
    ),
    "descriptors that differ": ("thread 1 brings another descriptor", {"a + 2 * i": "a + 2 * i + threadIdx.x % 2"}),
    "another swizzle": (
        "A starts at shared address .*, inside a pattern of 512 bytes",
        {DESCRIPTOR_A: DESCRIPTOR_A.replace("<128>", "<64>")},
    ),
    "another stride": ("", {DESCRIPTOR_B: DESCRIPTOR_B.replace("1024)", "512)")}),
    "a step past the line": (
        "B starts at shared address .*, inside a pattern of 1024 bytes",
        {"b + 2 * i": "b + 4 * i"},
    ),
    "sums that start anew": ("", {"k > 0 || i > 0": "i > 0"}),
    "coordinates by row": ("", {LOAD_A: LOAD_A.replace("k * BK, first_m + tile * 64", "first_m + tile * 64, k * BK")}),
}


BEFORE = "if (threadIdx.x == 0 && tile > 0) tma_store_wait_read<0>();"
LOAD_B = "tma_load_2d(Bs + stage * TILE_BYTES, &map_b, &full[stage], k * BK, n);"
FREE_LAST = "mbarrier_arrive(&empty[stage == 0 ? STAGES - 1 : stage - 1]);"
RIGHT: dict[str, dict[str, str]] = {  # what may be otherwise
    "a group in flight while its stage is kept": {
        WAIT: "wgmma_wait<1>();",
        ARRIVE: f"if (threadIdx.x == 0 && k > 0) {FREE_LAST}",
        BEFORE: f"wgmma_wait<0>(); if (threadIdx.x == 0 && steps > 0) {FREE_LAST} {BEFORE}",
    },
    "a copy in flight to a free register": {WAIT: f"wgmma_wait<1>(); {COPY_TO_FREE}"},
    "a copy in flight that ptxas waits for": {WAIT: f"{COPY_TO_USED} wgmma_wait<0>();"},
    "the storing thread fences": {
        "fence_proxy_async();": "",
        "named_barrier_sync(2, 128);": "named_barrier_sync(2, 128); if (threadIdx.x == 0) fence_proxy_async();",
    },
    "barriers fenced as all else": {"fence_mbarrier_init();": "fence_proxy_async();"},
    "a wait for what is written": {BEFORE: BEFORE.replace("_read", "")},
    "a lane of our choice": {"elect_one()": "threadIdx.x == 130"},
    "loads before their bytes are expected": {EXPECT: "", LOAD_B: f"{LOAD_B} {EXPECT}"},
}


def with_bugs(text: str) -> str:
    """`text` with all of them, of which alpha chooses one: so a single kernel is compiled."""
    functions, head, body = text.partition('extern "C"')
    edits: dict[str, str] = {}
    for number, changes in enumerate([*(changes for _, changes in BUGS.values()), *RIGHT.values()]):
        for right, wrong in changes.items():
            assert body.count(right) == 1, right
            edits[right] = _either(number, wrong, edits.get(right, right))
    return functions + head + re.sub("|".join(map(re.escape, edits)), lambda found: edits[found[0]], body)


def _either(number: int, new: str, old: str) -> str:
    if old.endswith((";", "}")):
        return f"if (bug == {number}) {{ {new} }} else {{ {old} }}"
    return f"(bug == {number} ? ({new}) : ({old}))"


@pytest.mark.parametrize("watch", [True, False])
def test_the_kernel_gives_the_bits_of_the_model(watch: bool, emulator: EmulatorExecutor) -> None:
    kernel = emulator.load(kernel_source())
    for m, n, k in ((128, 64, 256), (100, 72, 72), (130, 8, 8)):
        case = PROBLEM.case(m, n, k, ldc=n + n % 4)
        wanted = expected(case, operands(case))
        for seed in SEEDS:
            np.testing.assert_array_equal(run(kernel, case, seed, watch), wanted)
    kernel.close()


def test_two_warpgroups_that_share_a_stage_pass_verification(
    emulator: EmulatorExecutor, right_kernel_of_maps: KernelSource
) -> None:
    verdict = verify(emulator, right_kernel_of_maps, examples=15, runs=3)
    assert verdict.passed, verdict.failure or verdict.mismatch


def test_blocks_with_several_tiles_show_what_is_wrong_from_the_second_on(
    emulator: EmulatorExecutor, right_kernel_of_maps: KernelSource
) -> None:
    source = right_kernel_of_maps
    wait = "if (thread == 0) tma_store_wait_read<0>();\n            named_barrier_sync"
    assert source.text.count(wait) == 1
    kernel = emulator.load(replace(source, text=source.text.replace(wait, "named_barrier_sync")))
    case = source.problem.case(8, 136, 64)
    given = operands(case)
    kernel.run(case, given, seed=3)  # three blocks
    for seed in (1, 2):  # two, and one
        with pytest.raises(CandidateFailed, match=f"'s TMA store reads .* writes it at .*, {UNDER_WAY}"):
            kernel.run(case, given, seed=seed)
    kernel.close()


def test_the_kernel_passes_verification(emulator: EmulatorExecutor) -> None:
    """Of any shape, as C = A * B."""
    problem = Problem(None, 72, None, ldc=None, layout="rc", types=PROBLEM.types, epilogue="acc", ld_align=8)
    source = kernel_source(n=72)
    text = source.text.replace(", float alpha, float beta)", ")").replace("static_cast<int>(alpha)", "-1")
    source = replace(source, text=text, contract=Contract.of(problem, source.launch))
    verdict = verify(emulator, source, examples=15, runs=3)
    assert verdict.passed, verdict.failure or verdict.mismatch
    assert verdict.domain is not None and verdict.coverage is not None


@pytest.fixture(scope="module")
def buggy(emulator: EmulatorExecutor) -> Iterator[EmulatedKernel]:
    source = kernel_source()
    kernel = emulator.load(replace(source, text=with_bugs(source.text)))
    yield kernel
    kernel.close()


SMALL = {"m": 100, "n": 24, "k": 320}  # five k tiles each, so that stages are used again; watched as a whole


@pytest.mark.parametrize("number", [-1, *range(len(BUGS), len(BUGS) + len(RIGHT))], ids=["as it stands", *RIGHT])
def test_what_is_right_passes_in_every_order(number: int, buggy: EmulatedKernel) -> None:
    case = PROBLEM.case(**SMALL, alpha=float(number))
    wanted = expected(case, operands(case))
    for seed in SEEDS:
        np.testing.assert_array_equal(run(buggy, case, seed), wanted)


@pytest.mark.parametrize("number", range(len(BUGS)), ids=list(BUGS))
def test_each_bug_is_found_in_every_order(number: int, buggy: EmulatedKernel) -> None:
    words = list(BUGS.values())[number][0]
    case = PROBLEM.case(**SMALL, alpha=float(number))
    for seed in SEEDS:
        if not words:
            assert not np.array_equal(run(buggy, case, seed), expected(case, operands(case)), equal_nan=True)
            continue
        with pytest.raises(CandidateFailed) as caught:
            run(buggy, case, seed)
        reason = caught.value.failure.reason
        assert re.search(words, reason), reason
        assert re.search(r"k\.cu:\d|called from line \d", reason), reason
