"""gemmgen.torch.grouped_mm on tensors of the host, beside torch's own and beside loops over groups."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import ExitStack
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

    from gemmgen.torch import gemm, grouped_mm
    from gemmgen.torch import grouped as module
    from gemmgen.torch.operator import registered

pytestmark = pytest.mark.usefixtures("torch")  # which skips all of them where it is missing

G, M, N, K = 4, 11, 12, 8
ENDS = (3, 3, 8, 11)  # the second group is empty
ROWS, ALONG_K = f"groups={G}", f"groups={G}+along_k"

Load = Callable[..., ArrayKernel]


@pytest.fixture(scope="module")
def load(shared_store: Store) -> Iterator[Load]:
    """A kernel of the family naive, one for each problem: of f32 unless said."""
    known: dict[Problem, ArrayKernel] = {}

    def loaded(layout: str, inputs: str, *sizes: int | None, **fields: Any) -> ArrayKernel:
        problem = Problem(
            *(sizes or (None, None, None)), layout=layout, inputs=inputs, **{"pointer_align": 4, **fields}
        )
        if problem not in known:
            known[problem] = load_source(render(problem, NAIVE, NAIVE.default(problem)), "emulator", shared_store)
        return known[problem]

    yield loaded
    for kernel in known.values():
        kernel.close()


@pytest.fixture(scope="module")
def kernels(load: Load) -> list[ArrayKernel]:
    """Those of experts, whose weights are G x N x K, and of their gradients."""
    return [load("rc", ROWS), load("rr", ROWS), load("cr", ALONG_K)]


def draw(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def ends(*numbers: int) -> Any:
    return torch.tensor(numbers or ENDS, dtype=torch.int32)


def ours(a: Any, b: Any, offs: Any, kernels: list[ArrayKernel]) -> Any:
    return grouped_mm(a, b, offs, kernels=kernels)


def loop(a: Any, b: Any, offs: Any) -> Any:
    """By torch.matmul, in any of the forms."""
    spans = list(zip([0, *offs.tolist()], offs.tolist(), strict=False))
    if b.dim() == 3:
        return torch.cat([a[i:j] @ b[group] for group, (i, j) in enumerate(spans)])
    if a.dim() == 3:
        return torch.cat([a[group] @ b[:, i:j] for group, (i, j) in enumerate(spans)], 1)
    return torch.stack([a[:, i:j] @ b[i:j] for i, j in spans])


def close(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


# Shapes of a and b, as parents of views, by form.
FORMS: dict[str, tuple[Callable[[], tuple[Any, Any]], Callable[[Any, Any], tuple[Any, Any]]]] = {
    "experts": (lambda: (draw(M, K), draw(G, N, K)), lambda a, w: (a, w.mT)),
    "experts of K x N": (lambda: (draw(M, K), draw(G, K, N)), lambda a, b: (a, b)),
    "columns": (lambda: (draw(G, N, K), draw(M, K)), lambda a, x: (a, x.t())),
    "along K": (lambda: (draw(M, K), draw(M, N)), lambda a, b: (a.t(), b)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("few", [False, True], ids=["kernels of gradients", "gradients by torch"])
def test_products_and_gradients_are_those_of_torch(load, kernels, form: str, few: bool) -> None:
    made, views = FORMS[form]
    layouts = {"experts": "rc", "experts of K x N": "rr", "columns": "rc", "along K": "cr"}
    chosen = [load(layouts[form], ALONG_K if form == "along K" else ROWS)] if few else kernels
    leaves, others = ([one.clone().requires_grad_() for one in made()] for _ in range(2))
    found, wanted = ours(*views(*leaves), ends(), chosen), loop(*views(*others), ends())
    close(found, wanted)
    close(found.detach(), torch.nn.functional.grouped_mm(*views(*(one.detach() for one in others)), offs=ends()))
    (found**2).sum().backward()
    (wanted**2).sum().backward()
    for one, other in zip(leaves, others, strict=True):
        close(one.grad, other.grad)
    with torch.no_grad():
        close(ours(*views(*leaves), ends(), chosen), wanted)


def test_ends_may_lie_anywhere(load, kernels) -> None:
    kernel = load("rc", ROWS, pointer_align=16)
    a, w, all_ends = draw(M, K), draw(G, N, K), ends(0, *ENDS)
    for chosen in (kernels, [kernel]):
        for offs in (all_ends[1:], torch.stack([all_ends, all_ends], 1)[1:, 1]):
            close(ours(a, w.mT, offs, chosen), loop(a, w.mT, offs))
    with pytest.raises(InvalidInput, match=r"offs begins at address .* this kernel takes one that 16 bytes divide"):
        kernel(a, w.mT, offs=all_ends[1:])


def test_no_gradient_needs_torch_where_kernels_fit(kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_by_torch", lambda *given: pytest.fail("a kernel fits"))
    for made, views in FORMS.values():
        leaves = [one.requires_grad_() for one in made()]
        ours(*views(*leaves), ends(), kernels).sum().backward()  # whose gradient is one element, expanded


@pytest.mark.parametrize("types", ["f32", "bf16"])  # torch's grouped_mm serves bf16, and loops the others
@pytest.mark.parametrize("few", [False, True], ids=["kernels of gradients", "gradients by torch"])
def test_rows_of_no_group_have_a_gradient_of_zero(load, types: str, few: bool) -> None:
    kernels = [load("rc", ROWS, types=types), load("rr", ROWS, types=types), load("cr", ALONG_K, types=types)]
    dtype, wide = (torch.float32, 8 * N) if types == "f32" else (torch.bfloat16, 2 * N)
    a, w = draw(M, 2 * K).to(dtype).requires_grad_(), draw(G, wide, 2 * K).to(dtype).requires_grad_()
    offs, limit = ends(2, 2, 5, 7), 1e-4 if types == "f32" else 0.05
    y = ours(a, w.mT, offs, kernels[:1] if few else kernels)
    torch.testing.assert_close(y[:7], loop(a, w.mT, offs), rtol=limit, atol=limit)
    found = torch.autograd.grad(torch.where(torch.arange(M)[:, None] < 7, y, 0).sum(), (a, w))
    wanted = torch.autograd.grad(loop(a, w.mT, offs).sum(), (a, w))
    torch.testing.assert_close(found, wanted, rtol=limit, atol=limit)
    assert not found[0][7:].any()


def test_second_derivatives(kernels) -> None:
    a, w = draw(M, K).double().requires_grad_(), draw(G, N, K).double().requires_grad_()
    single = [a.detach().float().requires_grad_(), w.detach().float().requires_grad_()]

    def second(product: Any, x: Any, y: Any) -> Any:
        (first,) = torch.autograd.grad((product(x, y.mT, ends()) ** 3).sum(), x, create_graph=True)
        return torch.autograd.grad((first**2).sum(), y)[0]

    found = second(lambda *given: ours(*given, kernels), *single)
    torch.testing.assert_close(found.double(), second(loop, a, w), rtol=1e-3, atol=1e-3)


def test_the_operator_keeps_torchs_rules(kernels) -> None:
    names = [registered(one) for one in kernels]
    a, b, grad = (one.requires_grad_() for one in (draw(M, K), draw(G, N, K).mT, draw(M, N)))
    torch.library.opcheck(module.OPERATOR, (a, b, ends(), None, names, torch.float32, False))
    torch.library.opcheck(module.OPERATOR, (a.detach().t(), grad, ends(), None, names, torch.float32, True))


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_mixture_is_compiled_without_a_break(kernels, dynamic: bool) -> None:
    torch._dynamo.reset()

    def layer(a: Any, w: Any, offs: Any) -> Any:
        return torch.relu(grouped_mm(a * 2, w.mT, offs, kernels=kernels)) - 1

    compiled, w = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=dynamic), draw(G, N, K)
    for rows in (M, M + 2):
        offs = ends(1, 4, 4, rows)
        a, weights = draw(rows, K).requires_grad_(), w.clone().requires_grad_()
        found, wanted = compiled(a, weights, offs), torch.relu(loop(a * 2, weights.mT, offs)) - 1
        close(found, wanted)
        both = (torch.autograd.grad((one**2).sum(), (a, weights)) for one in (found, wanted))
        for one, other in zip(*both, strict=True):
            close(one, other)


def test_the_kernel_of_this_many_rows_comes_first(load, monkeypatch: pytest.MonkeyPatch) -> None:
    general, exact = load("rc", ROWS, None, N, K), load("rc", ROWS, M, N, K)
    called: list[str] = []
    for name, kernel in (("general", general), ("exact", exact)):
        run = kernel._backend.run
        monkeypatch.setattr(kernel._backend, "run", lambda *given, n=name, run=run: called.append(n) or run(*given))
    w = draw(G, N, K)
    for rows in (M, M + 1):
        a, offs = draw(rows, K), ends(0, 2, 5, rows)
        close(ours(a, w.mT, offs, [general, exact]), loop(a, w.mT, offs))
    assert called == ["exact", "general"]


def test_a_product_of_a_library_is_a_kernel_among_others(kernels, tmp_path: Path, shared_store: Store) -> None:
    product: dict[str, Any] = {"name": "experts", "types": "f32", "layout": "rc", "inputs": ROWS}
    product |= {"M": "?", "N": "?", "K": "?", "kernels": ["any.cu"]}
    problem = Problem(None, None, None, layout="rc", inputs=ROWS, ld_align=4)
    (tmp_path / "any.cu").write_text(render(problem, NAIVE, NAIVE.default(problem)).text)
    spec = spec_from({"name": "moe", "architectures": ["sm_90"], "product": [product]}, "sm_90", tmp_path)
    gemmgen.library(spec, to=tmp_path / "out", device="emulator", examples=0, points=8)
    a, w = draw(M, K).requires_grad_(), draw(G, N, K).requires_grad_()
    with gemmgen.load_library(tmp_path / "out", device="emulator") as library:
        experts = library["experts"]
        for layer in (
            lambda x: ours(x, w.mT, ends(), [experts, *kernels[1:]]),
            lambda x: ours(x, w.mT, ends(), [experts]),
        ):
            for call in (layer, torch.compile(layer, backend="aot_eager", fullgraph=True)):
                found = torch.autograd.grad((call(a) ** 2).sum(), (a, w))
                close(found, torch.autograd.grad((loop(a, w.mT, ends()) ** 2).sum(), (a, w)))


def test_tensor_cores_serve_experts_of_bf16_and_their_gradients(
    shared_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    forms = (
        ((None, 72, 64), "rc", "groups=3"),
        ((None, 64, 72), "rr", "groups=3"),
        ((72, 64, None), "cr", "groups=3+along_k"),
    )
    a, w, offs = draw(90, 64).bfloat16().requires_grad_(), draw(3, 72, 64).bfloat16().requires_grad_(), ends(0, 65, 90)
    monkeypatch.setattr(module, "_by_torch", lambda *given: pytest.fail("a kernel fits"))
    with ExitStack() as stack:
        kernels = []
        for sizes, layout, inputs in forms:
            problem = Problem(*sizes, "bf16", layout=layout, inputs=inputs)
            config = WGMMA.default(problem).with_values(BM=64, BN=64, CONSUMERS=1)
            source = render(problem, WGMMA, config, "sm_90a")
            kernels.append(stack.enter_context(load_source(source, "emulator", shared_store)))
        y = ours(a, w.mT, offs, kernels)
        torch.testing.assert_close(y, loop(a, w.mT, offs), rtol=2e-2, atol=2e-2)
        y.float().sum().backward()
    x, v = a.detach().requires_grad_(), w.detach().requires_grad_()
    loop(x, v.mT, offs).float().sum().backward()
    torch.testing.assert_close((a.grad, w.grad), (x.grad, v.grad), rtol=2e-2, atol=2e-2)


def test_the_type_of_the_result_chooses_the_kernel(load) -> None:
    kernels = [load("rc", ROWS, types=types, pointer_align=16) for types in ("bf16", "bf16,bf16,f32")]
    a, w = draw(M, K).bfloat16(), draw(G, N, K).bfloat16()
    wanted = loop(a.float(), w.float().mT, ends())
    close(grouped_mm(a, w.mT, ends(), out_dtype=torch.float32, kernels=kernels), wanted)
    close(ours(a, w.mT, ends(), kernels), wanted.bfloat16())
    with pytest.raises(InvalidInput, match=r"multiplies bfloat16 by bfloat16 to bfloat16, and this product .* float32"):
        grouped_mm(a, w.mT, ends(), out_dtype=torch.float32, kernels=kernels[:1])


@pytest.mark.parametrize(("rows", "offs"), [(0, (0, 0, 0, 0)), (M, (0, 0, 0, 0))])
def test_groups_without_rows(kernels, rows: int, offs: tuple[int, ...]) -> None:
    a, w = draw(rows, K).requires_grad_(), draw(G, N, K).requires_grad_()
    y = ours(a, w.mT, ends(*offs), kernels)
    assert y.shape == (rows, N)
    y.sum().backward()
    assert a.grad.shape == (rows, K) and not a.grad.any() and not w.grad.any()


def test_gated_experts_are_compiled_and_have_no_gradient(load) -> None:
    kernel = load("rc", ROWS, epilogue="swiglu")
    a, w = draw(M, K), draw(G, 2 * N, K)
    gate, up = loop(a, w.mT, ends()).chunk(2, 1)
    compiled = torch.compile(lambda x: gemm(kernel, x, w.mT, offs=ends()) * 1, backend="aot_eager")
    close(compiled(a), torch.nn.functional.silu(gate) * up)
    with pytest.raises(InvalidInput, match=r"inputs = groups=4 have no gradient here: gemmgen.torch.grouped_mm has"):
        gemm(kernel, a.requires_grad_(), w.mT, offs=ends()).sum().backward()


def test_gemm_takes_every_form_of_groups(load) -> None:
    a, w, index = draw(G, M, K), draw(G, N, K), torch.tensor([2, 0, 2], dtype=torch.int32)
    counts = ends(0, M, 1, 5)
    masked = gemm(load("rc", f"groups={G}+masked"), a, w.mT, group_rows=counts)
    assert masked.shape == (G, M, N)
    for group, count in enumerate(counts):
        close(masked[group, :count], a[group, :count] @ w[group].t())
    close(gemm(load("rc", "gathered"), a[0], w[0].t(), index_a=index), a[0][index.long()] @ w[0].t())
    close(gemm(load("cr", ALONG_K), a[0].t(), draw(M, N), offs=ends()), loop(a[0].t(), draw(M, N), ends()))


@pytest.mark.parametrize("compiles", [False, True])
def test_each_expert_has_a_bias_and_its_gradient(load, kernels, compiles: bool) -> None:
    chosen, offs = [load("rc", ROWS, epilogue="bias"), *kernels], ends(3, 3, 8, 9)
    leaves = [one.requires_grad_() for one in (draw(M, K), draw(G, N, K), draw(G, N).bfloat16())]

    def layer(a: Any, w: Any, bias: Any) -> Any:
        return grouped_mm(a, w.mT, offs, bias=bias, kernels=chosen)[:9]

    torch._dynamo.reset()
    call = torch.compile(layer, backend="aot_eager", fullgraph=True) if compiles else layer
    group = torch.repeat_interleave(torch.arange(G), offs.diff(prepend=ends(0)))
    found, wanted = call(*leaves), loop(leaves[0], leaves[1].mT, offs) + leaves[2].float()[group]
    close(found, wanted)
    both = (torch.autograd.grad((one**2).sum(), leaves) for one in (found, wanted))
    for one, other in zip(*both, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one.float(), other.float(), rtol=1e-2, atol=1e-2)


REFUSED: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "one bias": (lambda: {"bias": draw(N)}, "bias is 12: this product takes 4 x 12, a row for each group"),
    "no kernel with bias": (
        lambda: {"bias": draw(G, N)},
        r"has no epilogue, and this product the epilogue bias; .* has inputs = groups=4\+along_k, and this",
    ),
    "a bias along K": (
        lambda: {"a": draw(M, K), "b": draw(K, N), "bias": draw(G, N)},
        "a has 2 dimensions, and b 2: bias goes with groups of rows, 2 and 3",
    ),
    "a batch": (lambda: {"a": draw(G, M, K)}, "a has 3 dimensions, and b 3: gemmgen.torch.gemm multiplies batches"),
    "no ends": (lambda: {"offs": None}, "offs is None: give the ends of the groups"),
    "long ends": (lambda: {"offs": ends().long()}, "offs is of torch.int64: torch.int32 is needed, as counts.cumsum"),
    "five ends": (lambda: {"offs": ends(1, 2, 3, 4, 5)}, "offs has the ends of 5 groups, and b 4"),
    "another K": (lambda: {"a": draw(M, K + 1)}, "a is 11 x 9 and b 4 x 8 x 12: K = 9 and 8 differ"),
    "no kernel": (lambda: {"kernels": []}, "no kernel fits: there are none"),
    "five groups": (
        lambda: {"b": draw(5, N, K).mT, "offs": ends(1, 2, 3, 4, 5)},
        r"has inputs = groups=4, and this product groups=5; .* has inputs = groups=4\+along_k, and this",
    ),
    "f64": (
        lambda: {"a": draw(M, K).double()},
        "multiplies float32 by float32 to float32, and this product float64 by",
    ),
    "a column-major A": (lambda: {"a": draw(K, M).t()}, r"has layout rc: a has strides \(1, 11\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_said_with_both_values(kernels, name: str) -> None:
    given, message = REFUSED[name]
    call = {"a": draw(M, K), "b": draw(G, N, K).mT, "offs": ends(), "kernels": kernels, **given()}
    with pytest.raises(InvalidInput, match=message):
        grouped_mm(**call)


def test_kernels_of_other_sizes_and_epilogues_are_refused(load) -> None:
    a, w = draw(M, K), draw(G, N, K)
    for kernel, message in (
        (load("rc", ROWS, None, N + 1, K), "is built for N = 13, and this product has 12"),
        (load("rc", ROWS, epilogue="relu(alpha * acc)"), "has another epilogue, and this product no epilogue"),
        (load("rc", ROWS, epilogue="bias"), "has the epilogue bias, and this product no epilogue"),
    ):
        with pytest.raises(InvalidInput, match=message):
            ours(a, w.mT, ends(), [kernel])
