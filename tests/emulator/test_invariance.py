"""Bits of a row of C do not depend on M, on other rows, or on where the row stands; kernels that break it are found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import gemmgen
from gemmgen.cli import main
from gemmgen.families import MMA, SIMT, WGMMA
from gemmgen.families.base import Family
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import parse_arch
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.support.errors import InvalidInput
from gemmgen.verification.invariance import Call, check_invariance

SIZES = (1, 7, 65, 129)


@pytest.fixture(scope="module")
def emulator() -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor() as executor:
        yield executor


def kernel(family: Family, problem: Problem, **config: int) -> KernelSource:
    """A kernel of small tiles, which compiles soon."""
    return render(problem, family, family.default(problem).with_values(**{**family.small, **config}), "sm_90")


def calls(problem: Problem, kernels: dict[int, KernelSource]) -> list[Call]:
    """For each of SIZES a call of the first kernel, by the largest M that it serves."""
    return [Call(next(one for most, one in kernels.items() if m <= most), problem.case(m=m)) for m in SIZES]


def open_m(types: str = "bf16", **values: object) -> Problem:
    return Problem(None, 192, 320, types=types, layout="rc", ld_align=8, pointer_align=16, typical={"M": 64}, **values)


def test_all_unsplit_kernels_of_bf16_are_of_one_class(emulator: EmulatorExecutor) -> None:
    problem = open_m()
    small, large = kernel(MMA, problem), kernel(WGMMA, problem, BM=128, BN=64, CONSUMERS=2)
    found = check_invariance(emulator, calls(problem, {64: small, 4096: large}))
    assert found.passed and found.calls == len(SIZES) and found.replayed
    assert len(found.kernels) == 2 and len(found.classes) == 1


@pytest.mark.parametrize(
    ("types", "compute", "kinds"),
    [
        (
            "f16",
            "fma",
            [
                (MMA, {}),
                (WGMMA, {"BM": 128, "BN": 64, "CONSUMERS": 2}),
                (WGMMA, {"BM": 24, "BN": 64, "SWAP": 1, "CONSUMERS": 1}),
            ],
        ),
        (
            "e4m3,e4m3,bf16",
            "fast",
            [(WGMMA, {"BM": 128, "BN": 64, "CONSUMERS": 2}), (WGMMA, {"BM": 24, "BN": 64, "SWAP": 1, "CONSUMERS": 1})],
        ),
        (
            "e4m3,e4m3,bf16",
            "promoted",
            [(WGMMA, {"BM": 64, "BN": 64, "CONSUMERS": 1}), (WGMMA, {"BM": 24, "BN": 64, "SWAP": 1, "CONSUMERS": 1})],
        ),
        ("f32", "tf32", [(MMA, {}), (MMA, {"BM": 64, "BN": 64})]),
        ("s8,s8,s32", "fma", [(MMA, {"SPLIT": 2}), (WGMMA, {"BM": 128, "BN": 64, "CONSUMERS": 2}), (SIMT, {})]),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_classes_of_other_types_hold(
    emulator: EmulatorExecutor, types: str, compute: str, kinds: list[tuple[Family, dict[str, int]]]
) -> None:
    problem = replace(open_m(types, compute=compute), ld_align=16)
    kernels = [kernel(family, problem, **values) for family, values in kinds]
    found = check_invariance(emulator, [Call(one, problem.case(m=m)) for m in (7, 65) for one in kernels])
    assert found.passed, found.failure
    assert len(found.kernels) == len(kinds) and len(found.classes) == 1 and found.replayed != 0


@pytest.mark.parametrize("inputs", ["blocks", "blocks+lines"])
def test_scales_of_blocks_go_with_their_rows_and_columns(emulator: EmulatorExecutor, inputs: str) -> None:
    problem = replace(open_m("e4m3,e4m3,bf16", compute="promoted", inputs=inputs), ld_align=16)
    kernels = {
        64: kernel(WGMMA, problem, BM=64, BN=64, CONSUMERS=1),
        4096: kernel(WGMMA, problem, BM=128, BN=32, CONSUMERS=2, IN_FLIGHT=0),
    }
    found = check_invariance(emulator, calls(problem, kernels))
    assert found.passed and found.replayed, found.failure
    assert len(found.kernels) == 2 and len(found.classes) == 1


def test_the_rounding_to_tf32_is_part_of_the_class(emulator: EmulatorExecutor) -> None:
    problem = open_m("f32", compute="tf32")
    found = check_invariance(emulator, calls(problem, {64: kernel(MMA, problem), 4096: kernel(WGMMA, problem)}))
    assert found.failure is not None and len(found.classes) == 2


@pytest.mark.parametrize("epilogue", ["bias+gelu", "alpha * acc * scale_m * scale_n + residual"])
def test_vectors_go_with_their_rows_and_columns(emulator: EmulatorExecutor, epilogue: str) -> None:
    problem = open_m(epilogue=epilogue)
    found = check_invariance(emulator, calls(problem, {64: kernel(MMA, problem), 4096: kernel(WGMMA, problem)}))
    assert found.passed, found.failure


def test_a_split_of_k_for_some_m_alone_is_found(emulator: EmulatorExecutor) -> None:
    problem = open_m()
    split = kernel(MMA, problem, SPLIT=2)
    found = check_invariance(emulator, calls(problem, {7: split, 4096: kernel(WGMMA, problem)}))
    assert found.failure is not None and len(found.classes) == 2
    assert found.failure.reason.count("M = ") == 2 and split.name in found.failure.reason


def test_integers_are_exact_whatever_the_split() -> None:
    problem = open_m("s8,s8,s32")
    orders = [WGMMA.plan(problem, WGMMA.default(problem)).sums, MMA.plan(problem, MMA.default(problem)).sums]
    assert len({order.summation(parse_arch("sm_90")) for order in orders if order}) == 1


SPEC = """name = "pair"
[[product]]
name = "linear"
types = "bf16"
layout = "rc"
M = "1..512"
N = 192
K = 320
kernels = {kernels}
{invariant}
"""


SPLIT, LARGE = ("mma", {**MMA.small, "SPLIT": 2}), ("wgmma", {"BM": 128, "BN": 64, "CONSUMERS": 2})


def library(folder: Path, *others: tuple[str, dict[str, int]], invariant: bool = True) -> Path:
    """A library of a kernel that serves every call, and of `others`: (family, values)."""
    every = Problem(None, None, None, types="bf16", layout="rc", lda=None, ldb=None, ldc=None, pointer_align=2)
    fixed = [gemmgen.generate(open_m(), family=name, out=folder, **values) for name, values in others]
    names = [source.name for source in (*fixed, gemmgen.generate(every, family="mma", out=folder, **MMA.small))]
    spec, to = folder / "pair.toml", folder / "pair"
    files = json.dumps([f"{name}.cu" for name in names])
    spec.write_text(SPEC.format(kernels=files, invariant="invariant = true" if invariant else ""))
    gemmgen.library(spec, to=to, device="emulator", examples=1, points=24)
    return to


def test_an_invariant_library_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = library(tmp_path, ("mma", {**MMA.small}), LARGE)
    record = json.loads((to / "pair.record.json").read_text())
    assert "16 products of bf16" in record["choices"][0]["summation"]
    certificate = json.loads((to / "pair.certificate.json").read_text())
    ((name, shown),) = certificate["invariance"]["sm_90"].items()
    assert name == "linear" and all(one["failure"] is None and one["replayed"] for one in shown)
    assert main(["verify", str(to), "--invariant", "--device", "emulator", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["invariance"]["linear"]
    assert all(one["failure"] is None and one["replayed"] and len(one["classes"]) == 1 for one in found)


def test_kernels_of_two_classes_make_no_invariant_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidInput, match="cannot be of one invariant product, as their bits differ"):
        library(tmp_path, SPLIT)
    to = library(tmp_path, SPLIT, invariant=False)
    assert main(["verify", str(to), "--invariant", "--device", "emulator"]) == 1
    assert "for the same row of A and column of B at M = " in capsys.readouterr().out
