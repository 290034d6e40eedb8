"""A ResNet-50 with random weights whose convolutions are kernels, by one function: the same outputs, and what time?

    pip install 'gemmgen[torch]' torchvision
    python examples/resnet.py                # 32 images of 224 x 224 in bf16, on a GPU of sm_90a
    python examples/resnet.py --budget 0     # without searches, by the fastest of a few kernels for each layer
    python examples/resnet.py --stem         # its first convolution alone, which copies its images first
    python examples/resnet.py --device cpu   # a tiny network in the emulator

The network is torchvision's, or the same one as written below where torchvision is missing. Searches find a kernel for
each of 24 problems, which layers share; they are cached, so that a second run takes little. Outputs are compared
with those of the network in f32, ours beside torch's, whose BatchNorm2d are folded as well. Both networks, as they are
and by torch.compile, are recorded as CUDA graphs and take turns. Times are medians over rounds, in microseconds of a
forward pass; a ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable, Sequence
from functools import cache
from statistics import median
from typing import Any

import torch
from convolutions import CONFIGS
from graphs import recorded, times
from torch.fx.experimental.optimization import fuse

import gemmgen
import gemmgen.torch

RESNET_50 = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks and stride of each stage
TINY = ((8, 2, 1),)
WIDER = 4  # a block's output has so many times the channels of its width
BUDGET = 64  # candidates of a search


class Bottleneck(torch.nn.Module):
    """1 x 1, 3 x 3 and 1 x 1 taps, and a residual."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        wide = WIDER * width
        self.convs = torch.nn.Sequential(
            *normed(channels, width, 1),
            torch.nn.ReLU(inplace=True),
            *normed(width, width, 3, stride),
            torch.nn.ReLU(inplace=True),
            *normed(width, wide, 1),
        )
        same = (channels, stride) == (wide, 1)
        self.downsample = torch.nn.Identity() if same else torch.nn.Sequential(*normed(channels, wide, 1, stride))

    def forward(self, x: Any) -> Any:
        return torch.relu(self.convs(x) + self.downsample(x))


def normed(channels: int, filters: int, taps: int, stride: int = 1) -> tuple[Any, Any]:
    conv = torch.nn.Conv2d(channels, filters, taps, stride, taps // 2, bias=False)
    return conv, torch.nn.BatchNorm2d(filters)


def resnet(stages: Sequence[tuple[int, int, int]], first: int, classes: int) -> Any:
    layers = [*normed(3, first, 7, 2), torch.nn.ReLU(inplace=True), torch.nn.MaxPool2d(3, 2, 1)]
    channels = first
    for width, blocks, stride in stages:
        for block in range(blocks):
            layers.append(Bottleneck(channels, width, 1 if block else stride))
            channels = WIDER * width
    pooled = torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    return torch.nn.Sequential(*layers, *pooled, torch.nn.Linear(channels, classes))


def network(small: bool, stem: bool) -> Any:
    if stem:
        return torch.nn.Sequential(normed(3, 64, 7, 2)[0])
    if small:
        return resnet(TINY, WIDER * TINY[0][0], 10)  # blocks without a `downsample`
    try:
        from torchvision.models import resnet50
    except ImportError:
        return resnet(RESNET_50, 64, 1000)
    return resnet50()


def in_bf16(model: Any) -> Any:
    """A copy whose convolutions and linear layers are bf16; BatchNorm2d stay f32."""
    found = copy.deepcopy(model).to(memory_format=torch.channels_last)
    for one in found.modules():
        if isinstance(one, torch.nn.Conv2d | torch.nn.Linear):
            one.bfloat16()
    return found


def quickest(problem: gemmgen.Problem) -> Any:
    """The fastest of a few kernels, on operands as a layer has them."""
    conv, m, n, k = problem.inputs.conv, problem.m or 0, problem.n or 0, problem.k or 0
    pixels, channels = (m, k) if conv is None else (conv.images(m) * conv.pixels, conv.size[2])
    drawn = {"device": "cuda", "dtype": torch.bfloat16}
    a, b, c = (torch.randn(*shape, **drawn) for shape in ((pixels, channels), (n, k), (m, n)))
    given: dict[str, Any] = {"beta": 1.0} if problem.epilogue.reads_c else {}
    if problem.epilogue.operands:
        given["bias_n"] = torch.randn(n, device="cuda")
    known: list[tuple[float, Any]] = []
    for config in CONFIGS:
        try:
            source = gemmgen.generate(problem, family="wgmma", **config)
        except gemmgen.InvalidInput:  # a config that this problem refuses
            continue
        kernel = gemmgen.load(source, device="gpu")
        graph = recorded(lambda kernel=kernel: kernel(a, b.t(), c, **given))
        known.append((median(times([graph], 5)[0]), kernel))
    return min(known, key=lambda one: one[0])[1]


def kernels_for(device: str, budget: int) -> Callable[[gemmgen.Problem], Sequence[Any]]:
    @cache
    def found(problem: gemmgen.Problem) -> Sequence[Any]:
        if device == "cpu":
            return [gemmgen.load(gemmgen.generate(problem, family="naive"), device="emulator")]
        start = time.perf_counter()
        kernel = gemmgen.load(gemmgen.tune(problem, budget=budget), device="gpu") if budget else quickest(problem)
        print(f"{time.perf_counter() - start:6.1f} s for {kernel.source.full_name}", flush=True)
        return [kernel]

    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--stem", action="store_true", help="the first convolution alone, of 3 channels")
    parser.add_argument("--images", type=int, help="images at once (32; on the CPU 2)")
    parser.add_argument(
        "--budget", type=int, default=BUDGET, help=f"candidates of a search ({BUDGET}); 0 times a few kernels instead"
    )
    parser.add_argument("--rounds", type=int, default=21)
    arguments = parser.parse_args()
    device, small = arguments.device, arguments.device == "cpu"
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False  # of the network in f32
    size = 16 if small else 224
    x = torch.randn(arguments.images or (2 if small else 32), 3, size, size).to(
        device, memory_format=torch.channels_last
    )
    exact = network(small, arguments.stem).to(device)
    for one in exact.modules():
        if isinstance(one, torch.nn.BatchNorm2d):
            one.momentum = None  # it takes means and variances as they are
    with torch.inference_mode():
        exact(x)
        exact.eval()
        wanted, halves = exact(x), x.bfloat16()
        theirs = in_bf16(fuse(exact))
        ours = gemmgen.torch.fuse_convs(in_bf16(exact), halves, kernels_for(device, arguments.budget))
        for name, reason in ours.left.items():
            print(f"{name} stays torch's: {reason}")
        off, theirs_off = (float((one(halves) - wanted).abs().max() / wanted.abs().max()) for one in (ours, theirs))
        fused = sum(type(one).__name__ == "FusedConv2d" for one in ours.modules())
        print(
            f"{len(x)} images of {size} x {size}, {fused} convolutions by kernels: outputs differ from those in f32 by "
            f"{off:.1e} of the largest, torch's by {theirs_off:.1e}"
        )
        assert off < 2 * theirs_off, "kernels round more than torch"
        if small:
            return
        runs = {"torch": theirs, "gemmgen": ours}
        runs |= {f"{name}, compiled": torch.compile(one) for name, one in runs.items()}
        graphs = [recorded(lambda run=run: run(halves)) for run in runs.values()]
        found = dict(zip(runs, times(graphs, arguments.rounds), strict=True))
        for name, each in found.items():
            ratio = median(other / own for other, own in zip(found["torch"], each, strict=True))
            print(f"{name:18} {median(each):7.1f} us: {ratio:.2f}x of torch")


if __name__ == "__main__":
    main()
