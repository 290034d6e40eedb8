"""Kernels in turn share one workspace, as long as semaphores are zero: exported launchers see to that."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from gemmgen.families import SIMT, SKINNY
from gemmgen.families.base import Family
from gemmgen.kernel.launch import WORKSPACE
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.emulator.launches import EmulatedKernel
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store
from gemmgen.verification.comparison import compare
from gemmgen.verification.data import make_operands
from gemmgen.verification.situation import Situation

FREE = Problem(None, None, None)


def kernel(family: Family, **values: int) -> KernelSource:
    return render(FREE, family, family.default(FREE).with_values(**{**family.small, **values}))


SPLIT = kernel(SIMT, SPLIT=3)
STREAM = kernel(SIMT, STAGES=3, ASYNC=1, STREAM=3)
SKINNY_SPLIT = kernel(SKINNY, SPLIT=2)
SIZES = {SPLIT.name: (70, 50, 40), STREAM.name: (100, 130, 90), SKINNY_SPLIT.name: (3, 70, 300)}


@pytest.fixture
def emulator(shared_store: Store) -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor(shared_store) as executor:
        yield executor


class Shared:
    """A workspace as large as each kernel asks for: what a launch leaves there the next one finds."""

    def __init__(self) -> None:
        self.left = dict.fromkeys(WORKSPACE, np.zeros(0, np.uint8))
        self.used = 0

    def share(self, loaded: EmulatedKernel) -> None:
        arena = loaded._arena
        fill, result = arena.fill, arena.result

        def filled(layout, *rest):  # type: ignore[no-untyped-def]
            fill(layout, *rest)
            for name, segment in layout.workspace.items():
                found = self.left[name][: segment.length]
                arena._operand(segment)[: len(found)] = found
                self.used += len(found)

        def taken(layout, *rest):  # type: ignore[no-untyped-def]
            for name, segment in layout.workspace.items():
                now = arena._operand(segment)
                self.left[name] = np.concatenate([now, self.left[name][len(now) :]])
            return result(layout, *rest)

        arena.fill, arena.result = filled, taken  # type: ignore[method-assign]


def run(loaded: EmulatedKernel) -> None:
    m, n, k = SIZES[loaded.source.name]
    situation = Situation(FREE.case(m, n, k, beta=1.0), "exact", 1)
    result = loaded.run(situation.case, make_operands(situation), seed=1)
    assert compare(situation, result).mismatch is None


def test_kernels_share_a_workspace_in_turn(emulator: EmulatorExecutor) -> None:
    shared = Shared()
    kernels = [emulator.load(source) for source in (STREAM, SPLIT, SKINNY_SPLIT)]
    for loaded in kernels:
        shared.share(loaded)
    for loaded in (*kernels, *kernels):
        run(loaded)
        assert not shared.left["semaphores"].any()
    assert shared.left["partials"].any() and shared.used > 0, "each found what another had left"


def test_partials_in_the_place_of_semaphores_spoil_the_next_launch(emulator: EmulatorExecutor) -> None:
    """Why a launcher sets semaphores to zero: they may lie where another kernel's partials do."""
    shared = Shared()
    split, stream = emulator.load(SPLIT), emulator.load(STREAM)
    shared.share(split)
    shared.share(stream)
    run(split)
    shared.left["semaphores"] = shared.left["partials"]
    with pytest.raises((CandidateFailed, AssertionError)):
        run(stream)
