"""Kernels for cards that were not at hand, as README.md shows them: the model's predictions, and what was verified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gemmgen.families import plan_of
from gemmgen.kernel.model import MODEL_ERROR
from gemmgen.lab.markdown import markdown_line
from gemmgen.lab.scores import NONE, Score, link, made_how, number, times, verified

MEANING = (
    "No such card was at hand when these were made, and nothing here is a measurement. Each kernel has the least time",
    "that the model predicts, by the data sheet of the card that the row names, among candidates that were compiled",
    "for this architecture and spill no registers. The model was fitted to an H200, where it cannot tell kernels",
    f"within {MODEL_ERROR:.0%} of each other apart; of other cards it knows less. The emulator verified each kernel",
    "with the architecture's arithmetic: that of tensor cores was recorded on sm_90, and comes from the literature",
    "elsewhere. Verified: situations passed; in part: only some tiles of C ran, as the launch is large.",
)


def is_predicted(score: Score) -> bool:
    """Whether the row's time is the model's."""
    return not score.bench and (score.record.get("time") or {}).get("kind") == "predicted"


def predicted_page(scores: Sequence[Score]) -> Iterator[str]:
    """Lines of README.md, for rows that are predicted."""
    yield from ("## Predicted, not measured", "", *MEANING, "")
    yield "| problem | card | us | TFLOPS | bound by | registers | shared memory, bytes | verified | kernel |"
    yield "|---|---|---:|---:|---|---:|---:|---|---|"
    for score in scores:
        time, resources = score.record["time"], score.record.get("resources") or {}
        yield markdown_line(
            str(score.problem),
            str(time.get("device", NONE)),
            *times(time),
            _bound(score),
            number(resources.get("registers"), "{:,}"),
            number(_shared_bytes(score, resources), "{:,}"),
            verified(score.record),
            link(score.kernel) if score.kernel else NONE,
        )
    yield ""
    yield from (f"- {how}" for how in sorted({made_how(score.record) for score in scores}))
    yield ""


def _bound(score: Score) -> str:
    """The resource that takes longest by the model."""
    bound = str(score.record["time"].get("bound", NONE))
    return plan_of(score.kernel.source).units if bound == "FMA" and score.kernel else bound


def _shared_bytes(score: Score, resources: dict[str, Any]) -> int | None:
    """Shared memory per block: static as compiled, plus dynamic as launched."""
    if score.kernel is None or "shared_bytes" not in resources:
        return None
    return int(resources["shared_bytes"]) + score.kernel.source.launch.shared_bytes
