"""On a card: two libraries and an export of their kernel in one program, and builds that leave the card out."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import gemmgen
from gemmgen.exports.folder import export
from gemmgen.exports.library.spec import Spec, spec_from
from gemmgen.families import FAMILIES, NAIVE
from gemmgen.kernel.source import KernelSource
from gemmgen.render.kernel_text import render
from gemmgen.run.gpu import why_no_gpu
from gemmgen.run.gpu.capability import arch_here

REASON = why_no_gpu() or ("nvcc is not on the PATH" if shutil.which("nvcc") is None else "")
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)
RECORD: dict[str, Any] = {"arch": "sm_80", "verification": None, "timing": None}
LINEAR = {"name": "linear", "types": "bf16", "layout": "rc", "M": "1..4096", "N": "?", "K": "?"}


def spec_of(folder: Path, name: str, *architectures: str, kernels: Sequence[str] = ()) -> Spec:
    document = {"name": name, "architectures": [*architectures], "product": [{**LINEAR, "kernels": [*kernels]}]}
    return spec_from(document, "sm_90", folder)


def write_kernel(folder: Path, family: str, arch: str) -> KernelSource:
    product, chosen = spec_of(folder, "plain", "sm_80").products[0], FAMILIES[family]
    problem = product.general if chosen is NAIVE else product.aligned(4096, 4096, 4096)
    source = render(problem, chosen, chosen.default(problem), arch)
    (folder / f"{source.name}.cu").write_text(source.text)
    return source


def made(folder: Path, name: str, *architectures: str, kernels: Sequence[str]) -> list[Path]:
    """The sources of a library of this name, without its self-test."""
    spec = spec_of(folder, name, *architectures, kernels=[f"{one}.cu" for one in kernels])
    gemmgen.library(spec, to=folder / name, device="emulator", examples=0, points=27)
    return [path for path in sorted((folder / name).glob("*.cu")) if not path.name.endswith("_selftest.cu")]


def said_by(folder: Path, main: str, sources: Sequence[Path], *flags: str) -> list[str]:
    """The lines that a program prints."""
    (folder / "main.cu").write_text(main)
    search = [f"-I{one}" for one in dict.fromkeys(path.parent for path in sources)]
    build = ("nvcc", "-std=c++17", "-t0", *flags, *search, *sources, "main.cu", "-o", "main")
    subprocess.run(build, cwd=folder, check=True, timeout=300)
    ran = subprocess.run([folder / "main"], capture_output=True, text=True, timeout=300, check=True)
    return ran.stdout.splitlines()


TOGETHER = """#include "first.h"
#include "second.h"
#include "KERNEL.h"
#include <cstdio>
#include <cstring>

int main()
{
    constexpr int M = 70, N = 50, K = 33;
    unsigned short *a, *b, *c, found[3][M * N];
    cudaMalloc(&a, sizeof *a * M * K), cudaMalloc(&b, sizeof *b * N * K), cudaMalloc(&c, sizeof found[0]);
    cudaMemset(a, 0x3e, sizeof *a * M * K), cudaMemset(b, 0x3d, sizeof *b * N * K);
    const auto x = reinterpret_cast<const __nv_bfloat16*>(a), y = reinterpret_cast<const __nv_bfloat16*>(b);
    const auto z = reinterpret_cast<__nv_bfloat16*>(c);
    for (int i = 0; i < 3; ++i) {
        cudaMemset(c, 0xff, sizeof found[0]);
        const cudaError_t status = i == 0 ? first_linear(x, y, z, M, N, K, K, K, N, 1, 0, nullptr, 0, nullptr)
            : i == 1                      ? second_linear(x, y, z, M, N, K, K, K, N, 1, 0, nullptr, 0, nullptr)
                                          : KERNEL_launch(x, y, z, M, N, K, K, K, N, 1, 0, nullptr, 0, nullptr);
        cudaMemcpy(found[i], c, sizeof found[i], cudaMemcpyDeviceToHost);
        std::puts(cudaGetErrorName(status));
    }
    const auto same = [&](int i) { return std::memcmp(found[0], found[i], sizeof found[0]) == 0; };
    std::printf("%d %d\\n", same(1), same(2));
    std::printf("%04x\\n", found[0][M * N - 1]);
    return 0;
}
"""


def test_two_libraries_and_an_export_of_their_kernel_compute_in_one_program(tmp_path: Path) -> None:
    source = write_kernel(tmp_path, "naive", "sm_80")
    sources = [path for name in ("first", "second") for path in made(tmp_path, name, "sm_80", kernels=[source.name])]
    export(source, RECORD, tmp_path / "exported")
    sources.append(tmp_path / "exported" / f"{source.name}.cu")
    lines = said_by(tmp_path, TOGETHER.replace("KERNEL", source.name), sources, "-arch=native")
    assert lines[:4] == ["cudaSuccess"] * 3 + ["1 1"]
    assert lines[4] not in ("ffff", "0000")


UNSERVED = """#include "mixed.h"
#include <cstdio>

int main()
{
    void* memory;
    cudaMalloc(&memory, 3 * sizeof(short) * 4096 * 4096);
    mixed_args call = {};
    call.M = call.N = call.K = 4096, call.alpha = 1;
    call.A = call.B = memory, call.C = static_cast<short*>(memory) + 2 * 4096 * 4096;
    const cudaError_t status = mixed_gemm(&call, nullptr, 0, nullptr);
    std::printf("%s\\n%s\\n", cudaGetErrorName(status), mixed_refusal());
    std::puts(mixed_kernel(&call));
    return cudaDeviceSynchronize() == cudaSuccess && cudaGetLastError() == cudaSuccess ? 0 : 1;
}
"""


@pytest.mark.skipif(arch_here() != "sm_90", reason="it takes a card of sm_90")
@pytest.mark.parametrize(
    ("builds", "served"), [(("80", "90a"), True), (("80", "90"), False), (("80",), False)], ids=str
)
def test_a_card_that_a_build_left_out_gets_a_status(builds: tuple[str, ...], served: bool, tmp_path: Path) -> None:
    """Whether the file has an image for the card without the kernel ("80", "90"), or none ("80")."""
    plain, wgmma = write_kernel(tmp_path, "naive", "sm_80"), write_kernel(tmp_path, "wgmma", "sm_90")
    sources = made(tmp_path, "mixed", "sm_80", "sm_90", kernels=[plain.name, wgmma.name])
    flags = [word for one in builds for word in ("-gencode", f"arch=compute_{one},code=sm_{one}")]
    status, refusal, kernel = said_by(tmp_path, UNSERVED, sources, *flags)
    assert kernel == wgmma.name
    if served:
        assert (status, refusal) == ("cudaSuccess", "")
    else:
        assert status == "cudaErrorNoKernelImageForDevice"
        assert refusal == f"mixed_{wgmma.name} was not compiled for the device"
