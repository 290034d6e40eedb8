"""KernelSource -> CompiledKernel with NVRTC, cached by content.

A tiled kernel takes 0.3 s, a large register tile up to several seconds, so `compile_many` spreads them over the cores.
It uses processes: threads scale as well (NVRTC holds no lock, and cuda-bindings lets go of the GIL), but a compiler
that is killed in a process of its own costs one candidate and not the run.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from gemmgen.families import FAMILIES
from gemmgen.kernel.prepare import ENTRY
from gemmgen.kernel.source import KernelSource
from gemmgen.run.nvrtc import FLAGS, Program, compile_program, compiler_version, flags_for
from gemmgen.support.child import Child, ChildDied, crew, spread
from gemmgen.support.errors import CandidateFailed, Failure, FailureKind
from gemmgen.support.files import Store, content_key, sha256
from gemmgen.support.short_repr import brief
from gemmgen.support.threads import cores

KIND = "cubin"  # in the Store
# The header of an ELF64 file: offset of the section headers, their size, their number, and which of them has the
# sections' names.
ELF_HEADER = (("<Q", 0x28), ("<H", 0x3A), ("<H", 0x3C), ("<H", 0x3E))
SECTION = struct.Struct("<I20xQQ")  # a header's offset of the name, offset and length of the section
# A line of ptxas: "(C7519) Potential Performance Loss: wgmma.mma_async instructions ... in the function 'f'"
ADVISORY = re.compile(
    r"\((?P<code>C7\d{3})\) (?:Potential Performance Loss: )?(?P<words>.+?)"
    r"(?: in (?:the )?function '(?P<function>\w+)')?(?: in line \d+)?$",
    re.MULTILINE,
)
COMPILE_TIMEOUT = 300.0  # seconds; the largest register tiles take a few
COMPILER = "gemmgen.run.nvrtc:compiler_process"
APART_TIMEOUT, APART_BYTES = 60.0, 8 * 2**30  # of a text that may be a stranger's


@brief
@dataclass(frozen=True)
class CompiledKernel:
    """A cubin and the resources that ptxas reports for it.

    source        SHA-256 of the text: KernelSource.digest
    arch          "sm_90", ...
    registers     registers per thread
    spill_bytes   bytes of spill stores and loads per thread
    stack_bytes   bytes of stack frame per thread
    shared_bytes  static shared memory per block; Launch.shared_bytes comes on top
    compiler      "NVRTC 13.4"
    seconds       seconds that the compilation took
    advisories    ptxas's performance warnings, such as "C7519: wgmma.mma_async instructions are serialized due to ..."
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
    advisories: tuple[str, ...] = ()


Compilation = CompiledKernel | Failure

# Compilers of other machines, for a process that measures for a cluster, which sets it. None: this machine's cores.
farm: Callable[[], list[Child]] | None = None


def compile_kernel(source: KernelSource, arch: str, store: Store, *options: str) -> CompiledKernel:
    """Compile `source` for `arch` ("sm_90"), or take it from the store; `options` for NVRTC, such as LINES.

    A family with instructions of one architecture only is compiled for that architecture: see `arch_for`.

    Raises CandidateFailed: compile (with NVRTC's first error) or unavailable (no NVRTC).
    """
    return compile_text(source.text, arch_for(source, arch), store, *options)


def arch_for(source: KernelSource, arch: str) -> str:
    """The architecture for which `source` is compiled if kernels are compiled for `arch`.

    That is "sm_90a" for "sm_90" if its family is `arch_specific`, or, if it has no family, if its text says so.
    """
    family = FAMILIES.get(source.family)
    specific = source.arch == f"{arch}a" if family is None else family.arch_specific
    return f"{arch}a" if specific and arch[-1:].isdigit() else arch


def compile_text(text: str, arch: str, store: Store, *options: str) -> CompiledKernel:
    """Compile CUDA C++ that is not a GEMM kernel, as `compile_kernel` does."""
    known = _fetch(text, arch, store, *options)
    if known is not None:
        return known
    compiled = _compiled(text, arch, compile_program(text, arch, *options), *options)
    store.put(KIND, _key(text, arch, *options), _encode(compiled))
    return compiled


def compile_apart(source: KernelSource, arch: str, store: Store) -> CompiledKernel:
    """Compile like `compile_kernel`, but in a confined process (see nvrtc.py), for a third-party text.

    Also raises CandidateFailed: unjudged, if the text needs more memory or time than allowed.
    """
    with crew([Child(COMPILER, str(APART_BYTES), answers=(Program,))]) as (child,):
        compiled = _compile_in(child, source.text, arch_for(source, arch), store, APART_TIMEOUT, died="unjudged")
    if isinstance(compiled, Failure):
        raise CandidateFailed(compiled)
    return compiled


def compile_many(
    sources: Sequence[KernelSource],
    arch: str,
    store: Store,
    on_done: Callable[[KernelSource, Compilation], None] = lambda *_: None,
    *,
    compilers: Sequence[Child] = (),
) -> list[Compilation]:
    """Compile `sources`; the results come in the same order.

    They are spread over `compilers`, which stay for another call, or else over processes of its own. `on_done(source,
    result)` is called in the caller's thread as each result is ready. If a compiler process dies, or takes more than
    COMPILE_TIMEOUT seconds for one kernel, that kernel fails ("compile"). Raises only what `store` and `on_done` raise.
    """

    def ask(compiler: Child, source: KernelSource) -> Compilation:
        return _compile_in(compiler, source.text, arch_for(source, arch), store, COMPILE_TIMEOUT)

    if compilers:
        return spread(compilers, sources, ask, on_done)
    with crew(compiler_processes(len(sources))) as own:
        return spread(own, sources, ask, on_done)


def compiler_processes(most: int | None = None) -> list[Child]:
    """Return compiler processes, one per core and no more than `most`, or those of a `farm`; each starts with its first
    kernel."""
    if farm is not None and (others := farm()):
        return others[:most]
    count = cores() if most is None else max(1, min(cores(), most))
    return [Child(COMPILER) for _ in range(count)]


def _compile_in(
    child: Child, text: str, arch: str, store: Store, timeout: float, died: FailureKind = "compile"
) -> Compilation:
    try:
        known = _fetch(text, arch, store)
        if known is not None:
            return known
        compiled = _compiled(text, arch, child.request((text, arch), timeout))
    except CandidateFailed as error:
        return error.failure
    except ChildDied as error:
        return Failure(died, f"NVRTC: {error}" if died != "compile" else str(error), "nvrtc")
    store.put(KIND, _key(text, arch), _encode(compiled))
    return compiled


def machine_code(cubin: bytes) -> list[tuple[str, bytes]]:
    """The sections of a cubin that hold instructions and constants: they are equal for texts that differ only in
    names.

    Variables are left out: `gemmgen.run.sass.same_machine_code` compares them. So is bank 4, where the linker fills in
    the address of each variable.
    """
    found = []
    for title, content in sections(cubin):
        if kind := re.match(r"\.(text|nv\.constant[0-35-9])", title):
            found.append((kind[1], content))
    return found


def variables(cubin: bytes) -> list[bytes]:
    """The initial values of a text's variables, including constexpr variables that no code reads."""
    return [content for title, content in sections(cubin) if title.startswith(".nv.global.init")]


def sections(cubin: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each section of a cubin."""
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
    """Encode as a line of JSON, then the cubin."""
    fields = asdict(compiled)
    del fields["cubin"]
    return json.dumps(fields).encode() + b"\n" + compiled.cubin


def _decode(payload: bytes) -> CompiledKernel | None:
    """Return the entry, or None if another version of gemmgen wrote it differently."""
    head, _, cubin = payload.partition(b"\n")
    try:
        fields = json.loads(head)
        lists = {name: tuple(fields[name]) for name in ("flags", "advisories")}
        return CompiledKernel(**{**fields, **lists}, cubin=cubin)
    except (ValueError, TypeError, KeyError):
        return None


# What NVRTC made


def _compiled(text: str, arch: str, program: Program, *options: str) -> CompiledKernel:
    """The compiled kernel of a program. Raises CandidateFailed: compile, if ptxas does not report resources."""
    return CompiledKernel(
        source=sha256(text.encode()),
        arch=arch,
        cubin=program.cubin,
        **_resources(program.log),
        compiler=compiler_version(),
        flags=flags_for(arch, *options),
        seconds=program.seconds,
        advisories=_advisories(program.log),
    )


def _advisories(log: str) -> tuple[str, ...]:
    """The kernel's performance warnings, each once."""
    found = (match for match in ADVISORY.finditer(log) if not re.fullmatch(ENTRY, match["function"] or ""))
    return tuple(dict.fromkeys(f"{match['code']}: {match['words']}" for match in found))


def _resources(log: str) -> dict[str, int]:
    """The resources that `ptxas -v` reports, by field name, without launches that prepare operands.

    If a text has several kernels, each value is the largest.
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
