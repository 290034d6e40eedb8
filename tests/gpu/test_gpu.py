"""The gpu executor. Tests that take `gpu` need a card and skip with the reason where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gemmgen.families import BATCHED, FAMILIES, SIMT, Family
from gemmgen.kernel.contract import Contract, Parameter
from gemmgen.kernel.launch import LAUNCH_ATTRIBUTES, Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.lab.study import Study, StudyPoint, run_study
from gemmgen.lab.study.model_times import measure_times
from gemmgen.lab.study.modelcheck import check_model
from gemmgen.lab.study.points import BLOCK_TILE, LADDER
from gemmgen.lab.study.times import Measured, Times
from gemmgen.problem.device import DEVICES, parse_arch
from gemmgen.problem.dtype import CANARY, DType
from gemmgen.problem.gemm import Case, Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.types import Types
from gemmgen.render.kernel_text import render
from gemmgen.run.card import spec_of
from gemmgen.run.executor import Operands
from gemmgen.run.gpu import arena, why_no_gpu
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.run.gpu.timing import CAREFUL, FINAL, FULL, QUICK, Timing, speedup
from gemmgen.run.target import Target, open_target
from gemmgen.support.child import crew
from gemmgen.support.errors import CandidateFailed, Failure
from gemmgen.support.files import Store
from gemmgen.verification import reference
from gemmgen.verification.data import make_operands
from gemmgen.verification.fuzz import Budget, fuzz
from gemmgen.verification.parallel import lanes_like
from gemmgen.verification.situation import Situation
from gemmgen.verification.verifier import check, verify
from gemmgen.verification.window import Window

SIZES = ("M", "N", "K", "lda", "ldb", "ldc")
SIGNATURE = """
extern "C" __global__ void __launch_bounds__(256) naive(
    const float* A, const float* B, float* C, int M, int N, int K, int lda, int ldb, int ldc, float alpha, float beta)
"""
BODY = """{
    const int row = blockIdx.x * 256 + threadIdx.x;
    if (row >= M) return;
    for (int col = 0; col < N; ++col) {
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += A[row * lda + k] * B[k * ldb + col];
        float& c = C[row * ldc + col];
        c = alpha * sum + (beta == 0 ? 0 : beta * c);
    }
}"""
FAST_BODY = """{
    for (int row = blockIdx.x; row < M; row += gridDim.x)
        for (int col = threadIdx.x; col < N; col += 256) {
            float sum = 0;
            for (int k = 0; k < K; ++k) sum += A[row * lda + k] * B[k * ldb + col];
            C[row * ldc + col] = alpha * sum;
        }
}"""


def kernel(body: str, *, pointer_align: int = 16, shared_bytes: int = 0, tile: int = 256) -> KernelSource:
    return KernelSource(
        name="naive",
        text=SIGNATURE + body,
        family="handwritten",
        config={},
        contract=Contract(
            Problem(None, None, None, lda=None, ldb=None, ldc=None, pointer_align=pointer_align),
            Launch(threads=256, grid=(("M", tile),), shared_bytes=shared_bytes),
            parameters=(
                Parameter("A", "const float*"),
                Parameter("B", "const float*"),
                Parameter("C", "float*"),
                *(Parameter(size, "int") for size in SIZES),
                Parameter("alpha", "float"),
                Parameter("beta", "float"),
            ),
        ),
    )


def operands_of(case: Case, seed: int = 0) -> Operands:
    random = np.random.default_rng(seed)
    return Operands(
        *(random.uniform(-1, 1, matrix.elements).astype(case.problem.types.c.numpy) for matrix in case.matrices)
    )


def expected(case: Case, operands: Operands) -> np.ndarray:
    a, b, c = (m.view(x).astype(float) for m, x in zip(case.matrices, operands.by_name.values(), strict=True))
    result: np.ndarray = case.alpha * (a @ b) + (case.beta * c if case.beta else 0)
    return result


PADDED = kernel(BODY).problem.case(70, 33, 50, lda=53, ldb=40, ldc=36, alpha=1.5, beta=-0.5)
SQUARE = kernel(FAST_BODY).problem.case(512, 512, 512)


def failure_of(gpu: GpuExecutor, source: KernelSource) -> Failure:
    case = replace(PADDED, problem=source.problem)
    with pytest.raises(CandidateFailed) as caught:
        gpu.load(source).run(case, operands_of(case))
    return caught.value.failure


def assert_works(gpu: GpuExecutor) -> None:
    operands = operands_of(PADDED)
    result = gpu.load(kernel(BODY)).run(PADDED, operands)
    np.testing.assert_allclose(PADDED.c.view(result), expected(PADDED, operands), atol=1e-4)


# Without a GPU


@pytest.mark.parametrize("align", [4, 8, 16])
@pytest.mark.parametrize("seed", [0, 5])
def test_operands_are_aligned_as_promised_and_no_more(align: int, seed: int) -> None:
    layout = arena.place(Problem(5, 7, 9, pointer_align=align).case(), seed)
    assert [offset % (2 * align) for offset in layout.offsets.values()] == [align] * 3


@pytest.mark.parametrize(
    ("operand", "element", "where"),
    [
        ("A", -1, "4 bytes before A"),
        ("A", 3, "in A, at element 3"),
        ("B", -30_000, "120000 bytes before B"),
        ("C", 33, "in the padding of C at row 0, column 33 (C is 70 x 33, ldc = 36)"),
        ("C", PADDED.c.elements, "0 bytes after the end of C"),
    ],
)
def test_strange_writes_are_located(operand: str, element: int, where: str) -> None:
    layout = arena.place(PADDED, seed=1)
    before = layout.image(operands_of(PADDED))
    after = before.copy()
    after[layout.offsets[operand] // 4 + element] ^= 1
    with pytest.raises(CandidateFailed) as caught:
        layout.result(before, after)
    assert caught.value.failure.kind == "crash"
    assert where in caught.value.failure.reason


BATCH = Problem(5, 7, 9, dtype=DType.F64, batch=3, stride_b=0, stride_c=40).case()


@pytest.mark.parametrize("case", [PADDED, BATCH], ids=str)
def test_elements_of_c_may_change(case: Case) -> None:
    layout = arena.place(case, seed=1)
    before = layout.image(operands_of(case))
    assert (before[: layout.offsets["A"] // 4] == CANARY).all()
    after = before.copy()
    case.c.view(layout.elements(after, "C").view(case.problem.types.c.numpy))[:] = 7
    assert (case.c.view(layout.result(before, after)) == 7).all()


def test_what_lies_between_the_matrices_of_a_batch_may_not_change() -> None:
    layout = arena.place(BATCH, seed=1)
    before = layout.image(operands_of(BATCH))
    after = before.copy()
    layout.elements(after, "C").view(np.float64)[40 + 36] = 7
    with pytest.raises(CandidateFailed, match=r"row 5, column 1 of matrix 1 \(C is 5 x 7, ldc = 7, stride_c = 40\)"):
        layout.result(before, after)


def test_guards_are_no_numbers_of_any_dtype() -> None:
    guards = np.full(2, CANARY, np.uint32)
    assert all(np.isnan(dtype.decode(guards.view(dtype.numpy))).all() for dtype in DType if dtype.has_nan)


def test_timing_has_median_spread_and_paired_ratio() -> None:
    ours, theirs = Timing((10.0, 20.0, 10.0), {}), Timing((20.0, 40.0, 30.0), {})
    assert (ours.median_us, speedup(ours, theirs)) == (10.0, 2.0)
    assert Timing((5.0,), {}).spread == 0
    assert ours.tflops(SQUARE) == pytest.approx(2 * 512**3 / 10e-6 / 1e12)


@pytest.mark.skipif(why_no_gpu() is None, reason="this machine has a GPU")
def test_missing_gpu_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CandidateFailed) as caught:
        GpuExecutor(Store(tmp_path))
    assert caught.value.failure.kind == "unavailable"
    assert caught.value.failure.reason == why_no_gpu()


# Running


def test_properties_come_from_the_driver(gpu: GpuExecutor) -> None:
    assert gpu.arch.startswith("sm_")
    assert gpu.properties.name in gpu.description
    assert gpu.properties.driver in gpu.description
    assert gpu.properties.memory_bytes > 2**30 and gpu.properties.l2_bytes > 2**18 and gpu.properties.sms > 0


@pytest.mark.parametrize("seed", [0, 3])
def test_right_result_and_untouched_operands(gpu: GpuExecutor, seed: int) -> None:
    operands = operands_of(PADDED)
    copies = [operand.copy() for operand in operands.by_name.values()]
    result = gpu.load(kernel(BODY)).run(PADDED, operands, seed=seed)
    np.testing.assert_allclose(PADDED.c.view(result), expected(PADDED, operands), atol=1e-4)
    assert all((a == b).all() for a, b in zip(operands.by_name.values(), copies, strict=True))


def test_operands_that_stay_on_the_card_are_as_good_as_new(gpu: GpuExecutor) -> None:
    case = kernel(BODY).problem.case(700, 900, 300, lda=303, ldb=901, ldc=904, beta=1.0)
    operands = operands_of(case)
    for array in operands.by_name.values():
        array.flags.writeable = False
    right, wild = gpu.load(kernel(BODY)), gpu.load(kernel(BODY.replace("col < N", "col <= N")))
    for seed in (0, 1, 0, 1):
        result = gpu.run(right, case, operands, seed)
        np.testing.assert_allclose(case.c.view(result), expected(case, operands), atol=1e-3)
        assert np.isnan(result).sum() == 0 and (result[900:904] == operands.c[900:904]).all()
        with pytest.raises(CandidateFailed, match="in the padding of C at row 0"):
            gpu.run(wild, case, operands, seed)


@pytest.mark.parametrize("align", [4, 8, 16])
def test_kernels_see_the_promised_alignment(gpu: GpuExecutor, align: int) -> None:
    body = (
        "{ if (blockIdx.x + threadIdx.x == 0) C[0] = (size_t)A % 256, C[1] = (size_t)B % 256, C[2] = (size_t)C % 256; }"
    )
    source = kernel(body, pointer_align=align)
    case = source.problem.case(8, 8, 8)
    result = gpu.load(source).run(case, operands_of(case), seed=2)
    assert (result[:3] % (2 * align) == align).all()


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (BODY.replace("col < N", "col <= N"), "padding of C at row 0"),
        (BODY.replace("row >= M", "row >= M + 1"), "after the end of C"),
        (BODY.replace("C[row * ldc", "C[-1 + row * ldc"), "the first 1 bytes before C"),
        (BODY.replace("C[row * ldc", "const_cast<float*>(A)[row * ldc"), "in A, at element 0"),
    ],
)
def test_write_outside_c_is_caught(gpu: GpuExecutor, body: str, where: str) -> None:
    failure = failure_of(gpu, kernel(body))
    assert (failure.kind, failure.source) == ("crash", "gpu")
    assert where in failure.reason
    assert_works(gpu)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{ C[1ll << 40] = 1; }", "illegal"),
        ("{ C[0] = reinterpret_cast<const float4*>(A)->x; __trap(); }", ""),
    ],
)
def test_poisoned_context_costs_one_candidate(gpu: GpuExecutor, body: str, reason: str) -> None:
    failure = failure_of(gpu, kernel(body))
    assert failure.kind == "crash"
    assert reason in failure.reason
    assert_works(gpu)


def test_vector_access_beyond_the_promise_is_caught(gpu: GpuExecutor) -> None:
    body = "{ float4 a = *reinterpret_cast<const float4*>(A); C[0] = a.x + a.y + a.z + a.w; }"
    failure = failure_of(gpu, kernel(body, pointer_align=4))
    assert failure.kind == "crash"
    assert "misaligned" in failure.reason
    assert_works(gpu)


def test_hang_costs_one_candidate(gpu: GpuExecutor) -> None:
    with GpuExecutor(gpu.store, timeout=2.0) as impatient:
        failure = failure_of(impatient, kernel("{ while (*(volatile float*)C != 12345.0f); }"))
        assert failure == Failure("timeout", "no answer in 2 s", "gpu")
        assert_works(impatient)


def test_dynamic_shared_memory_over_48_kb(gpu: GpuExecutor) -> None:
    body = """{
        extern __shared__ float big[];
        for (int i = threadIdx.x; i < 15000; i += 256) big[i] = i;
        __syncthreads();
        C[threadIdx.x % N] = big[14999];
    }"""
    case = replace(PADDED, m=1)
    result = gpu.load(kernel(body, shared_bytes=60_000)).run(case, operands_of(case))
    assert (result[: case.n] == 14999).all()


CLUSTER = """{
    unsigned rank, blocks;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(blocks));
    if (threadIdx.x == 0) C[blockIdx.x * ldc] = 100 * blocks + 10 * rank + (alpha == 1.5f && ldb == 40 && N == 33);
}"""


@pytest.mark.parametrize("cluster", [2, 4, 16])
def test_a_launch_in_clusters(cluster: int, gpu: GpuExecutor) -> None:
    if gpu.properties.arch < "sm_90":
        pytest.skip("clusters came with sm_90")
    source = kernel(CLUSTER, tile=cluster)
    source = source.promising(launch=replace(source.launch, cluster=cluster))
    case = replace(PADDED, m=64)
    result = gpu.load(source).run(case, operands_of(case))
    ranks = np.arange(64) % cluster
    np.testing.assert_array_equal(case.c.view(result)[:, 0], 100 * cluster + 10 * ranks + 1)
    assert isinstance(gpu.measure(gpu.load(source), case), Timing)  # in a graph, too


def test_a_grid_of_no_whole_clusters_is_refused(gpu: GpuExecutor) -> None:
    if gpu.properties.arch < "sm_90":
        pytest.skip("clusters came with sm_90")
    source = kernel(BODY, tile=1)  # 70 blocks
    failure = failure_of(gpu, replace(source, text=source.text.replace("void ", "void __cluster_dims__(4, 1, 1) ", 1)))
    assert failure.kind == "launch", failure
    assert_works(gpu)


@pytest.mark.parametrize("attribute", LAUNCH_ATTRIBUTES)
def test_launch_attributes_change_no_result(attribute: str, gpu: GpuExecutor) -> None:
    source = kernel(BODY, shared_bytes=60_000)
    source = source.promising(launch=replace(source.launch, attributes=(attribute,)))
    operands = operands_of(PADDED)
    result = gpu.load(source).run(PADDED, operands)
    np.testing.assert_allclose(PADDED.c.view(result), expected(PADDED, operands), rtol=1e-4, atol=1e-4)


def test_instructions_of_one_architecture(gpu: GpuExecutor) -> None:
    if gpu.properties.arch != "sm_90":
        pytest.skip("wgmma is sm_90a's")
    source = kernel(BODY.replace("{", '{ asm volatile("wgmma.fence.sync.aligned;");', 1))
    assert failure_of(gpu, source).kind == "compile"
    with open_target("gpu", "sm_90a", gpu.store).executor as executor:
        assert isinstance(executor, GpuExecutor)
        operands = operands_of(PADDED)
        result = executor.load(source).run(PADDED, operands)
        np.testing.assert_allclose(PADDED.c.view(result), expected(PADDED, operands), rtol=1e-4, atol=1e-4)


def test_kernel_that_cannot_launch(gpu: GpuExecutor) -> None:
    assert failure_of(gpu, kernel(BODY, shared_bytes=300_000)).kind == "launch"
    assert failure_of(gpu, replace(kernel(BODY), name="absent")).kind == "launch"
    assert_works(gpu)


def test_a_launch_without_the_memory_that_its_kernel_takes(gpu: GpuExecutor) -> None:
    problem = Problem(None, None, None)
    streams = render(problem, SIMT, SIMT.default(problem).with_values(BM=32, BN=64, TM=4, TN=4, WM=16, WN=32, STREAM=3))
    failure = failure_of(gpu, streams.promising(launch=replace(streams.launch, stream=None)))
    assert (failure.kind, failure.reason.split(";")[0]) == ("launch", "the kernel takes partials, semaphores")
    assert_works(gpu)


# Measuring


def test_cublaslt_and_a_kernel_interleaved(gpu: GpuExecutor) -> None:
    comparison = gpu.measure_many([gpu.load(kernel(FAST_BODY, tile=1))], SQUARE, beside=FULL)
    (ours,) = comparison.timings
    baseline, moving = comparison.baseline, comparison.moving
    assert isinstance(ours, Timing) and baseline is not None and moving is not None
    for timing, protocol in ((ours, QUICK), (baseline.timing, QUICK), (moving, FINAL)):
        assert len(timing.samples_us) == protocol.samples and min(timing.samples_us) > 0
    assert 0 <= baseline.algorithm < baseline.offered
    assert int(ours.protocol["input_sets"]) * int(ours.protocol["set_bytes"]) >= 2 * gpu.properties.l2_bytes


def test_crash_in_a_measurement_costs_one_candidate(gpu: GpuExecutor) -> None:
    bodies = (FAST_BODY, "{ C[1ll << 40] = 1; }", FAST_BODY + " // again")
    kernels = [gpu.load(kernel(body, tile=1)) for body in bodies]
    first, failure, again = gpu.measure_many(kernels, SQUARE).timings
    assert isinstance(failure, Failure) and failure.kind == "crash"
    for timing in (first, again):
        assert isinstance(timing, Timing) and timing.protocol["interleaved_with"] == 1
        assert len(timing.samples_us) == QUICK.samples and min(timing.samples_us) > 0


def test_too_large_for_the_card(gpu: GpuExecutor) -> None:
    case = kernel(FAST_BODY).problem.case(200_000, 200_000, 200_000)
    with pytest.raises(CandidateFailed, match=r"needs \d+\.\d+ GiB of device memory, \d+\.\d+ GiB are free"):
        gpu.measure(gpu.load(kernel(FAST_BODY, tile=1)), case)


@pytest.mark.parametrize("layout", ["rr", "rc", "cr", "cc"])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize(
    "batch",
    [{}, {"batch": 5}, {"batch": 5, "stride_b": 0, "stride_c": 20000}, {"batch": 5, "pointers": True}],
    ids=str,
)
def test_cublaslt_solves_the_same_problem(gpu: GpuExecutor, layout: str, dtype: DType, batch: dict[str, int]) -> None:
    lines = {"lda": 128, "ldb": 132, "ldc": 84}
    problem = Problem(96, 80, 64, dtype=dtype, layout=Layout.parse(layout), **lines, **batch)
    case = problem.case(alpha=1.5, beta=-0.5)
    operands = operands_of(case)
    result = gpu.run_baseline(case, operands)
    atol = 1e-4 if dtype == DType.F32 else 1e-12
    np.testing.assert_allclose(case.c.view(result), expected(case, operands), atol=atol)


@pytest.mark.parametrize("types", ["f32", "bf16", "f16"])
def test_cublaslt_computes_the_same_epilogue(gpu: GpuExecutor, types: str) -> None:
    """Its bias is rounded to C's type, and its gelu is the form with tanh."""
    problem = Problem(96, 80, 64, types=Types.parse(types), layout=Layout.parse("rc"), epilogue="bias+gelu_tanh")
    situation = Situation(problem.case(alpha=0.5), "random", 0)
    case = situation.case
    result = case.c.dtype.decode(case.c.view(gpu.run_baseline(case, make_operands(situation))))
    want, _ = reference.expected(situation, Window.whole(case))
    np.testing.assert_allclose(result, want, atol=2e-4 if types == "f32" else 0.05)


BATCHES = [
    (SIMT, Problem(100, 90, 80, dtype=DType.F64), {"ASYNC": 1, "STAGES": 3}),
    (SIMT, Problem(None, 64, 64, batch=None, stride_a=0), {}),
    (SIMT, Problem(None, 64, 64, batch=None), {"PDL": 1}),
    (BATCHED, Problem(16, 16, 16, batch=None, pointers=True), {"MB": 8, "PDL": 1}),
    (BATCHED, Problem(16, 16, 16, batch=None), {"MB": 8, "ASYNC": 1, "STAGES": 2, "BATCH_TILES": 4}),
    (SIMT, Problem(None, 64, 64, batch=None, pointers=True), {}),
    (BATCHED, Problem(16, 16, 16, batch=None, pointers=True), {"MB": 8, "ASYNC": 1, "STAGES": 2, "BATCH_TILES": 4}),
    (BATCHED, Problem(12, 8, 5, batch=4001, dtype=DType.F64, pointers=True), {"BATCH_TILES": 2}),
    (
        BATCHED,
        Problem(32, 24, 20, batch=1001, dtype=DType.F64, layout=Layout("c", "c")),
        {"ASYNC": 1, "BATCH_TILES": 2},
    ),
    (
        BATCHED,
        Problem(64, 64, 64, batch=300),
        {"MB": 1, "TM": 8, "TN": 8, "ASYNC": 1, "STAGES": 2, "BATCH_TILES": 4},
    ),  # dynamic
]


@pytest.mark.parametrize(
    ("family", "problem", "values"), BATCHES, ids=lambda value: getattr(value, "name", None) or str(value)
)
def test_batches_and_doubles_are_right(
    gpu: GpuExecutor, family: Family, problem: Problem, values: dict[str, int]
) -> None:
    verdict = verify(gpu, render(problem, family, family.default(problem).with_values(**values)), examples=20)
    assert verdict.passed, f"{verdict.situation}: {verdict.failure}"


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize("blocks", [3, 40, 264])
def test_blocks_that_stream_are_right_before_and_after_they_are_timed(
    gpu: GpuExecutor, dtype: DType, blocks: int
) -> None:
    """Whole waves and none, parts of several tiles to a block, and blocks without a step; K = 0 among them."""
    problem = Problem(None, None, None, dtype=dtype, layout=Layout("r", "c"))
    tiles = {"BM": 32, "BN": 64, "TM": 4, "TN": 4, "WM": 16, "WN": 32, "BK": 16}
    schedules = ({"STAGES": 2}, {"STAGES": 3, "ASYNC": 1}, {"STAGES": 3, "ASYNC": 1, "K_UNROLL": 4})
    base = SIMT.default(problem).with_values(**tiles, STREAM=blocks)
    for source in (render(problem, SIMT, base.with_values(**schedule)) for schedule in schedules):
        for _ in range(2):
            verdict = verify(gpu, source, examples=20)
            assert verdict.passed, f"{verdict.situation}: {verdict.failure}"
            assert verdict.deterministic
            kernel = gpu.load(source)
            for shape in ((1, 1, 0), (33, 65, 17), (500, 300, 200), (1024, 1000, 999)):
                assert check(kernel, Situation(problem.case(*shape, beta=-0.5), "exact", seed=1)) == 0
            (timing,) = gpu.measure_many([kernel], problem.case(1000, 1000, 1000), QUICK).timings
            assert isinstance(timing, Timing)


MOVED = [
    (Problem(127, 4000, 399), {"BK": 16, "STAGES": 3, "ASYNC": 1, "K_UNROLL": 4}),
    (Problem(300, 201, 100, layout=Layout("c", "r")), {"STAGES": 3, "ASYNC": 1}),
    (Problem(300, 200, 101, layout=Layout("r", "c"), batch=5), {}),
    (Problem(130, 514, 77, layout=Layout("c", "c"), dtype=DType.F64), {"BK": 16, "ASYNC": 1, "K_UNROLL": 2}),
    (Problem(1000, 1100, None), {"BK": 16, "STAGES": 3, "ASYNC": 1, "K_UNROLL": 4, "STREAM": 20}),
]


@pytest.mark.parametrize(("problem", "values"), MOVED, ids=str)
def test_tiles_that_move_back_from_an_edge_are_right(
    gpu: GpuExecutor, problem: Problem, values: dict[str, int]
) -> None:
    """They overlap others of C, which with beta != 0 shows what is stored twice."""
    tiles = {"BM": 64, "BN": 64, "TM": 8, "TN": 4, "WM": 32, "WN": 32}
    source = render(problem, SIMT, SIMT.default(problem).with_values(**tiles, **values))
    assert "min(nominal.m" in source.text and "min(nominal.n" in source.text
    verdict = verify(gpu, source, examples=20)
    assert verdict.passed, f"{verdict.situation}: {verdict.failure}"


def test_a_batch_of_pointers_is_measured_beside_cublas(gpu: GpuExecutor) -> None:
    problem = Problem(16, 16, 16, batch=4096, pointers=True)
    source = render(problem, BATCHED, BATCHED.default(problem).with_values(MB=8, ASYNC=1))
    comparison = gpu.measure_many([gpu.load(source)], problem.case(), beside=FULL)
    (ours,) = comparison.timings
    assert isinstance(ours, Timing) and comparison.baseline is not None
    assert comparison.baseline.choice == "gemmBatched" and comparison.baseline.version.startswith("cuBLAS ")
    assert len(ours.samples_us) == len(comparison.baseline.timing.samples_us) == QUICK.samples


def test_limits_are_plausible_and_kept(gpu: GpuExecutor) -> None:
    limits = gpu.limits()
    peak = 2 * 128 * gpu.properties.sms * gpu.properties.clock_mhz * 1e-6
    assert 0 < limits.ffma_tflops < 1.05 * peak and 0 < limits.dfma_tflops < 1.05 * peak, "faster is no card"
    assert 0 < limits.copy_gbs < 20_000 and 0 < limits.read_gbs < 20_000
    assert gpu.limits() == limits


def test_a_study_is_measured_in_turns(gpu: GpuExecutor, tmp_path: Path) -> None:
    base = BLOCK_TILE.points[0].settings
    points = (
        StudyPoint("64x64", {**base, "BM": 64, "BN": 64}),
        StudyPoint("256x256", {**base, "BM": 256, "BN": 256}),  # spills, and still is a row
        StudyPoint("an element a thread", {**base, "BM": 256, "BN": 256, "TM": 1, "TN": 1}),
        LADDER.points[-1],
    )
    study = Study("small", "two blocks", "Which is faster?", "block", points)
    target = Target(gpu, gpu.arch, spec_of(gpu.properties))
    result = run_study(study, Problem(512, 512, 512), target, Store(tmp_path))
    small, large, refused, library = result.rows
    assert result.kind == "measured" and result.limit.source == "measured"
    for row in (small, large, library):
        assert row.runs and row.timing is not None and len(row.timing.samples_us) == CAREFUL.samples, row.failure
    assert large.trial is not None and large.trial.compiled is not None and large.trial.compiled.spill_bytes > 0
    assert refused.failure is not None and "65,536 threads cannot launch" in refused.reason


def test_times_for_the_models_check_are_measured(gpu: GpuExecutor, tmp_path: Path) -> None:
    card = spec_of(gpu.properties)
    if not any(spec.is_card(card.name) for spec in DEVICES.values()):
        pytest.skip(f"{card.name} is none of the cards whose figures the check needs")
    known = Times(
        card, {}, tuple(Measured(problem, SIMT) for problem in (Problem(512, 512, 512), Problem(300, 200, 100)))
    )
    fresh = measure_times(known, Target(gpu, gpu.arch, card), Store(tmp_path), "this test", budget=6)
    assert [*fresh.problems] == [*known.problems]
    assert all(len(part.rows) >= 3 and part.rows[0].us > 0 for part in fresh.measured)
    assert check_model(fresh).skipped == 0 and gpu.description in fresh.provenance["card"]


def test_kernels_at_random_pass_in_lanes(gpu: GpuExecutor, tmp_path: Path) -> None:
    """Each lane has the GPU for itself in turns, and compiles what it runs."""
    limits, families = parse_arch(gpu.arch).limits, [*FAMILIES.values()]
    with crew(lanes_like(gpu)) as lanes:
        report = fuzz(lanes, "gpu", limits, families, tmp_path, Budget(situations=400))
    assert report.passed and report.tally.situations == 400 and report.tally.kernels == 10
