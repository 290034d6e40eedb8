"""torch.nn.LSTM by kernels, a launch for each step: the same outputs, and what time? cuDNN computes torch's.

    pip install 'gemmgen[torch]'
    python examples/lstm.py                # 64 steps in bf16 of three sizes, on a GPU: a search finds the kernels
    python examples/lstm.py --device cpu   # a small one in the emulator

Both are recorded as CUDA graphs, take turns, and have their weights in the L2 cache as far as they fit. Times are
medians over rounds, in microseconds of all steps; the ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
from statistics import median
from typing import Any

import torch
from graphs import recorded, times

import gemmgen
import gemmgen.torch

SIZES = ((1, 1024), (16, 1024), (64, 2048))  # sequences at once, features of x and of h
SMALL = ((3, 40),)
BUDGET = 64  # candidates of a search


def kernel_of(problem: gemmgen.Problem, device: str) -> Any:
    if device == "cpu":
        return gemmgen.load(gemmgen.generate(problem, family="wgmma"), device="emulator")
    return gemmgen.load(gemmgen.tune(problem, budget=BUDGET), device="gpu")


def compare(batch: int, size: int, steps: int, device: str, rounds: int) -> None:
    torch.manual_seed(0)
    theirs = torch.nn.LSTM(size, size).to(device, torch.bfloat16).eval()
    x = torch.randn(steps, batch, size).to(device, torch.bfloat16)
    ((of_x, of_step),) = gemmgen.torch.LSTM.problems(theirs, batch, steps)
    kernels = [(kernel_of(of_x, device), kernel_of(of_step, device))]
    ours = gemmgen.torch.LSTM(theirs, kernels)
    wanted, found = theirs(x)[0].float(), ours(x)[0].float()
    off = float((found - wanted).abs().max())
    assert off < 0.05, f"outputs are {off} apart, and lie between -1 and 1"
    line = f"{batch:4} sequences of {steps} steps, {size} features: outputs at most {off:.1e} apart"
    if device == "cuda":
        graphs = recorded(lambda: theirs(x)), recorded(lambda: ours(x))
        torchs, gemmgens = times(graphs, rounds)
        ratio = median(one / other for one, other in zip(torchs, gemmgens, strict=True))
        line += f"; torch {median(torchs):.1f} us, gemmgen {median(gemmgens):.1f} us: {ratio:.2f}x"
        line += f"   {kernels[0][1].source.full_name}"
    print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--steps", type=int, help="steps (64; on the CPU 3)")
    parser.add_argument("--rounds", type=int, default=21)
    arguments = parser.parse_args()
    small = arguments.device == "cpu"
    with torch.inference_mode():
        for batch, size in SMALL if small else SIZES:
            compare(batch, size, arguments.steps or (3 if small else 64), arguments.device, arguments.rounds)


if __name__ == "__main__":
    main()
