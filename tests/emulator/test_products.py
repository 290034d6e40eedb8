"""The interpreter's matrix instructions: bits of sums as the model has them, and elements where the manual says."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from builds import built

from gemmgen.problem.device import ARCHS, WARP
from gemmgen.problem.dtype import DType
from gemmgen.problem.mma import MMAS, Mma
from gemmgen.problem.wgmma import K_BYTES, WARPGROUP, Wgmma
from gemmgen.problem.wmma import WMMAS, Wmma
from gemmgen.run.emulator import program
from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.run.emulator.instructions import instruction_table, instructions
from gemmgen.verification.tensor_core import Codes, dot
from gemmgen.verification.tensor_core_recordings import TRIED, compare
from gemmgen.verification.vectors import Draw, Span, Vectors, drawn

NATIVE = program.NATIVE
FLAGS = ("-std=c++20", "-O2", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fPIC", "-shared", "-Wall")
WARPS = WARPGROUP // WARP
PROGRAM = r"""
#include "matrix_lanes.hpp"
#include "matrix_table.hpp"
#include "products.hpp"
#include "warpgroup_product.hpp"

using namespace gemmgen;

// As PTX's manual shows them.
constexpr bool lanes_are_right() {
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned g = lane / 4, t = lane % 4;
      const MatrixPlace place = matrix_place(lane, half, false);
      if (place != MatrixPlace{g, 2 * t + half}) return false;
      if (matrix_place(lane, half, true) != MatrixPlace{2 * t + half, g}) return false;
      if (matrix_holder(place) != LaneHalf{lane, half}) return false;
      const LaneHalf source = movmatrix_source(lane, half);
      if (matrix_place(source.lane, source.half, false) != MatrixPlace{2 * t + half, g}) return false;
      for (unsigned matrix = 0; matrix < 4; ++matrix)
        if (matrix_row_lane(matrix, g) != 8 * matrix + g) return false;
    }
  return true;
}
static_assert(lanes_are_right());

namespace {

InstructionTable table;

template <typename Word, typename Multiply>
void each_product(const MatrixInstruction& of, unsigned steps, unsigned products, Word* a, Word* b, Word* sums,
                  Multiply multiply) {
  constexpr unsigned BITS = 8 * sizeof(Word) * 32;
  const unsigned of_a = of.m * of.k * bits_of(of.a) / BITS, of_b = of.n * of.k * bits_of(of.b) / BITS;
  const unsigned of_c = of.m * of.n * bits_of(of.accumulator) / BITS;
  const auto pointers = [](Word* first, unsigned count) {
    std::vector<Word*> found;
    for (unsigned r = 0; r < count; ++r) found.push_back(first + 32 * r);
    return found;
  };
  for (unsigned p = 0; p < products; ++p)
    for (unsigned step = 0; step < steps; ++step) {
      const unsigned at = p * steps + step;
      const auto d = pointers(sums + p * of_c * 32, of_c);
      multiply(d.data(), pointers(a + at * of_a * 32, of_a).data(), pointers(b + at * of_b * 32, of_b).data());
    }
}

}  // namespace

extern "C" {

std::size_t use_table(const char* text) {
  try {
    return (table = InstructionTable::parse(text)).size();
  } catch (const std::invalid_argument&) {
    return 0;
  }
}

bool has(const char* opcode) { return table.find(opcode) != nullptr; }

void mma(const char* opcode, unsigned steps, unsigned products, uint32_t* a, uint32_t* b, uint32_t* sums) {
  static WarpProducts warp;
  const MatrixInstruction& of = *table.find(opcode);
  each_product(of, steps, products, a, b, sums, [&](auto d, auto x, auto y) { warp.mma(of, d, x, y, d); });
}

void mma_f64(const char* opcode, unsigned steps, unsigned products, uint64_t* a, uint64_t* b, uint64_t* sums) {
  static WarpProducts warp;
  const MatrixInstruction& of = *table.find(opcode);
  each_product(of, steps, products, a, b, sums, [&](auto d, auto x, auto y) { warp.mma(of, d, x, y, d); });
}

void wmma(const char* opcode, uint32_t* a, uint32_t* b, uint32_t* sums) {
  static WarpProducts warp;
  uint32_t *x[4], *y[4], *d[8];
  for (unsigned r = 0; r < 8; ++r) d[r] = sums + 32 * r;
  for (unsigned r = 0; r < 4; ++r) x[r] = a + 32 * r, y[r] = b + 32 * r;
  warp.wmma(*table.find(opcode), d, x, y, d);
}

void wmma_places(unsigned which, unsigned* rows, unsigned* columns) {
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < 8; ++i) {
      const MatrixPlace place = which == 0   ? wmma_a_place(lane, i / 2, i % 2)
                                : which == 1 ? wmma_b_place(lane, i / 2, i % 2)
                                             : wmma_c_place(lane, i);
      rows[32 * i + lane] = place.row, columns[32 * i + lane] = place.column;
    }
}

void wgmma(const char* opcode, unsigned flags, const unsigned char* shared, uint64_t a, const uint32_t* a_registers,
           uint64_t b, bool scale_d, uint32_t* sums) {
  static WarpgroupProduct product;
  static WarpgroupSums held;
  WarpgroupInstruction one{*table.find(opcode), (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, (flags & 8) != 0};
  std::vector<uint32_t*> d;
  const unsigned count = WarpgroupSums::registers_of(one.of);
  for (unsigned r = 0; r < 4 * count; ++r) d.push_back(sums + 32 * r);
  for (unsigned warp = 0; warp < 4; ++warp) held.load(one.of, warp, d.data() + warp * count);
  product.run(one, shared, a, reinterpret_cast<const FactorRegisters*>(a_registers), b, scale_d, held);
  for (unsigned warp = 0; warp < 4; ++warp) held.store(one.of, warp, d.data() + warp * count);
}

unsigned wgmma_place(unsigned thread, unsigned number) {
  const MatrixPlace place = wgmma_d_place(thread / 32, thread % 32, number);
  return place.row << 16 | place.column;
}

}  // extern "C"
"""


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = tmp_path_factory.mktemp("products") / "products.so"
    given = f"-I{NATIVE}", "-include", "vector", "-x", "c++", "-", "-o", str(library)
    done = built([*HostCompiler.find().command, *FLAGS, *given], library.parent, PROGRAM)
    assert done.returncode == 0, done.stderr
    found = ctypes.CDLL(str(library))
    found.use_table.restype = ctypes.c_size_t
    found.has.restype = ctypes.c_bool
    return found


def use(native: ctypes.CDLL, arch: str) -> None:
    assert native.use_table(instruction_table(ARCHS[arch]).encode()) > 0


Words = npt.NDArray[Any]


@cache
def places(name: str, side: str) -> tuple[npt.NDArray[np.int64], ...]:
    """Of A, B or C: (row, column), by register, part and lane."""
    mma = MMAS[name]
    registers, shared = {
        "a": (mma.a_registers, mma.a_shared),
        "b": (mma.b_registers, mma.a_shared),
        "c": (mma.c_registers, mma.c_shared),
    }[side]
    of = {"a": mma.a_place, "b": mma.b_place, "c": mma.c_place}[side]
    found = [[[of(lane, r, part) for lane in range(WARP)] for part in range(shared)] for r in range(registers)]
    return tuple(np.moveaxis(np.array(found), -1, 0))


def packed(codes: Codes, where: tuple[npt.NDArray[np.int64], ...], bits: int, word: type) -> Words:
    """Registers of `codes`, which are (..., row, column)."""
    parts: Words = codes[..., where[0], where[1]].astype(word)
    shifts = np.arange(parts.shape[-2], dtype=word) * word(bits)
    return np.ascontiguousarray(np.bitwise_or.reduce(parts << shifts[:, None], axis=-2))


def unpacked(words: Words, where: tuple[npt.NDArray[np.int64], ...], into: Codes, bits: int) -> Codes:
    made = np.empty_like(into)
    for part in range(where[0].shape[1]):
        mask = words.dtype.type(2**bits - 1)
        made[..., where[0][:, part], where[1][:, part]] = words >> words.dtype.type(bits * part) & mask
    return made


def pointer(words: Words) -> ctypes.c_void_p:
    assert words.flags.c_contiguous
    return words.ctypes.data_as(ctypes.c_void_p)


def multiplied(native: ctypes.CDLL, opcode: str, mma: Mma, vectors: Vectors) -> Codes:
    word: Any = np.uint64 if mma.a is DType.F64 else np.uint32
    products, steps = len(vectors.a), vectors.a.shape[-1] // mma.k

    def by_step(codes: Codes) -> Codes:
        return np.moveaxis(codes.reshape(*codes.shape[:2], steps, mma.k), 2, 1)

    bits, of_c = mma.a.storage_bits, mma.accumulator.storage_bits
    a = packed(by_step(vectors.a), places(mma.function, "a"), bits, word)
    b = packed(np.swapaxes(by_step(vectors.b), -1, -2), places(mma.function, "b"), bits, word)
    c = packed(vectors.c, places(mma.function, "c"), of_c, word)
    call = native.mma_f64 if mma.a is DType.F64 else native.mma
    call(opcode.encode(), steps, products, pointer(a), pointer(b), pointer(c))
    return unpacked(c, places(mma.function, "c"), vectors.c, of_c)


def nibbles(mma: Mma) -> Vectors:
    draw = Draw(3)
    a, b = (draw.below(16, 4, rows, mma.k).astype(np.uint8) for rows in (mma.m, mma.n))
    return Vectors(mma, a, b, draw.below(2**32, 4, mma.m, mma.n).astype(np.uint32), ("any bits",) * 4)


def whole_numbers(mma: Mma | Wgmma) -> Vectors:
    """Whose sums need no rounding, with few zeros; then some that do, as C has other bits."""
    draw = Draw(5)

    def codes(dtype: DType, most: int, *shape: int) -> Codes:
        values = draw.below(2 * most + 1, *shape).astype(np.int64) - most
        return dtype.encode(values.astype(np.float64)).view(dtype.bits)

    products = 6
    a, b = (codes(mma.a, 4, products, mma.m, mma.k), codes(mma.b, 2, products, mma.n, mma.k))
    c = codes(mma.accumulator, 64, products, mma.m, mma.n)
    c[3:] = draw.floats(mma.accumulator, Span(-8, 12), products - 3, mma.m, mma.n)
    c[0] = c.dtype.type(1 << (mma.accumulator.storage_bits - 1))  # -0
    a[0] = draw.among(a[0], [0], 0.9)
    return Vectors(mma, a, b, c, ("whole",) * products)


def greatest(mma: Mma | Wgmma) -> Vectors:
    """Sums that need more than 31 bits of the unit at which terms are cut: all bits are set, but C's some."""
    draw, one = Draw(7), 2 ** (mma.a.precision - 1) - 1
    exponent = (1 - mma.a.min_exponent) << (mma.a.precision - 1)
    a = np.full((4, mma.m, mma.k), exponent | one, mma.a.bits)
    b = np.full((4, mma.n, mma.k), (2 - mma.b.min_exponent << (mma.b.precision - 1)) - 1, mma.b.bits)
    a[2:] |= a.dtype.type(1 << (mma.a.storage_bits - 1))
    a[3] = draw.among(a[3], [exponent], 0.1)
    return Vectors(mma, a, b, draw.floats(mma.accumulator, Span(1, 5), 4, mma.m, mma.n), ("greatest",) * 4)


def vectors_of(mma: Mma | Wgmma) -> Iterator[Vectors]:
    if isinstance(mma, Mma) and mma.a.storage_bits < 8:
        yield nibbles(mma)
        return
    yield from drawn(mma, 1)
    if not mma.accumulator.is_integer and mma.a is not DType.F64:
        yield from (whole_numbers(mma), greatest(mma))


def of_arch(arch: str) -> Iterator[tuple[str, Mma]]:
    """Those that no architecture before it sums alike."""
    names = list(ARCHS)
    for opcode, mma in instructions(ARCHS[arch]).items():
        if not isinstance(mma, Mma) or opcode.startswith("wmma"):
            continue
        before = (ARCHS[name] for name in names[: names.index(arch)])
        if mma.sums_on(ARCHS[arch]) not in [mma.sums_on(one) for one in before if mma.is_native(one)]:
            yield opcode, mma


def expected(vectors: Vectors, arch: str) -> Codes:
    return dot(vectors.mma, ARCHS[arch], vectors.a[:, :, None, :], vectors.b[:, None, :, :], vectors.c)


@pytest.mark.parametrize(
    ("arch", "opcode", "mma"),
    [pytest.param(arch, opcode, mma, id=f"{arch}-{mma.function}") for arch in ARCHS for opcode, mma in of_arch(arch)],
)
def test_a_warps_products_are_those_of_the_model(arch: str, opcode: str, mma: Mma, native: ctypes.CDLL) -> None:
    use(native, arch)
    for vectors in vectors_of(mma):
        with np.errstate(all="ignore"):
            wanted = expected(vectors, arch)
        for _ in range(2):  # with fragments that are new, and others that are known
            found = multiplied(native, opcode, mma, vectors)
            agreement = compare(vectors, wanted, found)
            assert not agreement.differing, agreement


def test_integers_saturate_where_that_is_asked(native: ctypes.CDLL) -> None:
    use(native, "sm_90")
    mma = MMAS["mma_m16n8k32_s8"]
    opcode = mma.ptx.replace("row.col", "row.col.satfinite")
    vectors = next(vectors_of(mma))
    ends = np.where(vectors.c % 2 == 0, 2**31 - 1, 2**31).astype(np.uint32)
    vectors = Vectors(mma, vectors.a, vectors.b, np.where(vectors.c % 3 == 0, vectors.c, ends), vectors.kinds)
    a, b = (codes.view(np.int8).astype(np.int64) for codes in (vectors.a, vectors.b))
    exact = np.einsum("pmk,pnk->pmn", a, b) + vectors.c.view(np.int32)
    wanted = np.clip(exact, -(2**31), 2**31 - 1)
    assert (wanted != exact).any()
    np.testing.assert_array_equal(multiplied(native, opcode, mma, vectors).view(np.int32), wanted)


def test_what_is_not_in_the_table_is_not_found(native: ctypes.CDLL) -> None:
    use(native, "sm_90")
    assert native.has(b"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
    assert native.has(b"wgmma.mma_async.sync.aligned.m64n96k32.s32.u8.s8.satfinite")
    assert native.has(b"wmma.mma.sync.aligned.col.row.m16n16k16.f32.f32")
    for opcode in (
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",  # ptxas makes f16's of it
        "mma.sync.aligned.m16n8k16.row.col.satfinite.f32.bf16.bf16.f32",
        "mma.sync.aligned.m16n8k16.row.row.f32.bf16.bf16.f32",
        "mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e4m3.e4m3.f32",
        "wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16",
        "",
        "mma",
    ):
        assert not native.has(opcode.encode())
    assert native.use_table(b"mma.m16n8k16 16 8 16 bf16 bf16 f32 16 25\n") == 0
    assert native.use_table(b"mma.m16n8k16 16 8 16 bf16 bf17 f32 16 25 23\n") == 0


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("wmma", list(WMMAS.values())[::3], ids=lambda wmma: wmma.function)
def test_a_wmma_multiplies_whole_fragments(arch: str, wmma: Wmma, native: ctypes.CDLL) -> None:
    half = wmma.half
    use(native, arch)
    assert native.has(wmma.ptx.encode()) == half.is_native(ARCHS[arch])
    if not half.is_native(ARCHS[arch]):
        return
    draw = Draw(2)
    a, b = (draw.floats(half.a, Span(-4, 3), 16, 16) for _ in range(2))
    c = draw.floats(half.accumulator, Span(-2, 5), 16, 16)
    where = []
    for which in range(3):
        rows, columns = np.empty((8, WARP), np.uint32), np.empty((8, WARP), np.uint32)
        native.wmma_places(which, pointer(rows), pointer(columns))
        assert len(set(zip(rows.flat, columns.flat, strict=True))) == 256
        where.append((rows.astype(np.int64), columns.astype(np.int64)))
    (a_places, b_places), c_places = ([(x.reshape(4, 2, WARP), y.reshape(4, 2, WARP)) for x, y in where[:2]], where[2])
    words = packed(a, a_places, 16, np.uint32), packed(b.T, b_places, 16, np.uint32)
    sums = np.ascontiguousarray(c[c_places])
    native.wmma(wmma.ptx.encode(), *map(pointer, words), pointer(sums))
    found = np.empty_like(c)
    found[c_places] = sums
    np.testing.assert_array_equal(found, dot(half, ARCHS[arch], a[:, None, :], b[None, :, :], c))


SPANS = {0: 0, 128: 1, 64: 2, 32: 3}  # of swizzled lines in bytes, as descriptors have them
START = {"a": 4096, "b": 65536}


@dataclass(frozen=True)
class Placed:
    """Where chunks of 16 bytes lie: lines of `span` bytes, eight of which are a pattern.

    beside  bytes from a pattern to the next one along a line
    below   bytes to the next eight lines
    """

    start: int
    span: int
    beside: int
    below: int
    swizzles: bool

    def address(self, line: int, at: int) -> int:
        pattern = self.start + line // 8 * self.below + at // self.span * self.beside
        found = pattern + line % 8 * self.span + at % self.span
        return found ^ (found >> 7) % (self.span // 16) * 16 if self.swizzles else found

    def descriptor(self, transposed: bool) -> int:
        """The two offsets change places for an operand that is MN-major and not swizzled."""
        leading, stride = self.beside, self.below
        if transposed and not self.swizzles:
            leading, stride = stride, leading
        swizzle = SPANS[self.span if self.swizzles else 0]
        return self.start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | swizzle << 62


def put(shared: npt.NDArray[np.uint8], side: str, codes: Codes, swizzle: int, transposed: bool) -> int:
    """Writes a K-major (lines, k), or for `transposed` that MN-major, into shared memory; the descriptor."""
    lines = np.ascontiguousarray(codes.T if transposed else codes)
    lines = lines.view(np.uint8).reshape(len(lines), -1)
    span = swizzle or 16
    beside = 8 * span  # the next pattern along a line
    below = beside * -(-lines.shape[1] // span)
    placed = Placed(START[side], span, beside, below, swizzle > 0)
    for line, data in enumerate(lines):
        for at in range(0, len(data), 16):
            address = placed.address(line, at)
            shared[address : address + 16] = data[at : at + 16]
    return placed.descriptor(transposed)


def places_of_sums(native: ctypes.CDLL, wgmma: Wgmma) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows and columns by warp, register, part and lane: the interpreter's are those of the record."""
    shape = (WARPS, wgmma.c_registers, wgmma.c_shared, WARP)
    rows, columns = np.empty(shape, np.int64), np.empty(shape, np.int64)
    for index in np.ndindex(shape):
        warp, r, part, lane = index
        thread = WARP * warp + lane
        rows[index], columns[index] = wgmma.c_place(thread, r, part)
        assert native.wgmma_place(thread, r * wgmma.c_shared + part) == rows[index] << 16 | columns[index]
    return rows, columns


def warpgroup(
    native: ctypes.CDLL,
    wgmma: Wgmma,
    vectors: tuple[Codes, Codes, Codes],
    swizzles: tuple[int, int] = (128, 128),
    *,
    scale_d: bool = True,
    negated: tuple[bool, bool] = (False, False),
) -> Codes:
    a, b, c = vectors
    shared = np.zeros(2**18, np.uint8)
    registers, of_a = None, 0
    bits = wgmma.a.storage_bits
    if wgmma.registers:
        one = next(mma for mma in MMAS.values() if (mma.m, mma.k, mma.a.storage_bits) == (16, wgmma.k, bits))
        registers = pointer(packed(a.reshape(WARPS, 16, wgmma.k), places(one.function, "a"), bits, np.uint32))
    else:
        of_a = put(shared, "a", a, swizzles[0], wgmma.trans_a)
    of_b = put(shared, "b", b, swizzles[1], wgmma.trans_b)
    rows, columns = places_of_sums(native, wgmma)
    of_c = wgmma.accumulator.storage_bits
    sums = packed(c, (rows, columns), of_c, np.uint32)
    flags = wgmma.trans_a | wgmma.trans_b << 1 | negated[0] << 2 | negated[1] << 3
    descriptors = ctypes.c_uint64(of_a), registers, ctypes.c_uint64(of_b)
    native.wgmma(wgmma.ptx.encode(), flags, pointer(shared), *descriptors, scale_d, pointer(sums))
    made = np.empty_like(c)
    for part in range(wgmma.c_shared):
        made[rows[:, :, part], columns[:, :, part]] = sums >> np.uint32(of_c * part) & np.uint32(2**of_c - 1)
    return made


@pytest.mark.parametrize("wgmma", [one for one in TRIED if isinstance(one, Wgmma)], ids=lambda one: one.function)
def test_a_warpgroups_products_are_those_of_the_model(wgmma: Wgmma, native: ctypes.CDLL) -> None:
    use(native, "sm_90")
    for vectors in vectors_of(wgmma):
        if vectors.a.shape[-1] > wgmma.k:
            continue
        with np.errstate(all="ignore"):
            wanted = expected(vectors, "sm_90")
        for i, wanted_one in enumerate(wanted):
            found = warpgroup(native, wgmma, (vectors.a[i], vectors.b[i], vectors.c[i]), (32, 32))
            np.testing.assert_array_equal(found, wanted_one, err_msg=vectors.kinds[i])


@pytest.mark.parametrize("swizzle", SPANS)
@pytest.mark.parametrize(
    "wgmma",
    [
        Wgmma(256, DType.BF16, DType.BF16, DType.F32),
        Wgmma(64, DType.F16, DType.F16, DType.F16, trans_a=True, trans_b=True),
        Wgmma(72, DType.BF16, DType.BF16, DType.F32, registers=True),
        Wgmma(128, DType.F16, DType.F16, DType.F32, trans_b=True, registers=True),
        Wgmma(40, DType.F32, DType.F32, DType.F32),
        Wgmma(48, DType.E4M3, DType.E5M2, DType.F16, registers=True),
        Wgmma(96, DType.S8, DType.U8, DType.S32),
        Wgmma(32, DType.U8, DType.S8, DType.S32, registers=True),
    ],
    ids=lambda one: one.function,
)
def test_operands_of_a_warpgroup_lie_where_descriptors_say(wgmma: Wgmma, swizzle: int, native: ctypes.CDLL) -> None:
    use(native, "sm_90")
    draw = Draw(4)

    def codes(dtype: DType, *shape: int) -> Codes:
        return draw.bits(dtype, *shape) if dtype.is_integer else draw.floats(dtype, Span(-4, 2), *shape)

    a, b = codes(wgmma.a, wgmma.m, wgmma.k), codes(wgmma.b, wgmma.n, wgmma.k)
    c = codes(wgmma.accumulator, wgmma.m, wgmma.n)
    assert wgmma.k * wgmma.a.storage_bits == K_BYTES * 8
    if wgmma.trans_b and wgmma.n * 2 % (swizzle or 16):
        pytest.skip("columns fill no span")

    def model(a: Codes, c: Codes) -> Codes:
        return dot(wgmma, ARCHS["sm_90"], a[:, None, :], b[None, :, :], c)

    found = warpgroup(native, wgmma, (a, b, c), (swizzle, swizzle))
    np.testing.assert_array_equal(found, model(a, c))
    found = warpgroup(native, wgmma, (a, b, c), (swizzle, swizzle), scale_d=False)
    np.testing.assert_array_equal(found, model(a, np.zeros_like(c)))
    if wgmma.is_integer:
        return
    minus = a ^ a.dtype.type(1 << (wgmma.a.storage_bits - 1))
    for negated in ((True, False), (False, True), (True, True)):
        found = warpgroup(native, wgmma, (a, b, c), (swizzle, swizzle), negated=negated)
        np.testing.assert_array_equal(found, model(a if all(negated) else minus, c))
