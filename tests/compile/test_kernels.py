"""What NVRTC makes of rendered kernels: every architecture, edges that cost nothing, the loop orders' reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gemmgen.exports.kernelfile import KernelFile
from gemmgen.families import NAIVE, SIMT, SKINNY
from gemmgen.families.base import first_rejection
from gemmgen.judge.explain import explain
from gemmgen.problem.device import ARCHS, device_named
from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.proof.edits import EDITS
from gemmgen.proof.selfcheck import edited
from gemmgen.render.kernel_text import render
from gemmgen.run.compile import CompiledKernel, compile_many, compile_text
from gemmgen.run.gpu.lt_epilogue import epilogue_apart
from gemmgen.run.sass import disassemble
from gemmgen.support.files import Store

PROBLEM = Problem(512, 512, 512)
RAGGED = Problem(None, None, None, layout=Layout("r", "c"))


@pytest.fixture(scope="module")
def cache() -> Store:
    return Store()


def kernels_for(arch: str, problems: tuple[Problem, ...]):
    """One kernel of each schedule that `arch` allows."""
    limits = ARCHS[arch].limits
    for problem in problems:
        yield render(problem, NAIVE, NAIVE.default(problem))
        for changes in ({"STAGES": 1}, {"STAGES": 2}, {"STAGES": 3, "ASYNC": 1}):
            config = SIMT.default(problem).with_values(**changes)
            if first_rejection(SIMT, problem, config, limits) is None:
                yield render(problem, SIMT, config)


@pytest.mark.parametrize(
    ("arch", "problems"),
    [
        *(
            (arch, ((PROBLEM, RAGGED)[number % 2],))
            for number, arch in enumerate(("sm_75", "sm_80", "sm_90", "sm_120"))
        ),
        *(pytest.param(arch, (PROBLEM, RAGGED), marks=pytest.mark.soak) for arch in ARCHS),
    ],
)
def test_every_schedule_compiles_without_spills(arch, problems, cache):
    sources = list(kernels_for(arch, problems))
    results = compile_many(sources, arch, cache)
    assert [result for result in results if not isinstance(result, CompiledKernel)] == []
    assert [result.spill_bytes for result in results] == [0] * len(sources)
    assert len(sources) == (3 if arch == "sm_75" else 4) * len(problems), "sm_75 has no cp.async"


@pytest.mark.parametrize(("types", "arch"), [("bf16", "sm_75"), ("e4m3", "sm_86"), ("e5m2", "sm_80")])
def test_types_that_an_architecture_has_no_instructions_for_compile(types, arch, cache):
    problem = Problem(16, 512, 512, types=types)
    sources = [render(problem, family, family.default(problem), arch) for family in (NAIVE, SKINNY)]
    assert [one for one in compile_many(sources, arch, cache) if not isinstance(one, CompiledKernel)] == []
    baseline = epilogue_apart(replace(problem, epilogue=parse_epilogue("bias+gelu+residual")), arch)
    assert baseline is not None and isinstance(compile_many([baseline], arch, cache)[0], CompiledKernel)
    native = [render(problem, NAIVE, NAIVE.default(problem), "sm_90")]
    assert not isinstance(compile_many(native, arch, cache)[0], CompiledKernel), "else arithmetic is not needed"


@pytest.mark.soak
def test_right_edits_are_cuda(cache):
    results = compile_many([edited(edit, ARCHS["sm_90"].limits) for edit in EDITS], "sm_90", cache)
    assert [result for result in results if not isinstance(result, CompiledKernel)] == []


def test_edges_cost_something_where_it_does_not(cache):
    config = SIMT.default(PROBLEM)
    ragged = render(Problem(500, 500, 500), SIMT, config).text
    assert len(_code(ragged, cache)) > len(_code(render(PROBLEM, SIMT, config).text, cache))


def test_an_inner_product_reads_two_shared_values_for_each_fma(cache):
    config = SIMT.default(PROBLEM).with_values(OUTER=0, STAGES=1)
    loop = disassemble(_cubin(render(PROBLEM, SIMT, config).text, cache)).main_loop
    assert loop.per_fma("LDS") == pytest.approx(2, rel=0.1)


def test_an_outer_product_reads_its_fragments_as_vectors(cache):
    loop = disassemble(_cubin(render(PROBLEM, SIMT, SIMT.default(PROBLEM)).text, cache)).main_loop
    reads = 4  # LDS.128: 8 + 8 floats for 64 FMAs
    assert loop.per_fma("LDS") == pytest.approx(reads / 64, rel=0.1)
    assert loop.share("FFMA") > 0.8


@pytest.mark.parametrize(
    "changes", [{}, {"ASYNC": 1, "STAGES": 3}, {"ASYNC": 1, "STAGES": 2, "K_UNROLL": 4, "BK": 32}], ids=str
)
def test_the_machine_code_takes_what_the_model_counts(changes, cache):
    problem = Problem(512, 512, 512, layout=Layout("c", "r"))  # nothing is transposed: no bank conflicts to count
    source = render(problem, SIMT, SIMT.default(problem).with_values(**changes))
    use = explain(KernelFile(source), "sm_90", device_named("H200"), cache).loop_use
    assert use.wavefronts.reads == pytest.approx(use.model_wavefronts.reads, rel=0.1)
    assert use.wavefronts.writes == pytest.approx(use.model_wavefronts.writes, rel=0.1)
    assert use.fma.share < use.model_fma_share and use.model_fma_share == pytest.approx(use.fma.share, rel=0.1)
    assert use.model_fma_use < use.fma.allowed < use.fma.share


def test_doubles_fill_their_pipe_with_every_other_instruction(cache):
    problem = Problem(512, 512, 512, dtype=DType.F64)
    source = render(problem, SIMT, SIMT.default(problem))
    fma = explain(KernelFile(source), "sm_90", device_named("H200"), cache).loop_use.fma
    assert fma.pipe_cycles == 2 and fma.operand_cycles is None
    assert fma.share > 0.6 and fma.allowed == 1


def _cubin(text: str, cache: Store) -> bytes:
    return compile_text(text, "sm_90", cache).cubin


def _code(text: str, cache: Store) -> list[str]:
    """The instructions, without addresses and encodings."""
    return [
        line.split("*/", 1)[1].split("/*")[0]
        for line in disassemble(_cubin(text, cache)).text.splitlines()
        if "*/" in line
    ]
