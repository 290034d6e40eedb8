"""What a request says of its operands: the same for each that runs, or multiplies, them."""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.problem.case import Case
from gemmgen.run.gpu.arena import ImageKey
from gemmgen.run.gpu.shared import Sent


@dataclass(frozen=True)
class Given:
    """Operands of one launch, and where its results may go.

    seed    of where they lie on the device
    key     of their image, which the worker may have kept; None where it keeps none
    sent    the operands, unless their image is kept: the worker asks for those that it lacks
    shared  path of the memory that the executor shares; None where there is none
    """

    case: Case
    seed: int
    key: ImageKey | None
    sent: Sent
    shared: str | None
