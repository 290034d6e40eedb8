"""Convolutions of images in channels_last by one kernel each, which TMA's im2col mode feeds: right, and how fast?

    pip install 'gemmgen[torch]'
    python examples/convolutions.py                # layers of ResNet-50 and of a diffusion model, on a GPU of sm_90a
    python examples/convolutions.py --device cpu   # a small one in the emulator

Kernels of a few configs are timed, and the fastest stands beside cuDNN as torch calls it after its own search
(torch.backends.cudnn.benchmark). All are recorded as CUDA graphs and take turns. Times are medians over rounds, in
microseconds; a ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from statistics import geometric_mean, median
from typing import Any

import torch
from graphs import fastest, recorded, times

import gemmgen
import gemmgen.torch
from gemmgen.problem.convolution import Convolution

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


def kernels(images: int, conv: Convolution, filters: int, device: str) -> Iterator[Any]:
    """A loaded kernel of each config that suits the layer."""
    problem = gemmgen.Conv(images, filters=filters, **vars(conv))
    for config in CONFIGS:
        try:
            source = gemmgen.generate(problem, family="wgmma", **config)
        except gemmgen.InvalidInput:  # a config that this layer refuses
            continue
        yield gemmgen.load(source, device="emulator" if device == "cpu" else "gpu")


def compare(images: int, text: str, filters: int, device: str, rounds: int) -> float | None:
    """torch's time over ours of one layer; None in the emulator."""
    conv = Convolution.parse(text)
    torch.manual_seed(0)
    height, width, channels = conv.size
    last = {"device": device, "dtype": torch.bfloat16, "memory_format": torch.channels_last}
    x = torch.randn(images, channels, height, width).to(**last)
    weight = torch.randn(filters, channels, *conv.taps).div(math.sqrt(channels * math.prod(conv.taps))).to(**last)
    top, left, bottom, right = conv.pad
    even = (top, left) == (bottom, right)
    padded = x if even else torch.nn.functional.pad(x, (left, right, top, bottom))
    sizes = {"stride": conv.stride, "dilation": conv.dilation, "padding": (top, left) if even else 0}

    def theirs() -> Any:
        return torch.nn.functional.conv2d(padded, weight, **sizes)

    wanted, known = theirs().float(), []
    for kernel in kernels(images, conv, filters, device):
        out = gemmgen.torch.conv2d(x, weight, kernels=[kernel])
        off = float((out.float() - wanted).abs().max() / wanted.abs().max())
        assert off < 0.02, f"{kernel.name} is off by {off} of the largest number"
        known.append(kernel)
    line = f"{images:4} images, {text} -> {filters}"
    if device == "cpu":
        print(f"{line}: {len(known)} kernels, right")
        return None
    nhwc = [one.permute(0, 2, 3, 1) for one in (x, weight, out)]
    ours = [recorded(lambda kernel=kernel: kernel(*nhwc)) for kernel in known]
    best = fastest(ours)
    of_ours, others = times([ours[best], recorded(theirs)], rounds)
    ratio = median(other / own for other, own in zip(others, of_ours, strict=True))
    flop = 2 * out.numel() * channels * math.prod(conv.taps)
    print(
        f"{line}: gemmgen {median(of_ours):.1f} us ({1e-6 * flop / median(of_ours):.0f} TFLOPS), "
        f"cuDNN {median(others):.1f} ({ratio:.2f}x)   {known[best].source.full_name}",
        flush=True,
    )
    return ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rounds", type=int, default=21)
    arguments = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    layers = SMALL if arguments.device == "cpu" else LAYERS
    with torch.inference_mode():
        ratios = [compare(*layer, arguments.device, arguments.rounds) for layer in layers]
    if arguments.device == "cuda":
        print(f"geometric mean over {len(ratios)} layers: {geometric_mean(ratios):.2f}x of cuDNN")


if __name__ == "__main__":
    main()
