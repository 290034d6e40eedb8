"""Libraries and exports beside each other: in one program, in one CMake project, and for architectures of which they
serve some."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builds import built, run

import gemmgen
from gemmgen.exports.folder import export, kernel_texts, require_exportable
from gemmgen.exports.kernelfile import read_kernel
from gemmgen.exports.library.choices_json import choices_from
from gemmgen.exports.library.spec import Spec, spec_from
from gemmgen.families import FAMILIES, NAIVE
from gemmgen.kernel.conditionals import code_and_others
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.render.naming import require_identifier
from gemmgen.support.errors import InvalidInput

RECORD: dict[str, Any] = {"arch": "sm_80", "verification": None, "timing": None}
NVCC = ("nvcc", "-std=c++17", "-Xcompiler", "-Wall,-Wextra", "-Werror", "all-warnings", "-t0")
LINEAR = {"name": "linear", "types": "bf16", "layout": "rc", "M": "1..64", "N": "?", "K": "?"}

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
needs_cmake = pytest.mark.skipif(
    not (shutil.which("nvcc") and shutil.which("cmake")), reason="nvcc or cmake is not on the PATH"
)


def spec_of(folder: Path, name: str, *architectures: str, **fields: Any) -> Spec:
    document = {"name": name, "architectures": [*architectures], "product": [{**LINEAR, **fields}]}
    return spec_from(document, "sm_90", folder)


def write_kernel(folder: Path) -> KernelSource:
    """A kernel that needs an sm_80, as a file to make libraries of."""
    general = spec_of(folder, "plain", "sm_80").products[0].general
    source = render(general, NAIVE, NAIVE.default(general), "sm_80")
    (folder / f"{source.name}.cu").write_text(source.text)
    return source


def make(folder: Path, name: str, *architectures: str, kernels: list[str]) -> Spec:
    """A library of this name in a folder of its name."""
    spec = spec_of(folder, name, *architectures, kernels=kernels)
    gemmgen.library(spec, to=folder / name, device="emulator", examples=0, points=8)
    return spec


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, KernelSource]:
    """A folder with the libraries `first` and `second`, which share a kernel, and `exported`: that kernel."""
    folder = tmp_path_factory.mktemp("beside")
    source = write_kernel(folder)
    for name in ("first", "second"):
        make(folder, name, "sm_80", kernels=[f"{source.name}.cu"])
    export(source, RECORD, folder / "exported")
    return folder, source


CALLS = """#include "first.h"
#include "second.h"
#include "KERNEL.h"

int main(void)
{
    static first_args one;
    static second_args other;
    one.M = other.M = -1;
    return first_gemm(&one, 0, 0, 0) == cudaErrorInvalidValue && second_gemm(&other, 0, 0, 0) == cudaErrorInvalidValue
            && KERNEL_run(0, 0) == cudaErrorInvalidValue
        ? 0
        : 1;
}
"""


@pytest.mark.soak
@needs_nvcc
def test_two_libraries_and_an_export_of_their_kernel_are_one_program(beside: tuple[Path, KernelSource]) -> None:
    """Without a GPU: it is linked, and all three refuse a call."""
    folder, source = beside
    (folder / "main.cpp").write_text(CALLS.replace("KERNEL", source.name))
    libraries = [path for name in ("first", "second") for path in folder.glob(f"{name}/*.cu")]
    kernels = [path for path in libraries if not path.name.endswith("_selftest.cu")]
    sources = [*kernels, folder / "exported" / f"{source.name}.cu", folder / "main.cpp"]
    assert len(sources) == 6
    search = [f"-I{name}" for name in ("first", "second", "exported")]
    run(*NVCC, "-arch=sm_80", *search, *sources, "-o", "all", folder=folder)
    run(folder / "all", folder=folder)


@needs_nvcc
@pytest.mark.parametrize("linked", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_entry_points_that_prepare_operands_have_names_of_the_library_s(
    program: Callable[..., KernelSource], linked: bool, tmp_path: Path
) -> None:
    """In one source file; linked from several."""
    source = program("rc", "bf16", batch=None, pointer_align=2)
    assert len(source.program) > 1
    objects = []
    for own in (None, f"first_{source.name}", f"second_{source.name}"):
        for name, text in kernel_texts(source, "sm_90", own).items():
            (tmp_path / name).write_text(text)
        objects.append(f"{own or source.name}.cu")
    if linked:
        (tmp_path / "main.cpp").write_text("int main() { return 0; }\n")
        run(*NVCC, "-arch=sm_90", *objects, "main.cpp", "-o", "all", folder=tmp_path)
    else:
        (tmp_path / "all.cu").write_text("".join(f'#include "{one}"\n' for one in objects))
        run(*NVCC, "-arch=sm_90", "-c", "all.cu", folder=tmp_path)


def test_a_library_s_file_is_the_kernel_that_it_was_made_of(beside: tuple[Path, KernelSource]) -> None:
    """By its own name and byte for byte, for a record that is read back, and for another export."""
    folder, source = beside
    found = read_kernel(folder / "first" / f"first_{source.name}.cu")
    assert found.alone.source == source
    spec = spec_of(folder, "first", "sm_80", kernels=[f"{source.name}.cu"])
    assert [one.name for one in choices_from(spec, folder / "first")[0].members] == [source.name]


@pytest.mark.parametrize("name", ["linear", "selftest", "gemm", "linear_workspace_bytes"])
def test_a_kernel_that_is_called_as_a_function_of_the_library_is_refused(name: str, tmp_path: Path) -> None:
    source = write_kernel(tmp_path).renamed(name)
    (tmp_path / f"{name}.cu").write_text(source.text)
    with pytest.raises(InvalidInput, match=f"mylib has a mylib_{name} of its own: give the kernel {name} another name"):
        make(tmp_path, "mylib", "sm_80", kernels=[f"{name}.cu"])


LOCAL = ("plan", "status", "blocks", "config", "stream")


def words_of_the_launcher() -> list[str]:
    """Those by which a kernel may be called."""
    text = kernel_texts(render_plain(), "sm_80")["gemm.cu"]
    found = {word for piece, is_code in code_and_others(text) if is_code for word in re.findall(r"\b[a-z]\w*", piece)}
    return sorted(word for word in found if not word.startswith("gemm") and is_free(word))


def render_plain() -> KernelSource:
    problem = Problem(None, None, None)
    return render(problem, NAIVE, NAIVE.default(problem), "sm_80").renamed("gemm")


def is_free(name: str) -> bool:
    try:
        require_identifier(name)
        require_exportable(render_plain().renamed(name))
    except InvalidInput:
        return False
    return True


@needs_nvcc
@pytest.mark.parametrize("all_words", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_kernels_are_called_by_words_of_their_launchers(all_words: bool, tmp_path: Path) -> None:
    """They compile, all in one source file."""
    words = words_of_the_launcher()
    assert {*LOCAL} < {*words} and len(words) > 20
    chosen = words if all_words else LOCAL
    for word in chosen:
        for name, text in kernel_texts(render_plain().renamed(word), "sm_80").items():
            (tmp_path / name).write_text(text)
    (tmp_path / "all.cu").write_text("".join(f'#include "{word}.cu"\n' for word in chosen))
    run(*NVCC, "-arch=sm_80", "-c", "all.cu", folder=tmp_path)


# Architectures of a build


def gencode(*architectures: str) -> list[str]:
    return [word for one in architectures for word in ("-gencode", f"arch=compute_{one},code=sm_{one}")]


def compiled(folder: Path, file: Path, *architectures: str) -> tuple[bool, str]:
    """Whether nvcc compiles a file for these architectures without a warning, and what it says."""
    command = (*NVCC, *gencode(*architectures), "-c", file, "-o", folder / "out.o")
    done = built(command, folder)
    return done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def specific(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library `mixed` with kernels of sm_80 and, of sm_90a alone, one more; beside it `exported`: the latter."""
    folder = tmp_path_factory.mktemp("specific")
    plain = write_kernel(folder)
    wgmma, problem = FAMILIES["wgmma"], spec_of(folder, "plain", "sm_90").products[0].aligned(64, 64, 64)
    source = render(problem, wgmma, wgmma.default(problem), "sm_90")
    (folder / f"{source.name}.cu").write_text(source.text)
    make(folder, "mixed", "sm_80", "sm_90", kernels=[f"{plain.name}.cu", f"{source.name}.cu"])
    export(source, {**RECORD, "arch": "sm_90a"}, folder / "exported")
    return folder


SOME = "is not compiled for one of the build's architectures: it needs"
NEEDS = "mixed needs sm_80 or newer, sm_90 as sm_90a: compile it with -gencode arch=compute_80,code=sm_80 -gencode"


@needs_nvcc
@pytest.mark.parametrize(
    ("architectures", "said", "refused"),
    [
        (("80", "90a"), "", ""),
        (("75", "80"), f"mixed {SOME} sm_80 or newer, sm_90 as sm_90a", ""),
        (("75",), "", NEEDS),
        pytest.param(("80", "90"), f"mixed {SOME}", "", marks=pytest.mark.soak),
        pytest.param(("86", "100"), "", "", marks=pytest.mark.soak),
        pytest.param(("90",), "", NEEDS, marks=pytest.mark.soak),
    ],
    ids=" ".join,
)
def test_a_library_is_built_where_one_architecture_of_the_build_is_served(
    architectures: tuple[str, ...], said: str, refused: str, specific: Path
) -> None:
    builds, output = compiled(specific, specific / "mixed" / "mixed.cu", *architectures)
    assert builds == (not refused), output
    assert said in output and refused in output
    assert bool(said or refused) == (SOME in output)


EMPTY = """#include "mixed.h"
int main() { return mixed_linear_workspace_bytes(1, 1, 1) == 0 ? 0 : 1; }
"""


@needs_nvcc
@pytest.mark.parametrize(
    "architectures",
    [("90a", "75"), *(pytest.param(one, marks=pytest.mark.soak) for one in (("75", "90a"), ("80", "90")))],
    ids=" ".join,
)
def test_a_program_links_whichever_architecture_comes_last(architectures: tuple[str, ...], specific: Path) -> None:
    """nvcc takes the stubs of kernels from its last pass, which here has nothing of some kernel, or of any."""
    (specific / "main.cpp").write_text(EMPTY)
    sources = [path for path in specific.glob("mixed/*.cu") if not path.name.endswith("_selftest.cu")]
    run(*NVCC, *gencode(*architectures), "-Imixed", *sources, "main.cpp", "-o", "linked", folder=specific)
    run(specific / "linked", folder=specific)


@needs_nvcc
def test_kernels_of_a_library_are_compiled_to_nothing_where_nothing_runs_them(specific: Path) -> None:
    for file in sorted(specific.glob("mixed/mixed_gemm*.cu")):
        assert compiled(specific, file, "75") == (True, "")
    assert len([*specific.glob("mixed/mixed_gemm*.cu")]) == 2


@needs_nvcc
@pytest.mark.parametrize(
    ("architectures", "said", "refused"),
    [
        (("75", "90a"), f"{SOME} sm_90a", ""),
        (("80",), "", "needs sm_90a: compile it with -gencode arch=compute_90a,code=sm_90a"),
        pytest.param(
            *(("80", "90"), "", "needs sm_90a: compile it with -gencode arch=compute_90a,code=sm_90a"),
            marks=pytest.mark.soak,
        ),
    ],
    ids=" ".join,
)
def test_an_export_is_built_where_one_architecture_of_the_build_runs_it(
    architectures: tuple[str, ...], said: str, refused: str, specific: Path
) -> None:
    (file,) = specific.glob("exported/*[0-9a-f].cu")
    builds, output = compiled(specific, file, *architectures)
    assert builds == (not refused), output
    assert said in output and refused in output


# CMake

TOGETHER = """cmake_minimum_required(VERSION 3.18)
project(client LANGUAGES C CXX CUDA)
add_subdirectory(first)
add_subdirectory(second)
add_subdirectory(exported)
add_executable(client main.c)
target_link_libraries(client PRIVATE first::first second::second KERNEL::KERNEL)
"""


@pytest.mark.soak
@needs_cmake
def test_a_project_takes_two_libraries_and_an_export_of_their_kernel(
    beside: tuple[Path, KernelSource], tmp_path: Path
) -> None:
    folder, source = beside
    shutil.copytree(folder, tmp_path / "client")
    (tmp_path / "client" / "CMakeLists.txt").write_text(TOGETHER.replace("KERNEL", source.name))
    (tmp_path / "client" / "main.c").write_text(CALLS.replace("KERNEL", source.name))
    said = run("cmake", "-S", "client", "-B", "build", "-DCMAKE_CUDA_ARCHITECTURES=75;80", folder=tmp_path)
    for name in ("first", "second", source.name):
        assert f"{name} is not built for 75: it needs sm_80 or newer" in said
    run("cmake", "--build", "build", folder=tmp_path)
    run(tmp_path / "build" / "client", folder=tmp_path)
    linked = run("ldd", tmp_path / "build" / "client", folder=tmp_path)
    assert "libcudart" not in linked, "one runtime, which is linked statically"


@needs_cmake
@pytest.mark.parametrize(
    ("architectures", "served"),
    [
        ("80;90a", "80;90a"),
        ("75;80-real;90", "80-real"),
        ("90a-real;100", "90a-real;100"),
        ("90", ""),
        ("native", "native"),
    ],
)
def test_cmake_builds_a_library_for_what_it_serves(architectures: str, served: str, specific: Path) -> None:
    """Only that part of CMakeLists.txt which chooses runs: no compiler is looked for."""
    text = (specific / "mixed" / "CMakeLists.txt").read_text()
    begin, end = text.index("if(CMAKE_CUDA_ARCHITECTURES)"), text.index("\nadd_library(")
    (specific / "choose.cmake").write_text(
        f"set(PROJECT_NAME mixed)\nset(CMAKE_CUDA_ARCHITECTURES {architectures})\n{text[begin:end]}"
        'message(STATUS "built for ${CMAKE_CUDA_ARCHITECTURES}.")\n'
    )
    done = subprocess.run(["cmake", "-P", "choose.cmake"], cwd=specific, capture_output=True, text=True, check=False)
    if served:
        assert done.returncode == 0 and f"built for {served}." in done.stdout
    else:
        assert done.returncode != 0
        assert "mixed needs sm_80 or newer, sm_90 as sm_90a: CMAKE_CUDA_ARCHITECTURES is" in done.stderr
