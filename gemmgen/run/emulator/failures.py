"""What the emulator raises."""

from __future__ import annotations

from gemmgen.support.errors import CandidateFailed, Failure, FailureKind

EMULATOR = "emulator"  # the source of its failures


def failed(kind: FailureKind, reason: str, source: str = EMULATOR) -> CandidateFailed:
    return CandidateFailed(Failure(kind, reason, source))
