"""Operators that `export --torch` writes: torch builds them from the exported files, and calls them on a card."""

from __future__ import annotations

from typing import Any

import pytest

import gemmgen
from gemmgen.run.gpu import why_no_device

pytestmark = pytest.mark.skipif(why_no_device() is not None, reason=str(why_no_device()))

KERNELS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "strided": ("simt", {"layout": "rc", "pointer_align": 4}, {}),
    "split": ("simt", {"types": "f32"}, {"SPLIT": 3}),
    "fused": ("simt", {"types": "bf16", "batch": None, "epilogue": "bias+aux+gelu+residual+row_amax"}, {}),
    "hopper": ("wgmma", {"types": "bf16", "layout": "rc", "epilogue": "bias+relu", "ld_align": 8}, {}),
}


@pytest.fixture(scope="module")
def torch(torch: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """torch, with operators of all kernels in one extension."""
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("torch sees no GPU that wgmma's kernels run on")
    from torch.utils import cpp_extension

    if not cpp_extension.is_ninja_available() or cpp_extension.CUDA_HOME is None:
        pytest.skip("torch builds extensions by ninja and nvcc, which are not here")
    folder, build = tmp_path_factory.mktemp("vendored"), tmp_path_factory.mktemp("build")
    for name, (family, fields, config) in KERNELS.items():
        kernel = gemmgen.generate(gemmgen.Problem(None, None, None, **fields), family=family, **config)
        gemmgen.export(kernel, to=folder, name=f"gemm_{name}", torch=True, examples=0, device="emulator")
    sources = [str(folder / f"gemm_{name}{end}") for name in KERNELS for end in (".cu", "_torch.cpp")]
    flags = ["-gencode=arch=compute_90a,code=sm_90a"]
    cpp_extension.load(
        "operators", sources, extra_cuda_cflags=flags, is_python_module=False, build_directory=str(build)
    )
    return torch


def draw(torch: Any, *shape: int, dtype: str = "float32") -> Any:
    return torch.randn(*shape, device="cuda").to(getattr(torch, dtype))


def near(found: Any, wanted: Any, bits: int = 20) -> None:
    error = (found.double() - wanted).abs().max().item()
    assert error <= 2.0**-bits * max(1.0, wanted.abs().max().item()), error


def test_an_operator_takes_strided_views_and_writes_nothing_beside_them(torch: Any) -> None:
    op = torch.ops.gemm_strided
    a, w, c = draw(torch, 70, 90)[3:60, 5:77], draw(torch, 50, 72), torch.full((80, 64), 7.0, device="cuda")
    near(op.gemm(a, w.t(), alpha=0.5), 0.5 * a.double() @ w.double().t())
    out = c[2:59, 8:58]
    op.gemm_out(a, w.t(), out, alpha=0.5, beta=2.0)
    near(out, 0.5 * a.double() @ w.double().t() + 14)
    out[...] = 7
    assert (c == 7).all()
    assert op.gemm(a[:, :0], w[:, :0].t()).eq(0).all() and op.gemm(a[:0], w.t()).shape == (0, 50)
    near(op.gemm(a[:1], w[:1].t()), a[:1].double() @ w[:1].double().t())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"a": lambda a: a.cpu()}, "B is on cuda:0, and A on cpu|backend"),
        ({"b": lambda b: b.cpu()}, "B is on cpu, and A on cuda:0"),
        ({"b": lambda b: b.half()}, "B is of Half: this kernel takes Float"),
        ({"b": lambda b: b[1:]}, r"B is \[71, 50\]: this launch takes \[72, 50\]"),
        ({"b": lambda b: b.contiguous()}, r"B has strides \[50, 1\]: this kernel reads it column-major"),
        ({"a": lambda a: a[0]}, r"A is \[72\] and B \[72, 50\]: this kernel takes matrices"),
        ({"a": lambda a: a[:1].expand(57, 72)}, "lda = 0 is less than 72"),
    ],
)
def test_an_operator_says_what_does_not_fit(torch: Any, change: dict[str, Any], words: str) -> None:
    operands = {"a": draw(torch, 57, 72), "b": draw(torch, 50, 72).t()}
    operands |= {name: to(operands[name]) for name, to in change.items()}
    with pytest.raises((RuntimeError, NotImplementedError), match=words):
        torch.ops.gemm_strided.gemm(operands["a"], operands["b"])


def test_an_operator_drops_no_gradient(torch: Any) -> None:
    op, a, w = torch.ops.gemm_strided, draw(torch, 57, 72).requires_grad_(), draw(torch, 50, 72)
    words = "A requires a gradient, and gemm_strided computes none"
    with pytest.raises(RuntimeError, match=words):
        op.gemm(a, w.t())
    with pytest.raises(RuntimeError, match="C requires a gradient"):
        op.gemm_out(a.detach(), w.t(), torch.empty(57, 50, device="cuda", requires_grad=True))
    with torch.no_grad():
        near(op.gemm(a, w.t()), a.double() @ w.double().t())
    compiled = torch.compile(lambda a, w: op.gemm(a, w.t()) * 2, backend="aot_eager", fullgraph=True)
    with pytest.raises(Exception, match=words):
        compiled(a, w)
    near(compiled(a.detach(), w), 2 * (a.detach().double() @ w.double().t()))


@pytest.mark.parametrize(("rows", "columns"), [((0, 16), (1, 65)), ((0, 16), (63, 127)), ((7, 23), (0, 64))])
def test_an_operator_refuses_a_result_that_overlaps_an_operand_in_part(
    torch: Any, rows: tuple[int, int], columns: tuple[int, int]
) -> None:
    buffer, w = draw(torch, 32, 128), draw(torch, 64, 64)
    a = buffer[:16, :64]
    with pytest.raises(RuntimeError, match=r"C overlaps A: bytes \d+ to \d+ and \d+ to \d+"):
        torch.ops.gemm_strided.gemm_out(a, w.t(), buffer[slice(*rows), slice(*columns)])


def test_an_operator_takes_a_result_that_lies_between_the_lines_of_an_operand(torch: Any) -> None:
    buffer, w = draw(torch, 32, 128), draw(torch, 64, 64)
    a = buffer[:16, :64]
    wanted = a.double() @ w.double().t()
    for out in (buffer[:16, 64:], buffer[16:, :64]):
        torch.ops.gemm_strided.gemm_out(a, w.t(), out)
        near(out, wanted)


def test_an_operator_refuses_a_scalar_that_overflows_and_takes_infinity(torch: Any) -> None:
    op, a, w = torch.ops.gemm_strided, draw(torch, 4, 8).abs(), draw(torch, 4, 8).abs()
    with pytest.raises(RuntimeError, match=r"alpha = 9+\d*\.0+ overflows float"):
        op.gemm(a, w.t(), alpha=1e39)
    assert op.gemm(a, w.t(), alpha=float("inf")).isinf().all()


@pytest.mark.parametrize("sizes", [(0, 40, 72), (5, 0, 72), (5, 40, 0)])
def test_an_operator_makes_empty_products(torch: Any, sizes: tuple[int, int, int]) -> None:
    batch, m, n = sizes
    a, b = draw(torch, batch, m, 96, dtype="bfloat16"), draw(torch, 96, n, dtype="bfloat16")
    given = {"bias_n": draw(torch, n), "residual": draw(torch, batch, m, n)}
    c, aux, amax = torch.ops.gemm_fused.gemm(a, b, **given)
    assert c.shape == aux.shape == (batch, m, n) and amax.shape == (batch, m)
    assert amax.eq(0).all(), "the largest magnitude of no element"


def test_an_operator_takes_its_workspace_of_torch_on_the_current_stream(torch: Any) -> None:
    a, b = draw(torch, 128, 1000), draw(torch, 1000, 256)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10**7)
        c = torch.ops.gemm_split.gemm(a.mul_(2), b)
    torch.cuda.current_stream().wait_stream(stream)
    near(c, a.double() @ b.double())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        again = torch.ops.gemm_split.gemm(a, b)
    a.zero_()
    graph.replay()
    assert again.eq(0).all()


def test_an_operator_of_a_batch_writes_what_its_epilogue_does(torch: Any) -> None:
    a, b = draw(torch, 5, 40, 96, dtype="bfloat16"), draw(torch, 96, 72, dtype="bfloat16")
    bias, residual = draw(torch, 72), draw(torch, 5, 40, 72)
    c, aux, amax = torch.ops.gemm_fused.gemm(a, b, bias_n=bias, residual=residual)
    before = a.double() @ b.double() + bias.double()
    after = torch.nn.functional.gelu(before) + residual.double()
    near(aux, before, 12)
    near(c, after, 7)
    near(amax, after.abs().amax(-1), 12)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what torch's own compiler imports
def test_torch_compiles_an_operator(torch: Any) -> None:
    def layer(x: Any, w: Any, bias: Any) -> Any:
        return torch.ops.gemm_hopper.gemm(x, w.t(), bias_n=bias).float() * 2

    w, bias = draw(torch, 264, 128, dtype="bfloat16"), draw(torch, 264)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True)
    for rows in (1, 64, 300):
        x = draw(torch, rows, 128, dtype="bfloat16")
        near(compiled(x, w, bias), 2 * torch.relu(x.double() @ w.double().t() + bias.double()), 7)
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(torch.ops.gemm_hopper.gemm.default, (x, w.t()), {"bias_n": bias}, test_utils=checks)
