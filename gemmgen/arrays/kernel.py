"""A kernel that takes arrays: what `gemmgen.load` gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Protocol

from gemmgen.arrays.binding import Prepared, case_of, require_names, require_operand, require_operands
from gemmgen.arrays.libraries import Library, handle_of, library_of
from gemmgen.arrays.view import ArrayView, Device, view_of
from gemmgen.kernel.prepare import Prepare
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.case import Case
from gemmgen.problem.matrix import Matrix
from gemmgen.support.errors import require

Launch = Callable[[int], None]  # enqueues a kernel's launches on the stream of a handle


@dataclass(frozen=True)
class Arrays:
    """The arrays of one launch, and what they say.

    views     of all operands but those that are prepared
    prepared  the copies, by the operand's name
    like      an array of the library that makes new ones
    kept      what they belong to
    """

    case: Case
    views: Mapping[str, ArrayView]
    prepared: Mapping[str, ArrayView]
    out: Any
    like: Any
    library: Library
    kept: tuple[Any, ...]

    @property
    def ordinal(self) -> int | None:
        return next(iter(self.views.values())).ordinal


class Backend(Protocol):
    """What runs a kernel: a GPU or the emulator."""

    device: Device

    def launch(self, arrays: Arrays, stream: int | None, kept: bool) -> Launch:
        """A launch on `arrays`; `kept` where it is to be repeated, and has a workspace of its own.

        `stream` is whose workspace it takes otherwise.
        """
        ...

    def locate(self, view: ArrayView) -> ArrayView:
        """`view` with its device's number."""
        ...

    def prepare(self, prepare: Prepare, case: Case, view: ArrayView, copy: ArrayView, stream: int) -> None:
        """Enqueue the launch that copies an operand."""
        ...

    def close(self) -> None: ...


class Plan:
    """A launch on arrays that stay where they are: checked and encoded once, enqueued as often as it is called.

    It has a workspace of its own. Calls follow each other on one stream, or the caller orders them.

    out  what it writes, the array of C
    """

    def __init__(self, launch: Launch, arrays: Arrays) -> None:
        self.out = arrays.out
        self.case = arrays.case
        self._launch, self._kept = launch, arrays.kept
        self._stream, self._ordinal = arrays.library.stream, arrays.ordinal or 0

    def __call__(self, stream: Any = None) -> Any:
        """Enqueue it on the current stream, or on `stream`; returns `out`. Raises CandidateFailed: launch."""
        self._launch(self._stream(self._ordinal) if stream is None else handle_of(stream))
        return self.out


class ArrayKernel:
    """A kernel that takes arrays of torch, CuPy, PyCUDA, JAX, numpy or any library with DLPack, without copying them.

    A is M x K, B is K x N and C is M x N; in a batch each has the number of products before. Strides say how they lie,
    and have to be those that the kernel reads: by layout "rc" B is column-major, as `weight.t()` of a torch.nn.Linear.
    A context manager: leaving it frees what `device` holds.
    """

    def __init__(self, source: KernelSource, backend: Backend) -> None:
        self.source, self._backend = source, backend

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def device(self) -> Device:
        """Where its arrays have to be: on "cpu" the emulator runs it."""
        return self._backend.device

    def __call__(
        self,
        a: Any,
        b: Any,
        out: Any = None,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        stream: Any = None,
        **operands: Any,
    ) -> Any:
        """Enqueue C = alpha * A * B + beta * C, or what the epilogue says, on the current stream; returns `out`.

        out       the array of C; None makes one in A's library. With beta != 0 it holds the old C. It overlaps neither
                  A nor B
        stream    instead of the one that is current in A's library: a handle, or an object of torch, CuPy or cuda.core
        operands  the epilogue's, by name (bias_n=..., scale_a=...): those that it writes as well as those that it reads

        `a` and `b` may be what `prepare_a` and `prepare_b` gave. A result of numpy or JAX is there at once; others as
        the stream gets to it. Raises InvalidInput where sizes, strides, types, addresses or devices do not fit, and
        CandidateFailed (compile or launch).
        """
        arrays = self._arrays(a, b, out, alpha, beta, operands)
        handle = self._handle(arrays.library, arrays.ordinal, stream)
        self._backend.launch(arrays, handle, kept=False)(handle)
        return arrays.out

    def plan(self, a: Any, b: Any, out: Any = None, *, alpha: float = 1.0, beta: float = 0.0, **operands: Any) -> Plan:
        """A launch on these arrays that costs little to repeat: arguments as for a call, which it keeps alive."""
        arrays = self._arrays(a, b, out, alpha, beta, operands)
        return Plan(self._backend.launch(arrays, None, kept=True), arrays)

    def prepare_a(self, a: Any, *, stream: Any = None) -> Prepared:
        """A as `prepare_b` does B."""
        return self._prepare("A", a, stream)

    def prepare_b(self, b: Any, *, stream: Any = None) -> Prepared:
        """The copy of B that the kernel would make at each launch, made once: pass it as `b`.

        Raises InvalidInput where the kernel reads B as it lies, so that there is nothing to prepare.
        """
        return self._prepare("B", b, stream)

    def prepares(self, operand: str) -> bool:
        """Whether launches copy "A", or "B", first."""
        return self.source.launch.prepared(operand) is not None

    def close(self) -> None:
        self._backend.close()

    def __enter__(self) -> ArrayKernel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<kernel {self.name}: {self.source.problem}, for arrays on {self.device}>"

    def _arrays(self, a: Any, b: Any, out: Any, alpha: float, beta: float, operands: Mapping[str, Any]) -> Arrays:
        """What the arrays say. Raises InvalidInput for what does not fit."""
        problem = self.source.problem
        require(not problem.pointers, f"{self.name} takes arrays of pointers, which arrays cannot be passed for")
        require_names(problem, operands, alpha, beta)
        require(beta == 0 or out is not None, f"beta = {beta} reads C: give it as out=")
        copies = {name: one for name, one in (("A", a), ("B", b)) if isinstance(one, Prepared)}
        given = {"A": a, "B": b, "C": out, **operands}
        views = {
            name: self._backend.locate(view_of(name, one))
            for name, one in given.items()
            if name not in copies and one is not None
        }
        like = a if "A" in views else copies["A"].array
        library = library_of(like)
        for name, copy in copies.items():
            self._require_prepared(name, copy)
        if out is None:
            case = case_of(problem, {**views, **copies}, alpha, beta)
            given["C"] = out = _new(case.c, library, like)
            views["C"] = self._backend.locate(_writable(view_of("C", out)))
        case = case_of(problem, {**views, **copies}, alpha, beta)
        require_operands(self.source, case, views, self.device)
        for name in ("A", "B"):
            apart = name not in views or views[name].address != views["C"].address
            require(apart or case.k == 0, f"out is {name}'s array: C overlaps no operand")
        found = {name: self._backend.locate(view_of(name, copy.array)) for name, copy in copies.items()}
        return Arrays(case, views, found, out, like, library, tuple(given.values()))

    def _require_prepared(self, name: str, copy: Prepared) -> None:
        prepare = self.source.launch.prepared(name)
        layout = "it lies" if prepare is None else layout_of(self.source, prepare)
        require(copy.operand == name, f"{name} is a prepared {copy.operand}")
        require(layout == copy.layout, f"{name} was prepared as {copy.layout}, and {self.name} takes it as {layout}")

    def _handle(self, library: Library, ordinal: int | None, stream: Any) -> int:
        return library.stream(ordinal or 0) if stream is None else handle_of(stream)

    def _prepare(self, name: str, array: Any, stream: Any) -> Prepared:
        prepare = self.source.launch.prepared(name)
        require(prepare is not None, f"{self.name} reads {name} as it lies: there is nothing to prepare")
        assert prepare is not None
        view, library = self._backend.locate(view_of(name, array)), library_of(array)
        case = _case_of_one(self.source, name, view)
        matrix = prepare.matrix(case)
        copy = library.empty((matrix.batch or 1, matrix.lines, matrix.ld), matrix.dtype, array)
        to = self._backend.locate(view_of(name, copy))
        self._backend.prepare(prepare, case, view, to, self._handle(library, view.ordinal, stream))
        return Prepared(name, copy, view.shape, layout_of(self.source, prepare))


def layout_of(source: KernelSource, prepare: Prepare) -> str:
    """How a copy lies, for a person, and the same for all kernels that can share it."""
    dtype = prepare.of(source.problem).dtype
    return f"{dtype.label} {'rows' if prepare.order == 'r' else 'columns'} of whole 16 bytes"


def _case_of_one(source: KernelSource, name: str, view: ArrayView) -> Case:
    """A launch of which `name` alone is known, for what prepares that: the sizes that are not are the least ones."""
    problem = source.problem
    matrix = next(one for one in problem.matrices if one.name == name)
    batched = ("batch",) if problem.batched else ()
    names = (*batched, matrix.rows, matrix.cols)[-len(view.shape) :]
    known = dict(zip(names, view.shape, strict=True))

    def size(one: str) -> int:
        return int(known.get(one, problem.sizes[one] or 1))

    others = {}
    for other in problem.matrices[:2]:
        if other.name != name:
            shape = *(size(one) for one in batched), size(other.rows), size(other.cols)
            others[other.name] = Prepared(other.name, None, shape, "")
    case = case_of(problem, {name: view, **others})
    require_operand(problem, name, view, case.tensors[name])
    return case


def _new(c: Matrix, library: Library, like: Any) -> Any:
    """An array for C."""
    require(c.batch is None or c.stride == c.rows * c.ld, f"stride_c = {c.stride} is not dense: give out=")
    batch = () if c.batch is None else (c.batch,)
    made = library.empty((*batch, c.rows, c.ld), c.dtype, like)
    return made if c.ld == c.cols else made[..., : c.cols]


def _writable(view: ArrayView) -> ArrayView:
    """Of an array that was made here: JAX calls all of its arrays read-only."""
    return replace(view, readonly=False)
