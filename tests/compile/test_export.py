"""Exported folders: whole, consistent and free of warnings; their self-tests find what they promise to find."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builds import run

from gemmgen.exports.folder import export, export_all
from gemmgen.exports.interface import Interface
from gemmgen.exports.writing import write_together
from gemmgen.families import FAMILIES, WGMMA
from gemmgen.kernel.launch import DEPENDENT_LAUNCH
from gemmgen.kernel.prepare import Prepare
from gemmgen.kernel.source import KernelSource
from gemmgen.kernel.tensor_map import PROMOTIONS, SWIZZLES
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case, Problem
from gemmgen.problem.images import Conv
from gemmgen.problem.matrix import Layout
from gemmgen.problem.sizes import parse_shape
from gemmgen.render.kernel_text import render
from gemmgen.run.compile import compile_text
from gemmgen.support.errors import GemmgenError, InvalidInput
from gemmgen.support.files import Store, sha256

HOST_CUDA = Path(__file__).parent / "host_cuda"  # what stands in for CUDA where a test needs no more of it,
HOST_KERNEL = Path(__file__).parent / "host_kernel"  # and for a GPU
RECORD: dict[str, Any] = {"arch": "sm_90", "verification": {"verdict": "passed"}, "timing": None}
NOBODY = 65534  # a user without rights
WARNINGS = ("-Wall", "-Wextra", "-Werror")
SM_90A = ("-gencode", "arch=compute_90a,code=sm_90a")
NVCC_FLAGS = ("-std=c++17", "-Xcompiler", "-Wall,-Wextra", "-Werror", "all-warnings")
ARCHITECTURES = (80, 90)  # the oldest with cp.async, and the card of the performance suite

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
needs_gcc = pytest.mark.skipif(
    shutil.which("gcc") is None or shutil.which("g++") is None, reason="gcc and g++ are not on the PATH"
)


def kernel(
    shape: str, layout: str, family: str = "simt", problem: dict[str, Any] | None = None, **config: int
) -> KernelSource:
    described = Problem(*parse_shape(shape), layout=Layout.parse(layout), **(problem or {}))
    record = FAMILIES[family]
    return render(described, record, record.default(described).with_values(**config))


FIXED = kernel("512x512x512", "rr")
NAIVE = kernel("100x200x300", "rr", "naive")
FREE = kernel("?x?x?", "rr")
BATCH = kernel("?x?x?", "rr", problem={"batch": None})
POINTERS = kernel("?x?x?", "rr", problem={"batch": None, "pointers": True})
SPLIT = kernel("?x?x?", "rr", SPLIT=3)
SMALL = {"BM": 32, "BN": 64, "TM": 4, "TN": 4, "WM": 16, "WN": 32}  # tiles, which compile sooner
STREAM = kernel("?x?x?", "rr", STREAM=264, ASYNC=1, STAGES=3, K_UNROLL=4, BK=16, **SMALL)
EPILOGUE = kernel("?x?x?", "rr", problem={"epilogue": "scale_m+bias+gelu+residual"})
QUANTISED = kernel("?x?x?", "rr", problem={"types": "u8,s8,s8", "epilogue": "zero_a+zero_n+scale_a+scale_n+bias+relu"})
# All types between them. Threads of the family naive know nothing of each other: a host runs them one by one.
CONVERTED: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "bf16": ("?x?x?", "rc", "naive", {"types": "bf16"}),
    "f16 by pointers": ("?x?x?", "rr", "naive", {"types": "f16", "batch": None, "pointers": True, "pointer_align": 2}),
    "fp8": ("?x?x?", "cr", "naive", {"types": "e4m3,e5m2,e4m3"}),
    "s8 to s32": (
        "?x?x?",
        "rr",
        "naive",
        {
            "types": "s8,u8,s32",
            "epilogue": "aux(clamp(alpha * (acc - 3 * zero_m) + beta * C, -100, 1000)) + relu(bias_n)",
        },
    ),
    "s8 requantised": (
        "64x?x?",
        "cr",
        "naive",
        {"types": "u8,s8,s8", "epilogue": "zero_a+zero_n+scale_a+scale_n+bias"},
    ),
    "s8 with sums": (
        "?x?x?",
        "rr",
        "naive",
        {"types": "s8,s8,e5m2", "epilogue": "alpha * (acc - zero_m * sum_n) + beta * C"},
    ),
    "aux": ("?x?x?", "rr", "naive", {"types": "bf16", "epilogue": "bias+aux+gelu+residual", "batch": None}),
    "amax": (
        "?x?x?",
        "rr",
        "naive",
        {"types": "s8,s8,e4m3", "epilogue": "scale_a+row_amax+bias+column_amax", "batch": None},
    ),
    "amax by pointers": (
        "?x24x?",
        "rc",
        "naive",
        {"dtype": DType.F64, "epilogue": "row_amax", "batch": None, "pointers": True},
    ),
    "gated": ("?x?x?", "rr", "naive", {"types": "bf16", "epilogue": "swiglu", "batch": None}),
    "lstm": ("?x?x?", "rc", "naive", {"types": "bf16", "epilogue": "lstm"}),
    "f64 aux": ("?x64x?", "rr", "naive", {"dtype": DType.F64, "epilogue": "aux+silu"}),
}
ALIGNED = kernel("?x?x?", "rc", problem={"ld_align": 4}, STAGES=1)
DYNAMIC = kernel("511x513x127", "cr", STAGES=4, ASYNC=1, BK=32)  # dynamic shared memory


def kernels() -> tuple[KernelSource, ...]:
    """Kernels of all kinds; rendering them takes a second."""
    return (
        FIXED,
        NAIVE,
        FREE,
        ALIGNED,
        DYNAMIC,
        kernel("16x32x24", "rc", "batched", problem={"batch": None, "stride_a": 0, "stride_c": None}),
        BATCH,
        POINTERS,
        kernel("12x20x8", "cr", "batched", problem={"batch": 1000, "pointers": True, "pointer_align": 8}),
        kernel("512x512x?", "rc", problem={"dtype": DType.F64}, VEC=2),
        kernel("?x512x?", "cc", problem={"lda": None, "pointer_align": 4}, WM=0, WN=0, OUTER=0),
        kernel("8x512x300", "rr", "skinny", SPLIT=4),
        kernel("?x3x?", "rr", "skinny", SPLIT=2),  # the workspace's size depends on an argument
        SPLIT,
        STREAM,
        kernel("?x64x?", "rr", problem={"dtype": DType.F64, "batch": None}, SPLIT=4),  # on two, and holds doubles
        EPILOGUE,
        kernel("?x?x96", "cr", "naive", problem={"epilogue": "zero_m+zero_n+scale_n"}),
        kernel(
            "?x64x?", "rr", problem={"dtype": DType.F64, "batch": None, "epilogue": "bias_m+silu+residual"}, SPLIT=4
        ),
        kernel(
            "16x32x24",
            "rc",
            "batched",
            problem={"batch": 9, "pointers": True, "epilogue": "clamp(acc * scale_n, -1, 1)"},
        ),
        *(kernel(*one) for one in CONVERTED.values()),
        QUANTISED,
        kernel("?x?x?", "rc", problem={"types": "bf16,f16,f32", "ld_align": 8}, STAGES=1),
        kernel("?x?x?", "rr", problem={"types": "s8,s8,s32"}, SPLIT=3),  # partial sums are integers
        kernel("4x512x300", "rc", "skinny", problem={"types": "s8,s8,bf16", "epilogue": "scale_m+scale_n+bias"}),
        kernel(
            "16x16x16", "rr", "batched", problem={"types": "f16", "batch": None, "pointers": True, "pointer_align": 2}
        ),
    )


CODES = {"types": "bf16,u4,bf16", "inputs": "scales=128+zeros"}
WGMMA_CODES = kernel("?x136x256", "rc", "wgmma", CODES).renamed("u4")
SHARING = (
    STREAM,
    kernel("?x?x?", "cr", problem={"dtype": DType.F64}, STREAM=3, BM=32, TM=4, WM=32, VEC=2),
    kernel("?x512x300", "rc", STREAM=1),
    kernel("2000x3000x?", "rr", STREAM=20),
    SPLIT,
    kernel("?x64x?", "rr", problem={"dtype": DType.F64, "batch": None}, SPLIT=4),
)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# The folder


def test_folder_is_whole(tmp_path: Path) -> None:
    paths = export(FREE, RECORD, tmp_path / "out")
    suffixes = (".cu", ".h", "_selftest.cu", ".certificate.json")
    expected = {"CMakeLists.txt", "README.md", *(FREE.name + suffix for suffix in suffixes)}
    assert {path.name for path in paths} == expected
    assert {path.name for path in (tmp_path / "out").iterdir()} == expected
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_certificate_names_every_byte(tmp_path: Path) -> None:
    export(FREE, RECORD, tmp_path)
    certificate = json.loads((tmp_path / f"{FREE.name}.certificate.json").read_text())
    assert RECORD.items() <= certificate.items()
    assert certificate["name"] == FREE.name
    written = snapshot(tmp_path)
    del written[f"{FREE.name}.certificate.json"]
    assert certificate["files"] == {name: hashlib.sha256(data).hexdigest() for name, data in written.items()}
    start = certificate["kernel_start"]
    text = written[f"{FREE.name}.cu"][start : start + certificate["kernel_bytes"]]
    assert text == FREE.text.encode()
    assert certificate["sha256"] == hashlib.sha256(text).hexdigest() == FREE.digest


def edited(source: KernelSource, text: str) -> KernelSource:
    return KernelSource(**{**vars(source), "text": text})


@pytest.mark.parametrize("ending", ["\n", "", "\r\n", "\n// µ"])
def test_edits_by_hand_stay(tmp_path: Path, ending: str) -> None:
    source = edited(NAIVE, "// mine\r\n" + NAIVE.text.rstrip() + ending)
    export(source, RECORD, tmp_path)
    exported = (tmp_path / f"{source.name}.cu").read_bytes()
    before, after = exported.split(source.text.encode())
    assert before.endswith(b"#endif\n\n") and after.startswith(b"\n#if defined(__CUDACC__)")


def test_export_is_deterministic(tmp_path: Path) -> None:
    export(FREE, RECORD, tmp_path / "one")
    export(FREE, RECORD, tmp_path / "two")
    assert snapshot(tmp_path / "one") == snapshot(tmp_path / "two")


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no architecture"):
        export(FIXED, {"arch": "90"}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_name_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no C identifier"):
        export(KernelSource(**{**vars(NAIVE), "name": "../escape"}), RECORD, tmp_path / "out")


# What is there already


def test_other_files_stay_and_an_earlier_export_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "theirs.txt").write_text("theirs")
    export(NAIVE, RECORD, tmp_path)
    export(edited(NAIVE, NAIVE.text + "// edited\n"), {**RECORD, "arch": "sm_80"}, tmp_path)
    assert "// edited" in (tmp_path / f"{NAIVE.name}.cu").read_text()
    assert "sm_80" in (tmp_path / "README.md").read_text()
    assert (tmp_path / "theirs.txt").read_text() == "theirs"
    assert len(list(tmp_path.iterdir())) == 7


@pytest.mark.parametrize("name", ["CMakeLists.txt", "README.md", f"{NAIVE.name}.cu"])
@pytest.mark.parametrize("exported_before", [False, True])
def test_what_no_export_wrote_is_not_lost(tmp_path: Path, name: str, exported_before: bool) -> None:
    if exported_before:
        export(NAIVE, RECORD, tmp_path)
    (tmp_path / name).write_text("theirs")
    before = snapshot(tmp_path)
    with pytest.raises(InvalidInput, match=f"{name} exists"):
        export(NAIVE, {**RECORD, "arch": "sm_80"}, tmp_path)
    assert snapshot(tmp_path) == before


def test_kernels_share_a_folder(tmp_path: Path) -> None:
    together, one_by_one = tmp_path / "together", tmp_path / "one by one"
    export_all([(NAIVE, RECORD), (FIXED, RECORD)], together)
    for source in (FIXED, NAIVE, FIXED):
        export(source, RECORD, one_by_one)
    assert snapshot(together) == snapshot(one_by_one)
    build = (together / "CMakeLists.txt").read_text()
    assert all(f"add_kernel({source.name} 75)" in build for source in (NAIVE, FIXED))
    for source in (NAIVE, FIXED):
        files = json.loads((together / f"{source.name}.certificate.json").read_text())["files"]
        own = {f"{source.name}{suffix}" for suffix in (".cu", ".h", "_selftest.cu")}
        assert files.keys() == own | {"CMakeLists.txt", "README.md"}
        assert all(sha256((together / name).read_bytes()) == digest for name, digest in files.items())


def test_a_kernel_whose_certificate_cannot_be_read_is_left_out_with_a_warning(tmp_path: Path) -> None:
    export_all([(NAIVE, RECORD), (FIXED, RECORD)], tmp_path)
    (tmp_path / f"{NAIVE.name}.certificate.json").write_text('{"name": ')
    with pytest.warns(UserWarning, match=f"leave out the kernel of .*{NAIVE.name}.certificate.json is not JSON"):
        export(FIXED, RECORD, tmp_path)
    assert NAIVE.name not in (tmp_path / "CMakeLists.txt").read_text()


def test_kernels_that_write_one_file_are_refused(tmp_path: Path) -> None:
    for one, other in ((NAIVE, FIXED.renamed(NAIVE.name)), (NAIVE, FIXED.renamed(f"{NAIVE.name}_selftest"))):
        with pytest.raises(InvalidInput, match=r"two of the kernels write .* with --as NAME"):
            export_all([(one, RECORD), (other, RECORD)], tmp_path)
        assert not [*tmp_path.iterdir()]


@pytest.fixture
def read_only() -> Iterator[Path]:
    """An empty folder without write permission, which binds root only while it acts as somebody else."""
    if not hasattr(os, "geteuid"):
        pytest.skip("no POSIX permissions here")
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as name:  # tmp_path lies below a folder that only its owner may enter
        folder = Path(name)
        folder.chmod(0o555)
        try:
            if root:
                os.seteuid(NOBODY)
            yield folder
        finally:
            if root:
                os.seteuid(0)
            folder.chmod(0o755)


def test_read_only_folder_stays_empty(read_only: Path) -> None:
    for to in (read_only, read_only / "new", read_only / "new" / "below"):
        with pytest.raises(GemmgenError, match="Permission denied"):
            write_together({"one": b"1", "two": b"2"}, to)
    assert list(read_only.iterdir()) == []


def test_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("theirs")
    for to in (tmp_path / "out", tmp_path / "out" / "below"):
        with pytest.raises(GemmgenError, match="cannot export to"):
            export(NAIVE, RECORD, to)
    assert snapshot(tmp_path) == {"out": b"theirs"}


@pytest.mark.parametrize("exported_before", [False, True])
@pytest.mark.parametrize("nth", [0, 3, 5])
def test_failure_half_way_leaves_the_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int, exported_before: bool
) -> None:
    (tmp_path / "theirs.txt").write_text("theirs")
    if exported_before:
        export(NAIVE, RECORD, tmp_path)
    before = snapshot(tmp_path)
    replace, calls = os.replace, iter(range(100))

    def failing(source: Path, target: Path) -> None:
        if next(calls) == nth:
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(GemmgenError, match="No space left"):
        export(NAIVE, {**RECORD, "arch": "sm_80"}, tmp_path)
    assert snapshot(tmp_path) == before
    assert not list(tmp_path.glob(".*"))


def test_failure_to_write_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, calls = Path.write_bytes, iter(range(100))

    def failing(path: Path, data: bytes) -> int:
        if next(calls) == 2:
            raise OSError(28, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", failing)
    with pytest.raises(GemmgenError, match="No space left"):
        export(NAIVE, RECORD, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


# The tools that build it


@needs_nvcc
def test_one_source_file_includes_several_kernels(tmp_path: Path) -> None:
    """Without a warning; all kernels and self-tests compile in soak."""
    kernels = (POINTERS, QUANTISED)
    for source in kernels:
        export(source, RECORD, tmp_path / source.name)
    (tmp_path / "all.cu").write_text("".join(f'#include "{name}/{name}.cu"\n' for name in (k.name for k in kernels)))
    run("nvcc", *NVCC_FLAGS, "-t0", "-arch=sm_90", "-c", "all.cu", folder=tmp_path)
    assert (tmp_path / "all.o").is_file()


@needs_nvcc
@pytest.mark.soak
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_nvcc_has_no_warning(arch: int, tmp_path: Path) -> None:
    """One nvcc run for the kernels and one for the self-tests: nvcc itself spreads files."""
    sources = kernels()
    for source in sources:
        export(source, RECORD, tmp_path / source.name)
    served = [source.name for source in sources if source.problem.types.least_arch <= arch]
    texts = [tmp_path / name / f"{name}.cu" for name in served]
    run("nvcc", *NVCC_FLAGS, "-t0", f"-arch=sm_{arch}", "-c", *texts, folder=tmp_path)
    selftests = [tmp_path / source.name / f"{source.name}_selftest.cu" for source in sources]
    run("nvcc", *NVCC_FLAGS, "-t0", f"-arch=sm_{arch}", "-c", *selftests, folder=tmp_path)
    assert len(list(tmp_path.glob("*.o"))) == len(served) + len(selftests)


@needs_nvcc
@pytest.mark.soak
@pytest.mark.parametrize(
    ("shape", "layout", "problem"),
    [
        ("?x?x?", "rc", {"types": "bf16", "ld_align": 8}),
        ("?x?x?", "rr", {"types": "s8,s8,s32"}),
        ("?x?x?", "cr", {"types": "f16,f16,f32", "batch": None, "epilogue": "bias+gelu+residual"}),
        ("4095x4097x1023", "rr", {"types": "bf16", "epilogue": "bias+row_amax"}),
        ("4096x4096x4096", "rc", {"types": "bf16", "batch": 3, "epilogue": "aux+gelu"}),
        ("?x136x256", "rc", {**CODES, "epilogue": "bias"}),
        ("4096x4096x4096", "rr", {"types": "f16,s4,f32", "inputs": "scales=K", "ldb": None}),
        ("?x136x512", "rc", {"types": "bf16,s8,bf16_promoted", "inputs": "scales=64+zeros"}),
    ],
)
def test_nvcc_has_no_warning_of_wgmma(shape: str, layout: str, problem: dict[str, Any], tmp_path: Path) -> None:
    source = kernel(shape, layout, "wgmma", problem)
    export(source, RECORD, tmp_path)
    texts = (f"{source.name}.cu", f"{source.name}_selftest.cu")
    run("nvcc", *NVCC_FLAGS, *SM_90A, "-t0", "-c", *texts, folder=tmp_path)


PROJECT = """
cmake_minimum_required(VERSION 3.18)
set(CMAKE_CUDA_ARCHITECTURES 80 90a)
project(user LANGUAGES C CXX CUDA)
include(FetchContent)
FetchContent_Declare(kernels SOURCE_DIR ${CMAKE_SOURCE_DIR}/../vendored)
FetchContent_MakeAvailable(kernels)
add_executable(user user.c)
target_link_libraries(user PRIVATE k::k)
target_compile_options(user PRIVATE -Wall -Wextra -Werror -pedantic)
"""
FINDER = """
cmake_minimum_required(VERSION 3.18)
project(user LANGUAGES CXX)
find_package(k REQUIRED)
add_executable(user user.cpp)
target_link_libraries(user PRIVATE k::k)
target_compile_options(user PRIVATE -Wall -Wextra -Werror -pedantic)
"""


@needs_nvcc
@pytest.mark.soak
@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not on the PATH")
def test_cmake_fetches_builds_installs_and_finds(tmp_path: Path, kernel_of_maps: KernelSource) -> None:
    export_all([(kernel_of_maps, {**RECORD, "arch": "sm_90a"}), (NAIVE, RECORD)], tmp_path / "vendored")
    run("cmake", "-S", "vendored", "-B", "build", f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'usr'}", folder=tmp_path)
    run("cmake", "--build", "build", folder=tmp_path)
    tested = subprocess.run(["ctest"], cwd=tmp_path / "build", capture_output=True, text=True, check=True).stdout
    assert "100% tests passed" in tested
    run("cmake", "--install", "build", folder=tmp_path)
    program = '#include "k.h"\nint main(void) { return k_run(0, 0) == cudaErrorInvalidValue ? 0 : 1; }\n'
    for name, text, suffix in (("fetches", PROJECT, "c"), ("finds", FINDER, "cpp")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "CMakeLists.txt").write_text(text)
        (tmp_path / name / f"user.{suffix}").write_text(program)
        run("cmake", "-S", name, "-B", f"{name}/b", f"-DCMAKE_PREFIX_PATH={tmp_path / 'usr'}", folder=tmp_path)
        run("cmake", "--build", f"{name}/b", folder=tmp_path)
        run(tmp_path / name / "b" / "user", folder=tmp_path)
    configure = ("cmake", "-S", "vendored", "-B", "other", "-DCMAKE_CUDA_ARCHITECTURES=90")
    refused = subprocess.run(configure, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused.returncode != 0 and "k needs sm_90a: CMAKE_CUDA_ARCHITECTURES is 90" in refused.stderr


@needs_nvcc
def test_launcher_answers_without_a_gpu(tmp_path: Path) -> None:
    source = ALIGNED
    export(source, RECORD, tmp_path)
    run("nvcc", "-std=c++17", "-arch=sm_90", *sorted(tmp_path.glob("*.cu")), "-o", "selftest", folder=tmp_path)
    output = subprocess.run([tmp_path / "selftest"], capture_output=True, text=True, check=False).stdout
    answers = [line for line in output.splitlines() if "cudaSuccess" in line or "cudaError" in line]
    assert len(answers) == 17
    assert all(line.startswith("PASS") for line in answers), output


@pytest.mark.parametrize("source", [FREE, DYNAMIC, STREAM], ids=["run-time sizes", "dynamic shared", "stream"])
def test_nvrtc_takes_the_kernel_alone(tmp_path: Path, source: KernelSource, shared_store: Store) -> None:
    export(source, RECORD, tmp_path)
    alone = compile_text(source.text, "sm_90", shared_store)
    exported = compile_text((tmp_path / f"{source.name}.cu").read_text(), "sm_90", shared_store)
    assert (exported.registers, exported.shared_bytes) == (alone.registers, alone.shared_bytes)


def test_files_of_a_kernel_that_splits_say_what_it_takes(tmp_path: Path) -> None:
    export(SPLIT, RECORD, tmp_path)
    header = (tmp_path / f"{SPLIT.name}.h").read_text()
    assert "3 blocks share a tile of C" in header and "may hold anything" in header
    assert "place(tiles_of_c(M, N) * 3 * 16384 * sizeof(float))" in (tmp_path / f"{SPLIT.name}.cu").read_text()


def test_files_of_a_kernel_that_streams_say_what_it_takes(tmp_path: Path) -> None:
    export(STREAM, RECORD, tmp_path)
    header = (tmp_path / f"{STREAM.name}.h").read_text()
    assert "264 blocks share the last tiles of C" in header
    assert f"size_t {STREAM.name}_workspace_bytes(int /* M */, int /* N */, int /* K */);" in header


SOME_SIZES = (1, 31, 32, 33, 127, 128, 129, 500, 1000, 2048, 2049, 5000, 33_000)


@needs_gcc
@pytest.mark.parametrize("source", SHARING, ids=lambda source: source.name)
def test_launcher_counts_blocks_and_bytes_as_the_launch_does(tmp_path: Path, source: KernelSource) -> None:
    library = launcher_on_the_host(tmp_path, source)
    launch, problem = source.launch, source.problem
    free = [name for name in ("m", "n", "k", "batch") if getattr(problem, name) is None]
    (size := getattr(library, f"{source.name}_workspace_bytes")).restype = ctypes.c_size_t
    for sizes in itertools.product(*((70,) if name == "k" else SOME_SIZES for name in free)):
        case = problem.case(**dict(zip(free, sizes, strict=True)))
        needed = sum(-(-length // ALIGN) * ALIGN for length in launch.workspace(case).lengths.values())
        assert size(*sizes) == needed
        assert call(library, source, case, needed) == 0
        expected = [launch.blocks(case), launch.threads, launch.shared_bytes]
        assert (ctypes.c_uint * 3).in_dll(library, "launched")[:] == expected
        assert (ctypes.c_size_t * 2).in_dll(library, "zeroed")[:] == [WORKSPACE, 4 * launch.workspace(case).semaphores]
        assert call(library, source, case, needed - 1) == 1


WORKSPACE = 1 << 40  # its address
ALIGN = 256
DATA_TYPES = {1: 0, 2: 1, 4: 2}  # CUDA's numbers of UINT8, UINT16 and UINT32


def call(library: ctypes.CDLL, source: KernelSource, case: Case, workspace_bytes: int) -> int:
    """What NAME_launch answers."""
    named = (
        case.values | dict.fromkeys(case.tensors, 256) | {"workspace": WORKSPACE, "workspace_bytes": workspace_bytes}
    )
    values = [CTYPES.get(one.ctype, ctypes.c_void_p)(named[one.text]) for one in Interface(source, "sm_90").arguments]
    return int(getattr(library, f"{source.name}_launch")(*values, ctypes.c_void_p()))


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory, kernel_of_maps: KernelSource) -> ctypes.CDLL:
    """Its launcher."""
    library = launcher_on_the_host(tmp_path_factory.mktemp("mapped"), kernel_of_maps, arch="sm_90a")
    library.k_refusal.restype = ctypes.c_char_p
    (ctypes.c_int * 3).in_dll(library, "device_is")[:] = [9, 0, 132]
    return library


SIZES = {"m": 300, "n": 200, "k": 100, "lda": 136, "ldb": 104, "ldc": 200}


def plan(library: ctypes.CDLL, a: int = 4096, b: int = 8192, c: int = 1 << 40, **sizes: int) -> tuple[int, Any]:
    """(what NAME_make_plan answers, the plan); SIZES but for `sizes`."""
    made = (ctypes.c_ulonglong * 64)()
    values = (SIZES | sizes).values()
    none = ctypes.c_void_p(), ctypes.c_size_t()
    return library.k_make_plan(made, *map(ctypes.c_void_p, (a, b, c)), *map(ctypes.c_int, values), *none), made


@needs_gcc
def test_a_plan_has_the_maps_of_its_launch(mapped: ctypes.CDLL, kernel_of_maps: KernelSource) -> None:
    case = kernel_of_maps.problem.case(**SIZES)
    status, made = plan(mapped)
    assert status == 0 and mapped.k_refusal() == b""
    for i, (one, address) in enumerate(zip(kernel_of_maps.launch.maps, (4096, 8192, 1 << 40), strict=True)):
        tensor = one.of(case)
        wanted = [1, address, *tensor.sizes, *tensor.strides, *tensor.box, SWIZZLES.index(tensor.swizzle)]
        wanted += [PROMOTIONS.index(tensor.promotion)]
        assert made[16 * i : 16 * i + 16] == [*wanted, *[0] * (16 - len(wanted))]


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The launcher of a batch whose sizes, leading dimensions and strides are all left to run time."""
    sizes: dict[str, Any] = dict.fromkeys(("lda", "ldb", "ldc", "batch", "stride_a", "stride_b", "stride_c"))
    problem = Problem(None, None, None, **sizes)
    source = render(problem, FAMILIES["naive"], FAMILIES["naive"].default(problem)).renamed("heads")
    library = launcher_on_the_host(tmp_path_factory.mktemp("heads"), source)
    library.heads_refusal.restype = ctypes.c_char_p
    return library


@needs_gcc
@pytest.mark.parametrize(
    ("strides", "reason"),
    [
        ({}, ""),
        ({"stride_a": 10**9, "stride_c": 16 * 32}, ""),
        ({"stride_a": 0, "stride_b": 5}, ""),
        ({"stride_a": -1}, "stride_a = -1 is less than 0"),
        ({"stride_c": 7}, "stride_c = 7 is less than 488"),
        ({"stride_c": 9}, "stride_c = 9 is less than 488"),
        ({"stride_c": 487}, "stride_c = 487 is less than 488"),
        ({"ldc": 31}, "stride_c = 8 is less than 473"),
        ({"m": 0, "stride_c": 0}, ""),
        ({"batch": 0, "stride_c": 8}, ""),
    ],
)
def test_a_batch_may_interleave_and_a_result_may_not_overlap(
    heads: ctypes.CDLL, strides: dict[str, int], reason: str
) -> None:
    """Heads of 16 x 8, side by side in rows of 4 x 8 elements."""
    given = {"m": 16, "n": 8, "k": 8, "lda": 32, "ldb": 32, "ldc": 32, "batch": 4}
    given |= {"stride_a": 8, "stride_b": 8, "stride_c": 8} | strides
    numbers = [(ctypes.c_longlong if name.startswith("stride") else ctypes.c_int)(one) for name, one in given.items()]
    scalars, none = (ctypes.c_float(1), ctypes.c_float(0)), (ctypes.c_void_p(), ctypes.c_size_t())
    addresses = map(ctypes.c_void_p, (4096, 8192, 1 << 40))
    status = heads.heads_make_plan((ctypes.c_ulonglong * 64)(), *addresses, *numbers, *scalars, *none)
    assert (status == 0, heads.heads_refusal().decode()[: len(reason)]) == (not reason, reason)


@needs_gcc
def test_a_plan_of_matrices_behind_pointers_has_maps_of_all_memory(tmp_path: Path) -> None:
    problem = Problem(None, 200, None, types="bf16", layout="rc", batch=None, pointers=True, ld_align=8)
    source = render(problem, WGMMA, WGMMA.default(problem)).renamed("pointer_batch")
    library = launcher_on_the_host(tmp_path, source, arch="sm_90a")
    (ctypes.c_int * 3).in_dll(library, "device_is")[:] = [9, 0, 132]
    case = problem.case(300, 200, 104, batch=5)
    named = case.values | {f"{name}_array": 8 for name in "ABC"} | {"workspace": 0, "workspace_bytes": 0}
    arguments = [
        CTYPES.get(one.ctype, ctypes.c_void_p)(named[one.text]) for one in Interface(source, "sm_90a").arguments
    ]
    made = (ctypes.c_ulonglong * 64)()
    assert library.pointer_batch_make_plan(made, *arguments) == 0
    for i, one in enumerate(source.launch.maps):
        tensor = one.of(case)
        wanted = [1, 0, *tensor.sizes, *tensor.strides, *tensor.box, SWIZZLES.index(tensor.swizzle)]
        assert made[16 * i : 16 * i + len(wanted)] == wanted
    assert library.pointer_batch_run(made, None) == 0 and (ctypes.c_uint * 3).in_dll(library, "launched")[0] == 15


@needs_gcc
def test_a_plan_of_groups_along_k_has_bounded_maps(tmp_path: Path) -> None:
    problem = Problem(
        None, 200, None, types="bf16,bf16,f32", layout="cr", ldb=264, ld_align=8, inputs="groups=5+along_k"
    )
    config = WGMMA.default(problem).with_values(BM=128, BN=256, CONSUMERS=2)
    source = render(problem, WGMMA, config, "sm_90a").renamed("deep")
    library = launcher_on_the_host(tmp_path, source, arch="sm_90a")
    (ctypes.c_int * 3).in_dll(library, "device_is")[:] = [9, 0, 132]
    case = problem.case(304, 200, 1000, lda=320)
    named = case.values | dict.fromkeys(case.tensors, 4096) | {"workspace": 0, "workspace_bytes": 0}
    arguments = [
        CTYPES.get(one.ctype, ctypes.c_void_p)(named[one.text]) for one in Interface(source, "sm_90a").arguments
    ]
    made = (ctypes.c_ulonglong * 64)()
    assert library.deep_make_plan(made, *arguments) == 0
    for i, one in enumerate(source.launch.maps):
        tensor = one.of(case)
        wanted = [1, 4096, *tensor.sizes, *tensor.strides, *tensor.box, SWIZZLES.index(tensor.swizzle)]
        assert made[16 * i : 16 * i + len(wanted)][1:] == wanted[1:], one.parameter
    assert library.deep_run(made, None) == 0 and (ctypes.c_uint * 3).in_dll(library, "launched")[0] == 15
    place = next(i for i, one in enumerate(Interface(source, "sm_90a").arguments) if one.text == "K")
    arguments[place] = ctypes.c_int(2**30 + 1)
    assert library.deep_make_plan(made, *arguments) != 0
    library.deep_refusal.restype = ctypes.c_char_p
    assert library.deep_refusal() == b"K = 1073741825 is more than 1073741824"
    assert "product g sums k from offs[g - 1], or 0, to offs[g]" in (tmp_path / "deep.h").read_text()


@needs_gcc
def test_a_plan_has_the_tails_of_its_sizes(tmp_path: Path) -> None:
    problem = Problem(None, None, None, types="bf16", layout="rc", ld_align=8)
    config = WGMMA.default(problem).with_values(BM=128, BN=192, CONSUMERS=2)
    source = render(problem, WGMMA, config).renamed("cut")
    assert [one.parameter for one in source.launch.maps][:4] == ["map_a", "map_a_tail", "map_b", "map_b_tail"]
    library = launcher_on_the_host(tmp_path, source, arch="sm_90a")
    (ctypes.c_int * 3).in_dll(library, "device_is")[:] = [9, 0, 132]
    for m, n in ((1, 1), (8, 192), (9, 193), (120, 384), (121, 385), (128, 191), (129, 8), (2**20 + 1, 2**10)):
        case = problem.case(m, n, 64)
        named = case.values | dict.fromkeys("ABC", 4096) | {"workspace": 0, "workspace_bytes": 0}
        values = [
            CTYPES.get(one.ctype, ctypes.c_void_p)(named[one.text]) for one in Interface(source, "sm_90").arguments
        ]
        made = (ctypes.c_ulonglong * 96)()
        assert library.cut_make_plan(made, *values) == 0
        for i, one in enumerate(source.launch.maps):
            tensor = one.of(case)
            wanted = [1, 4096, *tensor.sizes, *tensor.strides, *tensor.box]
            assert made[16 * i : 16 * i + len(wanted)] == wanted, one.parameter


@needs_gcc
def test_blocks_of_a_cluster_that_share_k_take_no_workspace(tmp_path: Path) -> None:
    problem = Problem(None, 200, 1024, types="bf16", layout="rc")
    config = WGMMA.default(problem).with_values(BM=64, BN=64, CONSUMERS=1, PERSISTENT=0, SPLIT=4)
    source = render(problem, WGMMA, config).renamed("split_k")
    library = launcher_on_the_host(tmp_path, source, arch="sm_90a")
    (ctypes.c_int * 3).in_dll(library, "device_is")[:] = [9, 0, 132]
    assert call(library, source, problem.case(70), 0) == 0
    launched = (ctypes.c_uint * 3).in_dll(library, "launched")
    assert launched[:] == [4 * 2 * 4, source.launch.threads, source.launch.shared_bytes]
    header = (tmp_path / "split_k.h").read_text()
    assert "takes none" in header and "share a tile" not in header


@needs_gcc
@pytest.mark.parametrize(("sms", "blocks"), [(132, 12), (5, 4)])  # the latter in 3 turns
def test_no_more_blocks_than_the_device_has_sms(
    mapped: ctypes.CDLL, kernel_of_maps: KernelSource, sms: int, blocks: int
) -> None:
    (device := (ctypes.c_int * 3).in_dll(mapped, "device_is"))[:] = [9, 0, sms]
    _, made = plan(mapped)
    assert mapped.k_run(made, None) == 0
    assert (ctypes.c_uint * 3).in_dll(mapped, "launched")[:] == [blocks, 384, kernel_of_maps.launch.shared_bytes]
    device[:] = [9, 0, 132]


@needs_gcc
@pytest.mark.parametrize(("sms", "blocks"), [(132, 24), (7, 6)])
def test_a_persistent_grid_is_whole_clusters(
    tmp_path: Path, kernel_of_maps: KernelSource, sms: int, blocks: int
) -> None:
    launch = replace(kernel_of_maps.launch, cluster=2, attributes=(DEPENDENT_LAUNCH,))
    source = replace(kernel_of_maps, text=f"{kernel_of_maps.text}// __cluster_dims__\n").promising(launch=launch)
    library = launcher_on_the_host(tmp_path, source, arch="sm_90a")
    (ctypes.c_int * 3).in_dll(library, "device_is")[:] = [9, 0, sms]
    status, made = plan(library)
    assert (status, library.k_run(made, None)) == (0, 0)
    assert (ctypes.c_uint * 4).in_dll(library, "launched")[:] == [blocks, 384, source.launch.shared_bytes, 1]


@needs_gcc
def test_a_plan_without_an_element_of_c_launches_nothing(mapped: ctypes.CDLL) -> None:
    status, made = plan(mapped, m=0, a=0)
    (launched := (ctypes.c_uint * 3).in_dll(mapped, "launched"))[:] = [7, 7, 7]
    assert (status, mapped.k_run(made, None), launched[:]) == (0, 0, [7, 7, 7])


@needs_gcc
def test_with_no_k_a_map_has_a_single_column(mapped: ctypes.CDLL) -> None:
    status, made = plan(mapped, k=0)
    assert (status, made[2], made[3]) == (0, 1, 300)


@needs_gcc
@pytest.mark.parametrize(
    ("changes", "error", "reason"),
    [
        ({"m": -1}, 1, "M = -1 is not in 0 to "),
        ({"lda": 96}, 1, "lda = 96 is less than 100"),
        ({"k": 0, "lda": 0}, 1, "lda = 0 is less than 1"),
        ({"ldb": 101}, 1, "ldb = 101 is no multiple of 8 elements"),
        ({"m": 2**31 - 2**16, "n": 2**31 - 2**16, "ldc": 2**31 - 2**16}, 9, "562915594207232 blocks are more than"),
        ({"a": 0}, 1, "A is null"),
        ({"c": 4104}, 716, "C = 0x1008 is no multiple of 16 bytes"),
        ({"device": [8, 9, 100]}, 209, "the device is an sm_89, and the kernel is for sm_90 alone"),
        ({"device": [10, 0, 100]}, 209, "the device is an sm_100, and the kernel is for sm_90 alone"),
    ],
)
def test_what_is_refused_says_why(mapped: ctypes.CDLL, changes: dict[str, Any], error: int, reason: str) -> None:
    device = (ctypes.c_int * 3).in_dll(mapped, "device_is")
    device[:] = changes.get("device", [9, 0, 132])
    changes = {name: value for name, value in changes.items() if name != "device"}
    status, made = plan(mapped, **changes)
    device[:] = [9, 0, 132]
    assert (status, made[:]) == (error, [0] * 64)
    assert mapped.k_refusal().decode().startswith(reason)
    assert plan(mapped)[0] == 0 and mapped.k_refusal() == b""


@needs_gcc
def test_the_map_of_an_operand_that_is_prepared_is_its_copy_s(tmp_path: Path, kernel_of_maps: KernelSource) -> None:
    launch = replace(kernel_of_maps.launch, prepares=(Prepare("A", "r"),))
    source = kernel_of_maps.promising(launch=launch)
    library = launcher_on_the_host(tmp_path, source, arch="sm_90a")
    library.k_workspace_bytes.restype = ctypes.c_size_t
    for m, k in ((300, 100), (7, 0)):
        case = source.problem.case(m, 200, k)
        made = (ctypes.c_ulonglong * 64)()
        sizes = (m, 200, k, max(8, 104 * (k > 0)), max(8, 104 * (k > 0)), 200)
        needed = library.k_workspace_bytes(m, 200, k)
        assert 0 <= needed - dict(launch.workspace(case).prepared)["prepared_a"] < ALIGN
        for a, status in ((4104, 716), (4096, 0)):
            pointers = (ctypes.c_void_p(at) for at in (a, 8192, 1 << 40))
            workspace = ctypes.c_void_p(1 << 20), ctypes.c_size_t(needed)
            assert library.k_make_plan(made, *pointers, *map(ctypes.c_int, sizes), *workspace) == status
        tensor = launch.maps[0].of(case, launch.prepares[0].matrix(case))
        assert made[1:7] == [1 << 20, *tensor.sizes, *tensor.strides, *tensor.box]
        launched = (ctypes.c_uint * 3).in_dll(library, "launched")
        launched[:] = [0, 0, 0]
        assert library.k_prepare_a(made, None) == 0
        assert launched[0] == source.program[0].launch.blocks(case)
        assert library.k_run(made, None) == 0 and launched[1] == 384


@needs_gcc
def test_plans_share_a_weight_that_is_packed_once(tmp_path: Path) -> None:
    """What is made of B, its sums too, lies apart from the workspace, which has as much less. No plan makes it."""
    epilogue = "zero_m+zero_n+scale_n+bias"
    problem = Problem(None, 200, None, types="u8,s8,s8", layout="rr", epilogue=epilogue, ldb=None, ld_align=8)
    source = render(problem, WGMMA, WGMMA.default(problem)).renamed("zp")
    library = launcher_on_the_host(tmp_path, source, arch="sm_90a")
    sizes = library.zp_packed_bytes, library.zp_workspace_bytes
    for size in sizes:
        size.restype = ctypes.c_size_t
    device = (ctypes.c_int * 3).in_dll(library, "device_is")
    device[:] = [9, 0, 132]
    launched = (ctypes.c_uint * 3).in_dll(library, "launched")
    packed, b = ctypes.c_void_p(1 << 20), ctypes.c_void_p(1 << 16)
    # 200 lines of 128 bytes, then 200 sums: each in whole multiples of 256 bytes.
    assert library.zp_packed_bytes(100) == 25600 + 1024
    assert library.zp_pack_b(b, 100, 208, packed, None) == 0 and launched[0] == 200 // 32 + 1
    for at, k, ldb, to, status in (
        (1 << 16, 100, 192, 1 << 20, 1),
        (1 << 16, 100, 204, 1 << 20, 1),
        (1 << 16, 100, 208, 0, 1),
        (1 << 16, 100, 208, 128, 716),
        (0, 100, 208, 1 << 20, 1),
        (1 << 16, -1, 208, 1 << 20, 1),
    ):
        assert library.zp_pack_b(ctypes.c_void_p(at), k, ldb, ctypes.c_void_p(to), None) == status
        assert library.zp_refusal() != b""
    for m in (7, 300):
        made = (ctypes.c_ulonglong * 96)()
        left = library.zp_workspace_bytes(m, 100) - library.zp_packed_bytes(100)
        others = (ctypes.c_void_p(1 << bit) for bit in range(30, 31 + len(problem.epilogue.operands)))  # C's first
        numbers = (m, 100, 104, ctypes.c_float(1), ctypes.c_float(0))
        arguments = made, ctypes.c_void_p(1 << 17), packed, *others, *numbers
        memory = ctypes.c_void_p(1 << 22)
        assert library.zp_make_packed_plan(*arguments, memory, ctypes.c_size_t(left - 1)) == 1
        assert library.zp_make_packed_plan(*arguments, memory, ctypes.c_size_t(left)) == 0
        map_a, map_a_tail, map_b = (made[first] for first in (1, 17, 33))
        assert map_a == map_a_tail == 1 << 22, "the copy of A begins the workspace"
        assert map_b == packed.value, "that of B lies apart"
        launched[:] = [0, 0, 0]
        assert library.zp_prepare_b(made, None) == 0 and launched[0] == 0
        assert library.zp_run(made, None) == 0 and launched[1] == 384


@needs_gcc
def test_a_plan_of_codes_reads_what_is_packed(tmp_path: Path) -> None:
    """In place of B, its scales and its zero points; each is checked where they are packed."""
    source = WGMMA_CODES
    library = launcher_on_the_host(tmp_path, source, arch="sm_90a")
    (ctypes.c_int * 3).in_dll(library, "device_is")[:] = [9, 0, 132]
    library.u4_packed_bytes.restype = library.u4_workspace_bytes.restype = ctypes.c_size_t
    library.u4_refusal.restype = ctypes.c_char_p
    case, pack = source.problem.case(300), source.launch.prepares[0]
    packed_bytes = library.u4_packed_bytes()
    assert library.u4_workspace_bytes(300) == packed_bytes == -(-pack.bytes(case) // ALIGN) * ALIGN
    launched = (ctypes.c_uint * 3).in_dll(library, "launched")
    given = {"B": 1 << 16, "scales_b": 1 << 17, "zeros_b": 1 << 18, "packed": 1 << 20}
    for name, at, status, reason in (
        ("B", 1 << 16, 0, ""),
        ("B", 0, 1, "B is null"),
        ("scales_b", 0, 1, "scales_b is null"),
        ("zeros_b", 8, 716, "zeros_b = 0x8 is no multiple of 16 bytes"),
        ("packed", 128, 716, "packed = 0x80 is no multiple of 256 bytes"),
    ):
        launched[:] = [0, 0, 0]
        assert library.u4_pack_b(*map(ctypes.c_void_p, (given | {name: at}).values()), None) == status
        assert library.u4_refusal().decode() == reason
        assert launched[0] == (source.program[0].launch.blocks(case) if status == 0 else 0)
    numbers = ctypes.c_int(300), ctypes.c_float(1), ctypes.c_float(0)
    a, packed, c = map(ctypes.c_void_p, (4096, 1 << 20, 1 << 40))
    made = (ctypes.c_ulonglong * 96)()
    assert library.u4_make_packed_plan(made, a, packed, c, *numbers, None, ctypes.c_size_t(0)) == 0
    (place, one), *_ = [(i, one) for i, one in enumerate(source.launch.maps) if one.operand == "B"]
    tensor = one.of(case, pack.matrix(case))
    wanted = [DATA_TYPES[tensor.element_bytes], 1 << 20, *tensor.sizes, *tensor.strides, *tensor.box, 0]
    assert made[16 * place : 16 * place + len(wanted)] == wanted
    launched[:] = [0, 0, 0]
    assert library.u4_prepare_b(made, None) == 0 and launched[0] == 0
    assert library.u4_run(made, None) == 0 and launched[1] == source.launch.threads
    assert call(library, source, case, packed_bytes) == 0 and call(library, source, case, packed_bytes - 1) == 1


def test_a_weight_that_is_read_where_it_lies_is_not_packed() -> None:
    """Sums of its columns alone stand for no operand."""
    problem = Problem(None, 256, 512, types="u8,s8,s8", layout="rc", epilogue="zero_a")
    interface = Interface(render(problem, WGMMA, WGMMA.default(problem)), "sm_90a")
    assert [part.name for part in interface.parts] == ["sums_b"] and interface.packed == ()


@needs_nvcc
@pytest.mark.parametrize(
    ("right", "wrong"), [("", ""), pytest.param("line >= lines ||", "line >= lines - 1 ||", marks=pytest.mark.soak)]
)
def test_selftest_of_a_program(program: Callable[..., KernelSource], tmp_path: Path, right: str, wrong: str) -> None:
    """Its copies are made by one entry point and used by another; one that lacks its last line is found."""
    source = program("rc", "bf16", batch=None, pointer_align=2)
    code, lines = outcome(exported_on_the_host(tmp_path, source, right, wrong))
    assert (code, lines[-1]) == ((1, "FAIL") if wrong else (0, "PASS  all")), lines
    assert not wrong or any("expected" in line for line in lines), lines


OPEN = Problem(None, None, None, types="bf16,u4,bf16", epilogue="acc", inputs="scales=128+zeros")
SIGNED = Problem(None, 40, 96, types="f16,s4,f16", layout="rc", epilogue="acc", inputs="scales=32+zeros")
HALVES = Problem(None, 72, 200, types="bf16,s4,f32", epilogue="acc", inputs="scales=64", ldb=None)
WHOLE = Problem(9, 70, None, types="f16,u4,f32", layout="rc", epilogue="acc", inputs="scales=K")
BYTES = Problem(None, 40, 96, types="bf16,s8,f32", layout="rc", epilogue="acc", inputs="scales=32+zeros")
EXPERTS_OF_CODES = Problem(None, 40, 96, types="bf16,u4,bf16", epilogue="acc", inputs="scales=64+zeros+groups=3")
ROWS_OF_BYTES = Problem(
    None, 40, 96, types="f16,s8,f16", layout="rc", epilogue="acc", inputs="scales=K+groups=5", stride_b=None
)
SCATTERED_CODES = Problem(None, 40, 96, types="bf16,u4,bf16", epilogue="acc", inputs="scales=64+groups=3+scattered")
MISTAKES = {  # in the launch that packs
    "the group": (OPEN, "first_k / 128", "first_k / 256"),
    "the sign": (SIGNED, "& 15) ^ 8", "& 15)"),
    "the half of a byte": (HALVES, "from % 2 ? 4 : 0", "from % 2 ? 0 : 4"),
    "the bytes of both words": (BYTES, "v < 4 ? words.x : words.y", "v < 4 ? words.y : words.x"),
    "the column": (WHOLE, "(0) * 70 + n", "(0) * 70 + n / 2"),
    "the group of rows, of codes": (
        EXPERTS_OF_CODES,
        "static_cast<long long>(group) * 3840",
        "static_cast<long long>(0) * 3840",
    ),
    "the group of rows, of scales": (EXPERTS_OF_CODES, "(group * ((96 + 63) / 64) + first_k / 64)", "(first_k / 64)"),
}


@needs_nvcc
@pytest.mark.parametrize(
    ("problem", "budget"),
    [
        (OPEN, None),
        (HALVES, 14),
        (BYTES, None),
        (EXPERTS_OF_CODES, None),
        *(
            pytest.param(one, None, marks=pytest.mark.soak)
            for one in (SIGNED, HALVES, WHOLE, ROWS_OF_BYTES, SCATTERED_CODES)
        ),
    ],
    ids=str,
)
def test_selftest_passes_kernels_of_codes(
    kernel_of_codes: Callable[[Problem], KernelSource], problem: Problem, budget: int | None, tmp_path: Path
) -> None:
    """With a budget it computes the reference of some rows, and A is sparse."""
    code, lines = outcome(exported_on_the_host(tmp_path, kernel_of_codes(problem), budget=budget))
    assert (code, lines[-1]) == (0, "PASS  all"), lines
    assert any("random" in line and " rows" in line for line in lines) == (budget is not None)


@needs_nvcc
@pytest.mark.parametrize(
    "mistake", ["the group", *(pytest.param(one, marks=pytest.mark.soak) for one in [*MISTAKES][1:])]
)
def test_selftest_finds_codes_that_are_packed_otherwise(
    kernel_of_codes: Callable[[Problem], KernelSource], mistake: str, tmp_path: Path
) -> None:
    problem, right, wrong = MISTAKES[mistake]
    code, lines = outcome(exported_on_the_host(tmp_path, kernel_of_codes(problem), right, wrong))
    assert (code, lines[-1]) == (1, "FAIL")
    assert any("expected" in line for line in lines), lines


def of_blocks(types: str, layout: str, inputs: str, *sizes: int | None) -> KernelSource:
    problem = Problem(*sizes, types=types, layout=layout, inputs=inputs)
    return render(problem, FAMILIES["naive"], FAMILIES["naive"].default(problem), "sm_90").renamed("gemm")


BLOCKS = of_blocks("e4m3,e4m3,bf16_promoted", "rc", "blocks", None, 200, 300)
LINES = of_blocks("e4m3,e5m2,f32", "cr", "blocks+lines+padded", None, None, None)
SCALED_EXPERTS = of_blocks("e4m3,e4m3,bf16_promoted", "rc", "groups=5+blocks", None, 200, 304)
SCATTERED_BLOCKS = of_blocks("e4m3,e4m3,bf16_promoted", "rc", "groups=5+blocks+scattered", None, 72, None)
SCALED_ROWS = of_blocks("e4m3,e4m3,f32", "rr", "groups=3+blocks+lines+padded", None, None, None)


@needs_nvcc
@pytest.mark.parametrize(
    "source",
    [
        BLOCKS,
        SCALED_EXPERTS,
        *(pytest.param(one, marks=pytest.mark.soak) for one in (LINES, SCALED_ROWS, SCATTERED_BLOCKS)),
    ],
    ids=str,
)
def test_selftest_passes_kernels_of_blocks(source: KernelSource, tmp_path: Path) -> None:
    code, lines = outcome(exported_on_the_host(tmp_path, source))
    assert (code, lines[-1]) == (0, "PASS  all"), lines


@needs_nvcc
@pytest.mark.soak
@pytest.mark.parametrize(
    ("source", "right", "wrong"),
    [
        (BLOCKS, "Offset(block / 128) * s.M + m", "m"),
        (BLOCKS, "Offset(n / 128) * ((s.K + 127) / 128) + block / 128", "block / 128"),
        (LINES, "* ((s.N + 3) / 4 * 4) + n", "* ((s.N + 3) / 4 * 4) + n / 128 * 128"),
        (SCALED_EXPERTS, "scales_b += static_cast<long long>(group)", "scales_b += static_cast<long long>(0)"),
        (SCALED_ROWS, "scales_b += static_cast<long long>(group)", "scales_b += static_cast<long long>(group / 2)"),
    ],
)
def test_selftest_finds_scales_of_other_blocks(source: KernelSource, right: str, wrong: str, tmp_path: Path) -> None:
    code, lines = outcome(exported_on_the_host(tmp_path, source, right, wrong))
    assert (code, lines[-1]) == (1, "FAIL")
    assert any("expected" in line for line in lines), lines


def of_groups(layout: str, inputs: str, *sizes: int | None, **fields: Any) -> KernelSource:
    problem = Problem(*sizes, layout=layout, inputs=inputs, **fields)
    return render(problem, FAMILIES["naive"], FAMILIES["naive"].default(problem), "sm_90").renamed("gemm")


ROWS = of_groups("rr", "groups=5", None, None, None)
EXPERTS = of_groups(
    "rc", "groups=3", None, 40, 96, types="bf16", epilogue="scale_b * silu(scale_n * acc) * (acc2 + bias_n2)"
)
SHORT = of_groups("rc", "groups=4", None, 24, 200, types="bf16")
MASKED = of_groups("rc", "groups=3+masked", None, None, None, types="bf16")
ALONG_K = of_groups("cr", "groups=4+along_k", None, None, None, types="bf16,bf16,f32")
INDEX = of_groups("rr", "gathered", None, None, None)
TOKENS = of_groups("rc", "groups=5+gathered", None, 40, 96, types="bf16", epilogue="swiglu")
PLACES = of_groups("rr", "scattered", None, None, None)
RETURNED = of_groups(
    "rc", "groups=5+gathered+scattered", None, 40, 96, types="bf16", epilogue="scale_m * acc + beta * C + residual"
)


@needs_nvcc
@pytest.mark.parametrize(
    ("source", "budget"),
    [
        *((ROWS, None), (EXPERTS, None), (ALONG_K, None), (TOKENS, None), (RETURNED, None)),
        *(pytest.param(one, None, marks=pytest.mark.soak) for one in (MASKED, INDEX, PLACES)),
        *(pytest.param(one, 12, marks=pytest.mark.soak) for one in (SHORT, ROWS, MASKED, ALONG_K, INDEX, PLACES)),
    ],
    ids=[
        *(
            "any sizes",
            "gated",
            "along K",
            "gathered, gated",
            "gathered and scattered",
            "masked",
            "gathered",
            "scattered",
        ),
        *("some rows", "some rows of any sizes", "some rows of masked groups", "some rows along K"),
        *("some gathered", "some scattered"),
    ],
)
def test_selftest_passes_kernels_of_groups(source: KernelSource, budget: int | None, tmp_path: Path) -> None:
    code, lines = outcome(exported_on_the_host(tmp_path, source, budget=budget))
    assert (code, lines[-1]) == (0, "PASS  all"), lines
    assert any(" rows" in line for line in lines) == (budget is not None)


@needs_nvcc
@pytest.mark.parametrize(
    ("source", "right", "wrong", "symptom"),
    [
        (ROWS, "m >= offs[group]", "m > offs[group]", "expected"),
        *(
            pytest.param(*one, marks=pytest.mark.soak)
            for one in (
                (ROWS, "if (group == 5) return;", "if (group == 5) group = 4;", "wrote outside C"),
                (ROWS, "B += group * s.stride_b", "B += (group + 1) % 5 * s.stride_b", "expected"),
                (EXPERTS, "B += group * s.stride_b", "B += group * s.stride_b / 2", "expected"),
                (EXPERTS, "group < 3 &&", "group < 2 &&", ""),
                (MASKED, "m >= group_rows[matrix]", "m > group_rows[matrix]", "wrote outside C"),
                (MASKED, "m >= group_rows[matrix]", "m >= group_rows[0]", ""),
                (ALONG_K, "end = offs[matrix]", "end = offs[3]", "expected"),
                (ALONG_K, "matrix > 0 ? offs[matrix - 1] : 0", "0", "expected"),
                (EXPERTS, "scale_n += static_cast<long long>(group) * s.N;", "", "expected"),
                (EXPERTS, "scale_b += group;", "", "expected"),
                (INDEX, "row_a = index_a[m]", "row_a = m", "expected"),
                (TOKENS, "row_a = index_a[m]", "row_a = index_a[m / 2 * 2]", "expected"),
                (PLACES, "Offset(index_c[m])", "Offset(m)", "expected"),
                (PLACES, "Offset(index_c[m])", "Offset(index_c[m / 2 * 2])", "expected"),
                (PLACES, "*to = ", "C[Offset(index_c[m] ^ 1) * s.ldc + n] = *to = ", "wrote outside C"),
                (RETURNED, "Offset(index_c[m])", "Offset(index_a[m])", "expected"),
                (RETURNED, "epilogue(e, s, m,", "epilogue(e, s, index_c[m],", "expected"),
                (RETURNED, "if (group == 5) return;", "if (group == 5) group = 4;", "wrote outside C"),
            )
        ),
    ],
)
def test_selftest_finds_rows_of_other_groups(
    source: KernelSource, right: str, wrong: str, symptom: str, tmp_path: Path
) -> None:
    code, lines = outcome(exported_on_the_host(tmp_path, source, right, wrong))
    assert (code, lines[-1]) == (1, "FAIL")
    assert any(symptom in line for line in lines), lines


@needs_gcc
@pytest.mark.parametrize(
    ("inputs", "axes"),
    [
        *(("groups=40", {}), ("groups=40", {"CLUSTER": 2, "ACROSS": 1}), ("groups=40+masked", {})),
        pytest.param("groups=40+gathered", {}, marks=pytest.mark.soak),
    ],
    ids=["blocks", "clusters", "masked", "gathered"],
)
def test_groups_have_as_many_blocks_as_the_launch_counts(inputs: str, axes: dict[str, int], tmp_path: Path) -> None:
    problem = Problem(None, 520, 128, "bf16", layout="rc", ld_align=8, inputs=inputs)
    config = WGMMA.default(problem).with_values(BM=128, BN=256, **axes)
    source = render(problem, WGMMA, config, "sm_90a").renamed("gemm")
    library = launcher_on_the_host(tmp_path, source, arch="sm_90a")
    for sms in (132, 1000):
        (ctypes.c_int * 3).in_dll(library, "device_is")[:] = [9, 0, sms]
        for m in SOME_SIZES:
            case, launch = problem.case(m=m), source.launch
            assert call(library, source, case, 0) == 0
            launched = (ctypes.c_uint * 3).in_dll(library, "launched")[:]
            assert launched == [launch.resident(launch.blocks(case), sms), launch.threads, launch.shared_bytes]
    header = (tmp_path / "gemm.h").read_text()
    if problem.inputs.masked:
        assert "product g has group_rows[g] rows" in header
        return
    assert "for each of 40 groups of rows, each with its own B" in header
    assert "rows of C behind the last group stay as they are" in header
    assert ("index_a   names rows that A has, which is not checked;" in header) == problem.inputs.gathered


CONV: dict[str, Any] = {"pad": (1, 0, 2, 1), "stride": (2, 1), "dilation": (1, 2)}


def of_images(images: int | None, family: str = "naive", filters: int = 7, **fields: Any) -> KernelSource:
    problem = Conv(images, (5, 6, 3 if family == "naive" else 16), filters, (3, 2), **CONV, **fields)
    return render(problem, FAMILIES[family], FAMILIES[family].default(problem), "sm_90").renamed("conv")


ANY = of_images(None, dtype="f32", lda=None, pointer_align=4)
GRADIENT = {"types": "bf16,bf16,f32", "inputs": "im2col=5x6x3_3x2_p1x0x2x1_s2x1_d1x2+wgrad"}
FILTERS = kernel("?x18x?", "cr", "naive", GRADIENT).renamed("conv")
FOUR = of_images(4, dtype="f32", pointer_align=4, epilogue="relu(acc + bias_n) + residual")


@needs_nvcc
@pytest.mark.parametrize(
    ("source", "budget"),
    [
        *((ANY, None), (FILTERS, None), pytest.param(FOUR, None, marks=pytest.mark.soak)),
        *(pytest.param(one, 12, marks=pytest.mark.soak) for one in (ANY, FILTERS)),
    ],
    ids=["any images", "gradient of filters", "four images", "some places", "some filters"],
)
def test_selftest_passes_kernels_of_images(source: KernelSource, budget: int | None, tmp_path: Path) -> None:
    code, lines = outcome(exported_on_the_host(tmp_path, source, budget=budget))
    assert (code, lines[-1]) == (0, "PASS  all"), lines


@needs_nvcc
@pytest.mark.soak
@pytest.mark.parametrize(
    ("source", "right", "wrong"),
    [
        (ANY, "x >= 0 && x < W", "x >= 0"),  # the next row's first pixel
        (ANY, "tap % S * DILATION_W", "tap % S"),
        (ANY, "tap / S", "tap % S"),
        (ANY, "image = m / (P * Q)", "image = (m + 1) / (P * Q)"),
        (FILTERS, "image = k / (P * Q)", "image = (k + 1) / (P * Q)"),
        (FILTERS, "channel = n % CHANNELS", "channel = n % 2"),
    ],
    ids=["padding", "dilation", "tap", "image", "image of a gradient", "channel"],
)
def test_selftest_finds_pixels_of_another_place(source: KernelSource, right: str, wrong: str, tmp_path: Path) -> None:
    code, lines = outcome(exported_on_the_host(tmp_path, source, right, wrong))
    assert (code, lines[-1]) == (1, "FAIL")
    assert any("expected" in line for line in lines), lines


def require_walk(folder: Path, source: KernelSource, place: int, cases: Sequence[Case]) -> str:
    """The header, where the plan of each case has the tensor map of images in this place; they lie at 4096."""
    library = launcher_on_the_host(folder, source, arch="sm_90a")
    library.conv_refusal.restype = ctypes.c_char_p
    (ctypes.c_int * 3).in_dll(library, "device_is")[:] = [9, 0, 132]
    for case in cases:
        named = case.values | dict.fromkeys("ABC", 4096) | {"workspace": 0, "workspace_bytes": 0}
        values = [
            CTYPES.get(one.ctype, ctypes.c_void_p)(named[one.text]) for one in Interface(source, "sm_90a").arguments
        ]
        made = (ctypes.c_ulonglong * 64)()
        assert library.conv_make_plan(made, *values) == 0, library.conv_refusal()
        tensor = source.launch.maps[place].of(case)
        across, down = tensor.steps
        last = across | down << 8 | SWIZZLES.index(tensor.swizzle) << 16 | PROMOTIONS.index(tensor.promotion) << 24
        corners = [one % 2**64 for one in tensor.corners]
        wanted = [1, 4096, *tensor.sizes, *tensor.strides, *tensor.box[:2], *corners, last]
        assert made[16 * place : 16 * place + 16] == wanted
    return (folder / "conv.h").read_text()


@needs_gcc
def test_a_plan_has_the_walk_over_images(tmp_path: Path) -> None:
    source = of_images(None, "wgmma", 64, lda=None, ld_align=8)
    cases = [source.problem.case(m, lda=24) for m in (1, 15, 16)]  # 15 places in an image
    header = require_walk(tmp_path, source, 0, cases)
    assert (
        "A holds ceil(M / 15) images of H x W = 5 x 6; row m of C is output pixel (image, p, q) of P x Q = 3 x 5"
        in header
    )
    assert re.search(r"lda +at least 16, and divisible by 8", header)


@needs_gcc
def test_a_plan_of_a_gradient_of_filters_has_the_walk_over_images(tmp_path: Path) -> None:
    """B holds them, and with K = 0 their map has one."""
    problem = {**GRADIENT, "inputs": "im2col=5x6x16_3x2_p1x0x2x1_s2x1_d1x2+wgrad", "ldb": None, "ld_align": 8}
    source = kernel("64x96x?", "cr", "wgmma", problem).renamed("conv")
    header = require_walk(tmp_path, source, 1, [source.problem.case(k=k, ldb=24) for k in (0, 1, 15, 16)])
    assert (
        "B holds ceil(K / 15) images of H x W = 5 x 6; K is output pixel (image, p, q) of P x Q = 3 x 5; column n"
        in header
    )
    assert "the last image is whole and finite even if K ends within it" in header
    assert re.search(r"ldb +at least 16, and divisible by 8", header)


@needs_nvcc
@pytest.mark.soak
@pytest.mark.parametrize("gradient", [False, True])
def test_a_kernel_of_images_is_built_without_warnings(gradient: bool, tmp_path: Path) -> None:
    source = of_images(None, "wgmma", 64)
    if gradient:
        problem = {**GRADIENT, "inputs": f"im2col={source.problem.inputs.conv}+wgrad"}
        source = kernel("64x96x?", "cr", "wgmma", problem).renamed("conv")
    export(source, {**RECORD, "arch": "sm_90a"}, tmp_path)
    run("nvcc", *NVCC_FLAGS, *SM_90A, "conv.cu", "conv_selftest.cu", "-o", "selftest", folder=tmp_path)


@needs_nvcc
@pytest.mark.soak
@pytest.mark.parametrize(
    ("layout", "inputs"),
    [
        *(("rc", "groups=40"), ("rc", "groups=40+masked"), ("cr", "groups=40+along_k")),
        *(
            ("rc", "groups=40+gathered"),
            ("rr", "gathered"),
            ("rc", "groups=40+gathered+scattered"),
            ("rr", "scattered"),
        ),
    ],
)
def test_a_kernel_of_groups_is_built_without_warnings(layout: str, inputs: str, tmp_path: Path) -> None:
    problem = Problem(None, 136, 128, "bf16", layout=layout, ld_align=8, inputs=inputs)
    source = render(problem, WGMMA, WGMMA.default(problem), "sm_90a").renamed("gemm")
    export(source, {**RECORD, "arch": "sm_90a"}, tmp_path)
    run("nvcc", *NVCC_FLAGS, *SM_90A, "gemm.cu", "gemm_selftest.cu", "-o", "selftest", folder=tmp_path)


@needs_nvcc
def test_a_kernel_of_one_architecture_is_built_for_no_other(tmp_path: Path, kernel_of_maps: KernelSource) -> None:
    """And without a warning; its launcher links with CUDA's runtime alone and answers where there is no GPU."""
    export(kernel_of_maps, {**RECORD, "arch": "sm_90a"}, tmp_path)
    nvcc = "nvcc", "-arch=sm_90", "-c", "k.cu"
    other = subprocess.run(nvcc, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert other.returncode != 0 and "k needs sm_90a: compile it with -gencode" in other.stderr
    run("nvcc", *NVCC_FLAGS, *SM_90A, "k.cu", "k_selftest.cu", "-o", "selftest", folder=tmp_path)
    output = subprocess.run([tmp_path / "selftest"], capture_output=True, text=True, check=False).stdout
    answers = [line for line in output.splitlines() if "cudaSuccess" in line or "cudaError" in line]
    assert len(answers) == 17
    assert all(line.startswith("PASS") for line in answers), output


CTYPES = {
    "int": ctypes.c_int,
    "ptrdiff_t": ctypes.c_ssize_t,
    "size_t": ctypes.c_size_t,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}
RUNTIME = """
#define __CUDACC__
#include <cuda_runtime.h>
unsigned launched[4];
"""
STRUCTS = """
struct alignas(64) TensorMap {
    unsigned long long opaque[16];
};
struct BF16 {
    unsigned short bits;
};
"""


def launcher_on_the_host(folder: Path, source: KernelSource, arch: str = "sm_90") -> ctypes.CDLL:
    """The exported launcher without its kernel: what it would launch is left in `launched`."""
    export(source, {**RECORD, "arch": arch}, folder)
    exported = (folder / f"{source.name}.cu").read_text()
    (folder / "cuda_bf16.h").write_text("struct __nv_bfloat16 { unsigned short bits; };\n")
    kernels = "".join(f"void {one.name}() {{}}\n" for one in source.program)
    (folder / "launcher.cpp").write_text(RUNTIME + exported.replace(source.text, STRUCTS + kernels))
    flags = ("-std=c++17", "-shared", "-fPIC", "-I.", f"-I{HOST_CUDA}")
    parts = (HOST_KERNEL / "runtime.cpp", HOST_KERNEL / "driver.cpp")
    run("g++", *flags, "launcher.cpp", *parts, "-o", "launcher.so", folder=folder)
    return ctypes.CDLL(str(folder / "launcher.so"))


@needs_gcc
@pytest.mark.parametrize("source", [FREE, SPLIT, STREAM, QUANTISED], ids=["plain", "workspace", "stream", "integers"])
@pytest.mark.parametrize("compiler", [("gcc", "-std=c99"), ("g++", "-std=c++11")], ids=["C", "C++"])
def test_header_is_c_and_cpp(tmp_path: Path, compiler: Sequence[str], source: KernelSource) -> None:
    takes_header(tmp_path, compiler, source)


def takes_header(folder: Path, compiler: Sequence[str], source: KernelSource) -> None:
    export(source, RECORD, folder)
    (folder / "user.c").write_text(
        f'#include "{source.name}.h"\n#include "{source.name}.h"\nint main(void) {{ return 0; }}\n'
    )
    (folder / "cuda_bf16.h").write_text("struct __nv_bfloat16 { unsigned short bits; };\n")
    run(*compiler, *WARNINGS, "-pedantic", "-I.", f"-I{HOST_CUDA}", "-fsyntax-only", "user.c", folder=folder)


@needs_gcc
@pytest.mark.parametrize("compiler", [("gcc", "-std=c99"), ("g++", "-std=c++11")], ids=["C", "C++"])
def test_header_of_a_plan_is_c_and_cpp(
    tmp_path: Path, compiler: Sequence[str], program: Callable[..., KernelSource], kernel_of_maps: KernelSource
) -> None:
    for source in (kernel_of_maps, program("rr", "bf16"), WGMMA_CODES):
        takes_header(tmp_path / source.problem.types.b.label / source.problem.layout.b, compiler, source)


@needs_gcc
def test_c_knows_pointers_to_types_of_cpp(tmp_path: Path) -> None:
    """CUDA defines __nv_bfloat16 for C++ alone."""
    source = kernel(*CONVERTED["bf16"])
    export(source, RECORD, tmp_path)
    (tmp_path / "user.c").write_text(
        f'#include "{source.name}.h"\nint main(void) {{ __nv_bfloat16* c = 0; return c != 0; }}\n'
    )
    run("gcc", "-std=c99", *WARNINGS, "-pedantic", f"-I{HOST_CUDA}", "-fsyntax-only", "user.c", folder=tmp_path)


# The self-test, on the host: against a right kernel and against seeded bugs


@pytest.fixture(scope="module")
def selftest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FREE's self-test, linked with a launcher that computes on the host."""
    return build_for_host(tmp_path_factory.mktemp("selftest"))


@pytest.fixture(scope="module")
def sampling_selftest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a budget that lets it check few rows in full, as it does for a large fixed shape."""
    with budget_of(16):
        return build_for_host(tmp_path_factory.mktemp("sampling"))


@pytest.fixture(scope="module")
def batch_selftest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """BATCH's, likewise."""
    return build_for_host(tmp_path_factory.mktemp("batch"), BATCH, "-DBATCHED")


@pytest.fixture(scope="module")
def pointers_selftest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """POINTERS', likewise."""
    return build_for_host(tmp_path_factory.mktemp("pointers"), POINTERS, "-DPOINTERS")


@pytest.fixture(scope="module")
def split_selftest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SPLIT's, likewise."""
    return build_for_host(tmp_path_factory.mktemp("split"), SPLIT, "-DWORKSPACE")


@pytest.fixture(scope="module")
def epilogue_selftest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """EPILOGUE's, likewise."""
    return build_for_host(tmp_path_factory.mktemp("epilogue"), EPILOGUE, "-DEPILOGUE")


@contextmanager
def budget_of(bits: int | None) -> Iterator[None]:
    """Exports whose self-tests compute 2^bits multiply-adds a check at most; None: as usual."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("BUDGET_BITS", "CONVERTED_BUDGET_BITS") if bits is not None else ():
            patch.setattr(f"gemmgen.exports.selftest.{name}", bits)
        yield


def build_for_host(folder: Path, source: KernelSource = FREE, *flags: str) -> Path:
    export(source, RECORD, folder)
    shutil.copy(folder / f"{source.name}_selftest.cu", folder / "selftest.cpp")
    defines = (f'-DKERNEL_HEADER="{source.name}.h"', f"-DKERNEL={source.name}")
    flags = ("-std=c++17", "-O1", *WARNINGS, *defines, *flags, "-I.", f"-I{HOST_CUDA}")
    run(
        "g++",
        *flags,
        "selftest.cpp",
        HOST_CUDA / "launcher.cpp",
        HOST_KERNEL / "runtime.cpp",
        "-o",
        "selftest",
        folder=folder,
    )
    return folder / "selftest"


def outcome(program: Path, bug: str = "") -> tuple[int, list[str]]:
    environment = {**os.environ, "BUG": bug}
    result = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=600, check=False)
    return result.returncode, result.stdout.splitlines()


@needs_gcc
def test_selftest_passes_a_right_kernel(selftest: Path) -> None:
    code, lines = outcome(selftest)
    assert code == 0
    assert all(line.startswith("PASS") for line in lines)
    assert lines[-1] == "PASS  all"


@needs_gcc
@pytest.mark.parametrize(
    ("bug", "symptom"),
    [
        ("takes misaligned pointers", "A misaligned"),
        ("never writes", "nan, expected"),
        ("reads C with beta = 0", "nan, expected"),
        ("misses the last product", "exact alpha=1 beta=0: C[0]["),
        ("computes in tf32", "random alpha=1 beta=0: C["),
        ("reads past a line of A", "nan, expected"),
        ("one element off", "exact alpha=1 beta=0: C[64][127]"),
        ("writes past the last line", "wrote outside C"),
        ("writes before C", "wrote outside C, -1 elements"),
    ],
)
def test_selftest_finds(selftest: Path, bug: str, symptom: str) -> None:
    code, lines = outcome(selftest, bug)
    assert code == 1
    assert any(line.startswith("FAIL") and symptom in line for line in lines), lines
    assert lines[-1] == "FAIL"


@needs_gcc
def test_selftest_passes_a_right_batch(batch_selftest: Path) -> None:
    code, lines = outcome(batch_selftest)
    assert code == 0, lines
    assert any("stride_c = 0" in line for line in lines) and any(" batch=5 " in line for line in lines)


@needs_gcc
@pytest.mark.parametrize(
    ("bug", "symptom"),
    [
        ("B's stride is A's", "product 1: C[0][0]"),
        ("C's stride is dense", "nan, expected"),
        ("misses the last product of the batch", "product 4: C[0][0] = nan"),
    ],
)
def test_selftest_finds_in_a_batch(batch_selftest: Path, bug: str, symptom: str) -> None:
    code, lines = outcome(batch_selftest, bug)
    assert code == 1
    assert any(line.startswith("FAIL") and symptom in line for line in lines), lines


@needs_gcc
def test_selftest_passes_a_right_batch_of_pointers(pointers_selftest: Path) -> None:
    code, lines = outcome(pointers_selftest)
    assert code == 0, lines
    assert any("A_array misaligned: cudaErrorMisalignedAddress" in line for line in lines)
    assert any(" batch=5 " in line for line in lines)


@needs_gcc
@pytest.mark.parametrize(
    ("bug", "symptom"),
    [
        ("takes A of the next product", "product 0: C[0][0]"),
        ("takes matrices B for dense", "product 0: C[0][0]"),
        ("takes matrices C for dense", "nan, expected"),
        ("misses the last product of the batch", "product 4: C[0][0] = nan"),
        ("writes past the last line", "wrote outside C"),
    ],
)
def test_selftest_finds_in_a_batch_of_pointers(pointers_selftest: Path, bug: str, symptom: str) -> None:
    code, lines = outcome(pointers_selftest, bug)
    assert code == 1
    assert any(line.startswith("FAIL") and symptom in line for line in lines), lines


@needs_gcc
def test_selftest_passes_a_right_epilogue(epilogue_selftest: Path) -> None:
    code, lines = outcome(epilogue_selftest)
    assert (code, lines[-1]) == (0, "PASS  all"), lines
    assert any("misaligned: cudaErrorMisalignedAddress" in line and "residual" in line for line in lines)


@needs_gcc
@pytest.mark.parametrize("bug", ["the bias by row", "gelu by tanh", "a dense residual"])
def test_selftest_finds_in_an_epilogue(epilogue_selftest: Path, bug: str) -> None:
    code, lines = outcome(epilogue_selftest, bug)
    assert code == 1
    assert any(line.startswith("FAIL") and ": C[" in line for line in lines), lines


@needs_gcc
def test_selftest_passes_what_sets_up_its_workspace(split_selftest: Path) -> None:
    code, lines = outcome(split_selftest)
    assert (code, lines[-1]) == (0, "PASS  all")
    assert any("workspace too small: cudaErrorInvalidValue" in line for line in lines)


@needs_gcc
@pytest.mark.parametrize("bug", ["takes the workspace for zeros", "leaves a semaphore"])
def test_selftest_finds_in_a_workspace(split_selftest: Path, bug: str) -> None:
    code, lines = outcome(split_selftest, bug)
    assert code == 1 and lines[-1].startswith("FAIL"), lines


@needs_gcc
def test_sampling_selftest_says_so_and_passes(sampling_selftest: Path) -> None:
    code, lines = outcome(sampling_selftest)
    assert code == 0
    assert any("rows in full, all rows by their weighted sums" in line for line in lines)
    assert any(line.startswith("PASS  256x256x64") and "random" in line and " of 256 rows" in line for line in lines)


@needs_gcc
def test_sampling_selftest_finds_one_element_off(sampling_selftest: Path) -> None:
    code, lines = outcome(sampling_selftest, "one element off")
    assert code == 1
    assert any(line.startswith("FAIL  256x256x64") and "exact" in line and "C[128][128]" in line for line in lines)


# The same, against exported kernels themselves: launcher and self-test as they are, with CUDA's own types


ON_HOST = ("-std=c++17", "-O1", "-cudart", "none", "-I.", f"-I{HOST_KERNEL}")
# Functions that host_kernel has for a host.
INLINE_PTX = re.compile(
    r"^__device__ .*(?:\n\{\n(?:[^}].*\n)*?)?.* asm(?: volatile)?\((?:.* \}\n|.*\n(?:[^}].*\n|\n)*\}\n)", re.MULTILINE
)


def exported_on_the_host(
    folder: Path, source: KernelSource, right: str = "", wrong: str = "", budget: int | None = None
) -> Path:
    """The self-test of a kernel of the family naive that runs on the host, with `wrong` in the place of `right`."""
    with budget_of(budget):
        export(source, RECORD, folder)
    exported = (folder / f"{source.name}.cu").read_text()
    direct = r"return started\(cudaLaunchKernelEx\(&config, ([\w:]+),([^;]*)\)\);"
    here = r"run_threads(config.gridDim.x, config.blockDim.x, [&] { \1(\2); }); return cudaSuccess;"
    shared = rf"return start\(((?:\w+::)?{source.name}\w*), (\w+), (\d+), (?:\w+, )*?stream, ([^;]*)\);"  # several
    called, count = re.subn(shared, r"run_threads(\2, \3, [&] { \1(\4); }); return cudaSuccess;", exported)
    if not count:
        called, count = re.subn(direct, here, exported)
    packs = source.launch.prepared("B") is not None  # by an entry point of its own, too
    assert count == len(source.program) + packs and right in source.text
    kernel = source.text.replace(right, wrong) if right else source.text
    kernel = INLINE_PTX.sub("", kernel)
    (folder / "kernel.cpp").write_text(
        f'#include "{source.name}.h"\n#include "kernel.hpp"\n#define __CUDACC__\n{called.replace(source.text, kernel)}'
    )
    shutil.copy(folder / f"{source.name}_selftest.cu", folder / "selftest.cpp")
    run("nvcc", *ON_HOST, "kernel.cpp", "selftest.cpp", HOST_KERNEL / "runtime.cpp", "-o", "selftest", folder=folder)
    return folder / "selftest"


@needs_nvcc
@pytest.mark.parametrize(
    "name",
    [name if name == "s8 requantised" else pytest.param(name, marks=pytest.mark.soak) for name in CONVERTED],
)
def test_selftest_passes_kernels_of_all_types(name: str, tmp_path: Path) -> None:
    code, lines = outcome(exported_on_the_host(tmp_path, kernel(*CONVERTED[name])))
    assert (code, lines[-1]) == (0, "PASS  all"), lines


@needs_nvcc
@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "right", "wrong", "symptom"),
    [
        ("bf16", "beta == 0.0f ? ", "false ? ", "nan, expected"),
        ("bf16", "alpha * acc)", "1.004f * alpha * acc)", "random"),
        ("f16 by pointers", "C_array[matrix]", "C_array[0]", "product 1: C[0][0] = nan"),
        ("fp8", "alpha * acc)", "1.06f * alpha * acc)", "exact"),
        ("s8 to s32", "-100", "-99", "expected"),
        ("s8 to s32", "zero_m = e.zero_m[m]", "zero_m = e.zero_m[0]", "expected"),
        ("s8 requantised", "__float2int_rn(value)", "static_cast<int>(value)", "random"),
        ("s8 requantised", "zero_n = e.zero_n[n]", "zero_n = e.zero_n[0]", "expected"),
        ("s8 requantised", "k < s.K; ++k", "k < s.K - 1; ++k", "expected"),
        ("s8 with sums", "sum_n = e.sum_n[n]", "sum_n = e.sum_n[n] + 1", "expected"),
        ("gated", "s.ldb + s.N + n", "s.ldb + n", "exact"),
        ("lstm", "2 * s.N + n", "s.N + n", "aux[0][0]"),
        ("lstm", "3 * s.N + n", "2 * s.N + n", "C[0][0]"),
        ("aux", "e.aux[Offset(m) * s.ldc + n] = aux_value;", "", "aux[0][0] = nan, expected"),
        ("aux", "e.aux[Offset(m) * s.ldc + n]", "e.aux[Offset(m) * s.N + n]", "aux["),
        ("aux", "aux += matrix * s.stride_c", "aux += 0 * s.stride_c", "product 1: aux[0][0] = nan"),
        ("amax", "e.row_amax + m", "e.row_amax + m / 2 * 2", "row_amax[0][0]"),
        ("amax", "raise_amax(e.column_amax", "if (m % 2) raise_amax(e.column_amax", "column_amax[0][0]"),
        ("amax", "static_cast<long long>(matrix) * s.N", "0", "column_amax[0][0]"),
        (
            "amax by pointers",
            "raise_amax(e.row_amax",
            "if (m == s.M - 1 && matrix == 4) raise_amax(e.row_amax + m + 1, row_amax_value); raise_amax(e.row_amax",
            "wrote outside row_amax",
        ),
        ("f64 aux", "+ n] = aux_value;", "+ n] = aux_value * (1 + 4e-15);", "aux["),
    ],
)
def test_selftest_finds_in_kernels_of_all_types(
    name: str, right: str, wrong: str, symptom: str, tmp_path: Path
) -> None:
    code, lines = outcome(exported_on_the_host(tmp_path, kernel(*CONVERTED[name]), right, wrong))
    assert code == 1
    assert any(line.startswith("FAIL") and symptom in line for line in lines), lines


@needs_nvcc
@pytest.mark.soak
def test_sparse_data_lets_every_element_of_a_large_c_be_checked(tmp_path: Path) -> None:
    """A C that is rounded has no weighted sums; a budget of few multiply-adds stands for a large shape."""
    source = kernel("200x300x500", "rc", "naive", {"types": "u8,s8,bf16", "epilogue": "zero_a+scale_n"})
    right = exported_on_the_host(tmp_path / "right", source, budget=20)
    code, lines = outcome(right)
    assert code == 0 and any("exact" in line and line.endswith(": every element") for line in lines), lines
    assert any("random" in line and line.endswith(" of 200 rows") for line in lines), lines
    at, out_of = "if (m >= s.M || n >= s.N) return;", "if (m >= s.M || n >= s.N || (m == 77 && n == 99)) return;"
    code, lines = outcome(exported_on_the_host(tmp_path / "wrong", source, at, out_of, budget=20))
    assert code == 1 and any("exact" in line and ": C[77][99] = " in line for line in lines), lines


@needs_nvcc
@pytest.mark.soak
def test_weighted_sums_are_those_of_scattered_rows(tmp_path: Path) -> None:
    """The sums find a wrong element of a row that is not compared with a reference."""
    source = of_groups("rr", "scattered", 200, 300, 500)
    code, lines = outcome(exported_on_the_host(tmp_path / "right", source, budget=20))
    assert code == 0 and any("all rows by their weighted sums" in line for line in lines), lines
    at, out_of = "if (m >= s.M || n >= s.N) return;", "if (m >= s.M || n >= s.N || (m == 77 && n == 99)) return;"
    code, lines = outcome(exported_on_the_host(tmp_path / "wrong", source, at, out_of, budget=20))
    assert code == 1 and any("exact" in line and "][99] = " in line for line in lines), lines
