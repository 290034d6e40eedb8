"""torch.nn.LSTM by kernels, a launch for each step: the same outputs, and what time? cuDNN computes torch's.

    pip install 'gemmgen[torch]'
    python examples/lstm.py                # 64 steps in bf16 of three sizes, on a GPU: a search finds the kernels
    python examples/lstm.py --cell         # one step alone, beside torch's cell
    python examples/lstm.py --device cpu   # a small one in the emulator, also with --cell

Both are recorded as CUDA graphs, take turns, and have their weights in the L2 cache as far as they fit. Times are
medians over rounds, in microseconds of all steps; the ratio is the median of the rounds' ratios.

With --cell the products of x and its weights are given and not timed, and all steps have the same x. torch's step is
then what torch.nn.LSTMCell runs behind these products: h * Wh by torch.mm, and the fused kernel of the gates and the
state. Its whole cell multiplies x at each step, too. A graph holds 64 steps (--steps), each of which reads what the
last one wrote; times are per step, and ratios are ours over torch's.
"""

from __future__ import annotations

import argparse
from statistics import geometric_mean, median
from typing import Any

import torch
from graphs import fastest, loaded, recorded, times

import gemmgen
import gemmgen.torch
from gemmgen.torch.lstm import BIASES, GATES, INPUTS

SIZES = ((1, 1024), (16, 1024), (64, 2048))  # sequences at once, features of x and of h
SMALL = ((3, 40),)
BUDGET = 64  # candidates of a search
WARM = 16  # of them those that --cell times again: a search reads operands from memory, and here L2 holds them


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


class Cell:
    """A step of `lstm` for so many sequences, by a kernel and by torch: products of x, and a state to begin with."""

    def __init__(self, lstm: Any, batch: int) -> None:
        self.of_x, self.of_h, *both = (one.detach() for one in lstm.parameters())  # and the biases
        self.torchs_biases = both
        size = lstm.hidden_size
        self.x, self.h = (self.of_h.new_empty(batch, size).normal_() for _ in range(2))
        self.c = torch.randn_like(self.h)
        self.products = self.x @ self.of_x.t()
        of_gates = self.products.float().view(batch, 4, size).transpose(0, 1)[GATES]
        biases = sum(one.float() for one in both).view(4, size)[GATES]
        self.given = dict(zip((*INPUTS, *BIASES), (*of_gates, *biases), strict=True))
        self.weight = self.of_h.view(4, size, size)[GATES].flatten(0, 1).t()
        self.hidden, self.states = torch.stack([self.h] * 2), torch.stack([self.c.float()] * 2)

    def by_kernel(self, kernel: Any, steps: int) -> None:
        """Steps in turns from the first h and c to the second ones, and back."""
        for number in range(steps):
            now, then = number % 2, 1 - number % 2
            state = {"residual": self.states[now], "aux": self.states[then]}
            kernel(self.hidden[now], self.weight, self.hidden[then], **state, **self.given)

    def by_torch(self, steps: int) -> Any:
        h, c = self.h, self.c
        for _ in range(steps):
            h, c, _ = torch.ops.aten._thnn_fused_lstm_cell(
                self.products, torch.mm(h, self.of_h.t()), c, *self.torchs_biases
            )
        return h, c

    def by_cell(self, steps: int) -> Any:
        h, c = self.h, self.c
        for _ in range(steps):
            h, c = torch.lstm_cell(self.x, (h, c), self.of_x, self.of_h, *self.torchs_biases)
        return h, c

    def off(self, found: Any) -> float:
        """The largest difference of an h and a c to those of a step by torch's whole cell."""
        both = zip(found, self.by_cell(1), strict=True)
        return max(float((one.float() - other.float()).abs().max()) for one, other in both)


def kernels_of_step(problem: gemmgen.Problem, device: str) -> list[Any]:
    """Kernels of a step: on a GPU the fastest of a search, those included that it rejects as slower than its winner."""
    if device == "cpu":
        return [kernel_of(problem, device)]
    trials = [trial for trial in gemmgen.tune(problem, budget=BUDGET).trials if trial.timing is not None]
    trials = [trial for trial in trials if trial.failure is None or trial.failure.kind == "rejected"]
    return loaded([trial.source for trial in sorted(trials, key=lambda one: one.time_us)[:WARM]], device)


def compare_cell(batch: int, size: int, steps: int, device: str, rounds: int) -> tuple[float, ...]:
    """Our time of a step over those of torch's step and whole cell; none in the emulator."""
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(size, size).to(device, torch.bfloat16).eval()
    ((_, problem),) = gemmgen.torch.LSTM.problems(lstm, batch)
    kernels, cell, differences = kernels_of_step(problem, device), Cell(lstm, batch), []
    for kernel in kernels:
        cell.by_kernel(kernel, 1)
        differences.append(cell.off((cell.hidden[1], cell.states[1])))
        assert differences[-1] < 0.05, f"{kernel.name}: h and c are {differences[-1]} apart from torch's"
    line = f"{batch:4} sequences, {size} features: h and c of a step at most {max(differences):.1e} apart"
    if device == "cpu":
        print(line)
        return ()
    off = cell.off(cell.by_torch(1))
    assert off < 0.05, f"h and c of torch's step are {off} apart from its whole cell's"
    ours = [recorded(lambda kernel=kernel: cell.by_kernel(kernel, steps)) for kernel in kernels]
    best = fastest(ours)
    graphs = ours[best], recorded(lambda: cell.by_torch(steps)), recorded(lambda: cell.by_cell(steps))
    of_ours, *of_torch = times(graphs, rounds)
    ratios = tuple(median(own / other for own, other in zip(of_ours, one, strict=True)) for one in of_torch)
    us, step, whole = (median(one) / steps for one in (of_ours, *of_torch))
    line += f"; gemmgen {us:.2f} us, torch's step {step:.2f} us ({ratios[0]:.2f}), whole cell {whole:.2f} us"
    print(f"{line} ({ratios[1]:.2f})   {kernels[best].source.full_name}", flush=True)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--steps", type=int, help="steps (64; on the CPU 3)")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--cell", action="store_true", help="one step, whose products of x are given")
    arguments = parser.parse_args()
    small = arguments.device == "cpu"
    run, steps = compare_cell if arguments.cell else compare, arguments.steps or (3 if small else 64)
    with torch.inference_mode():
        ratios = [run(*one, steps, arguments.device, arguments.rounds) for one in (SMALL if small else SIZES)]
    if arguments.cell and not small:
        step, whole = map(geometric_mean, zip(*ratios, strict=True))
        print(f"geometric means over {len(ratios)} sizes: {step:.2f} of torch's step, {whole:.2f} of its whole cell")


if __name__ == "__main__":
    main()
