"""The experts of a mixture by one kernel, which finds the ends of their rows on the device: is it right, and how fast?

    pip install 'gemmgen[torch]'
    python examples/experts.py                # groups of uneven sizes in bf16, on a GPU of sm_90a
    python examples/experts.py --device cpu   # a small mixture in the emulator

Kernels of a few configs are timed, and the fastest stands beside torch's grouped_mm and beside a loop over the groups,
for which the host has to know their sizes. All are recorded as CUDA graphs and take turns. Times are medians over
rounds, in microseconds; a ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from statistics import median
from typing import Any

import torch
from graphs import recorded, times

import gemmgen
import gemmgen.torch

# Groups, rows of all of them, N, K.
SIZES = (
    (8, 64, 28672, 4096),
    (8, 4096, 28672, 4096),
    (64, 8192, 2816, 2048),
    (128, 256, 1536, 2048),
    (128, 8192, 1536, 2048),
    (128, 65536, 1536, 2048),
    (32, 4096, 4096, 7168),
    (256, 8192, 4096, 7168),
)
SMALL = ((5, 70, 64, 128),)
FEW = {"SWAP": 1, "CONSUMERS": 2, "BN": 128, "BROADCAST": 1}
CONFIGS = (
    {**FEW, "BM": 8, "STAGES": 8},
    {**FEW, "BM": 16, "STAGES": 7},
    {**FEW, "BM": 32, "STAGES": 7},
    {**FEW, "BM": 64, "STAGES": 6},
    {**FEW, "BM": 64, "BN": 256, "CONSUMERS": 2, "STAGES": 4},
    {"BM": 64, "BN": 256, "CONSUMERS": 1, "STAGES": 4},
    {"BM": 128, "BN": 128, "CONSUMERS": 2, "STAGES": 5},
    {"BM": 128, "BN": 256, "CONSUMERS": 2, "STAGES": 4},
    {"BM": 128, "BN": 256, "CONSUMERS": 2, "STAGES": 4, "CLUSTER": 2, "ACROSS": 1},
)


def kernels(groups: int, n: int, k: int, device: str) -> Iterator[Any]:
    """A loaded kernel for any number of rows, of each config that suits the shape."""
    problem = gemmgen.Problem(None, n, k, "bf16", layout="rc", inputs=f"groups={groups}")
    for config in CONFIGS:
        try:
            source = gemmgen.generate(problem, family="wgmma", **config)
        except gemmgen.InvalidInput:  # a config that this shape refuses
            continue
        yield gemmgen.load(source, device="emulator" if device == "cpu" else "gpu")


def uneven(groups: int, rows: int, device: str) -> Any:
    """The ends of groups of random sizes; a few are several times as large as others, and some may be empty."""
    shares = torch.rand(groups).pow(2)
    counts = torch.bincount(torch.multinomial(shares, rows, replacement=True), minlength=groups)
    return counts.cumsum(0, dtype=torch.int32).to(device)


def by_loop(x: Any, weight: Any, ends: list[int], out: Any) -> Any:
    begin = 0
    for group, end in enumerate(ends):
        if end > begin:
            torch.mm(x[begin:end], weight[group].t(), out=out[begin:end])
        begin = end
    return out


def compare(groups: int, rows: int, n: int, k: int, device: str, rounds: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(rows, k, device=device, dtype=torch.bfloat16)
    weight = torch.randn(groups, n, k, device=device, dtype=torch.bfloat16)
    offs = uneven(groups, rows, device)
    ends = offs.tolist()
    wanted = by_loop(x, weight, ends, x.new_empty(rows, n)).float()
    line = f"{groups:4} groups, {rows:6} rows, {n} x {k}"
    known = []
    for kernel in kernels(groups, n, k, device):
        out = gemmgen.torch.grouped_mm(x, weight.mT, offs, kernels=[kernel])
        off = float((out.float() - wanted).abs().max() / wanted.abs().max())
        assert off < 0.02, f"{kernel.name} is off by {off} of the largest number"
        known.append((kernel, out))
    if device == "cpu":
        print(f"{line}: {len(known)} kernels, right")
        return
    ours = [recorded(lambda kernel=kernel, out=out: kernel(x, weight.mT, out, offs=offs)) for kernel, out in known]
    best = min(range(len(ours)), key=lambda one: median(times([ours[one]], 5)[0]))
    result = torch.empty_like(wanted, dtype=torch.bfloat16)
    theirs = [
        recorded(lambda: torch._grouped_mm(x, weight.mT, offs=offs)),
        recorded(lambda: by_loop(x, weight, ends, result)),
    ]
    of_ours, *others = times([ours[best], *theirs], rounds)
    ratios = [median(one / own for one, own in zip(other, of_ours, strict=True)) for other in others]
    middle = median(of_ours)
    print(
        f"{line}: gemmgen {middle:.1f} us ({2e-6 * rows * n * k / middle:.0f} TFLOPS), "
        f"grouped_mm {median(others[0]):.1f} ({ratios[0]:.2f}x), loop {median(others[1]):.1f} ({ratios[1]:.2f}x)   "
        f"{known[best][0].source.full_name}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rounds", type=int, default=21)
    arguments = parser.parse_args()
    with torch.inference_mode():
        for sizes in SMALL if arguments.device == "cpu" else SIZES:
            compare(*sizes, arguments.device, arguments.rounds)


if __name__ == "__main__":
    main()
