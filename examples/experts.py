"""The experts of a mixture by one kernel, which finds the ends of their rows on the device: is it right, and how fast?

    pip install 'gemmgen[torch]'
    python examples/experts.py                # groups of uneven sizes in bf16, on a GPU of sm_90a
    python examples/experts.py --fp8          # the same in e4m3, with a scale for each row
    python examples/experts.py --blocks       # in e4m3 with scales of blocks, 1 x 128 of x and 128 x 128 of weights
    python examples/experts.py --gather       # in bf16, with rows of tokens that an index names
    python examples/experts.py --scatter      # in bf16, with weighted rows of results that go where an index says
    python examples/experts.py --device cpu   # a small mixture in the emulator, also with each of the others

Kernels of a few configs are timed, and the fastest stands beside torch's grouped_mm, or _scaled_grouped_mm for e4m3,
and beside a loop over the groups, for which the host has to know their sizes. All are recorded as CUDA graphs and take
turns. Times are medians over rounds, in microseconds; a ratio is the median of the rounds' ratios. A contender that
refuses a product, as cuBLASLt does some with few rows, is left out of its line, and the reason stands there.

--blocks has a loop alone, of torch.nn.functional.scaled_mm: cuBLASLt. That takes a multiple of 4 rows, so each group
has rows of zeros behind its own, in a copy that is made before the timing.

--gather compares with torch.index_select and a product of the rows that it copies, both timed: by a kernel of the same
config as ours, and by the fastest of those for copied rows. Each token goes to 2 to 8 experts. --scatter compares in
the same way with a product and index_copy_ of its rows.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from statistics import geometric_mean, median
from typing import Any, ClassVar

import torch
from graphs import fastest, loaded, recorded, times
from torch.nn import functional

import gemmgen
from gemmgen.arrays.quantising import quantise_rows, quantise_squares

Config = Mapping[str, int]

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
CONFIGS: tuple[Config, ...] = (
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
OF_BLOCKS: tuple[Config, ...] = (  # scaled sums take registers beside those of tensor cores: tiles are smaller
    {"BM": 64, "BN": 64, "CONSUMERS": 1, "STAGES": 8},
    {"BM": 64, "BN": 128, "CONSUMERS": 1, "STAGES": 6},
    {"BM": 64, "BN": 128, "CONSUMERS": 1, "STAGES": 6, "BROADCAST": 1},
    {"BM": 64, "BN": 128, "CONSUMERS": 2, "STAGES": 6, "PINGPONG": 1},
    {"BM": 128, "BN": 64, "CONSUMERS": 2, "STAGES": 8, "BROADCAST": 1},
    {"BM": 128, "BN": 128, "CONSUMERS": 2, "STAGES": 6},
    {"BM": 128, "BN": 128, "CONSUMERS": 2, "STAGES": 5, "BROADCAST": 1},
    {"BM": 128, "BN": 128, "CONSUMERS": 2, "STAGES": 5, "CLUSTER": 2, "ACROSS": 1},
    {"BM": 128, "BN": 160, "CONSUMERS": 2, "STAGES": 4, "IN_FLIGHT": 0},
    {"BM": 256, "BN": 64, "CONSUMERS": 2, "STAGES": 4},
)
BLOCK = 128  # elements along K, and columns of a weight, that share a scale
MOST_OFF = 0.02  # of the largest number: results are rounded to bf16
WHOLE = 4  # cuBLASLt reads scales of so many rows, or blocks along K, together


class Experts:
    """A mixture in bf16: rows `x` of all groups, which end at `offs`, and the `weight` of each group, N x K."""

    kind: ClassVar[dict[str, Any]] = {"types": "bf16"}  # of the problem
    inputs: ClassVar[str] = ""  # of the problem, behind the number of groups
    configs: ClassVar[tuple[Config, ...]] = CONFIGS

    def __init__(self, x: Any, weight: Any, offs: Any) -> None:
        self.x, self.weight, self.offs = x, weight, offs
        self.ends = offs.tolist()
        self.operands: dict[str, Any] = {}  # of a kernel, by name
        self.result = x.new_empty((self.ends[-1], weight.shape[1]), dtype=torch.bfloat16)  # of all but kernels

    def run(self, kernel: Any, out: Any) -> None:
        kernel(self.x, self.weight.mT, out, offs=self.offs, **self.operands)

    def others(self, best: int) -> dict[str, Callable[[], Any]]:
        """The functions that are timed beside our best kernel, `configs[best]`, by name. Each returns the rows of C, or
        those of each group."""
        return {"torch": self.by_torch, "loop": self.by_loop}

    def by_torch(self) -> Any:
        return torch._grouped_mm(self.x, self.weight.mT, offs=self.offs)

    def by_loop(self) -> Any:
        return [self.of_group(group, rows, self.result[rows]) for group, rows in groups_of(self.ends)]

    def of_group(self, group: int, rows: slice, out: Any) -> Any:
        return torch.mm(self.x[rows], self.weight[group].t(), out=out)

    def wanted(self) -> Any:
        return torch.cat([self.wanted_of_group(*one) for one in groups_of(self.ends)])

    def wanted_of_group(self, group: int, rows: slice) -> Any:
        return self.x[rows].float() @ self.weight[group].float().t()


class ScaledExperts(Experts):
    """The same in e4m3, with a scale for each row of x and of each weight."""

    kind: ClassVar[dict[str, Any]] = {"types": "e4m3,e4m3,bf16", "compute": "fast", "epilogue": "scale_m+scale_n"}

    def __init__(self, x: Any, weight: Any, offs: Any) -> None:
        (codes, self.scale_a), (weights, self.scale_b) = by_row(x), by_row(weight)
        super().__init__(codes, weights, offs)
        self.operands = {"scale_m": self.scale_a, "scale_n": self.scale_b}

    def by_torch(self) -> Any:
        operands = self.x, self.weight.mT, self.scale_a, self.scale_b
        return torch._scaled_grouped_mm(*operands, offs=self.offs, out_dtype=torch.bfloat16, use_fast_accum=True)

    def of_group(self, group: int, rows: slice, out: Any) -> Any:
        scales = {"scale_a": self.scale_a[rows, None], "scale_b": self.scale_b[group][None]}
        how = {"out_dtype": torch.bfloat16, "use_fast_accum": True, "out": out}
        return torch._scaled_mm(self.x[rows], self.weight[group].t(), **scales, **how)

    def wanted_of_group(self, group: int, rows: slice) -> Any:
        return super().wanted_of_group(group, rows) * self.scale_a[rows, None] * self.scale_b[group]


class BlockExperts(Experts):
    """The same in e4m3, with scales for 1 x 128 elements of x and for 128 x 128 of each weight."""

    kind: ClassVar[dict[str, Any]] = {"types": "e4m3,e4m3,bf16", "compute": "promoted"}
    inputs: ClassVar[str] = "+blocks"
    configs: ClassVar[tuple[Config, ...]] = OF_BLOCKS

    def __init__(self, x: Any, weight: Any, offs: Any) -> None:
        groups, n, k = weight.shape
        codes, self.scales_a = quantise_rows(x)
        weights = torch.empty_like(weight, dtype=torch.float8_e4m3fn)
        self.scales_b = x.new_empty((groups, -(-n // BLOCK), -(-k // BLOCK)), dtype=torch.float32)
        for group in range(groups):
            weights[group], self.scales_b[group] = quantise_squares(weight[group])
        super().__init__(codes, weights, offs)
        self.operands = {"scales_a": self.scales_a, "scales_b": self.scales_b}
        self.padded = {group: self.padded_of_group(group, rows) for group, rows in groups_of(self.ends)}

    def padded_of_group(self, group: int, rows: slice) -> tuple[Any, Any, Any]:
        """Rows of x and both scales of a group as cuBLASLt takes them: a multiple of WHOLE rows and blocks along K."""
        count, along_k = rows.stop - rows.start, self.scales_b.shape[2]
        x = self.x.new_zeros((count + -count % WHOLE, self.x.shape[1]))
        x[:count] = self.x[rows]
        scales_a = functional.pad(self.scales_a[:, rows], (0, -count % WHOLE)).contiguous()
        scales_b = functional.pad(self.scales_b[group], (0, -along_k % WHOLE)).contiguous()
        return x, scales_a.t(), scales_b.t()

    def others(self, best: int) -> dict[str, Callable[[], Any]]:
        return {"loop": self.by_loop}  # torch has no grouped product with such scales on these cards

    def of_group(self, group: int, rows: slice, out: Any) -> Any:
        x, scales_a, scales_b = self.padded[group]
        recipes = functional.ScalingType.BlockWise1x128, functional.ScalingType.BlockWise128x128
        of_a, of_b = zip((scales_a, scales_b), recipes, strict=True)
        made = functional.scaled_mm(x, self.weight[group].t(), *of_a, *of_b, output_dtype=torch.bfloat16)
        return made[: rows.stop - rows.start]

    def wanted_of_group(self, group: int, rows: slice) -> Any:
        n, k = self.weight.shape[1:]
        of_x = self.scales_a[:, rows].t().repeat_interleave(BLOCK, 1)[:, :k]
        of_weight = self.scales_b[group].repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)[:n, :k]
        return (self.x[rows].float() * of_x) @ (self.weight[group].float() * of_weight).t()


class IndexedExperts(Experts):
    """A mixture in bf16 with an index of rows, beside which stands a product of `beside` and a copy of rows."""

    beside: ClassVar[type[Experts]] = Experts

    def others(self, best: int) -> dict[str, Callable[[], Any]]:
        plain = kernels(self.beside, self.weight)
        runs = {place: lambda kernel=kernel: self.by_copies(kernel) for place, kernel in plain.items()}
        first = list(runs.values())[fastest([recorded(run) for run in runs.values()])]
        return {"copies and the same config": runs[best], "copies and the fastest": first}

    def by_copies(self, kernel: Any) -> Any:
        raise NotImplementedError


class GatheredExperts(IndexedExperts):
    """A mixture in bf16 whose rows are those of `x` that an index names, in each group in ascending order."""

    inputs: ClassVar[str] = "+gathered"

    def __init__(self, x: Any, weight: Any, offs: Any) -> None:
        rows, groups = len(x), len(weight)
        experts = min(8, max(2, groups // 4))  # of a token
        tokens = -(-rows // experts)
        super().__init__(x[:tokens], weight, offs)
        of_row = torch.searchsorted(offs, torch.arange(rows, dtype=offs.dtype, device=x.device), right=True)
        drawn = torch.randperm(rows, device=x.device) // experts
        self.index = (of_row * tokens + drawn).sort().values.remainder(tokens).int()
        self.operands = {"index_a": self.index}
        self.copied = torch.empty_like(x)

    def by_copies(self, kernel: Any) -> Any:
        torch.index_select(self.x, 0, self.index, out=self.copied)
        kernel(self.copied, self.weight.mT, self.result, offs=self.offs)
        return self.result

    def wanted_of_group(self, group: int, rows: slice) -> Any:
        return self.x[self.index[rows]].float() @ self.weight[group].float().t()


class WeightedExperts(Experts):
    """A mixture in bf16 whose rows are multiplied by the router's weights."""

    kind: ClassVar[dict[str, Any]] = {"types": "bf16", "epilogue": "scale_m"}


class ScatteredExperts(IndexedExperts):
    """The same with an index of the rows of C that rows become, in each group in ascending order."""

    kind: ClassVar[dict[str, Any]] = WeightedExperts.kind
    inputs: ClassVar[str] = "+scattered"
    beside: ClassVar[type[Experts]] = WeightedExperts

    def __init__(self, x: Any, weight: Any, offs: Any) -> None:
        super().__init__(x, weight, offs)
        rows, weights = len(x), torch.rand(len(x), device=x.device)
        of_row = torch.searchsorted(offs, torch.arange(rows, dtype=offs.dtype, device=x.device), right=True)
        self.places = (of_row * rows + torch.randperm(rows, device=x.device)).sort().values.remainder(rows)
        self.operands = {"index_c": self.places.int(), "scale_m": weights}
        self.ordered = torch.empty_like(self.result)

    def by_copies(self, kernel: Any) -> Any:
        kernel(self.x, self.weight.mT, self.ordered, offs=self.offs, scale_m=self.operands["scale_m"])
        return self.result.index_copy_(0, self.places, self.ordered)

    def wanted(self) -> Any:
        found = super().wanted() * self.operands["scale_m"][:, None]
        return torch.empty_like(found).index_copy_(0, self.places, found)


MIXTURES = {
    "--fp8": ScaledExperts,
    "--blocks": BlockExperts,
    "--gather": GatheredExperts,
    "--scatter": ScatteredExperts,
}


def by_row(x: Any) -> tuple[Any, Any]:
    """e4m3 with a scale of f32 for each row, whose largest magnitude becomes 448."""
    scale = x.abs().amax(-1, keepdim=True) / 448
    return (x / scale).to(torch.float8_e4m3fn), scale.squeeze(-1).float()


def kernels(mixture: type[Experts], weight: Any) -> dict[int, Any]:
    """A loaded kernel for any number of rows, of each config that suits the shape, by the config's place."""
    (groups, n, k), device, sources = weight.shape, weight.device.type, {}
    problem = gemmgen.Problem(None, n, k, layout="rc", inputs=f"groups={groups}{mixture.inputs}", **mixture.kind)
    for place, config in enumerate(mixture.configs):
        if device == "cpu" and place % 5:  # the emulator takes long
            continue
        with suppress(gemmgen.InvalidInput):  # of a config that this shape refuses
            sources[place] = gemmgen.generate(problem, family="wgmma", **config)
    return dict(zip(sources, loaded(list(sources.values()), device), strict=True))


def uneven(groups: int, rows: int, device: str) -> Any:
    """The ends of groups of random sizes; a few are several times as large as others, and some may be empty."""
    shares = torch.rand(groups).pow(2)
    counts = torch.bincount(torch.multinomial(shares, rows, replacement=True), minlength=groups)
    return counts.cumsum(0, dtype=torch.int32).to(device)


def groups_of(ends: list[int]) -> Iterator[tuple[int, slice]]:
    """(group, its rows) for each that has some."""
    begins = [0, *ends[:-1]]
    yield from ((group, slice(*rows)) for group, rows in enumerate(zip(begins, ends, strict=True)) if rows[0] < rows[1])


def off(found: Any, wanted: Any) -> float:
    """The largest difference, in units of the largest number."""
    return float((found.float() - wanted).abs().max() / wanted.abs().max())


def refusal(run: Callable[[], Any], wanted: Any) -> str:
    """Why a contender is left out; "" if it computes `wanted`."""
    try:
        found = run()
    except (RuntimeError, ValueError) as error:  # of torch's checks and of cuBLASLt
        return str(error).splitlines()[0]
    found = found if isinstance(found, torch.Tensor) else torch.cat(found)
    difference = off(found, wanted)
    return "" if difference < MOST_OFF else f"it is off by {difference:.1e} of the largest number"


def compare(
    mixture: type[Experts], groups: int, rows: int, n: int, k: int, device: str, rounds: int
) -> dict[str, float]:
    """The times of others over ours, by name; nothing in the emulator."""
    torch.manual_seed(0)
    x = torch.randn(rows, k, device=device, dtype=torch.bfloat16)
    weight = torch.randn(groups, n, k, device=device, dtype=torch.bfloat16)
    experts = mixture(x, weight, uneven(groups, rows, device))
    wanted, line = experts.wanted(), f"{groups:4} groups, {rows:6} rows, {n} x {k}"
    known, out = kernels(mixture, weight), torch.empty_like(experts.result)
    for kernel in known.values():
        experts.run(kernel, out.fill_(math.nan))
        difference = off(out, wanted)
        assert difference < MOST_OFF, f"{kernel.name} is off by {difference} of the largest number"
    if device == "cpu":
        print(f"{line}: {len(known)} kernels, right")
        return {}
    graphs = {place: recorded(lambda kernel=kernel: experts.run(kernel, out)) for place, kernel in known.items()}
    best = list(graphs)[fastest(list(graphs.values()))]
    others = experts.others(best)
    reasons = {name: refusal(run, wanted) for name, run in others.items()}
    theirs = {name: recorded(run) for name, run in others.items() if not reasons[name]}
    of_ours, *of_others = times([graphs[best], *theirs.values()], rounds)
    line += f": gemmgen {median(of_ours):.1f} us ({2e-6 * rows * n * k / median(of_ours):.0f} TFLOPS)"
    ratios = {}
    for name, other in zip(theirs, of_others, strict=True):
        ratios[name] = median(one / own for one, own in zip(other, of_ours, strict=True))
        line += f", {name} {median(other):.1f} ({ratios[name]:.2f}x)"
    fewest = min(rows.stop - rows.start for _, rows in groups_of(experts.ends))
    for name, reason in reasons.items():
        line += f", {name} left out (groups have {fewest} rows or more: {reason})" if reason else ""
    print(f"{line}   {known[best].source.full_name}", flush=True)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rounds", type=int, default=21)
    which = parser.add_mutually_exclusive_group()
    for option, mixture in MIXTURES.items():
        told = f"{mixture.__doc__}".splitlines()[0]
        which.add_argument(option, dest="mixture", action="store_const", const=mixture, help=told)
    parser.set_defaults(mixture=Experts)
    arguments = parser.parse_args()
    all_ratios = defaultdict(list)
    with torch.inference_mode():
        for sizes in SMALL if arguments.device == "cpu" else SIZES:
            ratios = compare(arguments.mixture, *sizes, arguments.device, arguments.rounds)
            for name, ratio in ratios.items():
                all_ratios[name].append(ratio)
            if len(ratios) > 1:
                all_ratios["the fastest of them"].append(min(ratios.values()))
    means = [f"{name} {geometric_mean(found):.2f}x over {len(found)} sizes" for name, found in all_ratios.items()]
    if means:
        print(f"geometric means: {', '.join(means)}")


if __name__ == "__main__":
    main()
