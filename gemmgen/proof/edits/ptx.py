"""Right edits that use inline PTX, or functions from CUDA's headers."""

from __future__ import annotations

from gemmgen.proof.bugs import subjects as on
from gemmgen.proof.bugs import tensor_subjects as tc
from gemmgen.proof.edits.base import Edit

START = "    float acc = 0.0f;\n"
LOAD_A = "const float a = A[Offset(m) * s.lda + k];"
STORE = "*to = beta == 0.0f ? alpha * acc : fmaf(beta, *to, alpha * acc);"
BARRIER = "__syncthreads();"
RELEASE = "if (threadIdx.x == 0) { __threadfence();"
TICKET = "last = atomicInc(semaphore, count - 1) == count - 1;"
FIRST = "namespace {\n\n"

PTX_EDITS = (
    Edit("maxima are looked at before they are raised", on.NAIVE_AMAX, (
        ("    atomicMax(reinterpret_cast<Magnitude*>(to), value);", """\
    Magnitude old;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(old) : "l"(to) : "memory");
    if (old < value) atomicMax(reinterpret_cast<Magnitude*>(to), value);"""),)),
    Edit("a relaxed load of A", on.NAIVE_RR, ((LOAD_A, """\
float a;
        asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(a) : "l"(A + Offset(m) * s.lda + k));"""),)),
    Edit("a load by inline PTX", on.NAIVE_RR, ((LOAD_A, """\
float a;
        asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(a) : "l"(A + Offset(m) * s.lda + k));"""),)),
    Edit("a load behind a predicate", on.NAIVE_RR, ((LOAD_A, """\
float a;
        asm volatile(
            "{ .reg .pred p; setp.lt.s32 p, %2, %3; mov.f32 %0, 0f00000000; @p ld.global.f32 %0, [%1]; }"
            : "=f"(a) : "l"(A + Offset(m) * s.lda + k), "r"(k), "r"(s.K));"""),)),
    Edit("an address by mad.wide", on.NAIVE_RR, ((LOAD_A, """\
long long at;
        asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(at) : "r"(m), "r"(s.lda), "l"(static_cast<long long>(k)));
        const float a = A[at];"""),)),
    Edit("fma by inline PTX", on.NAIVE_RR, (("acc = fmaf(a, b, acc);",
        'asm("fma.rn.f32 %0, %1, %2, %0;" : "+f"(acc) : "f"(a), "f"(b));'),)),
    Edit("a row from bits of the thread", on.NAIVE_RR, (("const int m = tile_m * BM + threadIdx.x / BN;", """\
unsigned row;
    asm("bfe.u32 %0, %1, 4, 4;" : "=r"(row) : "r"(threadIdx.x));
    const int m = tile_m * BM + static_cast<int>(row);"""),)),
    Edit("C past the caches", on.NAIVE_RR, ((STORE, """\
const float value = beta == 0.0f ? alpha * acc : fmaf(beta, *to, alpha * acc);
    asm volatile("st.global.cs.f32 [%0], %1;" ::"l"(to), "f"(value) : "memory");"""),)),
    Edit("a prefetch", on.NAIVE_RR, ((START,
        f'{START}    asm volatile("prefetch.global.L2 [%0];" ::"l"(A + Offset(m) * s.lda));\n'),)),
    Edit("a value from the first active lane", on.NAIVE_RR, ((START, f"""\
    const unsigned active = __activemask();
    beta = __shfl_sync(active, beta, __ffs(active) - 1);
{START}"""),)),
    Edit("a tile of cooperative groups", on.NAIVE_RR, (
        (FIRST, f"#include <cooperative_groups.h>\n\n{FIRST}"),
        ("    if (m >= s.M || n >= s.N) return;\n", """\
    const auto tile = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());
    beta = tile.shfl(beta, 0);
    tile.sync();
    if (m >= s.M || n >= s.N) return;
"""))),
    Edit("sums of a row by inline PTX", on.NAIVE_ZERO_POINTS, (("row_sum = multiply_add(1, a, row_sum);",
        'asm("add.s32 %0, %0, %1;" : "+r"(row_sum) : "r"(a));'),)),
    Edit("the block's barrier by name", on.ASYNC, ((BARRIER,
        '        asm volatile("barrier.sync 2, %0;" ::"n"(THREADS) : "memory");'),)),
    Edit("the block's barrier by cooperative groups", on.ASYNC, (
        (FIRST, f"#include <cooperative_groups.h>\n\n{FIRST}"),
        (BARRIER, "cooperative_groups::this_thread_block().sync();"))),
    Edit("cp.async by inline PTX", on.ASYNC, (
        ("cp_async<4 * VA>(&shared[at.k][at.mn], from + offset_a(step, s), bytes);", """\
const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&shared[at.k][at.mn]));
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                     ::"r"(to), "l"(from + offset_a(step, s)), "r"(bytes) : "memory");"""),)),
    Edit("fragments by ld.shared.v4", on.DOUBLE_VECTORS, (
        ("const Vec<FM> vector = load<FM>(from + i / FM * STEP_M);", """\
Vec<FM> vector;
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(vector.at[0]), "=f"(vector.at[1]), "=f"(vector.at[2]), "=f"(vector.at[3])
                     : "r"(static_cast<unsigned>(__cvta_generic_to_shared(from + i / FM * STEP_M))));"""),)),
    Edit("rounded and saturated by one instruction", on.DOUBLE_TO_S8, (
        ("static_cast<signed char>(max(-128, min(127, __float2int_rn(value))))",
         '[&] { int i; asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(i) : "f"(value));'
         " return static_cast<signed char>(i); }()"),)),
    Edit("a semaphore whose instruction orders", on.SPLIT_EPILOGUE, ((TICKET, """\
unsigned before;
        asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                     : "=r"(before) : "l"(semaphore), "r"(count - 1) : "memory");
        last = before == count - 1;"""),)),
    Edit("a fence by inline PTX", on.SPLIT_EPILOGUE, ((RELEASE,
        'if (threadIdx.x == 0) { asm volatile("fence.acq_rel.gpu;" ::: "memory");'),)),
    Edit("partial sums to L2", on.SPLIT_EPILOGUE, (("        partial[element] = sums[i];",
        '        asm volatile("st.global.cg.f32 [%0], %1;" ::"l"(partial + element), "f"(sums[i]) : "memory");'),)),
    Edit("CUDA's header of bfloat16", tc.MMA_RC, ((FIRST, f"#include <cuda_bf16.h>\n\n{FIRST}"),)),
    Edit("ldmatrix by inline PTX", tc.MMA_RC, (("        ldmatrix_x4(a[i], &shared[m][swizzled_a(m, k)]);", """\
        const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(&shared[m][swizzled_a(m, k)]));
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a[i][0]), "=r"(a[i][1]), "=r"(a[i][2]), "=r"(a[i][3]) : "r"(from) : "memory");"""),)),
    Edit("mma by inline PTX", tc.MMA_RC, (("            mma_m16n8k16_bf16(acc[i][j], a[i], b[j]);", """\
            asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                "{%0, %1, %2, %3};"
                : "+f"(acc[i][j][0]), "+f"(acc[i][j][1]), "+f"(acc[i][j][2]), "+f"(acc[i][j][3])
                : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j][0]), "r"(b[j][1]));"""),)),
    Edit("TMA and its barriers by inline PTX", tc.WGMMA_RC, (
        ("                tma_load_2d(shared.a[ring.stage], box_a, full, k, tile.m);", """\
                const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared.a[ring.stage]));
                const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(full));
                asm volatile(
                    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                    "[%0], [%1, {%3, %4}], [%2];" ::"r"(to), "l"(box_a), "r"(at), "r"(k), "r"(tile.m) : "memory");"""),
        ("            mbarrier_wait(&shared.full[ring.stage], ring.parity);", """\
            asm volatile(
                "{\\n"
                ".reg .pred done;\\n"
                "again:\\n"
                "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\\n"
                "@!done bra again;\\n"
                "}\\n"
                ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(&shared.full[ring.stage]))), "r"(ring.parity)
                : "memory");"""),
        ("                    tma_store_commit();",
         '                    asm volatile("cp.async.bulk.commit_group;" ::: "memory");'),
        ("wgmma_wait<1>();", 'asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");'),
    )),
)  # fmt: skip
