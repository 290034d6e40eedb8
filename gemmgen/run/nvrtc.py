"""NVRTC itself: a text in, a cubin and ptxas's report out. Each compiler process imports this and little else.

NVRTC and the CUDA headers come from wheels: no toolkit and no GPU are needed.
"""

from __future__ import annotations

import importlib.util
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from gemmgen.support.errors import CandidateFailed, Failure, FailureKind, require_no_nul

# -v puts the resource usage into the log. NVRTC has a cache of its own where there is a driver, and a kernel that
# it knows comes without that log: no-cache (NVRTC 12.9).
FLAGS = ("--std=c++17", "--ptxas-options=-v", "--no-cache")
LINES = "--generate-line-info"  # debuggers and sanitizers name lines; the machine code stays as it is
PROGRAM = "kernel.cu"  # what they call the text
MOST_LOG_BYTES, MOST_CODE_BYTES = 2**20, 2**28  # a longer log is cut; more code is refused
MOST_STDERR_BYTES = 2**24  # of a confined process
SPLICE = re.compile(r"\\[ \t]*\r?\n")
BETWEEN = r"(?:[ \t\v\f]|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)*"  # a comment in one way alone: others take exponential time
# In comments and strings, too: which these are the preprocessor alone can tell.
INCLUDE = re.compile(rf"(?:#|%:){BETWEEN}(?:include_next|include|import|embed)\b{BETWEEN}([^\n]*)", re.DOTALL)
ASKED = re.compile(r"__has_(?:include|embed)\w*")
# A header of CUDA, or of CCCL, in what NVRTC says.
LACKING = re.compile(r'cannot open source file "((?:cuda|mma|cooperative_groups)\w*\.h|(?:nv|cuda/std)/[\w/.]+)"')
HEADER = re.compile(r"""["<](\w[\w.+-]*(?:/\w[\w.+-]*)*)[">]""")


@dataclass(frozen=True)
class Program:
    """A compiled text: the cubin, ptxas's log, and the seconds that it took."""

    cubin: bytes
    log: str
    seconds: float


def compile_program(text: str, arch: str, *options: str) -> Program:
    """Compile `text` for `arch` ("sm_90").

    Raises CandidateFailed: compile (with the log's first error, or an `arch` that NVRTC does not know) or unavailable.
    """
    started = time.perf_counter()
    reason = why_unknown(arch)
    if reason is not None:
        raise CandidateFailed(Failure("compile", reason, "nvrtc"))
    cubin, log = _compile(text, flags_for(arch, *options))
    return Program(cubin, log, time.perf_counter() - started)


def compile_ptx(text: str, arch: str) -> str:
    """Compile `text` for `arch` ("sm_90a") to the PTX from which NVRTC makes machine code, with line numbers.

    Raises CandidateFailed as `compile_program` does.
    """
    reason = why_unknown(arch)
    if reason is not None:
        raise CandidateFailed(Failure("compile", reason, "nvrtc"))
    ptx, _ = _compile(text, flags_for_ptx(arch), ptx=True)
    return ptx.rstrip(b"\0").decode(errors="replace")


def ptx_process(most_bytes: str) -> Callable[[tuple[str, str]], str]:
    """The request handler of a child that makes PTX. Confines the process, with at most `most_bytes` of memory."""
    _confine(int(most_bytes))
    return lambda request: compile_ptx(*request)


def compiler_process(most_bytes: str | None = None) -> Callable[[tuple[str, str]], Program]:
    """The request handler of a child of `compile_many`. Confines the process if a memory limit is given."""
    if most_bytes is not None:
        _confine(int(most_bytes))
    with suppress(CandidateFailed):  # which each request meets
        _nvrtc()
    return lambda request: compile_program(*request)


def _confine(most_bytes: int) -> None:
    """Limit this process to `most_bytes` of address space, and to reading CUDA's headers and NVRTC's libraries."""
    import resource  # of Unix alone

    from gemmgen.support.confine import confine

    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    with suppress(CandidateFailed):  # which each request meets
        _nvrtc()
    libraries = Path("/proc/self/maps").read_text().split() if Path("/proc/self/maps").exists() else []
    folders = {Path(name).parent for name in libraries if "/libnvrtc" in name}
    confine([*header_folders(), *folders], MOST_STDERR_BYTES)


def foreign_file(text: str) -> str | None:
    """The first line of `text` that names a file other than CUDA's headers; None if there is none.

    NVRTC opens whatever `#include` names, and its messages show lines of it. Confinement prevents that, but some texts
    are compiled in this process (for measurements), and some systems lack Landlock.
    """
    parts = SPLICE.split(text)  # lines that go on in the next one
    whole, ends = "".join(parts), [*accumulate(map(len, parts))]
    found = [match for match in INCLUDE.finditer(whole) if not _is_cudas(match[1])]
    found += ASKED.finditer(whole)
    if not found:
        return None
    first = min(found, key=lambda match: match.start())
    line = 1 + whole.count("\n", 0, first.start()) + sum(end <= first.start() for end in ends)
    return f"line {line}: `{' '.join(first[0].split())}`"


def _is_cudas(operand: str) -> bool:
    """Whether the file is one of the CUDA headers: of wheels, or built into NVRTC, which looks for others where this
    process is."""
    name = HEADER.match(operand)
    if name is None:
        return False
    return any((folder / name[1]).is_file() for folder in header_folders()) or not Path(name[1]).exists()


def compiler_version() -> str:
    """The version, such as "NVRTC 13.4". Raises CandidateFailed (unavailable) without NVRTC."""
    _, major, minor = _nvrtc().nvrtcVersion()
    return f"NVRTC {major}.{minor}"


def flags_for(arch: str, *options: str) -> tuple[str, ...]:
    """The flags with which NVRTC compiles for `arch`, without include folders."""
    return (*FLAGS, *options, f"--gpu-architecture={arch}")


def flags_for_ptx(arch: str) -> tuple[str, ...]:
    """The flags to compile for `arch` to PTX only, with line numbers."""
    return (*FLAGS, LINES, f"--gpu-architecture={arch.replace('sm_', 'compute_')}")


def why_unknown(arch: str) -> str | None:
    """The reason why NVRTC does not compile for `arch`; None if it does. Raises CandidateFailed (unavailable)."""
    number = re.fullmatch(r"sm_([0-9]+)[af]?", arch)
    known = _nvrtc().nvrtcGetSupportedArchs()[-1]
    if number is not None and int(number[1]) in known:
        return None
    names = ", ".join(f"sm_{entry}" for entry in known)
    return f"unknown architecture {arch!r}: {compiler_version()} compiles for {names}"


def wheel_folders(name: str) -> list[Path]:
    """Folders called `name` ("include", "bin") of the installed NVIDIA wheels, newest CUDA first."""
    spec = importlib.util.find_spec("nvidia")
    roots = [] if spec is None else list(spec.submodule_search_locations or ())
    return sorted((folder for root in roots for folder in Path(root).glob(f"cu[0-9]*/{name}")), reverse=True)


@cache
def header_folders() -> tuple[Path, ...]:
    """Folders of the headers in the installed NVIDIA wheels, and of CCCL's headers, which some of them include."""
    return *wheel_folders("include"), *wheel_folders("include/cccl")


@cache
def _nvrtc() -> Any:
    """The NVRTC binding, imported late: it takes 0.2 s, and a cached answer to many commands needs none."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()  # loads the library
    except (ImportError, RuntimeError) as error:
        hint = "pip install cuda-bindings nvidia-cuda-nvrtc"
        reason = f"NVRTC is missing ({str(error).splitlines()[0]}): {hint}"
        raise CandidateFailed(Failure("unavailable", reason, "nvrtc")) from error
    return nvrtc


def _compile(text: str, flags: tuple[str, ...], *, ptx: bool = False) -> tuple[bytes, str]:
    """Return (cubin or PTX, log). Raises CandidateFailed with the log's first error."""
    nvrtc = _nvrtc()
    require_no_nul(text)
    foreign = foreign_file(text)
    if foreign is not None:
        raise CandidateFailed(Failure("unjudged", f"{foreign} names a file that is none of CUDA's headers", "nvrtc"))
    headers = (f"--include-path={folder}" for folder in header_folders())
    options = [option.encode() for option in (*flags, *headers)]
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), PROGRAM.encode(), 0, [], [])
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        said = _output(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)[:MOST_LOG_BYTES]
        log = said.replace(b"\0", b"\n").decode(errors="replace").strip()  # ptxas ends its lines with NUL
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            full = status == nvrtc.nvrtcResult.NVRTC_ERROR_OUT_OF_MEMORY
            raise CandidateFailed(_failure(_first_error(log) or status.name, "unjudged" if full else "compile"))
        made = (nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX) if ptx else (nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
        return _output(*made, program), log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _output(get_size: Callable[..., Any], get: Callable[..., Any], program: object) -> bytes:
    """The bytes that NVRTC produced. Raises CandidateFailed: unjudged, for more than MOST_CODE_BYTES."""
    _, size = get_size(program)
    if size > MOST_CODE_BYTES:
        raise CandidateFailed(Failure("unjudged", f"NVRTC makes {size:,} bytes of it", "nvrtc"))
    buffer = bytearray(size)
    get(program, buffer)
    return bytes(buffer)


def _failure(error: str, kind: FailureKind) -> Failure:
    """A failure of the compiler: unavailable if CUDA headers are missing, as they come in a separate wheel."""
    lacking = LACKING.search(error)
    if lacking is not None:
        wheel = "nvidia-cuda-cccl" if "/" in lacking[1] else "nvidia-cuda-runtime"
        return Failure("unavailable", f"NVRTC has no {lacking[1]} here: pip install {wheel}", "nvrtc")
    return Failure(kind, error, "nvrtc")


def _first_error(log: str) -> str | None:
    """The first line with "error" or "fatal", or else the last line; None if the log is empty."""
    line = re.search(r"^.*\b(error|fatal)\b.*$", log, re.MULTILINE)
    if line is not None:
        return line[0].strip()
    return log.splitlines()[-1] if log else None
