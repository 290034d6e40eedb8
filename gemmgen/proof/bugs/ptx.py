"""Bugs of inline PTX, as people write it by hand, and of the code around it."""

from __future__ import annotations

from gemmgen.proof.bugs import subjects as on
from gemmgen.proof.bugs.base import (
    DIVERGENCE,
    EARLY,
    MISALIGNED,
    POISON,
    RACE,
    RACE_PARTIALS,
    RACE_SEMAPHORES,
    READS,
    STALE,
    TILES_WRITTEN,
    VALUE,
    Bug,
    Diagnosis,
)

FMA = "acc = fmaf(a, b, acc);"
LOAD_A = "const float a = A[Offset(m) * s.lda + k];"
FRAGMENT = "const Vec<FM> vector = load<FM>(from + i / FM * STEP_M);"
PTX_BUGS = (
    Bug("denormal numbers are flushed by an instruction", "denormal", on.NAIVE_RR, FMA,
        'asm("fma.rn.ftz.f32 %0, %1, %2, %0;" : "+f"(acc) : "f"(a), "f"(b));', (VALUE,)),
    Bug("a load by instruction, of the next row", "swapped index", on.NAIVE_RR, LOAD_A,
        'float a; asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(a) : "l"(A + Offset(m + 1) * s.lda + k));',
        (READS, VALUE, POISON)),
    Bug("a load whose predicate is one off", "guard", on.NAIVE_RR, FMA,
        f'{FMA} asm volatile("{{.reg .pred p; setp.le.s32 p, %2, %3; @p ld.global.f32 %0, [%1];}}"'
        ' : "+f"(alpha) : "l"(A + Offset(m) * s.lda + s.K), "r"(s.K - k), "r"(1));', (READS, VALUE, POISON)),
    Bug("an index of 32 bits by mad.lo", "extent", on.NAIVE_RR, LOAD_A,
        'int at; asm("mad.lo.s32 %0, %1, %2, %3;" : "=r"(at) : "r"(m), "r"(s.lda), "r"(k)); const float a = A[at];',
        (READS, VALUE, POISON)),
    Bug("C is read by ld.global.nc where beta = 0", "beta = 0", on.NAIVE_BATCH, "float acc = 0.0f;",
        'float old = 0.0f; asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(old) : "l"(C + Offset(m) * s.ldc + n)); '
        "float acc = 0.0f;", (READS,)),
    Bug("cp.async is waited for behind the barrier", "wait count", on.ASYNC,
        "cp_async_wait<STAGES - 2>(); __syncthreads();",
        '__syncthreads(); asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");', (RACE, *STALE)),
    Bug("cp.async of fewer bytes than a vector", "missing product", on.ASYNC,
        "cp_async<4 * VA>(&shared[at.k][at.mn], from + offset_a(step, s), bytes);",
        'asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"((unsigned)__cvta_generic_to_shared('
        '&shared[at.k][at.mn])), "l"(from + offset_a(step, s)), "r"(i % 2 ? 0 : bytes) : "memory");', (VALUE,)),
    Bug("bar.sync of a warp in place of the block", "arrivals", on.ASYNC, "__syncthreads();",
        'asm volatile("bar.sync 1, 32;");', (Diagnosis("crash", "comes to barrier 1"), DIVERGENCE, *EARLY)),
    Bug("lanes come to bar.sync from two lines", "divergence", on.ASYNC, "__syncthreads();",
        'if (threadIdx.x % 2) asm volatile("bar.sync 1;" ::: "memory"); else asm volatile("bar.sync 1;" ::: '
        '"memory");', (DIVERGENCE,)),
    Bug("ld.shared.v4 from the next float", "misaligned", on.DOUBLE_VECTORS, FRAGMENT,
        'Vec<FM> vector; asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4+4];" : "=f"(vector.at[0]),'
        ' "=f"(vector.at[1]), "=f"(vector.at[2]), "=f"(vector.at[3])'
        ' : "r"((unsigned)__cvta_generic_to_shared(from + i / FM * STEP_M)));', (MISALIGNED,)),
    Bug("a generic address for ld.shared", "address", on.DOUBLE_VECTORS, FRAGMENT,
        'Vec<FM> vector; asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(vector.at[0]),'
        ' "=f"(vector.at[1]), "=f"(vector.at[2]), "=f"(vector.at[3]) : "l"((unsigned long long)(from + i)));',
        (Diagnosis("crash", "is no address of shared memory"),)),
    Bug("cvt cuts where it is to round", "rounding", on.DOUBLE_TO_S8, "__float2int_rn(value)",
        '[&] { int i; asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(i) : "f"(value)); return i; }()', (VALUE,)),
    Bug("a scale by way of a half", "precision", on.NAIVE_ZERO_POINTS, "const float scale_m = e.scale_m[m];",
        'float scale_m = e.scale_m[m]; { unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(scale_m)); '
        'asm("cvt.f32.f16 %0, %1;" : "=f"(scale_m) : "h"(h)); }', (VALUE, POISON)),
    Bug("a fence of the block's before the semaphore", "release", on.SPLIT_EPILOGUE,
        "if (threadIdx.x == 0) { __threadfence();",
        'if (threadIdx.x == 0) { asm volatile("fence.acq_rel.cta;" ::: "memory");', (RACE_PARTIALS,)),
    Bug("a fence of the cluster's before the semaphore, and blocks are in none", "scope", on.SPLIT_EPILOGUE,
        "if (threadIdx.x == 0) { __threadfence();",
        'if (threadIdx.x == 0) { asm volatile("fence.acq_rel.cluster;" ::: "memory");', (RACE_PARTIALS,)),
    Bug("the semaphore by an instruction of the block's scope", "scope", on.SPLIT_EPILOGUE,
        "last = atomicInc(semaphore, count - 1) == count - 1;",
        'unsigned old; asm volatile("atom.inc.acq_rel.cta.global.u32 %0, [%1], %2;" : "=r"(old) : "l"(semaphore),'
        ' "r"(count - 1) : "memory"); last = old == count - 1;', (RACE_SEMAPHORES,)),
    Bug("products of a batch by pointers counted in 16 bits", "batch", on.SMALL_POINTERS,
        "const int first = blockIdx.x * (MB * BATCH_TILES);",
        "const int first = static_cast<unsigned short>(blockIdx.x * (MB * BATCH_TILES));",
        (TILES_WRITTEN, VALUE, POISON)),
)  # fmt: skip
