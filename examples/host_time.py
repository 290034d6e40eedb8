"""Measures the host time of a call from Python, gemmgen beside torch, in microseconds per call.

    pip install 'gemmgen[gpu,torch]'
    python examples/host_time.py            # less than a minute

Each figure is the median over rounds of a burst's mean. A burst of calls is too short to fill the GPU's queue, so that
no call waits for the GPU. A round takes all rows of the table in turn. Products are small (bf16, N = K = 128) and
kernels are not tuned: no figure contains their time on the GPU.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import torch

import gemmgen
import gemmgen.torch

BURST = 200  # calls; a stream's queue holds about a thousand launches
SPEC = """
name = "host"
[[product]]
name = "linear"
types = "bf16"
layout = "rc"
M = "1..8192"
N = {size}
K = {size}
kernels = [{files}]
"""

Call = Callable[[], Any]


def kernel(size: int, **fields: Any) -> Any:
    """A kernel for any M; with TMA and wgmma on sm_90."""
    options = {"family": "wgmma", "arch": "sm_90a"} if torch.cuda.get_device_capability() == (9, 0) else {}
    return gemmgen.generate(problem(size, **fields), **options)


def problem(size: int, **fields: Any) -> gemmgen.Problem:
    return gemmgen.Problem("?", size, size, "bf16", layout="rc", **fields)


def product(size: int, folder: Path) -> Any:
    """A library's product of a kernel for any operands and two for dense ones of these sizes."""
    strides = dict.fromkeys(("lda", "ldb", "ldc"), "?")
    anything = gemmgen.Problem("?", "?", "?", "bf16", layout="rc", pointer_align=2, **strides)
    general = gemmgen.generate(anything, family="simt")
    sources = (general, kernel(size), gemmgen.generate(problem(size), family="mma"))
    files = [folder / f"{one.name}.cu" for one in sources]
    for file, one in zip(files, sources, strict=True):
        file.write_text(one.text)
    spec = folder / "SPEC.toml"
    spec.write_text(SPEC.format(size=size, files=", ".join(f'"{file.name}"' for file in files)))
    gemmgen.library(spec, to=folder / "out", examples=1, points=8)
    return gemmgen.load_library(folder / "out")["linear"]


def pairs(size: int, rows: int, folder: Path) -> dict[str, tuple[Call, Call]]:
    """(gemmgen's call, torch's call) by the row of the table."""

    def draw(*shape: int) -> Any:
        return torch.randn(*shape, device="cuda").bfloat16()

    a, b, out = draw(rows, size), draw(size, size).t(), draw(rows, size)
    plain, biased, linear = (
        gemmgen.load(kernel(size)),
        gemmgen.load(kernel(size, epilogue="bias")),
        product(size, folder),
    )
    plan, large, large_out = plain.plan(a, b, out), draw(8192, size), draw(8192, size)
    weights, both = (torch.nn.Linear(size, size, bias=bias, device="cuda").bfloat16() for bias in (False, True))
    ours, ours_both = gemmgen.torch.Linear.of(weights, [plain]), gemmgen.torch.Linear.of(both, [biased])
    tokens = a[None]

    def each(function: Call, order: Iterator[int]) -> Call:
        """With another M at each call, 2 to 8192 in an order without a pattern, none twice in one run."""

        def call() -> Any:
            m = next(order)
            return function(large[:m], b, out=large_out[:m])

        return call

    def sizes() -> Iterator[int]:
        return cycle(2 + 5003 * place % 8191 for place in range(8191))

    with_out = lambda: torch.mm(a, b, out=out)  # noqa: E731
    return {
        "kernel(a, b, out)": (lambda: plain(a, b, out), with_out),
        "kernel(a, b)": (lambda: plain(a, b), lambda: torch.mm(a, b)),
        "plan()": (plan, with_out),
        "kernel, another M at each call": (each(plain, sizes()), each(torch.mm, sizes())),
        "product(a, b, out)": (lambda: linear(a, b, out), with_out),
        "product, another M at each call": (each(linear, sizes()), each(torch.mm, sizes())),
        "Linear": (lambda: ours(a), lambda: weights(a)),
        "Linear, tokens of a batch": (lambda: ours(tokens), lambda: weights(tokens)),
        "Linear with bias": (lambda: ours_both(a), lambda: both(a)),
    }


def burst(call: Call) -> float:
    """Microseconds per call."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(BURST):
        call()
    return (time.perf_counter() - start) / BURST * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=128, help="N and K, a multiple of 64")
    parser.add_argument("--rows", type=int, default=64, help="M, where it stays")
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU: torch.cuda.is_available() is False", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        calls = pairs(arguments.size, arguments.rows, Path(folder))
        times: dict[str, list[tuple[float, ...]]] = {name: [] for name in calls}
        for number in range(arguments.rounds + 2):
            for name, both in calls.items():
                found = tuple(map(burst, both))
                if number > 1:  # the first rounds compile, and fill caches
                    times[name].append(found)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {arguments.rounds} rounds of {BURST} calls")
    print(f"{'microseconds per call':34}{'gemmgen':>10}{'torch':>10}{'ratio':>8}")
    for name, rounds in times.items():
        ours, theirs = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"{name:34}{ours:10.2f}{theirs:10.2f}{ours / theirs:8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
