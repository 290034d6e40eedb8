"""The operands of a request: the same for requests that run a kernel and that multiply."""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.problem.gemm import Case
from gemmgen.run.gpu.arena import ImageKey
from gemmgen.run.gpu.shared import Sent


@dataclass(frozen=True)
class Given:
    """Operands of one launch, and the place for its results.

    seed    seed of their place on the device
    key     key of their image, which the worker may have kept; None if it keeps none
    sent    the operands, or None if their image is kept: the worker asks for operands that it lacks
    shared  path of the executor's shared memory; None if there is none
    """

    case: Case
    seed: int
    key: ImageKey | None
    sent: Sent
    shared: str | None
