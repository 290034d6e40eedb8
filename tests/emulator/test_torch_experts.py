"""gemmgen.torch.replace_experts on models of transformers, beside their own experts."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import gemmgen
from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.arrays.library import load_source
from gemmgen.exports.library.spec import spec_from
from gemmgen.families import NAIVE, WGMMA
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.support.errors import InvalidInput
from gemmgen.support.files import Store

if importlib.util.find_spec("torch"):
    import torch

    from gemmgen.torch import Experts, replace_experts

pytestmark = pytest.mark.usefixtures("torch", "transformers")  # which skip all of them where one is missing

E, HIDDEN, INNER, CHOSEN = 8, 64, 48, 2
TINY = {
    "vocab_size": 96,
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "moe_intermediate_size": INNER,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_experts": E,
    "num_local_experts": E,
    "num_experts_per_tok": CHOSEN,
}

Load = Callable[..., ArrayKernel]


@pytest.fixture(scope="module")
def load(shared_store: Store) -> Iterator[Load]:
    """The kernel of the family naive for a problem."""
    known: dict[Problem, ArrayKernel] = {}

    def loaded(problem: Problem) -> ArrayKernel:
        if problem not in known:
            known[problem] = load_source(render(problem, NAIVE, NAIVE.default(problem)), "emulator", shared_store)
        return known[problem]

    yield loaded
    for kernel in known.values():
        kernel.close()


def model_of(name: str, **fields: Any) -> Any:
    transformers = import_module("transformers")
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**TINY, **fields})
    return getattr(transformers, f"{name}ForCausalLM")(config).eval()


def experts_of(dtype: Any = None, act: Any = None, base: Any = None, **flags: Any) -> Any:
    """Experts as models of transformers have them; `flags` are those of use_experts_implementation."""
    transposed = flags.get("is_transposed", False)

    def made(self: Any, config: Any) -> None:
        torch.nn.Module.__init__(self)
        self.num_experts, self.act_fn = E, act or torch.nn.SiLU()
        generator = torch.Generator().manual_seed(1)
        for name, n, k in (("gate_up_proj", 2 * INNER, HIDDEN), ("down_proj", HIDDEN, INNER)):
            shape = (E, k, n) if transposed else (E, n, k)
            weight = torch.randn(shape, generator=generator).to(dtype or torch.float32) / 8
            setattr(self, name, torch.nn.Parameter(weight, requires_grad=False))

    def forward(self: Any, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> None:
        pytest.fail("grouped_mm stands in for it")

    own = type("Own", (base or torch.nn.Module,), {"__init__": made, "forward": forward})
    decorated = import_module("transformers.integrations.moe").use_experts_implementation(own, **flags)
    return decorated(import_module("transformers").Qwen3MoeConfig(**TINY, experts_implementation="grouped_mm"))


def routed(tokens: int, dtype: Any = None) -> tuple[Any, Any, Any]:
    """Tokens, their experts, of which many have none, and the router's weights."""
    generator = torch.Generator().manual_seed(tokens)
    x = torch.randn(tokens, HIDDEN, generator=generator).to(dtype or torch.float32)
    index = torch.rand(tokens, E, generator=generator).mul_(torch.arange(E) % 3 > 0).topk(CHOSEN).indices
    return x, index, torch.rand(tokens, CHOSEN, generator=generator)


def kernels_of(load: Load, experts: Any, *rows: int) -> list[ArrayKernel]:
    return [load(problem) for one in (None, *rows) for problem in Experts.problems(experts, one)]


def close(found: Any, wanted: Any, limit: float = 1e-5) -> None:
    torch.testing.assert_close(found, wanted, rtol=limit, atol=limit)


@pytest.mark.parametrize("name", ["Mixtral", "Qwen3Moe", "DeepseekV3"])
def test_a_model_has_the_same_logits_and_parameters(load: Load, name: str) -> None:
    model, tokens = model_of(name, n_routed_experts=E, first_k_dense_replace=1, n_group=1, topk_group=1), None
    ours = copy.deepcopy(model)
    names = replace_experts(ours, lambda experts: kernels_of(load, experts))
    layers = [1] if name == "DeepseekV3" else [0, 1]  # whose first is dense
    assert names == [f"model.layers.{layer}.mlp.experts" for layer in layers]
    assert [*ours.state_dict()] == [*model.state_dict()]
    ours.load_state_dict(model.state_dict())
    tokens = torch.arange(22).view(2, 11)
    with torch.no_grad():
        close(ours(tokens).logits, model(tokens).logits)
        close(ours(tokens[:1, :1]).logits, model(tokens[:1, :1]).logits)


def test_a_module_without_kernels_stays(load: Load) -> None:
    model = model_of("Mixtral")
    first = model.model.layers[0].mlp.experts
    names = replace_experts(model, lambda experts: [] if experts is first else kernels_of(load, experts))
    assert names == ["model.layers.1.mlp.experts"]
    assert model.model.layers[0].mlp.experts is first


@pytest.mark.parametrize(("act", "is_transposed"), [("silu", True), ("gelu", False), ("gelu_pytorch_tanh", False)])
def test_layouts_and_gates(load: Load, act: str, is_transposed: bool) -> None:
    theirs = experts_of(act=import_module("transformers.activations").ACT2FN[act], is_transposed=is_transposed)
    problems = Experts.problems(theirs, typical=64)
    assert {str(one.layout) for one in problems} == {"rr" if is_transposed else "rc"}
    ours = Experts(theirs, kernels_of(load, theirs))
    given = routed(19)
    close(ours(*given), theirs(*given))
    assert ours.extra_repr() == (
        "gate_up_proj=8 x 64 x 96, down_proj=8 x 48 x 64"
        if is_transposed
        else "gate_up_proj=8 x 96 x 64, down_proj=8 x 64 x 48"
    )


def test_tensor_cores_compute_experts_of_bf16(shared_store: Store) -> None:
    theirs = experts_of(torch.bfloat16)
    few = {"BM": 64, "BN": 64, "CONSUMERS": 1}
    sources = [render(one, WGMMA, WGMMA.default(one).with_values(**few), "sm_90a") for one in Experts.problems(theirs)]
    kernels = [load_source(source, "emulator", shared_store) for source in sources]
    x, index, weights = routed(23, torch.bfloat16)
    wanted = experts_of(torch.bfloat16).float()(x.float(), index, weights)
    for of_router in (weights, weights.bfloat16()):
        found = Experts(theirs, kernels)(x, index, of_router)
        assert found.dtype == torch.bfloat16
        close(found.float(), wanted, 0.03)
    for kernel in kernels:
        kernel.close()


@pytest.mark.parametrize("on_tensor_cores", [False, True])
def test_a_kernel_gathers_tokens(load: Load, shared_store: Store, on_tensor_cores: bool) -> None:
    dtype = torch.bfloat16 if on_tensor_cores else torch.float32
    theirs = experts_of(dtype)
    up, down = Experts.problems(theirs, gathered=True)
    assert (str(up.inputs), str(down.inputs)) == ("groups=8+gathered", "groups=8")
    first = load(up)
    if on_tensor_cores:
        config = WGMMA.default(up).with_values(BM=64, BN=64, CONSUMERS=1)
        first = load_source(render(up, WGMMA, config, "sm_90a"), "emulator", shared_store)
    ours = Experts(theirs, [first, load(down)])
    x, *routing = routed(23, dtype)
    close(ours(x, *routing).float(), experts_of(dtype).float()(x.float(), *routing), 0.03 if on_tensor_cores else 1e-5)
    assert ours(x[:0], routing[0][:0], routing[1][:0]).shape == (0, HIDDEN)
    torch._dynamo.reset()
    close(torch.compile(ours, backend="aot_eager", fullgraph=True)(x, *routing), ours(x, *routing))
    if on_tensor_cores:
        first.close()


@pytest.mark.parametrize("fused", [True, False], ids=["weighted by the kernel", "by torch"])
def test_a_kernel_stores_rows_in_the_order_of_tokens(load: Load, fused: bool) -> None:
    theirs = experts_of()
    up, down = Experts.problems(theirs, fused=fused, gathered=True, scattered=True)
    assert (str(up.inputs), str(down.inputs)) == ("groups=8+gathered", "groups=8+scattered")
    ours = Experts(theirs, [load(up), load(down)])
    copying = Experts(theirs, [load(up), load(Experts.problems(theirs, fused=fused)[1])])
    x, *routing = routed(23)
    assert torch.equal(ours(x, *routing), copying(x, *routing))
    assert ours(x[:0], routing[0][:0], routing[1][:0]).shape == (0, HIDDEN)
    torch._dynamo.reset()
    close(torch.compile(ours, backend="aot_eager", fullgraph=True)(x, *routing), ours(x, *routing))


@pytest.mark.parametrize("fused", [(False, True), (True, False), (False, False)], ids=str)
def test_torch_does_what_kernels_leave(load: Load, fused: tuple[bool, bool]) -> None:
    theirs = experts_of()
    problems = [Experts.problems(theirs, fused=one)[place] for place, one in enumerate(fused)]
    given = routed(9)
    close(Experts(theirs, [load(one) for one in problems])(*given), theirs(*given))


@pytest.mark.parametrize("tokens", [0, 1, 9])
def test_the_kernel_of_this_many_rows_serves(load: Load, tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = experts_of()
    kernels = kernels_of(load, theirs, 9 * CHOSEN)
    called: list[int | None] = []

    def noted(kernel: ArrayKernel) -> Callable[..., None]:
        run, rows = kernel._backend.run, kernel.source.problem.m

        def noting(*given: Any) -> None:
            called.append(rows)
            run(*given)

        return noting

    for kernel in kernels:
        monkeypatch.setattr(kernel._backend, "run", noted(kernel))
    given = routed(tokens)
    close(Experts(theirs, kernels)(*given), theirs(*given))
    assert called == [9 * CHOSEN if tokens == 9 else None] * 2


def test_a_layer_is_compiled_without_a_break(load: Load) -> None:
    torch._dynamo.reset()
    theirs = experts_of()
    ours = Experts(theirs, kernels_of(load, theirs, 9 * CHOSEN))
    compiled = torch.compile(lambda x, *routing: ours(x * 2, *routing) + 1, backend="aot_eager", fullgraph=True)
    for tokens in (9, 10, 11):
        x, *routing = routed(tokens)
        close(compiled(x, *routing), theirs(x * 2, *routing) + 1)


def test_products_of_a_library_serve(load: Load, tmp_path: Path, shared_store: Store) -> None:
    theirs = experts_of()
    product: dict[str, Any] = {"types": "f32", "layout": "rc", "inputs": f"groups={E}", "M": "?", "N": "?", "K": "?"}
    products = []
    for name, problem in zip(("up", "down"), Experts.problems(theirs), strict=True):
        source = gemmgen.generate(replace(problem, n=None, k=None, ld_align=4), family="naive", out=tmp_path)
        more = {"epilogue": str(problem.epilogue), "kernels": [f"{source.name}.cu"]}
        products.append({**product, "name": name, **more})
    spec = spec_from({"name": "moe", "architectures": ["sm_90"], "product": products}, "sm_90", tmp_path)
    gemmgen.library(spec, to=tmp_path / "out", device="emulator", examples=0, points=8)
    with gemmgen.load_library(tmp_path / "out", device="emulator") as library:
        ours = Experts(theirs, [library["up"], library["down"]])
        for tokens in (3, 9):
            given = routed(tokens)
            close(ours(*given), theirs(*given))


def test_kernels_of_other_products_are_refused(load: Load) -> None:
    model, theirs = model_of("Mixtral"), experts_of()
    gated, down = kernels_of(load, theirs)
    with pytest.raises(InvalidInput, match=r"a kernel for \?x64x48 .*scale_m.* is needed, .* there are .*swiglu"):
        replace_experts(model, lambda _: [gated])
    plain = load(Problem(None, HIDDEN, INNER, layout="rc"))
    with pytest.raises(InvalidInput, match=rf"{plain.name} computes .*: experts need \?x48x64 .* and \?x64x48"):
        replace_experts(model, lambda _: [gated, down, plain])
    assert not any(isinstance(one, Experts) for one in model.modules())


def test_gradients_and_shapes_are_refused(load: Load) -> None:
    theirs = experts_of()
    ours = Experts(theirs, kernels_of(load, theirs))
    x, index, weights = routed(3)
    with pytest.raises(InvalidInput, match="a gradient is required, and Experts have none"):
        ours(x.requires_grad_(), index, weights)
    with torch.no_grad(), pytest.raises(InvalidInput, match=r"top_k_index is \(3, 2\), and top_k_weights \(3, 1\)"):
        ours(x, index, weights[:, :1])


def test_other_experts_are_refused_with_the_reason() -> None:
    def refused(experts: Any, reason: str) -> None:
        model = torch.nn.ModuleDict({"experts": experts})
        with pytest.raises(InvalidInput, match=rf"experts is not computed by kernels: {reason}"):
            replace_experts(model, lambda _: pytest.fail("refused before"))

    def clamped(self: Any, gate_up: Any) -> Any:
        raise NotImplementedError

    refused(
        torch.nn.ModuleList([torch.nn.Linear(3, 3)] * 4), r"it is a ModuleList of 4 modules\. From transformers 5 on"
    )
    refused(
        experts_of(base=type("Base", (torch.nn.Module,), {"_apply_gate": clamped})),
        "it has a gate of its own, .*clamped",
    )
    refused(experts_of(is_concatenated=False), "gate and up alternate in gate_up_proj")
    refused(experts_of(act=torch.nn.Tanh()), "its act_fn is Tanh: kernels have swiglu, geglu")
    refused(experts_of(act=torch.nn.Hardswish()), "its act_fn is Hardswish")
    spread, biased, odd, plain = (experts_of() for _ in range(4))
    spread._is_expert_parallel = True
    refused(spread, "its experts are spread over several devices")
    biased.down_proj_bias = torch.nn.Parameter(torch.zeros(E, HIDDEN))
    refused(biased, "it has act_fn, down_proj, down_proj_bias, gate_up_proj, and kernels compute gate_up_proj, down")
    odd.down_proj = torch.nn.Parameter(torch.zeros(E, HIDDEN, INNER + 1))
    refused(odd, "gate_up_proj is 8 x 96 x 64, down_proj 8 x 64 x 49: E x 2I x H and E x H x I are known")
    type(plain).forward = lambda self, hidden_states, top_k_index, top_k_weights: hidden_states
    refused(plain, "its forward is its own")
    type(plain).forward = lambda self, hidden_states: hidden_states
    refused(plain, "its forward takes hidden_states: hidden_states, top_k_index, top_k_weights are known")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("GptOss", "it has down_proj, down_proj_bias, gate_up_proj, gate_up_proj_bias, and"),
        ("NemotronH", "up_proj"),
        ("Llama", "LlamaForCausalLM has no experts"),
    ],
)
def test_other_models_are_refused_with_the_reason(name: str, reason: str) -> None:
    fields = {"hybrid_override_pattern": "ME", "n_routed_experts": E} if name == "NemotronH" else {}
    with pytest.raises(InvalidInput, match=reason):
        replace_experts(model_of(name, **fields), lambda _: pytest.fail("refused before"))
