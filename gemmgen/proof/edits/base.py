"""What a right edit is: a change to a correct kernel that leaves it correct."""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.proof.bugs import Subject


@dataclass(frozen=True)
class Edit:
    """`changes` of `subject`'s text: the first of each, found exactly once, becomes the second.

    dynamic_shared  bytes that the edited kernel is launched with; None: as before
    judged          whether the emulator can say; else it must say that it cannot
    """

    name: str
    subject: Subject
    changes: tuple[tuple[str, str], ...]
    dynamic_shared: int | None = None
    judged: bool = True
