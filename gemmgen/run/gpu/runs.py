"""A run, in the worker: one launch between guard bands, and a check that nothing else changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pycuda.driver as cuda

from gemmgen.problem.dtype import CANARY, WORD, DType
from gemmgen.problem.gemm import Case
from gemmgen.run.acceptance import Judged, Places, Rule
from gemmgen.run.executor import Floats, Operands
from gemmgen.run.gpu import arena
from gemmgen.run.gpu.comparing import Judge
from gemmgen.run.gpu.comparing_records import Known
from gemmgen.run.gpu.images import Images
from gemmgen.run.gpu.launching import Binary, Enqueue, Pointers, Programs
from gemmgen.run.gpu.multiplier import Multiplier
from gemmgen.run.gpu.plain import THREADS, plain_blocks
from gemmgen.run.gpu.sampling import allocate
from gemmgen.run.gpu.shared import Given, Mapped, operands_in
from gemmgen.support.errors import CandidateFailed


class Arrays:
    """A batch's arrays of pointers on the device, between guard words."""

    def __init__(self, layout: arena.PointerArena) -> None:
        self._layout, self._memory = layout, allocate(layout.image.nbytes)
        cuda.memcpy_htod(self._memory, layout.image)
        self.pointers = {name: int(self._memory) + offset for name, offset in layout.offsets.items()}

    def check(self) -> None:
        """Raise CandidateFailed (crash) if the arrays have changed."""
        after = np.empty_like(self._layout.image)
        cuda.memcpy_dtoh(after, self._memory)
        self._layout.check(after)


@dataclass(frozen=True)
class Ran:
    """A launch that has ended: the image of device memory before it, and the memory after it."""

    layout: arena.DeviceArena
    image: Any
    memory: Any


class Runs:
    """Runs kernels once, on operands whose images stay on `device` from run to run."""

    def __init__(self, device: Any, stream: Any, programs: Programs, images: Images) -> None:
        self._device, self._stream, self._programs, self._images = device, stream, programs, images
        self._changed: Any = None
        self._multiplier: Multiplier | None = None
        self._judge: Judge | None = None
        self._kept: tuple[Ran, arena.ImageKey | None] | None = None  # of `run_kept`
        self._shared = Mapped()

    def run(self, binary: Binary, given: Given, changed: bytes, output: str = "C") -> Floats | int | None:
        """Return the storage of C, or of another `output`, after one launch between guard bands.

        Raises CandidateFailed: launch or crash.

        None asks for the operands, if they were not sent and no image of them is kept. `changed` is the cubin of
        changed.cu. A large result goes into the shared memory; the reply is then its number of elements.
        """
        ran = self._run(binary, given, changed, output)
        if ran is None:
            return None
        if given.case.problem.epilogue.outputs:
            return self._result(ran, output)
        return self._deliver(ran, given.shared)

    def multiply(self, given: Given, cubin: bytes, sizes: bool, largest: bool) -> int | None:
        """Compute A * B and, with `sizes`, |A| * |B| and, with `largest`, the largest product of each sum in the shared
        memory; return the number of all elements.

        None asks for the operands, as in `run`. `cubin` is that of multiply.cu.
        """
        case, layout = given.case, arena.place(given.case, given.seed)
        image = self._image(layout, given)
        if image is None:
            return None
        assert given.shared is not None
        made = self._products(layout, image, given.key, cubin, sizes)
        if largest:
            assert self._multiplier is not None
            made.append(
                self._images.with_room(
                    partial(self._multiplier.largest_of_parts, case, _pointers(layout, int(image), None)), given.key
                )
            )
        elements = case.m * case.b.cols * case.batch
        for index, memory in enumerate(made):
            self._copy_out(int(memory), DType.F64.size * elements, given.shared, index)
        return len(made) * elements

    def run_kept(self, binary: Binary, given: Given, changed: bytes) -> bool | None:
        """Run like `run`, but leave C on the device for `judge` and `deliver`."""
        self._kept = None
        ran = self._run(binary, given, changed, "C")
        self._kept = None if ran is None else (ran, given.key)
        return None if ran is None else True

    def judge(self, case: Case, rule: Rule, places: Places, multiply: bytes, judge: bytes) -> Judged:
        """Judge C of `run_kept` against `rule`, with more detail for `places`. A correct C is not kept any longer.

        `multiply` and `judge` are the cubins of multiply.cu and judge.cu.
        """
        assert self._kept is not None
        ran, key = self._kept
        product, *sizes = self._products(ran.layout, ran.image, key, multiply, rule.sizes)
        assert self._multiplier is not None
        rows = columns = 0
        if rule.largest:
            addresses = _pointers(ran.layout, int(ran.image), None)
            largest = self._images.with_room(partial(self._multiplier.largest, case, addresses), key)
            rows, columns = (int(memory) for memory in largest)
        if self._judge is None:
            self._judge = Judge(judge, plain_blocks(self._device))
        at, base, numbers = ran.layout.offsets["C"], int(ran.image), self._multiplier.numbers
        size = int(sizes[0] if sizes else product)
        read = dict.fromkeys(step.operand for step in rule.steps if step.operand)
        operands = {name: (base + ran.layout.offsets[name], numbers(case.tensors[name].dtype)) for name in read}
        old, result = base + at, int(ran.memory) + at
        known = Known(int(product), size, rows, columns, old, result, numbers(case.c.dtype), operands)
        judged = self._judge.judge(case, rule, known, places)
        if not judged.wrong:
            self._kept = None
        return judged

    def deliver(self, shared: str | None) -> Floats | int:
        """Return the C of `run_kept` as `run` does."""
        assert self._kept is not None
        (ran, _), self._kept = self._kept, None
        return self._deliver(ran, shared)

    def run_guarded(self, enqueue: Enqueue, case: Case, operands: Operands) -> Floats:
        """Run like `run`, with the launch of `enqueue` in place of a kernel's."""
        layout = arena.place(case, 0)
        before = layout.image(operands)
        memory = allocate(layout.size)
        cuda.memcpy_htod(memory, before)
        arrays = self._arrays(layout, int(memory), 0, spare=None)
        self._try_once(enqueue, _pointers(layout, int(memory), arrays))
        after = np.empty_like(before)
        cuda.memcpy_dtoh(after, memory)
        memory.free()
        return layout.result(before, after)

    def _products(
        self, layout: arena.DeviceArena, image: Any, key: arena.ImageKey | None, cubin: bytes, sizes: bool
    ) -> list[Any]:
        """Device memory with A * B, and with |A| * |B| if `sizes` are asked for."""
        if self._multiplier is None:
            self._multiplier = Multiplier(cubin, plain_blocks(self._device))
        addresses = _pointers(layout, int(image), None)
        multiply = partial(self._multiplier.multiply, layout.case, addresses)
        return [
            self._images.with_room(partial(multiply, magnitudes=magnitudes), spare=key)
            for magnitudes in ((False, True) if sizes else (False,))
        ]

    def _image(self, layout: arena.DeviceArena, given: Given) -> Any:
        """The image of operands that were sent or are kept; None if they are neither."""
        sent = given.sent
        if sent == "shared":
            assert given.shared is not None
            sent = operands_in(self._shared, given.shared, layout.case)
        return self._images.get(given.key, layout, sent)

    def _run(self, binary: Binary, given: Given, changed: bytes, output: str) -> Ran | None:
        """Run one launch, and check that only outputs changed."""
        case, seed, key = given.case, given.seed, given.key
        enqueue, layout = self._programs.launcher(binary, case), arena.place(case, seed)
        workspace = arena.place_workspace(binary[0].launch, case, seed)
        image = self._image(layout, given)
        if image is None:
            return None
        memory = self._images.with_room(lambda: allocate(layout.size), spare=key)
        cuda.memcpy_dtod(memory, image, layout.size)
        arrays = self._arrays(layout, int(memory), seed, spare=key)
        pointers = _pointers(layout, int(memory), arrays)
        if workspace is None:
            self._try_once(enqueue, pointers)
        else:
            self._try_in_workspace(enqueue, pointers, workspace, spare=key)
        self._check(arrays)
        ran = Ran(layout, image, memory)
        if not case.problem.epilogue.outputs and self._count_changed(changed, ran):
            self._result(ran, output)
        return ran

    def _result(self, ran: Ran, output: str) -> Floats:
        """The storage of an output, from all bytes that changed. Raises CandidateFailed: crash, if others changed."""
        before, after = (np.empty(ran.layout.size // WORD, np.uint32) for _ in range(2))
        cuda.memcpy_dtoh(before, ran.image)
        cuda.memcpy_dtoh(after, ran.memory)
        with self._images_distrusted():
            return ran.layout.result(before, after, output)

    def _try_in_workspace(
        self, enqueue: Enqueue, pointers: Pointers, layout: arena.WorkspaceArena, spare: arena.ImageKey | None
    ) -> None:
        """Run one launch to its end in a workspace of its own. Raises CandidateFailed: crash, for illegal changes
        there."""
        memory = self._images.with_room(lambda: allocate(layout.size), spare)
        base = int(memory)
        cuda.memset_d32(memory, CANARY, layout.size // WORD)
        if layout.workspace.semaphores:
            cuda.memset_d32(base + layout.offsets["semaphores"], 0, layout.workspace.semaphores)
        self._try_once(enqueue, {**pointers, **{name: base + offset for name, offset in layout.offsets.items()}})
        after = np.empty(layout.size // WORD, np.uint32)
        for part in layout.kept():
            cuda.memcpy_dtoh(after[part], base + WORD * part.start)
        with self._images_distrusted():
            layout.check(after)

    def _try_once(self, enqueue: Enqueue, pointers: Pointers) -> None:
        """Run one launch to its end."""
        enqueue(pointers, self._stream)
        self._stream.synchronize()

    def _count_changed(self, cubin: bytes, ran: Ran) -> int:
        """The number of bytes outside of C's elements that the launch changed."""
        if self._changed is None:
            self._changed = cuda.module_from_buffer(cubin).get_function("changed")
        count, c = allocate(8), ran.layout.matrices[2]
        cuda.memset_d32(count, 0, 2)
        numbers = np.int64(ran.layout.size // WORD), np.int64(ran.layout.offsets["C"])
        sizes = np.int32(c.rows), np.int32(c.cols), np.int32(c.ld)
        batch = np.int32(c.dtype.size), np.int64(c.batch or 1), np.int64(c.stride)
        pointers = (np.uintp(int(memory)) for memory in (ran.image, ran.memory))
        grid = (plain_blocks(self._device), 1)
        self._changed(*pointers, *numbers, *sizes, *batch, np.uintp(int(count)), grid=grid, block=(THREADS, 1, 1))
        found = np.zeros(1, np.uint64)
        cuda.memcpy_dtoh(found, count)
        return int(found[0])

    def _arrays(self, layout: arena.DeviceArena, base: int, seed: int, spare: arena.ImageKey | None) -> Arrays | None:
        """The arrays of pointers to operands at address `base`; None if the kernel takes none."""
        placed = arena.place_pointers(layout, base, seed)
        return None if placed is None else self._images.with_room(lambda: Arrays(placed), spare)

    def _check(self, arrays: Arrays | None) -> None:
        """Raise CandidateFailed: crash, if a launch changed `arrays`."""
        with self._images_distrusted():
            if arrays is not None:
                arrays.check()

    @contextmanager
    def _images_distrusted(self) -> Iterator[None]:
        """Drop the kept images if an error is found inside: a wild write may have hit them, too."""
        try:
            yield
        except CandidateFailed:
            self._images.clear()
            raise

    def _deliver(self, ran: Ran, shared: str | None) -> Floats | int:
        """C's storage, or its length if it is in the `shared` memory."""
        layout, address = ran.layout, int(ran.memory) + ran.layout.offsets["C"]
        dtype, elements = layout.case.c.dtype, layout.matrices[2].elements
        if layout.scattered:
            scattered: Floats = np.empty(elements, dtype.numpy)
            cuda.memcpy_dtoh(scattered, address)
            return layout.storage(scattered)
        size = dtype.size * elements
        if shared is not None and size >= arena.KEPT_BYTES:
            with suppress(OSError):
                self._copy_out(address, size, shared)
                return elements
        result: Floats = np.empty(elements, dtype.numpy)
        cuda.memcpy_dtoh(result, address)
        return result

    def _copy_out(self, address: int, size: int, shared: str, index: int = 0) -> None:
        """Copy `size` bytes at a device `address` into the `shared` memory, behind `index` others of this size."""
        cuda.memcpy_dtoh(self._shared.part(shared, slice(index * size, (index + 1) * size)), address)


def _pointers(layout: arena.DeviceArena, base: int, arrays: Arrays | None) -> Pointers:
    """The pointers that a kernel takes for operands at address `base`; for A, B and C perhaps those of the arrays."""
    operands = {name: base + offset for name, offset in layout.offsets.items()}
    return operands if arrays is None else {**operands, **arrays.pointers}
