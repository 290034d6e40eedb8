"""Launches on a GPU, in the caller's context and on the caller's stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cuda.bindings import driver

from gemmgen.arrays.backend import Planned
from gemmgen.arrays.checked import Arrays, Checked
from gemmgen.arrays.fastcall import Direct, native
from gemmgen.arrays.form import Context, Form, Workspace, current, failures
from gemmgen.arrays.libraries import Library, handle_of
from gemmgen.arrays.preparing import like
from gemmgen.arrays.view import ArrayView, Device
from gemmgen.kernel.prepare import Step as PrepareStep
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.dtype import WORD
from gemmgen.problem.gemm import Case
from gemmgen.run.compile import arch_for, compile_kernel
from gemmgen.run.gpu.bindings import DriverFunction, checked
from gemmgen.support.errors import require
from gemmgen.support.files import Store


class CardBackend:
    """Runs `source` on the device of its arrays, in the context that is current there, or else in the primary one."""

    device: Device = "cuda"

    def __init__(self, source: KernelSource, store: Store) -> None:
        with failures():
            checked(driver.cuInit(0))
        self._source, self._store = source, store
        self._functions: dict[Context, dict[str, DriverFunction]] = {}
        self._workspaces: dict[tuple[Context, int], Workspace] = {}

    def locate(self, view: ArrayView) -> ArrayView:
        if view.device != "cuda" or view.ordinal is not None or view.address == 0:
            return view
        attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        with failures():
            return replace(view, ordinal=int(checked(driver.cuPointerGetAttribute(attribute, view.address))))

    def run(self, known: Checked, rows: int | None, addresses: Sequence[int], a: Any, stream: Any) -> None:
        """Run in the current context with little overhead, if it belongs to the arrays' device."""
        if known.empty:
            _zero(known, addresses, handle_in(known.library, known.ordinal, stream))
            return
        form: Form | None = known.forms.get(int(driver.cuCtxGetCurrent()[1]))
        if form is None:
            with failures(), current(known.ordinal) as context:
                if context.handle not in known.forms:
                    known.forms[context.handle] = self._form(context, known)
                self.run(known, rows, addresses, a, stream)
            return
        handle = handle_in(known.library, known.ordinal, stream)
        if not form.takes_workspace:
            form.run(addresses, rows, handle)
            return
        memory = self._workspace(form.context, handle, known.library)
        with memory.alone:
            placed = form.placed(rows, memory, known.library, like(a), handle)
            form.run((*addresses, *placed), rows, handle)

    @property
    def native(self) -> Any:
        return native(self._store)

    def direct(self, known: Checked) -> Direct | None:
        forms = [form for form in [*known.forms.values()] if isinstance(form, Form)]
        if not forms:
            raise LookupError("nothing of it ran")
        return forms[0].direct()

    def plan(self, arrays: Arrays) -> Planned:
        """Make a plan, whose context must be current when it is called."""
        library, ordinal, rows = arrays.library, arrays.checked.ordinal, arrays.rows
        if arrays.checked.empty:
            return lambda stream: _zero(arrays.checked, arrays.addresses, handle_in(library, ordinal, stream))
        with failures(), current(ordinal) as context:
            form, memory = self._form(context, arrays.checked), Workspace()
            now = library.stream(ordinal)
            addresses = (*arrays.addresses, *form.placed(rows, memory, library, arrays.like, now))
            if form.takes_workspace and not library.capturing(now, ordinal):
                checked(driver.cuStreamSynchronize(driver.CUstream(now)))  # it is zero to any stream
            form.bind(addresses, rows)

        def planned(stream: Any, memory: Workspace = memory) -> None:  # which lives as long as this
            form.enqueue(addresses, rows, handle_in(library, ordinal, stream))

        return planned

    def prepare(
        self,
        step: PrepareStep,
        case: Case,
        views: Mapping[str, ArrayView],
        made: ArrayView,
        library: Library,
        stream: Any,
    ) -> None:
        entry = step.entry(self._source.name)
        source, ordinal = next(one for one in self._source.program if one.name == entry), made.ordinal or 0
        with failures(), current(ordinal) as context:
            form = Form(context, source.contract, case, False, (*views, step.part))
            form.add(source.contract, self._function(context, entry))
            addresses = (*(view.address for view in views.values()), made.address)
            form.run(addresses, None, handle_in(library, ordinal, stream))

    def close(self) -> None:
        """Forget functions and workspaces; modules go with their context."""
        self._functions.clear()
        self._workspaces.clear()

    def _form(self, context: Context, known: Checked) -> Form:
        source, names = self._source, known.names
        waits = not known.library.asynchronous
        parts = [name for name in source.launch.parts if name not in (*names, "semaphores")]
        form = Form(context, source.contract, known.case, known.by_rows, names, parts, waits)
        made = {one.entry(source.name) for one in source.launch.prepares if one.part in names}
        for step in source.program:
            if step.name not in made:
                form.add(step.contract, self._function(context, step.name))
        return form

    def _function(self, context: Context, name: str) -> DriverFunction:
        if context not in self._functions:
            _require_arch(self._source, context)
            cubin = compile_kernel(self._source, context.arch, self._store).cubin
            self._functions[context] = {
                step.name: DriverFunction(step.name, step.launch, cubin) for step in self._source.program
            }
        return self._functions[context][name]

    def _workspace(self, context: Context, stream: int, library: Library) -> Workspace:
        """The stream's workspace; a new one for a graph that is being captured, as it belongs to the graph's memory."""
        if library.capturing(stream, context.ordinal):
            return Workspace()
        return self._workspaces.setdefault((context, stream), Workspace())


def _zero(known: Checked, addresses: Sequence[int], stream: int) -> None:
    """Enqueue what is left of a launch if C has no element: largest magnitudes are set to 0. Raises CandidateFailed."""
    handle = driver.CUstream(stream)
    with failures(), current(known.ordinal):
        for name, size in known.zeroed:
            if size:
                checked(driver.cuMemsetD32Async(addresses[known.names.index(name)], 0, size // WORD, handle))
        if not known.library.asynchronous:
            checked(driver.cuStreamSynchronize(handle))


def _require_arch(source: KernelSource, context: Context) -> None:
    """Raise InvalidInput if the kernel has instructions that only another architecture has."""
    made = source.arch.rstrip("a")
    alone = arch_for(source, made).endswith("a") and made != context.arch
    require(not alone, f"{source.name} is for {made}a alone, and device {context.ordinal} is of {context.arch}")


def handle_in(library: Library, ordinal: int, stream: Any) -> int:
    """The handle of a call's `stream`, or of the library's current stream if none was given."""
    return library.stream(ordinal) if stream is None else handle_of(stream)
