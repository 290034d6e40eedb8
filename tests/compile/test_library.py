"""Folders of libraries build with nvcc, for several architectures at once, and answer without a GPU."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import gemmgen
from gemmgen.artifacts.library.spec import spec_from
from gemmgen.kernel.families import FAMILIES
from gemmgen.kernel.render import render

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
    assert any(one.arch == "sm_90a" for choice in made.choices for one in choice.members)
    sources = sorted((tmp_path / "out").glob("*.cu"))
    built = subprocess.run(
        [*NVCC, *BUILDS, *sources, "-o", "selftest"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    ran = subprocess.run([tmp_path / "selftest"], capture_output=True, text=True, check=False)
    assert ran.returncode in (0, 77), ran.stdout
    answers = [line for line in ran.stdout.splitlines() if ": cuda" in line]
    assert len(answers) > 30
    assert all(line.startswith("PASS") for line in answers), ran.stdout
