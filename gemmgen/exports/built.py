"""A kernel and the architecture that an export is built for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from gemmgen.families import config_of
from gemmgen.families.base import first_rejection
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import ARCHS, arch_number
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Types
from gemmgen.support.errors import InvalidInput, require

OLDEST = min(arch.number for arch in ARCHS.values())  # NN of the oldest sm_NN that gemmgen knows


@dataclass(frozen=True)
class Architectures:
    """Architectures, as conditions that templates write into source files.

    least  NN of the first sm_NN from which on all belong to them; None if there is none
    exact  architectures that need code that no other runs: NN, and the macro that compilers define only for sm_NNa
    """

    least: int | None
    exact: tuple[tuple[int, str], ...] = ()

    @property
    def all_known(self) -> bool:
        """Whether all architectures that gemmgen knows are included."""
        return self.least is not None and self.least <= OLDEST and not self.exact

    @property
    def compiled(self) -> str:
        """The preprocessor's condition that the compiler's current pass is for one of them."""
        exact = [f"defined({feature})" for _, feature in self.exact]
        if self.least is None:
            return " || ".join(exact)
        others = "".join(f" && __CUDA_ARCH__ != {number}0" for number, _ in self.exact)
        return " || ".join(
            [f"(__CUDA_ARCH__ >= {self.least}0{others})" if exact else f"__CUDA_ARCH__ >= {self.least}0", *exact]
        )

    @property
    def may_be(self) -> str:
        """A C++ condition on a number of __CUDA_ARCH_LIST__, which has 900 for both sm_90 and sm_90a."""
        exact = [f"BUILT == {number}0" for number, _ in self.exact]
        return " || ".join([*([] if self.least is None else [f"BUILT >= {self.least}0"]), *exact])

    @property
    def text(self) -> str:
        """The architectures in words: "sm_80 or newer, sm_90 as sm_90a"."""
        exact = [f"sm_{number}a" if self.least is None else f"sm_{number} as sm_{number}a" for number, _ in self.exact]
        return ", ".join([*([] if self.least is None else [f"sm_{self.least} or newer"]), *exact])


@dataclass(frozen=True)
class Built:
    """`source`, built for `arch` ("sm_90").

    Raises InvalidInput for a name that is not a C identifier (it becomes file names), and for an invalid arch.
    """

    source: KernelSource
    arch: str

    def __post_init__(self) -> None:
        require(
            re.fullmatch(r"[A-Za-z_]\w*", self.name, re.ASCII) is not None,
            f"{self.name!r} is no C identifier: it cannot name the exported files",
        )
        require(
            re.fullmatch(r"sm_[0-9]+[af]?", self.arch) is not None,
            f"{self.arch!r} is no architecture: the record's arch reads sm_90 or alike",
        )

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def cmake_arch(self) -> str:
        return self.arch.removeprefix("sm_")

    @property
    def nvcc_arch(self) -> str:
        """The nvcc options that compile for it; for sm_90a nvcc's -arch would also make code for others."""
        number = self.cmake_arch
        return f"-gencode arch=compute_{number},code={self.arch}" if self.feature else f"-arch={self.arch}"

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability of the architecture: (9, 0) for sm_90."""
        return divmod(arch_number(self.arch), 10)

    @property
    def feature(self) -> str | None:
        """The macro that compilers define only for this architecture; None if other architectures can run the code."""
        return f"__CUDA_ARCH_FEAT_SM{self.cmake_arch.removesuffix('a')}_ALL" if self.arch.endswith("a") else None

    @property
    def problem(self) -> Problem:
        return self.source.problem

    @property
    def launch(self) -> Launch:
        return self.source.launch

    @property
    def types(self) -> Types:
        return self.problem.types

    @cached_property
    def least_arch(self) -> int:
        """NN of the first sm_NN whose limits the kernel satisfies; without a family, the one that it was made for."""
        made_for = arch_number(self.arch)
        try:
            family, config = config_of(self.source)
        except InvalidInput:
            return made_for
        converts = min(made_for, self.types.least_arch)  # a kernel for older ones has no instructions for its types
        fits = (
            arch.limits.arch
            for arch in ARCHS.values()
            if first_rejection(family, self.problem, config, arch.limits) is None
        )
        return max(converts, min((made_for, *fits)))

    @property
    def run_by(self) -> Architectures:
        """The architectures that run the kernel."""
        exact = ((arch_number(self.arch), self.feature),) if self.feature else ()
        return Architectures(None if self.feature else self.least_arch, exact)

    @property
    def needs_arch(self) -> str:
        """The architectures that run the kernel as CMake writes them: 90a for a kernel that no other runs."""
        return self.cmake_arch if self.feature else str(self.least_arch)
