"""Folders of libraries build with nvcc, for several architectures at once, and answer without a GPU."""

from __future__ import annotations

import math
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from builds import built

import gemmgen
from gemmgen.exports.library.building import library_texts
from gemmgen.exports.library.choice import Choice, Drawn, Rule, Timed
from gemmgen.exports.library.members import Contestant, Member, Needs
from gemmgen.exports.library.rules import choose
from gemmgen.exports.library.spec import spec_from
from gemmgen.exports.library.table import Box, Sizes
from gemmgen.exports.library.texts import LibraryText
from gemmgen.families import FAMILIES
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import DEVICES
from gemmgen.render.kernel_text import render

HOST_KERNEL = Path(__file__).parent / "host_kernel"

NVCC = ("nvcc", "-std=c++17", "-Xcompiler", "-Wall,-Wextra", "-Werror", "all-warnings", "-t0")
BUILDS = ("-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90a,code=sm_90a")
PRODUCTS: tuple[dict[str, Any], ...] = (
    {"name": "linear", "types": "bf16", "layout": "rc", "M": "1..8192", "N": "?", "K": "?"},
    {
        "name": "quantised",
        "types": "s8,s8,bf16",
        "layout": "rc",
        "M": "1..64",
        "N": 256,
        "K": 512,
        "epilogue": "scale_m+scale_n+bias",
        "batch": "?",
    },
)


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
def test_one_folder_builds_for_two_architectures_without_a_warning(tmp_path: Path) -> None:
    """One of the kernels has instructions of sm_90a alone: nvcc finds an empty file for sm_80."""
    document: dict[str, Any] = {"name": "mylib", "architectures": ["sm_80", "sm_90"], "product": []}
    for fields in PRODUCTS:
        product = spec_from({**document, "product": [fields]}, "sm_90", tmp_path).products[0]
        kernels = [("naive", product.general, "sm_80")]
        if fields is PRODUCTS[0]:
            kernels.append(("wgmma", product.aligned(64, 64, 64), "sm_90"))
        names = []
        for family, problem, arch in kernels:
            source = render(problem, FAMILIES[family], FAMILIES[family].default(problem), arch)
            (tmp_path / f"{source.name}.cu").write_text(source.text)
            names.append(f"{source.name}.cu")
        document["product"].append({**fields, "kernels": names})
    spec = spec_from(document, "sm_90", tmp_path)
    made = gemmgen.library(spec, to=tmp_path / "out", device="emulator", examples=0, points=64)
    (specific,) = {f"mylib_{one.name}" for choice in made.choices for one in choice.kernels if one.arch == "sm_90a"}
    sources = [tmp_path / "out" / f"{name}.cu" for name in ("mylib", specific)]
    done = built([*NVCC, *BUILDS, "-c", *sources], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(tmp_path.glob("*.o"))) == len(sources)


class Alternating:
    """A clock by which each kernel is the fastest somewhere, and the last, which needs most, where C is largest."""

    kind: Literal["measured", "predicted"] = "measured"
    spec, most = DEVICES["H200"], 64

    def times(self, members: Sequence[Contestant], points: Sequence[Sizes], given: Needs) -> list[Timed]:
        numbers = range(len(members))
        return [Timed([1.0 + abs(number - self._best(sizes, len(members))) for number in numbers]) for sizes in points]

    @staticmethod
    def _best(sizes: Sizes, members: int) -> int:
        return min(members - 1, (sizes[0] * sizes[1]).bit_length() // 4)


# Functions that host_kernel has for a host.
INLINE_PTX = re.compile(
    r"^__device__ .*(?:\n\{\n(?:[^}].*\n)*?)?.* asm(?: volatile)?\((?:.* \}\n|.*\n(?:[^}].*\n|\n)*\}\n)", re.MULTILINE
)


def on_the_host(folder: Path, library: LibraryText, right: str = "", wrong: str = "") -> Path:
    """The self-test of a library of kernels that run on the host one thread after the other; in these and in what they
    launch before, `right` becomes `wrong`. All kernels are in one file, whose headers are read once."""
    alone = r"return started\(cudaLaunchKernelEx\(&config, ([\w:]+),([^;]*)\)\);"
    here = r"run_threads(config.gridDim.x, config.blockDim.x, [&] { \1(\2); }); return cudaSuccess;"
    several = r"return start\(([\w:]+), (\w+), (\d+), stream, ([^;]*)\);"  # of a kernel and of what packs B for it
    texts = library_texts(library)
    kernels = ""
    for member in library.members:
        own = f"mylib_{member.name}"
        name, kernel = f"{own}.cu", member.source.text
        text = texts.pop(name)
        called, count = re.subn(several, r"run_threads(\2, \3, [&] { \1(\4); }); return cudaSuccess;", text)
        packs = member.product.packed  # by an entry point of its own, too
        if not packs:
            called, count = re.subn(alone, here, text)
        assert count == len(member.source.program) + packs
        host = called.replace(kernel, INLINE_PTX.sub("", kernel).replace(right, wrong))
        kernels += f'#include "{own}.h"\n#include "kernel.hpp"\n#define __CUDACC__\n{host}'
    assert any(right in member.source.text for member in library.members)
    if library.quantised:
        texts["mylib.cu"] = quantising_on_the_host(texts["mylib.cu"])
    for name, text in {**texts, "kernels.cu": kernels}.items():
        (folder / name.replace(".cu", ".cpp")).write_text(text)
    (folder / "device.cpp").write_text(DEVICE)
    sources = (*sorted(folder.glob("*.cpp")), HOST_KERNEL / "runtime.cpp")
    flags = ("-std=c++17", "-O0", "-cudart", "none", "-t0", "-I.", f"-I{HOST_KERNEL}")  # compiling takes longest
    done = built(["nvcc", *flags, *sources, "-o", "selftest"], folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "selftest"


# What a kernel that quantises takes of CUDA where a block has one thread.
ONE_THREAD = """#include <cmath>
#include "kernel.hpp"
#define __shared__ static
static struct { unsigned x; } blockDim{1};
static void __syncthreads() {}
static float __shfl_xor_sync(unsigned, float x, int) { return x; }
static float __fdiv_rn(float x, float y) { return x / y; }
"""


def quantising_on_the_host(dispatcher: str) -> str:
    """A dispatcher whose kernels that quantise run on the host, by one thread a block."""
    replaced = {
        "LANES = 16": "LANES = 1",
        "THREADS = 128": "THREADS = 1",
        'asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));': "value = __half(__half_raw{x.bits});",
        'asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(second), "f"(first));': (
            "codes = (unsigned short)(__nv_fp8_e4m3(first).__x | __nv_fp8_e4m3(second).__x << 8);"
        ),
    }
    for device, host in replaced.items():
        assert device in dispatcher
        dispatcher = dispatcher.replace(device, host)
    launch = r"return cudaLaunchKernelEx\(&config, kernel, ([^;]*)\);"
    here = r"run_threads(config.gridDim.x, 1, [&] { kernel(\1); }); return cudaSuccess;"
    dispatcher, count = re.subn(launch, here, dispatcher)
    assert count == 1
    return "#include <cuda_fp16.h>\n#include <cuda_fp8.h>\n" + ONE_THREAD + dispatcher


DEVICE = """#include <cuda_runtime_api.h>
extern "C" cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
extern "C" cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int)
{
    return *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0, cudaSuccess;
}
"""


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
def test_the_selftest_reaches_every_rule_and_holds_every_product_against_a_reference(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"M": "1..64", "N": "8..64", "K": 48}
    images = "im2col=5x6x8_3x2_p1x1_s2x1"
    fields: tuple[dict[str, Any], ...] = (
        {"name": "linear", "types": "bf16", "layout": "rc", **sizes, "N": [40, 64], "epilogue": "bias+gelu"},
        {
            "name": "quantised",
            "types": "s8,s8,bf16",
            "layout": "rc",
            **sizes,
            "epilogue": "scale_m+scale_n",
            "batch": 3,
        },
        {"name": "pointers", "types": "f16", **sizes, "batch": 2, "pointers": True},
        {"name": "double", "types": "bf16", **sizes, "epilogue": "bias+aux+gelu+residual+row_amax"},
        {"name": "blocks", "types": "e4m3,e4m3,bf16", "layout": "rc", **sizes, "K": 200, "inputs": "blocks"},
        {"name": "gated", "types": "bf16", **sizes, "inputs": "groups=3+gathered", "epilogue": "swiglu"},
        {"name": "returned", "types": "bf16", **sizes, "inputs": "groups=3+scattered", "epilogue": "scale_m"},
        {"name": "masked", "types": "bf16", "layout": "rc", **sizes, "inputs": "groups=3+masked"},
        {"name": "deep", "types": "bf16,bf16,f32", "layout": "cr", **sizes, "inputs": "groups=4+along_k"},
        {"name": "filters", "types": "bf16,bf16,f32", "layout": "cr", **sizes, "N": 48, "inputs": f"{images}+wgrad"},
        {"name": "images", "types": "bf16", "layout": "rc", **sizes, "inputs": images},
        {"name": "scaled", "types": "e4m3,e4m3,f32", "layout": "rc", **sizes, "K": 200, "inputs": "groups=3+blocks"},
    )
    spec = spec_from({"name": "mylib", "product": list(fields)}, "sm_90", tmp_path)
    naive, choices = FAMILIES["naive"], []
    for product in spec.products:
        aligned = (product.aligned(8, 40, 48),) if product is spec.products[0] else ()
        problems = (product.general, *aligned, product.fixed(8, 40, 48))
        members = [Member(product, render(one, naive, naive.default(one)), "sm_90") for one in problems]
        choices.append(choose(product, "sm_90", members, Alternating()))
    reached = sum(len(rule.examples) for choice in choices for rule in choice.rules)
    assert reached > 8
    ran = subprocess.run(
        [on_the_host(tmp_path, LibraryText(spec, tuple(choices)))], capture_output=True, text=True, check=False
    )
    lines = ran.stdout.splitlines()
    assert (ran.returncode, lines[-1]) == (0, "PASS  all"), ran.stdout
    assert sum("goes to" in line for line in lines) == reached
    assert sum(line.startswith("PASS  mylib_quantise_") for line in lines) == 18


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
@pytest.mark.parametrize(
    ("inputs", "wrong"),
    [
        ("scales=32+zeros", False),
        pytest.param("scales=32+zeros", True, marks=pytest.mark.soak),
        pytest.param("scales=32+zeros+groups=3", False, marks=pytest.mark.soak),
        pytest.param("scales=32+zeros+groups=3+scattered", False, marks=pytest.mark.soak),
    ],
)
def test_a_product_of_codes_takes_them_packed(
    kernel_of_codes: Callable[..., KernelSource], inputs: str, wrong: bool, tmp_path: Path
) -> None:
    """Beside a product that does not. A function that packs otherwise is found."""
    codes = {"types": "bf16,u4,f32", "inputs": inputs, "M": "1..64", "N": 80, "K": 96, "epilogue": "acc"}
    plain = {"types": "bf16", "M": 8, "N": 16, "K": 16}
    spec = spec_from({"name": "mylib", "product": [codes | {"name": "codes"}, plain]}, "sm_90", tmp_path)
    coded, other = spec.products
    kernels = [Member(coded, kernel_of_codes(coded.general, name), "sm_90") for name in ("few", "many")]
    assert not any(one.needs or one.fixed for one in kernels)
    few = Rule(Needs.NONE, Box(most=(16, *Box().most[1:])), (0,), ((16, 80, 96),))
    rules = few, Rule(Needs.NONE, Box(), (1,), ((17, 80, 96),))
    choice = Choice(
        coded,
        "sm_90",
        tuple(kernels),
        rules,
        "measured",
        "a card",
        (),
        drawn=(Drawn(Needs.NONE, (8, 80, 96), 1.0, 1.0),),
    )
    naive = FAMILIES["naive"]
    one = Member(other, render(other.general, naive, naive.default(other.general)), "sm_90")
    library = LibraryText(spec, (choice, choose(other, "sm_90", [one], Alternating())))
    header = library_texts(library)["mylib.h"]
    assert "K 96; all other M are served, too." in header and "K 16; all other sizes are served, too." in header
    right, planted = ("first_k / 32", "first_k / 64") if wrong else ("", "")
    ran = subprocess.run([on_the_host(tmp_path, library, right, planted)], capture_output=True, text=True, check=False)
    lines = ran.stdout.splitlines()
    assert (ran.returncode, lines[-1]) == ((1, "FAIL") if wrong else (0, "PASS  all")), ran.stdout
    assert wrong == any("expected" in line for line in lines)
    assert [line.split()[-1] for line in lines if "goes to" in line] == ["few", "many", one.name]
    assert any(line == "PASS  packed misaligned: cudaErrorMisalignedAddress" for line in lines)


CLIENT = """cmake_minimum_required(VERSION 3.18)
set(CMAKE_CUDA_ARCHITECTURES "80;90a")
set(CMAKE_CUDA_FLAGS "-Xcompiler=-Wall,-Wextra -Werror all-warnings")
project(client LANGUAGES C CXX CUDA)
include(FetchContent)
FetchContent_Declare(mylib SOURCE_DIR ${CMAKE_SOURCE_DIR}/mylib)
FetchContent_MakeAvailable(mylib)
add_executable(client main.c)
target_link_libraries(client PRIVATE mylib::mylib)
"""
MAIN = """#include "mylib.h"
#include <stdio.h>
int main(void)
{
    mylib_args call = {0};
    call.M = -1;
    const cudaError_t status = mylib_gemm(&call, NULL, 0, NULL);
    printf("%s: %s", mylib_status_text(status), mylib_refusal());
    return 0;
}
"""


@pytest.mark.soak
@pytest.mark.skipif(not (shutil.which("nvcc") and shutil.which("cmake")), reason="nvcc or cmake is not on the PATH")
def test_a_project_of_ten_lines_takes_a_library_in(tmp_path: Path) -> None:
    product = spec_from({"name": "mylib", "product": [PRODUCTS[0]]}, "sm_90", tmp_path).products[0]
    source = render(product.general, FAMILIES["naive"], FAMILIES["naive"].default(product.general), "sm_80")
    (tmp_path / "k.cu").write_text(source.text)
    document = {
        "name": "mylib",
        "architectures": ["sm_80", "sm_90a"],
        "product": [{**PRODUCTS[0], "kernels": ["k.cu"]}],
    }
    spec = spec_from(document, "sm_90", tmp_path)
    gemmgen.library(spec, to=tmp_path / "client" / "mylib", device="emulator", examples=0, points=8)
    (tmp_path / "client" / "CMakeLists.txt").write_text(CLIENT)
    (tmp_path / "client" / "main.c").write_text(MAIN)
    cmake(tmp_path, "-S", "client", "-B", "build")
    cmake(tmp_path, "--build", "build")
    said = subprocess.run([tmp_path / "build" / "client"], capture_output=True, text=True, check=True).stdout
    assert said.endswith("is too small: M = -1 is not in 0 to 2147418112")
    for _ in range(2):  # the cache of the first time has a CMAKE_BUILD_TYPE, and it is empty
        cmake(tmp_path, "-S", "client/mylib", "-B", "alone")
        flags = tmp_path / "alone" / "CMakeFiles" / "mylib_selftest.dir" / "flags.make"
        assert "-O3" in flags.read_text(), "the self-test's reference takes minutes without"


def cmake(folder: Path, *words: str) -> None:
    done = subprocess.run(["cmake", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


CALLS = """#include "mylib.h"
#include <cstdio>
int main()
{
    mylib_args call = {};
    call.A = call.B = call.C = reinterpret_cast<void*>(4096);
    while (std::scanf("%d %d %d %d", &call.M, &call.N, &call.K, &call.batch) == 4) {
        call.stride_a = 1LL * call.M * call.K, call.stride_b = 1LL * call.N * call.K;
        call.stride_c = 1LL * call.M * call.N;
        std::puts(mylib_kernel(&call));
    }
}
"""


class Near:
    """A clock of a GPU that is played: each kernel is the fastest near one size of C."""

    kind: Literal["measured", "predicted"] = "measured"
    spec, most = DEVICES["H200"], 256

    def times(self, members: Sequence[Contestant], points: Sequence[Sizes], given: Needs) -> list[Timed]:
        octaves = [math.log2(m * n * k) / 3 for m, n, k in points]
        return [Timed([10 + (octave - 5 - number) ** 2 for number in range(len(members))]) for octave in octaves]


def dispatcher_of(folder: Path, members: int) -> tuple[Choice, Path]:
    """A library of so many kernels whose three sizes vary, and a program that says where calls go: no kernel runs."""
    fields = {"name": "any", "types": "bf16", "M": "16..2048", "N": "16..2048", "K": "16..2048", "batch": 8}
    spec = spec_from({"name": "mylib", "product": [fields]}, "sm_90", folder)
    (product,), naive, mma = spec.products, FAMILIES["naive"], FAMILIES["mma"]
    kernels = [Member(product, render(product.general, naive, naive.default(product.general)), "sm_90")]
    problem = product.aligned(512, 512, 512)
    tiles = [(m, n) for m in (32, 64, 128) for n in (32, 64, 128)][: members - 1]
    for rows, columns in tiles:
        config = mma.default(problem).with_values(BM=rows, BN=columns, WM=32, WN=32)
        kernels.append(Member(product, render(problem, mma, config, "sm_80"), "sm_90"))
    choice = choose(product, "sm_90", kernels, Near())
    for name, text in library_texts(LibraryText(spec, (choice,))).items():
        (folder / name.replace(".cu", ".cpp")).write_text(text)
    (folder / "calls.cpp").write_text(CALLS)
    (folder / "device.cpp").write_text(DEVICE)
    missing = [
        f"mylib_{one.name}_{what}" for one in choice.kernels for what in ("launch", "workspace_bytes", "refusal")
    ]
    nowhere = [f"-Xlinker=--defsym={name}=0" for name in (*missing, "cudaGetErrorString")]
    command = (*NVCC, "-O3", "-cudart", "none", *nowhere, "mylib.cpp", "calls.cpp", "device.cpp", "-o", "calls")
    done = built(command, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return choice, folder / "calls"


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
def test_the_dispatcher_estimates_as_python_does(tmp_path: Path) -> None:
    choice, program = dispatcher_of(tmp_path, 7)
    assert max(len(rule.kernels) for rule in choice.rules) >= 3
    rule, random_ = choice.rules[0], random.Random(0)
    drawn = [tuple(round(2 ** random_.uniform(3, 13)) for _ in range(3)) for _ in range(300)]
    sizes = [(m, n // 8 * 8 + 8, k // 8 * 8 + 8) for m, n, k in drawn]
    batches = [random_.choice((1, 8, 100)) for _ in sizes]
    lines = "\n".join(f"{m} {n} {k} {batch}" for (m, n, k), batch in zip(sizes, batches, strict=True))
    said = subprocess.run([program], input=lines, capture_output=True, text=True, check=True).stdout.split()
    wanted = [choice.members[rule.kernel(one, batch)].name for one, batch in zip(sizes, batches, strict=True)]
    assert said == wanted
    assert len(set(said)) >= 3
