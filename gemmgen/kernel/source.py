"""A kernel as data: its text, its name and its contract.

All code that runs or exports a kernel reads these records instead of recomputing them.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from typing import Any

from gemmgen.kernel.conditionals import code_and_others
from gemmgen.kernel.contract import Contract, Parameter
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.prepare import SUFFIX
from gemmgen.problem.device import DEFAULT_ARCH
from gemmgen.problem.gemm import Problem
from gemmgen.support.errors import require
from gemmgen.support.short_repr import brief

MADE_BY = "// Made by "  # begins the line of the text that says how to render it again,
CONFIG = "// Config  "  # and this the one with its full name


@brief
@dataclass(frozen=True)
class KernelSource:
    """A `.cu` file and the data that a caller needs to use it.

    name      function, file, log line and test id
    family    name of the kernel family that rendered it
    config    the family's parameters as plain values, for JSON and tables
    contract  what it promises to its callers
    """

    name: str
    text: str
    family: str
    config: dict[str, int]
    contract: Contract

    @property
    def problem(self) -> Problem:
        return self.contract.problem

    @property
    def launch(self) -> Launch:
        return self.contract.launch

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self.contract.parameters

    def promising(self, **changes: Any) -> KernelSource:
        """The same text with another problem, launch or parameters in its contract."""
        return replace(self, contract=replace(self.contract, **changes))

    @property
    def digest(self) -> str:
        """SHA-256 of the text: the identity of a kernel, including edits by hand."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def program(self) -> tuple[KernelSource, ...]:
        """The launches of this kernel in order, each as a KernelSource of the same text; this one is the last."""
        steps = zip(self.launch.prepares, self.contract.program, strict=False)
        return (*(replace(self, name=one.entry(self.name), contract=contract) for one, contract in steps), self)

    @property
    def body(self) -> str:
        """The text without name, config and the command that makes it: kernels with the same body are the same
        kernel."""
        lines = self.text.replace(self.name, "").splitlines()
        return "\n".join(line for line in lines if not line.startswith((MADE_BY, CONFIG)))

    def renamed(self, name: str) -> KernelSource:
        """Return the same kernel under a user's name. Raises InvalidInput for a name that its text uses.

        The command in its header names the new name in place of an earlier one.
        """
        pieces = [*code_and_others(self.text)]
        taken = name != self.name and any(re.search(rf"\b{name}\b", piece) for piece, is_code in pieces if is_code)
        require(not taken, f"{name!r} cannot name this kernel: its text has another use for it")
        own = re.compile(rf"\b{self.name}(?=\b|{SUFFIX}\b)")
        title = f"// {self.name}"  # other comments have words that a user's name may be, too
        text = "".join(own.sub(name, piece) if is_code or piece == title else piece for piece, is_code in pieces)
        made = re.sub(rf"^({MADE_BY}.*?)(?: --as \w+)?$", rf"\1 --as {name}", text, count=1, flags=re.MULTILINE)
        return replace(self, name=name, text=made)

    @property
    def own_name(self) -> str | None:
        """The name that a user gave it, as its text says; None if it has a generated name."""
        match = re.search(rf"^{MADE_BY}.* --as (\w+)$", self.text, re.MULTILINE)
        return match[1] if match and match[1] == self.name else None

    @property
    def arch(self) -> str:
        """The architecture that it was rendered for, as its text says ("sm_90"), or the default if its text does
        not."""
        match = re.search(rf"^{MADE_BY}.* --arch (\w+)", self.text, re.MULTILINE)
        return match[1] if match else DEFAULT_ARCH

    @property
    def full_name(self) -> str | None:
        """The full name in its header; None if the header has none."""
        return full_name_in(self.text)


def full_name_in(text: str) -> str | None:
    """The full name in the header of a `.cu`; None if the header has none."""
    match = re.search(rf"^{CONFIG}(\w+)$", text, re.MULTILINE)
    return match[1] if match else None
