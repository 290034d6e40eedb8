"""The experts of a mixture by one kernel, which finds the ends of their rows on the device: is it right, and how fast?

    pip install 'gemmgen[torch]'
    python examples/experts.py                # groups of uneven sizes in bf16, on a GPU of sm_90a
    python examples/experts.py --fp8          # the same in e4m3, with a scale for each row
    python examples/experts.py --device cpu   # a small mixture in the emulator

Kernels of a few configs are timed, and the fastest stands beside torch's grouped_mm, or _scaled_grouped_mm for e4m3,
and beside a loop over the groups, for which the host has to know their sizes. All are recorded as CUDA graphs and take
turns. Times are medians over rounds, in microseconds; a ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from statistics import median
from typing import Any, ClassVar

import torch
from graphs import fastest, recorded, times

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
    {"BM": 128, "BN": 256, "CONSUMERS": 2, "STAGES": 4, "BROADCAST": 1},
    {"BM": 128, "BN": 256, "CONSUMERS": 2, "STAGES": 4, "CLUSTER": 2, "ACROSS": 1},
    {"BM": 256, "BN": 128, "CONSUMERS": 2, "STAGES": 4, "CLUSTER": 2, "ACROSS": 1},
    {"BM": 128, "BN": 128, "CONSUMERS": 2, "STAGES": 6, "PINGPONG": 1},
)


class Experts:
    """A mixture in bf16: rows `x` of all groups, which end at `offs`, and the `weight` of each group, N x K."""

    kind: ClassVar[dict[str, Any]] = {"types": "bf16"}  # of the problem

    def __init__(self, x: Any, weight: Any, offs: Any) -> None:
        self.x, self.weight, self.offs = x, weight, offs
        self.ends = offs.tolist()

    def by_kernel(self, kernel: Any) -> Any:
        return gemmgen.torch.grouped_mm(self.x, self.weight.mT, self.offs, kernels=[kernel])

    def launched(self, kernel: Any, out: Any) -> Any:
        return kernel(self.x, self.weight.mT, out, offs=self.offs)

    def by_torch(self) -> Any:
        return torch._grouped_mm(self.x, self.weight.mT, offs=self.offs)

    def of_group(self, group: int, rows: slice, out: Any) -> None:
        torch.mm(self.x[rows], self.weight[group].t(), out=out[rows])

    def wanted_of_group(self, group: int, rows: slice) -> Any:
        return self.x[rows].float() @ self.weight[group].float().t()


class ScaledExperts(Experts):
    """The same in e4m3, with a scale for each row of x and of each weight."""

    kind: ClassVar[dict[str, Any]] = {"types": "e4m3,e4m3,bf16", "compute": "fast", "epilogue": "scale_m+scale_n"}

    def __init__(self, x: Any, weight: Any, offs: Any) -> None:
        (codes, self.scale_a), (weights, self.scale_b) = by_row(x), by_row(weight)
        super().__init__(codes, weights, offs)

    def by_kernel(self, kernel: Any) -> Any:
        operands = self.x, self.weight.mT, self.scale_a, self.scale_b, self.offs
        return gemmgen.torch.scaled_grouped_mm(*operands, kernels=[kernel])

    def launched(self, kernel: Any, out: Any) -> Any:
        scales = {"scale_m": self.scale_a, "scale_n": self.scale_b}
        return kernel(self.x, self.weight.mT, out, offs=self.offs, **scales)

    def by_torch(self) -> Any:
        operands = self.x, self.weight.mT, self.scale_a, self.scale_b
        return torch._scaled_grouped_mm(*operands, offs=self.offs, out_dtype=torch.bfloat16, use_fast_accum=True)

    def of_group(self, group: int, rows: slice, out: Any) -> None:
        scales = {"scale_a": self.scale_a[rows, None], "scale_b": self.scale_b[group][None]}
        how = {"out_dtype": torch.bfloat16, "use_fast_accum": True, "out": out[rows]}
        torch._scaled_mm(self.x[rows], self.weight[group].t(), **scales, **how)

    def wanted_of_group(self, group: int, rows: slice) -> Any:
        return super().wanted_of_group(group, rows) * self.scale_a[rows, None] * self.scale_b[group]


def by_row(x: Any) -> tuple[Any, Any]:
    """e4m3 with a scale of f32 for each row, whose largest magnitude becomes 448."""
    scale = x.abs().amax(-1, keepdim=True) / 448
    return (x / scale).to(torch.float8_e4m3fn), scale.squeeze(-1).float()


def kernels(kind: dict[str, Any], groups: int, n: int, k: int, device: str) -> Iterator[Any]:
    """A loaded kernel for any number of rows, of each config that suits the shape."""
    problem = gemmgen.Problem(None, n, k, layout="rc", inputs=f"groups={groups}", **kind)
    for config in CONFIGS[:: 5 if device == "cpu" else 1]:  # the emulator takes long
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


def groups_of(ends: list[int]) -> Iterator[tuple[int, slice]]:
    """(group, its rows) for each that has some."""
    begins = [0, *ends[:-1]]
    yield from ((group, slice(*rows)) for group, rows in enumerate(zip(begins, ends, strict=True)) if rows[0] < rows[1])


def by_loop(experts: Experts, out: Any) -> None:
    for group, rows in groups_of(experts.ends):
        experts.of_group(group, rows, out)


def compare(mixture: type[Experts], groups: int, rows: int, n: int, k: int, device: str, rounds: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(rows, k, device=device, dtype=torch.bfloat16)
    weight = torch.randn(groups, n, k, device=device, dtype=torch.bfloat16)
    experts = mixture(x, weight, uneven(groups, rows, device))
    wanted = torch.cat([experts.wanted_of_group(*one) for one in groups_of(experts.ends)])
    line = f"{groups:4} groups, {rows:6} rows, {n} x {k}"
    known = []
    for kernel in kernels(mixture.kind, groups, n, k, device):
        out = experts.by_kernel(kernel)
        off = float((out.float() - wanted).abs().max() / wanted.abs().max())
        assert off < 0.02, f"{kernel.name} is off by {off} of the largest number"
        known.append((kernel, out))
    if device == "cpu":
        print(f"{line}: {len(known)} kernels, right")
        return
    ours = [recorded(lambda kernel=kernel, out=out: experts.launched(kernel, out)) for kernel, out in known]
    best = fastest(ours)
    result = torch.empty_like(wanted, dtype=torch.bfloat16)
    theirs = {"torch": recorded(experts.by_torch)}
    try:
        by_loop(experts, result)
        theirs["loop"] = recorded(lambda: by_loop(experts, result))
    except RuntimeError:  # cuBLASLt refuses some products of e4m3 with one row
        line += ", without a loop"
    of_ours, *others = times([ours[best], *theirs.values()], rounds)
    middle = median(of_ours)
    line += f": gemmgen {middle:.1f} us ({2e-6 * rows * n * k / middle:.0f} TFLOPS)"
    for name, other in zip(theirs, others, strict=True):
        ratio = median(one / own for one, own in zip(other, of_ours, strict=True))
        line += f", {name} {median(other):.1f} ({ratio:.2f}x)"
    print(f"{line}   {known[best][0].source.full_name}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--fp8", action="store_true", help="e4m3, with a scale for each row")
    arguments = parser.parse_args()
    with torch.inference_mode():
        for sizes in SMALL if arguments.device == "cpu" else SIZES:
            mixture = ScaledExperts if arguments.fp8 else Experts
            compare(mixture, *sizes, arguments.device, arguments.rounds)


if __name__ == "__main__":
    main()
