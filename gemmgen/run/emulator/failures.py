"""The failures that the emulator raises."""

from __future__ import annotations

from gemmgen.support.errors import CandidateFailed, Failure, FailureKind

EMULATOR = "emulator"  # source of a Failure


def failed(kind: FailureKind, reason: str, source: str = EMULATOR) -> CandidateFailed:
    return CandidateFailed(Failure(kind, reason, source))
