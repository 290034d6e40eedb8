"""The inputs of measurements: random.cu, compiled for the host, fills each type as it says."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest
from builds import built

from gemmgen.problem.dtype import DType
from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.run.gpu.plain import plain_path

COUNT = 200_000
# What a grid of one thread sees of CUDA.
SHIM = """
#include <cmath>
#include <cstring>
#define __global__
#define __device__ static
#define __launch_bounds__(threads)
struct { unsigned x; } constexpr blockIdx{0}, threadIdx{0}, blockDim{1}, gridDim{1};
static unsigned __float_as_uint(float x) { unsigned y; std::memcpy(&y, &x, sizeof y); return y; }
static float cospif(float x) { return (float)std::cos(x * 3.14159265358979323846); }
"""
# PTX, and the same conversion in the host's C++.
F16 = 'asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));'
HOST_F16 = "_Float16 half = (_Float16)value; std::memcpy(&bits, &half, sizeof bits);"
TYPES = [dtype for dtype in DType if dtype.storage_bits >= 8]  # no kernel takes others


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.CDLL]:
    folder = tmp_path_factory.mktemp("random")
    source, text = folder / "random.cpp", plain_path("random").read_text()
    assert F16 in text
    source.write_text(SHIM + text.replace(F16, HOST_F16))
    library = folder / "random.so"
    flags = ("-std=c++17", "-O1", "-shared", "-fPIC")
    done = built([*HostCompiler.find().command, *flags, source, "-o", library], folder)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library))


def drawn(compiled: ctypes.CDLL, data: str, dtype: DType) -> np.ndarray:
    memory = np.zeros(COUNT, dtype.bits)
    getattr(compiled, f"random_{data}_{dtype.label}")(ctypes.c_void_p(memory.ctypes.data), ctypes.c_longlong(COUNT))
    return dtype.decode(memory.view(dtype.numpy))


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.label)
def test_uniform_data_fill_their_range_evenly(compiled: ctypes.CDLL, dtype: DType) -> None:
    values = drawn(compiled, "uniform", dtype)
    low, high = (dtype.least, -dtype.least if dtype.is_signed else 255) if dtype.is_integer else (-1, 1)
    assert low <= values.min() <= low + 0.01 * (high - low) and high - 0.01 * (high - low) <= values.max() <= high
    assert np.mean(values) == pytest.approx((low + high) / 2, abs=0.005 * (high - low))
    wanted = (high - low) / 12**0.5
    assert np.std(values) == pytest.approx(wanted, rel=0.08 if dtype.label == "e5m2" else 0.02)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.label)
def test_normal_data_have_the_quantiles_of_a_normal_distribution(compiled: ctypes.CDLL, dtype: DType) -> None:
    values = drawn(compiled, "normal", dtype)
    holds = 256 if dtype.label == "u8" else -dtype.least
    mean, deviation = (128 if dtype.label == "u8" else 0, holds / 8) if dtype.is_integer else (0, 1)
    cut = 0.125 if dtype.label == "e5m2" else 0.0  # it is cut, not rounded: towards zero
    found = np.quantile((values - mean) / deviation, [0.0228, 0.1587, 0.5, 0.8413, 0.9772])
    assert found == pytest.approx([-2, -1, 0, 1, 2], abs=0.07 + 2 * cut)
    assert 3.8 < np.abs((values - mean) / deviation).max() < 6
