"""A kernel that takes arrays: what `gemmgen.load` gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import TracebackType
from typing import Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

from gemmgen.arrays.binding import (
    Prepared,
    bound,
    require_address,
    require_known,
    require_names,
    require_operand,
    require_operands,
    size_of,
    vector_shape,
)
from gemmgen.arrays.libraries import Library, handle_of, library_of, records_gradients
from gemmgen.arrays.overlap import meet
from gemmgen.arrays.view import ArrayView, Device, seen, tracked, view_of
from gemmgen.kernel.prepare import Prepare, Step
from gemmgen.kernel.source import OPERANDS, KernelSource
from gemmgen.problem.case import Case
from gemmgen.support.errors import require
from gemmgen.support.words import listed

MOST_FORMS = 1024  # of operands whose check is kept: sizes of a run with `?` may come once


@dataclass(frozen=True)
class Checked:
    """What a launch on operands that lie in one way is, wherever they are.

    shape     of C; without an element there is nothing to launch, and the case is that of the least sizes
    prepared  the operands that were prepared before
    ordinal   of the device
    library   that makes new arrays
    ready     C is among what was checked
    tracked   the tensors among them that require a gradient
    forms     what others keep for such launches, by keys of their own
    apart     distances between operands at which they are known to share no element
    """

    case: Case
    shape: tuple[int, ...]
    prepared: tuple[str, ...]
    ordinal: int
    library: Library
    ready: bool
    tracked: tuple[str, ...] = ()
    forms: dict[Hashable, Any] = field(default_factory=dict)
    apart: set[tuple[str, str, int]] = field(default_factory=set)

    @cached_property
    def empty(self) -> bool:
        """Whether C has no element."""
        return 0 in self.shape

    @property
    def zeroed(self) -> tuple[tuple[str, int], ...]:
        """Largest magnitudes that are 0 where C is empty, with their bytes."""
        amaxes = [operand.name for operand in self.case.problem.epilogue.amaxes] if self.empty else []
        size = self.case.problem.types.scalar.size
        return tuple((name, size * math.prod(vector_shape(name, self.shape))) for name in amaxes)

    @cached_property
    def pairs(self) -> tuple[tuple[str, int, str, int], ...]:
        """An operand that is written and any other one, each with the bytes from its first element to its last."""
        tensors, written = self.case.tensors, tuple(self.case.written)
        names = [name for name, one in tensors.items() if name not in self.prepared and one.elements]
        if self.empty:
            return ()
        return tuple(
            (out, tensors[out].bytes, name, tensors[name].bytes)
            for place, out in enumerate(written)
            for name in names
            if name not in written[: place + 1]
        )

    @cached_property
    def masks(self) -> tuple[tuple[str, int], ...]:
        """Of the operands that are read or written where they lie: the bits of an address that have to be zero."""
        tensors, problem = self.case.tensors, self.case.problem
        names = [name for name, one in tensors.items() if name not in self.prepared and one.elements]
        if self.empty:
            return ()
        return tuple((name, problem.align_of(name) - 1) for name in names)

    def require_addresses(self, addresses: Mapping[str, int]) -> None:
        """Raise InvalidInput for operands that a kernel cannot take there, or whose gradient would be lost."""
        if self.tracked:
            require_untracked(self.tracked)
        for name, mask in self.masks:
            if addresses[name] & mask:
                require_address(self.case.problem, name, addresses[name], self.case.tensors[name])
        for out, size, name, extent in self.pairs:
            if -extent < addresses[name] - addresses[out] < size:
                self._require_apart(out, name, addresses)

    def _require_apart(self, out: str, name: str, addresses: Mapping[str, int]) -> None:
        """Raise InvalidInput where `name` has an element of `out`, which is written, rather than lies between these."""
        first, other = addresses[out], addresses[name]
        known, one, two = (out, name, other - first), self.case.tensors[out], self.case.tensors[name]
        if known in self.apart:
            return
        word = "out" if out == "C" else out
        require(first != other, f"{word} is {name}'s array: what is written overlaps no other operand")
        require(
            not meet(one, two, other - first),
            f"{word} overlaps {name}: it has addresses from {first:#x} to {first + one.bytes - 1:#x}, and {name} from "
            f"{other:#x} to {other + two.bytes - 1:#x}",
        )
        if len(self.apart) >= MOST_FORMS:
            self.apart.clear()
        self.apart.add(known)


# Kernels and products of libraries by their identities: the last that was loaded, until it is closed.
LOADED: WeakValueDictionary[str, Any] = WeakValueDictionary()


def forget(identity: str, closed: Any) -> None:
    """Take what was closed out of LOADED."""
    if LOADED.get(identity) is closed:
        del LOADED[identity]


@dataclass(frozen=True)
class Traced:
    """What torch.compile reads of a kernel while it traces a call: plain values, which are there once it is loaded.

    identity  the same of kernels that compute the same in the same way, on the same kind of device
    operands  the epilogue's by name, in their order
    reads     all of them are read: none is written
    scaled    the epilogue has alpha
    products  of A with a matrix of B, for one C
    """

    identity: str
    operands: tuple[str, ...]
    reads: bool
    scaled: bool
    products: int

    @classmethod
    def of(cls, source: KernelSource, identity: str) -> Traced:
        epilogue = source.problem.epilogue
        names = tuple(operand.name for operand in epilogue.operands)
        return cls(identity, names, not epilogue.outputs, "alpha" in epilogue.scalars, epilogue.products)


class Arrays(NamedTuple):
    """The arrays of one launch.

    addresses  of operands, and of what was prepared of them, by name ("A", "prepared_b")
    like       an array of the library that makes new ones
    kept       all that have to live as long as they are read
    written    those that are written and were there before
    """

    checked: Checked
    addresses: Mapping[str, int]
    out: Any
    like: Any
    kept: tuple[Any, ...]
    written: tuple[Any, ...]

    @property
    def case(self) -> Case:
        return self.checked.case

    @property
    def library(self) -> Library:
        return self.checked.library


class Planned(Protocol):
    """Launches on arrays that stay where they are."""

    def __call__(self, stream: int) -> None: ...


class Backend(Protocol):
    """What runs a kernel: a GPU or the emulator."""

    device: Device

    def run(self, arrays: Arrays, stream: int) -> None:
        """Enqueue the kernel's launches on `stream`."""
        ...

    def plan(self, arrays: Arrays) -> Planned:
        """The same for later, in a workspace of its own."""
        ...

    def locate(self, view: ArrayView) -> ArrayView:
        """`view` with its device's number."""
        ...

    def prepare(self, step: Step, case: Case, view: ArrayView, made: ArrayView, stream: int) -> None:
        """Enqueue the launch that copies an operand, or sums the lines of its copy."""
        ...

    def close(self) -> None: ...


class Plan:
    """A launch on arrays that stay where they are: checked and encoded once, enqueued as often as it is called.

    It has a workspace of its own. Calls follow each other on one stream, or the caller orders them. What is called on
    another stream than the one that was current when it was made has to be done before the plan goes.

    out  what it writes, the array of C
    """

    def __init__(self, planned: Planned, arrays: Arrays, stream: Callable[[Library, int, Any], int]) -> None:
        self.out, self.case = arrays.out, arrays.case
        self._planned, self._kept, self._stream = planned, arrays.kept, stream
        self._library, self._ordinal = arrays.library, arrays.checked.ordinal
        self._written = arrays.written

    def __call__(self, stream: Any = None) -> Any:
        """Enqueue it on the current stream, or on `stream`; returns `out`. Raises CandidateFailed: launch."""
        self._planned(self._stream(self._library, self._ordinal, stream))
        for array in self._written:
            self._library.wrote(array)
        return self.out


class ArrayKernel:
    """A kernel that takes arrays of torch, CuPy, PyCUDA, JAX, numpy or any library with DLPack, without copying them.

    A is M x K, B is K x N (K x 2N where the epilogue is gated) and C is M x N; in a batch each has the number of
    products before. Strides say how they lie, and have to be those that the kernel reads: by layout "rc" B is
    column-major, as `weight.t()` of a torch.nn.Linear.
    A context manager: leaving it frees what `device` holds.
    """

    def __init__(self, source: KernelSource, backend: Backend) -> None:
        pointers = source.problem.pointers
        require(not pointers, f"{source.name} takes arrays of pointers to matrices, and from Python none are passed")
        self.source, self._backend = source, backend
        self.traced = Traced.of(source, f"{source.name} {source.digest[:16]} {backend.device}")
        self._known: dict[Hashable, Checked] = {}
        self._outputs = tuple(operand.name for operand in source.problem.epilogue.outputs)
        LOADED[self.traced.identity] = self

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def identity(self) -> str:
        """The same of kernels that compute the same in the same way."""
        return self.traced.identity

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

        out       the array of C; None makes one in A's library. With beta != 0 it holds the old C. No element of it
                  is another operand's
        stream    instead of the one that is current in A's library: a handle, or an object of torch, CuPy or cuda.core
        operands  the epilogue's, by name (bias_n=..., scale_a=...): those that it writes as well as those that it reads

        `a` and `b` may be what `prepare_a` and `prepare_b` gave. A result of numpy or JAX is there at once; others as
        the stream gets to it. Where C has no element nothing is launched. No gradient is recorded: gemmgen.torch.gemm
        does that, and a tensor that requires one is refused here while torch's grad mode is on. Raises InvalidInput
        where sizes, strides, types, addresses or devices do not fit, and CandidateFailed (compile or launch).
        """
        arrays = self.arrays(a, b, out, alpha, beta, operands)
        self._backend.run(arrays, self._stream(arrays.library, arrays.checked.ordinal, stream))
        for array in arrays.written:
            arrays.library.wrote(array)
        return arrays.out

    def plan(self, a: Any, b: Any, out: Any = None, *, alpha: float = 1.0, beta: float = 0.0, **operands: Any) -> Plan:
        """A launch on these arrays that costs little to repeat: arguments as for a call, which it keeps alive."""
        require("stream" not in operands, "a plan takes its stream when it is called: plan(stream=...)")
        arrays = self.arrays(a, b, out, alpha, beta, operands)
        return Plan(self._backend.plan(arrays), arrays, self._stream)

    def prepare_a(self, a: Any, *, stream: Any = None) -> Prepared:
        """A as `prepare_b` does B."""
        return self._prepare("A", a, stream)

    def prepare_b(self, b: Any, *, stream: Any = None) -> Prepared:
        """The copy of B that the kernel would make at each launch, made once: pass it as `b`.

        Raises InvalidInput where the kernel reads B as it lies, so that there is nothing to prepare.
        """
        return self._prepare("B", b, stream)

    def prepared_b(self, array: Any, shape: tuple[int, ...]) -> Prepared:
        """What `prepare_b` gave for B of this `shape`, from the `array` that held it."""
        prepare = self.source.launch.prepared("B")
        assert prepare is not None, "this kernel reads B as it lies"
        require(not self.source.launch.sums_of("B"), f"{self.name} takes the sums of B's columns beside its copy")
        return Prepared("B", array, shape, layout_of(self.source, prepare))

    def prepares(self, operand: str) -> bool:
        """Whether launches copy "A", or "B", first."""
        return self.source.launch.prepared(operand) is not None

    def close(self) -> None:
        forget(self.identity, self)
        self._backend.close()

    def __enter__(self) -> ArrayKernel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<kernel {self.name}: {self.source.problem}, for arrays on {self.device}>"

    def arrays(self, a: Any, b: Any, out: Any, alpha: float, beta: float, operands: Mapping[str, Any]) -> Arrays:
        """What a call on these arrays is, before it is launched. Raises InvalidInput for what does not fit."""
        if operands:
            require_known(self.source.problem, operands)
        given = {"A": a, "B": b, **operands} if out is None else {"A": a, "B": b, "C": out, **operands}
        outputs = self._outputs if out is None else ("C", *self._outputs)
        like = a.array if isinstance(a, Prepared) else a
        form: list[Any] = [type(like), alpha := float(alpha), beta := float(beta)]
        addresses = {}
        for name, one in given.items():
            copied = isinstance(one, Prepared)
            lies, address = seen(name, one.array if copied else one, self._backend.locate)
            form.append((name, lies, (one.shape, one.layout) if copied else None))
            addresses[f"prepared_{name.lower()}" if copied else name] = address
            if copied and one.sums is not None:
                addresses[f"sums_{name.lower()}"] = seen(name, one.sums, self._backend.locate)[1]
        key: Hashable = tuple(form)
        known = self._known.get(key)
        if known is None:
            known = self._checked(given, like, alpha, beta)
        if out is None:
            given["C"] = out = _new(known, like)
            addresses["C"] = seen("C", out, self._backend.locate)[1]
            known = known if known.ready else self._checked(given, like, alpha, beta, made=True)
        if key not in self._known:
            self._keep(key, known)
        known.require_addresses(addresses)
        written = tuple(given[name] for name in outputs)
        return Arrays(known, addresses, out, like, tuple(given.values()), written)

    def _keep(self, key: Hashable, known: Checked) -> None:
        if len(self._known) >= MOST_FORMS:
            self._known.clear()
        self._known[key] = known

    def _checked(self, given: Mapping[str, Any], like: Any, alpha: float, beta: float, made: bool = False) -> Checked:
        """The launch whose operands lie so; not `ready` while C is missing. Raises InvalidInput where they cannot.

        C may be `made` here: JAX calls such an array read-only, too.
        """
        problem = self.source.problem
        copies = {name: one for name, one in given.items() if isinstance(one, Prepared)}
        views = {name: self._backend.locate(view_of(name, one)) for name, one in given.items() if name not in copies}
        require_names(problem, {name: one for name, one in given.items() if name not in OPERANDS}, alpha, beta)
        require(beta == 0 or "C" in views, f"beta = {beta} reads C: give it as out=")
        for name, copy in copies.items():
            self._require_prepared(name, copy)
        case, shape = bound(problem, {**views, **copies}, alpha, beta)
        if "C" in views:
            views["C"] = replace(views["C"], readonly=views["C"].readonly and not made)
            require_operands(case, views, self.device, shape)
        places = (self._backend.locate(view_of("A", like)), *views.values())
        ordinal = next((one.ordinal for one in places if one.ordinal is not None), 0)  # empty arrays may not say it
        follows = tuple(name for name, one in given.items() if tracked(one))
        return Checked(case, shape, tuple(copies), ordinal, library_of(like), "C" in views, follows)

    def _require_prepared(self, name: str, copy: Prepared) -> None:
        prepare = self.source.launch.prepared(name)
        layout = "it lies" if prepare is None else layout_of(self.source, prepare)
        require(copy.operand == name, f"{name} is a prepared {copy.operand}")
        require(layout == copy.layout, f"{name} was prepared as {copy.layout}, and {self.name} takes it as {layout}")

    def _stream(self, library: Library, ordinal: int, stream: Any) -> int:
        """The handle of `stream`, else of the one that is current; the host has none."""
        if stream is not None:
            return handle_of(stream)
        return library.stream(ordinal) if self.device == "cuda" else 0

    def _prepare(self, name: str, array: Any, stream: Any) -> Prepared:
        prepare = self.source.launch.prepared(name)
        require(prepare is not None, f"{self.name} reads {name} as it lies: there is nothing to prepare")
        assert prepare is not None
        if tracked(array):
            require_untracked((name,))
        view, library = self._backend.locate(view_of(name, array)), library_of(array)
        case = _case_of_one(self.source, name, view)
        matrix = prepare.matrix(case)
        copy = library.empty((matrix.batch or 1, matrix.lines, matrix.ld), matrix.dtype, array)
        to = self._backend.locate(view_of(name, copy))
        handle, sums = self._stream(library, view.ordinal or 0, stream), None
        lines = (*view.shape[:-2], view.shape[-1 if name == "B" else -2])
        launches = 0 not in lines  # else C is empty, and nobody reads the copy
        if launches:
            self._backend.prepare(prepare, case, view, to, handle)
        for step in self.source.launch.sums_of(name):
            sums = library.empty((step.elements(case),), case.problem.types.accumulator, array)
            if launches:
                self._backend.prepare(step, case, to, self._backend.locate(view_of(name, sums)), handle)
        return Prepared(name, copy, view.shape, layout_of(self.source, prepare), sums)


def require_untracked(names: tuple[str, ...]) -> None:
    """Raise InvalidInput where torch's grad mode is on, for tensors that require a gradient: no launch records one."""
    require(
        not records_gradients(),
        f"{listed(names)} {'requires' if len(names) == 1 else 'require'} a gradient, and a launch records none: call "
        "gemmgen.torch.gemm, which does, or launch under torch.no_grad()",
    )


def layout_of(source: KernelSource, prepare: Prepare) -> str:
    """How a copy lies, for a person, and the same for all kernels that can share it."""
    dtype, pieces = prepare.lies(source.problem).dtype, prepare.pieces(source.problem)
    split = f"{pieces} pieces of " if pieces > 1 else ""
    summed = " and their sums" if source.launch.sums_of(prepare.operand) else ""
    return f"{split}{dtype.label} {'rows' if prepare.order == 'r' else 'columns'} of whole 16 bytes{summed}"


def _case_of_one(source: KernelSource, name: str, view: ArrayView) -> Case:
    """A launch of which `name` alone is known, for what prepares that: the sizes that are not are the least ones."""
    problem = source.problem
    matrix = next(one for one in problem.matrices if one.name == name)
    batched = ("batch",) if problem.batched else ()
    names = (*batched, matrix.rows, matrix.cols)[-len(view.shape) :]
    known = {one: size_of(matrix, one, elements) for one, elements in zip(names, view.shape, strict=True)}

    def size(one: str) -> int:
        return int(known.get(one, problem.sizes[one] or 1))

    others = {}
    for other in problem.matrices[:2]:
        if other.name != name:
            shape = *(size(one) for one in batched), size(other.rows), other.beside * size(other.cols)
            others[other.name] = Prepared(other.name, None, shape, "")
    case, _ = bound(problem, {name: view, **others})
    require_operand(problem, name, view)
    if 0 not in view.shape:
        require_address(problem, name, view.address, case.tensors[name])
    return case


def _new(known: Checked, like: Any) -> Any:
    """An array for C."""
    c, library = known.case.c, known.library
    if known.empty:
        return library.empty(known.shape, c.dtype, like)
    require(c.batch is None or c.stride == c.rows * c.ld, f"stride_c = {c.stride} is not dense: give out=")
    batch = () if c.batch is None else (c.batch,)
    made = library.empty((*batch, c.rows, c.ld), c.dtype, like)
    return made if c.ld == c.cols else made[..., : c.cols]
