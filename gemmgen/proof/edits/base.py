"""The record of a right edit: a change to a correct kernel that leaves it correct."""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.proof.bugs import Subject


@dataclass(frozen=True)
class Edit:
    """An edit of `subject`'s text by `changes`: the first text of each, found exactly once, becomes the second.

    dynamic_shared  dynamic shared memory of the edited kernel's launch, in bytes; None: as before
    judged          whether the emulator can judge it; if not, it must report that
    """

    name: str
    subject: Subject
    changes: tuple[tuple[str, str], ...]
    dynamic_shared: int | None = None
    judged: bool = True
