"""The emulator runs kernels as written and diagnoses what a GPU would pass over in silence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemmgen.kernel.contract import Contract, Parameter
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.dtype import CANARY
from gemmgen.problem.gemm import Case, Problem
from gemmgen.render.kernel_text import environment
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.emulator.arena import Segment, place
from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.run.executor import Executor, Floats, Operands
from gemmgen.support.errors import CandidateFailed, Failure, InvalidInput
from gemmgen.support.files import Store

ANY_SHAPE = Problem(None, None, None, lda=None, ldb=None, ldc=None)
SIGNATURE = (
    "(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,"
    " int M, int N, int K, int lda, int ldb, int ldc, float alpha, float beta)"
)
PARAMETERS = (
    Parameter("A", "const float*"),
    Parameter("B", "const float*"),
    Parameter("C", "float*"),
    *(Parameter(name, "int") for name in ("M", "N", "K", "lda", "ldb", "ldc")),
    *(Parameter(name, "float") for name in ("alpha", "beta")),
)

NAIVE = """
    const int row = blockIdx.x, column = threadIdx.x;
    if (column >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum = fmaf(A[row * lda + k], B[k * ldb + column], sum);
    float* c = C + row * ldc + column;
    *c = alpha * sum + (beta != 0.0f ? beta * *c : 0.0f);
"""

TILED = """
    constexpr int T = 8;
    __shared__ __align__(16) float As[T][T + 4], Bs[T][T + 4];
    const int tiles = (N + T - 1) / T;
    const int ty = threadIdx.x / T, tx = threadIdx.x % T;
    const int row = blockIdx.x / tiles * T + ty, column = blockIdx.x % tiles * T + tx;
    float sum = 0.0f;
    for (int k = 0; k < K; k += T) {
        As[ty][tx] = row < M && k + tx < K ? A[row * lda + k + tx] : 0.0f;
        Bs[ty][tx] = k + ty < K && column < N ? __ldg(&B[(k + ty) * ldb + column]) : 0.0f;
        __syncthreads();  // tiles are complete
        #pragma unroll
        for (int i = 0; i < T; ++i) sum = __fmaf_rn(As[ty][i], Bs[i][tx], sum);
        __syncthreads();  // tiles are read
    }
    if (row < M && column < N) {
        float* c = C + row * ldc + column;
        *c = alpha * sum + (beta != 0.0f ? beta * *c : 0.0f);
    }
"""

FUNCTIONS = """
//% from "device/cp_async.cu" import cp_async
//% from "device/dynamic_shared.cu" import dynamic_shared
${ cp_async() }
${ dynamic_shared() }
"""

ASYNC = """
    constexpr int T = 8;
    __shared__ __align__(16) float As[2][T][T], Bs[2][T][T];
    const int tiles = (N + T - 1) / T;
    const int ty = threadIdx.x / T, tx = threadIdx.x % T;
    const int row = blockIdx.x / tiles * T + ty, column = blockIdx.x % tiles * T + tx;
    auto copy = [&](int stage, int k) {
        cp_async<4>(&As[stage][ty][tx], A + row * lda + k + tx, row < M && k + tx < K ? 4 : 0);
        cp_async<4>(&Bs[stage][ty][tx], B + (k + ty) * ldb + column, k + ty < K && column < N ? 4 : 0);
    };
    copy(0, 0);
    cp_async_commit();
    float sum = 0.0f;
    int stage = 0;
    for (int k = 0; k < K; k += T, stage ^= 1) {
        if (k + T < K) copy(stage ^ 1, k + T);
        cp_async_commit();
        cp_async_wait<1>();
        __syncthreads();  // the stage has landed
        for (int i = 0; i < T; ++i) sum = fmaf(As[stage][ty][i], Bs[stage][i][tx], sum);
        __syncthreads();  // the stage is read
    }
    if (row < M && column < N) C[row * ldc + column] = alpha * sum;
"""

WARP_SUM = """
    // A warp an element of C: lanes share out K and add up by shuffles.
    const int row = blockIdx.x / N, column = blockIdx.x % N;
    float sum = 0.0f;
    for (int k = threadIdx.x; k < K; k += 32) sum += A[row * lda + k] * B[k * ldb + column];
    for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    if (threadIdx.x == 0) C[row * ldc + column] = alpha * sum;
"""

DEVICE = environment(ANY_SHAPE.types).from_string(FUNCTIONS).render()

ROW = Launch(64, (("M", 1),))
TILES = Launch(64, (("M", 8), ("N", 8)))
WARPS = Launch(32, (("M", 1), ("N", 1)))


def kernel(body: str, launch: Launch = ROW, problem: Problem = ANY_SHAPE, before: str = "") -> KernelSource:
    """A kernel called `k` whose body starts at line 2, plus the lines of `before`."""
    head = f'extern "C" __global__ void __launch_bounds__({launch.threads}) k{SIGNATURE}'
    return KernelSource("k", f"{before}{head}\n{{{body}}}\n", "test", {}, Contract(problem, launch, PARAMETERS))


def line_of(source: KernelSource, text: str) -> str:
    number = next(i for i, line in enumerate(source.text.splitlines(), 1) if text in line)
    return f"k.cu:{number}"


def data(case: Case, seed: int = 1) -> Operands:
    """Small integers, so that every order of additions gives the same bits; NaN in all padding and in C."""
    numbers = np.random.default_rng(seed)
    storage = [np.full(matrix.elements, np.nan, np.float32) for matrix in case.matrices]
    for matrix, flat in zip(case.matrices, storage, strict=True):
        matrix.view(flat)[...] = numbers.integers(-4, 5, (matrix.rows, matrix.cols))
    if case.beta == 0:
        storage[2][...] = np.nan
    return Operands(*storage)


def expected(case: Case, operands: Operands) -> Floats:
    result: Floats = operands.c.copy()
    product = np.float32(case.alpha) * (case.a.view(operands.a) @ case.b.view(operands.b))
    c = case.c.view(result)
    c[...] = product + (np.float32(case.beta) * c if case.beta != 0 else np.float32(0))
    return result


@pytest.fixture
def emulator(shared_store: Store) -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor(shared_store, timeout=20.0) as executor:
        yield executor


def fails(emulator: EmulatorExecutor, source: KernelSource, case: Case, seed: int = 0) -> str:
    """The diagnosis of one launch, which must fail, after its kind: "crash: block 0, ..."."""
    with pytest.raises(CandidateFailed) as caught:
        emulator.load(source).run(case, data(case), seed=seed)
    assert caught.value.failure.source == "emulator"
    return f"{caught.value.failure.kind}: {caught.value.failure.reason}"


@pytest.mark.parametrize(
    ("body", "launch"),
    [(NAIVE, ROW), (TILED, TILES), (ASYNC, TILES), (WARP_SUM, WARPS)],
    ids=["naive", "tiled", "cp_async", "shuffle"],
)
def test_right_result(emulator: Executor, body: str, launch: Launch) -> None:
    loaded = emulator.load(kernel(body, launch, before=DEVICE))
    for case in (
        ANY_SHAPE.case(16, 24, 32),
        ANY_SHAPE.case(1, 1, 1),
        ANY_SHAPE.case(17, 23, 29, lda=31, ldb=24, ldc=40, alpha=2.0),
    ):
        operands = data(case)
        for seed in range(5):
            np.testing.assert_array_equal(loaded.run(case, operands, seed=seed), expected(case, operands))


def test_beta_reads_c_and_operands_stay(emulator: EmulatorExecutor) -> None:
    case = ANY_SHAPE.case(9, 10, 11, ldc=12, beta=3.0)
    operands, before = data(case), data(case)
    result = emulator.load(kernel(TILED, TILES)).run(case, operands)
    np.testing.assert_array_equal(result, expected(case, before))
    np.testing.assert_array_equal(operands.c, before.c)


def test_no_depth(emulator: EmulatorExecutor) -> None:
    case = ANY_SHAPE.case(4, 5, 0, beta=1.0)
    operands = data(case)
    np.testing.assert_array_equal(emulator.load(kernel(NAIVE)).run(case, operands), operands.c)
    assert "after the end of A" in fails(emulator, kernel("C[0] = A[0];"), case)


def test_big_grid_spreads_over_threads(emulator: EmulatorExecutor) -> None:
    case = ANY_SHAPE.case(256, 256, 64)
    operands = data(case)
    loaded = emulator.load(kernel(TILED, TILES))
    for seed in range(2):
        np.testing.assert_array_equal(loaded.run(case, operands, seed=seed), expected(case, operands))
    late = "if (blockIdx.x == 1000 && threadIdx.x == 7) C[-1] = 0.0f;" + TILED
    reason = fails(emulator, kernel(late, TILES), case, seed=1)
    assert reason.startswith("crash: block 1000, thread 7 writes 4 bytes before the start of C")


@pytest.mark.parametrize("align", [4, 8, 16])
def test_base_alignment_is_the_promised_one(emulator: EmulatorExecutor, align: int) -> None:
    problem = Problem(None, None, None, pointer_align=align)
    case = problem.case(1, 3, 5)
    body = """
        const size_t addresses[] = {size_t(A), size_t(B), size_t(C)};
        if (threadIdx.x < 3) C[threadIdx.x] = addresses[threadIdx.x] % 16;
    """
    loaded = emulator.load(kernel(body, problem=problem))
    for seed in range(2):
        residues = loaded.run(case, data(case), seed=seed)
        assert all(residue % align == 0 and (align == 16 or residue % (2 * align) != 0) for residue in residues)


def test_placement_touches_the_bands() -> None:
    for length in (4, 20, 4096, 4100):
        for align in (4, 8, 16):
            low, high = place(0, length, align, False), place(0, length, align, True)
            assert low.skew == align % 16
            assert high.skew % align == 0
            assert high.bytes_mapped - high.skew - length < 16
    assert place(4096, 0, 4, True) == Segment(4096, 0, 0, 0)


def test_read_after_the_end(emulator: EmulatorExecutor) -> None:
    source = kernel("""
        if (threadIdx.x == 3 && blockIdx.x == 1)
            C[0] = A[M * lda];
    """)
    reason = fails(emulator, source, ANY_SHAPE.case(2, 2, 2))
    where = f"0 bytes after the end of A (row 2, column 0) ({line_of(source, 'A[M')})"
    assert reason == f"crash: block 1, thread 3 reads {where}"


def test_read_before_the_start(emulator: EmulatorExecutor) -> None:
    source = kernel("if (threadIdx.x == 6) C[0] = B[-1024];")
    reason = fails(emulator, source, ANY_SHAPE.case(2, 2, 2), seed=1)
    assert reason == "crash: block 0, thread 6 reads 4096 bytes before the start of B (k.cu:2)"


def test_a_is_read_only(emulator: EmulatorExecutor) -> None:
    reason = fails(emulator, kernel("const_cast<float*>(A)[1] = 0.0f;"), ANY_SHAPE.case(2, 2, 2))
    assert reason == "crash: block 0, thread 0 writes byte 4 of A, which the kernel may only read (k.cu:2)"


def test_write_into_padding(emulator: EmulatorExecutor) -> None:
    case = ANY_SHAPE.case(4, 5, 3, ldc=8)
    source = kernel(NAIVE + "if (row == 2 && column == 0) c[6] = 1.0f;")
    told = "block 2, thread 0 writes the padding of C at row 2, column 6 (C is 4 x 5, ldc = 8) (k.cu:9)"
    for watch in (True, False):
        with pytest.raises(CandidateFailed, match=re.escape(told)):
            emulator.load(source).run(case, data(case), watch=watch)


def test_write_into_slack(emulator: EmulatorExecutor) -> None:
    case = ANY_SHAPE.case(1, 5, 3)
    assert "writes 8 bytes after the end of C" in fails(emulator, kernel("C[7] = 1.0f;"), case, seed=1)
    assert "writes 12 bytes before the start of C" in fails(emulator, kernel("C[-3] = 1.0f;"), case, seed=0)


def test_wild_write_costs_one_launch(emulator: EmulatorExecutor) -> None:
    case = ANY_SHAPE.case(4, 4, 4)
    body = "if (alpha == 2.0f) *reinterpret_cast<float*>(lda) = 1.0f;" + NAIVE
    loaded = emulator.load(kernel(body))
    wild = ANY_SHAPE.case(4, 4, 4, alpha=2.0)
    for _ in range(2):
        with pytest.raises(CandidateFailed, match=r"block 0, thread 0 writes at address 0x4, .* \(k.cu:2\)"):
            loaded.run(wild, data(wild))
        np.testing.assert_array_equal(loaded.run(case, data(case)), expected(case, data(case)))


def test_misaligned_vector(emulator: EmulatorExecutor) -> None:
    problem = Problem(None, None, None, pointer_align=4)
    case = problem.case(1, 4, 4)
    source = kernel(
        """
        const float4 vector = *reinterpret_cast<const float4*>(A);
        if (threadIdx.x == 0) C[0] = vector.x + vector.y + vector.z + vector.w;
        """,
        problem=problem,
    )
    for seed in range(2):
        reason = fails(emulator, source, case, seed=seed)
        where = f"(byte 0 of A) ({line_of(source, 'const float4 vector')})"
        told = f"crash: block 0, thread 0 reads 16 bytes at a misaligned address, which 16 does not divide {where}"
        assert reason == told
    pair = kernel("if (threadIdx.x == 0) *reinterpret_cast<float2*>(C + 1) = make_float2(1, 1);")
    assert "misaligned address, which 8 does not divide (byte 4 of C)" in fails(emulator, pair, ANY_SHAPE.case(1, 4, 4))


def test_unset_shared_memory(emulator: EmulatorExecutor) -> None:
    body = """
        __shared__ float tile[64];
        if (threadIdx.x != 5) tile[threadIdx.x] = 1.0f;
        __syncthreads();
        if (threadIdx.x < N) C[blockIdx.x * ldc + threadIdx.x] = tile[threadIdx.x];
    """
    small, large = ANY_SHAPE.case(3, 8, 1), ANY_SHAPE.case(4000, 8, 4000)
    assert "thread 5 reads byte 20 of tile at k.cu:6, which no thread has written" in fails(
        emulator, kernel(body), small
    )
    result = large.c.view(emulator.load(kernel(body)).run(large, data(large), seed=1))  # a NaN where not watched
    assert np.isnan(result[:, 5]).all()
    assert (np.delete(result, 5, axis=1) == 1).all()


def test_unset_register(emulator: EmulatorExecutor) -> None:
    body = "float sum; for (int k = 0; k < K; ++k) sum += A[k]; if (threadIdx.x < N) C[threadIdx.x] = sum;"
    told = "crash: block 0, thread 0 uses a value that nobody has given as what it stores (k.cu:2)"
    assert fails(emulator, kernel(body), ANY_SHAPE.case(1, 2, 2)) == told


@pytest.mark.parametrize("comment", ["// tiles are complete", "// tiles are read"])
def test_missing_barrier(emulator: EmulatorExecutor, comment: str) -> None:
    source = kernel(TILED.replace(f"__syncthreads();  {comment}", ""), TILES)
    assert wrong_under_some_seed(emulator, source)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("cp_async_wait<1>();", ""),
        ("cp_async_wait<1>();", "cp_async_wait<2>();"),
        ("cp_async_commit();\n        cp_async_wait", "cp_async_wait"),
        ("__syncthreads();  // the stage is read", ""),
    ],
    ids=["no wait", "wait for too few", "no commit", "no barrier"],
)
def test_wrong_pipeline(emulator: EmulatorExecutor, right: str, wrong: str) -> None:
    assert right in ASYNC
    assert wrong_under_some_seed(emulator, kernel(ASYNC.replace(right, wrong), TILES, before=DEVICE))


def wrong_under_some_seed(emulator: EmulatorExecutor, source: KernelSource) -> bool:
    """In a launch too large to be watched whole, and not watched by these seeds."""
    case = ANY_SHAPE.case(16, 16, 20_000)  # copies that nobody commits take time by its square
    operands, loaded = data(case), emulator.load(source)
    return any(not np.array_equal(loaded.run(case, operands, seed=s), expected(case, operands)) for s in range(1, 5))


def test_f32_atomics_flush_denormals_as_gpus_do(emulator: EmulatorExecutor) -> None:
    body = """
    if (blockIdx.x > 0 || threadIdx.x > 0) return;
    const float tiny = __uint_as_float(1u << 22), least = __uint_as_float(1u << 23);  // 2^-127, 2^-126
    C[0] = 5.0f; C[1] = 0.0f; C[2] = -3 * tiny; C[3] = -tiny;
    const float old = atomicAdd(C, 2.0f);
    atomicAdd(C + 1, tiny);       // an operand
    atomicAdd(C + 2, least);      // a result
    atomicAdd(C + 3, least);      // what stands there
    C[4] = old;
    __shared__ double sum;
    sum = tiny;
    atomicAdd(&sum, 1.0 * tiny);  // not those of f64
    C[5] = float(sum / least);
    """
    case = ANY_SHAPE.case(1, 6, 1)
    c = case.c.view(emulator.load(kernel(body)).run(case, data(case)))[0]
    assert c.tolist() == [7.0, 0.0, 0.0, 2.0**-126, 5.0, 1.0]
    assert np.signbit(c[2]), "of its sign"


def test_cp_async_addresses(emulator: EmulatorExecutor) -> None:
    case = ANY_SHAPE.case(1, 32, 32)
    for statement, diagnosis in (
        ("cp_async<16>(tile + 1, A, 16);", "misaligned address, which 16 does not divide (byte 4 of tile)"),
        ("cp_async<8>(tile, A + 1, 8);", "misaligned address, which 8 does not divide (byte 4 of A)"),
        ("cp_async<16>(tile + 32, A, 16);", "writes 0 bytes after the end of tile"),
        ("cp_async<4>(tile, A + 64, 4);", "reads 128 bytes after the end of A"),
    ):
        body = f"__shared__ __align__(16) float tile[32]; if (threadIdx.x == 0) {statement}"
        source = kernel(body, before=DEVICE)
        reason = fails(emulator, source, case)
        line = line_of(source, statement).partition(":")[2]
        assert diagnosis in reason
        assert reason.endswith(f", called from line {line})")


def test_cp_async_fills_with_zeros_and_reads_nothing(emulator: EmulatorExecutor) -> None:
    body = """
        __shared__ __align__(16) float tile[4];
        if (threadIdx.x == 0) cp_async<16>(tile, blockIdx.x == 0 ? A : A + 1000000, blockIdx.x == 0 ? 8 : 0);
        cp_async_commit();
        cp_async_wait<0>();
        __syncthreads();
        if (threadIdx.x < 4) C[blockIdx.x * ldc + threadIdx.x] = tile[threadIdx.x];
    """
    case = ANY_SHAPE.case(2, 4, 2)
    operands = data(case)
    result = case.c.view(emulator.load(kernel(body, before=DEVICE)).run(case, operands))
    np.testing.assert_array_equal(result, [[*operands.a[:2], 0, 0], [0, 0, 0, 0]])


def test_barrier_divergence(emulator: EmulatorExecutor) -> None:
    source = kernel("if (threadIdx.x < 40) __syncthreads(); else __syncwarp();")
    assert fails(emulator, source, ANY_SHAPE.case(1, 1, 1)) == (
        "crash: barrier divergence in block 0: "
        "40 of 64 threads wait at the __syncthreads of line 2 (0, 1, 2, 3, ...); "
        "24 of 64 threads wait at the warp collective of line 2 (40, 41, 42, 43, ...)"
    )
    two = kernel("if (threadIdx.x < 32)\n__syncthreads();\nelse\n__syncthreads();")
    assert fails(emulator, two, ANY_SHAPE.case(1, 1, 1)) == (
        "crash: barrier divergence in block 0: block 0, thread 32 comes to the __syncthreads of line 5, "
        "where others wait at that of line 3"
    )


def test_a_barrier_waits_for_no_thread_that_has_exited(emulator: EmulatorExecutor) -> None:
    body = "if (threadIdx.x >= 40) return; __syncthreads(); if (threadIdx.x == 0) C[0] = 1.0f;"
    case = ANY_SHAPE.case(1, 1, 1)
    assert emulator.load(kernel(body)).run(case, data(case)).tolist() == [1.0]


def test_infinite_loop(shared_store: Store) -> None:
    body = "if (alpha == 2.0f && threadIdx.x == 0) for (volatile int i = 0;;) i = 1;" + NAIVE
    with EmulatorExecutor(shared_store, timeout=0.3) as impatient:
        loaded = impatient.load(kernel(body))
        case, stuck = ANY_SHAPE.case(2, 2, 2), ANY_SHAPE.case(2, 2, 2, alpha=2.0)
        with pytest.raises(CandidateFailed) as caught:
            loaded.run(stuck, data(stuck))
        assert caught.value.failure.kind == "timeout"
        assert caught.value.failure.reason == "block 0, thread 0 still runs after 0.3 s of processor time (k.cu:2)"
        np.testing.assert_array_equal(loaded.run(case, data(case)), expected(case, data(case)))


def test_infinite_loop_in_a_helper_thread(shared_store: Store) -> None:
    body = "if (blockIdx.x == 1000 && threadIdx.x == 7) for (volatile int i = 0;;) i = 1;" + TILED
    case = ANY_SHAPE.case(256, 256, 64)
    with EmulatorExecutor(shared_store, timeout=0.3) as impatient:
        told = re.search(
            r"block 1000, thread 7 still runs after ([\d.]+) s ", fails(impatient, kernel(body, TILES), case)
        )
        assert told is not None and float(told[1]) > 0.3, "what the launch's size explains comes on top"


def test_a_block_that_waits_for_lower_ones_is_told(shared_store: Store) -> None:
    wait = """
        if (threadIdx.x == 0) {
            while (atomicAdd(&turn, 0u) != blockIdx.x) __nanosleep(20);
            atomicExch(&turn, (blockIdx.x + 1) % gridDim.x);
        }
    """
    case = ANY_SHAPE.case(3, 4, 2)
    with EmulatorExecutor(shared_store, timeout=0.3) as impatient:
        waiting, free = (
            impatient.load(kernel(body, before="__device__ unsigned turn;\n")) for body in (wait + NAIVE, NAIVE)
        )
        waiting.run(case, data(case))
        assert waiting.assumed() == (), "the natural order shows nothing"
        for seed in range(1, 4):
            np.testing.assert_array_equal(waiting.run(case, data(case), seed=seed), expected(case, data(case)))
            free.run(case, data(case), seed=seed)
        told = r"block \d, thread 0 waits for blocks of lower numbers: CUDA promises no order of blocks"
        assert re.fullmatch(told, "; ".join(waiting.assumed())) and free.assumed() == ()


def test_a_launch_that_was_slow_once_is_no_waiting(emulator: EmulatorExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, case = emulator.load(kernel(NAIVE)), ANY_SHAPE.case(3, 4, 2)
    run, timeout = slow._run_blocks, Failure("timeout", "block 1, thread 128 still runs after 31 s", "emulator")
    outcomes = iter([CandidateFailed(timeout)])

    def busy(*arguments: Any) -> dict[str, Floats]:
        for failure in outcomes:
            raise failure
        return run(*arguments)

    monkeypatch.setattr(slow, "_run_blocks", busy)
    np.testing.assert_array_equal(slow.run(case, data(case), seed=1), expected(case, data(case)))
    assert next(outcomes, None) is None and slow.assumed() == ()


def test_printf_prints_once(emulator: EmulatorExecutor, capfd: pytest.CaptureFixture[str]) -> None:
    body = r'if (threadIdx.x == 0 && blockIdx.x % 100 == 0) printf("block %d\n", blockIdx.x);' + TILED
    case = ANY_SHAPE.case(256, 256, 64)
    emulator.load(kernel(body, TILES)).run(case, data(case))
    printed = sorted(int(line.split()[1]) for line in capfd.readouterr().err.splitlines())
    assert printed == list(range(0, 1024, 100))


def test_dynamic_shared_memory(emulator: EmulatorExecutor) -> None:
    body = """
        float* tile = reinterpret_cast<float*>(dynamic_shared());
        tile[threadIdx.x] = threadIdx.x;
        __syncthreads();
        if (threadIdx.x < N) C[threadIdx.x] = tile[63 - threadIdx.x];
        if (alpha == 2.0f && threadIdx.x == 0) C[0] = tile[64];
    """
    enough = Launch(64, (("M", 1),), shared_bytes=256)
    case = ANY_SHAPE.case(1, 3, 1)
    source = kernel(body, enough, before=DEVICE)
    np.testing.assert_array_equal(emulator.load(source).run(case, data(case)), [63, 62, 61])
    beyond = ANY_SHAPE.case(1, 3, 1, alpha=2.0)
    assert "reads 0 bytes after the end of dynamic shared memory" in fails(emulator, source, beyond)
    assert "shared memory, of which the block has none" in fails(emulator, source.promising(launch=ROW), case)


def test_other_faults(emulator: EmulatorExecutor) -> None:
    case = ANY_SHAPE.case(1, 1, 70)
    for body, diagnosis in (
        ("C[1ll << 60] = 0.0f;", r"writes at address 0x[0-9a-f]+, which is no operand's \(k.cu:2\)"),
        ("assert(K < 7);", r": the assertion `K < 7` fails \(k.cu:2\)"),
        ("int zero = M - 1; C[0] = K / zero;", r": division by zero \(k.cu:2\)"),
        (
            "volatile float own[8]; own[K] = 1.0f; C[0] = own[M];",
            r"writes byte 280 of its 32 bytes of local memory \(k.cu:2\)",
        ),
    ):
        said = fails(emulator, kernel(body), case)
        assert re.fullmatch(f"crash: block 0, thread 0 ?{diagnosis}", said), said


def test_same_seed_same_run(emulator: EmulatorExecutor) -> None:
    body = """
        __shared__ int last;
        atomicExch(&last, threadIdx.x);  // the last of 1024 threads to run decides
        __syncthreads();
        if (threadIdx.x == 0) C[blockIdx.x] = last;
    """
    loaded = emulator.load(kernel(body, Launch(1024, (("M", 1),))))
    case = ANY_SHAPE.case(4, 4, 1, ldc=4)
    runs = [loaded.run(case, data(case), seed=seed)[:4].tolist() for seed in (0, 1, 2, 3, 1, 2)]
    assert runs[0] == [1023] * 4
    assert runs[1] == runs[4]
    assert runs[2] == runs[5]
    assert len({tuple(run) for run in runs}) == 4


def test_compile_error_shows_the_line(emulator: EmulatorExecutor) -> None:
    source = kernel("\n    float x = undefined_name;\n")
    with pytest.raises(CandidateFailed) as caught:
        emulator.load(source)
    assert caught.value.failure.kind == "compile"
    assert caught.value.failure.reason == 'kernel.cu(3): error: identifier "undefined_name" is undefined'


def test_parameters_must_match(emulator: EmulatorExecutor) -> None:
    right = kernel(NAIVE)
    wrong = KernelSource("k", right.text, "test", {}, Contract(ANY_SHAPE, ROW, PARAMETERS[:-1]))
    takes, passes = "8 8 8 4 4 4 4 4 4 4 4", "8 8 8 4 4 4 4 4 4 4"
    told = f'launch: the kernel takes parameters of "{takes}" bytes and is launched with "{passes}"'
    assert fails(emulator, wrong, ANY_SHAPE.case(1, 1, 1)) == told
    with pytest.raises(InvalidInput, match="1025 threads a block"):
        Launch(1025, (("M", 1),))
    case = ANY_SHAPE.case(2, 2, 2)
    too_long = Operands(*(np.zeros(5, np.float32) for _ in range(3)))
    with pytest.raises(InvalidInput, match="A is float32"):
        emulator.load(right).run(case, too_long)


def test_a_block_has_no_more_threads_than_the_launch_bounds(emulator: EmulatorExecutor) -> None:
    right, case = kernel(NAIVE), ANY_SHAPE.case(3, 4, 5)
    for bounds in ("64, 2", "32 + 32"):
        text = right.text.replace("__launch_bounds__(64)", f"__launch_bounds__({bounds})")
        emulator.load(replace(right, text=text)).run(case, data(case))
    tight = replace(right, text=right.text.replace("__launch_bounds__(64)", "__launch_bounds__(63, 2)"))
    said = fails(emulator, tight, case)
    assert "launch: blocks of 64 threads are more than the kernel's __launch_bounds__ of 63" in said


def test_second_load_comes_from_the_store(emulator: EmulatorExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    source = kernel(NAIVE, before="// a text of its own\n")
    emulator.load(source)
    monkeypatch.setattr("gemmgen.run.emulator.ptx.PtxCompilers._compile", None)
    emulator.load(source)


def test_nothing_is_left_behind(shared_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    open_files = []
    for number in range(2):  # NVRTC's library stays loaded
        with EmulatorExecutor(shared_store) as emulator:
            case = ANY_SHAPE.case(2, 2, 2)
            emulator.load(kernel(NAIVE, before=f"// left behind: {number}\n")).run(case, data(case))
            fails(emulator, kernel("C[-5000] = 0.0f;"), case)
        open_files.append(len(list(Path("/proc/self/fd").iterdir())))
    assert list(tmp_path.iterdir()) == []
    assert open_files[0] == open_files[1]


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(CandidateFailed, match="pip install ziglang") as caught:
        HostCompiler.find()
    assert caught.value.failure.kind == "unavailable"


def test_canary_is_a_nan() -> None:
    assert np.isnan(np.array([CANARY, CANARY], np.uint32).view(np.float32)).all()
    assert np.isnan(np.array([CANARY, CANARY], np.uint32).view(np.float64)).all()


def test_an_executor_ends_all_kernels_that_it_has_loaded(shared_store: Store) -> None:
    with EmulatorExecutor(shared_store) as executor:
        kernels = [executor.load(kernel(NAIVE)) for _ in range(2)]
        assert not any(loaded.closed for loaded in kernels)
    assert all(loaded.closed for loaded in kernels)
