"""gemmgen.torch.replace_experts on a card: a mixture of transformers, as a CUDA graph and through torch.compile."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import gemmgen
from gemmgen.run.gpu import why_no_device

pytestmark = pytest.mark.skipif(why_no_device() is not None, reason=str(why_no_device()))

TOKENS = 33
SIZES = {
    "vocab_size": 128,
    "hidden_size": 256,
    "moe_intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_experts": 16,
    "num_experts_per_tok": 4,
}


@pytest.fixture
def models(torch: Any, transformers: Any) -> tuple[Any, Any]:
    """A mixture in bf16, and the same with experts by kernels."""
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("torch sees no GPU that wgmma's kernels run on")
    from gemmgen.torch import Experts, replace_experts

    load = cache(lambda problem: gemmgen.load(gemmgen.generate(problem, family="wgmma"), device="gpu"))
    pair = []
    for _ in range(2):
        torch.manual_seed(0)
        model = transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**SIZES))
        pair.append(model.to("cuda", torch.bfloat16).eval())
    names = replace_experts(pair[1], lambda experts: [load(problem) for problem in Experts.problems(experts)])
    assert names == ["model.layers.0.mlp.experts", "model.layers.1.mlp.experts"]
    return pair[0], pair[1]


def near(found: Any, wanted: Any) -> None:
    """Most tokens are near: a few may have another expert, where two are equally probable."""
    error = (found - wanted).float().norm(dim=-1) / wanted.float().norm(dim=-1)
    assert error.median() < 0.02, error


def test_a_graph_reads_anew_which_experts_tokens_have(torch: Any, models: tuple[Any, Any]) -> None:
    theirs, ours = models
    tokens = torch.arange(TOKENS, device="cuda")[None]
    with torch.no_grad():
        for _ in range(2):
            near(ours(tokens, use_cache=False).logits, theirs(tokens, use_cache=False).logits)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            found = ours(tokens, use_cache=False).logits
        for shift in (1, 50):
            tokens.add_(shift)
            graph.replay()
            near(found, theirs(tokens, use_cache=False).logits)
            assert torch.equal(found, ours(tokens, use_cache=False).logits)


@pytest.mark.filterwarnings("ignore")  # of what torch's own compiler imports
def test_a_layer_is_compiled(torch: Any, models: tuple[Any, Any]) -> None:
    theirs, ours = (model.model.layers[0].mlp for model in models)
    compiled = torch.compile(ours, fullgraph=True, dynamic=False)
    for tokens in (1, TOKENS):
        x = torch.randn(1, tokens, SIZES["hidden_size"], device="cuda", dtype=torch.bfloat16)
        with torch.no_grad():
            near(compiled(x), theirs(x))
