"""Comparison of a study with the source document's results on its card, and why the two differ.

Rates of different cards do not compare, so each is taken relative to the document's best point. Possible reasons for a
difference are computed for the same kernel and problem on both cards: warps per SM, how evenly the grid divides, memory
per FMA, and the rate that shared-memory reads allow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gemmgen.judge.explain import Explanation
from gemmgen.kernel.model import occupancy
from gemmgen.lab.study.engine import StudyResult, StudyRow
from gemmgen.lab.study.points import REPORTED_CARD, REPORTED_DTYPE
from gemmgen.lab.study.reasons import number, resident_warps, shared_reads
from gemmgen.problem.device import WARP, DeviceSpec, device_named
from gemmgen.support.words import plural

ALIKE = 0.15  # relative difference of two shares that needs no reason
TELLING = 0.1  # relative difference of a cause that can be one
NEAR_GLOBAL = 10  # FLOP for each byte that a block reads: below it global memory, or L2, holds the kernel back


@dataclass(frozen=True)
class Beside:
    """One point here and in the document.

    reported, tflops      TFLOPS there and here; 0 if it does not run
    reported_share, share the same, relative to the study's reference point
    why                   the reason for the difference, in one sentence
    """

    label: str
    reported: float
    reported_share: float
    tflops: float
    share: float
    why: str


def reference(result: StudyResult) -> StudyRow | None:
    """The point that is the document's best; None if it reports nothing comparable, or if that point does not run."""
    comparable = result.problem.types.accumulator == REPORTED_DTYPE
    reported = [row for row in result.rows if row.point.reported and comparable]
    best = max(reported, key=lambda row: row.point.reported or 0, default=None)
    return best if best is not None and best.runs else None


def beside(result: StudyResult) -> list[Beside]:
    """A comparison for every point that the document reports, in the study's order; empty without a reference."""
    base = reference(result)
    if base is None or not base.point.reported:
        return []
    there, here = base.point.reported, base.tflops(result.case)
    compared = []
    for row in result.rows:
        if row.point.reported is not None:
            reported, tflops = row.point.reported, row.tflops(result.case)
            shares = reported / there, tflops / here
            compared.append(
                Beside(row.point.label, reported, shares[0], tflops, shares[1], _why(row, base, shares, result))
            )
    return compared


def _why(row: StudyRow, base: StudyRow, shares: tuple[float, float], result: StudyResult) -> str:
    reported, here = shares
    if not row.runs:
        return "it does not run here either" if reported == 0 else f"it does not run here: {row.reason}"
    if reported == 0:
        return _launches(row)
    if row is base:
        return "the document's best: the others are held against it"
    if abs(here / reported - 1) <= ALIKE:
        return "as in the document"
    causes = list(_causes(row, base, here > reported, result))
    direction = "faster" if here > reported else "slower"
    if not causes:
        causes = [_unexplained(result)]
    return f"relatively {direction} here: {'; '.join(causes)}"


def _launches(row: StudyRow) -> str:
    """Explain a launch that failed in the document: its kernel asked for more registers than such a block may have."""
    assert row.explanation is not None and row.explanation.compiled is not None
    compiled, threads = row.explanation.compiled, row.explanation.kernel.source.launch.threads
    price = f" and spills {compiled.spill_bytes:,} bytes" if compiled.spill_bytes else ""
    return (
        f"it did not launch there. Here __launch_bounds__ tells the compiler of {threads:,} threads: it keeps to "
        f"{compiled.registers} registers{price}"
    )


def _causes(row: StudyRow, base: StudyRow, faster: bool, result: StudyResult) -> Iterator[str]:
    """The differences between the document's card and this one that go in the same direction as the result."""
    it, other = row.explanation, base.explanation
    assert it is not None and other is not None
    card, theirs = result.device, device_named(REPORTED_CARD)

    def tells(measure: Callable[[Explanation, DeviceSpec], float]) -> bool:
        """Whether `measure`, where more is faster, changed in the same direction as the result, relative to the
        reference."""
        moved = measure(it, card) / measure(other, card) / (measure(it, theirs) / measure(other, theirs))
        return moved > 1 + TELLING if faster else moved < 1 - TELLING

    if tells(_warps):
        yield (
            f"an SM holds {plural(_warps(it, card), 'warp')}, and {plural(_warps(other, card), 'warp')} of "
            f"{base.point.label}; there {_warps(it, theirs)} and {_warps(other, theirs)}"
        )
    if tells(_evenness):
        yield (
            f"its {plural(_blocks(it), 'block')} keep {card.sms} SMs {_evenness(it, card):.0%} busy, and the "
            f"{_blocks(other)} of {base.point.label} {_evenness(other, card):.0%}; on {theirs.sms} SMs "
            f"{_evenness(it, theirs):.0%} and {_evenness(other, theirs):.0%}"
        )
    supply, demanded = _bytes_per_flop(card), _bytes_per_flop(theirs)
    if it.traffic.intensity < NEAR_GLOBAL <= other.traffic.intensity and (supply > demanded) == faster:
        yield (
            f"it lives on global memory, which has {number(supply)} bytes for each FLOP of the card's peak here and "
            f"{number(demanded)} there"
        )
    reached, reads = (row.point.reported or 0) / theirs.tflops(REPORTED_DTYPE), shared_reads(it)
    # An SM serves one warp's read a cycle at most.
    allowed = WARP / theirs.arch.lanes(REPORTED_DTYPE) / reads if reads else 1.0
    if not faster and reached > allowed:
        yield (
            f"{number(reads)} shared reads per FMA allow {allowed:.0%} of that card's limit at most, and the "
            f"document's kernel reached {reached:.0%}: its compiler must have kept more in registers"
        )
    if it.compiled is not None and it.compiled.spill_bytes and faster:
        yield f"the compiler spilled {it.compiled.spill_bytes:,} bytes here; what it spilled there is not reported"


def _unexplained(result: StudyResult) -> str:
    if device_named(REPORTED_CARD).is_card(result.device.name):
        kind = (
            "the kernels differ" if result.kind == "measured" else "the kernels differ, and these times are predicted"
        )
        return f"the same card: {kind}"
    model = ", or the model is wrong" if result.kind == "predicted" else ""
    return f"neither warps an SM nor the grid nor memory explains it: the kernels or their compilers differ{model}"


def _warps(it: Explanation, card: DeviceSpec) -> int:
    """Warps of this kernel that an SM of `card` holds, with the registers that it takes here."""
    fit = occupancy(card.arch, it.kernel.source.launch.threads, it.prediction.registers, it.prediction.shared_bytes)
    return max(1, resident_warps(it, card, fit.blocks))


def _evenness(it: Explanation, card: DeviceSpec) -> float:
    """The evenness of the grid: blocks over the busiest SM's blocks times the SMs; 1 if the grid divides evenly."""
    blocks = _blocks(it)
    return blocks / (-(-blocks // card.sms) * card.sms)


def _blocks(it: Explanation) -> int:
    return it.kernel.source.launch.blocks(it.case)


def _bytes_per_flop(card: DeviceSpec) -> float:
    return card.bandwidth / (card.tflops(REPORTED_DTYPE) * 1000)
