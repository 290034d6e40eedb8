"""Right edits of kernels that TMA feeds."""

from __future__ import annotations

from gemmgen.verification.bugs.subjects import WGMMA_CR, WGMMA_PROMOTED, WGMMA_RC
from gemmgen.verification.edits.base import Edit

WGMMA_EDITS = (
    Edit("no products in flight while the next stage is awaited", WGMMA_RC, (
        ("wgmma_wait<1>();", "wgmma_wait<0>();"),
        ("if (leads && k > 0) mbarrier_arrive(&shared.empty[previous]);",
            "if (leads) mbarrier_arrive(&shared.empty[ring.stage]);"),
        ("        if (leads && s.K > 0) mbarrier_arrive(&shared.empty[previous]);\n", ""))),
    Edit("another thread of the producer", WGMMA_CR, (
        ("if (threadIdx.x > CONSUMERS * 128) return;", "if (threadIdx.x != CONSUMERS * 128 + 37) return;"),)),
    Edit("every thread of a consumer arrives", WGMMA_PROMOTED, (
        ("mbarrier_init(&shared.empty[stage], CONSUMERS)", "mbarrier_init(&shared.empty[stage], 128 * CONSUMERS)"),
        ("if (leads) mbarrier_arrive", "mbarrier_arrive"))),
)  # fmt: skip
