"""Convolutions of images in channels_last by one kernel each, which TMA's im2col mode feeds: right, and how fast?

    pip install 'gemmgen[torch]'
    python examples/convolutions.py                # layers of ResNet-50 and of a diffusion model, on a GPU of sm_90a
    python examples/convolutions.py --gradients    # gradients of images and of filters, of a few of these layers
    python examples/convolutions.py --device cpu   # a small one in the emulator, also with --gradients

Kernels of a few configs are timed, and the fastest stands beside cuDNN as torch calls it after its own search
(torch.backends.cudnn.benchmark). All are recorded as CUDA graphs and take turns. Times are medians over rounds, in
microseconds; a ratio is the median of the rounds' ratios.

With --gradients torch.ops.aten.convolution_backward computes one gradient at a time, of bf16 as ours. Our kernel of the
gradient of images takes filters with reversed taps and with channels and filters exchanged: it is timed alone, and with
the copies by torch that make them so.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import geometric_mean, median
from typing import Any

import torch
from graphs import fastest, loaded, recorded, times

import gemmgen
from gemmgen.problem.convolution import Convolution
from gemmgen.problem.inputs import Inputs

# Images, the convolution of one, filters.
LAYERS = (
    (32, "56x56x64_1x1", 64),
    (32, "56x56x64_3x3_p1x1", 64),
    (32, "56x56x64_1x1", 256),
    (32, "56x56x256_1x1", 64),
    (32, "56x56x256_1x1", 128),
    (32, "56x56x128_3x3_p1x1_s2x2", 128),
    (32, "56x56x256_1x1_s2x2", 512),
    (32, "28x28x512_1x1", 128),
    (32, "28x28x128_3x3_p1x1", 128),
    (32, "28x28x128_1x1", 512),
    (32, "28x28x256_3x3_p1x1_s2x2", 256),
    (32, "14x14x1024_1x1", 256),
    (32, "14x14x256_3x3_p1x1", 256),
    (32, "14x14x256_1x1", 1024),
    (32, "14x14x512_3x3_p1x1_s2x2", 512),
    (32, "7x7x2048_1x1", 512),
    (32, "7x7x512_3x3_p1x1", 512),
    (32, "7x7x512_1x1", 2048),
    (2, "64x64x320_3x3_p1x1", 320),
    (2, "64x64x640_3x3_p1x1", 320),
    (2, "32x32x640_3x3_p1x1", 640),
    (2, "32x32x1280_3x3_p1x1", 1280),
    (2, "16x16x1280_3x3_p1x1", 1280),
    (128, "56x56x256_3x3_p1x1", 256),
)
SMALL = ((2, "9x7x16_3x3_p1x0x2x1_s2x1", 24),)
WITH_GRADIENTS = (  # of stride 1, as cuDNN's gradients of images are then convolutions, too
    (32, "56x56x64_3x3_p1x1", 64),
    (32, "28x28x128_3x3_p1x1", 128),
    (32, "14x14x256_3x3_p1x1", 256),
    (32, "14x14x1024_1x1", 256),
    (2, "64x64x320_3x3_p1x1", 320),
    (2, "16x16x1280_3x3_p1x1", 1280),
)
SMALL_WITH_GRADIENTS = ((2, "9x7x16_3x3_p1x1", 24),)
TILES = (  # of rows and columns, by so many warpgroups, with so many stages
    (64, 64, 1, 8),
    (64, 128, 1, 6),
    (128, 64, 2, 8),
    (128, 128, 2, 6),
    (128, 160, 2, 5),
    (128, 256, 2, 4),
    (256, 64, 2, 4),
    (256, 128, 2, 4),
)
CONFIGS = tuple(
    {"BM": bm, "BN": bn, "CONSUMERS": consumers, "STAGES": stages, **more}
    for tiles, more in (
        (TILES, {}),
        (TILES, {"CLUSTER": 2}),
        (TILES[1:4], {"SPLIT": 2, "PERSISTENT": 0}),
        (TILES[1:4], {"SPLIT": 4, "PERSISTENT": 0}),
    )
    for bm, bn, consumers, stages in tiles
)


SMS = 132  # of an H100 and an H200
SPLITS = (1, 2, 4, 8)
NHWC = (0, 2, 3, 1)
Config = Mapping[str, int]


@dataclass(frozen=True)
class Work:
    """One result of a layer, which our kernels and cuDNN compute.

    a, b, out  the kernel's operands and result, NHWC in memory and in their dimensions
    theirs     returns the result as torch makes it, N x C x H x W
    made_b     makes b from the layer's filters, where the kernel does not take these themselves
    """

    kind: str
    problem: gemmgen.Problem
    configs: Sequence[Config]
    a: Any
    b: Any
    out: Any
    theirs: Callable[[], Any]
    made_b: Callable[[], Any] | None = None

    def run(self, kernel: Any) -> None:
        kernel(self.a, self.b, self.out)

    def run_with_made_b(self, kernel: Any) -> None:
        assert self.made_b is not None
        kernel(self.a, self.made_b(), self.out)


class Layer:
    """A convolution with random images, filters and gradients of its result, in bf16 and channels_last."""

    def __init__(self, images: int, text: str, filters: int, device: str) -> None:
        torch.manual_seed(0)
        self.name = f"{images:4} images, {text} -> {filters}"
        self.images, self.filters, self.conv = images, filters, Convolution.parse(text)
        height, width, channels = self.conv.size
        depth = channels * math.prod(self.conv.taps)
        self.how = {"device": device, "dtype": torch.bfloat16, "memory_format": torch.channels_last}
        self.x = torch.randn(images, channels, height, width).to(**self.how)
        self.weight = torch.randn(filters, channels, *self.conv.taps).div(math.sqrt(depth)).to(**self.how)
        self.dy = torch.randn(images, filters, *self.conv.places).to(**self.how)
        self.flop = 2 * self.dy.numel() * depth

    def forward(self) -> Work:
        conv, (top, left, bottom, right) = self.conv, self.conv.pad
        even = (top, left) == (bottom, right)
        padded = self.x if even else torch.nn.functional.pad(self.x, (left, right, top, bottom))
        sizes = {"stride": conv.stride, "dilation": conv.dilation, "padding": (top, left) if even else 0}

        def theirs() -> Any:
            return torch.nn.functional.conv2d(padded, self.weight, **sizes)

        problem = gemmgen.Conv(self.images, filters=self.filters, **vars(conv))
        return Work("forward", problem, CONFIGS, *nhwc(self.x, self.weight, torch.empty_like(self.dy)), theirs)

    def of_x(self) -> Work:
        """The gradient of images, a convolution of dy."""
        channels = self.conv.size[2]
        problem = gemmgen.Conv(self.images, filters=channels, **vars(self.conv.gradient(self.filters)))

        def turned() -> Any:
            filters = self.weight.flip(2, 3).transpose(0, 1).contiguous(memory_format=torch.channels_last)
            return filters.permute(NHWC)

        operands = *nhwc(self.dy), turned(), *nhwc(torch.empty_like(self.x))
        return Work("gradient of images", problem, CONFIGS, *operands, lambda: self._backward(0), turned)

    def of_weight(self) -> Work:
        """The gradient of filters, a product of dy and the images."""
        conv, inputs = self.conv, Inputs(conv=self.conv, wgrad=True)
        problem = gemmgen.Problem(
            self.filters, conv.depth, self.images * conv.per_image, types="bf16", layout="cr", inputs=inputs
        )
        operands, configs = nhwc(self.dy, self.x, torch.empty_like(self.weight)), split_for(problem)
        return Work("gradient of filters", problem, configs, *operands, lambda: self._backward(1))

    def _backward(self, which: int) -> Any:
        conv, wanted = self.conv, [which == 0, which == 1, False]
        sizes = conv.stride, conv.pad[:2], conv.dilation, False, (0, 0), 1
        return torch.ops.aten.convolution_backward(self.dy, self.x, self.weight, None, *sizes, wanted)[which]


def nhwc(*tensors: Any) -> tuple[Any, ...]:
    return tuple(one.permute(NHWC) for one in tensors)


def split_for(problem: gemmgen.Problem) -> list[Config]:
    """Configs for a gradient of filters, which has few tiles and a long K: K is split until blocks occupy more than
    half of the SMs, and further while there are at most two blocks per SM."""
    found: list[Config] = []
    for bm, bn, consumers, stages in TILES:
        tiles = -(-problem.m // bm) * -(-problem.n // bn)
        own = {"BM": bm, "BN": bn, "CONSUMERS": consumers, "STAGES": stages}
        for split in SPLITS:
            fills = split == SPLITS[-1] or 2 * split * tiles > SMS
            if split == 1 and fills:
                found += [own, {**own, "CLUSTER": 2}]
            elif fills and split * tiles <= 2 * SMS:
                found.append({**own, "SPLIT": split, "PERSISTENT": 0})
    return found


def kernels(work: Work, device: str) -> list[Any]:
    """A loaded kernel of each config that suits the layer."""
    sources = []
    for config in work.configs[:: 6 if device == "cpu" else 1]:  # the emulator takes long
        with suppress(gemmgen.InvalidInput):  # of a config that this layer refuses
            sources.append(gemmgen.generate(work.problem, family="wgmma", **config))
    return loaded(sources, device)


def compare(layer: Layer, work: Work, device: str, rounds: int) -> dict[str, float]:
    """cuDNN's time over ours, by what is timed; nothing in the emulator."""
    wanted, known = work.theirs().float().permute(NHWC), []
    for kernel in kernels(work, device):
        work.out.fill_(math.nan)
        work.run(kernel)
        off = float((work.out.float() - wanted).abs().max() / wanted.abs().max())
        assert off < 0.02, f"{kernel.name} is off by {off} of the largest number"
        known.append(kernel)
    line = f"{layer.name}, {work.kind}"
    if device == "cpu":
        print(f"{line}: {len(known)} kernels, right")
        return {}
    ours = [recorded(lambda kernel=kernel: work.run(kernel)) for kernel in known]
    best = fastest(ours)
    runs = {"": ours[best]}
    if work.made_b is not None:
        runs[" with filters turned"] = recorded(lambda: work.run_with_made_b(known[best]))
    others, *of_ours = times([recorded(work.theirs), *runs.values()], rounds)
    ratios = {}
    line += f": cuDNN {median(others):.1f} us"
    for name, own in zip(runs, of_ours, strict=True):
        ratio = ratios[work.kind + name] = median(other / one for other, one in zip(others, own, strict=True))
        line += f", gemmgen{name} {median(own):.1f} ({1e-6 * layer.flop / median(own):.0f} TFLOPS, {ratio:.2f}x)"
    print(f"{line}   {known[best].source.full_name}", flush=True)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--gradients", action="store_true", help="gradients of images and of filters")
    arguments = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    small = arguments.device == "cpu"
    if arguments.gradients:
        layers, results = SMALL_WITH_GRADIENTS if small else WITH_GRADIENTS, (Layer.of_x, Layer.of_weight)
    else:
        layers, results = SMALL if small else LAYERS, (Layer.forward,)
    ratios = defaultdict(list)
    with torch.inference_mode():
        for sizes in layers:
            layer = Layer(*sizes, arguments.device)
            for result in results:
                for name, ratio in compare(layer, result(layer), arguments.device, arguments.rounds).items():
                    ratios[name].append(ratio)
    for name, of_layers in ratios.items():
        print(f"{name}: geometric mean over {len(of_layers)} layers {geometric_mean(of_layers):.2f}x of cuDNN")


if __name__ == "__main__":
    main()
