"""gemmgen.torch.conv2d on tensors of the host, beside torch's own."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.arrays.library import load_source
from gemmgen.families import MMA, NAIVE, WGMMA, Family
from gemmgen.problem.convolution import Convolution
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.support.errors import InvalidInput
from gemmgen.support.files import Store

if importlib.util.find_spec("torch"):
    import torch

    from gemmgen.torch import Conv2d, Linear, conv2d, gemm
    from gemmgen.torch import convolution as module
    from gemmgen.torch.conv_layer import convolution
    from gemmgen.torch.operator import registered

pytestmark = pytest.mark.usefixtures("torch")  # which skips all of them where it is missing

FILTERS, IMAGES = 6, 2
EVEN, STRIDED, UNEVEN = "5x7x3_3x3_p1x1", "5x7x3_3x3_p1x0_s2x1_d1x2", "5x7x3_2x3_p1x0x0x2"

Load = Callable[..., ArrayKernel]


@pytest.fixture(scope="module")
def load(shared_store: Store) -> Iterator[Load]:
    """A kernel of the family naive, one for each problem: of f32 unless said."""
    known: dict[Problem, ArrayKernel] = {}

    def loaded(conv: str, m: int | None = None, n: int | None = None, **fields: Any) -> ArrayKernel:
        given = {
            "k": Convolution.parse(conv).depth,
            "layout": "rc",
            "pointer_align": 4,
            "inputs": f"im2col={conv}",
            **fields,
        }
        problem = Problem(m, n, **given)
        if problem not in known:
            known[problem] = load_source(render(problem, NAIVE, NAIVE.default(problem)), "emulator", shared_store)
        return known[problem]

    yield loaded
    for kernel in known.values():
        kernel.close()


def draw(*shape: int) -> Any:
    found = torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))
    return found.to(memory_format=torch.channels_last) if len(shape) == 4 else found


def operands(conv: str, images: int = IMAGES) -> tuple[Any, Any, Any]:
    (height, width, channels), taps = Convolution.parse(conv).size, Convolution.parse(conv).taps
    return draw(images, channels, height, width), draw(FILTERS, channels, *taps), draw(FILTERS)


def theirs(conv: str, x: Any, weight: Any, bias: Any = None) -> Any:
    """By torch.nn.functional.conv2d."""
    known = Convolution.parse(conv)
    top, left, bottom, right = known.pad
    padded = torch.nn.functional.pad(x, (left, right, top, bottom))
    return torch.nn.functional.conv2d(padded, weight, bias, known.stride, 0, known.dilation)


def close(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("conv", [EVEN, STRIDED, UNEVEN, "4x5x1_3x3", "3x4x2_1x1_s2x1"])
@pytest.mark.parametrize("bias", ["none", "added", "in the epilogue"])
def test_convolutions_and_gradients_are_those_of_torch(load, conv: str, bias: str) -> None:
    kernel = load(conv, epilogue="acc + bias_n") if bias == "in the epilogue" else load(conv)
    leaves, others = ([one.clone().requires_grad_() for one in operands(conv)] for _ in range(2))
    given, same = (one if bias != "none" else one[:2] for one in (leaves, others))
    found, wanted = conv2d(*given, kernels=[kernel]), theirs(conv, *same)
    close(found, wanted)
    assert found.is_contiguous(memory_format=torch.channels_last)
    (found**2).sum().backward()
    (wanted**2).sum().backward()
    for one, other in zip(given, same, strict=True):
        close(one.grad, other.grad)
    with torch.no_grad():
        close(conv2d(*given, kernels=[kernel]), wanted)
        assert conv2d(given[0][:0], *given[1:], kernels=[kernel]).shape == (0, *wanted.shape[1:])


def rare(*convolutions: str) -> list[Any]:
    """Those that `make soak` runs alone."""
    return [pytest.param(one, marks=pytest.mark.soak) for one in convolutions]


@pytest.fixture
def by_torch(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, ...]]:
    """Of each gradient that torch computes, whether it is that of x, and that of weight."""
    asked: list[tuple[bool, ...]] = []
    theirs = module._by_torch
    monkeypatch.setattr(module, "_by_torch", lambda *given: (asked.append(given[-1]), theirs(*given))[1])
    return asked


@pytest.mark.parametrize("conv", [EVEN, "5x7x3_3x2_p1x0x2x1_d1x2", *rare(UNEVEN, "4x5x6_3x3_p2x2", "3x4x2_1x1")])
def test_the_gradient_of_images_is_a_convolution_of_that_of_the_result(load, conv: str, by_torch) -> None:
    of_dy = Convolution.parse(conv).gradient(FILTERS)
    assert of_dy.places == Convolution.parse(conv).size[:2]
    assert of_dy.gradient(Convolution.parse(conv).size[2]) == Convolution.parse(conv)
    kernels = [load(conv), load(str(of_dy))]
    ours, others = ([one.clone().requires_grad_() for one in operands(conv)] for _ in range(2))
    for result in (conv2d(*ours, kernels=kernels), theirs(conv, *others)):
        (result**2).sum().backward()
    for one, other in zip(ours, others, strict=True):
        close(one.grad, other.grad)
    assert by_torch == [(False, True)]


@pytest.fixture
def of_weight(load) -> Callable[..., ArrayKernel]:
    """A kernel for the gradient of weight."""

    def loaded(conv: str, k: int | None = None, **fields: Any) -> ArrayKernel:
        return load(conv, n=Convolution.parse(conv).depth, k=k, layout="cr", inputs=f"im2col={conv}+wgrad", **fields)

    return loaded


@pytest.mark.parametrize("conv", [STRIDED, UNEVEN, *rare(EVEN, "3x4x1_1x1_s2x1")])
def test_the_gradient_of_weight_is_a_product_of_images(load, of_weight, conv: str, by_torch) -> None:
    kernels = [of_weight(conv), load(conv)]
    ours, others = ([one.clone().requires_grad_() for one in operands(conv)] for _ in range(2))
    for result in (conv2d(*ours, kernels=kernels), theirs(conv, *others)):
        (result**2).sum().backward()
    for one, other in zip(ours, others, strict=True):
        close(one.grad, other.grad)
    assert by_torch == [(True, False)]


def test_a_plain_product_gives_the_gradient_of_images_of_1x1_taps(load, by_torch) -> None:
    conv = "4x5x3_1x1"
    kernels = [load(conv, n=FILTERS, k=3, inputs="plain"), load(conv, n=3, k=FILTERS, inputs="plain")]
    ours, others = ([one.clone().requires_grad_() for one in operands(conv)[:2]] for _ in range(2))
    for result in (conv2d(*ours, kernels=kernels), theirs(conv, *others)):
        (result**2).sum().backward()
    for one, other in zip(ours, others, strict=True):
        close(one.grad, other.grad)
    assert by_torch == [(False, True)]


def test_a_kernel_of_another_gradient_of_weight_computes_none(load, of_weight, by_torch) -> None:
    places = IMAGES * 35
    unfit = of_weight(EVEN, places + 35), of_weight(STRIDED), of_weight(EVEN, types="f32,bf16,f32")
    ours, others = ([one.clone().requires_grad_() for one in operands(EVEN)[:2]] for _ in range(2))
    for kernels in (unfit, (of_weight(EVEN, places), *unfit)):
        result = conv2d(*ours, kernels=[load(EVEN), *kernels])
        ours[1].grad = others[1].grad = None
        result.sum().backward()
        theirs(EVEN, *others).sum().backward()
        close(ours[1].grad, others[1].grad)
    assert by_torch == [(True, True), (True, False)]


def test_gradients_have_gradients(load, of_weight) -> None:
    kernels = [load(EVEN), of_weight(EVEN), load(str(Convolution.parse(EVEN).gradient(FILTERS)))]
    ours, others = ([one.clone().requires_grad_() for one in operands(EVEN)[:2]] for _ in range(2))
    found = []
    for given, result in ((ours, conv2d(*ours, kernels=kernels)), (others, theirs(EVEN, *others))):
        firsts = torch.autograd.grad((result**2).sum(), given, create_graph=True)
        found.append(torch.autograd.grad(sum((one**2).sum() for one in firsts) / 1e4, given))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-2)
    grad, x = draw(IMAGES, FILTERS, 5, 7).requires_grad_(), ours[0]
    torch.library.opcheck(module.OF_WEIGHT, (grad, x, registered(kernels[1])))


def test_tensor_cores_compute_both_gradients(shared_store: Store, by_torch) -> None:
    conv = Convolution.parse("5x6x16_3x2_p1x1")
    of_x = conv.gradient(64)
    problems = (
        Problem(None, 64, conv.depth, "bf16", layout="rc", inputs=f"im2col={conv}"),
        Problem(None, 16, of_x.depth, "bf16", layout="rc", inputs=f"im2col={of_x}"),
        Problem(64, conv.depth, None, types="bf16,bf16,f32", layout="cr", inputs=f"im2col={conv}+wgrad"),
    )
    x, weight = draw(2, 16, 5, 6).bfloat16(), draw(64, 16, 3, 2).bfloat16()
    ours, others = ([one.clone().requires_grad_() for one in (x, weight)] for _ in range(2))
    with contextlib.ExitStack() as stack:
        kernels = []
        for problem in problems:
            config = WGMMA.default(problem).with_values(BM=64, BN=min(problem.n or 0, 48), CONSUMERS=1)
            source = render(problem, WGMMA, config, "sm_90a")
            kernels.append(stack.enter_context(load_source(source, "emulator", shared_store)))
        dy = draw(2, 64, *conv.places).bfloat16()
        conv2d(*ours, kernels=kernels).backward(dy)
        theirs(str(conv), *others).backward(dy)
    for one, other in zip(ours, others, strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=2e-2, atol=2e-2 * float(other.grad.abs().max()))
    assert not by_torch


def test_mistakes_of_gradients_show(load, of_weight, monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding of the other end, taps in the order of the convolution, a tap of its neighbour."""
    of_dy = Convolution.parse(UNEVEN).gradient(FILTERS)
    top, left, bottom, right = of_dy.pad
    turned = replace(of_dy, pad=(bottom, right, top, left))
    x, weight, _ = operands(UNEVEN)
    wanted = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
    theirs(UNEVEN, *wanted).square().sum().backward()

    def differs(at: int, *kernels: Any) -> bool:
        ours = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
        conv2d(*ours, kernels=[load(UNEVEN), *kernels]).square().sum().backward()
        return not torch.allclose(ours[at].grad, wanted[at].grad, rtol=1e-3, atol=1e-3)

    assert not differs(0, load(str(of_dy))) and not differs(1, of_weight(UNEVEN))
    with monkeypatch.context() as patched:
        patched.setattr(Convolution, "gradient", lambda *_: turned)
        assert differs(0, load(str(turned)))
    with monkeypatch.context() as patched:
        patched.setattr(torch.Tensor, "flip", lambda tensor, *dims: tensor)
        assert differs(0, load(str(of_dy)))
    with monkeypatch.context() as patched:
        run = module._run_of_weight
        patched.setattr(module, "OF_WEIGHT", lambda *given: run(*given).roll(1, 3))
        assert differs(1, of_weight(UNEVEN))


def test_torch_computes_gradients_that_no_kernel_does(load, by_torch) -> None:
    even = Convolution.parse(EVEN).gradient(FILTERS)
    unfit = [load(str(even), epilogue="relu(acc)"), load(str(even), IMAGES * 35 - 1), load(str(even), types="bf16")]
    long = "4x5x3_1x1_p1x0"
    for conv, kernels in ((EVEN, unfit), (STRIDED, []), (long, [])):
        ours, others = ([one.clone().requires_grad_() for one in operands(conv)[:2]] for _ in range(2))
        conv2d(*ours, kernels=[load(conv), *kernels]).sum().backward()
        theirs(conv, *others).sum().backward()
        close(ours[0].grad, others[0].grad)
    assert by_torch == [(True, True)] * 3


def test_channels_of_a_larger_x_are_read_in_place(load) -> None:
    x, weight, _ = operands(EVEN)
    wide = torch.cat([x, x + 1, x], 1).to(memory_format=torch.channels_last)[:, 3:6]
    close(conv2d(wide, weight, kernels=[load(EVEN, lda=None)]), theirs(EVEN, x + 1, weight))


def test_a_function_follows_the_bias_and_has_no_gradient(load) -> None:
    kernel = load(EVEN, epilogue="relu(acc + bias_n)")
    x, weight, bias = operands(EVEN)
    close(conv2d(x, weight, bias, kernels=[kernel]), torch.relu(theirs(EVEN, x, weight, bias)))
    with pytest.raises(InvalidInput, match=r"the epilogue relu\(acc \+ bias_n\) has no gradient"):
        conv2d(x, weight.requires_grad_(), bias, kernels=[kernel]).sum().backward()


@pytest.mark.parametrize(
    ("family", "axes", "arch"),
    [(WGMMA, {"BM": 64, "BN": 64, "CONSUMERS": 1}, "sm_90a"), (MMA, MMA.small, "sm_80")],
    ids=["wgmma", "mma"],
)
def test_tensor_cores_convolve_bf16(family: Family, axes: dict[str, int], arch: str, shared_store: Store) -> None:
    conv = "5x6x8_3x3_p1x1_s2x1"
    epilogue = "relu(acc + bias_n + beta * C)"
    problem = Problem(None, 64, 72, "bf16", layout="rc", inputs=f"im2col={conv}", epilogue=epilogue)
    config = family.default(problem).with_values(**axes)
    x, weight, bias = draw(2, 8, 5, 6).bfloat16(), draw(64, 8, 3, 3).bfloat16(), draw(64).bfloat16()
    residual = draw(2, 64, 3, 6).bfloat16()
    with load_source(render(problem, family, config, arch), "emulator", shared_store) as kernel:
        found = conv2d(x, weight, bias, residual, kernels=[kernel])
        wanted = torch.relu(theirs(conv, *(one.float() for one in (x, weight, bias))) + residual.float())
        torch.testing.assert_close(found, wanted.bfloat16(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("conv", [EVEN, UNEVEN])
def test_the_operator_keeps_torchs_rules(load, conv: str) -> None:
    given = [one.requires_grad_() for one in operands(conv)]
    for kernel, bias in ((load(conv), None), (load(conv), given[2]), (load(conv, epilogue="acc + bias_n"), given[2])):
        torch.library.opcheck(module.OPERATOR, (*given[:2], bias, None, [registered(kernel)]))


def test_operators_of_residuals_keep_torchs_rules(load) -> None:
    given, names = operands(EVEN), [registered(load(EVEN))]
    added = draw(*theirs(EVEN, *given).shape)
    torch.library.opcheck(module.IN_PLACE, (*given, added, names))
    leaves = [one.requires_grad_() for one in (*given, added)]
    torch.library.opcheck(module.OPERATOR, (*leaves, names))


@pytest.mark.parametrize("added", ["residual", "beta * C"])
def test_a_residual_is_added_before_a_function(load, added: str) -> None:
    kernel = load(UNEVEN, epilogue=f"relu(acc + bias_n + {added})")
    given = operands(UNEVEN)
    before = theirs(UNEVEN, *given)
    residual = draw(*before.shape)
    wanted, kept = torch.relu(before + residual), residual.clone()
    close(conv2d(*given, residual, kernels=[kernel]), wanted)
    assert torch.equal(residual, kept)
    compiled = torch.compile(conv2d, backend="aot_eager", fullgraph=True)
    for run in (compiled, conv2d):
        given_away = residual.clone()
        found = run(*given, given_away, kernels=[kernel], overwrite=True)
        close(found, wanted)
        assert (found.data_ptr() == given_away.data_ptr()) == (added == "beta * C")
    apart = torch.cat([residual, residual], 1).to(memory_format=torch.channels_last)[:, :FILTERS]
    for overwrite in (False, True):
        close(conv2d(*given, apart, kernels=[kernel], overwrite=overwrite), wanted)
    if added == "beta * C":  # without a residual beta is 0
        close(conv2d(*given, kernels=[kernel]), torch.relu(before))


def test_a_residual_of_a_product_has_a_gradient(load) -> None:
    given = operands(EVEN)
    residual = draw(*theirs(EVEN, *given).shape)
    leaves, others = ([one.clone().requires_grad_() for one in (*given, residual)] for _ in range(2))
    found, wanted = conv2d(*leaves, kernels=[load(EVEN)]), theirs(EVEN, *others[:3]) + others[3]
    close(found, wanted)
    (found**2).sum().backward()
    (wanted**2).sum().backward()
    for one, other in zip(leaves, others, strict=True):
        close(one.grad, other.grad)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_layer_is_compiled_without_a_break(load, of_weight, dynamic: bool) -> None:
    torch._dynamo.reset()
    kernels = [
        load("5x6x3_3x3_p1x1"),
        load(EVEN),
        of_weight(EVEN),
        load(str(Convolution.parse(EVEN).gradient(FILTERS))),
    ]

    def layer(x: Any, weight: Any, bias: Any) -> Any:
        return torch.relu(conv2d(x * 2, weight, bias, kernels=kernels)) - 1

    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for images in (IMAGES, 3):
        given = [one.requires_grad_() for one in operands(EVEN, images)]
        found, wanted = compiled(*given), torch.relu(theirs(EVEN, given[0] * 2, *given[1:])) - 1
        close(found, wanted)
        both = (torch.autograd.grad((one**2).sum(), given) for one in (found, wanted))
        for one, other in zip(*both, strict=True):
            close(one, other)


def test_shapes_choose_and_a_kernel_of_this_many_rows_comes_first(load, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, bias = operands(EVEN)
    kernels = {
        "another": load("5x6x3_3x3_p1x1"),
        "general": load(EVEN),
        "biased": load(EVEN, epilogue="acc + bias_n"),
        "exact": load(EVEN, IMAGES * 35, FILTERS),
    }
    called: list[str] = []
    for name, kernel in kernels.items():
        run = kernel._backend.run
        monkeypatch.setattr(kernel._backend, "run", lambda *given, n=name, r=run: (called.append(n), r(*given)))
    for images in (x, x[:1]):
        for given in ((), (bias,)):
            found = conv2d(images, weight, *given, kernels=list(kernels.values()))
            close(found, theirs(EVEN, images, weight, *given))
    assert called == ["exact", "exact", "general", "biased"]


REFUSED: dict[str, tuple[Callable[[Load], dict[str, Any]], str]] = {
    "NCHW": (
        lambda load: {"x": operands(EVEN)[0].contiguous()},
        r"x of 2 x 3 x 5 x 7 has strides \(105, 35, 7, 1\): .* Pass x.to\(memory_format=torch.channels_last\)",
    ),
    "NCRS": (lambda load: {"weight": operands(EVEN)[1].contiguous()}, r"Pass weight.to\(memory_format=torch.channels"),
    "one image": (lambda load: {"x": operands(EVEN)[0][0]}, "x has 3 dimensions: it has 4, as torch.nn.functional"),
    "another size": (lambda load: {"x": draw(2, 3, 5, 6)}, "takes x of N x 3 x 5 x 7, and x is 2 x 3 x 5 x 6"),
    "other taps": (
        lambda load: {"weight": draw(FILTERS, 3, 1, 3)},
        "takes weight of K x 3 x 3 x 3, and weight is 6 x 3 x 1 x 3",
    ),
    "no kernel": (lambda load: {"kernels": []}, "no kernel fits: there are none"),
    "f64": (
        lambda load: {"x": operands(EVEN)[0].double()},
        "takes x and weight of float32 and float32, and they are of float64 and float32",
    ),
    "two strides": (
        lambda load: {"kernels": [load(EVEN), load(EVEN + "_s2x2")]},
        "im2col=5x7x3_3x3_p1x1 and .* with inputs = im2col=5x7x3_3x3_p1x1_s2x2 fit these shapes: pass the one that is",
    ),
    "other rows": (lambda load: {"kernels": [load(EVEN, 35)]}, "is built for M = 35, and this convolution has 70"),
    "filters in rows": (lambda load: {"kernels": [load(EVEN, layout="rr")]}, "has layout rr: filters lie as rc reads"),
    "no bias": (
        lambda load: {"kernels": [load(EVEN, epilogue="acc + bias_n")]},
        r"has the epilogue acc \+ bias_n, and bias is None",
    ),
    "a bias behind a function": (
        lambda load: {"bias": draw(FILTERS), "kernels": [load(EVEN, epilogue="relu(acc)")]},
        r"has the epilogue relu\(acc\), without bias_n: a bias goes before it",
    ),
    "a scale": (
        lambda load: {"kernels": [load(EVEN, epilogue="acc * scale_n")]},
        "of operands conv2d passes bias_n and residual",
    ),
    "no residual": (
        lambda load: {"kernels": [load(EVEN, epilogue="acc + residual")]},
        r"has the epilogue acc \+ residual, and residual is None",
    ),
    "a residual that nothing adds": (
        lambda load: {"residual": draw(2, 6, 5, 7), "kernels": [load(EVEN, epilogue="acc")]},
        r"has the epilogue acc, without residual and beta \* C: there is a residual",
    ),
    "a residual of x's shape": (
        lambda load: {"residual": draw(2, 3, 5, 7)},
        "makes 2 x 6 x 5 x 7, and residual is 2 x 3 x 5 x 7",
    ),
    "a residual of f64": (
        lambda load: {"residual": draw(2, 6, 5, 7).double()},
        "residual has the type of C: the types are float32 and float64",
    ),
    "a residual in NCHW": (
        lambda load: {"residual": draw(2, 6, 5, 7).contiguous()},
        "Pass residual.to\\(memory_format=torch.channels_last",
    ),
    "a product": (lambda load: {"kernels": [load(EVEN, inputs="plain")]}, "has inputs = plain: im2col=HxWxC_RxS is"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_said_with_both_values(load, name: str) -> None:
    made, message = REFUSED[name]
    x, weight, _ = operands(EVEN)
    call = {"x": x, "weight": weight, "kernels": [load(EVEN)], **made(load)}
    with pytest.raises(InvalidInput, match=message):
        conv2d(**call)


def test_a_plain_product_serves_single_taps_without_padding(load) -> None:
    point = "4x5x3_1x1"
    given = operands(point)
    residual = draw(*theirs(point, *given).shape)
    product = load(point, inputs="plain", epilogue="relu(acc + bias_n + residual)")
    close(conv2d(*given, residual, kernels=[product]), torch.relu(theirs(point, *given) + residual))
    old = load(point, inputs="plain")
    for overwrite in (False, True):
        found = conv2d(*given, residual.clone(), kernels=[old], overwrite=overwrite)
        close(found, theirs(point, *given) + residual)
    leaves, others = ([one.clone().requires_grad_() for one in given] for _ in range(2))
    compiled = torch.compile(
        lambda *one: conv2d(*one, kernels=[old]), backend="aot_eager", fullgraph=True, dynamic=True
    )
    for run, both in ((compiled, leaves), (lambda *one: theirs(point, *one), others)):
        (run(*both) ** 2).sum().backward()
    for one, other in zip(leaves, others, strict=True):
        close(one.grad, other.grad)
    assert conv2d(given[0][:0], *given[1:], kernels=[old]).shape == (0, 6, 4, 5)
    wide = torch.cat([given[0], given[0] + 1], 1).to(memory_format=torch.channels_last)[:, 3:]
    close(
        conv2d(wide, given[1], kernels=[load(point, inputs="plain", lda=None)]), theirs(point, given[0] + 1, given[1])
    )
    strided = load(point + "_s2x2")
    with pytest.raises(InvalidInput, match=r"with inputs = plain and .* with inputs = im2col=4x5x3_1x1_s2x2 fit these"):
        conv2d(*given, kernels=[old, strided])
    with pytest.raises(InvalidInput, match="takes weight of K x 3 x 1 x 1, and weight is 6 x 2 x 1 x 1"):
        conv2d(given[0], given[1][:, :2], kernels=[old])


def test_gemm_takes_no_images(load) -> None:
    with pytest.raises(InvalidInput, match=r"take images: gemmgen.torch.conv2d passes them"):
        gemm(load(EVEN), draw(70, 3), draw(27, FILTERS))


def test_linear_takes_no_images(load) -> None:
    with pytest.raises(InvalidInput, match=r"takes images: gemmgen.torch.Conv2d passes them"):
        Linear(draw(FILTERS, 27), None, [load(EVEN)])


def layer(**fields: Any) -> Any:
    torch.manual_seed(0)
    return torch.nn.Conv2d(3, FILTERS, (3, 2), **fields).to(memory_format=torch.channels_last)


@pytest.mark.filterwarnings("ignore:Using padding='same':UserWarning")  # torch's, of its own copy
@pytest.mark.parametrize(
    "fields",
    [
        {"padding": (1, 0), "stride": (2, 1)},
        {"padding": "same", "dilation": (1, 3)},
        {"padding": "valid", "bias": False},
    ],
    ids=str,
)
def test_layers_are_replaced(shared_store: Store, fields: dict[str, Any]) -> None:
    theirs = layer(**fields)
    problem = Conv2d.problem(theirs, 5, 7)
    with load_source(render(problem, NAIVE, NAIVE.default(problem)), "emulator", shared_store) as kernel:
        ours = Conv2d(theirs, [kernel])
        for size in ((5, 7), (6, 7)):  # of the other one torch computes it
            x = draw(IMAGES, 3, *size)
            close(ours(x), theirs(x))
        assert repr(ours).startswith("Conv2d(\n  images=5x7\n")
        close(ours(x[0]), theirs(x[0]))
        x = draw(IMAGES, 3, 5, 7)
        compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
        (compiled(x) ** 2).sum().backward()
        found, theirs.weight.grad = theirs.weight.grad, None
        (theirs(x) ** 2).sum().backward()
        close(found, theirs.weight.grad)
    m = IMAGES * problem.inputs.conv.places[0] * problem.inputs.conv.places[1]
    assert Conv2d.problem(theirs, 5, 7, IMAGES).m == m


def test_a_layer_takes_kernels_of_gradients(load, of_weight, by_torch) -> None:
    theirs = layer(padding=1, bias=False)
    own = convolution(theirs, 5, 7)
    ours = Conv2d(theirs, [load(str(own.gradient(FILTERS))), of_weight(str(own)), load(str(own))])
    named = [Conv2d.problem(theirs, 5, 7), *Conv2d.gradients(theirs, 5, 7)]
    assert [one.inputs for one in named] == [one.source.problem.inputs for one in ours._by_size[5, 7]]
    assert [one.shape for one in named] == ["?x6x18", "?x3x36", "6x18x?"]
    assert [one.m or one.k for one in Conv2d.gradients(theirs, 5, 7, IMAGES)] == [IMAGES * 35, FILTERS]
    assert [str(one.inputs) for one in Conv2d.gradients(layer(stride=2), 5, 7)] == ["im2col=5x7x3_3x2_s2x2+wgrad"]
    x = draw(IMAGES, 3, 5, 7).requires_grad_()
    ours(x).sum().backward()
    found, x.grad = x.grad, None
    theirs(x).sum().backward()
    close(found, x.grad)
    assert not by_torch
    with pytest.raises(InvalidInput, match=r"has inputs = im2col=5x8x6_3x2_p1x0, and this layer im2col=5x8x3_3x2_p1"):
        Conv2d(theirs, [load(str(own.gradient(FILTERS)))])


def test_layers_of_another_kind_are_refused(load) -> None:
    for fields, message in (
        ({"groups": 3}, "groups = 3 of 3 channels: kernels take groups = 1, where each filter reads all"),
        ({"padding_mode": "circular"}, "has padding_mode = circular: kernels pad with zeros"),
    ):
        with pytest.raises(InvalidInput, match=message):
            Conv2d(layer(**fields), [])
    with pytest.raises(InvalidInput, match=r"strides \(18, 6, 2, 1\): first call conv.to\(memory_format="):
        Conv2d(torch.nn.Conv2d(3, FILTERS, (3, 2)), [])
    with pytest.raises(InvalidInput, match="has inputs = plain: im2col=HxWxC_RxS is needed"):
        Conv2d(layer(), [load(EVEN, inputs="plain")])
    with pytest.raises(InvalidInput, match=r"has inputs = im2col=5x7x3_3x3_p1x1, and this layer im2col=5x7x3_3x2$"):
        Conv2d(layer(), [load(EVEN)])
    assert str(convolution(layer(padding="same"), 5, 7)) == "5x7x3_3x2_p1x0x1x1"
