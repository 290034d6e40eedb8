"""gemmgen.torch.fuse_convs: models with convolutions by kernels compute what they did before."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.arrays.library import load_source
from gemmgen.families import MMA, NAIVE
from gemmgen.problem.convolution import Convolution
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.support.errors import InvalidInput
from gemmgen.support.files import Store

if importlib.util.find_spec("torch"):
    import torch

    from gemmgen.torch import convolutions_of, fuse_convs
    from gemmgen.torch import fused as module
    from gemmgen.torch.few_channels import squares_of
    from gemmgen.torch.fused import FusedConv2d

    class Bottleneck(torch.nn.Module):
        """As in a ResNet-50, with its sum in place."""

        def __init__(self, c: int, width: int, k: int, stride: int = 1) -> None:
            super().__init__()
            self.conv1, self.bn1 = conv(c, width, 1, bias=False), torch.nn.BatchNorm2d(width)
            self.conv2, self.bn2 = conv(width, width, 3, stride, bias=False), torch.nn.BatchNorm2d(width)
            self.conv3, self.bn3 = conv(width, k, 1, bias=False), torch.nn.BatchNorm2d(k)
            self.relu = torch.nn.ReLU(inplace=True)
            other = torch.nn.Sequential(conv(c, k, 1, stride, bias=False), torch.nn.BatchNorm2d(k))
            self.downsample = other if (c, stride) != (k, 1) else torch.nn.Identity()

        def forward(self, x: Any) -> Any:
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.relu(self.bn2(self.conv2(y)))
            y = self.bn3(self.conv3(y))
            y += self.downsample(x)
            return self.relu(y)


pytestmark = pytest.mark.usefixtures("torch")  # which skips all of them where it is missing

KernelsFor = Callable[[Problem], Sequence[ArrayKernel]]


@pytest.fixture(scope="module")
def kernels_for(shared_store: Store) -> Iterator[KernelsFor]:
    """A kernel of the family naive for each problem."""
    known: dict[Problem, ArrayKernel] = {}

    def found(problem: Problem) -> Sequence[ArrayKernel]:
        if problem not in known:
            known[problem] = load_source(render(problem, NAIVE, NAIVE.default(problem)), "emulator", shared_store)
        return [known[problem]]

    yield found
    for kernel in known.values():
        kernel.close()


def layers(*modules: Any, seed: int = 0) -> Any:
    """Modules in eval mode, whose BatchNorm2d has seen something."""
    model = torch.nn.Sequential(*modules) if len(modules) > 1 else modules[0]
    torch.manual_seed(seed)
    for one in model.modules():
        if isinstance(one, torch.nn.BatchNorm2d) and one.track_running_stats:
            one.running_mean.normal_(), one.running_var.uniform_(0.5, 2)
            if one.affine:
                torch.nn.init.normal_(one.weight), torch.nn.init.normal_(one.bias)
    return model.eval()


def images(*shape: int) -> Any:
    found = torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))
    return found.to(memory_format=torch.channels_last)


def close(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def conv(c: int, k: int, taps: int, stride: int = 1, **fields: Any) -> Any:
    return torch.nn.Conv2d(c, k, taps, stride, fields.pop("padding", taps // 2), **fields)


def resnet(*blocks: Any) -> Any:
    stem = conv(3, 8, 7, 2, bias=False), torch.nn.BatchNorm2d(8), torch.nn.ReLU(inplace=True)
    return layers(*stem, torch.nn.MaxPool2d(3, 2, 1), *blocks, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())


def fused_of(model: Any) -> dict[str, Any]:
    return {name: one for name, one in model.named_modules() if isinstance(one, FusedConv2d)}


def test_a_residual_network_is_fused(kernels_for: KernelsFor) -> None:
    model, x = resnet(Bottleneck(8, 4, 8), Bottleneck(8, 4, 8)), images(2, 3, 18, 20)
    state = {name: one.clone() for name, one in model.state_dict().items()}
    with torch.no_grad():
        fused, wanted = fuse_convs(model, x, kernels_for), model(x)
        for _ in range(2):
            close(fused(x), wanted)
        close(torch.compile(fused, backend="aot_eager", fullgraph=True)(x), wanted)
        for other in (images(1, 3, 18, 20), images(2, 3, 16, 14)):  # of them torch computes all
            close(fused(other), model(other))
    assert fused.left == {}
    assert len(fused_of(fused)) == 7
    kinds = (torch.nn.Conv2d, torch.nn.BatchNorm2d, torch.nn.ReLU)
    assert not [one for one in fused.modules() if isinstance(one, kinds)]
    assert all(torch.equal(one, state[name]) for name, one in model.state_dict().items())


def test_tensor_cores_of_older_cards_serve_a_network(shared_store: Store) -> None:
    stages = conv(16, 8, 3, bias=False), torch.nn.BatchNorm2d(8), torch.nn.ReLU()
    model, x = layers(*stages).bfloat16(), images(2, 16, 6, 5).bfloat16()
    loaded: list[ArrayKernel] = []

    def by_mma(problem: Problem) -> Sequence[ArrayKernel]:
        config = MMA.default(problem).with_values(**MMA.small)
        loaded.append(load_source(render(problem, MMA, config, "sm_80"), "emulator", shared_store))
        return loaded[-1:]

    with torch.no_grad():
        fused = fuse_convs(model, x, by_mma)
        found, wanted = fused(x), model.float()(x.float())
    torch.testing.assert_close(found, wanted.bfloat16(), rtol=0.05, atol=0.05)
    assert fused.left == {} and [str(one.source.problem.inputs) for one in loaded] == ["im2col=6x5x16_3x3_p1x1"]
    loaded[0].close()


def test_problems_are_those_of_layers() -> None:
    found = convolutions_of(resnet(Bottleneck(8, 4, 8), Bottleneck(8, 4, 8)), images(2, 3, 18, 20))
    stem, *others = found.problems
    assert [*found.problems.values()][1:] == [[f"{block}.conv{number}" for block in (4, 5)] for number in (1, 2, 3)]
    assert (stem.m, stem.n, stem.k, str(stem.epilogue)) == (180, 8, 192, "relu(acc + bias_n)")
    assert [str(one.inputs) for one in others] == ["plain", "im2col=5x5x4_3x3_p1x1", "plain"]
    assert str(stem.inputs) == "im2col=9x10x12_4x4_p2x2x1x1"  # for 7 x 7 taps of 3 channels, stride 2
    assert [str(one.epilogue) for one in others] == ["relu(acc + bias_n)"] * 2 + ["relu(acc + bias_n + beta * C)"]
    assert found.left == {}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Kernels that are none: torch computes in their place, and writes as they would."""

    def by_torch(x: Any, weight: Any, bias: Any, residual: Any, *, kernels: Sequence[Problem], overwrite: bool) -> Any:
        problem, epilogue = kernels[0], str(kernels[0].epilogue)
        conv = problem.inputs.conv or Convolution((*x.shape[2:], problem.k or 0), (1, 1))
        assert tuple(x.shape[1:]) == (conv.size[2], *conv.size[:2])
        assert x.is_contiguous(memory_format=torch.channels_last)
        assert ("bias_n" in epilogue, "beta * C" in epilogue) == (bias is not None, residual is not None)
        y = convolved(conv, x, weight, bias)
        y = y if residual is None else y + residual
        y = torch.relu(y) if "relu" in epilogue else y
        return residual.copy_(y) if overwrite and residual is not None else y

    monkeypatch.setattr(module, "conv2d", by_torch)
    monkeypatch.setattr(FusedConv2d, "use", lambda self, kernels: setattr(self, "kernels", list(kernels)))
    monkeypatch.setattr(FusedConv2d, "_serves", lambda self, x: True)
    return lambda problem: [problem]


def convolved(conv: Convolution, x: Any, weight: Any, bias: Any = None) -> Any:
    """By torch."""
    top, left, bottom, right = conv.pad
    padded = torch.nn.functional.pad(x, (left, right, top, bottom))
    return torch.nn.functional.conv2d(padded, weight, bias, conv.stride, 0, conv.dilation)


def test_a_residual_is_overwritten_where_it_is_read_last(asked: KernelsFor) -> None:
    model, x = resnet(Bottleneck(8, 4, 8), Bottleneck(8, 8, 16, 2), Bottleneck(16, 4, 16)), images(2, 3, 18, 20)
    with torch.no_grad():
        fused, wanted = fuse_convs(model, x, asked), model(x)
        close(fused(x), wanted)
    written = {name: one.overwrites for name, one in fused_of(fused).items() if one.adds}
    assert written == {"4.conv3_fused": True, "5.conv3_fused": True, "6.conv3_fused": True}


def _twice(self: Any, x: Any) -> Any:
    y = self.first(x)
    return self.second(y) + y, y


def _later(self: Any, x: Any) -> Any:
    y = self.first(x)
    return (self.second(y) + y) * y


def _own_input(self: Any, x: Any) -> Any:
    y = self.second(x)
    return torch.relu(self.first(y) + y)


def _input(self: Any, x: Any) -> Any:
    return self.first(self.second(x)) + x


def _view(self: Any, x: Any) -> Any:
    y = self.first(x)
    z = y.permute(0, 2, 3, 1)
    return (self.second(y) + y).mean() + z


def _written_between(self: Any, x: Any) -> Any:
    y = x * 2
    z = self.first(y)
    y = torch.relu_(y)
    return torch.nn.functional.relu(z) + y


def _other_written(self: Any, x: Any) -> Any:
    y = self.first(x)
    z = y * 2
    z.add_(self.second(y))
    return z + y


def _sum_of_one(self: Any, x: Any) -> Any:
    y = self.first(x)
    return y + y


def _two_users(self: Any, x: Any) -> Any:
    y = self.first(x)
    return torch.relu(y) - y


def _broadcast(self: Any, x: Any) -> Any:
    return self.first(x) + x.mean((2, 3), keepdim=True)


def _scaled(self: Any, x: Any) -> Any:
    return torch.add(self.first(x), x, alpha=2)


def _two_sums(self: Any, x: Any) -> Any:
    return (self.first(x) + self.second(x)).relu()


def _same_layer(self: Any, x: Any) -> Any:
    return self.first(self.first(x))


CASES = {  # how many layers take a residual, and how many overwrite it
    _twice: (1, 0),
    _later: (1, 0),
    _own_input: (1, 0),
    _input: (1, 0),
    _view: (1, 0),
    _written_between: (0, 0),
    _other_written: (0, 0),
    _sum_of_one: (0, 0),
    _two_users: (0, 0),
    _broadcast: (0, 0),
    _scaled: (0, 0),
    _two_sums: (1, 1),
    _same_layer: (0, 0),
}


@pytest.mark.parametrize("forward", CASES, ids=lambda one: one.__name__)
def test_what_others_read_stays(asked: KernelsFor, forward: Callable[[Any, Any], Any]) -> None:
    model, x = type("Model", (torch.nn.Module,), {"forward": forward})(), images(2, 8, 5, 6)
    model.first, model.second = conv(8, 8, 1), conv(8, 8, 3)
    layers(model)
    with torch.no_grad():
        fused, wanted = fuse_convs(model, x, asked), model(x)
        kept = x.clone()
        for _ in range(2):
            for one, other in zip(fused(x), wanted, strict=True):
                close(one, other)
        assert torch.equal(x, kept)
    adding = [one for one in fused_of(fused).values() if one.adds]
    assert (len(adding), sum(one.overwrites for one in adding)) == CASES[forward]


def test_torch_computes_the_others_and_it_is_said_why(asked: KernelsFor) -> None:
    norm = torch.nn.BatchNorm2d(8, track_running_stats=False)  # whose numbers are those of x
    model = layers(
        conv(8, 8, 3, groups=8),
        conv(8, 8, 3, padding_mode="reflect"),
        torch.nn.Sequential(conv(8, 8, 3, bias=False), norm),
        torch.nn.ReLU(),
        conv(8, 8, 3),
    )
    x = images(2, 8, 5, 6)
    with torch.no_grad():
        fused = fuse_convs(model, x, lambda problem: asked(problem) if "bias_n" in str(problem.epilogue) else [])
        close(fused(x), model(x))
        left = convolutions_of(model[2], x.contiguous()).left
    assert list(fused_of(fused)) == ["4_fused"]
    told = {
        "0": "groups = 8 of 8 channels: kernels take groups = 1, where each filter reads all channels. Grouped "
        "channels are many products, too small for the tiles of tensor cores, and a depthwise convolution is no "
        "product of matrices: memory limits it",
        "1": "this Conv2d has padding_mode = reflect: kernels pad with zeros",
        "2.0": f"there is no kernel for {FusedConv2d(model[2][0], size=(5, 6)).problem(2)}",
    }
    assert fused.left == told
    strides = "x of 2 x 8 x 5 x 6 has strides (240, 30, 6, 1)"
    assert left == {"0": f"{strides}: call the model with x.to(memory_format=torch.channels_last)"}


def test_training_and_other_kernels_are_refused(kernels_for: KernelsFor) -> None:
    model, x = layers(conv(8, 8, 1), torch.nn.BatchNorm2d(8)), images(1, 8, 2, 2)
    with pytest.raises(InvalidInput, match=r"computes .* and this layer needs "):
        fuse_convs(model, x, lambda problem: kernels_for(Problem(None, 8, 8, layout="rc", pointer_align=4)))
    images_too = replace(convolutions_of(model, x).problems.popitem()[0], inputs="im2col=2x2x8_1x1", m=None)
    with torch.no_grad():
        close(fuse_convs(model, x, lambda problem: kernels_for(images_too))(x), model(x))
    assert [*convolutions_of(conv(8, 8, 1).eval(), x).problems.values()] == [["0"]]  # a layer alone
    model[1].train()
    with pytest.raises(InvalidInput, match=r"^1 is in training mode: call model.eval\(\) first"):
        fuse_convs(model, x, kernels_for)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_norms_are_folded_in_f32_and_rounded_once(bias: bool, affine: bool) -> None:
    model, x = layers(conv(8, 6, 3, bias=bias), torch.nn.BatchNorm2d(6, affine=affine)), images(2, 8, 4, 5)
    with torch.no_grad():
        weight, added = module.folded(*model)
        close(torch.nn.functional.conv2d(x, weight, added, padding=1), model(x))
    rounded = module.folded(*model.bfloat16())
    exact = module.folded(*model.float())
    assert torch.equal(rounded[0], exact[0].bfloat16())
    assert torch.equal(rounded[1], exact[1])


@pytest.mark.parametrize(
    "text",
    [
        "18x20x3_7x7_p3x3_s2x2",
        "17x19x3_7x7_p3x3_s2x2",
        "10x11x3_3x3_p1x0x2x1_s4x3",
        "9x8x1_1x1_s3x2",
        "12x12x3_4x4_s4x4",
        "7x9x5_3x3_p1x1",
        "9x9x3_3x3_p2x2_s2x2_d2x2",
        "8x8x3_2x5_p4x0_s3x1",
    ],
)
def test_squares_of_pixels_give_the_same(text: str) -> None:
    conv = Convolution.parse(text)
    height, width, channels = conv.size
    squares = squares_of(conv, 4)
    assert squares is not None
    assert (squares.conv.size[2] % 4, squares.conv.places) == (0, conv.places)
    assert squares_of(squares.conv, 4) is None
    x, weight = images(2, channels, height, width), images(6, channels, *conv.taps)
    both = squares.images(x), squares.filters(weight)
    assert [one.is_contiguous(memory_format=torch.channels_last) for one in both] == [True, True]
    close(convolved(squares.conv, *both), convolved(conv, x, weight))
    assert torch.equal(squares.images(x.contiguous()), both[0])
