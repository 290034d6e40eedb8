"""`gemmgen.load` on a card: arrays of torch and CuPy, on their streams and in the context that they made."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import gemmgen
from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.run.gpu import why_no_device
from gemmgen.support.errors import InvalidInput

ARCH = "sm_90a"
pytestmark = pytest.mark.skipif(why_no_device() is not None, reason=str(why_no_device()))


@pytest.fixture(scope="module")
def torch(torch: Any) -> Any:
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    return torch


def load(problem: gemmgen.Problem, family: str = "simt", **values: int) -> ArrayKernel:
    return gemmgen.load(gemmgen.generate(problem, family=family, **values), device="gpu")


def hopper(torch: Any) -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs sm_90a")


def draw(torch: Any, *shape: int, dtype: str = "float32") -> Any:
    return torch.randn(*shape, device="cuda").to(getattr(torch, dtype))


def near(found: Any, wanted: Any, bits: int = 20) -> None:
    error = (found.double() - wanted).abs().max().item()
    assert error <= 2.0**-bits * max(1.0, wanted.abs().max().item()), error


def test_strided_views_of_torch(torch: Any) -> None:
    kernel = load(gemmgen.Problem(None, None, None, layout="rc", pointer_align=4))
    a, w, c = draw(torch, 70, 90)[3:60, 5:77], draw(torch, 50, 72), torch.full((80, 64), 7.0, device="cuda")
    out = c[2:59, 8:58]
    assert kernel(a, w.t(), out, alpha=0.5, beta=2.0) is out
    near(out, 0.5 * a.double() @ w.double().t() + 14)
    out[...] = 7
    assert (c == 7).all(), "nothing beside C's elements is written"
    with pytest.raises(InvalidInput, match="A is on cpu: this kernel runs on a GPU"):
        kernel(a.cpu(), w.t())


def test_a_network_of_convolutions_in_a_cuda_graph(torch: Any) -> None:
    hopper(torch)
    from gemmgen.torch import fuse_convs

    def forward(self: Any, x: Any) -> Any:
        y = self.stem(x)
        return torch.relu(self.inner(y) + y)

    def normed(channels: int, filters: int, taps: int, stride: int = 1) -> Any:
        conv = torch.nn.Conv2d(channels, filters, taps, stride, taps // 2, bias=False)
        return torch.nn.Sequential(conv, torch.nn.BatchNorm2d(filters))

    def kernels_for(problem: gemmgen.Problem) -> list[ArrayKernel]:
        return [load(problem, "wgmma", BM=64, BN=64, CONSUMERS=1)]

    model = type("Network", (torch.nn.Module,), {"forward": forward})()
    model.stem = torch.nn.Sequential(normed(3, 64, 7, 2), torch.nn.ReLU())
    model.inner = torch.nn.Sequential(normed(64, 64, 3), torch.nn.ReLU(), normed(64, 64, 1))
    model = model.cuda().to(memory_format=torch.channels_last)
    x = draw(torch, 3, 3, 30, 34).to(memory_format=torch.channels_last)
    with torch.inference_mode():
        model(x)  # BatchNorm2d remember means and variances
        model.eval()
        wanted = model(x)
        fused = fuse_convs(model.bfloat16(), x.bfloat16(), kernels_for)
        assert not fused.left
        assert not [one for one in fused.modules() if isinstance(one, torch.nn.Conv2d)]
        near(fused(x.bfloat16()), wanted.double(), 4)
        static, graph = x.bfloat16().zero_(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = fused(static)
        static.copy_(x)
        for _ in range(2):
            graph.replay()
            near(out, wanted.double(), 4)


HEADS: dict[str, Any] = dict.fromkeys(("batch", "lda", "ldb", "ldc", "stride_a", "stride_b", "stride_c"))


@pytest.mark.parametrize("family", ["simt", "mma", "wgmma"])
def test_matrices_of_a_batch_interleave_as_the_heads_of_attention_do(torch: Any, family: str) -> None:
    hopper(torch)
    dtype = "float32" if family == "simt" else "bfloat16"
    types = "f32" if family == "simt" else "bf16"
    kernel = load(gemmgen.Problem(None, None, None, types, layout="rc", ld_align=8, **HEADS), family)
    x, w = draw(torch, 300, 6, 64, dtype=dtype), draw(torch, 200, 4, 64, dtype=dtype)
    c = torch.full((300, 6, 200), 7.0, device="cuda").to(x.dtype)
    a, b, out = x[:, 1:5].transpose(0, 1), w.permute(1, 2, 0), c[:, 1:5].transpose(0, 1)
    wanted = a.double() @ b.double()
    assert kernel(a, b, out) is out
    near(out, wanted, 20 if family == "simt" else 7)
    near(kernel(a, b), wanted, 20 if family == "simt" else 7)
    assert (c[:, [0, 5]] == 7).all(), "the heads beside them"


def test_empty_products_and_partial_overlap(torch: Any) -> None:
    kernel, w = load(gemmgen.Problem(None, None, None, layout="rc", pointer_align=4)), draw(torch, 50, 72)
    assert kernel(draw(torch, 0, 72), w.t()).shape == (0, 50) and kernel(draw(torch, 5, 72), w[:0].t()).shape == (5, 0)
    assert kernel(draw(torch, 5, 0), w[:, :0].t()).eq(0).all()
    buffer, square = draw(torch, 32, 128), draw(torch, 64, 64)
    a = buffer[:, :64]
    wanted = a.double() @ square.double().t()
    with pytest.raises(InvalidInput, match="out overlaps A"):
        kernel(a, square.t(), buffer[:, 63:127])
    near(kernel(a, square.t(), buffer[:, 64:]), wanted)


@pytest.mark.parametrize("layout", ["rc", "rr"])
def test_tensor_maps_of_bf16_and_a_bias(torch: Any, layout: str) -> None:
    hopper(torch)
    kernel = load(
        gemmgen.Problem(None, 256, 512, "bf16", layout=layout, ldc=None, epilogue="bias", ld_align=8),
        "wgmma",
        arch=ARCH,
    )
    w, bias = draw(torch, 256, 512, dtype="bfloat16"), draw(torch, 256)
    b = w.t() if layout == "rc" else w.t().contiguous()
    for m in (1, 77, 300):
        a = draw(torch, m, 512, dtype="bfloat16")
        near(kernel(a, b, bias_n=bias), a.double() @ w.double().t() + bias, 7)


def of_groups(torch: Any, a: Any, w: Any, offs: Any) -> Any:
    """The rows of all groups, in f64."""
    begins = [0, *offs.tolist()]
    parts = [a[i:j].double() @ one.double().t() for i, j, one in zip(begins, begins[1:], w, strict=False)]
    return torch.cat(parts)


def ends_of(torch: Any, rows: int) -> Any:
    """Of 5 groups, of which two have no row; the last row is nobody's."""
    return torch.tensor([0, rows // 4, rows // 4, rows - 5, rows - 1], dtype=torch.int32, device="cuda")


def test_experts_are_one_launch_whose_ends_a_graph_reads_again(torch: Any) -> None:
    hopper(torch)
    kernel = load(gemmgen.Problem(None, 136, 128, "bf16", layout="rc", inputs="groups=5"), "wgmma")
    w = draw(torch, 5, 136, 128, dtype="bfloat16")
    for rows in (300, 300, 129, 301, 64):
        a, offs = draw(torch, rows, 128, dtype="bfloat16"), ends_of(torch, rows)
        out = torch.full((rows, 136), 7.0, device="cuda").to(a.dtype)
        assert kernel(a, w.mT, out, offs=offs) is out
        near(out[:-1], of_groups(torch, a, w, offs), 7)
        assert (out[-1] == 7).all(), "a row of no group"
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(a, w.mT, out, offs=offs)
    offs.copy_(torch.tensor([10, 11, 40, 50, 64]))
    graph.replay()
    near(out, of_groups(torch, a, w, offs), 7)


@pytest.mark.parametrize("few", [False, True], ids=["kernels of gradients", "gradients by torch"])
def test_experts_learn(torch: Any, few: bool) -> None:
    hopper(torch)
    from gemmgen.torch import grouped_mm

    problems = [
        gemmgen.Problem(None, None, None, "bf16", layout=one, inputs="groups=5", ld_align=8) for one in ("rc", "rr")
    ]
    kernels = [load(one, "wgmma") for one in problems[: 1 if few else 2]]
    if not few:
        along_k = gemmgen.Problem(None, None, None, "bf16", layout="cr", inputs="groups=5+along_k", ld_align=8)
        kernels.append(load(along_k, "wgmma"))
    a, w = draw(torch, 300, 128, dtype="bfloat16"), draw(torch, 5, 136, 128, dtype="bfloat16")
    offs, ours = ends_of(torch, 300), [a.clone().requires_grad_(), w.clone().requires_grad_()]
    theirs = [a.double().requires_grad_(), w.double().requires_grad_()]
    y = grouped_mm(ours[0], ours[1].mT, offs, kernels=kernels)[:-1]
    near(y, of_groups(torch, a, w, offs), 7)
    (y.double() * 0.5).sum().backward()
    (of_groups(torch, *theirs, offs) * 0.5).sum().backward()
    for one, other in zip(ours, theirs, strict=True):
        near(one.grad, other.grad, 6)
    assert not ours[0].grad[-1].any()


def test_experts_of_e4m3_have_scales_by_row_as_torchs(torch: Any) -> None:
    hopper(torch)
    from gemmgen.torch import scaled_grouped_mm

    form: dict[str, Any] = {"types": "e4m3,e4m3,bf16", "compute": "fast", "layout": "rc", "inputs": "groups=5"}
    kernels = [
        load(gemmgen.Problem(None, 144, 128, epilogue=f"scale_m+scale_n{bias}", **form), "wgmma")
        for bias in ("", "+bias")
    ]
    a, w = (draw(torch, *shape).to(torch.float8_e4m3fn) for shape in ((300, 128), (5, 144, 128)))
    of_a, of_b, bias, offs = draw(torch, 300), draw(torch, 5, 144), draw(torch, 5, 144), ends_of(torch, 300)
    group = torch.repeat_interleave(torch.arange(5, device="cuda"), offs.diff(prepend=offs[:1] * 0))
    wanted = of_groups(torch, a, w, offs) * of_a[:-1, None] * of_b[group]
    y = scaled_grouped_mm(a, w.mT, of_a, of_b, offs, kernels=kernels)[:-1]
    near(y, wanted, 6)
    theirs = torch._scaled_grouped_mm(a, w.mT, of_a, of_b, offs=offs, out_dtype=torch.bfloat16, use_fast_accum=True)
    near(y, theirs[:-1].double(), 6)
    near(scaled_grouped_mm(a, w.mT, of_a, of_b, offs, bias, kernels=kernels)[:-1], wanted + bias[group], 6)


def test_a_weight_is_prepared_once(torch: Any) -> None:
    hopper(torch)
    kernel = load(gemmgen.Problem(None, 200, 300, types="s8,s8,s32", layout="rr", pointer_align=1), "wgmma", arch=ARCH)
    a, b = (torch.randint(-9, 9, shape, device="cuda", dtype=torch.int8) for shape in ((65, 300), (300, 200)))
    wanted = (a.double() @ b.double()).int()
    packed = kernel.prepare_b(b)
    assert (kernel(a, b) == wanted).all() and (kernel(a, packed) == wanted).all()
    plan = kernel.plan(a, packed)
    a.zero_()
    assert (plan() == 0).all()


def test_a_weight_is_prepared_once_with_the_sums_of_its_columns(torch: Any) -> None:
    hopper(torch)
    problem = gemmgen.Problem(None, 200, 300, types="u8,s8,s32", layout="rr", pointer_align=1, epilogue="zero_a+zero_n")
    kernel = load(problem, "wgmma", arch=ARCH)
    a = torch.randint(0, 99, (65, 300), device="cuda", dtype=torch.uint8)
    b = torch.randint(-9, 9, (300, 200), device="cuda", dtype=torch.int8)
    zero_a, zero_n = (torch.randint(-9, 9, (count,), device="cuda", dtype=torch.int32) for count in (1, 200))
    wanted = ((a.double() - zero_a) @ (b.double() - zero_n)).int()
    packed = kernel.prepare_b(b)
    for weight in (b, packed):
        assert (kernel(a, weight, zero_a=zero_a, zero_n=zero_n) == wanted).all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what torch's own compiler imports
@pytest.mark.parametrize("dynamic", [False, True])
def test_torch_compiles_a_call_without_a_break(torch: Any, dynamic: bool) -> None:
    import gemmgen.torch

    hopper(torch)
    kernel = load(gemmgen.Problem(None, 256, 512 + 64 * dynamic, "bf16", layout="rc", epilogue="bias"), "wgmma")
    depth = kernel.source.problem.k
    torch._dynamo.reset()

    def layer(x: Any, w: Any, bias: Any) -> Any:
        return gemmgen.torch.gemm(kernel, x, w.t(), bias_n=bias).float() * 2

    compiled = torch.compile(layer, fullgraph=True, dynamic=dynamic)
    w, bias = draw(torch, 256, depth, dtype="bfloat16"), draw(torch, 256)
    for rows in (64, 300):
        x = draw(torch, rows, depth, dtype="bfloat16").requires_grad_()
        found, wanted = compiled(x, w, bias), 2 * (x.double() @ w.double().t() + bias)
        near(found.detach(), wanted.detach(), 7)
        near(torch.autograd.grad(found.sum(), x)[0], torch.autograd.grad(wanted.sum(), x)[0].double(), 5)


def test_a_launch_drops_no_gradient(torch: Any) -> None:
    kernel = load(gemmgen.Problem(None, None, None, layout="rc", pointer_align=4))
    a, w = draw(torch, 5, 72).requires_grad_(), draw(torch, 50, 72)
    for call in (kernel, kernel.plan):
        with pytest.raises(InvalidInput, match="A requires a gradient, and a launch records none"):
            call(a, w.t())
    with torch.no_grad():
        near(kernel(a, w.t()), a.double() @ w.double().t())


def test_a_call_is_on_the_current_stream_and_a_graph_records_it(torch: Any) -> None:
    kernel = load(gemmgen.Problem(None, 64, 4096, layout="rc"), SPLIT=4)
    a, w = draw(torch, 64, 4096), draw(torch, 64, 4096)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)  # cycles: who does not wait for this stream reads the old A
        a.mul_(2)
        found = kernel(a, w.t())
    side.synchronize()
    near(found, a.double() @ w.double().t(), 16)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = kernel(a, w.t())
    a.mul_(3)
    for _ in range(3):
        graph.replay()
    near(recorded, a.double() @ w.double().t(), 16)


def test_split_k_launches_of_two_streams_do_not_meet(torch: Any) -> None:
    kernel = load(gemmgen.Problem(None, 64, 4096, layout="rc"), SPLIT=8)
    w = draw(torch, 64, 4096)
    inputs, streams = [draw(torch, m, 4096) for m in (64, 640)], [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    results: list[Any] = []
    for _ in range(20):
        for a, stream in zip(inputs, streams, strict=True):
            with torch.cuda.stream(stream):
                results.append(kernel(a, w.t()))
    torch.cuda.synchronize()
    for place, found in enumerate(results):
        near(found, inputs[place % 2].double() @ w.double().t(), 16)


def test_a_workspace_that_grows_is_nobody_elses_while_a_stream_still_uses_it(torch: Any) -> None:
    """Split-K launches on a stream that is not current: the first one runs after the workspace has grown."""
    kernel = load(gemmgen.Problem(None, 64, 4096, layout="rc"), SPLIT=4)
    w, side = draw(torch, 64, 4096), torch.cuda.Stream()
    inputs = [draw(torch, m, 4096) for m in (64, 64 * 64)]
    outs = [torch.zeros(len(a), 64, device="cuda") for a in inputs]
    for a, out in zip(inputs, outs, strict=True):  # compiles it
        kernel(a, w.t(), out)
        out.zero_()
    torch.full((1,), 3, dtype=torch.int32, device="cuda")  # a kernel that is loaded later may wait for the streams
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(4_000_000_000)  # cycles: about two seconds
    for a, out in zip(inputs, outs, strict=True):
        kernel(a, w.t(), out, stream=side)
    # What the second call has freed, if it is this stream's, is filled before the first launch begins.
    sizes = (1 << 7, 1 << 10, 1 << 13, 1 << 16)
    filled = [torch.full((size,), 3, dtype=torch.int32, device="cuda") for size in sizes for _ in range(256)]
    torch.cuda.current_stream().synchronize()
    assert not side.query(), "the stream was to sleep for longer"
    torch.cuda.synchronize()
    assert filled
    for a, out in zip(inputs, outs, strict=True):
        near(out, a.double() @ w.double().t(), 16)


def test_largest_magnitudes_begin_at_zero_each_time(torch: Any) -> None:
    kernel = load(gemmgen.Problem(None, 64, 64, layout="rc", epilogue="bias+row_amax"))
    a, w, bias = draw(torch, 33, 64), draw(torch, 64, 64), draw(torch, 64)
    most = torch.full((33,), 1e9, device="cuda")
    found = kernel(a, w.t(), bias_n=bias, row_amax=most)
    assert torch.equal(most, found.abs().amax(1))


@pytest.mark.skipif(find_spec("cupy") is None, reason="CuPy is not installed")
def test_arrays_of_cupy_and_what_speaks_dlpack(torch: Any) -> None:
    cupy = import_module("cupy")
    kernel = load(gemmgen.Problem(None, None, None, batch=None))
    a, b = (cupy.random.standard_normal(shape).astype("f4") for shape in ((5, 30, 20), (5, 20, 40)))
    with cupy.cuda.Stream() as stream:
        found = kernel(a, b)
    stream.synchronize()
    wanted = cupy.asnumpy(a).astype(np.float64) @ cupy.asnumpy(b)
    np.testing.assert_allclose(cupy.asnumpy(found), wanted, rtol=1e-4, atol=1e-4)
    mixed = kernel(torch.from_dlpack(a), b)
    np.testing.assert_allclose(mixed.cpu().numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_arrays_of_jax_and_products_in_what_it_compiles(jax: Any) -> None:
    if jax.default_backend() != "gpu":
        pytest.skip("jax sees no GPU")
    kernel = load(gemmgen.Problem(None, None, None))
    a, b = (jax.random.normal(jax.random.key(n), (n, n)) for n in (64, 64))
    np.testing.assert_allclose(
        np.asarray(kernel(a, b)), np.asarray(a).astype("f8") @ np.asarray(b), rtol=1e-4, atol=1e-4
    )
    from gemmgen.jax import gemm

    jax.config.update("jax_default_matmul_precision", "highest")
    twice = jax.jit(lambda a, b: gemm(kernel, gemm(kernel, a, b, alpha=0.1), b) + 1)
    np.testing.assert_allclose(np.asarray(twice(a, b)), np.asarray(0.1 * (a @ b) @ b + 1), rtol=1e-3, atol=1e-3)
    split = load(gemmgen.Problem(None, 64, 64, layout="rc", batch=None, stride_b=0), SPLIT=2)
    mapped = jax.jit(jax.vmap(lambda a: gemm(split, a, b)))
    batch = jax.random.normal(jax.random.key(3), (7, 32, 64))
    np.testing.assert_allclose(np.asarray(mapped(batch)), np.asarray(batch @ b), rtol=1e-3, atol=1e-3)
