"""The kernels of tests/golden compile, keep their accumulators in registers and hold the limits they were made for."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmgen.problem.wgmma import ARCH
from gemmgen.run.compile import compile_text
from gemmgen.support.files import Store

GOLDEN = sorted((Path(__file__).parent.parent / "golden").glob("*.cu"))


@pytest.mark.parametrize(
    "path",
    [path if number % 12 == 0 else pytest.param(path, marks=pytest.mark.soak) for number, path in enumerate(GOLDEN)],
    ids=lambda path: path.stem,
)
def test_golden_kernels_compile_without_spills(path: Path, shared_store: Store) -> None:
    compiled = compile_text(path.read_text(), ARCH if path.stem.startswith("wgmma") else "sm_90", shared_store)
    assert compiled.spill_bytes == 0
    assert compiled.shared_bytes <= 48 * 1024


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_100", "sm_120"])
def test_a_golden_kernel_compiles_for_every_generation(arch: str, shared_store: Store) -> None:
    (path,) = (path for path in GOLDEN if path.stem == "double_buffer")
    assert compile_text(path.read_text(), arch, shared_store).arch == arch
