"""Checks a compiled kernel against its launch: what a driver would refuse, without a driver."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gemmgen.kernel.contract import Parameter
from gemmgen.kernel.source import KernelSource
from gemmgen.kernel.tensor_map import MAP_BYTES
from gemmgen.problem.device import REGISTER_UNIT, REGISTERS_PER_SM, WARP, parse_arch
from gemmgen.problem.sizes import POINTER_BYTES
from gemmgen.run.arguments import SCALARS
from gemmgen.run.compile import CompiledKernel, sections

# The attributes of a kernel in its section .nv.info.NAME: a byte says how the value is stored, one which it is.
INFO = ".nv.info."
SIZED = 4  # the value's length follows, then the value; all others have it in two bytes
PARAMETER = 0x17  # index (4 bytes), ordinal (2), offset (2), then 14 bits of other things below the size
MOST_THREADS = 0x05  # of a block, along each dimension


def why_not_launchable(source: KernelSource, compiled: CompiledKernel) -> str | None:
    """The reason why the machine code or the architecture does not allow the launch of `source`; None if they do."""
    info = {name.removeprefix(INFO): data for name, data in sections(compiled.cubin) if name.startswith(INFO)}
    steps = (_why_not_called(step, info.get(step.name)) for step in source.program)
    troubles = (*steps, _registers(source, compiled), _shared(source, compiled))
    return next((trouble for trouble in troubles if trouble is not None), None)


def _why_not_called(source: KernelSource, info: bytes | None) -> str | None:
    if info is None:
        return f'the CUDA compiler finds no function extern "C" __global__ {source.name}'
    attributes = list(_attributes(info))
    return _parameters(source, attributes) or _threads(source, attributes)


def _attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(info):
        storage, attribute, length = struct.unpack_from("<BBH", info, at)
        at += 4
        size = length if storage == SIZED else 0
        yield attribute, info[at : at + size]
        at += size


def _parameters(source: KernelSource, attributes: list[tuple[int, bytes]]) -> str | None:
    sizes = {}
    for attribute, value in attributes:
        if attribute == PARAMETER:
            _, ordinal, _, word = struct.unpack("<IHHI", value)
            sizes[ordinal] = word >> 18
    takes = [sizes[ordinal] for ordinal in sorted(sizes)]
    given = [_bytes_of(parameter) for parameter in source.parameters]
    if takes == given:
        return None
    return f"{source.name} takes {len(takes)} parameters of {takes} bytes; its launch passes {len(given)} of {given}"


def _bytes_of(parameter: Parameter) -> int:
    if parameter.is_map:
        return MAP_BYTES
    return POINTER_BYTES if parameter.is_pointer else struct.calcsize(SCALARS[parameter.ctype])


def _threads(source: KernelSource, attributes: list[tuple[int, bytes]]) -> str | None:
    found = (struct.unpack("<III", value)[0] for attribute, value in attributes if attribute == MOST_THREADS)
    bounds = next(found, None)
    if bounds is None or source.launch.threads <= bounds:
        return None
    return f"blocks of {source.launch.threads} threads are more than the kernel's __launch_bounds__ of {bounds}"


def _registers(source: KernelSource, compiled: CompiledKernel) -> str | None:
    warps = -(-source.launch.threads // WARP)
    needed = warps * WARP * -(-compiled.registers // REGISTER_UNIT) * REGISTER_UNIT
    if needed <= REGISTERS_PER_SM:
        return None
    return (
        f"{source.launch.threads} threads of {compiled.registers} registers need {needed}, and a block has "
        f"{REGISTERS_PER_SM}: lower them with __launch_bounds__({source.launch.threads})"
    )


def _shared(source: KernelSource, compiled: CompiledKernel) -> str | None:
    dynamic, most = source.launch.shared_bytes, parse_arch(compiled.arch).limits.shared_bytes
    if compiled.shared_bytes + dynamic <= most:
        return None
    return (
        f"{compiled.shared_bytes} bytes of shared memory and {dynamic} of the launch are more than the {most} that a "
        f"block of {compiled.arch} has"
    )
