"""What hand edits use of CUDA beside what gemmgen renders: it runs, and what is wrong about its use is found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from gemmgen.families import NAIVE
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.executor import Operands
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store
from gemmgen.verification.verifier import verify

PROBLEM = Problem(16, 16, None)
SOURCE = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
DYNAMIC_BYTES = 128

FILE_SCOPE = """
__constant__ float ones[2] = {1.0f, 1.0f};
__device__ int seen[2];
static __device__ unsigned long long most;
extern __shared__ __align__(16) float whole[];

// The value, which the compiler does not know.
template <typename T>
__device__ T some(T value)
{
    volatile T kept = value;
    return kept;
}

// As __ldg, which the compiler may move before a store.
__device__ float load_constant(const float* from)
{
    float value;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(value) : "l"(from) : "memory");
    return value;
}

// The address, of which the compiler does not know what it is a multiple of.
__device__ float4* as_vector(float* address) { return reinterpret_cast<float4*>(some(address)); }
"""

# Every line holds for each of a block's threads, which come in whole warps.
RIGHT = """
    static __shared__ int count, bits, flag, smallest;
    extern __shared__ int words[];
    const int t = threadIdx.x, threads = blockDim.x;
    __builtin_assume(threads % 32 == 0);
    assert(__builtin_expect(__clz(some(1 << 4)), 27) == 27 && __clz(some(0)) == 32 && __clzll(some(1ll)) == 63);
    assert(__popc(some(7u)) == 3 && __popcll(some(7ull << 40)) == 3 && __ffs(some(8)) == 4 && __ffs(some(0)) == 0);
    assert(__umulhi(some(1u << 31), 4u) == 2u && __mulhi(some(-1), 1) == -1 && __brev(some(1u)) == 1u << 31);
    assert(__syncthreads_count(t < 5) == 5 && __syncthreads_or(t == 3) == 1 && __syncthreads_or(0) == 0);
    assert(__syncthreads_and(t >= 0) == 1 && __syncthreads_and(t != 3) == 0);
    assert(__ballot_sync(~0u, t % 32 < 2) == 3u && __any_sync(~0u, t % 32 == 9) && !__all_sync(~0u, t % 32 == 9));
    assert(__shfl_sync(~0u, t % 32, 7) == 7 && __shfl_xor_sync(~0u, t % 32, 1) == (t % 32 ^ 1));
    assert(__shfl_up_sync(~0u, t % 32, 1) == max(t % 32 - 1, 0));
    assert(__shfl_down_sync(~0u, t % 32, 1) == min(t % 32 + 1, 31));
    assert(__reduce_add_sync(~0u, t % 32) == 496 && __reduce_max_sync(~0u, t % 32) == 31);
    assert(__brevll(some(1ull)) == 1ull << 63 && __funnelshift_l(some(1u << 31), 1, 1) == 3);
    assert(__funnelshift_r(some(0u), 1, 1) == 1u << 31 && __saturatef(some(3.0f)) == 1.0f);
    assert(isnan(some(0.0f) / 0.0f) && !isinf(some(1.0f)) && abs(some(-2)) == 2 && abs(some(-0.5f)) == 0.5f);
    const float one = some(1.0f), nan = some(0.0f) / 0.0f, far = some(3e9f);
    assert(max(nan, one) == 1.0f && max(one, nan) == 1.0f && min(nan, 1.0) == 1.0 && fmaxf(nan, 2.0f) == 2.0f);
    assert(__float2int_rz(far) == 2147483647 && __float2int_rz(-far) == -2147483647 - 1 && __float2int_rz(nan) == 0);
    assert(__float2int_rn(some(2.5f)) == 2 && __float2int_ru(some(2.1f)) == 3 && __float2int_rd(some(-2.1f)) == -3);
    assert(__float2uint_rz(-far) == 0u && __float2uint_rz(2 * far) == ~0u);
    assert(__double2ll_rn(some(1e30)) == ~(1ll << 63) && __double2ull_rz(some(1e30)) == ~0ull);
    assert(__double2uint_rn(some(4294967295.0)) == ~0u);
    const float third = one / 3, least = 0x1p-23f, tiny = some(0x1p-60f);
    assert(third == 1.0f / 3.0f && __fmaf_rz(third, one, tiny) == third && __fmaf_ru(third, one, tiny) > third);
    assert(__fadd_rz(one, 0.75f * least) == 1.0f && __fadd_ru(one, tiny) == 1.0f + least);
    assert(__fadd_rd(-one, -tiny) == -1.0f - least && __fsub_rz(one, tiny) == 1.0f - 0.5f * least);
    assert(__fmul_rz(-third, third) > __fmul_rd(-third, third) && __fmul_ru(third, third) > __fmul_rz(third, third));
    const unsigned bytes = some(0x01FF7F80u), halves = some(0xFFFF0001u);
    assert(__vadd4(bytes, 0x01010101u) == 0x02008081u && __vaddss4(bytes, 0x01010101u) == 0x02007F81u);
    assert(__vsubus4(some(0x00020304u), 0x01010101u) == 0x00010203u && __vmaxs2(halves, 2u) == 0x00000002u);
    assert(__vminu2(halves, 2u) == 1u && __vcmpeq4(some(0x0102u), 0x0103u) == 0xFFFFFF00u);
    assert(__vneg4(some(1u)) == 0xFFu && __hiloint2double(__double2hiint(some(2.5)), 0) == 2.5);
    assert(__match_any_sync(~0u, t % 2) == (t % 2 ? 0xAAAAAAAAu : 0x55555555u));
    const unsigned quarter = 0xffu << t % 32 / 8 * 8;  // whose lanes meet apart from the others
    __syncwarp(quarter);
    assert(__shfl_sync(quarter, t, 0, 8) == t / 8 * 8 && __ballot_sync(quarter, t % 8 < 3) == (quarter & 0x07070707u));
    int all = 0;
    assert(__match_all_sync(~0u, some(7), &all) == ~0u && all == 1);
    const long long start = clock64();
    assert(clock64() > start);
    const dim3 whole_grid = gridDim, tile(4, 2);
    assert(whole_grid.x == gridDim.x && tile.z == 1);
    if (t == 0) count = bits = flag = 0, smallest = 1 << 30, words[0] = 5, whole[1] = ones[1];
    __syncthreads();
    atomicAdd(&count, 2);
    atomicSub_block(&count, 1);
    atomicOr(&bits, 1 << t % 8);
    atomicMin(&smallest, t - 7);
    atomicCAS(&flag, 0, t + 1);
    __syncthreads();
    assert(count == threads && bits == 255 && smallest == -7 && flag != 0 && words[0] == 5 && whole[1] == 1.0f);
    __syncthreads();
    if (t == 0) assert(atomicExch(&bits, 9) == 255 && atomicAnd(&bits, 8) == 9 && atomicXor(&bits, 1) == 8);
    atomicAdd(&seen[1], 1);
    atomicMax(&most, 3ull);
"""


@pytest.fixture
def emulator(shared_store: Store) -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor(shared_store) as executor:
        yield executor


def edited(body: str) -> KernelSource:
    """The naive kernel with FILE_SCOPE before it and `body` first in it."""
    before, kernel, rest = SOURCE.text.partition('extern "C" __global__')
    signature, brace, rest = rest.partition("\n{\n")
    text = f"{before}{FILE_SCOPE}{kernel}{signature}{brace}{body}{rest}"
    return replace(SOURCE, text=text).promising(launch=replace(SOURCE.launch, shared_bytes=DYNAMIC_BYTES))


def test_the_usual_functions_work(emulator: EmulatorExecutor) -> None:
    verdict = verify(emulator, edited(RIGHT), examples=4, shrink=False)
    assert verdict.passed, verdict.failure


# By K, so that one build has them all.
WRONG = {
    1: (
        "__shared__ int sum; if (threadIdx.x == 0) sum = 0; __syncthreads(); atomicAdd(&sum, 1); if (sum < 0) return;",
        "race: data race on shared memory: .* (updates|reads) byte 0 of sum",
    ),
    2: ("seen[0] = int(threadIdx.x);", "race: data race on seen"),
    3: (
        "if (threadIdx.x >= 16) __syncthreads(); else if (__syncthreads_or(1) == 0) return;",
        "crash: barrier divergence in block 0: .* wait at the __syncthreads",
    ),
    4: ("atomicExch(whole + 32, 1.0f);", "crash: .* updates 0 bytes after the end of dynamic shared memory"),
    5: (
        "__shared__ float row[8]; if (threadIdx.x == 0) *as_vector(row) = make_float4(0, 0, 0, 0);",
        r"crash: .* writes 16 bytes at a misaligned address, which 16 does not divide \(byte 0 of row\)",
    ),
    6: (
        "__shared__ __align__(8) float row8[8]; if (threadIdx.x == 0) *as_vector(row8) = make_float4(0, 0, 0, 0);",
        r"crash: .* writes 16 bytes at a misaligned address, which 16 does not divide \(byte 0 of row8\)",
    ),
    7: (
        "if (threadIdx.x == 0) C[0] = 1.0f; __syncthreads(); if (load_constant(C) == 2.0f) return;",
        "race: .* __ldg reads byte 0 of C, which the same launch wrote",
    ),
}
ALIGNED = """
    __shared__ __align__(16) float row[8], one;
    __shared__ double pair[2];
    if (threadIdx.x == 0) {
        *as_vector(row + 4) = make_float4(0, 0, 0, 0);
        one = 0;
        *some(pair + 1) = row[7] + one;
    }
"""


GROUPS_HEADER = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
"""
GROUPS = """
    const cg::thread_block block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<8>(block);
    __shared__ int seen[1024];
    const int t = block.thread_rank();
    seen[t] = t;
    block.sync();
    assert(seen[block.size() - 1 - t] == int(block.size()) - 1 - t);
    assert(tile.thread_rank() == unsigned(t % 8) && tile.size() == 8 && tile.meta_group_rank() == unsigned(t / 8));
    assert(tile.shfl(t, 0) == t / 8 * 8 && tile.shfl_xor(t, 1) == (t ^ 1) && tile.shfl_down(t, 7) <= t + 7);
    assert(tile.ballot(t % 8 < 3) == 7u && tile.any(t % 8 == 1) && !tile.all(t % 8 == 1));
    cg::sync(tile);
    if (t % 32 < 20) assert((__activemask() & ~0xfffffu) == 0 && (__activemask() >> t % 32 & 1) == 1);
    else assert((__activemask() & 0xfffffu) == 0 && (__activemask() >> t % 32 & 1) == 1);
"""


HALVES_HEADERS = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
"""
HALVES = """
    const __half h = __float2half(some(0.1f)), sum = __hfma(h, __half(3.0f), __half(1.0f));
    assert(__half_as_ushort(h) == 0x2e66 && __half_as_ushort(sum) == 0x3d33);
    assert(__half2float(__half(some(2.5f))) == 2.5f);
    const __nv_bfloat16 b = __float2bfloat16(some(1.01171875f));
    assert(__bfloat162float(__float2bfloat16_rz(some(1.01171875f))) == 1.0078125f);
    assert(__half2float(__float2half_rz(some(-1.99999f))) == -1.9990234f);
    assert(__bfloat162float(b) == 1.015625f && __bfloat162float(b * __nv_bfloat16(2.0f)) == 2.03125f);
    const float2 both = __half22float2(__hadd2(__floats2half2_rn(some(1.0f), 2.0f), __halves2half2(h, h)));
    assert(both.x > 1.0f && both.y > 2.0f);
"""
# All that NVRTC compiles to vabsdiff4.
DIFFERENCES = """
    assert(__vabsdiffu4(some(3u), 5u) == 2u && __vabsdiffu4(some(0x05FF0003u), 0x03000100u) == 0x02FF0103u);
    assert(__vabs4(some(0x7F80FFu)) == 0x7F8001u && __vsadu4(some(0x05FF0003u), 0x03000100u) == 2 + 255 + 1 + 3);
"""


@pytest.mark.parametrize(
    ("header", "body"),
    [(GROUPS_HEADER, GROUPS), (HALVES_HEADERS, HALVES), ("", DIFFERENCES)],
    ids=["cooperative groups", "halves", "differences of bytes"],
)
def test_what_headers_of_cuda_have_works(header: str, body: str, emulator: EmulatorExecutor) -> None:
    source = edited(body)
    verdict = verify(emulator, replace(source, text=header + source.text), examples=3, shrink=False)
    assert verdict.passed, verdict.failure


def test_arrays_are_aligned_as_they_are_declared(emulator: EmulatorExecutor) -> None:
    verdict = verify(emulator, edited(ALIGNED), examples=2, shrink=False)
    assert verdict.passed, verdict.failure


def test_a_wrong_use_is_found(emulator: EmulatorExecutor) -> None:
    loaded = emulator.load(edited("".join(f"    if (K == {k}) {{ {body} }}\n" for k, (body, _) in WRONG.items())))
    for k, (_, words) in WRONG.items():
        case = PROBLEM.case(k=k)
        operands = Operands(*(np.zeros(matrix.elements, np.float32) for matrix in case.matrices))
        with pytest.raises(CandidateFailed) as caught:
            loaded.run(case, operands)
        said = f"{caught.value.failure.kind}: {caught.value.failure.reason}"
        assert re.match(words, said), said
