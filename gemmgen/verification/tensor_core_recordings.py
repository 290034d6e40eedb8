"""Recorded results of tensor cores, to the bit: files with which model and emulator are compared."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.problem.device import Arch, parse_arch
from gemmgen.problem.mma import MMAS, Mma
from gemmgen.problem.wgmma import FACTORS, Wgmma
from gemmgen.run.executor import Executor
from gemmgen.run.nvrtc import compiler_version
from gemmgen.support.errors import CandidateFailed, Failure, GemmgenError, require
from gemmgen.support.files import write_atomic
from gemmgen.support.stamp import gemmgen_version, today
from gemmgen.verification.tensor_core import Codes
from gemmgen.verification.vectors import Vectors, drawn

FOLDER = Path(__file__).parent / "recorded"  # the files that come with gemmgen
SEED = 1
PROVENANCE = "provenance"  # the entry of a file that says where it comes from
COLUMNS = 8  # of the wgmmas that are tried: how they sum depends neither on that nor on where A and B lie
TRIED: tuple[Mma | Wgmma, ...] = (
    *(mma for mma in MMAS.values() if mma.a.storage_bits >= 8),  # kernels have no smaller operands
    *(Wgmma(COLUMNS, a, b, to) for (a, b), accumulators in FACTORS.items() for to in accumulators),
)


@dataclass(frozen=True)
class Agreement:
    """The comparison of an instruction's recorded elements with others from the same vectors.

    steps      instructions on the same accumulators
    kinds      the kinds of numbers that differ, and the number of elements of each
    first      the first element that differs: (product, row, column), the recorded value and the other
    """

    instruction: str
    steps: int
    elements: int
    kinds: Mapping[str, int]
    first: str = ""

    @property
    def differing(self) -> int:
        return sum(self.kinds.values())


@dataclass(frozen=True)
class Recording:
    """The results D for the vectors of `arch`'s instructions.

    provenance  its origin: card, driver, compiler, command, date
    failures    the reasons why kernels of some instructions gave no result
    left_out    the reasons why other instructions have no vectors
    """

    arch: str
    provenance: Mapping[str, str]
    results: tuple[tuple[Vectors, Codes], ...]
    failures: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """Its origin, in words."""
        return ", ".join(self.provenance[name] for name in ("device", "compiler", "date") if name in self.provenance)

    def against_model(self) -> Iterator[Agreement]:
        """Compare the recording with the model."""
        for vectors, codes in self.results:
            yield compare(vectors, codes, vectors.expected(self.arch))

    def against(self, executor: Executor) -> Iterator[Agreement]:
        """Compare the recording with the results of another executor."""
        for vectors, codes in self.results:
            yield compare(vectors, codes, vectors.run(executor, self.arch))

    def save(self, path: Path) -> None:
        """Write the recording. Raises GemmgenError if it cannot be written."""
        said = {**self.provenance, "arch": self.arch, "seed": str(SEED)}
        said["inputs"] = json.dumps({_key(vectors): vectors.digest for vectors, _ in self.results})
        file = io.BytesIO()
        arrays: dict[str, Any] = {_key(vectors): codes for vectors, codes in self.results}
        np.savez_compressed(file, **{PROVENANCE: np.array(json.dumps(said)), **arrays})
        write_atomic(path, file.getvalue())

    @classmethod
    def load(cls, path: Path) -> Recording:
        """Read a recording. Raises GemmgenError if its vectors are not those of this version."""
        with np.load(path, allow_pickle=False) as file:
            said = json.loads(str(file[PROVENANCE]))
            inputs, arch = json.loads(said.pop("inputs")), said.pop("arch")
            results = tuple(
                (vectors, file[_key(vectors)]) for vectors in vectors_of(arch) if inputs.get(_key(vectors)) is not None
            )
        changed = [_key(vectors) for vectors, _ in results if vectors.digest != inputs[_key(vectors)]]
        lost = inputs.keys() - {_key(vectors) for vectors, _ in results}
        if changed or lost:
            raise GemmgenError(f"{path} was recorded of other vectors: {', '.join((*changed, *sorted(lost)))}")
        return cls(arch, said, results)


def is_recorded(instruction: Mma | Wgmma, arch: Arch) -> bool:
    """Whether files in gemmgen hold the instruction's results on a card of `arch`; the model agrees with all of
    them.

    A wgmma counts as recorded if one of the same types is.
    """
    if isinstance(instruction, Wgmma):
        instruction = Wgmma(COLUMNS, instruction.a, instruction.b, instruction.accumulator)
    names = (name for path in FOLDER.glob(f"{arch.name}_*.npz") for name in _entries(path))
    return any(name.startswith(f"{instruction.function} x ") for name in names)


@cache
def _entries(path: Path) -> tuple[str, ...]:
    with np.load(path, allow_pickle=False) as file:
        return tuple(file.files)


def record(executor: Executor, arch: str, provenance: Mapping[str, str], only: str = "") -> Recording:
    """Record the results of `executor`, for instructions with `only` in their name. A failing kernel loses only its own
    vectors.

    Raises InvalidInput if no instruction of `arch` has such a name.
    """
    found = [(vectors, _run(vectors, executor, arch)) for vectors in vectors_of(arch, only)]
    require(bool(found), f"{arch} has no instruction with {only!r} in its name")
    results = tuple((vectors, codes) for vectors, codes in found if not isinstance(codes, Failure))
    failures = {_key(vectors): failure.reason for vectors, failure in found if isinstance(failure, Failure)}
    return Recording(arch, provenance, results, failures, left_out(arch, only))


def _run(vectors: Vectors, executor: Executor, arch: str) -> Codes | Failure:
    try:
        return vectors.run(executor, arch)
    except CandidateFailed as error:
        return error.failure


def recording_provenance(executor: Executor, command: str) -> dict[str, str]:
    """The origin of the results that `executor` computes."""
    compiler = {} if executor.name == "emulator" else {"compiler": compiler_version()}
    return {
        "executor": executor.name,
        "device": executor.description,
        **compiler,
        "gemmgen": gemmgen_version(),
        "command": command,
        "date": today(),
    }


def vectors_of(arch: str, only: str = "") -> Iterator[Vectors]:
    """Yield vectors for each instruction that is native on `arch` and whose operands kernels can have."""
    for one in TRIED:
        if only in one.function and one.why_not(parse_arch(arch)) is None:
            yield from drawn(one, SEED)


def left_out(arch: str, only: str = "") -> dict[str, str]:
    """The reasons why other instructions have no vectors, by the instruction's name."""
    reasons = {one.function: one.why_not(parse_arch(arch)) for one in TRIED if only in one.function}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _key(vectors: Vectors) -> str:
    return f"{vectors.mma.function} x {vectors.a.shape[-1] // vectors.mma.k}"


def compare(vectors: Vectors, recorded: Codes, other: Codes) -> Agreement:
    """Compare the `recorded` results of `vectors` with others."""
    differing = np.argwhere(recorded != other)
    kinds = Counter(vectors.kinds[product] for product, _, _ in differing)
    steps = vectors.a.shape[-1] // vectors.mma.k
    return Agreement(
        vectors.mma.function, steps, recorded.size, dict(kinds), _shown(vectors, recorded, other, differing)
    )


def _shown(vectors: Vectors, recorded: Codes, other: Codes, differing: npt.NDArray[np.int64]) -> str:
    if not len(differing):
        return ""
    product, row, column = (int(index) for index in differing[0])
    at, digits = (product, row, column), 2 * recorded.dtype.itemsize
    bits = f"0x{int(recorded[at]):0{digits}x}, not 0x{int(other[at]):0{digits}x}"
    return f"{vectors.kinds[product]}, product {product}, row {row}, column {column}: {bits}"
