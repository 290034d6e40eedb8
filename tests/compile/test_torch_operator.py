"""The exported operator of torch on the host: its checks and shapes, over a launcher that is played."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from gemmgen.exports.folder import export
from gemmgen.families import NAIVE
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render

if importlib.util.find_spec("torch"):
    import torch
    from torch.utils import cpp_extension

pytestmark = [
    pytest.mark.usefixtures("torch"),
    pytest.mark.soak,  # torch's headers take half a minute to compile
    pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not on the PATH"),
]

HOST_CUDA = Path(__file__).parent / "host_cuda"
RECORD: dict[str, Any] = {"arch": "sm_90", "verification": {"verdict": "passed"}, "timing": None}
GUARD = """#pragma once
#include <c10/core/Device.h>
namespace c10::cuda {
struct CUDAGuard { explicit CUDAGuard(c10::Device) {} };
}
"""
STREAM = """#pragma once
#include <cuda_runtime_api.h>
namespace c10::cuda {
inline cudaStream_t getCurrentCUDAStream() { return nullptr; }
}
"""
LAUNCHER = """
#include "played.h"

extern "C" cudaError_t played_launch(const float* A, const float* B, float* C, float* row_amax, int M, int N, int K,
    int lda, int ldb, int ldc, int batch, long long stride_a, long long stride_b, long long stride_c, float alpha,
    float beta, void*, size_t, cudaStream_t)
{
    for (int p = 0; p < batch; ++p)
        for (int m = 0; m < M; ++m)
            for (int n = 0; n < N; ++n) {
                float sum = 0;
                for (int k = 0; k < K; ++k) sum += A[p * stride_a + m * lda + k] * B[p * stride_b + k * ldb + n];
                float& c = C[p * stride_c + m * ldc + n];
                c = alpha * sum + (beta == 0 ? 0 : beta * c);
            }
    return cudaSuccess;
}

extern "C" const char* played_refusal() { return ""; }
extern "C" const char* cudaGetErrorString(cudaError_t) { return "an error"; }
"""


@pytest.fixture(scope="module")
def op(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """gemm and gemm_out of a batch, as operators of the CPU."""
    folder = tmp_path_factory.mktemp("operator")
    sizes: dict[str, Any] = dict.fromkeys(("batch", "lda", "ldb", "ldc", "stride_a", "stride_b", "stride_c"))
    problem = Problem(None, None, None, epilogue="row_amax(alpha * acc + beta * C)", pointer_align=4, **sizes)
    export(render(problem, NAIVE, NAIVE.default(problem)).renamed("played"), RECORD, folder, torch=True)
    (folder / "c10" / "cuda").mkdir(parents=True)
    (folder / "c10" / "cuda" / "CUDAGuard.h").write_text(GUARD)
    (folder / "c10" / "cuda" / "CUDAStream.h").write_text(STREAM)
    text = (folder / "played_torch.cpp").read_text()
    (folder / "operator.cpp").write_text(text.replace("(played, CUDA, library)", "(played, CPU, library)"))
    (folder / "launcher.cpp").write_text(LAUNCHER)
    places = [folder, HOST_CUDA, *cpp_extension.include_paths(), sysconfig.get_paths()["include"]]
    libraries = Path(torch.__path__[0]) / "lib"
    command = ["g++", "-std=c++20", "-O0", "-fPIC", "-shared", *(f"-I{one}" for one in places), "operator.cpp"]
    command += ["launcher.cpp", "-o", "operator.so", f"-L{libraries}", "-ltorch", "-ltorch_cpu", "-lc10"]
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    torch.ops.load_library(str(folder / "operator.so"))
    return torch.ops.played


def draw(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_heads_of_one_buffer_are_multiplied(op: Any) -> None:
    a, b, c = draw(16, 4, 8).transpose(0, 1), draw(8, 4, 24).transpose(0, 1), torch.full((16, 6, 24), 7.0)
    out, most = c[:, 1:5].transpose(0, 1), torch.empty(4, 16)
    torch.testing.assert_close(op.gemm(a, b, alpha=0.5)[0], 0.5 * a @ b)
    op.gemm_out(a, b, out, row_amax=most, beta=1.0)
    torch.testing.assert_close(out, a @ b + 7)
    assert (c[:, [0, 5]] == 7).all()


def test_gradients_are_refused_where_they_would_be_lost(op: Any) -> None:
    a, b = draw(2, 5, 8).requires_grad_(), draw(8, 6)
    words = "A requires a gradient, and played computes none"
    for given in ((a, b), (a.to("meta"), b.to("meta"))):
        with pytest.raises(RuntimeError, match=words):
            op.gemm(*given)
    with pytest.raises(RuntimeError, match="row_amax requires a gradient"):
        op.gemm_out(a.detach(), b, torch.empty(2, 5, 6), row_amax=torch.empty(2, 5, requires_grad=True))
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode:
            torch.testing.assert_close(op.gemm(a, b)[0], a @ b)
    compiled = torch.compile(lambda a, b: op.gemm(a, b)[0] * 2, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(a.detach(), b), 2 * (a.detach() @ b))
    with pytest.raises(Exception, match=words):
        compiled(a, b)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ((slice(0, 4), slice(8, 16)), None),
        ((slice(4, 8), slice(0, 8)), None),
        ((slice(0, 4), slice(7, 15)), "C overlaps A: bytes "),
        ((slice(3, 7), slice(0, 8)), "C overlaps A: bytes "),
        ((slice(0, 4), slice(0, 8)), "C overlaps A: bytes "),
    ],
)
def test_a_result_shares_no_element_with_an_operand(op: Any, place: tuple[slice, slice], words: str | None) -> None:
    buffer, b, most = draw(2, 8, 20), draw(8, 8), torch.empty(2, 4)
    a, out = buffer[:, :4, :8], buffer[(slice(None), *place)]
    wanted = a @ b
    if words is None:
        op.gemm_out(a, b, out, row_amax=most)
        torch.testing.assert_close(out, wanted)
    else:
        with pytest.raises(RuntimeError, match=words):
            op.gemm_out(a, b, out, row_amax=most)


@pytest.mark.parametrize("sizes", [(0, 4, 6), (2, 0, 6), (2, 4, 0)])
def test_empty_products_have_their_shapes_and_maxima_of_zero(op: Any, sizes: tuple[int, int, int]) -> None:
    batch, m, n = sizes
    c, most = op.gemm(draw(batch, m, 8), draw(8, n))
    assert c.shape == sizes and most.shape == (batch, m) and most.eq(0).all()


def test_a_scalar_that_overflows_is_refused_and_infinity_taken(op: Any) -> None:
    a, b = draw(2, 5, 8).abs(), draw(8, 6).abs()
    for value in (1e39, -1e39):
        with pytest.raises(RuntimeError, match=r"alpha = -?\d+\.0+ overflows float, whose largest number is 340282"):
            op.gemm(a, b, alpha=value)
    assert op.gemm(a, b, alpha=float("inf"))[0].isposinf().all()
