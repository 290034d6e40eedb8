"""NVRTC, its cache and the disassembler: no GPU needed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gemmgen.kernel.contract import Contract, Parameter
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.run import compile as compiler
from gemmgen.run.compile import (
    CompiledKernel,
    compile_kernel,
    compile_many,
    compile_text,
    compiler_processes,
    machine_code,
)
from gemmgen.run.gpu.plain import FOLDER, plain_path
from gemmgen.run.nvrtc import LINES
from gemmgen.run.sass import disassemble, same_machine_code
from gemmgen.support.child import Child, crew
from gemmgen.support.errors import CandidateFailed, Failure
from gemmgen.support.files import Store

NAIVE = """
extern "C" __global__ void naive(const float* A, const float* B, float* C, int K) {
    __shared__ float row[64];
    row[threadIdx.x] = B[threadIdx.x];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[k] * row[k % 64];
    C[threadIdx.x] = sum;
}
"""


def source_of(text: str) -> KernelSource:
    parameters = (
        Parameter("A", "const float*"),
        Parameter("B", "const float*"),
        Parameter("C", "float*"),
        Parameter("K", "int"),
    )
    launch = Launch(threads=64, grid=(("M", 1),))
    return KernelSource("naive", text, "naive", {}, Contract(Problem(1, 64, None), launch, parameters))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_an_arch_specific_familys_kernels_have_its_instructions(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(NAIVE.replace("__syncthreads();", 'asm volatile("wgmma.fence.sync.aligned;");'))
    with pytest.raises(CandidateFailed, match="wgmma"):
        compile_kernel(source, "sm_90", store)
    monkeypatch.setitem(compiler.FAMILIES, source.family, SimpleNamespace(arch_specific=True))
    compiled = compile_kernel(source, "sm_90", store)
    assert compiled.arch == "sm_90a" and compiled.flags[-1] == "--gpu-architecture=sm_90a"
    (again,) = compile_many([source], "sm_90", store)
    assert again == compiled


def test_texts_that_differ_in_names_have_the_same_machine_code(shared_store: Store) -> None:
    texts = (NAIVE, NAIVE.replace("row", "line").replace("naive", "plain"), NAIVE.replace("k % 64", "(k + 1) % 64"))
    cubins = [compile_text(text, "sm_90", shared_store).cubin for text in texts]
    assert cubins[0] != cubins[1] and machine_code(cubins[0]) == machine_code(cubins[1])
    assert {kind for kind, _ in machine_code(cubins[0])} == {"text", "nv.constant0"}
    assert machine_code(cubins[0]) != machine_code(cubins[2])


@pytest.mark.parametrize(
    ("read", "other", "same"),
    [
        ("TABLE[threadIdx.x % 4]", "{1, 2, 3, 5}", False),
        ("TABLE[1]", "{1, 2, 3, 5}", True),
        ("TABLE[threadIdx.x % 4]", "{1, 2, 3, 4}", True),
    ],
)
@pytest.mark.parametrize("kind", ["constexpr", "__device__ const"])
def test_tables_count_where_the_code_reads_them(
    shared_store: Store, kind: str, read: str, other: str, same: bool
) -> None:
    texts = (
        f"{kind} int TABLE[4] = {values};\n{NAIVE.replace('float sum = 0', f'float sum = {read}')}"
        for values in ("{1, 2, 3, 4}", other)
    )
    cubins = [compile_text(text, "sm_90", shared_store).cubin for text in texts]
    assert same_machine_code(*cubins) == same


def test_a_constant_that_no_code_reads_does_not_count(shared_store: Store) -> None:
    texts = NAIVE, f"constexpr int UNUSED = 5;\n{NAIVE}"
    one, other = (compile_text(text, "sm_90", shared_store).cubin for text in texts)
    assert one != other and same_machine_code(one, other)


def test_compiled_kernel_says_what_it_needs(shared_store: Store) -> None:
    source = source_of(NAIVE)
    compiled = compile_kernel(source, "sm_90", shared_store)
    assert compiled.cubin.startswith(b"\x7fELF")
    assert compiled.source == source.digest
    assert compiled.shared_bytes == 256
    assert 0 < compiled.registers <= 255
    assert compiled.spill_bytes == 0
    assert compiled.compiler.startswith("NVRTC ")


def test_spills_and_stack_are_counted(shared_store: Store) -> None:
    text = NAIVE.replace("__global__ void", "__global__ void __maxnreg__(24)").replace(
        "float sum = 0;", "float sum = 0, t[64];\n#pragma unroll\nfor (int i = 0; i < 64; ++i) t[i] = A[i * K];"
    )
    text = text.replace("C[threadIdx.x] = sum;", "for (int i = 0; i < 64; ++i) C[i] = sum * t[i];")
    compiled = compile_kernel(source_of(text), "sm_90", shared_store)
    assert compiled.stack_bytes > 0


def test_second_compilation_comes_from_the_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_kernel(source_of(NAIVE), "sm_90", store)
    monkeypatch.setattr(compiler, "compile_program", lambda text, arch: pytest.fail("compiled again"))
    assert compile_kernel(source_of(NAIVE), "sm_90", store) == first
    assert compile_many([source_of(NAIVE)], "sm_90", store) == [first]


def test_corrupt_entry_is_compiled_again(store: Store) -> None:
    first = compile_kernel(source_of(NAIVE), "sm_90", store)
    (entry,) = [path for path in store.root.rglob("*") if path.is_file()]
    entry.write_bytes(entry.read_bytes()[:-100])
    again = compile_kernel(source_of(NAIVE), "sm_90", store)
    assert replace(again, seconds=first.seconds) == first


def test_entry_of_another_format_is_compiled_again(store: Store) -> None:
    first = compile_kernel(source_of(NAIVE), "sm_90", store)
    (entry,) = [path for path in store.root.rglob("*") if path.is_file()]
    store.put(compiler.KIND, entry.name, b'{"registers": 3}\nELF')
    assert compile_kernel(source_of(NAIVE), "sm_90", store).cubin == first.cubin


@pytest.mark.parametrize(
    ("text", "arch", "reason"),
    [
        (NAIVE.replace("float sum", "flaot sum"), "sm_90", 'identifier "flaot" is undefined'),
        (NAIVE.replace("row[64]", "row[65536]"), "sm_90", "too much shared data"),
        (
            f"extern __device__ int g();\n{NAIVE}".replace("row[64]", "row[64]; row[0] = g()"),
            "sm_90",
            "Unresolved extern",
        ),
        (NAIVE, "sm_999", "unknown architecture 'sm_999'"),
        (NAIVE, "volta", "unknown architecture 'volta'"),
    ],
)
def test_failure_has_the_first_error(store: Store, text: str, arch: str, reason: str) -> None:
    with pytest.raises(CandidateFailed) as caught:
        compile_kernel(source_of(text), arch, store)
    assert caught.value.failure.kind == "compile"
    assert reason in caught.value.failure.reason
    assert caught.value.failure.reason.isprintable()


def test_log_without_resource_usage_is_no_success(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemmgen.run.nvrtc.FLAGS", ("--std=c++17",))
    with pytest.raises(CandidateFailed, match="no resource usage"):
        compile_kernel(source_of(NAIVE), "sm_90", store)


def test_many_keeps_the_order_and_reports_each(store: Store) -> None:
    texts = [NAIVE.replace("64", str(size)) for size in (32, 64, 96)] + ["broken"]
    sources = [source_of(text) for text in texts]
    seen = []
    results = compile_many(sources, "sm_90", store, lambda source, result: seen.append((source.digest, result)))
    assert [type(result) for result in results] == [CompiledKernel] * 3 + [Failure]
    assert [result.shared_bytes for result in results[:3]] == [128, 256, 384]  # type: ignore[union-attr]
    assert sorted(digest for digest, _ in seen) == sorted(source.digest for source in sources)


def test_none_to_compile(store: Store) -> None:
    assert compile_many([], "sm_90", store) == []


def test_compilers_serve_several_calls_and_end_together(store: Store) -> None:
    processes = []
    with crew(compiler_processes(1)) as (compiler,):
        for size in (32, 64):
            source = source_of(NAIVE.replace("64", str(size)))
            (result,) = compile_many([source], "sm_90", store, compilers=[compiler])
            assert isinstance(result, CompiledKernel)
            processes.append(compiler._process)
        assert processes[0] is processes[1] and compiler.running
    assert processes[0] is not None and processes[0].poll() is not None and not compiler.running


def test_a_compiler_process_imports_next_to_nothing() -> None:
    """As many start as there are cores, each time that something is tuned."""
    factory, _, _ = compiler_processes(1)[0]._command[3].partition(":")
    script = f"import sys, {factory}, gemmgen.support.child; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert factory in found and not {"numpy", "gemmgen.kernel.source", "gemmgen.problem.gemm"} & {*found}


def test_killed_compiler_costs_one_candidate(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the OOM killer does: the process that works on the second candidate is gone."""
    request = Child.request

    def killed_at_doomed(child: Child, message: tuple[str, str], timeout: float | None = None) -> object:
        if "doomed" in message[0]:
            process = child._started()
            process.send_signal(signal.SIGSTOP)  # busy with it
            threading.Timer(0.1, process.kill).start()
        return request(child, message, timeout)

    monkeypatch.setattr(Child, "request", killed_at_doomed)
    sources = [source_of(text) for text in (NAIVE, NAIVE + "// doomed", NAIVE + "// after")]
    with crew(compiler_processes(1)) as compilers:
        first, doomed, after = compile_many(sources, "sm_90", store, compilers=compilers)
    assert isinstance(first, CompiledKernel) and isinstance(after, CompiledKernel)
    assert isinstance(doomed, Failure)
    assert (doomed.kind, doomed.source) == ("compile", "nvrtc")
    assert "SIGKILL" in doomed.reason


def test_endless_compilation_ends(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    monkeypatch.setattr("gemmgen.run.compile.COMPILE_TIMEOUT", 0.01)
    (result,) = compile_many([source_of(NAIVE)], "sm_90", store)
    assert result == Failure("compile", "no answer in 0.01 s", "nvrtc")


def test_main_loop_of_the_disassembly(shared_store: Store) -> None:
    sass = disassemble(compile_kernel(source_of(NAIVE), "sm_90", shared_store).cubin)
    assert sass.kernel.counts["FFMA"] >= sass.main_loop.counts["FFMA"] > 0
    assert 0 < sass.main_loop.total < sass.kernel.total
    assert sass.main_loop.per_fma("LDS") > 0
    assert 0 < sass.main_loop.share("FFMA") < 1


def test_disassembly_without_its_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemmgen.run.sass.wheel_folders", lambda name: [])
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CandidateFailed, match="pip install nvidia-cuda-nvdisasm"):
        disassemble(b"")


def test_lines_are_added_and_the_resources_stay(shared_store: Store) -> None:
    text = plain_path("changed").read_text()
    plain, lines = (compile_text(text, "sm_90", shared_store, *options) for options in ((), (LINES,)))
    assert b".debug_line" in lines.cubin and b".debug_line" not in plain.cubin
    assert lines.registers == plain.registers
    assert compile_text(text, "sm_90", shared_store, LINES) == lines, "kept apart"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.cu")), ids=lambda path: path.stem)
def test_kernels_that_are_no_products_compile(shared_store: Store, path: Path) -> None:
    compiled = compile_text(path.read_text(), "sm_90", shared_store)
    assert compiled.spill_bytes == 0 and path.stem.encode() in compiled.cubin
