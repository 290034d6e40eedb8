"""Inline PTX in the text that the emulator compiles: each `asm` statement as C++ that does the same."""

from __future__ import annotations

from gemmgen.run.emulator.ptx.statements import translated

__all__ = ["translated"]
