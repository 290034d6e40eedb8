"""A language model of `transformers` (random weights) with linear layers by kernels: the same logits, and what time?

    pip install 'gemmgen[torch]' transformers
    python examples/transformer.py                        # Llama-3.2-1B's configuration in bf16, on a GPU of sm_90a
    python examples/transformer.py --libraries libraries  # by libraries that are tuned here, which takes minutes
    python examples/transformer.py --device cpu           # a tiny model in the emulator
    python examples/transformer.py --model 8B --fuse --codes --batch 1 8     # weights of 4 bits
    python examples/transformer.py --model 8B --fuse --blocks --prompt 4096  # e4m3, with scales of blocks

With --codes the weights of all layers but the head are quantised to 4 bits, with a scale for each 128 along K (all
layers get those of the first one, so that few are quantised). torch multiplies the rounded weights in bf16, and both
models are compared with the unrounded weights in f32: torch's error is that of rounding. With --blocks weights and
activations of these layers are rounded to e4m3, and torch's logits are those of the rounded numbers, multiplied in f32.
--tune searches for the kernels of both. --fuse multiplies q, k and v at once, and gate and up, in both models;
--compile lets torch.compile fuse what surrounds the products when both decode.

Without --libraries layers of one shape share two kernels that nobody tuned: one for a single row, one for any number.
With it they share a library, which chooses among its kernels by the number of rows. Libraries that are missing in that
folder are made first (SPEC.toml needs Python 3.11), others are loaded.

Logits are compared with those of the model's weights in f32, ours beside torch's. Prefill is the whole prompt at once,
decode one token after the other with the cache of keys and values; a CUDA graph of it does not wait for Python. Times
are medians over rounds in which torch and gemmgen take turns; the ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers
from graphs import Run, recorded

import gemmgen
import gemmgen.torch
from gemmgen.arrays.quantising import quantise_rows
from gemmgen.checkpoints.weight import QuantisedWeight

LLAMA_1B = {
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "tie_word_embeddings": True,
}
LLAMA_8B = {
    **LLAMA_1B,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "tie_word_embeddings": False,
}
TINY = {**LLAMA_1B, "vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
TINY |= {"num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 24}  # layers of two shapes
GROUP = 128  # elements along K that share a scale of a quantised weight
OF_BLOCKS = {"BM": 128, "BN": 128, "BK": 128, "CONSUMERS": 2, "STAGES": 4, "IN_FLIGHT": 1}
BUDGET = 64  # candidates of a search
OF_CODES = {"BM": 16, "BN": 64, "BK": 128, "CONSUMERS": 1, "STAGES": 8, "SWAP": 1}
PREFILL = {"BM": 128, "BN": 256, "BK": 64, "CONSUMERS": 2, "STAGES": 4, "IN_FLIGHT": 0, "GROUP": 8, "PERSISTENT": 1}
DECODE = {"S": 1, "T": 4, "LANES": 32, "WARPS": 4, "BK": 0, "UNROLL": 4, "DEPTH": 1, "ASYNC": 0}

SPEC = """name = "linear"
[[product]]
name = "rows"
types = "{types}"
compute = "{compute}"
inputs = "{inputs}"
layout = "rc"
M = "1..{rows}"
N = {n}
K = {k}
"""
ROWS = {"gpu": 4096, "emulator": 64}  # that libraries are made for, at most
MOST_LOGITS = 256  # tokens whose logits are asked for at a time


def kernels(arguments: argparse.Namespace) -> Callable[[Any], Sequence[Any]]:
    """For a torch.nn.Linear: the product of a library, or a kernel for one row and one for any number."""
    executor = "emulator" if arguments.device == "cpu" else "gpu"

    @cache
    def of_shape(n: int, k: int) -> Sequence[Any]:
        if arguments.libraries:
            return [library(n, k, arguments.libraries, executor)]
        one = gemmgen.Problem(1, n, k, "bf16", layout="rc")
        many = gemmgen.Problem(None, n, k, "bf16", layout="rc", typical={"M": max(arguments.prompt)})
        return [gemmgen.load(known(problem, arguments.device), device=executor) for problem in (one, many)]

    return lambda linear: of_shape(linear.out_features, linear.in_features)


def known(problem: gemmgen.Problem, device: str) -> Any:
    """A kernel with a hand-picked config."""
    if device == "cpu":
        return gemmgen.generate(problem, family="simt")
    if problem.m == 1:
        return gemmgen.generate(problem, family="skinny", **DECODE)
    narrow = {"BN": 64} if problem.n is not None and problem.n <= 1024 else {}  # tiles enough for the card
    return gemmgen.generate(problem, family="wgmma", arch="sm_90a", **{**PREFILL, **narrow})


def library(
    n: int, k: int, folder: Path, executor: Any, types: str = "bf16", inputs: str = "plain", compute: str = "fma"
) -> Any:
    """Any number of rows times a weight of n x k, by the library in `folder`, which is made if it is missing."""
    name = f"linear_{n}x{k}" + (f"_{types}_{inputs}".replace(",", "_") if inputs != "plain" else "")
    to, spec = folder / name, folder / f"{name}.toml"
    if not to.exists():
        start = time.perf_counter()
        folder.mkdir(parents=True, exist_ok=True)
        rows = MOST_LOGITS if n == LLAMA_1B["vocab_size"] else ROWS[executor]
        spec.write_text(SPEC.format(rows=rows, n=n, k=k, types=types, inputs=inputs, compute=compute))
        given = {"examples": 1} if executor == "emulator" else {}  # where verifying kernels takes long
        made = gemmgen.library(spec, to=to, device=executor, **given)
        count = len(made.choices[0].kernels)
        print(f"{to}: {count} kernels, made in {time.perf_counter() - start:.0f} s", flush=True)
    return gemmgen.load_library(to, device=executor)["rows"]


class Fused(torch.nn.Module):
    """Linears of the same x as one. The first of their parts computes all."""

    def __init__(self, linears: Sequence[Any]) -> None:
        super().__init__()
        self.sizes = [one.out_features for one in linears]
        with torch.device("meta"):
            self.linear = torch.nn.Linear(linears[0].in_features, sum(self.sizes), bias=False)
        self.linear.weight = torch.nn.Parameter(torch.cat([one.weight for one in linears]), requires_grad=False)
        self.found: Sequence[Any] = ()


class Part(torch.nn.Module):
    def __init__(self, fused: Fused, place: int) -> None:
        super().__init__()
        self.place = place
        self.others = [fused] if place else []  # in a list, as the first part has it as a module
        if place == 0:
            self.fused = fused

    def forward(self, x: Any) -> Any:
        fused = self.others[0] if self.others else self.fused
        if self.place == 0:
            fused.found = fused.linear(x).split(fused.sizes, -1)
        return fused.found[self.place]


def fuse(model: Any) -> None:
    """Join q, k and v, and gate and up, of all layers."""
    for layer in model.model.layers:
        for owner, names in ((layer.self_attn, ("q_proj", "k_proj", "v_proj")), (layer.mlp, ("gate_proj", "up_proj"))):
            fused = Fused([getattr(owner, name) for name in names])
            for place, name in enumerate(names):
                setattr(owner, name, Part(fused, place))


def alike(model: Any) -> None:
    """Give all layers the weights of the first one, in memory of their own: so few are rounded."""
    first, *others = model.model.layers
    for layer in others:
        layer.load_state_dict(first.state_dict())


def round_weights(model: Any) -> dict[str, QuantisedWeight]:
    """The quantised weights of all layers, by the names of their Linears, which get the rounded numbers."""
    known: dict[str, tuple[QuantisedWeight, Any]] = {}
    weights = {}
    for name, linear in model.model.layers.named_modules(prefix="model.layers"):
        if isinstance(linear, torch.nn.Linear):
            within = name.split(".", 3)[3]  # a layer's
            if within not in known:
                codes = QuantisedWeight.nearest(linear.weight.float().cpu().numpy(), GROUP, symmetric=True)
                known[within] = codes, torch.from_numpy(codes.dequantised()).to(linear.weight)
            weights[name], rounded = known[within]
            linear.weight = torch.nn.Parameter(rounded, requires_grad=False)
    return weights


class Rounded(torch.nn.Module):
    """What a `gemmgen.torch.BlockScaledLinear` computes, by torch in f32."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        codes, scales = quantise_rows(x.reshape(-1, x.shape[-1]))
        numbers = codes.float() * scales.t().repeat_interleave(128, 1)[:, : codes.shape[1]]
        (n, k), of_w = self.layer.codes.shape, self.layer.scales
        weight = self.layer.codes.float() * of_w.repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k]
        return (numbers @ weight.t()).to(x.dtype).view(*x.shape[:-1], n)


def rounded(ours: Any) -> Any:
    """A copy of a model with BlockScaledLinears, computed by torch; both share all weights."""
    model = copy.deepcopy(ours, {id(one): one for one in (*ours.parameters(), *ours.buffers(), *KERNELS)})
    for name, layer in [*model.named_modules()]:
        if isinstance(layer, gemmgen.torch.BlockScaledLinear):
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, Rounded(layer))
    return model


KERNELS: list[Any] = []  # of blocks, which copies of a model share


def kernels_of_blocks(arguments: argparse.Namespace) -> Callable[[Any], Sequence[Any]]:
    """For a torch.nn.Linear, except a head: the product of a library, or a kernel for any number of rows."""
    executor = "emulator" if arguments.device == "cpu" else "gpu"

    @cache
    def of_shape(n: int, k: int) -> Sequence[Any]:
        types = "e4m3,e4m3,bf16"
        if arguments.libraries:
            KERNELS.append(library(n, k, arguments.libraries, executor, types, "blocks", "promoted"))
            return KERNELS[-1:]
        given = {"compute": "promoted", "layout": "rc", "inputs": "blocks", "typical": {"M": max(arguments.prompt)}}
        problem = gemmgen.Problem(None, n, k, types=types, **given)
        KERNELS.append(gemmgen.load(found(problem, arguments, OF_BLOCKS), device=executor))
        return KERNELS[-1:]

    heads = LLAMA_1B["vocab_size"], TINY["vocab_size"]
    return lambda linear: [] if linear.out_features in heads else of_shape(linear.out_features, linear.in_features)


def found(problem: gemmgen.Problem, arguments: argparse.Namespace, config: dict[str, int]) -> Any:
    """The fastest kernel of a search, or the one with this config."""
    if arguments.tune:
        return gemmgen.tune(problem, budget=BUDGET)
    return gemmgen.generate(problem, family="wgmma", **config)


def kernels_of_codes(arguments: argparse.Namespace) -> Callable[[QuantisedWeight], Sequence[Any]]:
    """For a quantised weight: the product of a library, or a kernel for any number of rows. A search finds another one
    for each number of sequences that are decoded at once."""
    executor = "emulator" if arguments.device == "cpu" else "gpu"

    @cache
    def of_shape(n: int, k: int, types: str, inputs: str) -> Sequence[Any]:
        if arguments.libraries:
            return [library(n, k, arguments.libraries, executor, types, inputs)]
        rows = (None, *arguments.batch) if arguments.tune else (None,)
        typical = {"M": max(arguments.prompt) if arguments.tune else 16}
        given = {"types": types, "layout": "rc", "inputs": inputs}
        problems = [gemmgen.Problem(m, n, k, **given, typical={} if m else typical) for m in rows]
        return [gemmgen.load(found(problem, arguments, OF_CODES), device=executor) for problem in problems]

    return lambda weight: of_shape(weight.n, weight.k, f"bf16,{weight.element.label},bf16", str(weight.inputs))


def logits(model: Any, tokens: Any) -> Any:
    return model(tokens, use_cache=False, logits_to_keep=min(MOST_LOGITS, tokens.shape[1])).logits.float()


def prefill(model: Any, tokens: Any) -> Run:
    return lambda: model(tokens, use_cache=False, logits_to_keep=1)


class Decoder:
    """One token after the other, behind a prompt."""

    def __init__(self, model: Any, tokens: Any, room: int, compiled: bool) -> None:
        self.model = torch.compile(model, dynamic=False) if compiled else model
        self.length = tokens.shape[1]
        self.cache = transformers.StaticCache(config=model.config, max_cache_len=self.length + room)
        self.token = tokens[:, :1].clone()
        self.position = torch.full_like(self.token, self.length)
        model(tokens, None, None, self.cache, use_cache=True, logits_to_keep=1)  # by place: its name has changed

    def step(self) -> Any:
        found = self.model(self.token, None, self.position, self.cache, use_cache=True)
        self.token.copy_(found.logits[:, -1:].argmax(-1))
        self.position.add_(1)
        return found.logits


def show_times(name: str, runs: Sequence[Run], rounds: int, steps: int = 1) -> None:
    """A row of the table: milliseconds of a step of each of two runs, of `steps` steps, and their ratio."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    times: dict[Run, list[float]] = {run: [] for run in runs}
    for number in range(rounds + 1):
        for run in runs[:: -1 if number % 2 else 1]:
            wait()
            start = time.perf_counter()
            for _ in range(steps):
                run()
            wait()
            times[run].append(1e3 * (time.perf_counter() - start) / steps)
    theirs, ours = (one[1:] for one in times.values())  # the first round warms up
    ratio = median(their / our for their, our in zip(theirs, ours, strict=True))
    print(f"{name:36}{median(theirs):9.3f} ms{median(ours):9.3f} ms   {ratio:.2f}x", flush=True)


def compare_times(models: Sequence[Any], prompt: Any, arguments: argparse.Namespace) -> None:
    rounds, steps = arguments.rounds, arguments.tokens
    modes: dict[str, Callable[[Run], Run]] = {"": lambda run: run}
    if arguments.device == "cuda":
        modes[", CUDA graph"] = lambda run: recorded(run).replay
    for length in arguments.prompt:
        for mode, of in modes.items():
            runs = [of(prefill(model, prompt[:, :length])) for model in models]
            show_times(f"prefill of {length} tokens{mode}", runs, rounds)
    for batch in arguments.batch:
        tokens = prompt.expand(batch, -1).contiguous()
        for mode, of in modes.items():
            room = (rounds + 1) * steps + 8  # for what `recorded` runs, too
            decoders = [Decoder(model, tokens, room, arguments.compile) for model in models]
            runs = [of(decoder.step) for decoder in decoders]
            show_times(f"decode, {batch} at once{mode}", runs, rounds, steps)


def compare_logits(reference: Any, models: Sequence[Any], prompt: Any, lengths: Sequence[int]) -> None:
    for length in lengths:
        tokens = prompt[:, :length]
        wanted, (theirs, ours) = logits(reference, tokens), (logits(model, tokens) for model in models)
        scale = wanted.square().mean().sqrt()
        errors = [float((found - wanted).square().mean().sqrt() / scale) for found in (theirs, ours)]
        agree = float((ours.argmax(-1) == theirs.argmax(-1)).float().mean())
        name = f"logits of {length} tokens, error to f32"
        print(f"{name:36}{errors[0]:12.2e}{errors[1]:12.2e}   {agree:.1%} the same best token")
        assert errors[1] <= 1.25 * errors[0], "the logits are further from f32's than torch's explain"


def compare(arguments: argparse.Namespace, config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    with torch.device(arguments.device):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config, dtype="bfloat16"))
        model = model.to(torch.bfloat16).eval()
        prompt = torch.randint(config["vocab_size"], (1, max(arguments.prompt)))
    if arguments.codes:
        alike(model)
    if arguments.fuse:
        fuse(model)
    reference = copy.deepcopy(model).float()
    codes = round_weights(model) if arguments.codes else {}
    ours = copy.deepcopy(model, {id(weight): weight for weight in model.parameters()})  # which both share
    if codes:
        names = gemmgen.torch.replace_linear(ours, kernels_of_codes(arguments), weights=codes)
    else:
        names = gemmgen.torch.replace_linear(ours, (kernels_of_blocks if arguments.blocks else kernels)(arguments))
    weights = sum(one.numel() for one in model.parameters())
    print(f"{weights / 1e9:.2f} billion parameters, {len(names)} linear layers replaced")
    print(f"{'':36}{'torch':>12}{'gemmgen':>12}")
    theirs = rounded(ours) if arguments.blocks else model
    compare_logits(reference, (theirs, ours), prompt, (1, *arguments.prompt))
    del reference
    compare_times((model, ours), prompt, arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--libraries", type=Path, metavar="DIR", help="folder of libraries, one per layer shape")
    parser.add_argument("--prompt", type=int, nargs="+", help="tokens of prompts (129 513 1000 2048; on the CPU 5 12)")
    parser.add_argument("--tokens", type=int, help="tokens to decode in a round (32; on the CPU 2)")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--model", choices=("1B", "8B"), default="1B", help="the size of Llama 3 on a GPU")
    parser.add_argument("--batch", type=int, nargs="+", default=[1], help="sequences that are decoded at once (1)")
    parser.add_argument("--fuse", action="store_true", help="multiply q, k and v at once, and gate and up")
    parser.add_argument("--compile", action="store_true", help="torch.compile the steps of decoding, of both models")
    parser.add_argument("--tune", action="store_true", help="search for the kernels of --codes and --blocks")
    of_weights = parser.add_mutually_exclusive_group()
    of_weights.add_argument("--codes", action="store_true", help="quantise weights to 4 bits")
    of_weights.add_argument("--blocks", action="store_true", help="round weights and activations to e4m3")
    arguments = parser.parse_args()
    small = arguments.device == "cpu"
    arguments.prompt = arguments.prompt or ([5, 12] if small else [129, 513, 1000, 2048])
    arguments.tokens = arguments.tokens or (2 if small else 32)
    with torch.inference_mode():
        compare(arguments, TINY if small else {"1B": LLAMA_1B, "8B": LLAMA_8B}[arguments.model])


if __name__ == "__main__":
    main()
