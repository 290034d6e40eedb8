"""The kernels that measure a card's limits do the work that their rates are computed from."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Any

import pytest

from gemmgen.run.gpu.limits import FMA_COUNT, measure_limits
from gemmgen.run.gpu.plain import plain_cubin, plain_path
from gemmgen.run.sass import disassemble
from gemmgen.support.files import Store


def executor(seconds: float, threads: int, uuid: str = "GPU-1") -> Any:
    """A card that is played: every kernel takes as long."""
    return SimpleNamespace(
        arch="sm_90",
        description="a card",
        properties=SimpleNamespace(memory_bytes=2**34, name="a card", uuid=uuid),
        time_plain=lambda *_: (seconds * 1e6, threads),
    )


@pytest.mark.parametrize("name", FMA_COUNT)
def test_whole_turns_of_the_loop_do_the_count(name: str, shared_store: Store) -> None:
    constants = re.findall(r"constexpr int (?:CHAINS|UNROLL) = (\d+);", plain_path(name).read_text())
    turn = math.prod(map(int, constants))
    assert FMA_COUNT[name] % turn == 0
    code = disassemble(plain_cubin(name, "sm_90", shared_store)).text
    outside = len(re.findall(rf"\b{name.upper()}\b", code)) - turn  # the factor x, which takes one
    assert 0 <= outside <= 2


def test_rates_are_operations_over_time(store: Store) -> None:
    limits = measure_limits(executor(seconds=0.5, threads=1000), store)
    assert limits.ffma_tflops == pytest.approx(2 * 1000 * FMA_COUNT["ffma"] / 0.5 / 1e12)
    assert limits.dfma_tflops == pytest.approx(2 * 1000 * FMA_COUNT["dfma"] / 0.5 / 1e12)
    assert limits.read_gbs == limits.copy_gbs == pytest.approx(2**32 / 0.5 / 1e9)
    assert measure_limits(executor(seconds=9.0, threads=1), store) == limits, "once a day"
    assert measure_limits(executor(0.25, 1000, "GPU-2"), store).ffma_tflops == pytest.approx(2 * limits.ffma_tflops)
