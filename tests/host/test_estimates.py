"""Estimates beside boxes, by simulated times: no card's, but the model's with errors of its own for each kernel.

`pytest tests/host/test_estimates.py -m soak -s` prints the table of docs/libraries.md.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from gemmgen.exports.library.estimates import estimated
from gemmgen.exports.library.members import Member
from gemmgen.exports.library.rules import grid_of
from gemmgen.exports.library.spec import Product, spec_from
from gemmgen.exports.library.table import Regret, Sizes, chosen, regions, regret_of
from gemmgen.families import FAMILIES
from gemmgen.families.mma import family as mma
from gemmgen.families.wgmma import cost as wgmma
from gemmgen.kernel import cost, model
from gemmgen.problem.device import DEVICES
from gemmgen.render.kernel_text import render

CARD = DEVICES["H200"]
# Of the model's constants each kernel has others: by so much, in a standard deviation of their logarithms.
CONSTANTS = {
    **dict.fromkeys(("L2_BYTES_PER_CYCLE", "TENSOR_L2_BYTES", "TMA_L2_BYTES", "GLOBAL_LATENCY", "TMA_LATENCY"), 0.25),
    **dict.fromkeys(("LAUNCH_US", "BARRIER_CYCLES", "OVERLAP_LOSS", "EPILOGUE_INSTRUCTIONS", "STALLS"), 0.25),
    **dict.fromkeys(("WGMMA_SUSTAINED", "MMA_SUSTAINED"), 0.06),
}
MODEL = (model, cost, mma, wgmma)  # the modules that know them
WAVES, DRIFT, NOISE = 4, 0.04, 0.007  # errors that change with the sizes, slowly and each time


def _constant(name: str) -> float:
    return float(next(vars(module)[name] for module in MODEL if name in vars(module)))


@dataclass(frozen=True)
class Error:
    """Of one kernel: constants of the model, waves over the sizes' logarithms, a factor."""

    constants: dict[str, float]
    waves: tuple[tuple[Any, float, float], ...]
    factor: float

    @classmethod
    def drawn(cls, generator: np.random.Generator) -> Error:
        constants = {
            name: _constant(name) * math.exp(generator.normal(0, spread)) for name, spread in CONSTANTS.items()
        }
        for name in ("WGMMA_SUSTAINED", "MMA_SUSTAINED"):
            constants[name] = min(1.0, constants[name])
        waves = tuple(
            (generator.normal(0, 0.5, 3), generator.uniform(0, 2 * math.pi), generator.normal(0, DRIFT))
            for _ in range(WAVES)
        )
        return cls(constants, waves, math.exp(generator.normal(0, 0.05)))

    def times(self, kernel: Member, points: Sequence[Sizes]) -> list[float]:
        with ExitStack() as patched:
            for module in MODEL:
                own = {name: value for name, value in self.constants.items() if hasattr(module, name)}
                patched.enter_context(patch.multiple(module, **own))
            predicted = [kernel.predicted_us(sizes, CARD) for sizes in points]
        octaves = [np.log2(np.array(sizes)) for sizes in points]
        drift = [sum(size * math.sin(wave @ at + phase) for wave, phase, size in self.waves) for at in octaves]
        return [self.factor * time * math.exp(off) for time, off in zip(predicted, drift, strict=True)]


TILES = {
    "mma": ({"BM": 64, "BN": 64, "WM": 32, "WN": 32}, {"BM": 128, "BN": 128, "WM": 64, "WN": 32}),
    "mma, few rows": ({"BM": 64, "BN": 128, "WM": 32, "WN": 32}, {"BM": 32, "BN": 64, "WM": 16, "WN": 32}),
    "wgmma": ({"BM": 128, "BN": 128, "CONSUMERS": 2}, {"BM": 64, "BN": 64, "CONSUMERS": 1}),
}


def product_like(name: str) -> Product:
    """As those of examples/library.toml."""
    sizes = "16..512" if name == "batched" else "?"
    fields: dict[str, Any] = {"name": name, "types": "f16", "M": sizes, "N": sizes, "K": sizes}
    fields |= {"batch": 256} if name == "batched" else {}
    return spec_from({"name": "mylib", "product": [fields]}, "sm_90", Path()).products[0]


def kernels_of(product: Product) -> list[Member]:
    """Seven of several families and tiles."""
    problem, simt = product.aligned(512, 512, 512), FAMILIES["simt"]
    found = [Member(product, render(product.general, simt, simt.default(product.general)), "sm_90")]
    for title, tiles in TILES.items():
        family = FAMILIES[title.partition(",")[0]]
        arch = "sm_90" if family.name == "wgmma" else "sm_80"
        for tile in tiles:
            source = render(problem, family, family.default(problem).with_values(**tile), arch)
            found.append(Member(product, source, "sm_90a" if arch == "sm_90" else "sm_90"))
    return found


def compare(name: str, seed: int, count: int) -> tuple[Regret, Regret]:
    """(of boxes, of estimates), over so many sizes that neither was made of."""
    product = product_like(name)
    kernels, batch = kernels_of(product), product.batch or 1
    generator, drawn = np.random.default_rng(seed), random.Random(seed)
    grid = grid_of(product.ranges, kernels, CARD, 256)
    sizes = [(product.m.draw(drawn), product.n.draw(drawn), product.k.draw(drawn)) for _ in range(count)]
    truth = [Error.drawn(generator).times(kernel, [*grid, *sizes]) for kernel in kernels]
    times = np.array(truth).T
    noisy = times[: len(grid)] * np.exp(generator.normal(0, NOISE, (len(grid), len(kernels))))
    boxes = regions(grid, noisy.tolist())
    tilings = [kernel.tiling(CARD) for kernel in kernels]
    made = estimated(product.ranges, tilings, grid, noisy, CARD.sms, [batch] * len(grid))
    by_boxes = [row[chosen(boxes, one) or 0] / row.min() for one, row in zip(sizes, times[len(grid) :], strict=True)]
    by_estimates = [row[made.best(one, batch)] / row.min() for one, row in zip(sizes, times[len(grid) :], strict=True)]
    return regret_of(by_boxes), regret_of(by_estimates)


def test_estimates_lose_less_than_boxes() -> None:
    boxes, estimates = compare("batched", 0, 100)
    assert estimates.mean < boxes.mean
    assert estimates.worst < boxes.worst


@pytest.mark.soak
@pytest.mark.parametrize("name", ["any", "batched"])
def test_estimates_lose_half_of_what_boxes_do(name: str) -> None:
    found = [compare(name, seed, 600) for seed in range(6)]
    means = [
        [float(np.mean([getattr(one, what) for one in some])) for what in ("mean", "p95", "worst")]
        for some in zip(*found, strict=True)
    ]
    for title, (mean, p95, worst) in zip(("boxes", "estimates"), means, strict=True):
        print(f"\n{name:8} {title:10} geometric mean {mean:.2%}, 95th percentile {p95:.1%}, worst {worst:.0%}", end="")
    (boxes, _, _), (estimates, p95, _) = means
    assert estimates < boxes / 2 and p95 < 0.05
