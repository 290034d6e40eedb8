"""The axes of `skinny`, what they must hold, and what the search leaves out."""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.families.base import CUDA_CORES, PDL_CONSTRAINTS, PDL_LAST, SPLIT_CONSTRAINTS, pdl_axis, rules, split_axis
from gemmgen.kernel.config import Config, axis
from gemmgen.kernel.prepare import PACKED_COLUMNS
from gemmgen.problem.sizes import TILE_REACH

MOST_SMALL = 64  # lines of the small operand up to which streaming its partner is the plan


@dataclass(frozen=True)
class SkinnyConfig(Config):
    """The axes of `skinny`."""

    PATTERN = (
        "s{S}_t{T}[_l{LANES}]_w{WARPS}_k{BK}_u{UNROLL}[_d{DEPTH}][_async{ASYNC}][_mma{MMA}]_v{VEC}_split{SPLIT}"
        "[_pdl{PDL}]"
    )

    S: int = axis(8, (1, 2, 4, 8, 16, 32), "lines (rows or columns) of the small operand in a block: uses of a weight")
    T: int = axis(4, (1, 2, 4, 8, 16, 32, 64), "elements along C's long side that a thread sums")
    LANES: int = axis(32, (32, 16, 8, 4, 2), "lanes of a warp along C's long side; its other lanes take other k")
    WARPS: int = axis(4, (2, 4, 8, 16), "warps of a block")
    BK: int = axis(256, (0, 128, 256, 512, 1024, 2048), "k of the small operand that shared memory holds at once")
    UNROLL: int = axis(2, (2, 4, 8, 16), "steps along K whose weights are under way at once")
    DEPTH: int = axis(1, (1, 2, 4, 8), "neighbouring k of a lane at a step, where weights run across C")
    ASYNC: int = axis(0, (1, 0), "1: weights under way are cp.async copies to shared memory, 0: loads to registers")
    MMA: int = axis(0, (0, 1), "1: tensor cores multiply 8 lines of the small operand at once, 0: FMAs do")
    VEC: int = axis(4, (4, 1), "widest access, in units of 4 bytes: 1, 2 or 4")
    SPLIT: int = split_axis()
    PDL: int = pdl_axis(0)


CHECKED = {
    "ELEMENT_BYTES == 4": "the family's shuffles move sums of 4 bytes: f32 or s32",
    "BATCH == 1": "it serves no batches",
    "SUMMED == 0": "its threads share rows and columns: pass the sums as sum_m and sum_n",
    "S >= 1 and T >= 1 and LANES >= 1 and WARPS >= 1 and UNROLL >= 1": "counts start at one",
    "VEC == 1 or VEC == 2 or VEC == 4": "an access is 4, 8 or 16 bytes wide",
    "BK <= 8192 and SPLIT * STEP <= 32768": "indices past the end of K must stay below 2^31",
    "LANES == 32 or ALONG_K == 0": "where weights run along k, a warp's lanes lie along k as well",
    "DEPTH >= 1": "counts start at one",
    "DEPTH == 1 or ALONG_K == 0": "if weights run along k, the vector width sets the number of k",
    "ASYNC <= 1": "a switch is 0 or 1",
    "ASYNC == 0 or UNIFORM == 0": "operands that need no conversion go to registers",
    # On tensor cores: m16n8k16, whose rows are weights
    "MMA <= 1": "a switch is 0 or 1",
    "MMA == 0 or MMA_SINCE <= ARCH": "the architecture has no instruction with 16 k for these types",
    "MMA == 0 or BK == 0": "fragments of the small operand come straight to registers",
    "MMA == 0 or X_ALONG_K == 1": "a register of a fragment holds two neighbouring k",
    "DEPTH == 1 or UNIFORM == 0": "operands that nothing converts are taken a k at a time",
    # Codes
    "CODES == 0 or MMA == 1": "numbers that codes stand for are made as fragments for tensor cores",
    "CODES == 0 or ASYNC == 0": "packed codes go to registers",
    "CODES == 0 or VEC == 4": "a thread's codes of a chunk lie side by side",
    "CODES * PROMOTED == 0": "only naive and wgmma multiply sums of codes by scales",
    "CODES == 0 or K > 0 and K % CODES_K == 0": "numbers of codes are made for all k of an access",
    "STEP % CODES_CHUNK == 0": "the codes of a block's next step begin a chunk",
    f"CODES == 0 or {PACKED_COLUMNS} % T == 0": f"a chunk of packed codes has {PACKED_COLUMNS} columns",
}

ASSERTED = {
    "THREADS <= MAX_THREADS": "the architecture bounds the threads of a block",
    "CODES == 1 or S * T <= 256": "larger tiles of sums exceed the registers",
    "CODES == 0 or S * T <= 1024": "larger tiles of sums exceed the registers",
    "BK % (UNROLL * STEP) == 0": "a chunk is a whole number of the steps that registers hold",
    f"CODES == 1 or 2 * UNROLL * STEP <= {TILE_REACH}": "loads that run ahead stay near the edge of K",
    "PARTIALS > 1 or 32 % (S * T) == 0 or S * T % 32 == 0": "lanes halve the sums until each has its own",
    "32 % LANES == 0": "a warp is a whole number of groups of lanes",
    "ASYNC <= HAS_CP_ASYNC": "cp.async needs sm_80 or newer",
    "ASYNC == 0 or W_BYTES * VW >= 4": "cp.async copies 4, 8 or 16 bytes",
    # On tensor cores: m16n8k16, whose rows are weights
    "MMA == 0 or S % 8 == 0": "an instruction takes 8 lines of the small operand",
    "MMA == 0 or XW % 2 == 0": "loads of the small operand bring whole pairs of k",
    "MMA == 0 or ALONG_K == 0 or T % 16 == 0 and VW % 4 == 0": "a warp takes 16 lines of weights at once",
    "MMA == 0 or ALONG_K == 1 or LANES == 8 and DEPTH % 4 == 0": "a lane takes 4 of an instruction's 16 k",
    "MMA == 0 or ALONG_K == 1 or VW % 2 == 0": "a lane takes two of an instruction's 16 rows",
    "GROUPS % (S * T) == 0 or S * T % GROUPS == 0": "groups halve the sums until each has its own",
    "SHARED_BYTES <= MAX_SHARED_BYTES": "the architecture bounds the shared memory of a block",
}

SLOW = {
    "SMALL >= 1": "neither M nor N is known to be small: use simt",
    f"SMALL <= {MOST_SMALL}": "with large M and N, tiles of both operands are reused: use simt",
    "S < 2 * SMALL or MMA == 1 and S == 8": "most of the sums would belong to lines outside of the operand",
    "4 * S >= SMALL": "more than four blocks would read the same weights",
    "T * LANES * W_BYTES >= 32": "blocks would read less of a line than a sector of 32 bytes",
    "LANES == 32 or SPLIT <= 4 - 2 * UNIFORM + 4 * MMA": "narrow tiles fill the card in place of a split",
    "T <= 8 or T == 16 and ALONG_K == 0 and W_BYTES <= 2 or MMA == 1": (
        "so many sums leave few registers for weights in flight"
    ),
    "VEC == 4": "narrower accesses only add instructions (lines that are not aligned narrow their own)",
    "LOADS * UNROLL * VW * W_BYTES >= 32": "fewer than 32 bytes in flight per lane do not hide the latency",
    "SUMS + HELD * (LOADS * VW * W_BYTES + LANE_LINES * LANE_K * X_BYTES * (BK == 0)) / 4 <= 192": (
        "sums, and loads of both operands in flight, exceed the registers"
    ),
    "UNIFORM == 1 or ALONG_K == 1 or T * W_BYTES >= 16": "a thread's weights do not fill an access of 16 bytes",
    "UNIFORM == 1 or T * LANES * W_BYTES >= 64": "blocks read fewer than 64 contiguous bytes of a line",
    "UNIFORM == 1 or WARPS > 2": "small blocks mean many blocks per SM, and each start costs time",
    "BK > 0 or UNIFORM == 1 or ALONG_K == 1 or DEPTH >= 4": "the small operand would be loaded element by element",
    "BK == 0 or DEPTH == 1": "UNROLL keeps steps in flight as well",
    "UNIFORM == 1 or BK == 0 or BK >= 512": "barriers between short chunks stall the loads",
    "UNIFORM + CODES >= 1 or LOADS * UNROLL * VW * W_BYTES >= 128": (
        "fewer than 128 bytes in flight per lane do not hide the latency"
    ),
    "UNIFORM == 1 or LOADS * UNROLL * VW * W_BYTES <= 256 + 256 * ASYNC": (
        "more bytes in flight reduce the number of warps per SM"
    ),
    "UNIFORM == 0 or BK <= 1024": "longer chunks of 4-byte elements have not been measured",
    "BK > 0 or S <= 8 or MMA == 1": "every thread would read most of the small operand itself",
    "S * T * UNROLL * LANE_K <= 2048 or MMA == 1": "the unrolled loop exceeds the instruction cache",
    "S * BK <= 16384": "a chunk of more than 64 KB leaves an SM short of blocks",
    "K == 0 or SPLIT == 1 or K / SPLIT >= UNROLL * STEP": "the parts of K are too short for the steps in flight",
}

CONSTRAINTS = rules(CHECKED, ASSERTED, *SPLIT_CONSTRAINTS, *PDL_CONSTRAINTS, CUDA_CORES)
PRUNING = rules(SLOW, {}, PDL_LAST)
