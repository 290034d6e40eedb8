"""Libraries on a card: times are measured, rules made of them, and the self-test passes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import gemmgen
from gemmgen.exports.library.spec import spec_from
from gemmgen.families import FAMILIES
from gemmgen.render.kernel_text import render
from gemmgen.run.gpu import why_no_gpu
from gemmgen.run.gpu.capability import arch_here

REASON = why_no_gpu() or ("nvcc is not on the PATH" if shutil.which("nvcc") is None else "")
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


@pytest.mark.parametrize("fallback", [None, "cublaslt"])
def test_a_library_is_chosen_by_measured_times_and_passes_its_selftest(fallback: Any, tmp_path: Path) -> None:
    fields: dict[str, Any] = {"name": "linear", "types": "bf16", "layout": "rc", "M": [8, 512], "N": [512], "K": [256]}
    product = spec_from({"name": "mylib", "product": [fields]}, "sm_90", tmp_path).products[0]
    fields["kernels"] = []
    for family, problem in (("simt", product.general), ("mma", product.aligned(512, 512, 256))):
        source = render(problem, FAMILIES[family], FAMILIES[family].default(problem), "sm_80")
        (tmp_path / f"{source.name}.cu").write_text(source.text)
        fields["kernels"].append(f"{source.name}.cu")
    arch = arch_here()
    assert arch is not None
    spec = spec_from({"name": "mylib", "architectures": [arch], "product": [fields]}, arch, tmp_path)
    made = gemmgen.library(spec, to=tmp_path / "out", examples=2, points=8, fallback=fallback)
    assert [choice.kind for choice in made.choices] == ["measured"]
    (found,) = gemmgen.regret(spec, to=tmp_path / "out", sizes=10)
    assert found.kind == "measured" and found.regret.points == 10
    library = [] if fallback is None else ["-lcublasLt"]
    sources = sorted((tmp_path / "out").glob("*.cu"))
    build = ("nvcc", "-std=c++17", "-arch=native", "-t0", *sources, *library, "-o", "selftest")
    subprocess.run(build, cwd=tmp_path, check=True, timeout=300)
    result = subprocess.run([tmp_path / "selftest"], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0 and result.stdout.endswith("PASS  all\n"), result.stdout


def test_libraries_of_groups_and_images_pass_their_selftest(tmp_path: Path) -> None:
    arch = arch_here()
    if arch is None or not arch.startswith("sm_90"):
        pytest.skip(f"wgmma runs on sm_90, and the card here is an {arch}")
    half, sums = {"types": "bf16", "layout": "rc", "N": [136], "K": [64]}, {"types": "bf16,bf16,f32", "layout": "cr"}
    products: tuple[dict[str, Any], ...] = (
        {**half, "name": "masked", "inputs": "groups=3+masked", "M": [8, 300]},
        {**half, "name": "tokens", "inputs": "groups=5+gathered", "M": [8, 300]},
        {**half, "name": "returned", "inputs": "groups=5+scattered", "epilogue": "scale_m", "M": [8, 300]},
        {**sums, "name": "deep", "inputs": "groups=4+along_k", "M": [64], "N": [72], "K": [64, 500]},
        {
            **sums,
            "name": "filters",
            "inputs": "im2col=5x6x16_3x2_p1x1_s2x1+wgrad",
            "M": [64],
            "N": [96],
            "K": [21, 500],
        },
    )
    for fields in products:
        product = spec_from({"name": "mylib", "product": [fields]}, "sm_90", tmp_path).products[0]
        wgmma, problem = FAMILIES["wgmma"], product.general
        source = render(problem, wgmma, wgmma.default(problem), "sm_90")
        (tmp_path / f"{source.name}.cu").write_text(source.text)
        fields["kernels"] = [f"{source.name}.cu"]
    spec = spec_from({"name": "mylib", "architectures": ["sm_90"], "product": list(products)}, "sm_90", tmp_path)
    gemmgen.library(spec, to=tmp_path / "out", examples=2, points=8)
    sources = sorted((tmp_path / "out").glob("*.cu"))
    build = ("nvcc", "-std=c++17", "-gencode=arch=compute_90a,code=sm_90a", "-t0", *sources, "-o", "selftest")
    subprocess.run(build, cwd=tmp_path, check=True, timeout=300)
    result = subprocess.run([tmp_path / "selftest"], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0 and result.stdout.endswith("PASS  all\n"), result.stdout
