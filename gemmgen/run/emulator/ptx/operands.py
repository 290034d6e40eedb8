"""An instruction of PTX and its operands, as text and as the C++ that templates/device/host/ptx.hpp takes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gemmgen.support.errors import InvalidInput

DIMENSIONS = {
    "tid": "threadIdx",
    "ntid": "blockDim",
    "ctaid": "blockIdx",
    "nctaid": "gridDim",
}
LANE, BELOW = "::gemmgen::lane()", "((1u << ::gemmgen::lane()) - 1)"
SPECIAL = {
    **{f"%{name}.{axis}": f"uint32_t({of}.{axis})" for name, of in DIMENSIONS.items() for axis in "xyz"},
    "%laneid": LANE,
    "%warpid": "::gemmgen::ptx::special_warpid()",
    "%nwarpid": "uint32_t((blockDim.x + 31) / 32)",
    "%smid": "uint32_t(0)",
    "%lanemask_eq": f"(1u << {LANE})",
    "%lanemask_lt": BELOW,
    "%lanemask_le": f"({BELOW} | 1u << {LANE})",
    "%lanemask_gt": f"~({BELOW} | 1u << {LANE})",
    "%lanemask_ge": f"~{BELOW}",
    "%clock": "uint32_t(::clock64())",
    "%clock64": "uint64_t(::clock64())",
    "%globaltimer": "uint64_t(::clock64())",
    "%dynamic_smem_size": "::gemmgen::shared_bytes(true)",
    "%total_smem_size": "::gemmgen::shared_bytes(false)",
}
INTEGER = re.compile(r"-?(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?")
DECIMAL = re.compile(r"-?\d*\.\d+(?:[eE][+-]?\d+)?|-?\d+\.\d*(?:[eE][+-]?\d+)?")


class UnknownPtx(InvalidInput):
    """What the emulator does not know of PTX, in words."""


@dataclass(frozen=True)
class Instruction:
    """`name` in its parts between dots, with the text of its `operands`; `names` are the C++ names of registers."""

    name: str
    operands: tuple[str, ...]
    names: Mapping[str, str]
    ordered: bool  # whether the compiler keeps it where it stands: of `asm volatile`

    @property
    def parts(self) -> list[str]:
        """Without a state space's longer name: `.shared::cta` is `.shared`."""
        return [part.removesuffix("::cta") if part.startswith("shared") else part for part in self.name.split(".")]

    def require(self, condition: bool, what: str) -> None:
        """Raises UnknownPtx, saying `what` is not known, where `condition` does not hold."""
        if not condition:
            raise UnknownPtx(f"{what} of `{self.name}`")

    def count(self, *counts: int) -> None:
        self.require(len(self.operands) in counts, f"{len(self.operands)} operands")

    def value(self, text: str) -> str:
        """A source operand: a register, a special one or a constant."""
        if text.startswith("!"):
            return f"!{self.value(text[1:].strip())}"
        if text in self.names:
            return self.names[text]
        special = SPECIAL.get(text.replace("%%", "%"))
        return special if special is not None else _constant(text)

    def register(self, text: str) -> str:
        """A destination; `_` is one that nobody reads."""
        self.require(text in self.names, f"the destination {text!r}")
        return self.names[text]

    def vector(self, text: str) -> list[str]:
        """The texts of `{a, b}`, or of what is none."""
        inside = text[1:-1] if text.startswith("{") else text
        return [part.strip() for part in inside.split(",")]

    def address(self, text: str) -> tuple[str, str]:
        """Base and offset of `[base + offset]`, in bytes."""
        found = re.fullmatch(r"\[\s*([^\s+\-\]]+)\s*(?:\+\s*)?(-?[^\]]*?)\s*\]", text)
        self.require(found is not None, f"the address {text!r}")
        assert found is not None
        offset = found[2].replace(" ", "")
        return self.value(found[1]), f"{self.value(offset)}.value" if offset else "0"


def split_operands(text: str) -> tuple[str, ...]:
    """At commas outside of brackets."""
    found, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "{[") - (character in "}]")
        if character == "," and depth == 0:
            found.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return (*found, last) if last or found else ()


def _constant(text: str) -> str:
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
        return f"::gemmgen::ptx::Single{{0x{text[2:]}u}}"
    if re.fullmatch(r"0[dD][0-9a-fA-F]{16}", text):
        return f"::gemmgen::ptx::Double{{0x{text[2:]}ull}}"
    if INTEGER.fullmatch(text):
        return f"::gemmgen::ptx::Integer{{(long long)({_of_cpp(text)})}}"
    if DECIMAL.fullmatch(text):
        return f"::gemmgen::ptx::Real{{{text}}}"
    if text == "WARP_SZ":
        return "::gemmgen::ptx::Integer{32}"
    raise UnknownPtx(f"the operand {text!r}")


def _of_cpp(text: str) -> str:
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    digits = digits.removesuffix("U")
    return f"{sign}{digits}ull"


def joined(values: Sequence[str]) -> str:
    return ", ".join(values)
