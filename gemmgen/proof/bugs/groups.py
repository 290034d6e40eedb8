"""Bugs of kernels of wgmma that multiply groups of rows or along K: where tiles begin and end, and what is stored."""

from __future__ import annotations

from gemmgen.proof.bugs import subjects as on
from gemmgen.proof.bugs.base import (
    BEHIND,
    DEADLOCK,
    DIVISION,
    POISON,
    RACE,
    RACE_C,
    READS,
    UNWRITTEN,
    VALUE,
    WRITES,
    Bug,
    Diagnosis,
)
from gemmgen.proof.bugs.wgmma import BYTES, TOO_MANY, UNDER_WAY

OFF = (VALUE, POISON)
ENDLESS = Diagnosis("timeout", "still runs")  # no group has the tile
BESIDE = Diagnosis("crash", "TMA leaves the tensor")
LEFT_OVER = Diagnosis("crash", "ends with a TMA load that no thread has waited for")
OTHERS = (*OFF, BEHIND, RACE_C)  # rows of another group, or of none, are written

GROUP_BUGS: tuple[Bug, ...] = (
    # Which tile
    Bug("a warp's groups count only their own tiles", "prefix sum", on.WGMMA_GROUPS,
        "if (lane >= distance) tiles += below;", "", (*OTHERS, WRITES, ENDLESS)),
    Bug("a prefix sum that leaves out a lane", "prefix sum", on.WGMMA_GROUPS, "lane >= distance", "lane > distance",
        (*OTHERS, WRITES, ENDLESS)),
    Bug("tiles of the first 32 groups are all", "prefix sum", on.WGMMA_GROUPS, "return of_lane(all, 0);",
        "return of_lane(tiles, 31);", OFF),
    Bug("tiles before the next 32 groups are forgotten", "prefix sum", on.WGMMA_GROUPS, "before += all;", "",
        (*OTHERS, WRITES, DEADLOCK, ENDLESS)),
    Bug("the next groups begin a group early", "off by one", on.WGMMA_GROUPS, "first += 32;", "first += 31;",
        (*OTHERS, WRITES)),
    Bug("a tile of the group before", "off by one", on.WGMMA_GROUPS, "tiles > number", "tiles >= number",
        (*OTHERS, WRITES, DEADLOCK, DIVISION)),
    Bug("behind an empty group one is left out", "groups", on.WGMMA_GROUPS_FEW, "begin = end_of(offs, group - 1);",
        "begin = group > 1 && end_of(offs, group - 1) == end_of(offs, group - 2) ? end_of(offs, group) "
        ": end_of(offs, group - 1);", (*OFF, DEADLOCK)),
    Bug("ends are taken for sizes", "groups", on.WGMMA_GROUPS_FEW, "begin = end_of(offs, group - 1);", "begin = 0;",
        (*OTHERS, WRITES)),
    Bug("no last end", "guard", on.WGMMA_GROUPS_FEW, "offs[min(group, 4)]", "offs[group]", (READS,)),
    Bug("tiles begin at multiples of a tile, whatever their group", "groups", on.WGMMA_GROUPS,
        "from + (above + within % height) * BM", "from / BM * BM + (above + within % height) * BM", OTHERS),
    Bug("the next group's B", "groups", on.WGMMA_GROUPS_FEW, "lane, to}", "lane + 1, to}", OFF),
    Bug("every group's B is the first one's", "groups", on.WGMMA_GROUPS, "tile.n, tile.group)", "tile.n, 0)", OFF),
    Bug("the last tile rows of a group are as many as others", "raster", on.WGMMA_GROUPS,
        "min(GROUP, rows - above)", "GROUP", (*OTHERS, WRITES)),
    Bug("all lanes of the producer's warp copy", "arrivals", on.WGMMA_GROUPS, "if (!loads) continue;", "",
        (TOO_MANY, BYTES, DEADLOCK)),
    # Vectors by group
    Bug("every group's scales are the first one's", "groups", on.WGMMA_GROUPS_SCALED,
        "scale_n + n + static_cast<long long>(tile.group) * s.N", "scale_n + n", OFF),
    Bug("the last tile of a group has the next one's bias", "groups", on.WGMMA_GROUPS_SCALED,
        "bias_n + n + static_cast<long long>(tile.group) * s.N",
        "bias_n + n + static_cast<long long>(min(tile.group + (tile.m + BM >= tile.end), 4)) * s.N", OFF),
    Bug("a group's scales begin an element behind the last's", "groups", on.WGMMA_GROUPS_SCALED,
        "scale_n + n + static_cast<long long>(tile.group) * s.N", "scale_n + n + tile.group", OFF),
    # Consumers without rows
    Bug("a consumer with some of the rows lets them pass", "groups", on.WGMMA_GROUPS,
        "tile.m + consumer * 64 >= tile.end", "tile.m + (consumer + 1) * 64 > tile.end", OFF),
    Bug("a consumer without rows releases stages before they are full", "release", on.WGMMA_GROUPS,
        "mbarrier_wait(&shared.full[ring.stage], ring.parity); named_barrier_sync(1 + consumer, 128); release_stage(",
        "release_stage(", (TOO_MANY, DEADLOCK, UNDER_WAY)),
    # Stores of C
    Bug("TMA stores the last tile of a group as a whole", "store", on.WGMMA_GROUPS,
        "if (m + 64 > tile.end) store_rows(", "if (false) store_rows(", OTHERS),
    Bug("TMA stores a piece whose first row is the group's", "store", on.WGMMA_GROUPS_FEW,
        "if (m + CM > tile.end) store_rows(", "if (m >= tile.end) store_rows(", OTHERS),
    Bug("threads store all rows of the last piece", "store", on.WGMMA_GROUPS, "if (m < rows && n < columns)",
        "if (n < columns)", (*OTHERS, WRITES)),
    Bug("threads store columns that C lacks", "guard", on.WGMMA_GROUPS, "if (m < rows && n < columns)",
        "if (m < rows)", (*OTHERS, WRITES)),
    Bug("a row too few is stored", "off by one", on.WGMMA_GROUPS_FEW, "if (m < rows && n < columns)",
        "if (m + 1 < rows && n < columns)", OFF),
    Bug("pieces that threads store commit no group of stores", "commit", on.WGMMA_GROUPS,
        "else if (leads) tma_store_2d(&map_c, c, n, m); if (leads) tma_store_commit();",
        "else if (leads) { tma_store_2d(&map_c, c, n, m); tma_store_commit(); }", (UNDER_WAY, *OFF)),
    Bug("TMA loads rows that another block may store", "load", on.WGMMA_GROUPS, "if (m + 64 <= tile.end) {",
        "if (m < tile.end) {", (RACE_C,)),
    Bug("C's old elements are read while others load them", "named barrier", on.WGMMA_GROUPS,
        "s.N - n, c); named_barrier_sync(1 + consumer, 128); }", "s.N - n, c); }", (RACE, *OFF)),
    # Masked groups
    Bug("rows that do not count are stored", "store", on.WGMMA_MASKED, "if (m + 64 > tile.end) store_rows(",
        "if (false) store_rows(", (*OTHERS, UNWRITTEN)),
    Bug("the last rows of every group are stored to the first one's C", "masked groups", on.WGMMA_MASKED,
        "store_rows(C + matrix * s.stride_c + ", "store_rows(C + ", OTHERS),
    Bug("every group's A is the first one's", "masked groups", on.WGMMA_MASKED, "tile.m, matrix)", "tile.m, 0)", OFF),
    Bug("the numbers of rows do not end", "guard", on.WGMMA_MASKED, "group < 5 ? group_rows[group] : 0",
        "group_rows[group]", (READS,)),
    # Groups along K
    Bug("behind a group's last k A has the next group's", "zeros", on.WGMMA_ALONG_K,
        "tile.m, BOUND - depth + k, BOUND, end)", "tile.m, end - depth + k, 0, 0)", (*OFF, BESIDE)),
    Bug("behind a group's last k B has the next group's", "zeros", on.WGMMA_ALONG_K,
        "tile.n, BOUND - depth + k, BOUND, end)", "tile.n, end - depth + k, 0, 0)", (*OFF, BESIDE)),
    Bug("A begins where B's k tile ends", "off by one", on.WGMMA_ALONG_K, "tile.m, BOUND - depth + k, BOUND, end)",
        "tile.m, BOUND - depth + k, BOUND, end + 1)", (*OFF, BESIDE)),
    Bug("no k, no C", "groups along K", on.WGMMA_ALONG_K, "alpha = depth > 0 ? given_alpha : 0.0f;",
        "if (depth == 0) continue; alpha = given_alpha;", OFF),
    Bug("an infinite alpha scales no k", "alpha", on.WGMMA_ALONG_K, "depth > 0 ? given_alpha : 0.0f", "given_alpha",
        OFF),
    Bug("behind a group without k alpha is 0", "alpha", on.WGMMA_ALONG_K, "depth > 0 ? given_alpha : 0.0f",
        "depth > 0 ? alpha : 0.0f", OFF),
    Bug("of no k a stage is released", "release", on.WGMMA_ALONG_K, "if (depth > 0) release_stage(",
        "release_stage(", (TOO_MANY, DEADLOCK, RACE, *OFF)),
    Bug("the first group begins at the end before it", "guard", on.WGMMA_ALONG_K, "group > 0 ? offs[group - 1] : 0",
        "offs[group - 1]", (READS, *OFF, DEADLOCK)),
    Bug("the k tiles of another's turn are those of one's own group", "groups along K", on.WGMMA_ALONG_K_TURNS,
        "(number + step + i * step) / tiles", "matrix", (DEADLOCK, RACE, TOO_MANY, UNDER_WAY, *OFF)),
    Bug("a group's last k tile is not another's turn", "groups along K", on.WGMMA_ALONG_K_TURNS,
        "(depth_of(offs, group) + BK - 1) / BK : 0", "depth_of(offs, group) / BK : 0",
        (DEADLOCK, RACE, TOO_MANY, UNDER_WAY, LEFT_OVER, *OFF)),
)  # fmt: skip
