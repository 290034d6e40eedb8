"""A language model of `transformers` (random weights) with linear layers by kernels: the same logits, and what time?

    pip install 'gemmgen[torch]' transformers
    python examples/transformer.py                  # Llama-3.2-1B's configuration in bf16, on a GPU of sm_90a
    python examples/transformer.py --budget 16      # with kernels that are tuned here, which takes minutes
    python examples/transformer.py --device cpu     # a tiny model in the emulator

Logits are compared with those of the same weights in f32, ours beside torch's own. Prefill is the whole prompt at once,
decode one token after the other with the cache of keys and values; a CUDA graph of it does not wait for Python.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import transformers

import gemmgen
import gemmgen.torch
from gemmgen.arrays.kernel import ArrayKernel

LLAMA_1B = {
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "tie_word_embeddings": True,
}
TINY = {**LLAMA_1B, "vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
TINY |= {"num_attention_heads": 4, "num_key_value_heads": 2}
PREFILL = {"BM": 128, "BN": 256, "BK": 64, "CONSUMERS": 2, "STAGES": 4, "IN_FLIGHT": 0, "GROUP": 8, "PERSISTENT": 1}
DECODE = {"S": 1, "T": 4, "LANES": 32, "WARPS": 4, "BK": 0, "UNROLL": 4, "DEPTH": 1, "ASYNC": 0}


def kernels(arguments: argparse.Namespace) -> Callable[[Any], list[ArrayKernel]]:
    """For a torch.nn.Linear: a kernel for one row, and one for any number."""

    @cache
    def of_shape(n: int, k: int) -> list[ArrayKernel]:
        one = gemmgen.Problem(1, n, k, "bf16", layout="rc")
        many = gemmgen.Problem(None, n, k, "bf16", layout="rc", typical={"M": arguments.prompt})
        return [gemmgen.load(made(problem), device=arguments.executor) for problem in (one, many)]

    def made(problem: gemmgen.Problem) -> Any:
        if arguments.budget:
            return gemmgen.tune(problem, budget=arguments.budget)
        if arguments.device == "cpu":
            return gemmgen.generate(problem)
        if problem.m == 1:
            return gemmgen.generate(problem, family="skinny", **DECODE)
        narrow = {"BN": 64} if problem.n is not None and problem.n <= 1024 else {}  # tiles enough for the card
        return gemmgen.generate(problem, family="wgmma", arch="sm_90a", **{**PREFILL, **narrow})

    return lambda linear: of_shape(linear.out_features, linear.in_features)


def logits(model: Any, tokens: Any, last: int) -> Any:
    return model(tokens, use_cache=False, logits_to_keep=last).logits.float()


def seconds(run: Callable[[], Any], repeats: int) -> float:
    """The least time of one run, of `repeats`."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    times = []
    for _ in range(repeats + 1):
        wait()
        start = time.perf_counter()
        run()
        wait()
        times.append(time.perf_counter() - start)
    return min(times[1:])


class Decoder:
    """One token after the other, behind a prompt."""

    def __init__(self, model: Any, tokens: Any, room: int) -> None:
        self.model, self.length = model, tokens.shape[1]
        self.cache = transformers.StaticCache(config=model.config, max_cache_len=self.length + room)
        self.token, self.position = tokens[:, :1].clone(), torch.tensor([[self.length]], device=tokens.device)
        model(tokens, past_key_values=self.cache, use_cache=True, logits_to_keep=1)

    def step(self) -> Any:
        found = self.model(self.token, position_ids=self.position, past_key_values=self.cache, use_cache=True)
        self.token.copy_(found.logits[:, -1:].argmax(-1))
        self.position.add_(1)
        return found.logits


def recorded(run: Callable[[], Any]) -> Callable[[], None]:
    """`run` as a CUDA graph."""
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def times(model: Any, tokens: Any, arguments: argparse.Namespace) -> dict[str, float]:
    """Milliseconds of a prefill and of one token's decoding, by name."""
    steps, repeats = arguments.tokens, arguments.repeats

    def prefill() -> Any:
        return model(tokens, use_cache=False, logits_to_keep=1)

    def decoder() -> Callable[[], Any]:
        return Decoder(model, tokens, (repeats + 2) * steps + 8).step

    def many(step: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: [step() for _ in range(steps)]

    found = {"prefill": seconds(prefill, repeats), "decode": seconds(many(decoder()), repeats) / steps}
    if arguments.device == "cuda":
        found["prefill, CUDA graph"] = seconds(recorded(prefill), repeats)
        found["decode, CUDA graph"] = seconds(many(recorded(decoder())), repeats) / steps
    return {name: 1e3 * one for name, one in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument(
        "--budget", type=int, default=0, help="candidates to tune a kernel from; 0: configs known to do"
    )
    parser.add_argument("--prompt", type=int, help="tokens of the prompt (2048; on the CPU 12)")
    parser.add_argument("--tokens", type=int, help="tokens to decode at a time (32; on the CPU 2)")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    small = arguments.device == "cpu"
    arguments.executor = "emulator" if small else "gpu"
    arguments.prompt = arguments.prompt or (12 if small else 2048)
    arguments.tokens = arguments.tokens or (2 if small else 32)
    with torch.inference_mode():
        compare(arguments, TINY if small else LLAMA_1B)


def compare(arguments: argparse.Namespace, config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    with torch.device(arguments.device):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config, dtype="bfloat16"))
        model = model.to(torch.bfloat16).eval()
        tokens = torch.randint(config["vocab_size"], (1, arguments.prompt))
    print(f"{sum(one.numel() for one in model.parameters()) / 1e9:.2f} billion parameters, {arguments.prompt} tokens")
    last = min(256, arguments.prompt)
    wanted = logits(copy.deepcopy(model).float(), tokens, last)
    theirs, their_times = logits(model, tokens, last), times(model, tokens, arguments)
    start = time.perf_counter()
    names = gemmgen.torch.replace_linear(model, kernels(arguments))
    ours = logits(model, tokens, last)
    print(f"{len(names)} linear layers replaced in {time.perf_counter() - start:.1f} s, kernels compiled")
    our_times = times(model, tokens, arguments)
    scale = wanted.square().mean().sqrt()
    errors = [float((found - wanted).square().mean().sqrt() / scale) for found in (theirs, ours)]
    agree = float((ours.argmax(-1) == theirs.argmax(-1)).float().mean())
    print(f"{'':24}{'torch':>12}{'gemmgen':>12}")
    print(f"{'logits, error to f32':24}{errors[0]:12.2e}{errors[1]:12.2e}   {agree:.1%} the same best token")
    for name, mine in our_times.items():
        print(f"{name:24}{their_times[name]:9.3f} ms{mine:9.3f} ms   {their_times[name] / mine:.2f}x")
    assert errors[1] <= 1.25 * errors[0], "the logits are further from f32's than bf16 explains"


if __name__ == "__main__":
    main()
