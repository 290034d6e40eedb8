"""wgmma of every type and layout in the emulator: tiles that threads store, against the model of the tensor core."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from gemmgen.kernel.contract import Contract
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import parse_arch
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.mma import MMAS, Mma, Sums
from gemmgen.problem.types import Types
from gemmgen.problem.wgmma import Wgmma
from gemmgen.render.kernel_text import environment
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.executor import Operands
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store
from gemmgen.verification.tensor_core import dot

N = 32
PROBLEM = Problem(64, N, 128, layout="rc", types=Types.parse("u8,u8,s32"))  # bytes, whatever they stand for
BF16, F16, F32, S32 = DType.BF16, DType.F16, DType.F32, DType.S32


@dataclass(frozen=True)
class Product:
    """A wgmma of tiles whose lines of `swizzle` bytes are permuted (0: none)."""

    one: Wgmma
    swizzle: int = 128


PRODUCTS = {
    "bf16": Product(Wgmma(N, BF16, BF16, F32)),
    "f16": Product(Wgmma(N, F16, F16, F32), 64),
    "f16 sums": Product(Wgmma(N, F16, F16, F16), 32),
    "tf32": Product(Wgmma(N, F32, F32, F32), 0),
    "e4m3 e5m2": Product(Wgmma(N, DType.E4M3, DType.E5M2, F32)),
    "e5m2 f16 sums": Product(Wgmma(N, DType.E5M2, DType.E5M2, F16), 0),
    "s8 u8": Product(Wgmma(N, DType.S8, DType.U8, S32), 64),
    "bf16 B by columns": Product(Wgmma(N, BF16, BF16, F32, trans_b=True), 64),
    "bf16 both by lines": Product(Wgmma(N, BF16, BF16, F32, trans_a=True, trans_b=True), 32),
    "bf16 both unswizzled": Product(Wgmma(N, BF16, BF16, F32, trans_a=True, trans_b=True), 0),
    "bf16 A by lines": Product(Wgmma(N, BF16, BF16, F32, trans_a=True)),
    "bf16 A in registers": Product(Wgmma(N, BF16, BF16, F32, registers=True, trans_b=True)),
    "tf32 A in registers": Product(Wgmma(N, F32, F32, F32, registers=True), 64),
    "u8 A in registers": Product(Wgmma(N, DType.U8, DType.S8, S32, registers=True), 0),
}

TEXT = (Path(__file__).parents[1] / "kernels" / "wgmma_types.cu").read_text()


def kernel_source() -> KernelSource:
    products = list(PRODUCTS.values())
    instructions = list(dict.fromkeys(product.one for product in products))
    text = environment(PROBLEM.types).from_string(TEXT).render(products=products, instructions=instructions)
    launch = Launch(128, (("M", 64),), 16384)
    return KernelSource("k", text, "test", {}, Contract.of(PROBLEM, launch))


@pytest.fixture(scope="module")
def emulator(shared_store: Store) -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor(shared_store) as executor:
        yield executor


Codes = npt.NDArray[np.unsignedinteger[object]]


def expected(one: Wgmma, a: Codes, b: Codes, c: Codes) -> Codes:
    """By the model, of mma.sync with the sums of wgmma: `a` and `b` by rows of 32 bytes, `c` 64 x N."""
    known = [mma for mma in MMAS.values() if (mma.a, mma.b, mma.accumulator) == (one.a, one.b, one.accumulator)]
    sums: dict[int, Sums | None] = {90: one.sums}
    mma = known[0] if known else MMAS["mma_m16n8k32_e4m3"]
    same = Mma(mma.m, mma.n, one.k, one.a, one.b, one.accumulator, sums)
    return dot(same, parse_arch("sm_90"), *np.broadcast_arrays(a[:, None], b[None, :]), c)


@dataclass(frozen=True)
class Tiles:
    """What the product of `name` multiplies, and what a thread finds where."""

    name: str
    given: Operands
    wanted: Codes  # by row and column
    threads: Codes
    elements: Codes  # of a thread
    rows: Codes
    columns: Codes

    @property
    def number(self) -> int:
        return list(PRODUCTS).index(self.name) + 1

    def sums(self, after: Codes) -> Codes:
        """By row and column, of what the kernel left."""
        found = np.empty_like(self.wanted)
        bits = PRODUCTS[self.name].one.accumulator.bits
        found[self.rows, self.columns] = after.view(bits).reshape(128, -1)[self.threads, self.elements]
        return found


def tiles(name: str) -> Tiles:
    one, random = PRODUCTS[name].one, np.random.default_rng(len(name))
    bytes_a, bytes_b = (random.integers(0, 256, (lines, 128), np.uint8) for lines in (64, N))
    if not one.is_integer:  # no Inf, no NaN, and exponents that are close
        bytes_a, bytes_b = (_tame(one.a, bytes_a), _tame(one.b, bytes_b))
    a, b = (np.ascontiguousarray(some[:, :32]).view(dtype.bits) for some, dtype in ((bytes_a, one.a), (bytes_b, one.b)))
    c = one.accumulator.encode(random.integers(-9, 9, (64, N))).view(one.accumulator.bits)
    held = np.zeros((128, 16), np.uint32)
    places = [(t, r, part) for t in range(128) for r in range(one.c_registers) for part in range(one.c_shared)]
    rows, columns = np.array([one.c_place(*place) for place in places]).T
    threads, registers, parts = np.array(places).T
    elements = registers * one.c_shared + parts
    held.view(one.accumulator.bits)[threads, elements] = c[rows, columns]
    given = Operands(bytes_a.ravel(), bytes_b.ravel(), held.ravel().view(np.int32))
    return Tiles(name, given, expected(one, a, b, c), threads, elements, rows, columns)


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_of_each_type_has_the_bits_of_the_model(name: str, emulator: EmulatorExecutor) -> None:
    some, kernel = tiles(name), emulator.load(kernel_source())
    for seed in (0, 4):  # computed late, and early
        after = kernel.run(PROBLEM.case(alpha=some.number, beta=1), some.given, seed=seed)
        np.testing.assert_array_equal(some.sums(after), some.wanted)
    kernel.close()


LINE, CHUNK = 2, 3  # values of beta: line 5 of both tiles is not written, or a half of it


@pytest.mark.parametrize("name", ["bf16", "tf32", "s8 u8"])
def test_a_line_that_nothing_wrote_spoils_its_own_sums_and_a_part_of_one_is_refused(
    name: str, emulator: EmulatorExecutor
) -> None:
    source, loop = kernel_source(), "  // 32 bytes of k\n"
    assert loop in source.text
    left_out = f"            if (!(beta == {LINE} && i / 2 == 5) && !(beta == {CHUNK} && i == 11))\n"
    some, kernel = tiles(name), emulator.load(replace(source, text=source.text.replace(loop, loop + left_out)))
    found = some.sums(kernel.run(PROBLEM.case(alpha=some.number, beta=LINE), some.given, seed=4))
    spoilt = np.zeros(found.shape, bool)
    spoilt[5], spoilt[:, 5] = True, True
    np.testing.assert_array_equal(found[~spoilt], some.wanted[~spoilt])
    if PRODUCTS[name].one.is_integer:
        assert not np.array_equal(found[spoilt], some.wanted[spoilt])
    else:
        assert np.isnan(found.view(np.float32)[spoilt]).all()
    with pytest.raises(CandidateFailed, match=r"reads byte .* of dynamic shared memory .* which no thread has written"):
        kernel.run(PROBLEM.case(alpha=some.number, beta=CHUNK), some.given, seed=4)
    kernel.close()


def _tame(dtype: DType, some: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    values = np.random.default_rng(int(some[0, 0])).normal(size=some.size * 8 // dtype.storage_bits)
    return dtype.encode(values).view(np.uint8).reshape(some.shape)


def test_registers_of_a_may_be_read_before_the_wait(emulator: EmulatorExecutor) -> None:
    source, name = kernel_source(), "bf16 A in registers"
    number = list(PRODUCTS).index(name) + 1
    start = source.text.index(f"if (alpha == {number})")
    body = source.text[start:].replace("wgmma_wait<0>();", "assert(a[1] != 1); wgmma_wait<0>();", 1)
    kernel = emulator.load(replace(source, text=source.text[:start] + body))
    given = Operands(*(np.full(matrix.elements, 64, matrix.dtype.numpy) for matrix in PROBLEM.case().matrices))
    kernel.run(PROBLEM.case(alpha=number, beta=1), given)
    kernel.close()
