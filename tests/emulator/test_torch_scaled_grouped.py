"""gemmgen.torch.scaled_grouped_mm on tensors of the host: experts of e4m3 whose rows and columns have scales."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.arrays.library import load_source
from gemmgen.families import NAIVE, WGMMA
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.support.errors import InvalidInput
from gemmgen.support.files import Store

if importlib.util.find_spec("torch"):
    import torch

    from gemmgen.torch import gemm, scaled_grouped_mm
    from gemmgen.torch import scaled_grouped as module
    from gemmgen.torch.operator import registered

pytestmark = pytest.mark.usefixtures("torch")  # which skips all of them where it is missing

G, M, N, K = 4, 11, 48, 32
BY_ROW = "scale_m+scale_n"
GATED = "silu(scale_m * scale_n * acc) * (scale_m * scale_n2 * acc2)"

Load = Callable[..., ArrayKernel]


@pytest.fixture(scope="module")
def load(shared_store: Store) -> Iterator[Load]:
    """A kernel of the family naive, one for each problem."""
    known: dict[Problem, ArrayKernel] = {}

    def loaded(epilogue: str, types: str = "e4m3,e4m3,bf16") -> ArrayKernel:
        problem = Problem(None, None, None, types=types, layout="rc", inputs=f"groups={G}", epilogue=epilogue)
        if problem not in known:
            known[problem] = load_source(render(problem, NAIVE, NAIVE.default(problem)), "emulator", shared_store)
        return known[problem]

    yield loaded
    for kernel in known.values():
        kernel.close()


def draw(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def by_row(x: Any) -> tuple[Any, Any]:
    """e4m3 with a scale for each row, as it is usually rounded: the largest magnitude becomes 448."""
    scale = x.abs().amax(-1, keepdim=True) / 448
    return (x / scale).to(torch.float8_e4m3fn), scale.squeeze(-1)


def ends(*numbers: int) -> Any:
    return torch.tensor(numbers or (3, 3, 8, 10), dtype=torch.int32)  # the second group is empty, the last row nobody's


def call_of(n: int = N, **changed: Any) -> dict[str, Any]:
    (a, scale_a), (w, scale_b) = by_row(draw(M, K)), by_row(draw(G, n, K))
    return {"a": a, "b": w.mT, "scale_a": scale_a, "scale_b": scale_b, "offs": ends(), **changed}


def wanted_of(a: Any, b: Any, scale_a: Any, scale_b: Any, offs: Any) -> Any:
    """Its definition, for the rows of a group."""
    begins = [0, *offs.tolist()]
    parts = [
        a[i:j].float() @ b[group].float() * scale_a[i:j, None] * scale_b[group]
        for group, (i, j) in enumerate(pairwise(begins))
    ]
    return torch.cat(parts)


def close(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found[: len(wanted)].float(), wanted, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("compiles", [False, True])
def test_experts_have_scales_by_row_and_a_bias(load, compiles: bool) -> None:
    kernels = [load(f"{BY_ROW}+bias"), load(BY_ROW)]
    torch._dynamo.reset()

    def experts(call: dict[str, Any]) -> Any:
        return scaled_grouped_mm(**call, kernels=kernels) * 1

    run = torch.compile(experts, backend="aot_eager", fullgraph=True) if compiles else experts
    call, bias = call_of(), draw(G, N).bfloat16()
    found, wanted = run(call), wanted_of(**call)
    assert found.dtype is torch.bfloat16 and found.shape == (M, N)
    close(found, wanted)
    group = torch.repeat_interleave(torch.arange(G), ends().diff(prepend=ends(0)))
    close(run(call | {"bias": bias}), wanted + bias.float()[group])


def test_the_type_of_the_result_chooses_the_kernel(load) -> None:
    kernels = [load("acc * scale_n * scale_m", types=types) for types in ("e4m3,e4m3,bf16", "e4m3,e4m3,f32")]
    call = call_of(offs=ends(2, 4, 6, 8))
    found = scaled_grouped_mm(**call, out_dtype=torch.float32, kernels=kernels)
    assert found.dtype is torch.float32
    torch.testing.assert_close(found[:8], wanted_of(**call), rtol=1e-5, atol=1e-5)


def test_the_operator_keeps_torchs_rules(load) -> None:
    """Its checks compute with operands, as torch cannot with those of e4m3. Integers of 8 bits have scales, too."""
    kernel, call = load(BY_ROW, "s8,s8,bf16"), call_of(offs=ends(3, 3, 8, M))
    whole = call | {name: (8 * call[name].float()).clamp(-128, 127).to(torch.int8) for name in "ab"}
    close(scaled_grouped_mm(**whole, kernels=[kernel]), wanted_of(**whole))
    torch.library.opcheck(module.OPERATOR, (*whole.values(), None, [registered(kernel)], torch.bfloat16))


def test_there_are_no_gradients(load) -> None:
    call = call_of()
    call["scale_a"].requires_grad_()
    found = scaled_grouped_mm(**call, kernels=[load(BY_ROW)])
    close(found.detach(), wanted_of(**call).detach())
    with pytest.raises(InvalidInput, match=r"scaled_grouped_mm has no gradients: gemmgen.torch.grouped_mm of bf16"):
        found.sum().backward()


def test_tensor_cores_serve_experts_of_e4m3(shared_store: Store) -> None:
    problem = Problem(None, 48, 128, types="e4m3,e4m3,bf16_fast", layout="rc", inputs="groups=4", epilogue=BY_ROW)
    config = WGMMA.default(problem).with_values(BM=16, BN=64, CONSUMERS=1, SWAP=1)
    (a, scale_a), (w, scale_b) = by_row(draw(90, 128)), by_row(draw(G, 48, 128))
    call = {"a": a, "b": w.mT, "scale_a": scale_a, "scale_b": scale_b, "offs": ends(0, 17, 65, 90)}
    with load_source(render(problem, WGMMA, config, "sm_90a"), "emulator", shared_store) as kernel:
        torch.testing.assert_close(
            scaled_grouped_mm(**call, kernels=[kernel]).float(), wanted_of(**call), rtol=2e-2, atol=5e-2
        )


def test_the_gated_layer_of_experts_is_one_launch(load) -> None:
    """Gate and up lie one behind the other in each expert's weights, and their scales are two vectors."""
    call, kernel = call_of(2 * N), load(GATED)
    gate, up = wanted_of(**call).chunk(2, 1)
    scales = {"scale_m": call["scale_a"]}
    scales |= dict(zip(("scale_n", "scale_n2"), (one.contiguous() for one in call["scale_b"].chunk(2, 1)), strict=True))

    @torch.compile(backend="aot_eager", fullgraph=True)
    def layer(x: Any) -> Any:
        return gemm(kernel, x, call["b"], offs=call["offs"], **scales) * 1

    close(layer(call["a"]), torch.nn.functional.silu(gate) * up)


def longer(name: str) -> Any:
    return torch.cat([call_of()[name]] * 2)


REFUSED: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "one matrix": (lambda: {"b": call_of()["b"][0]}, "a has 2 dimensions, and b 2: 2 and 3 are groups of rows"),
    "no ends": (lambda: {"offs": None}, "offs is None: give the ends of the groups"),
    "another K": (lambda: {"a": call_of()["a"][:, :16]}, "a is 11 x 16 and b 4 x 32 x 48: K = 16 and 32 differ"),
    "scales of other rows": (lambda: {"scale_a": longer("scale_a")}, "scale_a is 22: this product takes 11, one per"),
    "one scale of a": (lambda: {"scale_a": torch.ones(())}, "scale_a is one element: this product takes 11, one per"),
    "one expert's scales": (lambda: {"scale_b": torch.ones(N)}, "scale_b is 48: this product takes 4 x 48, a row"),
    "a short bias": (lambda: {"bias": torch.ones(G, 5)}, "bias is 4 x 5: this product takes 4 x 48, a row for each"),
    "no kernel with bias": (
        lambda: {"bias": torch.ones(G, N)},
        r"has the epilogue scale_m\+scale_n, and this product the epilogue scale_m\+scale_n\+bias",
    ),
    "f16": (
        lambda: {"out_dtype": torch.float16},
        "multiplies float8_e4m3fn by float8_e4m3fn to bfloat16, and this product .* to float16",
    ),
    "rows of b": (lambda: {"b": call_of()["b"].contiguous()}, r"has layout rc: b has strides \(1536, 48, 1\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_said_with_both_values(load, name: str) -> None:
    given, message = REFUSED[name]
    with pytest.raises(InvalidInput, match=message):
        scaled_grouped_mm(**call_of(**given()), kernels=[load(BY_ROW)])
