"""What gemmgen's functions refuse before they do anything."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gemmgen
from gemmgen.judge import bench
from gemmgen.lab import api as lab_api
from gemmgen.run import target
from gemmgen.support.errors import InvalidInput

PROBLEM = gemmgen.Problem(64, 64, 64)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gemmgen.tune(PROBLEM, budget=0), "budget = 0: at least 1 is needed"),
        (lambda: gemmgen.tune(PROBLEM, budget=-1), "budget = -1: at least 1 is needed"),
        (lambda: lab_api.study("ladder", PROBLEM, budget=0), "budget = 0"),
        (lambda: lab_api.check_model(budget=0), "budget = 0"),
        (lambda: gemmgen.verify(gemmgen.generate(PROBLEM), examples=0), "examples = 0: at least 1 is needed"),
        (lambda: gemmgen.tune(PROBLEM, seed=-1), "seed = -1: at least 0 is needed"),
        (lambda: gemmgen.verify("NAME", seed=-1), "seed = -1: at least 0 is needed"),
        (lambda: gemmgen.tune(PROBLEM, budget="4"), "budget = '4' is no whole number"),  # type: ignore[arg-type]
        (lambda: gemmgen.tune("8x8x8"), "problem = '8x8x8' is none: write gemmgen.Problem"),  # type: ignore[arg-type]
        (lambda: gemmgen.generate((8, 8, 8)), r"problem = \(8, 8, 8\) is none"),  # type: ignore[arg-type]
        (lambda: gemmgen.verify(5), "kernel = 5 is none: give its name, a .cu file"),  # type: ignore[arg-type]
        (lambda: gemmgen.Problem(8, 8, 8, epilogue=5), "epilogue: '5' of '5' is no form"),  # type: ignore[arg-type]
        (lambda: gemmgen.generate(PROBLEM, BM=64.0), "BM = 64.0 is no whole number"),  # type: ignore[arg-type]
        (
            lambda: gemmgen.tune(PROBLEM, device="tpu"),  # type: ignore[arg-type]
            "unknown device 'tpu': known are auto, gpu, cuda, emulator",
        ),
        (
            lambda: gemmgen.verify("NAME", sanitize=["helgrind"]),  # type: ignore[list-item]
            "unknown tool 'helgrind' of compute-sanitizer: known are memcheck, racecheck, initcheck, synccheck",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        call()


def test_cuda_means_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "why_no_gpu", lambda: "no GPU in this test")
    with pytest.raises(gemmgen.CandidateFailed, match=r"unavailable \(gpu\): no GPU in this test"):
        gemmgen.tune(PROBLEM, device="cuda")


def test_numpys_integers_set_axes() -> None:
    assert gemmgen.generate(PROBLEM, BM=np.int64(64)) == gemmgen.generate(PROBLEM, BM=64)  # type: ignore[arg-type]


def test_the_package_offers_what_it_says() -> None:
    assert all(getattr(gemmgen, name).__name__ == name for name in gemmgen.__all__)
    assert sorted(name for names in gemmgen.HOMES.values() for name in names) == sorted(gemmgen.__all__)
    assert set(gemmgen.__all__) <= set(dir(gemmgen)) and gemmgen.__version__
    with pytest.raises(AttributeError, match="module 'gemmgen' has no attribute 'Shape'"):
        gemmgen.Shape  # noqa: B018


@pytest.mark.parametrize(
    "name", ["bench", "check_model", "diff", "explain", "export", "generate", "report", "study", "tune", "verify"]
)
def test_commands_are_functions_of_the_package(name: str) -> None:
    """No room has such a name: importing it would put the module into the function's place."""
    assert inspect.isfunction(getattr(gemmgen, name))
    assert importlib.util.find_spec(f"gemmgen.{name}") is None


def test_explain_takes_what_generate_gives() -> None:
    source = gemmgen.generate(PROBLEM, family="naive")
    it = gemmgen.explain(source, arch="sm_80")
    assert it.kernel.source == source and it.arch == "sm_80" and it.device.name == "A100"


def test_explain_takes_the_arch_of_a_kernels_record(tmp_path: Path) -> None:
    source = gemmgen.generate(PROBLEM, family="naive", arch="sm_80", out=tmp_path)
    assert gemmgen.explain(tmp_path / f"{source.name}.cu").arch == "sm_80"


def test_export_writes_what_stands_alone(tmp_path: Path) -> None:
    source = gemmgen.generate(PROBLEM, family="naive")
    exported = gemmgen.export(source, to=tmp_path, examples=0)
    assert exported.verdict is None and exported.kernel.source == source
    assert sorted(exported.files) == sorted(tmp_path.iterdir()) and tmp_path / f"{source.name}.cu" in exported.files


def test_export_and_bench_refuse_what_cannot_be_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="examples = -1: at least 0 is needed"):
        gemmgen.export("NAME", to=tmp_path, examples=-1)
    monkeypatch.setattr(bench, "why_no_gpu", lambda: "no GPU in this test")
    with pytest.raises(gemmgen.GemmgenError, match="bench measures, and needs a GPU: no GPU in this test"):
        gemmgen.bench(PROBLEM)


@pytest.mark.parametrize(("dtype", "arch"), [("f16", "sm_75"), ("f16", "sm_80")])
def test_what_generate_makes_of_no_values_suits_the_architecture(dtype: str, arch: str) -> None:
    """sm_75 has neither cp.async nor the instructions that newer ones have."""
    source = gemmgen.generate(gemmgen.Problem(64, 64, 64, dtype), family="mma", arch=arch)
    assert source.config["ASYNC"] == (arch == "sm_80")
    assert gemmgen.generate(source.problem, family="mma", arch=arch, **source.config).text == source.text
