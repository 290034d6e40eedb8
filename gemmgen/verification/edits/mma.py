"""Right edits of kernels on tensor cores."""

from __future__ import annotations

from gemmgen.verification.bugs.subjects import MMA_RC, MMA_REGISTERS, MMA_SPLIT, MMA_WHOLE
from gemmgen.verification.edits.base import Edit

MMA_EDITS = (
    Edit("columns of instructions outermost", MMA_RC, (("""\
    for (int i = 0; i < MMAS_M; ++i) {
        #pragma unroll
        for (int step = 0; step < MMAS_N; ++step) {
            const int j = i % 2 ? MMAS_N - 1 - step : step;
""", """\
    for (int j = 0; j < MMAS_N; ++j) {
        #pragma unroll
        for (int i = 0; i < MMAS_M; ++i) {
"""),)),
    Edit("another swizzle: by the line's number itself", MMA_RC, (
        ("line / A_PHASE % A_SWIZZLED", "line % A_SWIZZLED"),)),
    Edit("copies of the next k tile after a k step", MMA_WHOLE, (("""\
        if (depth > 0) {
            copy_a(a_tile, s, As[write]);
            copy_b(b_tile, s, Bs[write]);
        }
        cp_async_commit();  // an empty group too: the wait counts groups
        a_tile += a_step;
        b_tile += b_step;
        write = write + 1 < STAGES ? write + 1 : 0;
""", ""), ("""\
            const int next = (step + 1) % 2;
""", """\
            const int next = (step + 1) % 2;
            if (step == 0 && depth > 0) copy_a(a_tile, s, As[write]);
            if (step == K_STEPS - 1) {
                if (depth > 0) copy_b(b_tile, s, Bs[write]);
                cp_async_commit();
                a_tile += a_step;
                b_tile += b_step;
                write = write + 1 < STAGES ? write + 1 : 0;
            }
"""))),
    Edit("a wait for all k tiles", MMA_SPLIT, (
        ("cp_async_wait<STAGES - 2>();  // this thread's copies of it", "cp_async_wait<0>();  // it"),)),
    Edit("two barriers for a k tile", MMA_REGISTERS, (
        ("        stage ^= 1;\n", "        __syncthreads();\n        stage ^= 1;\n"),)),
)  # fmt: skip
