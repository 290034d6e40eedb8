"""Inline PTX of hand edits runs: each instruction gives what the PTX ISA says, and its accesses are watched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from gemmgen.families import NAIVE
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import DEFAULT_ARCH, parse_arch
from gemmgen.problem.gemm import Problem
from gemmgen.proof import selfcheck
from gemmgen.proof.edits.ptx import PTX_EDITS
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.support.files import Store
from gemmgen.verification.verifier import verify

PROBLEM = Problem(16, 16, None)
SOURCE = render(PROBLEM, NAIVE, NAIVE.default(PROBLEM))
CTYPES = {"h": "unsigned short", "r": "unsigned", "l": "unsigned long long", "f": "float", "d": "double"}
NAN = 0x7FFFFFFF


def f32(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def f64(value: float) -> int:
    return int(np.float64(value).view(np.uint64))


def f16(value: float) -> int:
    return int(np.float16(value).view(np.uint16))


def bf16(value: float) -> int:
    """Of a number that has one."""
    return f32(value) >> 16


A, B, C = np.float32(1.1), np.float32(3.3), np.float32(-2.7)
EXACT = float(A) * float(B)
NEAREST = np.float32(EXACT)
NEXT = np.nextafter(NEAREST, np.float32(np.inf if float(NEAREST) < EXACT else 0))
BELOW, ABOVE = sorted((float(NEAREST), float(NEXT)))
TINY, HUGE = f32(1e-40), f32(3e38)

# Instruction, the constraint of its result, the bits of its operands by constraint, and the bits that it gives.
RESULTS: tuple[tuple[str, str, tuple[tuple[str, int], ...], int], ...] = (
    ("add.u32", "r", (("r", 0xFFFFFFFF), ("r", 3)), 2),
    ("add.s64", "l", (("l", 2**64 - 1), ("l", 3)), 2),
    ("add.u16", "h", (("h", 0xFFFF), ("h", 3)), 2),
    ("add.sat.s32", "r", (("r", 0x7FFFFFFF), ("r", 1)), 0x7FFFFFFF),
    ("sub.s32", "r", (("r", 3), ("r", 5)), 0xFFFFFFFE),
    ("sub.sat.s32", "r", (("r", 0x80000000), ("r", 1)), 0x80000000),
    ("mul.lo.u32", "r", (("r", 0x10001), ("r", 0x10001)), 0x20001),
    ("mul.hi.u32", "r", (("r", 0x80000000), ("r", 6)), 3),
    ("mul.hi.s32", "r", (("r", 0xFFFFFFFF), ("r", 1)), 0xFFFFFFFF),
    ("mul.hi.u64", "l", (("l", 2**63), ("l", 6)), 3),
    ("mul.lo.u16", "h", (("h", 0xFFFF), ("h", 0xFFFF)), 1),
    ("mul.wide.u32", "l", (("r", 0xFFFFFFFF), ("r", 2)), 0x1FFFFFFFE),
    ("mul.wide.s32", "l", (("r", 0xFFFFFFFF), ("r", 2)), 2**64 - 2),
    ("mul.wide.u16", "r", (("h", 0xFFFF), ("h", 0xFFFF)), 0xFFFE0001),
    ("mul24.lo.u32", "r", (("r", 0xFF000003), ("r", 5)), 15),
    ("mad.lo.s32", "r", (("r", 7), ("r", 0xFFFFFFFF), ("r", 9)), 2),
    ("mad.hi.u32", "r", (("r", 0x80000000), ("r", 6), ("r", 1)), 4),
    ("mad.wide.u32", "l", (("r", 0xFFFFFFFF), ("r", 2), ("l", 5)), 0x200000003),
    ("mad.wide.s32", "l", (("r", 0xFFFFFFFF), ("r", 2), ("l", 5)), 3),
    ("sad.s32", "r", (("r", 0xFFFFFFFF), ("r", 4), ("r", 1)), 6),
    ("div.s32", "r", (("r", 0xFFFFFFF9), ("r", 2)), 0xFFFFFFFD),
    ("rem.s32", "r", (("r", 0xFFFFFFF9), ("r", 2)), 0xFFFFFFFF),
    ("div.u32", "r", (("r", 0xFFFFFFF9), ("r", 2)), 0x7FFFFFFC),
    ("neg.s32", "r", (("r", 5),), 0xFFFFFFFB),
    ("abs.s32", "r", (("r", 0xFFFFFFFB),), 5),
    ("min.s32", "r", (("r", 0xFFFFFFFF), ("r", 1)), 0xFFFFFFFF),
    ("min.u32", "r", (("r", 0xFFFFFFFF), ("r", 1)), 1),
    ("max.s32", "r", (("r", 0xFFFFFFFF), ("r", 1)), 1),
    ("max.u64", "l", (("l", 2**63), ("l", 1)), 2**63),
    ("min.relu.s32", "r", (("r", 0xFFFFFFFF), ("r", 1)), 0),
    ("max.relu.s32", "r", (("r", 0xFFFFFFFE), ("r", 0xFFFFFFFF)), 0),
    ("add.u16x2", "r", (("r", 0x0001FFFF), ("r", 0x00020003)), 0x00030002),
    ("min.u16x2", "r", (("r", 0xFFFF0001), ("r", 0x00000002)), 0x00000001),
    ("max.s16x2", "r", (("r", 0xFFFF0001), ("r", 0x00000002)), 0x00000002),
    ("max.relu.s16x2", "r", (("r", 0xFFFF0003), ("r", 0xFFFE0002)), 0x00000003),
    ("vabsdiff4.u32.u32.u32", "r", (("r", 0x05FF0003), ("r", 0x03000100), ("r", 9)), 0x02FF0103),
    ("vabsdiff4.u32.u32.u32.add", "r", (("r", 0x05FF0003), ("r", 0x03000100), ("r", 9)), 9 + 2 + 255 + 1 + 3),
    ("and.b32", "r", (("r", 0xFF0F), ("r", 0x0FF0)), 0x0F00),
    ("or.b32", "r", (("r", 0xFF0F), ("r", 0x0FF0)), 0xFFFF),
    ("xor.b64", "l", (("l", 0xFF0F), ("l", 0x0FF0)), 0xF0FF),
    ("not.b32", "r", (("r", 0xF),), 0xFFFFFFF0),
    ("cnot.b32", "r", (("r", 0),), 1),
    ("shl.b32", "r", (("r", 3), ("r", 4)), 48),
    ("shl.b32", "r", (("r", 3), ("r", 32)), 0),
    ("shr.u32", "r", (("r", 0x80000000), ("r", 31)), 1),
    ("shr.s32", "r", (("r", 0x80000000), ("r", 40)), 0xFFFFFFFF),
    ("shr.b64", "l", (("l", 2**63), ("r", 63)), 1),
    ("shf.l.wrap.b32", "r", (("r", 0x80000000), ("r", 1), ("r", 33)), 3),
    ("shf.r.clamp.b32", "r", (("r", 7), ("r", 9), ("r", 40)), 9),
    ("bfe.u32", "r", (("r", 0xABCD), ("r", 4), ("r", 8)), 0xBC),
    ("bfe.s32", "r", (("r", 0xABCD), ("r", 4), ("r", 8)), 0xFFFFFFBC),
    ("bfe.u32", "r", (("r", 0xABCD), ("r", 4), ("r", 0)), 0),
    ("bfe.s32", "r", (("r", 0x80000000), ("r", 28), ("r", 8)), 0xFFFFFFF8),
    ("bfe.u64", "l", (("l", 0xAB << 40), ("r", 40), ("r", 8)), 0xAB),
    ("bfi.b32", "r", (("r", 0x5), ("r", 0xFFFF), ("r", 4), ("r", 8)), 0xF05F),
    ("bfind.u32", "r", (("r", 0x100),), 8),
    ("bfind.s32", "r", (("r", 0xFFFFFFFF),), 0xFFFFFFFF),
    ("popc.b32", "r", (("r", 0xF0F0),), 8),
    ("popc.b64", "r", (("l", 2**63 + 1),), 2),
    ("clz.b32", "r", (("r", 0x10),), 27),
    ("clz.b32", "r", (("r", 0),), 32),
    ("clz.b64", "r", (("l", 1),), 63),
    ("brev.b32", "r", (("r", 1),), 0x80000000),
    ("prmt.b32", "r", (("r", 0x44332211), ("r", 0x88776655), ("r", 0x7410)), 0x88552211),
    ("prmt.b32", "r", (("r", 0x80), ("r", 0), ("r", 0x0008)), 0x808080FF),
    ("lop3.b32", "r", (("r", 0xF0), ("r", 0xCC), ("r", 0xAA), ("n", 0x96)), 0x96),
    ("lop3.b32", "r", (("r", 0xF0), ("r", 0xCC), ("r", 0xAA), ("n", 0xEA)), 0xEA),
    ("dp4a.s32.s32", "r", (("r", 0x01FF0203), ("r", 0x01010101), ("r", 10)), 15),
    ("dp4a.u32.s32", "r", (("r", 0xFF), ("r", 0xFF), ("r", 0)), 0xFFFFFF01),
    ("slct.b32.s32", "r", (("r", 1), ("r", 2), ("r", 0xFFFFFFFF)), 2),
    ("mov.b32", "f", (("r", f32(2.5)),), f32(2.5)),
    ("add.f32", "f", (("f", f32(A)), ("f", f32(B))), f32(A + B)),
    ("add.rn.ftz.f32", "f", (("f", TINY), ("f", f32(-0.0))), 0),
    ("add.sat.f32", "f", (("f", f32(0.75)), ("f", f32(0.5))), f32(1)),
    ("add.rp.f32", "f", (("f", f32(1)), ("f", f32(1e-20))), f32(1) + 1),
    ("add.rm.f32", "f", (("f", f32(1)), ("f", f32(-1e-20))), f32(1) - 1),
    ("add.rz.f32", "f", (("f", f32(-1)), ("f", f32(1e-20))), f32(-1) - 1),
    ("add.rz.f32", "f", (("f", HUGE), ("f", HUGE)), 0x7F7FFFFF),
    ("sub.f32", "f", (("f", f32(A)), ("f", f32(B))), f32(A - B)),
    ("mul.f32", "f", (("f", f32(A)), ("f", f32(B))), f32(A * B)),
    ("mul.rz.f32", "f", (("f", f32(A)), ("f", f32(B))), f32(BELOW)),
    ("mul.rp.f32", "f", (("f", f32(A)), ("f", f32(B))), f32(ABOVE)),
    ("mul.f32", "f", (("f", f32(0.0)), ("f", f32(-3))), f32(-0.0)),
    ("fma.rn.f32", "f", (("f", f32(A)), ("f", f32(B)), ("f", f32(C))), f32(float(A) * float(B) + float(C))),
    ("fma.rn.sat.f32", "f", (("f", f32(A)), ("f", f32(B)), ("f", f32(-9))), 0),
    ("fma.rn.f64", "d", (("d", f64(1 + 2**-40)), ("d", f64(1 - 2**-40)), ("d", f64(-1))), f64(-(2.0**-80))),
    ("mad.f32", "f", (("f", f32(2)), ("f", f32(3)), ("f", f32(4))), f32(10)),
    ("add.f64", "d", (("d", f64(0.1)), ("d", f64(0.2))), f64(0.1 + 0.2)),
    ("mul.f64", "d", (("d", f64(0.1)), ("d", f64(0.2))), f64(0.1 * 0.2)),
    ("div.rn.f32", "f", (("f", f32(1)), ("f", f32(3))), f32(np.float32(1) / np.float32(3))),
    ("div.rn.f64", "d", (("d", f64(1)), ("d", f64(3))), f64(1 / 3)),
    ("neg.f32", "f", (("f", f32(0)),), f32(-0.0)),
    ("abs.f32", "f", (("f", f32(-2)),), f32(2)),
    ("min.f32", "f", (("f", NAN), ("f", f32(2))), f32(2)),
    ("min.f32", "f", (("f", f32(0.0)), ("f", f32(-0.0))), f32(-0.0)),
    ("max.f32", "f", (("f", f32(-0.0)), ("f", f32(0.0))), f32(0.0)),
    ("max.NaN.f32", "f", (("f", NAN), ("f", f32(2))), NAN),
    ("max.f32", "f", (("f", f32(-3)), ("f", NAN)), f32(-3)),
    ("copysign.f32", "f", (("f", f32(-1)), ("f", f32(2))), f32(-2)),
    ("rcp.rn.f32", "f", (("f", f32(3)),), f32(np.float32(1) / np.float32(3))),
    ("rcp.approx.ftz.f32", "f", (("f", f32(4)),), f32(0.25)),
    ("rsqrt.approx.f32", "f", (("f", f32(16)),), f32(0.25)),
    ("sqrt.rn.f32", "f", (("f", f32(2)),), f32(np.sqrt(np.float32(2)))),
    ("sqrt.approx.f32", "f", (("f", f32(9)),), f32(3)),
    ("ex2.approx.ftz.f32", "f", (("f", f32(-3)),), f32(0.125)),
    ("lg2.approx.f32", "f", (("f", f32(8)),), f32(3)),
    ("tanh.approx.f32", "f", (("f", f32(0)),), f32(0)),
    (
        "fma.rn.f16",
        "h",
        (("h", f16(1.001)), ("h", f16(3)), ("h", f16(0.1))),
        f16(float(np.float16(1.001)) * 3 + float(np.float16(0.1))),
    ),
    ("add.f16x2", "r", (("r", f16(1) << 16 | f16(2)), ("r", f16(3) << 16 | f16(0.5))), f16(4) << 16 | f16(2.5)),
    ("mul.bf16x2", "r", (("r", bf16(2) << 16 | bf16(3)), ("r", bf16(0.5) << 16 | bf16(5))), bf16(1) << 16 | bf16(15)),
    (
        "fma.rn.relu.bf16x2",
        "r",
        (("r", bf16(2) << 16 | bf16(1)), ("r", bf16(3) << 16 | bf16(1)), ("r", bf16(-9) << 16)),
        bf16(1),
    ),
    ("max.f16x2", "r", (("r", f16(1) << 16 | f16(2)), ("r", f16(-1) << 16 | f16(4))), f16(1) << 16 | f16(4)),
    ("cvt.rzi.s32.f32", "r", (("f", f32(-2.7)),), 0xFFFFFFFE),
    ("cvt.rni.s32.f32", "r", (("f", f32(2.5)),), 2),
    ("cvt.rmi.s32.f32", "r", (("f", f32(-2.1)),), 0xFFFFFFFD),
    ("cvt.rpi.u32.f32", "r", (("f", f32(2.1)),), 3),
    ("cvt.rni.u32.f32", "r", (("f", f32(-3)),), 0),
    ("cvt.rni.s32.f32", "r", (("f", f32(3e9)),), 0x7FFFFFFF),
    ("cvt.rni.s32.f32", "r", (("f", NAN),), 0),
    ("cvt.rni.s64.f32", "l", (("f", NAN),), 2**63),
    ("cvt.rni.s8.f32", "r", (("f", f32(-300)),), 0xFFFFFF80),
    ("cvt.rni.sat.u8.f32", "r", (("f", f32(300)),), 255),
    ("cvt.rni.f32.f32", "f", (("f", f32(2.5)),), f32(2)),
    ("cvt.rn.f32.s32", "f", (("r", 0xFFFFFFFF),), f32(-1)),
    ("cvt.rn.f32.u32", "f", (("r", 0xFFFFFFFF),), f32(2.0**32)),
    ("cvt.rz.f32.u32", "f", (("r", 0xFFFFFFFF),), f32(2.0**32) - 1),
    ("cvt.rn.f64.s64", "d", (("l", 2**64 - 3),), f64(-3)),
    ("cvt.f64.f32", "d", (("f", f32(A)),), f64(float(A))),
    ("cvt.rn.f32.f64", "f", (("d", f64(0.1)),), f32(0.1)),
    ("cvt.rm.f32.f64", "f", (("d", f64(0.1)),), f32(0.1) - 1),
    ("cvt.sat.f32.f32", "f", (("f", f32(1.5)),), f32(1)),
    ("cvt.u32.u16", "r", (("h", 0xFFFF),), 0xFFFF),
    ("cvt.s32.s16", "r", (("h", 0xFFFF),), 0xFFFFFFFF),
    ("cvt.s32.s8", "r", (("r", 0x1FF),), 0xFFFFFFFF),
    ("cvt.u64.u32", "l", (("r", 0xFFFFFFFF),), 0xFFFFFFFF),
    ("cvt.sat.s8.s32", "r", (("r", 1000),), 127),
    ("cvt.sat.u8.s32", "r", (("r", 0xFFFFFFFF),), 0),
    ("cvt.rn.f16.f32", "h", (("f", f32(0.1)),), f16(0.1)),
    ("cvt.rz.f16.f32", "h", (("f", f32(65535.0)),), f16(65504.0)),
    ("cvt.f32.f16", "f", (("h", f16(-0.1)),), f32(float(np.float16(-0.1)))),
    ("cvt.rn.bf16.f32", "h", (("f", f32(1.01171875)),), bf16(1.015625)),
    ("cvt.rz.bf16.f32", "h", (("f", f32(1.01171875)),), bf16(1.0078125)),
    ("cvt.f32.bf16", "f", (("h", bf16(-3)),), f32(-3)),
    ("cvt.rna.tf32.f32", "r", (("f", f32(1 + 2**-11)),), f32(1 + 2**-10)),
    ("cvt.rn.bf16x2.f32", "r", (("f", f32(1)), ("f", f32(2))), bf16(1) << 16 | bf16(2)),
    ("cvt.rn.relu.f16x2.f32", "r", (("f", f32(-1)), ("f", f32(2))), f16(2)),
    ("cvt.rn.satfinite.e4m3x2.f32", "h", (("f", f32(1e9)), ("f", f32(1))), 0x7E38),
    ("cvt.rn.f16x2.e4m3x2", "r", (("h", 0x3838),), f16(1) << 16 | f16(1)),
    ("cvt.rn.f16x2.e5m2x2", "r", (("h", 0x3C40),), f16(1) << 16 | f16(2)),
)


def literal(constraint: str, bits: int) -> str:
    """C++ of the type that the constraint takes."""
    if constraint == "f":
        return f"__uint_as_float({bits}u)"
    if constraint == "d":
        return f"__longlong_as_double({bits}ull)"
    return str(bits) if constraint == "n" else f"static_cast<{CTYPES[constraint]}>({bits}ull)"


def check(number: int, row: tuple[str, str, tuple[tuple[str, int], ...], int]) -> str:
    """A block of C++ that holds the instruction's result against the table's; an approximation may be 3 ulps off."""
    instruction, result, operands, expected = row
    listed = ", ".join(f"%{i}" for i in range(len(operands) + 1))
    given = ", ".join(f'"{constraint}"({literal(constraint, bits)})' for constraint, bits in operands)
    name = f"{re.sub('[^a-zA-Z0-9]', '_', instruction)}_{number}"
    bits = {"f": f"__float_as_uint({name})", "d": f"__double_as_longlong({name})"}.get(result, name)
    bits, ulps = f"static_cast<unsigned long long>({bits})", 3 if ".approx" in instruction else 0
    return (
        f'    {{ {CTYPES[result]} {name}; asm("{instruction} {listed};" : "={result}"({name}) : {given}); '
        f"assert({bits} - {expected}ull + {ulps} <= {2 * ulps}); }}\n"
    )


# Each holds for every thread of a block, which come in whole warps. `t` is the thread, `lane` that of its warp.
STATEMENTS = r"""
    __shared__ __align__(16) unsigned words[64];
    __shared__ unsigned long long counter;
    __shared__ int seen;
    const unsigned t = threadIdx.x, lane = t % 32;
    const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(words));
    unsigned x, y, z, w;
    asm("mov.u32 %0, %%tid.x;" : "=r"(x));
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(y));
    asm("mov.u32 %0, %%ntid.x; mov.u32 %1, %%ctaid.x;" : "=r"(z), "=r"(w));
    assert(x == t && y == lane && z == blockDim.x && w == blockIdx.x);
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(x));
    assert(x == (1u << lane) - 1);
    // Registers of its own, predicates, several statements, comments and labels.
    asm volatile(
        "{\n\t"
        ".reg .pred p, q;  // two\n\t"
        ".reg .b32 r<3>;\n\t"
        "setp.lt.u32 p|q, %1, 7;\n\t"
        "mov.u32 r0, 5; mov.u32 r1, 9;\n\t"
        "selp.b32 r2, r0, r1, p;\n\t"
        "@q add.u32 r2, r2, 100;\n\t"
        "@!q add.u32 r2, r2, 1000;\n\t"
        "mov.u32 %0, r2;\n\t"
        "}\n" : "=r"(x) : "r"(t));
    assert(x == (t < 7 ? 1005 : 109));
    asm("{ .reg .pred p; mov.u32 %0, 0; again%=: add.u32 %0, %0, 1; setp.ne.u32 p, %0, %1; @p bra again%=; }"
        : "=&r"(x) : "r"(t + 1));
    assert(x == t + 1);
    asm("{.reg .pred p, q; setp.ge.s32 p, %1, 0; setp.eq.and.u32 q, %1, 3, p; selp.u32 %0, 1, 0, q;}"
        : "=r"(x) : "r"(t));
    assert(x == (t == 3));
    asm("{.reg .pred p; setp.gtu.f32 p, %1, 0f3F800000; selp.u32 %0, 1, 0, p;}"
        : "=r"(x) : "f"(__uint_as_float(0x7fffffffu)));
    assert(x == 1);
    asm("mov.b64 %0, {%1, %2};" : "=l"(counter_bits) : "r"(1u), "r"(2u));
    assert(counter_bits == 0x200000001ull);
    asm("mov.b64 {%0, %1}, %2;" : "=r"(x), "=r"(y) : "l"(counter_bits));
    assert(x == 1 && y == 2);
    x = 3;
    asm("add.u32 %0, %0, %1;" : "+r"(x) : "r"(4u));
    assert(x == 7);
    // Shared memory.
    if (t < 64) asm volatile("st.shared.u32 [%0], %1;" :: "r"(shared + 4 * t), "r"(t * t) : "memory");
    for (unsigned i = t + blockDim.x; i < 64; i += blockDim.x)
        asm volatile("st.shared.b32 [%0+%2], %1;" :: "r"(shared + 4 * i), "r"(i * i), "n"(0) : "memory");
    asm volatile("bar.sync 0;" ::: "memory");
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4+16];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(shared));
    assert(x == 16 && y == 25 && z == 36 && w == 49);
    asm volatile("ld.volatile.shared::cta.u8 %0, [%1 + 64];" : "=r"(x) : "r"(shared));
    assert(x == 0);
    assert(*static_cast<unsigned*>(__cvta_shared_to_generic(shared + 8)) == 4);
    unsigned long long address;
    asm("cvta.shared.u64 %0, %1;" : "=l"(address) : "l"((unsigned long long)(shared + 12)));
    asm volatile("ld.u32 %0, [%1];" : "=r"(x) : "l"(address));
    assert(x == 9);
    asm volatile("bar.sync 1, %0;" :: "r"(blockDim.x));
    if (lane % 2) asm volatile("barrier.sync 1, %0;" :: "r"(blockDim.x));
    else asm volatile("barrier.sync 1, %0;" :: "r"(blockDim.x));
    // Warps.
    asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;" : "=r"(x) : "r"(lane));
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, %3, %4;" : "=r"(y) : "r"(lane), "r"(5), "n"(0x1f), "n"(-1));
    assert(x == (lane ^ 1) && y == 5);
    asm volatile("{ .reg .pred p; shfl.sync.up.b32 %0|p, %2, 3, 0, -1; selp.u32 %1, 1, 0, p; }"
                 : "=r"(x), "=r"(y) : "r"(lane));
    assert(x == (lane < 3 ? lane : lane - 3) && y == (lane >= 3));
    asm volatile("shfl.sync.down.b32 %0, %1, 1, 0x1c03, -1;" : "=r"(x) : "r"(lane));
    assert(x == (lane % 4 == 3 ? lane : lane + 1));
    asm volatile("{.reg .pred p; setp.lt.u32 p, %1, 4; vote.sync.ballot.b32 %0, p, 0xffffffff;}" : "=r"(x) : "r"(lane));
    assert(x == 15);
    asm volatile("redux.sync.add.u32 %0, %1, 0xffffffff;" : "=r"(x) : "r"(lane));
    assert(x == 496);
    asm volatile("activemask.b32 %0;" : "=r"(x));
    assert(x == 0xffffffffu && __activemask() == 0xffffffffu);
    if (lane < 8) assert(__activemask() == 0xffu);
    // Atomics, fences and hints.
    if (t == 0) counter = 0, seen = 0;
    __syncthreads();
    const unsigned at_seen = static_cast<unsigned>(__cvta_generic_to_shared(&seen));
    asm volatile("red.shared.add.s32 [%0], %1;" :: "r"(at_seen), "r"(2) : "memory");
    const unsigned at_counter = static_cast<unsigned>(__cvta_generic_to_shared(&counter));
    asm volatile("atom.shared.add.u64 %0, [%1], 1;" : "=l"(address) : "r"(at_counter) : "memory");
    asm volatile("membar.gl; fence.acq_rel.gpu; prefetch.global.L2 [%0]; griddepcontrol.wait;" :: "l"(A));
    __syncthreads();
    assert(seen == 2 * int(blockDim.x) && counter == blockDim.x);
    asm volatile("bar.sync 0;");
    if (t == 0) {
        asm volatile("atom.relaxed.gpu.shared.cas.b32 %0, [%1], %2, 7;" : "=r"(x) : "r"(at_seen), "r"(2 * blockDim.x));
        assert(x == 2 * blockDim.x && seen == 7);
    }
    // Global memory: A is at least as long as a row of K.
    float first = 0;
    if (K > 0) {
        asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(first) : "l"(A));
        assert(__float_as_uint(first) == __float_as_uint(A[0]));
    }
    asm volatile("bar.sync 0;");
    if (t < 4 && K > 0)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                     :: "r"(shared + 4 * t), "l"(A), "r"(t < 2 ? 4 : 0));
    asm volatile("cp.async.commit_group;\n cp.async.wait_group %0;" :: "n"(0) : "memory");
    asm volatile("bar.sync 0;");
    if (K > 0) assert(words[1] == __float_as_uint(first) && words[3] == 0);
"""

WRONG = {
    "a race": (
        'if (threadIdx.x < 64) asm volatile("st.shared.u32 [%0], %1;" :: "r"(at), "r"(threadIdx.x));',
        "race: data race on shared memory",
    ),
    "beyond C": (
        'asm volatile("st.global.f32 [%0+4], %1;" :: "l"(C + 255), "f"(1.0f));',
        "crash: .* after the end of C",
    ),
    "beyond shared": (
        'asm volatile("ld.shared.u32 %0, [%1+16];" : "=r"(x) : "r"(at)); if (x == 77) return;',
        "crash: .* after the end of words",
    ),
    "misaligned": ('asm volatile("ld.shared.v2.u32 {%0, %0}, [%1+4];" : "=r"(x) : "r"(at));', "crash: .*misaligned"),
    "a generic address": (
        'asm volatile("st.shared.u32 [%0], %1;" :: "l"((unsigned long long)words), "r"(1));',
        "crash: .* is no address of shared memory",
    ),
    "unknown": (
        'asm volatile("tensormap.replace.tile.rank.b32 [%0], %1;" :: "l"(A), "r"(1));',
        "unjudged: .*tensormap",
    ),
}


@pytest.fixture
def emulator(shared_store: Store) -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor(shared_store) as executor:
        yield executor


def edited(body: str) -> KernelSource:
    """The naive kernel with `body` first in it."""
    before, kernel, rest = SOURCE.text.partition('extern "C" __global__')
    signature, brace, rest = rest.partition("\n{\n")
    return replace(SOURCE, text=f"{before}{kernel}{signature}{brace}{body}{rest}")


def test_instructions_give_what_the_isa_says(emulator: EmulatorExecutor) -> None:
    body = "".join(check(number, row) for number, row in enumerate(RESULTS))
    verdict = verify(emulator, edited(body), examples=2, shrink=False)
    assert verdict.passed, verdict.failure


def test_statements_registers_memory_and_warps_work(emulator: EmulatorExecutor) -> None:
    verdict = verify(emulator, edited("    unsigned long long counter_bits;\n" + STATEMENTS), examples=6, shrink=False)
    assert verdict.passed, verdict.failure


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found_at_its_line(name: str, emulator: EmulatorExecutor) -> None:
    body, expected = WRONG[name]
    declared = (
        "    __shared__ __align__(16) unsigned words[4]; unsigned x = 0; (void)x;\n"
        "    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(words)); (void)at;\n"
    )
    source = edited(f"{declared}    {body}\n")
    verdict = verify(emulator, source, examples=4, shrink=False)
    assert verdict.failure is not None
    line = source.text.splitlines().index(f"    {body}") + 1
    said = f"{verdict.failure.kind}: {verdict.failure.reason}"
    assert re.search(expected, said) and f".cu:{line}" in said, said


@pytest.mark.parametrize("name", ["ldmatrix by inline PTX", "mma by inline PTX", "TMA and its barriers by inline PTX"])
def test_right_edits_of_tensor_kernels_pass(name: str, emulator: EmulatorExecutor) -> None:
    edit = next(edit for edit in PTX_EDITS if edit.name == name)
    verdict = verify(emulator, selfcheck.edited(edit, parse_arch(DEFAULT_ARCH).limits), examples=6, shrink=False)
    assert verdict.passed, verdict.failure
