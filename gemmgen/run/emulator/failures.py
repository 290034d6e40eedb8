"""What the emulator raises."""

from __future__ import annotations

from gemmgen.support.errors import CandidateFailed, Failure, FailureKind


def failed(kind: FailureKind, reason: str) -> CandidateFailed:
    return CandidateFailed(Failure(kind, reason, "emulator"))
