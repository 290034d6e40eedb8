"""What is read from disassembled text: the main loop, what an iteration of it takes, and what operands cost."""

from __future__ import annotations

import pytest

from gemmgen.families import WGMMA
from gemmgen.kernel.plan import Work
from gemmgen.problem.device import ARCHS
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Compute, Types
from gemmgen.run.sass import Instruction, Loop, fma_use, read_sass

# A step of eight passes: the branch at 0020 jumps over the copies in all but one of them.
LISTING = """
        .section        .text.gemm,"ax",@progbits
gemm:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDS.128 R8, [R2+0x400] ;
        /*0020*/               @P0 BRA `(.L_x_2) ;
        /*0030*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0040*/               @P1 LDGSTS.E.BYPASS.128 [R3], desc[UR4][R6.64] ;
        /*0050*/                   LDGSTS.E [R3+0x10], desc[UR4][R6.64+0x4] ;
.L_x_2:
        /*0060*/                   FFMA R20, R8.reuse, R12, R20 ;
        /*0070*/                   FFMA R21, R8, R13, R21 ;
        /*0080*/              @!P0 BRA `(.L_x_3) ;
        /*0090*/                   FFMA R22, R9, R12, R22 ;
.L_x_3:
        /*00a0*/                   LDS.64 R12, [R2] ;
        /*00b0*/               @P2 BRA `(.L_x_1) ;
        /*00c0*/                   STG.E desc[UR4][R6.64], R20 ;
        /*00d0*/                   EXIT ;
.L_x_4:
        /*00e0*/                   BRA `(.L_x_4);
"""


def ffma(*places: str) -> Instruction:
    return Instruction("FFMA", "", f" R0, {', '.join(places)} ;")


def test_the_main_loop_runs_from_its_label_to_the_branch_back() -> None:
    sass = read_sass(LISTING)
    assert sass.main_loop.counts == {"FFMA": 3, "BRA": 3, "LDS": 2, "LDGSTS": 2, "BAR": 1}
    assert sass.kernel.counts["MOV"] == sass.kernel.counts["EXIT"] == 1


# Two loops over K in one over tiles: a block that streams. The last turn of each stands behind it, in the outer loop.
NESTED = """
gemm:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDG.E R2, [R4] ;
.L_x_2:
        /*0020*/                   FFMA R20, R8, R12, R20 ;
        /*0030*/                   FFMA R21, R8, R13, R21 ;
        /*0040*/                   LDS R8, [R2] ;
        /*0050*/               @P0 BRA `(.L_x_2) ;
        /*0060*/                   FFMA R20, R8, R12, R20 ;
        /*0070*/                   FFMA R21, R8, R13, R21 ;
.L_x_3:
        /*0080*/                   FFMA R22, R8, R13, R22 ;
        /*0090*/               @P1 BRA `(.L_x_3) ;
.L_x_4:
        /*00a0*/                   STG.E [R6], R20 ;
        /*00b0*/               @P2 BRA `(.L_x_4) ;
        /*00c0*/               @P3 BRA `(.L_x_1) ;
        /*00d0*/                   EXIT ;
"""


def test_of_nested_loops_the_main_one_is_the_innermost_with_the_most_fmas() -> None:
    assert read_sass(NESTED).main_loop.counts == {"FFMA": 2, "LDS": 1, "BRA": 1}
    one = NESTED.replace("@P0 BRA", "NOP").replace("@P1 BRA", "NOP")  # no loop over K is left
    counts = read_sass(one).main_loop.counts
    assert counts["FFMA"] == 5 and counts["LDG"] == counts["STG"] == 1, "a loop without an FMA in it is none within"


# A consumer warpgroup: a loop over tiles, in it the one over k tiles, whose waits turn behind the kernel's end.
WARPGROUP_LOOP = """
gemm:
        /*0000*/               @P0 BRA `(.L_x_8) ;
.L_x_1:
        /*0010*/                   MOV R24, RZ ;
.L_x_2:
        /*0020*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR9+0x38000], R17 ;
        /*0030*/              @!P0 BRA `(.L_x_5) ;
.L_x_3:
        /*0040*/                   WARPGROUP.ARRIVE ;
        /*0050*/                   R2UR UR16, R14 ;
        /*0060*/                   MULTIPLY R24, gdesc[UR16], R24 ;
        /*0070*/                   MULTIPLY R24, gdesc[UR16], R24, gsb0 ;
        /*0080*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0090*/              @!P2 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR9+0x38020], RZ ;
        /*00a0*/              @!P1 BRA `(.L_x_2) ;
        /*00b0*/                   STS.128 [R2], R24 ;
        /*00c0*/              @!P3 BRA `(.L_x_1) ;
.L_x_8:
        /*00d0*/                   EXIT ;
.L_x_5:
        /*00e0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR9+0x38000], R17 ;
        /*00f0*/              @!P0 BRA `(.L_x_5) ;
        /*0100*/                   BRA `(.L_x_3) ;
"""


@pytest.mark.parametrize(
    ("types", "modifiers", "opcode"),
    [
        (Types.parse("bf16"), "64x256x16.F32.BF16", "HGMMA"),
        (Types.parse("f32", Compute.TF32), "64x128x8.F32.TF32", "HGMMA"),
        (Types.parse("s8,s8,s32"), "64x128x32.S8.S8", "IGMMA"),
        (Types.parse("e4m3,e4m3,bf16", Compute.FAST), "64x256x32.F32.E4M3.E4M3", "QGMMA"),
    ],
    ids=str,
)
def test_the_main_loop_of_warpgroups_is_the_one_that_multiplies(types: Types, modifiers: str, opcode: str) -> None:
    problem = Problem(4096, 4096, 4096, types=types, layout="rc")
    plan = WGMMA.plan(problem, WGMMA.default(problem))
    text = WARPGROUP_LOOP.replace("MULTIPLY", f"{opcode}.{modifiers}")
    loop = read_sass(text, plan.instruction).main_loop
    assert loop.counts == {"SYNCS": 2, "BRA": 2, "WARPGROUP": 2, opcode: 2, "R2UR": 1}


def test_without_a_loop_the_kernel_is_the_main_loop() -> None:
    sass = read_sass("/*0000*/ FFMA R0, R1, R2, R0 ;\n/*0010*/ EXIT ;")
    assert sass.main_loop == sass.kernel and sass.kernel.total == 2


def test_what_a_branch_jumps_over_runs_less_often_unless_it_holds_an_fma() -> None:
    loop = read_sass(LISTING).loop
    assert [one.opcode for one in loop.instructions if one.skipped] == ["BAR", "LDGSTS", "LDGSTS"]
    assert loop.issued() == 11 and loop.issued(1 / 8) == 8 + 3 / 8


def test_wavefronts_follow_the_width_of_an_access_and_the_words_that_lanes_share() -> None:
    loop = read_sass(LISTING).loop
    assert loop.wavefronts(("LDS",)) == 4 + 2
    assert loop.wavefronts(("LDS",), per_word=0.5) == 2 + 1
    assert loop.wavefronts(("LDS",), per_word=0.25) == 1 + 1  # an access takes a cycle at least
    assert loop.wavefronts(("STS", "LDGSTS")) == 4 + 1
    assert loop.wavefronts(("STS", "LDGSTS"), often=1 / 8) == 5 / 8


@pytest.mark.parametrize(
    ("fma", "before", "cycles"),
    [
        (ffma("R1", "R2", "R4"), ffma("RZ", "RZ", "RZ"), 2),  # two of an even number
        (ffma("R2", "R4", "R6"), ffma("RZ", "RZ", "RZ"), 3),
        (ffma("R1", "R2", "RZ"), ffma("RZ", "RZ", "RZ"), 1),  # RZ is no register
        (ffma("R1", "c[0x0][0x210]", "R2"), ffma("RZ", "RZ", "RZ"), 1),
        (ffma("-R4", "R4", "R1"), ffma("RZ", "RZ", "RZ"), 1),  # read once
        (ffma("R2", "R4", "R5"), ffma("R2.reuse", "RZ", "RZ"), 1),  # R2 was kept
        (ffma("R4", "R2", "R5"), ffma("R2.reuse", "RZ", "RZ"), 2),  # in another place
        (ffma("R2", "R4", "R5"), ffma("R2", "RZ", "RZ"), 2),  # it was not kept
    ],
)
def test_operands_of_one_bank_are_read_in_turn_unless_kept(fma: Instruction, before: Instruction, cycles: int) -> None:
    assert Loop((before, fma)).operand_cycles == cycles - 1


def test_what_is_kept_outlasts_other_instructions_and_the_turn_of_the_loop() -> None:
    first, second = ffma("R2.reuse", "R4", "R5"), ffma("R2.reuse", "R6", "R7")
    assert Loop((first, second)).operand_cycles == 0
    assert Loop((first, Instruction("LDS", ".128", " R8, [R2] ;"), second)).operand_cycles == 0


def work(depth: int, k_unroll: int) -> Work:
    """Of a kernel whose loop over a step of `depth` writes out `k_unroll` of it; 0 for all."""
    return Work(64, depth, 4, 64, 8, 2, 64, 8192, 1, 128, k_unroll=k_unroll)


def test_the_fma_pipe_shares_issue_with_everything_else() -> None:
    loop = read_sass(LISTING).loop
    # R8, R12 and R20 in 0060 are of one bank, R8 being kept for 0070; so are R12 and R22 in 0090, and R13 and R21.
    use = fma_use(loop, work(depth=32, k_unroll=4), ARCHS["sm_90"], DType.F32)
    assert (use.fmas, use.instructions, use.operand_cycles) == (3, 8.375, 2 + 1 + 1)
    assert use.share == pytest.approx(3 / 8.375)
    assert use.allowed == pytest.approx(3 / 12.375)
    assert fma_use(loop, work(depth=8, k_unroll=0), ARCHS["sm_90"], DType.F32).instructions == 11


def test_operands_are_counted_only_where_that_was_verified() -> None:
    whole, loop = work(depth=8, k_unroll=0), Loop((ffma("R2", "R4", "R6"), Instruction("IADD3")))
    assert fma_use(loop, whole, ARCHS["sm_90"], DType.F32).operand_cycles == 2
    assert fma_use(loop, whole, ARCHS["sm_89"], DType.F32).operand_cycles is None
    assert fma_use(loop, whole, ARCHS["sm_89"], DType.F32).allowed == 0.5
    assert fma_use(loop, whole, ARCHS["sm_80"], DType.F32).allowed == 1  # 16 lanes a scheduler: a cycle is free
    doubles = Loop((Instruction("DFMA", "", " R0, R2, R4, R6 ;"),) * 3 + (Instruction("LDS"),) * 5, "DFMA")
    assert fma_use(doubles, whole, ARCHS["sm_90"], DType.F64).operand_cycles is None
    assert fma_use(doubles, whole, ARCHS["sm_90"], DType.F64).allowed == 6 / 8
