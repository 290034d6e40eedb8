"""Floats become e4m3 with scales as defined: on the host, and by quantise.cu, compiled for it."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest
from builds import built

from gemmgen.arrays.quantising import LEAST, TEAMS, THREADS, quantise_rows, quantise_squares
from gemmgen.problem.dtype import DType
from gemmgen.problem.inputs import BLOCK
from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.run.gpu.plain import plain_path
from gemmgen.support.errors import InvalidInput

# What a grid of one thread sees of CUDA.
SHIM = """
#include <algorithm>
#include <cmath>
#include <cstring>
using std::min;
#define __global__
#define __device__
#define __launch_bounds__(threads)
#define __shared__ static
struct { unsigned x; } constexpr blockIdx{0}, threadIdx{0}, blockDim{1}, gridDim{1};
static void __syncthreads() {}
static float __shfl_xor_sync(unsigned, float x, int) { return x; }
static float __uint_as_float(unsigned x) { float y; std::memcpy(&y, &x, sizeof y); return y; }
static float __fdiv_rn(float x, float y) { return x / y; }
extern "C" { unsigned char (*encode)(float) = nullptr; }
"""
ON_THE_HOST = {  # one thread has a block, and conversions are C++
    "LANES = 16": "LANES = 1",
    'asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));': "_Float16 y; std::memcpy(&y, &x, 2); value = (float)y;",
    'asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(second), "f"(first));': (
        "codes = (unsigned short)(encode(first) | encode(second) << 8);"
    ),
}
ENCODE = ctypes.CFUNCTYPE(ctypes.c_ubyte, ctypes.c_float)


@ENCODE
def encode(value: float) -> int:
    return int(DType.E4M3.encode(np.array([value])).view(np.uint8)[0])


TYPES = (DType.F32, DType.F16, DType.BF16)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("quantise")
    source, text = folder / "quantise.cpp", plain_path("quantise").read_text()
    for device, host in ON_THE_HOST.items():
        assert device in text
        text = text.replace(device, host)
    source.write_text(SHIM + text)
    library = folder / "quantise.so"
    flags = ("-std=c++17", "-O1", "-ffp-contract=off", "-shared", "-fPIC")
    done = built([*HostCompiler.find().command, *flags, source, "-o", library], folder)
    assert done.returncode == 0, done.stderr
    found = ctypes.CDLL(str(library))
    ctypes.c_void_p.in_dll(found, "encode").value = ctypes.cast(encode, ctypes.c_void_p).value
    return found


def drawn(dtype: DType, rows: int, k: int, lead: int) -> np.ndarray:
    rng = np.random.default_rng(rows + k)
    values = rng.standard_normal((rows, lead)) * np.exp2(rng.integers(-30, 8, (rows, lead)))
    values[rng.random((rows, lead)) < 0.1] = 0
    return dtype.encode(values).view(dtype.numpy)[:, :k]


@pytest.mark.parametrize("squares", [False, True])
@pytest.mark.parametrize(
    ("rows", "k", "lead", "dtype"),
    [
        *((*sizes, dtype) for sizes in ((3, 256, 256), (1, 128, 128), (257, 16, 24)) for dtype in TYPES),
        (130, 136, 147, DType.F32),
        *(pytest.param(130, 136, 147, dtype, marks=pytest.mark.soak) for dtype in TYPES[1:]),
    ],
)
def test_the_kernel_makes_what_the_host_makes(compiled, rows, k, lead, dtype: DType, squares: bool) -> None:
    x = drawn(dtype, rows, k, lead)
    codes, scales = (quantise_squares if squares else quantise_rows)(x)
    mine, of_mine = np.full((rows, k), 0xFF, np.uint8), np.full(scales.shape, np.nan, np.float32)
    sizes = ctypes.c_int(rows), ctypes.c_int(k), ctypes.c_longlong(x.strides[0] // x.itemsize)
    at = [ctypes.c_void_p(one.ctypes.data) for one in (x, mine, of_mine)]
    getattr(compiled, f"quantise_{'squares' if squares else 'rows'}_{dtype.label}")(*at, *sizes)
    np.testing.assert_array_equal(of_mine.view(np.uint32), scales.view(np.uint32))
    np.testing.assert_array_equal(mine, codes.view(np.uint8))


def test_launches_have_the_threads_that_the_kernel_names() -> None:
    named = {name: int(number) for name, number in re.findall(r"(\w+) = (\d+)[,;]", plain_path("quantise").read_text())}
    assert (named["BLOCK"], named["THREADS"], named["THREADS"] // named["LANES"]) == (BLOCK, THREADS, TEAMS)


def test_codes_times_scales_are_near_and_the_largest_is_448() -> None:
    x = drawn(DType.F32, 260, 384, 384)
    codes, scales = quantise_squares(x)
    numbers = DType.E4M3.decode(codes)
    for row in (0, 128, 256):
        for block in range(3):
            at = (slice(row, row + 128), slice(block * 128, block * 128 + 128))
            assert np.abs(numbers[at]).max() == 448
            close = numbers[at] * scales[row // 128, block]
            assert (np.abs(close - x[at]) <= np.abs(x[at]) / 16 + scales[row // 128, block] * 2**-10).all()


def test_rows_without_a_number_have_the_least_scale() -> None:
    codes, scales = quantise_rows(np.zeros((2, 200), np.float32))
    assert not DType.E4M3.decode(codes).any() and (scales == LEAST / np.float32(448)).all()
    assert quantise_rows(np.zeros((0, 200), np.float32))[1].shape == (2, 0)


def test_what_is_no_matrix_of_floats_is_refused() -> None:
    with pytest.raises(InvalidInput, match="x is of s8: f32, f16, bf16 become e4m3"):
        quantise_rows(np.zeros((2, 2), np.int8))
    with pytest.raises(InvalidInput, match="x has 1 dimensions: a matrix has 2"):
        quantise_rows(np.zeros(2, np.float32))
    with pytest.raises(InvalidInput, match="elements of a row of x are 2 apart"):
        quantise_rows(np.zeros((2, 4), np.float32)[:, ::2])
