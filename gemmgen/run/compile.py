"""KernelSource -> CompiledKernel with NVRTC, cached by content.

NVRTC and the CUDA headers come from wheels: no toolkit, no GPU. A tiled kernel takes 0.3 s, a large register tile up
to several seconds, so `compile_many` spreads them over the cores. It uses processes: threads scale as well (NVRTC holds
no lock, and cuda-bindings lets go of the GIL), but a compiler that is killed in a process of its own costs one
candidate and not the run.
"""

from __future__ import annotations

import importlib.util
import json
import re
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gemmgen.kernel.families import FAMILIES
from gemmgen.kernel.prepare import ENTRY
from gemmgen.kernel.source import KernelSource
from gemmgen.support.brief import brief
from gemmgen.support.child import Child, ChildDied, crew, spread
from gemmgen.support.errors import CandidateFailed, Failure
from gemmgen.support.files import Store, content_key, sha256
from gemmgen.support.threads import cores

# -v puts the resource usage into the log. NVRTC has a cache of its own where there is a driver, and a kernel that
# it knows comes without that log: no-cache (NVRTC 12.9).
FLAGS = ("--std=c++17", "--ptxas-options=-v", "--no-cache")
LINES = "--generate-line-info"  # debuggers and sanitizers name lines; the machine code stays as it is
PROGRAM = "kernel.cu"  # what they call the text
KIND = "cubin"  # in the Store
# Of an ELF64 file: offset of the section headers, their size, their number, and which of them has the sections' names.
ELF_HEADER = (("<Q", 0x28), ("<H", 0x3A), ("<H", 0x3C), ("<H", 0x3E))
SECTION = struct.Struct("<I20xQQ")  # a header's offset of the name, offset and length of the section
COMPILE_TIMEOUT = 300.0  # seconds; the largest register tiles take a few


@brief
@dataclass(frozen=True)
class CompiledKernel:
    """A cubin and the resources that ptxas reports for it.

    source        SHA-256 of the text: KernelSource.digest
    arch          "sm_90", ...
    registers     a thread
    spill_bytes   spill stores and loads, in the code of one thread
    stack_bytes   stack frame of a thread
    shared_bytes  static shared memory a block; Launch.shared_bytes comes on top
    compiler      "NVRTC 13.4"
    seconds       that the compilation took, when it was done
    """

    source: str
    arch: str
    cubin: bytes
    registers: int
    spill_bytes: int
    stack_bytes: int
    shared_bytes: int
    compiler: str
    flags: tuple[str, ...]
    seconds: float


Compilation = CompiledKernel | Failure


def compile_kernel(source: KernelSource, arch: str, store: Store, *options: str) -> CompiledKernel:
    """`source` compiled for `arch` ("sm_90"), from the store where it is known; `options` for NVRTC, such as LINES.

    A kernel of a family with instructions that one architecture alone has is compiled for that: see `arch_for`.

    Raises CandidateFailed: compile (with NVRTC's first error) or unavailable (no NVRTC).
    """
    return compile_text(source.text, arch_for(source, arch), store, *options)


def arch_for(source: KernelSource, arch: str) -> str:
    """What `source` is compiled for where `arch` is.

    That is "sm_90a" for "sm_90" if its family is `arch_specific`, or, of no family, its text says that it was made so.
    """
    family = FAMILIES.get(source.family)
    specific = source.arch == f"{arch}a" if family is None else family.arch_specific
    return f"{arch}a" if specific and arch[-1:].isdigit() else arch


def compile_text(text: str, arch: str, store: Store, *options: str) -> CompiledKernel:
    """Like `compile_kernel`, for CUDA C++ that is no GEMM kernel."""
    known = _fetch(text, arch, store, *options)
    if known is not None:
        return known
    compiled = _run_nvrtc(text, arch, *options)
    store.put(KIND, _key(text, arch, *options), _encode(compiled))
    return compiled


def compile_many(
    sources: Sequence[KernelSource],
    arch: str,
    store: Store,
    on_done: Callable[[KernelSource, Compilation], None] = lambda source, result: None,
    *,
    compilers: Sequence[Child] = (),
    timeout: float = COMPILE_TIMEOUT,
) -> list[Compilation]:
    """Compile `sources`; the results come in their order.

    They are spread over `compilers`, which go on for another call, or else over processes of its own.
    `on_done(source, result)` is called here, in the caller's thread, as each gets ready. A compiler process that dies,
    or works for more than `timeout` seconds on one kernel, is that kernel's failure ("compile"). Raises only what
    `store` and `on_done` raise.
    """

    def ask(compiler: Child, source: KernelSource) -> Compilation:
        return _compile_in(compiler, source.text, arch_for(source, arch), store, timeout)

    if compilers:
        return spread(compilers, sources, ask, on_done)
    with crew(compiler_processes(len(sources))) as own:
        return spread(own, sources, ask, on_done)


def compiler_processes(most: int | None = None) -> list[Child]:
    """Processes that compile, one a core and no more than `most`; each starts with its first kernel."""
    count = cores() if most is None else max(1, min(cores(), most))
    return [Child(f"{__name__}:compiler_process") for _ in range(count)]


def _compile_in(child: Child, text: str, arch: str, store: Store, timeout: float) -> Compilation:
    try:
        known = _fetch(text, arch, store)
        if known is not None:
            return known
        compiled: CompiledKernel = child.request((text, arch), timeout)
    except CandidateFailed as error:
        return error.failure
    except ChildDied as error:
        return Failure("compile", str(error), "nvrtc")
    store.put(KIND, _key(text, arch), _encode(compiled))
    return compiled


def compiler_process() -> Callable[[tuple[str, str]], CompiledKernel]:
    """What a child of `compile_many` answers with."""
    with suppress(CandidateFailed):  # which each request meets
        _nvrtc()
    return lambda request: _run_nvrtc(*request)


def machine_code(cubin: bytes) -> list[tuple[str, bytes]]:
    """The sections of a cubin that hold instructions and constants: the same for texts that differ in names alone."""
    found = []
    for title, content in sections(cubin):
        if kind := re.match(r"\.(text|nv\.constant\d)", title):
            found.append((kind[1], content))
    return found


def sections(cubin: bytes) -> Iterator[tuple[str, bytes]]:
    """Name and content of each section of a cubin."""
    first, size, count, names = (struct.unpack_from(kind, cubin, at)[0] for kind, at in ELF_HEADER)
    table = [SECTION.unpack_from(cubin, first + size * index) for index in range(count)]
    for name, offset, length in table:
        start = table[names][1] + name
        yield cubin[start : cubin.index(b"\0", start)].decode(), cubin[offset : offset + length]


# The cache


def _key(text: str, arch: str, *options: str) -> str:
    return content_key(text, arch, compiler_version(), *FLAGS, *options)


def _fetch(text: str, arch: str, store: Store, *options: str) -> CompiledKernel | None:
    payload = store.get(KIND, _key(text, arch, *options))
    return None if payload is None else _decode(payload)


def _encode(compiled: CompiledKernel) -> bytes:
    """A line of JSON, then the cubin."""
    fields = asdict(compiled)
    del fields["cubin"]
    return json.dumps(fields).encode() + b"\n" + compiled.cubin


def _decode(payload: bytes) -> CompiledKernel | None:
    """The entry, or None for one that another version of gemmgen wrote differently."""
    head, _, cubin = payload.partition(b"\n")
    try:
        fields = json.loads(head)
        return CompiledKernel(**{**fields, "flags": tuple(fields["flags"])}, cubin=cubin)
    except (ValueError, TypeError, KeyError):
        return None


# NVRTC


def compiler_version() -> str:
    """ "NVRTC 13.4". Raises CandidateFailed (unavailable) where there is no NVRTC."""
    _, major, minor = _nvrtc().nvrtcVersion()
    return f"NVRTC {major}.{minor}"


def flags_for(arch: str, *options: str) -> tuple[str, ...]:
    """What NVRTC is called with to compile for `arch`, include folders apart."""
    return (*FLAGS, *options, f"--gpu-architecture={arch}")


@cache
def _nvrtc() -> Any:
    """The binding, imported late: it costs 0.2 s and a cached answer to many commands needs none."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()  # loads the library
    except (ImportError, RuntimeError) as error:
        hint = "pip install cuda-bindings nvidia-cuda-nvrtc"
        reason = f"NVRTC is missing ({str(error).splitlines()[0]}): {hint}"
        raise CandidateFailed(Failure("unavailable", reason, "nvrtc")) from error
    return nvrtc


def _run_nvrtc(text: str, arch: str, *options: str) -> CompiledKernel:
    started = time.perf_counter()
    _require_known(arch)
    flags = flags_for(arch, *options)
    cubin, log = _compile_program(text, flags)
    return CompiledKernel(
        source=sha256(text.encode()),
        arch=arch,
        cubin=cubin,
        **_resources(log),
        compiler=compiler_version(),
        flags=flags,
        seconds=time.perf_counter() - started,
    )


def _require_known(arch: str) -> None:
    reason = why_unknown(arch)
    if reason is not None:
        raise CandidateFailed(Failure("compile", reason, "nvrtc"))


def why_unknown(arch: str) -> str | None:
    """Why NVRTC does not compile for `arch`; None where it does. Raises CandidateFailed (unavailable)."""
    number = re.fullmatch(r"sm_([0-9]+)[af]?", arch)
    known = _nvrtc().nvrtcGetSupportedArchs()[-1]
    if number is not None and int(number[1]) in known:
        return None
    names = ", ".join(f"sm_{entry}" for entry in known)
    return f"unknown architecture {arch!r}: {compiler_version()} compiles for {names}"


def _compile_program(text: str, flags: tuple[str, ...]) -> tuple[bytes, str]:
    """(cubin, log). Raises CandidateFailed with the log's first error."""
    nvrtc = _nvrtc()
    headers = (f"--include-path={folder}" for folder in wheel_folders("include"))
    options = [option.encode() for option in (*flags, *headers)]
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), PROGRAM.encode(), 0, [], [])
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        log = _output(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).rstrip(b"\0").decode()
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CandidateFailed(Failure("compile", _first_error(log) or status.name, "nvrtc"))
        return _output(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program), log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _output(get_size: Callable[..., Any], get: Callable[..., Any], program: object) -> bytes:
    _, size = get_size(program)
    buffer = bytearray(size)
    get(program, buffer)
    return bytes(buffer)


def _first_error(log: str) -> str | None:
    line = re.search(r"^.*\berror\b.*$", log, re.MULTILINE)
    return None if line is None else line[0].strip()


def _resources(log: str) -> dict[str, int]:
    """What `ptxas -v` reports, in the fields' names: of the kernel, not of launches that prepare its operands.

    With several kernels in a text the largest of each.
    """
    reports = re.split(r"(?=Compiling entry function ')", log)
    log = "".join(report for report in reports if not re.match(rf"Compiling entry function '{ENTRY}'", report))

    def largest(pattern: str) -> int:
        return max((int(number) for number in re.findall(pattern, log)), default=0)

    if largest(r"Used (\d+) registers") == 0:  # never record "no spills" for want of a report
        raise CandidateFailed(Failure("compile", "ptxas reported no resource usage", "nvrtc"))
    return {
        "registers": largest(r"Used (\d+) registers"),
        "spill_bytes": largest(r"(\d+) bytes spill stores") + largest(r"(\d+) bytes spill loads"),
        "stack_bytes": largest(r"(\d+) bytes stack frame"),
        "shared_bytes": largest(r"(\d+) bytes smem"),
    }


def wheel_folders(name: str) -> list[Path]:
    """Folders called `name` ("include", "bin") of the installed NVIDIA wheels, newest CUDA first."""
    spec = importlib.util.find_spec("nvidia")
    roots = [] if spec is None else list(spec.submodule_search_locations or ())
    return sorted((folder for root in roots for folder in Path(root).glob(f"cu[0-9]*/{name}")), reverse=True)
