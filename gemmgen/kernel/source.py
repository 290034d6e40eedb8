"""A rendered kernel as data: its text, its name, how to launch it and what to pass.

All code that runs or exports a kernel reads these records instead of recomputing them.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.kernel.conditionals import code_and_others
from gemmgen.kernel.prepare import PREPARED, SUFFIX, LineSums, Prepare, Step, dtype_of_part, tiles_of_sizes
from gemmgen.kernel.streamk import Numbers, Schedule, Stream
from gemmgen.kernel.tensor_map import UNIT, TensorMap, parameter_of
from gemmgen.problem import operands
from gemmgen.problem.device import DEFAULT_ARCH, MAX_THREADS
from gemmgen.problem.gemm import Case, Problem
from gemmgen.problem.inputs import COMPANIONS
from gemmgen.problem.sizes import BATCH_SIZES
from gemmgen.support.errors import require
from gemmgen.support.short_repr import brief

OPERANDS = ("A", "B", "C")
EXTRA = (*COMPANIONS, *operands.OPERANDS)  # that a product may take besides
WORKSPACE = ("partials", "semaphores")  # of a launch whose blocks share tiles of C: see Workspace
POINTERS = (*OPERANDS, *WORKSPACE, *PREPARED, *EXTRA)
MAPS = tuple(parameter_of(name, tail) for name in (*OPERANDS, *EXTRA) for tail in (False, True))
MAP_TYPE = "const __grid_constant__ TensorMap"  # which the text declares: 128 bytes by value
SCALARS = ("M", "N", "K", "lda", "ldb", "ldc", "ld_residual", *BATCH_SIZES, "alpha", "beta")
SEMAPHORE_BYTES = 4
MOST_SHARED_BYTES = 2**20  # no GPU has as much for a block
MOST_CLUSTER_BLOCKS = 16  # of sm_90, beyond 8 for kernels that ask
DEPENDENT_LAUNCH = "programmatic_stream_serialization"  # the kernel before may still run: see grid_dependency_wait
LAUNCH_ATTRIBUTES = ("cooperative", DEPENDENT_LAUNCH)
MADE_BY = "// Made by "  # begins the line of the text that says how to render it again,
CONFIG = "// Config  "  # and this the one with its full name


@dataclass(frozen=True)
class Parameter:
    """One kernel parameter: a pointer (A, B, C, workspace, epilogue), a scalar of `Case.values`, or a tensor map
    (`map_a`), one per entry of `Launch.maps`.

    In a batch of pointers A, B and C are arrays of pointers, called A_array, B_array and C_array in the `.cu`.
    """

    name: str
    ctype: str

    def __post_init__(self) -> None:
        known = POINTERS if self.is_pointer else MAPS if self.is_map else SCALARS
        require(self.name in known, f"unknown parameter {self.ctype} {self.name}: known are {', '.join(known)}")

    @property
    def is_pointer(self) -> bool:
        return self.ctype.endswith("*")

    @property
    def is_map(self) -> bool:
        return self.ctype == MAP_TYPE

    @property
    def is_array(self) -> bool:
        return self.ctype.endswith("* const*")

    def passed(self, value: float) -> float:
        """Return `value` as the Python type that stands for the parameter's type."""
        return value if self.ctype in ("float", "double") else int(value)

    @property
    def text(self) -> str:
        """The parameter's name in the `.cu`."""
        return f"{self.name}_array" if self.is_array else self.name


@dataclass(frozen=True)
class Workspace:
    """Device memory that a launch needs besides its operands; it has no partials if each tile has one block.

    partials  bytes of the sums that blocks leave for the block that adds them; their contents before the launch do not
              matter
    semaphores   counters of 4 bytes, one per tile: zero before the first launch and after each launch
    prepared  bytes of copies and sums of operands by part name; their contents before the first launch do not matter
    partial_align    alignment of the partials, in bytes: the size of an element
    """

    partials: int
    semaphores: int
    prepared: tuple[tuple[str, int], ...] = ()
    partial_align: int = SEMAPHORE_BYTES

    @property
    def lengths(self) -> dict[str, int]:
        """Bytes of each part, by its name."""
        sums = zip(WORKSPACE, (self.partials, SEMAPHORE_BYTES * self.semaphores), strict=True)
        return dict(sums) | dict(self.prepared)

    @property
    def aligns(self) -> dict[str, int]:
        """The alignment of each part, in bytes: kernels may rely on it, and on no more."""
        sums = zip(WORKSPACE, (self.partial_align, SEMAPHORE_BYTES), strict=True)
        return dict(sums) | {name: UNIT for name, _ in self.prepared}


@dataclass(frozen=True)
class Launch:
    """Launch geometry: a one-dimensional grid of one-dimensional blocks.

    threads       threads per block
    grid          ((size name, tile), ...): C has the product of ceil(size / tile) tiles, each computed by a block or a
                  cluster. The sizes are M, N and batch; a tile spans all of a size that is left out
    shared_bytes  dynamic shared memory per block, in bytes (0: the kernel declares its own)
    splits        blocks that share a tile, each with a part of K: blocks from t * splits on compute tile t. A cluster
                  adds up in its shared memory, other blocks in the workspace
    stream        stream-K: how the blocks of the last wave divide its tiles; None if each tile has its own blocks
    cluster       blocks that share a tile, each with its rows, or its part of K, and run at once on neighbouring SMs:
                  blocks from t * cluster on compute tile t
    attributes    further launch attributes by CUDA's names: see LAUNCH_ATTRIBUTES
    summed        elements of workspace per block besides its tile: sums of A and B, or a second product's tile
    maps          tensor maps of the operands that TMA moves, in the order of the kernel's parameters
    persistent    whether block b also does the work of blocks b + gridDim.x, b + 2 gridDim.x, ...: any smaller grid
                  computes the same
    prepares      launches before it on the same stream, in order: the kernel reads their copies and sums
    overlapped    whether these may start before the launch ahead of them has ended: they wait for it themselves
    """

    threads: int
    grid: tuple[tuple[str, int], ...]
    shared_bytes: int = 0
    splits: int = 1
    stream: Stream | None = None
    cluster: int = 1
    attributes: tuple[str, ...] = ()
    summed: int = 0
    maps: tuple[TensorMap, ...] = ()
    persistent: bool = False
    prepares: tuple[Step, ...] = ()
    overlapped: bool = False

    def __post_init__(self) -> None:
        require(type(self.threads) is int and 1 <= self.threads <= MAX_THREADS, f"{self.threads} threads a block")
        for size, tile in self.grid:
            require(
                size in ("M", "N", "K", "batch") and type(tile) is int and tile >= 1,
                f"the grid divides {size} by {tile}",
            )
        shared = self.shared_bytes
        require(type(shared) is int and 0 <= shared < MOST_SHARED_BYTES, f"{shared} bytes of shared memory a block")
        require(type(self.splits) is int and self.splits >= 1, f"{self.splits} blocks share a tile")
        require(
            self.stream is None or self.splits == 1,
            f"{self.splits} blocks share a tile, and a stream of blocks all tiles",
        )
        require(
            type(self.cluster) is int and 1 <= self.cluster <= MOST_CLUSTER_BLOCKS, f"{self.cluster} blocks a cluster"
        )
        for name in self.attributes:
            known = ", ".join(LAUNCH_ATTRIBUTES)
            require(name in LAUNCH_ATTRIBUTES, f"unknown launch attribute {name!r}: known are {known}")
        require(not self.persistent or not self.adds_up, "blocks that share tiles are not persistent")
        require(
            self.cluster in (1, self.splits) or not self.adds_up,
            f"{self.splits} blocks share K in clusters of {self.cluster}",
        )
        mapped = [one.parameter for one in self.maps]
        require(len(set(mapped)) == len(mapped), f"two tensor maps of one name: {', '.join(mapped)}")
        self._require_prepares()

    def _require_prepares(self) -> None:
        """Raise InvalidInput unless each workspace part has exactly one launch that writes it, and sums of copies have
        a copy."""
        parts = [one.part for one in self.prepares]
        require(len(set(parts)) == len(parts), f"two launches write one part of the workspace: {', '.join(parts)}")
        for one in self.sums:
            copied = self.prepared(one.operand) is not None
            told = "is" if copied else "is not"
            require(one.copied == copied, f"{one.source} is summed, and {one.operand} {told} copied")

    @property
    def document(self) -> dict[str, Any]:
        """The launch as JSON-ready data; fields that few launches set are left out when empty."""
        few = ("maps", "persistent", "prepares", "overlapped")
        said = asdict(self) | {
            "maps": tuple(one.document for one in self.maps),
            "prepares": tuple(one.document for one in self.prepares),
        }
        return {name: value for name, value in said.items() if value or name not in few}

    def tiles(self, case: Case) -> int:
        """Tiles of C that the grid computes for `case`."""
        return self.tiles_of_sizes(case.values)

    def tiles_of_sizes(self, sizes: Mapping[str, float]) -> int:
        """Tiles of C that the grid computes for M, N, K and, in a batch, the batch size."""
        return tiles_of_sizes(self.grid, sizes)

    def blocks(self, case: Case) -> int:
        """The number of blocks of the full grid for `case`."""
        return self.blocks_of_sizes(case.values)

    def blocks_of_sizes(self, sizes: Mapping[str, float]) -> int:
        """The number of blocks of the full grid for M, N, K and, in a batch, the batch size."""
        tiles = self.tiles_of_sizes(sizes)
        return (
            self.blocks_per_tile * tiles if self.stream is None else Schedule(self.stream, tiles, int(sizes["K"])).grid
        )

    def resident(self, blocks: int, sms: int) -> int:
        """The grid of a persistent kernel that does the work of `blocks`, if an SM has room for one block.

        It is the smallest grid that takes no more turns than `sms` blocks would: idle SMs leave their power to the
        others.
        """
        clusters, at_once = blocks // self.cluster, sms // self.cluster
        turns = max(1, -(-clusters // at_once))
        return -(-clusters // turns) * self.cluster

    @property
    def blocks_per_tile(self) -> int:
        """Blocks that share a tile, if there is no `stream`."""
        return max(self.splits, self.cluster)

    def schedule(self, stream: Stream, case: Case) -> Schedule:
        """The stream-K schedule for `case`: which block computes which k tiles."""
        return Schedule(stream, self.tiles(case), case.k)

    def whole_tiles(self, case: Case) -> int:
        """The number of tiles that stream-K does not divide: the first ones, in whole waves."""
        return self.tiles(case) if self.stream is None else self.schedule(self.stream, case).data_parallel

    def blocks_of(self, case: Case, tiles: npt.ArrayLike) -> Numbers:
        """The blocks that compute `tiles`, in order; with `stream` some of them compute k tiles of other tiles, too."""
        numbers = np.array(tiles, np.int64)
        if self.stream is None:
            return (numbers[:, None] * self.blocks_per_tile + np.arange(self.blocks_per_tile)).ravel()
        return self.schedule(self.stream, case).blocks_of(numbers)

    def tiles_of(self, case: Case, blocks: Numbers) -> Numbers:
        """The tiles that `blocks` complete without other blocks. Without `stream` they must be all blocks of their
        tiles."""
        if self.stream is None:
            return np.unique(blocks // self.blocks_per_tile)
        schedule = self.schedule(self.stream, case)
        arrived, needed = schedule.arrivals(blocks)
        complete = schedule.data_parallel + np.flatnonzero(arrived == needed)
        return np.concatenate([np.sort(blocks[blocks < schedule.data_parallel]), complete])

    def semaphores_left(self, case: Case, blocks: Numbers) -> Numbers:
        """The values of the semaphores once `blocks` have run: zero for each tile that is complete or not begun."""
        if self.stream is None:
            return np.zeros(self.workspace(case).semaphores, np.int64)
        semaphores = np.zeros(self.stream.blocks, np.int64)
        arrived, needed = self.schedule(self.stream, case).arrivals(blocks)
        semaphores[: len(arrived)] = np.where(arrived == needed, 0, arrived)
        return semaphores

    @property
    def partial_elements(self) -> int:
        """Elements of workspace that a block writes: a whole tile, even at C's edges, and sums of A and B."""
        return math.prod(tile for _, tile in self.grid) + self.summed

    def workspace(self, case: Case) -> Workspace:
        """The workspace that `case` needs."""
        element = case.problem.types.accumulator.size
        size = self.partial_elements * element
        prepared = tuple((one.part, one.bytes(case)) for one in self.prepares)
        if not self.leaves_partials:
            return Workspace(0, 0, prepared)
        if self.stream is not None:
            schedule = self.schedule(self.stream, case)
            return Workspace(schedule.partials * size, self.stream.blocks, prepared, element)
        return Workspace(self.tiles(case) * self.splits * size, self.tiles(case), prepared, element)

    @property
    def adds_up(self) -> bool:
        """Whether blocks share tiles, each with a part of K."""
        return self.splits > 1 or self.stream is not None

    @property
    def leaves_partials(self) -> bool:
        """Whether blocks leave sums in the workspace, so that a launch needs partials and semaphores."""
        return self.adds_up and self.cluster == 1

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the workspace parts that the launch needs."""
        return (*(WORKSPACE if self.leaves_partials else ()), *(one.part for one in self.prepares))

    @property
    def copies(self) -> tuple[Prepare, ...]:
        """The launches before this one that copy operands."""
        return tuple(one for one in self.prepares if isinstance(one, Prepare))

    @property
    def sums(self) -> tuple[LineSums, ...]:
        """The launches before this one that sum lines of operands."""
        return tuple(one for one in self.prepares if isinstance(one, LineSums))

    def sums_of(self, operand: str) -> tuple[LineSums, ...]:
        """The launch, if any, that sums the lines of `operand`, "A" or "B"."""
        return tuple(one for one in self.sums if one.operand == operand)

    def prepared(self, operand: str) -> Prepare | None:
        """The launch that copies `operand`; None if the kernel reads the operand itself."""
        return next((one for one in self.copies if one.operand == operand), None)


def parameters(problem: Problem, launch: Launch) -> tuple[Parameter, ...]:
    """Return the parameters of a kernel of `problem` with this launch, in the order of its signature.

    Tensor maps come first, as they need the widest alignment. An operand with a map has no pointer, except in a batch
    of pointers. If an earlier launch copies an operand, its map or pointer is the copy's.
    """
    types, to = problem.types, "* const*" if problem.pointers else "*"
    workspace = (Parameter("partials", f"{types.accumulator.ctype}*"), Parameter("semaphores", "unsigned*"))
    pointers = (
        Parameter("A", f"const {types.a.ctype}{to}"),
        Parameter("B", f"const {types.b.ctype}{to}"),
        Parameter("C", f"{types.c.ctype}{to}"),
        *(Parameter(one.name, f"const {one.dtype.ctype}*") for one in problem.companions),
        *(_parameter(problem, operand) for operand in problem.epilogue.operands),
    )
    mapped = {one.operand for one in launch.maps if not one.anywhere}
    return (
        *(Parameter(one.parameter, MAP_TYPE) for one in launch.maps),
        *(_reached(one, launch) for one in pointers if one.name not in mapped),
        *(workspace if launch.leaves_partials else ()),
        *(Parameter(one.part, f"const {types.accumulator.ctype}*") for one in launch.sums),
        *(Parameter(name, size_type(name)) for name in problem.runtime_names),
        *(Parameter(name, types.scalar.ctype) for name in problem.epilogue.scalars),
    )


def _reached(pointer: Parameter, launch: Launch) -> Parameter:
    prepare = launch.prepared(pointer.name)
    return pointer if prepare is None else replace(pointer, name=prepare.part)


def prepare_parameters(problem: Problem, prepare: Step) -> tuple[Parameter, ...]:
    """Return the parameters of a launch that prepares an operand, in the order of its signature."""
    operand = prepare.of(problem)
    lies = (operand.ld, operand.stride) if prepare.source == prepare.operand else ()
    own = (operand.rows, operand.cols, "batch", *lies)
    return (
        Parameter(prepare.source, f"const {operand.dtype.ctype}*"),
        Parameter(prepare.part, f"{dtype_of_part(problem, prepare.part).ctype}*"),
        *(Parameter(name, size_type(name)) for name in problem.runtime_names if name in own),
    )


def _parameter(problem: Problem, operand: operands.Operand) -> Parameter:
    constant = "" if operand.written else "const "
    return Parameter(operand.name, f"{constant}{problem.dtype_of(operand.name).ctype}*")


def size_type(name: str) -> str:
    """The C type of `name`, one of `Problem.sizes`."""
    return "long long" if name.startswith("stride_") else "int"


@brief
@dataclass(frozen=True)
class KernelSource:
    """A `.cu` file and the data that a caller needs to use it.

    name        function, file, log line and test id
    family      name of the kernel family that rendered it
    config      the family's parameters as plain values, for JSON and tables
    parameters  the kernel's parameters in the order of its signature
    """

    name: str
    text: str
    problem: Problem
    family: str
    config: dict[str, int]
    launch: Launch
    parameters: tuple[Parameter, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of the text: the identity of a kernel, including edits by hand."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def program(self) -> tuple[KernelSource, ...]:
        """The launches of this kernel in order, each as a KernelSource of the same text; this one is the last."""
        return (*(self._prepare(one) for one in self.launch.prepares), self)

    def _prepare(self, one: Step) -> KernelSource:
        attributes = (DEPENDENT_LAUNCH,) if self.launch.overlapped else ()
        launch = Launch(one.threads, one.grid(self.problem), attributes=attributes)
        taken = prepare_parameters(self.problem, one)
        return replace(self, name=one.entry(self.name), launch=launch, parameters=taken)

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

    @property
    def zeroed(self) -> tuple[str, ...]:
        """Pointers to buffers that must be zeroed before the launch: see `Operand.written`."""
        taken = {parameter.name for parameter in self.parameters}
        return tuple(operand.name for operand in self.problem.epilogue.amaxes if operand.name in taken)

    def arguments(self, case: Case, pointers: dict[str, Any]) -> list[Any]:
        """The arguments in order, tensor maps left out; `pointers` maps POINTERS to the executor's own pointers."""
        return [pointers[p.name] if p.is_pointer else p.passed(case.values[p.name]) for p in self.parameters]

    def interface(self) -> dict[str, Any]:
        """Name, launch geometry and parameters as JSON-ready data."""
        return {
            "name": self.name,
            "launch": self.launch.document,
            "parameters": [asdict(parameter) for parameter in self.parameters],
            **({"zeroed": list(self.zeroed)} if self.zeroed else {}),
        }


def full_name_in(text: str) -> str | None:
    """The full name in the header of a `.cu`; None if the header has none."""
    match = re.search(rf"^{CONFIG}(\w+)$", text, re.MULTILINE)
    return match[1] if match else None
