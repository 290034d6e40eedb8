"""wgmma of every type and layout in the emulator: tiles that threads store, against the model of the tensor core."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from gemmgen.kernel.render import environment
from gemmgen.kernel.source import KernelSource, Launch, parameters
from gemmgen.problem.device import parse_arch
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.mma import MMAS, Mma, Sums
from gemmgen.problem.types import Types
from gemmgen.problem.wgmma import Wgmma
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.executor import Operands
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
}

# A and B are bytes: 32 of k a row, and rows of 128 bytes. alpha says which product. Threads put chunks of 16 where the
# layouts of the PTX manual have them, and wgmma reads them by descriptors.
TEXT = """
//% from "device/tma.cu" import fence_proxy_async
//% from "device/wgmma.cu" import wgmma
//% from "device/dynamic_shared.cu" import dynamic_shared
${ fence_proxy_async() }
${ dynamic_shared(1024) }
${ wgmma(instructions) }
// Where chunk `chunk` of line `line` lies, of lines of `chunks`; groups of 8 lines lie one behind the other.
__device__ int swizzled(int line, int chunk, int chunks)
{
    const int shift = chunks == 8 ? 0 : chunks == 4 ? 1 : chunks == 2 ? 2 : 3;
    return line * chunks + (chunk ^ (line >> shift & (chunks - 1)));
}
extern "C" __global__ void __launch_bounds__(128, 1)
k(const unsigned char* A, const unsigned char* B, int* C, int alpha, int beta)
{
    uint4* const tile_a = reinterpret_cast<uint4*>(dynamic_shared());
    uint4* const tile_b = tile_a + 512;
    const uint4* const from_a = reinterpret_cast<const uint4*>(A);  // row-major: 8 chunks a row
    const uint4* const from_b = reinterpret_cast<const uint4*>(B);
    const unsigned short* const halves_a = reinterpret_cast<const unsigned short*>(A);
    const unsigned short* const halves_b = reinterpret_cast<const unsigned short*>(B);
    int* const to = C + threadIdx.x * 16;
//% for product in products
//% set one, span = product.one, product.swizzle
//% set chunks = span // 16 if span else 1
    if (alpha == ${ loop.index }) {
//% for name, lines, trans in (("a", 64, one.trans_a), ("b", one.n, one.trans_b))
//% if not trans
        for (int i = threadIdx.x; i < ${ lines * 2 }; i += 128)  // 32 bytes of k
//% if span
            tile_${ name }[swizzled(i / 2, i % 2, ${ chunks })] = from_${ name }[i / 2 * 8 + i % 2];
//% else
            tile_${ name }[i % 2 * ${ lines } + i / 2] = from_${ name }[i / 2 * 8 + i % 2];
//% endif
//% else
        for (int i = threadIdx.x; i < ${ lines * 16 }; i += 128) {  // lines of one k
            const int k = i / ${ lines }, mn = i % ${ lines }, chunk = mn / 8;
            const int beside = chunk / ${ chunks } * ${ 16 * chunks };
            const int at = beside + swizzled(k, chunk % ${ chunks }, ${ chunks });
            reinterpret_cast<unsigned short*>(tile_${ name } + at)[mn % 8] = halves_${ name }[mn * 64 + k];
        }
//% endif
//% endfor
        fence_proxy_async();
        __syncthreads();
        ${ one.c_type } d[${ one.c_registers }] = {};
        for (int i = 0; i < ${ one.c_registers }; ++i) reinterpret_cast<int*>(d)[i] = to[i];
//% for name, lines, trans in (("a", 64, one.trans_a), ("b", one.n, one.trans_b))
//% set leading = (256 * chunks if span else 128) if trans else lines * 16
//% set stride = 128 * chunks if span or not trans else 256
        const unsigned long long ${ name } = make_descriptor<${ span }>(tile_${ name }, ${ leading }, ${ stride });
//% endfor
        wgmma_fence();
        ${ one.function }(d, a, b, true);
        wgmma_commit();
        wgmma_wait<0>();
        for (int i = 0; i < ${ one.c_registers }; ++i) to[i] = reinterpret_cast<int*>(d)[i];
    }
//% endfor
}
"""


def kernel_source() -> KernelSource:
    products = list(PRODUCTS.values())
    instructions = list(dict.fromkeys(product.one for product in products))
    text = environment(PROBLEM.types).from_string(TEXT).render(products=products, instructions=instructions)
    launch = Launch(128, (("M", 64),), 16384)
    return KernelSource("k", text, PROBLEM, "test", {}, launch, parameters(PROBLEM, launch))


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


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_of_each_type_has_the_bits_of_the_model(name: str, emulator: EmulatorExecutor) -> None:
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
    words = held.view(one.accumulator.bits)
    words[threads, registers * one.c_shared + parts] = c[rows, columns]
    kernel = emulator.load(kernel_source())
    number = list(PRODUCTS).index(name) + 1
    given = Operands(bytes_a.ravel(), bytes_b.ravel(), held.ravel().view(np.int32))
    wanted = expected(one, a, b, c)
    for seed in (0, 4):  # computed late, and early
        after = kernel.run(PROBLEM.case(alpha=number, beta=1), given, seed=seed)
        found = after.view(one.accumulator.bits).reshape(128, -1)[threads, registers * one.c_shared + parts]
        np.testing.assert_array_equal(found, wanted[rows, columns])
    kernel.close()


def _tame(dtype: DType, some: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    values = np.random.default_rng(int(some[0, 0])).normal(size=some.size * 8 // dtype.storage_bits)
    return dtype.encode(values).view(np.uint8).reshape(some.shape)
