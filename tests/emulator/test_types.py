"""Kernels of every element type compute the right thing, and the host's conversions are those of the types."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from gemmgen.kernel.families import NAIVE, SIMT, SKINNY, Family
from gemmgen.kernel.families.base import check
from gemmgen.kernel.naming import parse_name
from gemmgen.kernel.render import environment, render
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import ARCHS
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.types import Types
from gemmgen.run.emulator.compiler import RUNTIME, HostCompiler
from gemmgen.run.emulator.driver import EmulatorExecutor
from gemmgen.verification.data import make_operands
from gemmgen.verification.situation import Situation
from gemmgen.verification.verifier import THOROUGH, verify


@pytest.fixture(scope="module")
def emulator() -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor() as executor:
        yield executor


EXAMPLES = 16
SMALL = 96  # sizes whose launches are all watched: a kernel that meets no others is compiled once
NARROW = {"f16": DType.F16, "bf16": DType.BF16, "e4m3": DType.E4M3, "e5m2": DType.E5M2}


@pytest.mark.parametrize(
    ("text", "layout", "examples"),
    [
        ("bf16", "rr", THOROUGH),  # sizes beyond 16 bits, for one of them here
        ("f16", "cr", EXAMPLES),
        ("e4m3", "rc", EXAMPLES),
        ("e5m2,e4m3,f32", "cc", EXAMPLES),
        ("s8,u8,s32", "rr", EXAMPLES),
        ("u8,s8,s8", "rc", EXAMPLES),
    ],
)
def test_naive_kernels_are_right(emulator: EmulatorExecutor, text: str, layout: str, examples: int) -> None:
    problem = Problem(None, None, None, types=Types.parse(text), layout=Layout.parse(layout), pointer_align=4)
    computes(emulator, render(problem, NAIVE, NAIVE.default(problem)), examples)


def computes(emulator: EmulatorExecutor, source: KernelSource, examples: int) -> None:
    """Of all sizes in several schedules where `examples` are THOROUGH, else of small ones."""
    small = {} if examples >= THOROUGH else {"largest": SMALL, "runs": 1}
    verdict = verify(emulator, source, examples=examples, seed=2, **small)
    assert verdict.passed, f"{verdict.situation}: {verdict.failure}"


CONVERT = """
#include "convert.hpp"
#include <stdio.h>
int main() {
  float value;
  while (fread(&value, 4, 1, stdin) == 1) {
    const unsigned short halves[] = {f16_from_float(value), bf16_from_float(value)};
    const unsigned char bytes[] = {e4m3_from_float(value), e5m2_from_float(value)};
    fwrite(halves, 2, 2, stdout);
    fwrite(bytes, 1, 2, stdout);
  }
}
"""
WIDEN = """
#include "convert.hpp"
#include <stdio.h>
int main() {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float value = float_from_f16(bits);
    fwrite(&value, 4, 1, stdout);
  }
  for (unsigned bits = 0; bits < 256; ++bits) {
    const float value = float_from_e4m3(bits);
    fwrite(&value, 4, 1, stdout);
  }
  for (unsigned bits = 0; bits < 256; ++bits) {
    const unsigned halves = halves_from_e4m3(bits | (255 - bits) << 8);
    const float values[] = {float_from_f16(halves), float_from_f16(halves >> 16)};
    fwrite(values, 4, 2, stdout);
  }
}
"""


def run(program: str, given: bytes, folder: object) -> bytes:
    command = [
        *HostCompiler.find().command,
        "-std=c++17",
        "-O1",
        f"-I{RUNTIME}",
        "-x",
        "c++",
        "-",
        "-o",
        f"{folder}/run",
    ]
    subprocess.run(command, input=program.encode(), check=True)
    return subprocess.run([f"{folder}/run"], input=given, capture_output=True, check=True).stdout


def near_every_number() -> npt.NDArray[np.float32]:
    """Random bits, every narrow number, the middles between neighbours, and what is next to these."""
    rng = np.random.default_rng(0)
    values = [rng.integers(0, 2**32, 100_000, np.uint32).view(np.float32), np.float32([0, -0.0, np.inf, -np.inf])]
    for dtype in NARROW.values():
        numbers = np.unique(dtype.decode(dtype.finite())).astype(np.float32)
        middles = ((numbers[:-1].astype(np.float64) + numbers[1:]) / 2).astype(np.float32)
        values += [
            numbers,
            middles,
            np.nextafter(middles, np.float32(np.inf)),
            np.nextafter(middles, np.float32(-np.inf)),
        ]
        values.append(np.clip(dtype.largest * np.array([1.01, -1.1, 2]), -3e38, 3e38).astype(np.float32))
    given = np.concatenate(values)
    return given[~np.isnan(given)]


def assert_stored(given: npt.NDArray[np.float32], stored: npt.NDArray[np.void]) -> None:
    """Fields of `stored` are the codes that their types have for `given`."""
    for name in stored.dtype.names or ():
        dtype = NARROW[name]
        want = dtype.encode(given).view(dtype.bits)
        wrong = np.flatnonzero(stored[name] != want)
        assert not len(wrong), f"{name} of {given[wrong[0]]!r} is {stored[name][wrong[0]]:#x}, not {want[wrong[0]]:#x}"


def test_the_host_stores_as_the_types_do(tmp_path: object) -> None:
    given = near_every_number()
    out = run(CONVERT, given.tobytes(), tmp_path)
    assert_stored(given, np.frombuffer(out, [(name, dtype.bits) for name, dtype in NARROW.items()]))


def test_the_host_reads_every_number(tmp_path: object) -> None:
    found = np.frombuffer(run(WIDEN, b"", tmp_path), np.float32)
    halves = DType.F16.decode(np.arange(65536, dtype=np.uint16).view(np.float16))
    bytes_ = DType.E4M3.decode(np.arange(256, dtype=np.uint8).view(DType.E4M3.numpy))
    np.testing.assert_array_equal(
        found.astype(np.float64), np.concatenate([halves, bytes_, np.stack([bytes_, bytes_[::-1]], 1).ravel()])
    )


@pytest.mark.parametrize(
    ("name", "examples"),
    [
        ("gemm_bf16_rc_3xNxK_skinny_s4_t4_w2_k512_u2_v4_split1", THOROUGH),
        ("gemm_bf16_rc_3xNxK_la8_skinny_s8_t16_w2_k0_u2_async1_mma1_v4_split2", EXAMPLES),
        ("gemm_f16_rr_9xNxK_la4_skinny_s8_t8_l8_w2_k0_u2_d4_mma1_v4_split1", EXAMPLES),
        ("gemm_e4m3_rr_2xNxK_la16_skinny_s2_t8_l8_w2_k0_u2_d4_v4_split1", EXAMPLES),
        ("gemm_f16_rr_1xNxK_la8_skinny_s1_t8_l4_w2_k0_u2_d4_async1_v4_split2", EXAMPLES),
        ("gemm_s8u8s32_rc_3xNxK_la4_skinny_s4_t2_w2_k0_u4_async1_v4_split2", EXAMPLES),
        ("gemm_e5m2u8f32_rr_3xNxK_la2_skinny_s4_t4_w2_k256_u2_v4_split1", EXAMPLES),
        ("gemm_s8f32f32_cc_3xNxK_la16_skinny_s2_t2_w2_k0_u2_v4_split1", EXAMPLES),
        ("gemm_s8s8s32_rc_3xNxK_skinny_s4_t2_w2_k1024_u2_v4_split2", EXAMPLES),
        ("gemm_bf16_rc_p7_16x8x24_batched_mb4_4x4_v4_pad4_s1_async0_tiles4_minb1", EXAMPLES),
        ("gemm_s8u8s8_rr_bB_8x8x8_batched_mb2_4x4_v4_pad0_s1_async0_tiles1_minb1", EXAMPLES),
        (
            "gemm_f16bf16f32_cr_MxNxK_la4_simt_outer1_32x32x8_4x4_w0x0_v4_ta0_tb0_pad0_s2_async0_unroll0_slices1_minb1_g8_split1",
            EXAMPLES,
        ),
    ],
)
def test_other_families_convert_as_well(emulator: EmulatorExecutor, name: str, examples: int) -> None:
    problem, family, config = parse_name(name)
    check(family, problem, config, ARCHS["sm_90"].limits)
    computes(emulator, render(problem, family, config), examples)


@pytest.mark.parametrize(
    "name",
    [
        "gemm_u8u8s32_rr_2x8x140000_skinny_s2_t4_w2_k256_u2_v4_split3",
        "gemm_u8u8s32_rc_8x8x140000_simt_outer1_8x8x32_2x2_w0x0_v4_ta1_tb1_pad4_s1_async0_unroll0_slices1_minb1_g1_split2",
        "gemm_u8u8s32_rr_b2_2x2x140000_naive_8x8",
    ],
)
def test_integer_sums_wrap_wherever_they_are_added(emulator: EmulatorExecutor, name: str) -> None:
    """255 * 255 * K passes 2^31, in a thread, among a block's and among blocks of a split."""
    problem, family, config = parse_name(name)
    check(family, problem, config, ARCHS["sm_90"].limits)
    kernel = emulator.load(render(problem, family, config))
    case = problem.case(alpha=3.0)
    operands = make_operands(Situation(case, "random", 0))
    full = {"A": np.full_like(operands.a, 255), "B": np.full_like(operands.b, 254)}
    result = kernel.run(case, replace(operands, a=full["A"], b=full["B"]))
    kernel.close()
    wrapped = DType.S32.wrap(np.array(3 * 255 * 254 * 140000))
    assert (case.c.view(result) == wrapped).all()


@pytest.mark.parametrize(
    ("text", "arch", "family"),
    [
        ("bf16", "sm_75", SIMT),
        ("e4m3", "sm_86", SKINNY),  # which unpacks registers
        ("e5m2", "sm_80", NAIVE),
    ],
)
def test_older_architectures_convert_by_arithmetic(
    emulator: EmulatorExecutor, text: str, arch: str, family: Family
) -> None:
    problem = Problem(4, 64, None, types=Types.parse(text))
    made = family.default(problem)
    check(family, problem, made, ARCHS[arch].limits)
    source = render(problem, family, made, arch)
    computes(emulator, source, EXAMPLES)


COMPUTED = """
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#define __device__
#define __forceinline__
static unsigned __float_as_uint(float value) { unsigned bits; memcpy(&bits, &value, 4); return bits; }
static float __uint_as_float(unsigned bits) { float value; memcpy(&value, &bits, 4); return value; }
static unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
"""
COMPUTED_MAIN = """
int main() {
  for (unsigned bits = 0; bits < 256; ++bits) {
    const float value = widen_e4m3(bits);
    fwrite(&value, 4, 1, stdout);
  }
  float value;
  while (fread(&value, 4, 1, stdin) == 1) {
    const unsigned short bf16 = round_to_bf16(value);
    const unsigned char bytes[] = {round_to_e4m3(value), round_to_e5m2(value)};
    fwrite(&bf16, 2, 1, stdout);
    fwrite(bytes, 1, 2, stdout);
  }
}
"""


def test_conversions_by_arithmetic_are_those_of_the_types(tmp_path: object) -> None:
    texts = []
    for label in ("bf16", "e4m3", "e5m2"):
        made = environment(Types.parse(f"f32,f32,{label}"), "sm_75")
        texts.append(made.get_template("device/convert.cu").make_module().element_types(reads_c=label == "e4m3"))
    given = near_every_number()
    out = run(COMPUTED + "".join(texts) + COMPUTED_MAIN, given.tobytes(), tmp_path)
    widened = np.frombuffer(out[:1024], np.float32)
    stored = [(name, NARROW[name].bits) for name in ("bf16", "e4m3", "e5m2")]
    numbers = DType.E4M3.decode(np.arange(256, dtype=np.uint8).view(DType.E4M3.numpy))
    np.testing.assert_array_equal(widened.astype(np.float64), numbers)
    assert_stored(given, np.frombuffer(out[1024:], stored))


DOTS = """
#include "convert.hpp"
#include <stdio.h>
int main() {
  unsigned words[3];
  while (fread(words, 4, 3, stdin) == 3) {
    const unsigned a = words[0], b = words[1], c = words[2];
    const int sums[] = {__dp4a(int(a), int(b), int(c)), int(__dp4a(a, b, c)), dp4a_us(a, int(b), int(c))};
    fwrite(sums, 4, 3, stdout);
  }
}
"""


def test_the_host_multiplies_bytes_as_the_gpu_does(tmp_path: object) -> None:
    """Four products of signed bytes, of unsigned ones, and of both; sums wrap around."""
    words = np.random.default_rng(0).integers(0, 2**32, (1000, 3), np.uint32)
    words[:2] = [[2**31, 2**31, 2**31 - 1], [2**32 - 1] * 3]
    found = np.frombuffer(run(DOTS, words.tobytes(), tmp_path), np.uint32).reshape(-1, 3)
    for column, (a, b) in enumerate([("i1", "i1"), ("u1", "u1"), ("u1", "i1")]):
        products = words[:, :1].copy().view(a).astype(np.int64) * words[:, 1:2].copy().view(b).astype(np.int64)
        np.testing.assert_array_equal(found[:, column], (products.sum(1) + words[:, 2]) % 2**32)
