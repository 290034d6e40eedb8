"""gemmgen.torch on tensors of the host, which the emulator multiplies."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

import gemmgen
from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.arrays.library import ArrayLibrary, load_source
from gemmgen.arrays.quantising import quantise_squares
from gemmgen.checkpoints.weight import QuantisedWeight
from gemmgen.exports.library.spec import spec_from
from gemmgen.families import NAIVE, SIMT, WGMMA
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Types
from gemmgen.render.kernel_text import render
from gemmgen.support.errors import InvalidInput
from gemmgen.support.files import Store

if importlib.util.find_spec("torch"):
    import torch

    from gemmgen.torch import (
        LSTM,
        BlockScaledLinear,
        Linear,
        QuantisedLinear,
        gemm,
        operator,
        replace_linear,
    )
    from gemmgen.torch.operator import OPERATOR, registered

pytestmark = pytest.mark.usefixtures("torch")  # which skips all of them where it is missing

N, K = 12, 20


@pytest.fixture(scope="module")
def load(shared_store: Store) -> Iterator[Callable[..., ArrayKernel]]:
    known: list[ArrayKernel] = []

    def loaded(*sizes: int | None, **fields: Any) -> ArrayKernel:
        problem = Problem(*sizes, **{"layout": "rc", "pointer_align": 4, **fields})
        known.append(load_source(render(problem, SIMT, SIMT.default(problem)), "emulator", shared_store))
        return known[-1]

    yield loaded
    for kernel in known:
        kernel.close()


@pytest.fixture(scope="module")
def plain(load) -> ArrayKernel:
    return load(None, N, K)


@pytest.fixture(scope="module")
def biased(load) -> ArrayKernel:
    return load(None, N, K, epilogue="bias")


def draw(*shape: int, **options: Any) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), **options)


def test_the_operator_keeps_torchs_rules(biased) -> None:
    """Its schema, its fake implementation beside the real one, its gradients, and all that under aot_autograd."""
    x, b, bias = (one.detach().requires_grad_() for one in (draw(5, K), draw(N, K).t(), draw(N)))
    torch.library.opcheck(OPERATOR, (x, b, [bias], registered(biased), N, 1.0, False))


def test_gradients_are_those_of_torch(biased) -> None:
    given = [draw(5, K), draw(N, K), draw(N)]
    ours, theirs = ([one.clone().requires_grad_() for one in given] for _ in range(2))
    (gemm(biased, ours[0], ours[1].t(), alpha=1.5, bias_n=ours[2]) ** 2).sum().backward()
    ((1.5 * theirs[0] @ theirs[1].t() + theirs[2]) ** 2).sum().backward()
    for found, wanted in zip(ours, theirs, strict=True):
        torch.testing.assert_close(found.grad, wanted.grad, rtol=1e-4, atol=1e-4)


def asking(*names: str) -> dict[str, Any]:
    """Operands of `biased`, of which some require a gradient."""
    made = {"a": draw(5, K), "w": draw(N, K), "out": torch.empty(5, N), "bias_n": draw(N)}
    return {name: one.requires_grad_(name in names) for name, one in made.items()}


@pytest.mark.parametrize(
    ("names", "words"), [("a", "A requires"), ("w", "B requires"), ("out", "C requires"), ("bias_n", "bias_n requires")]
)
def test_a_launch_drops_no_gradient(biased, names: str, words: str) -> None:
    given = asking(names)
    a, b = given.pop("a"), given.pop("w").t()
    message = f"{words} a gradient, and a launch records none: call gemmgen.torch.gemm, .* under torch.no_grad"
    for call in (biased, biased.plan):
        with pytest.raises(InvalidInput, match=message):
            call(a, b, **given)
    with torch.no_grad():
        biased(a, b, **given)
    with pytest.raises(InvalidInput, match=message):  # a form that is known by now
        biased(a, b, **given)
    detached = {name: one.detach() for name, one in given.items()}
    torch.testing.assert_close(biased(a.detach(), b.detach(), **detached), given["out"].detach())


def test_a_launch_of_a_librarys_product_drops_no_gradient(products) -> None:
    product = products["dense"]
    a, w = draw(5, K).requires_grad_(), draw(N, K).requires_grad_()
    for call in (product, product.plan, product.kernel_for):
        with pytest.raises(InvalidInput, match="A and B require a gradient, and a launch records none"):
            call(a, w.t())
    torch.testing.assert_close(product(a.detach(), w.detach().t()), (a @ w.t()).detach(), rtol=1e-4, atol=1e-4)


def test_autograd_hears_of_what_a_launch_writes(plain) -> None:
    a, w, out = draw(5, K), draw(N, K), draw(5, N)
    for write in (lambda: plain(a, w.t(), out), plain.plan(a, w.t(), out)):
        x = draw(5, N).requires_grad_()
        product = x * out  # whose gradient needs the old `out`
        write()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.sum().backward()
    with torch.inference_mode():
        plain(a, w.t(), torch.empty(5, N))  # whose writes nobody counts


def test_the_gradient_of_a_bias_alone_is_not_lost(biased) -> None:
    linear = torch.nn.Linear(K, N).requires_grad_(requires_grad=False)
    linear.bias.requires_grad_()
    Linear.of(linear, [biased])(draw(5, K)).sum().backward()
    torch.testing.assert_close(linear.bias.grad, torch.full((N,), 5.0))


@pytest.mark.parametrize("shared", ["", "a", "b"])
def test_products_of_a_batch_share_an_operand_and_interleave(load, shared: str) -> None:
    sizes = dict.fromkeys(("batch", "lda", "ldb", "stride_a", "stride_b"))
    kernel = load(None, None, None, **sizes)
    heads = [draw(5, 3, K), draw(N, 3, K)]
    ours, theirs = ([one.clone().requires_grad_() for one in heads] for _ in range(2))
    found, wanted = (
        (a[:, 0] if shared == "a" else a.transpose(0, 1), (w[:, 0] if shared == "b" else w.transpose(0, 1)).mT)
        for a, w in (ours, theirs)
    )
    c = gemm(kernel, *found)
    torch.testing.assert_close(c, wanted[0] @ wanted[1], rtol=1e-4, atol=1e-4)
    (c**2).sum().backward()
    ((wanted[0] @ wanted[1]) ** 2).sum().backward()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-4)


def test_an_epilogue_with_no_gradient_says_so(load) -> None:
    kernel = load(None, N, K, epilogue="gelu")
    y = gemm(kernel, draw(3, K, requires_grad=True), draw(N, K).t())
    with pytest.raises(InvalidInput, match=r"gelu.* has no gradient here"):
        y.sum().backward()
    with pytest.raises(InvalidInput, match="no argument is called bias_n: known are alpha, of the epilogue"):
        gemm(kernel, draw(3, K), draw(N, K).t(), bias_n=draw(N))


@pytest.mark.parametrize("fused", [False, True])
def test_a_compiled_model_is_the_same(plain, biased, fused: bool) -> None:
    linear = torch.nn.Linear(K, N)
    model = torch.nn.Sequential(Linear.of(linear, [biased if fused else plain]), torch.nn.ReLU())
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    x = draw(2, 3, K)
    for given in (x, draw(2, 3, K, requires_grad=True)):
        torch.testing.assert_close(compiled(given), torch.relu(linear(given)), rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), torch.relu(linear(x)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("m", "rows"), [(0, ()), (0, (2,)), (2, (0,))])
def test_an_empty_product_is_an_empty_tensor_and_has_gradients(biased, plain, m: int, rows: tuple[int, ...]) -> None:
    linear, x = torch.nn.Linear(K, N), draw(*rows, m, K)
    for kernel in (plain, biased):
        module = Linear.of(linear, [kernel])
        assert module(x).shape == linear(x).shape == (*rows, m, N)
        with torch.no_grad():
            assert module(x).shape == (*rows, m, N)
    a, w, bias = draw(0, K).requires_grad_(), draw(N, K).requires_grad_(), draw(N).requires_grad_()
    gemm(biased, a, w.t(), bias_n=bias).sum().backward()
    assert a.grad.shape == (0, K) and w.grad.eq(0).all() and bias.grad.eq(0).all()


def test_rows_choose_the_kernel_and_torch_takes_what_none_does(load, monkeypatch: pytest.MonkeyPatch) -> None:
    two = load(2, N, K)
    linear = torch.nn.Linear(K, N)
    module, called = Linear.of(linear, [two]), []
    run = two._backend.run
    monkeypatch.setattr(two._backend, "run", lambda *given: called.append(given[3].shape) or run(*given))
    with torch.no_grad():
        for rows in (1, 2, 3, 2):
            x = draw(rows, K)
            torch.testing.assert_close(module(x), linear(x), rtol=1e-4, atol=1e-4)
    assert called == [(2, K)] * 2
    assert "rows=2" in repr(module)


def test_a_weight_is_packed_again_once_it_was_written(program, shared_store) -> None:
    with load_source(program("rc", "bf16", pointer_align=2), "emulator", shared_store) as kernel:
        linear = torch.nn.Linear(K, N, bias=False, dtype=torch.bfloat16)
        module, prepared = Linear.of(linear, [kernel]), []
        prepare = kernel.prepare_b
        kernel.prepare_b = lambda b: prepared.append(b) or prepare(b)  # type: ignore[method-assign]
        x = draw(7, K).bfloat16()
        with torch.no_grad():
            for scale in (1, 1, -2):
                linear.weight.mul_(scale) if scale != 1 else None
                torch.testing.assert_close(module(x), linear(x), rtol=1e-2, atol=1e-2)
            assert len(prepared) == 2
            left, right = draw(N, K).bfloat16(), draw(K, K).bfloat16()
            kernel(left, right.t(), linear.weight)  # by a launch
            torch.testing.assert_close(module(x), linear(x), rtol=1e-2, atol=5e-2)
        assert len(prepared) == 3
        with pytest.raises(InvalidInput, match="B requires a gradient, and a launch records none"):
            kernel.prepare_b(linear.weight.t())
        packed = kernel.prepare_b(linear.weight.detach().t())
        torch.testing.assert_close(gemm(kernel, x, packed), linear(x).detach(), rtol=1e-2, atol=1e-2)


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArrayLibrary]:
    """A library of one product, f32 and rc, of any sizes."""
    tmp_path = tmp_path_factory.mktemp("library")
    problem = Problem(None, None, None, layout="rc", lda=None, ldb=None, ldc=None, pointer_align=4)
    source = render(problem, NAIVE, NAIVE.default(problem))
    (tmp_path / "any.cu").write_text(source.text)
    product = {"name": "dense", "types": "f32", "layout": "rc", "M": "?", "N": "?", "K": "?", "kernels": ["any.cu"]}
    spec = spec_from({"name": "small", "architectures": ["sm_90"], "product": [product]}, "sm_90", tmp_path)
    gemmgen.library(spec, to=tmp_path / "out", device="emulator", examples=0, points=8)
    with gemmgen.load_library(tmp_path / "out", device="emulator") as library:
        yield library


def test_a_product_of_a_library_serves_a_linear(products) -> None:
    linear, x = torch.nn.Linear(K, N), draw(2, 3, K)
    module = Linear.of(linear, [products["dense"]])
    torch.testing.assert_close(module(x), linear(x), rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(module(x), linear(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("which", ["kernel", "with a bias", "product of a library"])
def test_a_call_is_compiled_without_a_break(load, products, which: str, dynamic: bool) -> None:
    """Nothing has called the kernel before: it is loaded, and no more."""
    depth = K + 1 + dynamic  # that no other test has
    fused = which == "with a bias"
    library = which == "product of a library"
    kernel = products["dense"] if library else load(None, N, depth, epilogue="bias" if fused else "alpha * acc")
    operator._kernels.pop(kernel.identity, None)
    torch._dynamo.reset()

    def product(x: Any, w: Any, bias: Any) -> Any:
        return gemm(kernel, x * 2, w.t(), alpha=0.5, **({"bias_n": bias} if fused else {})) - 1

    compiled = torch.compile(product, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    w, bias = draw(N, depth), draw(N)
    for rows in (5, 7):
        x = draw(rows, depth).requires_grad_()
        both = compiled(x, w, bias), x @ w.t() + (bias if fused else 0) - 1
        torch.testing.assert_close(*both, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(*(torch.autograd.grad((y**2).sum(), x) for y in both), rtol=1e-4, atol=1e-4)


def test_a_closed_kernel_leaves_the_calls_of_another_of_the_same_text_alone(load) -> None:
    first, second = (load(None, N, K, epilogue="acc") for _ in range(2))
    x, w = draw(5, K), draw(N, K)
    second.close()
    torch.testing.assert_close(gemm(first, x, w.t()), x @ w.t(), rtol=1e-4, atol=1e-4)


def test_a_compiled_call_names_what_it_does_not_take(plain) -> None:
    compiled = torch.compile(lambda x, w: gemm(plain, x, w.t(), alfa=2), backend="aot_eager")
    with pytest.raises(InvalidInput, match="no argument is called alfa: known are alpha, of the epilogue"):
        compiled(draw(5, K), draw(N, K))


def test_a_models_linear_layers_are_replaced_by_name(plain) -> None:
    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.other = torch.nn.Linear(K, N), torch.nn.Linear(N, 3)

        def forward(self, x: Any) -> Any:
            return self.other(self.up(x))

    model = torch.nn.Sequential(Block(), torch.nn.ReLU())
    x = draw(4, K)
    wanted, state = model(x), {name: one.clone() for name, one in model.state_dict().items()}
    assert replace_linear(model, lambda linear: [plain] if linear.out_features == N else []) == ["0.up"]
    torch.testing.assert_close(model(x), wanted, rtol=1e-4, atol=1e-4)
    assert model.state_dict().keys() == state.keys()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"layout": "rr"}, "has layout rr: a Linear needs rc"),
        ({"epilogue": "gelu"}, "a Linear has the product"),
        ({"epilogue": "bias"}, "adds bias_n, and this Linear has no bias"),
        ({"types": "f64"}, "multiplies f64, and the weight is of torch.float32"),
        ({"n": N + 1}, f"is built for N = {N + 1}, and the weight has {N}"),
    ],
)
def test_a_kernel_of_another_problem_is_refused(fields: dict[str, Any], message: str) -> None:
    problem = Problem(None, fields.pop("n", N), K, **{"layout": "rc", **fields})
    nowhere: Any = SimpleNamespace(device="cpu")
    kernel = ArrayKernel(render(problem, SIMT, SIMT.default(problem)), nowhere)
    with pytest.raises(InvalidInput, match=message):
        Linear.of(torch.nn.Linear(K, N, bias=False), [kernel])


@pytest.fixture(scope="module")
def of_codes(shared_store: Store) -> Iterator[Callable[[QuantisedWeight], list[ArrayKernel]]]:
    """Kernels for a quantised weight."""
    known: list[ArrayKernel] = []

    def loaded(weight: QuantisedWeight) -> list[ArrayKernel]:
        types = f"bf16,{weight.element.label},bf16"
        problem = Problem(None, weight.n, weight.k, types=types, layout="rc", inputs=weight.inputs)
        narrow = {"BN": 64, "CONSUMERS": 1} if weight.n == 64 else {}
        source = render(problem, WGMMA, WGMMA.default(problem).with_values(**narrow), "sm_90")
        known.append(load_source(source, "emulator", shared_store))
        return [known[-1]]

    yield loaded
    for one in known:
        one.close()


def test_layers_of_codes_compute_what_their_rounded_weights_do(of_codes) -> None:
    torch.manual_seed(0)
    parts = torch.nn.Linear(256, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64, bias=False)
    model = torch.nn.Sequential(*parts).to(torch.bfloat16).requires_grad_(False)
    weights = {
        name: QuantisedWeight.nearest(model.get_submodule(name).weight.float().numpy(), group, symmetric=name == "0")
        for name, group in (("0", 64), ("2", 128))
    }
    x, rounded = torch.randn(2, 3, 256).to(torch.bfloat16), {}
    for name, weight in weights.items():
        rounded[name] = torch.from_numpy(weight.dequantised()).to(torch.bfloat16)
    y = model[0](x) + torch.nn.functional.linear(x, rounded["0"] - model[0].weight)
    wanted = torch.nn.functional.linear(torch.relu(y), rounded["2"])
    assert replace_linear(model, of_codes, weights=weights) == ["0", "2"]
    assert isinstance(model[2], QuantisedLinear) and "codes of u4 with scales=128+zeros" in repr(model[2])
    assert {*model.state_dict()} == {"0.bias", "0.packed", "2.packed"}
    torch.testing.assert_close(model(x), wanted, rtol=0.02, atol=0.02)
    torch.testing.assert_close(torch.compile(model, backend="aot_eager", fullgraph=True)(x), model(x), rtol=0, atol=0)
    with pytest.raises(InvalidInput, match="x requires a gradient, and a QuantisedLinear has none"):
        model(x.clone().requires_grad_())


@pytest.mark.parametrize(("bits", "symmetric"), [(4, False), (8, False), (8, True)])
def test_a_plain_layer_is_rounded_for_kernels_of_codes(bits, symmetric, of_codes) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(128, 64)).to(torch.bfloat16).requires_grad_(False)
    x, plain = torch.randn(3, 128).to(torch.bfloat16), model[0].weight.float().numpy()
    weight = QuantisedWeight.nearest(plain, 64, symmetric=symmetric, bits=bits)
    replace_linear(layered := torch.nn.Sequential(model[0]), lambda _: of_codes(weight))
    replace_linear(model, lambda _: of_codes(weight), weights={"0": weight})
    torch.testing.assert_close(layered(x), model(x), rtol=0, atol=0)


def test_layers_of_codes_refuse_what_does_not_fit(of_codes) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(128, 64), torch.nn.ReLU())
    weight = QuantisedWeight.nearest(torch.randn(64, 128).numpy())
    with pytest.raises(InvalidInput, match="1 is ReLU, and a quantised weight is a Linear's"):
        replace_linear(model, of_codes, weights={"1": weight})
    with pytest.raises(InvalidInput, match="0 is 64 x 128: its quantised weight is 32 x 128"):
        replace_linear(model, of_codes, weights={"0": QuantisedWeight.nearest(torch.randn(32, 128).numpy())})
    with pytest.raises(InvalidInput, match="a kernel for any number of rows is needed: there are none"):
        QuantisedLinear(weight, None, [])
    with pytest.raises(InvalidInput, match=r"takes scales=128\+zeros: this weight has scales=64\+zeros"):
        QuantisedLinear(QuantisedWeight.nearest(torch.randn(64, 128).numpy(), 64), None, of_codes(weight))
    with pytest.raises(InvalidInput, match="multiplies bf16 by u4: this weight is u4, with scales of f16"):
        QuantisedLinear(QuantisedWeight.nearest(torch.randn(64, 128).numpy(), 128, DType.F16), None, of_codes(weight))


def test_layers_of_blocks_compute_what_their_rounded_numbers_do(shared_store: Store) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64, bias=False))
    model = model.to(torch.bfloat16).requires_grad_(False)
    x = torch.randn(2, 3, 256).to(torch.bfloat16)
    wanted, types = model(x), Types.parse("e4m3,e4m3,bf16_promoted")
    with ExitStack() as loaded:

        def kernels_for(linear: Any) -> list[ArrayKernel]:
            problem = Problem(None, linear.out_features, linear.in_features, types=types, layout="rc", inputs="blocks")
            source = render(problem, WGMMA, WGMMA.default(problem).with_values(BN=64), "sm_90")
            return [loaded.enter_context(load_source(source, "emulator", shared_store))]

        rounded = quantise_squares(model[2].weight)
        assert replace_linear(model, kernels_for) == ["0", "2"]
        y = model(x)
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)(x)
        again = BlockScaledLinear(rounded[0], None, [model[2]._by_rows[None][0]], rounded[1])
        torch.testing.assert_close(again(torch.relu(model[0](x))), y, rtol=0, atol=0)
    torch.testing.assert_close(compiled, y, rtol=0, atol=0)
    with pytest.raises(InvalidInput, match="x requires a gradient, and a BlockScaledLinear has none"):
        model(x.clone().requires_grad_())
    assert {*model.state_dict()} == {"0.bias", "0.codes", "0.scales", "2.codes", "2.scales"}
    assert float((y - wanted).norm() / wanted.norm()) < 0.05
    nowhere: Any = SimpleNamespace(device="cpu")
    plain = Problem(None, 64, 128, types=types, layout="rc")
    kernel = ArrayKernel(render(plain, WGMMA, WGMMA.default(plain), "sm_90"), nowhere)
    with pytest.raises(InvalidInput, match="takes inputs = plain: a BlockScaledLinear needs blocks"):
        BlockScaledLinear(torch.zeros(64, 128, dtype=torch.bfloat16), None, [kernel])
    with pytest.raises(InvalidInput, match="scales go with e4m3, and only with it"):
        BlockScaledLinear(torch.zeros(128, 256).to(torch.float8_e4m3fn), None, [model[0]._by_rows[None][0]])


@pytest.mark.parametrize(("dtype", "family"), [("float32", "naive"), ("bfloat16", "wgmma")])
@pytest.mark.parametrize(("batch_first", "at_once"), [(False, 1), (True, 3)])
def test_an_lstm_by_kernels_is_torchs(
    shared_store: Store, dtype: str, family: str, batch_first: bool, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its inputs are multiplied `at_once` steps at a time."""
    monkeypatch.setattr("gemmgen.torch.lstm.CHUNK", at_once * (5 if not batch_first else 3) * 40 * 4)
    torch.manual_seed(1)
    theirs = torch.nn.LSTM(24, 40, 2, batch_first=batch_first).eval()
    x, state = torch.randn(3, 5, 24), (torch.randn(2, 5 if not batch_first else 3, 40), torch.randn(2, 5, 40))
    state = state[0], state[1][:, : state[0].shape[1]]
    element = getattr(torch, dtype)
    chosen = gemmgen.families.FAMILIES[family]
    sequences = x.shape[1 - batch_first]
    with torch.no_grad(), ExitStack() as open_kernels:

        def loaded(problem: Problem) -> ArrayKernel:
            source = render(problem, chosen, chosen.default(problem))
            return open_kernels.enter_context(load_source(source, "emulator", shared_store))

        layers = LSTM.problems(theirs.to(element), sequences)
        ours = LSTM(theirs, [(loaded(of_x), loaded(of_step)) for of_x, of_step in layers])
        for given in (None, state):
            cast = None if given is None else tuple(one.to(element) for one in given)
            y, (h, c) = ours(x.to(element), cast)
            wanted, (last, cell) = theirs.float()(x.to(element).float(), cast and tuple(one.float() for one in cast))
            theirs.to(element)
            near = 1e-5 if dtype == "float32" else 2e-2
            for found, right in ((y, wanted), (h, last), (c, cell)):
                assert found.dtype is element
                torch.testing.assert_close(found.float(), right, rtol=near, atol=near)


def test_an_lstm_of_another_kind_is_refused(shared_store: Store) -> None:
    with pytest.raises(InvalidInput, match="the LSTM is bidirectional"):
        LSTM.problems(torch.nn.LSTM(8, 8, bidirectional=True), 4)
    with pytest.raises(InvalidInput, match="the LSTM has projections to 3"):
        LSTM.problems(torch.nn.LSTM(8, 8, proj_size=3), 4)
    lstm = torch.nn.LSTM(8, 16)
    ((other, _),) = LSTM.problems(torch.nn.LSTM(24, 16), 4)
    with load_source(render(other, NAIVE, NAIVE.default(other)), "emulator", shared_store) as kernel:
        with pytest.raises(InvalidInput, match=r"computes \?x16x24 .*: layer 0 needs \?x16x8"):
            LSTM(lstm, [(kernel, kernel)])
        with pytest.raises(InvalidInput, match="kernels of 2 layers: the LSTM has 1"):
            LSTM(lstm, [(kernel, kernel), (kernel, kernel)])
