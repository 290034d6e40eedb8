"""Kernels that take arrays: the objects that `gemmgen.load` returns."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from gemmgen.arrays.backend import Backend, Plan
from gemmgen.arrays.binding import (
    Prepared,
    bound,
    case_of_codes,
    further_operands,
    number,
    require_known,
    require_names,
    require_operands,
)
from gemmgen.arrays.checked import MOST_FORMS, Arrays, C, Checked, require_untracked
from gemmgen.arrays.fastcall import Call, launch_of, tensor_type, unknown
from gemmgen.arrays.images import as_matrices
from gemmgen.arrays.libraries import library_of
from gemmgen.arrays.loaded import LOADED, Traced, forget
from gemmgen.arrays.preparing import case_of_one, layout_of, like
from gemmgen.arrays.view import Device, address_of, seen, tracked, view_of
from gemmgen.kernel.contract import OPERANDS
from gemmgen.kernel.prepare import Pack
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.sizes import SIZE_LIMIT
from gemmgen.support.errors import require

DIRECT = "direct"  # the key of what fastcall.c launches, among a form's


class Shortcut:
    """The calls of a kernel or a product that fastcall.c serves: `call` answers NotImplemented to others."""

    def __init__(self) -> None:
        self.call: Call = unknown
        self._calls: Any = None
        self._forms: dict[bytes, tuple[Any, ...]] = {}

    def learn(self, kernel: ArrayKernel, known: Checked, call: Sequence[Any], launch: Any, *routed: Any) -> None:
        """Let `launch` serve calls like this one, which `kernel` found `known`; see ENTRY of fastcall.c."""
        *arrays, operands = call
        if self._calls is None:
            self._calls = kernel.native.Calls(tensor_type(), kernel.rows_of, SIZE_LIMIT, self._forms)
            self.call = self._calls.call
        key = self._calls.key(*arrays, None, operands)
        if key is NotImplemented:
            return
        names = "A", "B", "C", *operands
        written = *(() if call[C] is None else (C,)), *(names.index(name) for name in kernel.outputs)
        route, chunk = routed or (None, 1)
        made, library = known.new_c, known.library
        if len(self._forms) >= MOST_FORMS:
            self._forms.clear()
        self._forms[key] = launch, route, chunk, made, library.stream, known.ordinal, library.wrote, written, names

    def close(self) -> None:
        self.call, self._calls, self._forms = unknown, None, {}


class ArrayKernel:
    """A kernel that takes arrays of torch, CuPy, PyCUDA, JAX, numpy or any library with DLPack, without copying them.

    A is M x K, B is K x N (K x 2N if the epilogue takes acc2, and so on) and C is M x N; in a batch the number of
    products comes first. Strides must be those that the kernel reads: with layout "rc" B is column-major, like
    `weight.t()` of a torch.nn.Linear. It is a context manager: leaving it frees what `device` holds.

    With groups of rows ("groups=8") B is 8 x K x N, and M is the number of rows of all groups; with "+masked" A, B and
    C have 8 matrices each; with "+along_k" A is M x K and B is K x N for the K of all groups, and C is 8 x M x N. The
    epilogue's vectors along N are 8 x N, dense, and scale_b and zero_b have 8 elements.

    Of a convolution ("im2col=56x56x64_3x3") A is images x H x W x C, or all pixels x C; B is K x N, or N x R x S x C;
    and C is images x P x Q x N, or M x N: a new one has as many dimensions as A. Of the gradient of filters ("+wgrad")
    A is images x P x Q x M, or M x K; B is images x H x W x C, or all pixels x C; and C is M x R x S x C, or M x N, as
    a new one is.
    """

    def __init__(self, source: KernelSource, backend: Backend) -> None:
        pointers = source.problem.pointers
        require(not pointers, f"{source.name} takes arrays of pointers to matrices, and from Python none are passed")
        inputs = source.problem.inputs
        packed = not inputs.coded or isinstance(source.launch.prepared("B"), Pack)
        require(packed, f"{source.name} takes inputs = {inputs}, and from Python codes are passed as pack_b packs them")
        self.source, self._backend = source, backend
        self.traced = Traced.of(source, f"{source.name} {source.digest[:16]} {backend.device}")
        self._known: dict[Hashable, Checked] = {}
        self.checks_alone = False  # it launches nothing: set before the first call
        self.outputs = tuple(operand.name for operand in source.problem.epilogue.outputs)
        self._shortcut = Shortcut()
        LOADED[self.traced.identity] = self

    @property
    def sources(self) -> tuple[KernelSource, ...]:
        """Its source, as an `ArrayProduct` has those of its kernels."""
        return (self.source,)

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def identity(self) -> str:
        """A key that is equal for kernels that compute the same in the same way."""
        return self.traced.identity

    @cached_property
    def device(self) -> Device:
        """The device on which its arrays must be; on "cpu" the emulator runs it."""
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
        """Enqueue C = alpha * A * B + beta * C, or the epilogue, on the current stream; return `out`.

        out       the array of C; None makes one in A's library. With beta != 0 it holds the old C. It must not share
                  elements with another operand
        stream    stream in place of A's library's current one: a handle, or an object of torch, CuPy or cuda.core
        operands  operands of the epilogue, by name (bias_n=..., scale_a=...): those that it reads and those that it
                  writes. Scales by block, of f32, dense and row-major: scales_a, ceil(K / 128) x M, and scales_b,
                  ceil(N / 128) x ceil(K / 128), or with "blocks+lines" ceil(K / 128) x N; with "+padded" rows of M or
                  N scales are a multiple of 4 apart. Of s32, dense: offs, the ends of groups, which do not descend;
                  group_rows, the number of rows of each masked group; index_a, the row of A for each row of C;
                  index_c, the row of C that each row of the product becomes, where `out` may have more rows than that

        `a` and `b` may be results of `prepare_a` and `prepare_b`; for B of codes `b` is the result of `pack_b`. With
        numpy or JAX the result is ready on return; else it is ready in stream order. If C has no element nothing is
        launched. Rows of C of no group, or that no index names, keep their values; those of a new C are undefined. No
        gradient is recorded, as gemmgen.torch.gemm does: a tensor that requires one is refused while torch's grad mode
        is on. Raises InvalidInput if sizes, strides, types, addresses or devices do not fit, and CandidateFailed
        (compile or launch). What offs, group_rows, index_a and index_c hold is not checked: only the device knows it.
        """
        c = self._shortcut.call(a, b, out, alpha, beta, stream, operands)
        if c is not NotImplemented:
            return c
        known, rows, addresses, c = self.seen(a, b, out, alpha, beta, operands)
        self.launch(known, rows, addresses, a, stream)
        self.wrote(known, out, operands)
        if DIRECT not in known.forms and self.direct(known) is not None:
            self._shortcut.learn(self, known, (a, b, out, alpha, beta, operands), self.direct(known))
        return c

    def plan(self, a: Any, b: Any, out: Any = None, *, alpha: float = 1.0, beta: float = 0.0, **operands: Any) -> Plan:
        """Make a launch on these arrays that is cheap to repeat; it takes a call's arguments and keeps them alive."""
        require("stream" not in operands, "a plan takes its stream when it is called: plan(stream=...)")
        arrays = self.arrays(a, b, out, alpha, beta, operands)
        return Plan(self._backend.plan(arrays), arrays)

    def launch(self, known: Checked, rows: int | None, addresses: Sequence[int], a: Any, stream: Any) -> None:
        """Enqueue the checked launch on operands at these addresses: see `Arrays`."""
        self._backend.run(known, rows, addresses, a, stream)

    def wrote(self, known: Checked, out: Any, operands: Mapping[str, Any]) -> None:
        """Tell the library which existing arrays a launch writes."""
        if out is not None:
            known.library.wrote(out)
        for name in self.outputs:
            known.library.wrote(operands[name])

    @property
    def native(self) -> Any:
        """The module of fastcall.c, or None."""
        return self._backend.native

    def direct(self, known: Checked) -> Any:
        """The `Launch` of fastcall.c for a launch that ran once; None if Python has to run it. Raises LookupError."""
        if DIRECT not in known.forms:
            simple = known.library.name == "torch" and not (known.empty or known.prepared or known.tracked)
            found = self._backend.direct(known) if simple and self.native is not None else None
            made = found and launch_of(self.native, found, known.by_rows, known.masks, known.pairs)
            known.forms[DIRECT] = made
        return known.forms[DIRECT]

    def prepare_a(self, a: Any, *, stream: Any = None) -> Prepared:
        """Prepare A, as `prepare_b` prepares B."""
        return self._prepare("A", a, stream)

    def prepare_b(self, b: Any, *, stream: Any = None) -> Prepared:
        """Make the copy of B that the kernel would make at each launch, once; pass it as `b`.

        Raises InvalidInput if the kernel reads B itself, so that there is nothing to prepare.
        """
        codes = self.source.problem.coded
        require(not codes, f"{self.name} multiplies codes with scales: pack_b takes them")
        return self._prepare("B", b, stream)

    def pack_b(self, codes: Any, scales: Any, zeros: Any = None, *, stream: Any = None) -> Prepared:
        """Pack B's codes with their scales and zero points, once; pass the result as `b`.

        codes   of 4 bits: uint8, two codes in a byte, the first in the lower half: N x K/2 of a column-major B, else
                K x N/2. u4 holds 0 to 15, s4 -8 to 7 in two's complement. Of 8 bits: N x K or K x N of uint8 or int8
        scales  ceil(K / group) x N numbers of A's type
        zeros   zero points, stored as codes are: ceil(K / group) x N, or x N/2; None where the kernel takes none

        With groups of rows there are as many such matrices in an array, groups x N x K/2: all groups are packed. The
        arrays are contiguous, and on the kernel's device.

        Raises InvalidInput if shapes or types do not fit, and for a kernel that multiplies no codes.
        """
        pack, problem = self.source.launch.prepared("B"), self.source.problem
        require(isinstance(pack, Pack), f"{self.name} multiplies no codes: there is nothing to pack")
        assert isinstance(pack, Pack)
        given = {"B": codes, "scales_b": scales, **({} if zeros is None else {"zeros_b": zeros})}
        views = {name: self._backend.locate(view_of(name, one)) for name, one in given.items()}
        case = case_of_codes(problem, views)
        matrix, library = pack.matrix(case), library_of(codes)
        made = library.empty((1, matrix.lines, matrix.ld), matrix.dtype, codes)
        self._backend.prepare(pack, case, views, self._backend.locate(view_of("B", made)), library, stream)
        shape = (case.k, case.n) if case.b.batch is None else (case.b.batch, case.k, case.n)
        return Prepared("B", made, shape, layout_of(self.source, pack))

    def prepared_b(self, array: Any, shape: tuple[int, ...]) -> Prepared:
        """The result of `prepare_b` for B of this `shape`, from the `array` that held it."""
        prepare = self.source.launch.prepared("B")
        assert prepare is not None, "this kernel reads B as it lies"
        require(not self.source.launch.sums_of("B"), f"{self.name} takes the sums of B's columns beside its copy")
        return Prepared("B", array, shape, layout_of(self.source, prepare))

    def prepares(self, operand: str) -> bool:
        """Whether launches first copy `operand`, "A" or "B"."""
        return self.source.launch.prepared(operand) is not None

    def close(self) -> None:
        forget(self.identity, self)
        self._shortcut.close()
        self._backend.close()

    def __enter__(self) -> ArrayKernel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<kernel {self.name}: {self.source.problem}, for arrays on {self.device}>"

    def arrays(self, a: Any, b: Any, out: Any, alpha: float, beta: float, operands: Mapping[str, Any]) -> Arrays:
        """Check a call on these arrays before it is launched. Raises InvalidInput for what does not fit."""
        known, rows, addresses, c = self.seen(a, b, out, alpha, beta, operands)
        written = (*(() if out is None else (out,)), *(operands[name] for name in self.outputs))
        return Arrays(known, rows, addresses, c, like(a), (a, b, c, *operands.values()), written)

    def seen(
        self, a: Any, b: Any, out: Any, alpha: float, beta: float, operands: Mapping[str, Any]
    ) -> tuple[Checked, int | None, list[int], Any]:
        """Return (the check, M if that leaves it open, the addresses, C). Raises InvalidInput for what does not fit.

        Every call comes here. Each layout is checked once, by `_checked`, and then found by types, strides, devices and
        shapes. If the check does not depend on M (see `rows_of`), M is left out of that key, except that all operands
        must have the same M: a call with another M is then known, too. Addresses are tested each time.
        """
        if operands and not self._operands.issuperset(operands):
            require_known(self.source.problem, operands)
        locate, rows_of, rows = self._backend.locate, self.rows_of, None
        lies_a, shape_a, at_a = seen("A", a, locate)
        lies_b, shape_b, at_b = seen("B", b, locate)
        lies_c, shape_c, at_c = seen("C", out, locate) if out is not None else (None, (), 0)
        if rows_of and shape_a and 1 < shape_a[0] <= SIZE_LIMIT and 0 not in shape_b:  # of no element each M is checked
            rows = shape_a[0]
            shape_a = shape_a[-1]
            if shape_c and shape_c[0] == rows:  # with all its sizes it is in no form that is known
                shape_c = shape_c[-1]
        scalars = number("alpha", alpha), number("beta", beta)
        key: tuple[Any, ...] = (lies_a, shape_a, lies_b, shape_b, lies_c, shape_c, *scalars, type(a))
        addresses = [at_a, at_b, at_c]
        if operands:
            key += self._operands_seen(operands, rows, addresses)
        known = self._known.get(key)
        if known is None:
            known, out = self._complete(key, (a, b, out, alpha, beta, operands), rows)
            addresses[C] = address_of("C", out, locate)
        elif out is None:
            out = known.new_c(rows, like(a))
            addresses[C] = address_of("C", out, locate)
        if known.sums:
            addresses += [address_of(name, {"A": a, "B": b}[name].sums, locate) for name in known.sums]
        known.require_addresses(addresses, rows)
        return known, rows, addresses, out

    def _operands_seen(self, operands: Mapping[str, Any], rows: int | None, addresses: list[int]) -> tuple[Any, ...]:
        """The epilogue's part of a call's key; the operands' addresses are appended to `addresses`."""
        key: list[Any] = []
        for name, one in operands.items():
            lies, shape, at = seen(name, one, self._backend.locate)
            if rows is not None and name in self.rows_of and shape and shape[0] == rows:
                shape = shape[1:]
            key += name, lies, shape
            addresses.append(at)
        return tuple(key)

    def _complete(self, key: Hashable, call: tuple[Any, ...], rows: int | None) -> tuple[Checked, Any]:
        """Return (the complete check of a call, kept by its key; C, which is new if none was given)."""
        a, b, out, alpha, beta, operands = call
        given = {"A": a, "B": b, **operands} if out is None else {"A": a, "B": b, "C": out, **operands}
        scalars, by_rows = (number("alpha", alpha), number("beta", beta)), rows is not None
        found = self._checked(given, *scalars, by_rows)
        if out is None:
            given["C"] = out = found.new_c(rows, like(a))
            found = self._checked(given, *scalars, by_rows, made=True)
        if len(self._known) >= MOST_FORMS:
            self._known.clear()
        self._known[key] = found
        return found, out

    def _checked(
        self, given: Mapping[str, Any], alpha: float, beta: float, by_rows: bool, made: bool = False
    ) -> Checked:
        """Check a launch with these layouts, before C is made. Raises InvalidInput if it is not possible.

        C may be `made` here: JAX calls even such an array read-only.
        """
        problem = self.source.problem
        copies = {name: one for name, one in given.items() if isinstance(one, Prepared)}
        views = {name: self._backend.locate(view_of(name, one)) for name, one in given.items() if name not in copies}
        require_names(problem, {name: one for name, one in given.items() if name not in OPERANDS}, alpha, beta)
        require(beta == 0 or "C" in views, f"beta = {beta} reads C: give it as out=")
        for name, copy in copies.items():
            self._require_prepared(name, copy)
        lead: tuple[int, ...] = ()
        if problem.inputs.conv is not None:
            views, lead = as_matrices(problem, problem.inputs.conv, views)
        case, shape = bound(problem, {**views, **copies}, alpha, beta)
        if "C" in views:
            views["C"] = replace(views["C"], readonly=views["C"].readonly and not made)
            require_operands(case, views, self.device, shape)
        places = (self._backend.locate(view_of("A", like(given["A"]))), *views.values())
        ordinal = next((one.ordinal for one in places if one.ordinal is not None), 0)  # empty arrays may not say it
        operands = ("A", "B", "C", *(name for name in given if name not in OPERANDS))
        names = [f"prepared_{name.lower()}" if name in copies else name for name in operands]
        sums = [name for name, copy in copies.items() if copy.sums is not None]
        names += [f"sums_{name.lower()}" for name in sums]
        library, follows = library_of(like(given["A"])), tuple(name for name, one in given.items() if tracked(one))
        prepared = tuple(copies), tuple(sums)
        return Checked(case, shape, lead, tuple(names), *prepared, by_rows, ordinal, library, follows)

    @cached_property
    def _operands(self) -> frozenset[str]:
        return frozenset(further_operands(self.source.problem))

    @cached_property
    def rows_of(self) -> frozenset[str]:
        """The operands whose first size is M, if nothing else that is checked depends on M.

        Empty if M is fixed, for batches, scales of blocks, gathered or scattered rows and images, if A is column-major,
        or if launches copy A first, except for a kernel that `checks_alone`.
        """
        problem, launch, inputs = self.source.problem, self.source.launch, self.source.problem.inputs
        copied = not self.checks_alone and any(one.operand == "A" for one in launch.prepares)
        several = problem.batched or inputs.blocks or inputs.by_index or inputs.conv is not None
        if problem.m is not None or several or problem.layout.a != "r" or copied:
            return frozenset()
        return frozenset(("A", "C", *(one.name for one in problem.epilogue.operands if one.along.startswith("m"))))

    def _require_prepared(self, name: str, copy: Prepared) -> None:
        prepare = self.source.launch.prepared(name)
        layout = "it lies" if prepare is None else layout_of(self.source, prepare)
        require(copy.operand == name, f"{name} is a prepared {copy.operand}")
        require(layout == copy.layout, f"{name} was prepared as {copy.layout}, and {self.name} takes it as {layout}")

    def _prepare(self, name: str, array: Any, stream: Any) -> Prepared:
        prepare = self.source.launch.prepared(name)
        require(prepare is not None, f"{self.name} reads {name} as it lies: there is nothing to prepare")
        assert prepare is not None
        if tracked(array):
            require_untracked((name,))
        view, library = self._backend.locate(view_of(name, array)), library_of(array)
        case = case_of_one(self.source, name, view)
        matrix = prepare.matrix(case)
        copy = library.empty((matrix.batch or 1, matrix.lines, matrix.ld), matrix.dtype, array)
        to = self._backend.locate(view_of(name, copy))
        sums = None
        lines = (*view.shape[:-2], view.shape[-1 if name == "B" else -2])
        launches = 0 not in lines  # else C is empty, and nobody reads the copy
        if launches:
            self._backend.prepare(prepare, case, {prepare.source: view}, to, library, stream)
        for step in self.source.launch.sums_of(name):
            sums = library.empty((step.elements(case),), case.problem.types.accumulator, array)
            if launches:
                made = self._backend.locate(view_of(name, sums))
                self._backend.prepare(step, case, {step.source: to}, made, library, stream)
        return Prepared(name, copy, view.shape, layout_of(self.source, prepare), sums)
