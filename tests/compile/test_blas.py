"""GEMM of BLAS by a library, as examples/blas shows it: its shim multiplies column-major matrices of the host."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from itertools import product as combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemmgen.exports.library.building import library_texts
from gemmgen.exports.library.clocks import Predicted
from gemmgen.exports.library.members import Member
from gemmgen.exports.library.rules import choose
from gemmgen.exports.library.spec import read_spec
from gemmgen.exports.library.texts import LibraryText
from gemmgen.families import FAMILIES
from gemmgen.problem.device import DEVICES
from gemmgen.render.kernel_text import render

EXAMPLE = Path(__file__).parents[2] / "examples" / "blas"
HOST_CUDA = Path(__file__).parent / "host_cuda"
Sizes = tuple[int, int, int]  # M, N and K, or three leading dimensions
PADDING = 3  # elements behind each column

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not on the PATH"),
    pytest.mark.skipif(sys.version_info < (3, 11), reason="Python reads TOML from 3.11 on"),
]


@pytest.fixture(scope="module")
def blas(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The shim, with `host_cuda/blas.c` in place of the library and of CUDA."""
    folder, naive = tmp_path_factory.mktemp("blas"), FAMILIES["naive"]
    spec = read_spec(EXAMPLE / "blas.toml", "sm_90")
    sources = [(one, render(one.general, naive, naive.default(one.general))) for one in spec.products]
    clock = Predicted(DEVICES["H200"], most=8)
    choices = tuple(choose(one, "sm_90", [Member(one, source, "sm_90")], clock) for one, source in sources)
    (folder / "blas.h").write_text(library_texts(LibraryText(spec, choices))["blas.h"])
    words = ["gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", f"-I{HOST_CUDA}", "-I."]
    built = subprocess.run(
        [*words, HOST_CUDA / "blas.c", EXAMPLE / "shim.c", "-o", "blas.so"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return ctypes.CDLL(str(folder / "blas.so"))


def columns(random: np.random.Generator, rows: int, cols: int, dtype: str) -> Any:
    """Those of a matrix of rows x cols, and PADDING behind each."""
    return random.integers(-9, 9, (cols, rows + PADDING)).astype(dtype)


def call(blas: ctypes.CDLL, letters: str, sizes: Sizes, scalars: tuple[float, float], *matrices: Any) -> None:
    """SGEMM or DGEMM of arrays that hold columns as rows, each followed by its padding."""
    scalar, gemm = (ctypes.c_float, blas.sgemm_) if matrices[0].itemsize == 4 else (ctypes.c_double, blas.dgemm_)
    alpha, beta = (ctypes.byref(scalar(value)) for value in scalars)
    m, n, k, lda, ldb, ldc = (ctypes.byref(ctypes.c_int(size)) for size in (*sizes, *(x.shape[1] for x in matrices)))
    a, b, c = (matrix.ctypes.data_as(ctypes.c_void_p) for matrix in matrices)
    gemm(letters[0].encode(), letters[1].encode(), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_shim_of_the_blas_example_multiplies(blas: ctypes.CDLL, dtype: str) -> None:
    random, (m, n) = np.random.default_rng(0), (4, 3)
    for ta, tb, alpha, beta, k in combinations("NTc", "nTC", (0, 2), (0, 1, 3), (0, 5)):
        a = columns(random, *((m, k) if ta == "N" else (k, m)), dtype)
        b = columns(random, *((k, n) if tb == "n" else (n, k)), dtype)
        c = columns(random, m, n, dtype)
        of_a = a[:, :m].T if ta == "N" else a[:, :k]
        of_b = b[:, :k].T if tb == "n" else b[:, :n]
        expected = c.copy()
        expected[:, :m] = (alpha * (of_a @ of_b) + beta * c[:, :m].T).T
        if beta == 0:
            c[:, :m] = np.nan
        if alpha == 0:
            a[:], b[:] = np.nan, np.nan
        call(blas, ta + tb, (m, n, k), (alpha, beta), a, b, c)
        assert np.array_equal(c, expected), (ta, tb, alpha, beta, k)


@pytest.mark.parametrize(
    ("letters", "sizes", "lds", "argument"),
    [
        ("/N", (2, 2, 2), (2, 2, 2), 1),
        ("N/", (2, 2, 2), (2, 2, 2), 2),
        ("NN", (-1, 2, 2), (2, 2, 2), 3),
        ("NN", (2, -1, 2), (2, 2, 2), 4),
        ("NN", (2, 2, -1), (2, 2, 2), 5),
        ("NN", (3, 2, 2), (2, 2, 3), 8),
        ("TN", (2, 2, 3), (2, 3, 2), 8),
        ("NN", (2, 2, 3), (2, 2, 2), 10),
        ("NT", (2, 3, 2), (2, 2, 2), 10),
        ("TT", (3, 2, 2), (2, 2, 2), 13),
        ("NN", (0, 0, 0), (1, 1, 0), 13),
    ],
)
def test_the_shim_of_the_blas_example_names_the_argument_that_is_wrong(
    blas: ctypes.CDLL, letters: str, sizes: Sizes, lds: Sizes, argument: int
) -> None:
    refused = ctypes.c_int.in_dll(blas, "refused")
    refused.value = 0
    call(blas, letters, sizes, (1, 0), *(np.zeros((4, ld)) for ld in lds))
    assert refused.value == argument
