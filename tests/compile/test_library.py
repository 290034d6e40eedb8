"""Folders of libraries build with nvcc, for several architectures at once, and answer without a GPU."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

import gemmgen
from gemmgen.artifacts.library.building import library_texts
from gemmgen.artifacts.library.fallback import Contestant
from gemmgen.artifacts.library.members import Member, Needs
from gemmgen.artifacts.library.rules import choose
from gemmgen.artifacts.library.spec import spec_from
from gemmgen.artifacts.library.table import Sizes
from gemmgen.artifacts.library.texts import LibraryText
from gemmgen.kernel.families import FAMILIES
from gemmgen.kernel.render import render
from gemmgen.support.paths import TEMPLATES

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


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
@pytest.mark.parametrize("together", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_one_folder_builds_for_two_architectures_without_a_warning(together: bool, tmp_path: Path) -> None:
    """One of the kernels has instructions of sm_90a alone: nvcc finds an empty file for sm_80.

    CUDA's headers take most of the time: together, files share them.
    """
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
    assert any(one.arch == "sm_90a" for choice in made.choices for one in choice.members)
    sources = [path for path in sorted((tmp_path / "out").glob("*.cu")) if "selftest" not in path.name]
    if together:
        sources = [all_of(sources, tmp_path / "all.cu")]
    built = subprocess.run([*NVCC, *BUILDS, "-c", *sources], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    assert len(list(tmp_path.glob("*.o"))) == len(sources)


def all_of(sources: Sequence[Path], file: Path) -> Path:
    """`file`, which includes `sources`."""
    file.write_text("".join(f'#include "{source}"\n' for source in sources))
    return file


class Alternating:
    """A clock by which each kernel is the fastest somewhere, and the last, which needs most, where C is largest."""

    kind: Literal["measured", "predicted"] = "measured"
    device, most = "a card", 64

    def times(self, members: Sequence[Contestant], points: Sequence[Sizes], given: Needs) -> list[list[float]]:
        numbers = range(len(members))
        return [[1.0 + abs(number - self._best(sizes, len(members))) for number in numbers] for sizes in points]

    @staticmethod
    def _best(sizes: Sizes, members: int) -> int:
        return min(members - 1, (sizes[0] * sizes[1]).bit_length() // 4)


def on_the_host(folder: Path, library: LibraryText) -> Path:
    """The self-test of a library of naive kernels, which run on the host one thread after the other."""
    starts = re.compile(r"return cudaLaunchKernelEx\(&config, (\w+),([^;]*)\);")
    here = r"run_threads(config.gridDim.x, config.blockDim.x, [&] { \1(\2); }); return cudaSuccess;"
    texts = library_texts(library)
    for member in library.members:
        name, kernel = f"{member.name}.cu", member.source.text
        called, count = starts.subn(here, texts[name])
        assert count == 1
        host = called.replace(kernel, f"#undef __CUDACC__\n{kernel}\n#define __CUDACC__\n")
        texts[name] = f'#include "{member.name}.h"\n#include "kernel.hpp"\n#define __CUDACC__\n{host}'
    for name, text in texts.items():
        (folder / name.replace(".cu", ".cpp")).write_text(text)
    (folder / "device.cpp").write_text(DEVICE)
    sources = (*sorted(folder.glob("*.cpp")), HOST_KERNEL / "runtime.cpp")
    flags = ("-std=c++17", "-O1", "-cudart", "none", "-t0", "-I.", f"-I{TEMPLATES.parent}", f"-I{HOST_KERNEL}")
    built = subprocess.run(
        ["nvcc", *flags, *sources, "-o", "selftest"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "selftest"


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
    )
    spec = spec_from({"name": "mylib", "product": list(fields)}, "sm_90", tmp_path)
    naive, choices = FAMILIES["naive"], []
    for product in spec.products:
        problems = (product.general, product.aligned(8, 40, 48), product.fixed(8, 40, 48))
        members = [Member(product, render(one, naive, naive.default(one)), "sm_90") for one in problems]
        choices.append(choose(product, "sm_90", members, Alternating()))
    rules = sum(len(choice.rules) for choice in choices)
    assert rules > 8
    ran = subprocess.run(
        [on_the_host(tmp_path, LibraryText(spec, tuple(choices)))], capture_output=True, text=True, check=False
    )
    lines = ran.stdout.splitlines()
    assert (ran.returncode, lines[-1]) == (0, "PASS  all"), ran.stdout
    assert sum("goes to" in line for line in lines) == rules
