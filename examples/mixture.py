"""A mixture of experts of `transformers` (random weights) with experts by kernels: the same logits, and what time?

    pip install 'gemmgen[torch]' 'transformers>=5'
    python examples/mixture.py                     # layers of Qwen3-30B-A3B's sizes in bf16, on a GPU of sm_90a
    python examples/mixture.py --layers 8 --prompt 1024 4096 --batch 1 8 64 256
    python examples/mixture.py --index             # with kernels that gather tokens and scatter results, too
    python examples/mixture.py --device cpu        # a tiny model in the emulator

One call of gemmgen.torch.replace_experts changes the model. Kernels of a few configs are timed for each number of rows,
with the gate or the router's weights in their epilogues or without, and the fastest serves: in prefill one for any
number of rows, in decoding one for just as many as there are. A time counts what torch does for the kernel: it copies
tokens in the order of their experts, and results in that of tokens. With --index kernels compete that do so themselves.

Logits are compared with those of the model's weights in f32, ours beside torch's: both err by bf16's rounding, and may
choose another expert than f32 does where a token's probabilities are close together. Prefill is the whole prompt at
once, decode one token of each sequence, with the cache of keys and values. torch computes the experts as transformers
does by itself, and both models run as they are and through torch.compile. All are recorded as CUDA graphs and take
turns; what cannot be recorded is called from Python, and marked so. Times are medians over rounds, in milliseconds; a
ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from statistics import median
from typing import Any

import torch
import transformers
from experts import CONFIGS
from graphs import Run, recorded, times

import gemmgen
import gemmgen.torch

QWEN3_30B = {
    "vocab_size": 151936,
    "hidden_size": 2048,
    "moe_intermediate_size": 768,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
}
TINY = {**QWEN3_30B, "vocab_size": 96, "hidden_size": 64, "moe_intermediate_size": 48, "num_experts": 8}
TINY |= {"num_attention_heads": 4, "head_dim": 16, "num_experts_per_tok": 2}
GATED = (
    {"BM": 64, "BN": 32, "CONSUMERS": 1, "STAGES": 8},
    {"BM": 64, "BN": 64, "CONSUMERS": 1, "STAGES": 6},
    {"BM": 64, "BN": 128, "CONSUMERS": 1, "STAGES": 4},
    {"BM": 128, "BN": 64, "CONSUMERS": 2, "STAGES": 5},
    {"BM": 128, "BN": 128, "CONSUMERS": 2, "STAGES": 4},
)
CONTENDERS = ("torch", "gemmgen", "torch compiled", "gemmgen compiled")


def kernels_of(chosen: int, arguments: argparse.Namespace) -> Callable[[Any], Sequence[Any]]:
    """For experts, of which each token has `chosen`: kernels that layers of one shape share."""
    problems = partial(gemmgen.torch.Experts.problems, gathered=arguments.index, scattered=arguments.index)
    if arguments.device == "cpu":
        of_problem = cache(lambda problem: gemmgen.load(gemmgen.generate(problem, family="wgmma"), device="emulator"))
        return lambda experts: [of_problem(problem) for problem in problems(experts)]
    rows = max(arguments.prompt) * chosen, *(batch * chosen for batch in arguments.batch)
    fastest = cache(lambda *ways: _fastest(ways, rows, chosen))
    plain = gemmgen.torch.Experts.problems

    def found(experts: Any) -> Sequence[Any]:
        ways = [plain(experts), plain(experts, fused=False), *([problems(experts)] if arguments.index else [])]
        return [kernel for of_product in zip(*ways, strict=True) for kernel in fastest(*of_product)]

    return found


def _fastest(ways: Sequence[Any], rows: Sequence[int], chosen: int) -> list[Any]:
    """The fastest kernel of some ways for the first number of rows, for any number, and for each of the others one."""
    known, kernels = {kernel: config for problem in ways for kernel, config in _known(problem)}, []
    for number in rows:
        call = caller(ways[0], number, chosen)
        found = times([recorded(partial(call, kernel)) for kernel in known], 5)
        taken = dict(zip(known, map(median, found), strict=True))
        ranking = sorted(known, key=taken.__getitem__)
        print(f"{number:6} rows: {taken[ranking[0]]:8.1f} us, {ranking[0].source.full_name}", flush=True)
        exact = (_known(replace(one.source.problem, m=number), known[one]) for one in ranking)
        kernels.append(next(chain.from_iterable(exact))[0] if kernels else ranking[0])
    return kernels


def _known(problem: Any, *configs: dict[str, int]) -> Iterator[tuple[Any, dict[str, int]]]:
    """Kernels of these configs, or of all, as far as they suit the problem."""
    for config in configs or (CONFIGS if problem.products == 1 else GATED):
        try:
            source = gemmgen.generate(problem, family="wgmma", **config)
        except gemmgen.InvalidInput:
            continue
        yield gemmgen.load(source, device="gpu"), config


def caller(problem: Any, rows: int, chosen: int) -> Callable[[Any], Any]:
    """Computes a product of experts by a kernel, and what it leaves by torch, for tokens that choose at random."""
    groups, first = problem.inputs.groups, problem.products == 2
    x = torch.randn(rows // chosen if first else rows, problem.k, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(groups, problem.products * problem.n, problem.k, device="cuda", dtype=torch.bfloat16)
    expert, order = torch.randint(groups, (rows,), device="cuda").sort()
    offs = torch.bincount(expert, minlength=groups).cumsum(0, dtype=torch.int32)
    scales, token, place = torch.rand(rows, device="cuda"), (order // chosen).int(), order.int()

    def call(kernel: Any) -> Any:
        takes, given = kernel.traced.operands, {"offs": offs}
        given |= {"scale_m": scales} if "scale_m" in takes else {}
        if first:
            gathers = "index_a" in takes
            y = kernel(x if gathers else x[token], weight.mT, **given, **({"index_a": token} if gathers else {}))
            if kernel.traced.products == 2:
                return y
            gate, up = y.chunk(2, 1)
            return torch.nn.functional.silu(gate) * up
        scatters = "index_c" in takes
        y = kernel(x, weight.mT, **given, **({"index_c": place} if scatters else {}))
        y = y if "scale_m" in takes else y * scales[:, None]
        return y if scatters else torch.empty_like(y).index_copy_(0, order, y)

    return call


def prefill(_: Any, forward: Any, tokens: Any, __: int) -> Run:
    return lambda: forward(tokens, use_cache=False, logits_to_keep=1).logits


def decode(model: Any, forward: Any, tokens: Any, calls: int) -> Run:
    """A step behind prompts by `forward` of a model, for so many calls: the same token again, one place further."""
    length = tokens.shape[1]
    behind = transformers.StaticCache(config=model.config, max_cache_len=length + calls)
    model(tokens, None, None, behind, use_cache=True, logits_to_keep=1)  # by place: the name of the cache has changed
    token, position = tokens[:, :1].clone(), torch.full_like(tokens[:, :1], length)

    def step() -> Any:
        found = forward(token, None, position, behind, use_cache=True).logits
        position.add_(1)
        return found

    return step


class Called:
    """A run that cannot be recorded: it is called where a graph would be replayed."""

    def __init__(self, run: Run) -> None:
        self.replay = run


def graph_of(run: Run) -> Any:
    try:
        return recorded(run)
    except RuntimeError:  # it waits for the device
        torch.cuda.synchronize()
        return Called(run)


def compare_times(models: Sequence[Any], name: str, tokens: Any, make: Any, arguments: argparse.Namespace) -> None:
    """A row of the table."""
    rounds = arguments.rounds
    calls = rounds + 16  # with those that warm up
    runs = [make(model, model, tokens, calls) for model in models]
    if arguments.compile:
        torch._dynamo.reset()  # which else stops to compile after some shapes
        runs += [make(model, torch.compile(model, dynamic=False), tokens, calls) for model in models]
    graphs = [graph_of(run) for run in runs]
    found = times(graphs, rounds)
    line = f"{name:24}"
    for graph, of_graph in zip(graphs, found, strict=True):
        line += f"{1e-3 * median(of_graph):16.3f}{'*' if isinstance(graph, Called) else ' '}"
    for theirs, ours in zip(found[::2], found[1::2], strict=True):
        line += f"{median(one / other for one, other in zip(theirs, ours, strict=True)):8.2f}x"
    print(line, flush=True)


def compare_logits(reference: Any, models: Sequence[Any], tokens: Any) -> None:
    wanted, *found = (model(tokens, use_cache=False).logits.float() for model in (reference, *models))
    scale = wanted.square().mean().sqrt()
    of_torch, of_ours = (float((one - wanted).square().mean().sqrt() / scale) for one in found)
    print(f"logits of {tokens.shape[1]} tokens, error to f32: torch {of_torch:.2e}, gemmgen {of_ours:.2e}", flush=True)
    assert of_ours <= 1.25 * of_torch, "the logits are further from f32's than torch's explain"


def compare(arguments: argparse.Namespace) -> None:
    torch.manual_seed(0)
    sizes = TINY if arguments.device == "cpu" else QWEN3_30B
    config = transformers.Qwen3MoeConfig(**sizes, num_hidden_layers=arguments.layers, dtype="bfloat16")
    with torch.device(arguments.device):
        model = transformers.Qwen3MoeForCausalLM(config).to(torch.bfloat16).eval()
        prompts = torch.randint(config.vocab_size, (max(arguments.batch), max(arguments.prompt)))
    reference = copy.deepcopy(model).float()
    ours = copy.deepcopy(model, {id(weight): weight for weight in model.parameters()})  # which both share
    names = gemmgen.torch.replace_experts(ours, kernels_of(config.num_experts_per_tok, arguments))
    weights = sum(one.numel() for one in model.parameters())
    implementation = model.config._experts_implementation
    print(f"{weights / 1e9:.2f} billion parameters, experts of {len(names)} layers replaced; torch's: {implementation}")
    for length in arguments.prompt:
        compare_logits(reference, (model, ours), prompts[:1, :length])
    del reference
    if arguments.device == "cpu":
        return
    shown = CONTENDERS if arguments.compile else CONTENDERS[:2]
    print(f"{'':24}{''.join(f'{one:>16} ' for one in shown)}   ratios   (ms; * called from Python)")
    for length in arguments.prompt:
        compare_times((model, ours), f"prefill of {length} tokens", prompts[:1, :length], prefill, arguments)
    for batch in arguments.batch:
        behind = prompts[:batch, :8].contiguous()
        compare_times((model, ours), f"decode, {batch} at once", behind, decode, arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--layers", type=int, default=2, help="layers of the model (2)")
    parser.add_argument("--prompt", type=int, nargs="+", help="tokens of prompts (1024; on the CPU 5 12)")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 64], help="sequences decoded at once (1 8 64)")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--index", action="store_true", help="kernels that gather and scatter rows compete, too")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="leave torch.compile out")
    arguments = parser.parse_args()
    arguments.prompt = arguments.prompt or ([5, 12] if arguments.device == "cpu" else [1024])
    with torch.inference_mode():
        compare(arguments)


if __name__ == "__main__":
    main()
