"""Logits of one prompt, alone and in a batch of 64: equal to the bit with gemmgen's kernels, and with torch's?

    pip install 'gemmgen[torch]'
    python examples/invariant.py                    # on a GPU of sm_90a; the first run tunes a library, for minutes
    python examples/invariant.py --library FOLDER   # the library's folder (./invariant), made if it is missing

A serving system puts a request into whatever batch there is. If the kernel depends on the number of rows, so do the
bits of its results, and a model samples another token. All linear layers here share one library whose product says
`invariant = true`: its kernels sum in one order, whichever of them serves a call.

The model is small and has random weights. What stands between its linear layers treats each row, or each prompt, by
itself, in torch as in gemmgen: attention runs prompt by prompt.
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention, silu

import gemmgen
import gemmgen.torch

WIDTH, HEADS, LAYERS, PROMPT, BATCH, PLACE = 4096, 32, 2, 17, 64, 9

SPEC = f"""name = "invariant"
[[product]]
name = "linear"
types = "bf16"
layout = "rc"
M = "1..{PROMPT * BATCH}"
N = {WIDTH}
K = {WIDTH}
invariant = true
"""


class Layer(nn.Module):
    """Attention and a gated product, each behind a norm and beside a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_gate = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        names = ("query", "key", "value", "out", "gate", "up", "down")
        self.linear = nn.ModuleDict({name: nn.Linear(WIDTH, WIDTH, bias=False) for name in names})

    def forward(self, x: Any) -> Any:
        normed = self.before_attention(x)
        query, key, value = (
            self.linear[name](normed).unflatten(-1, (HEADS, -1)).transpose(1, 2) for name in ("query", "key", "value")
        )
        heads = [
            scaled_dot_product_attention(*(one[place : place + 1] for one in (query, key, value)), is_causal=True)
            for place in range(len(x))
        ]
        x = x + self.linear["out"](torch.cat(heads).transpose(1, 2).flatten(2))
        normed = self.before_gate(x)
        return x + self.linear["down"](silu(self.linear["gate"](normed)) * self.linear["up"](normed))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.logits = nn.Embedding(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))

    def forward(self, tokens: Any) -> Any:
        return self.logits(self.layers(self.embedding(tokens)))


def library(folder: Path) -> Any:
    """The product of the library in `folder`, which is made if it is missing."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        spec = folder.with_suffix(".toml")
        spec.write_text(SPEC)
        gemmgen.library(spec, to=folder)
    return gemmgen.load_library(folder)["linear"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path, metavar="FOLDER", default=Path("invariant"))
    folder = parser.parse_args().library
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = Model().to(torch.bfloat16).eval()
        tokens = torch.randint(WIDTH, (BATCH, PROMPT))
    ours = copy.deepcopy(model)
    product = library(folder)
    gemmgen.torch.replace_linear(ours, lambda linear: [product], invariant=True)
    with torch.inference_mode():
        for name, one in (("torch", model), ("gemmgen", ours)):
            alone, together = one(tokens[PLACE : PLACE + 1])[0], one(tokens)[PLACE]
            different = int((alone != together).sum())
            print(f"{name:8}{different:8,} of {alone.numel():,} logits differ between a prompt alone and in a batch")
    assert different == 0, "gemmgen's logits depend on the batch"


if __name__ == "__main__":
    main()
