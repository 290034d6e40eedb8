"""Names of kernels. Short: function, file, log line and test id. Full: all of problem and config, and reads back.

gemm_f32_rr_512x512x512_sm90_1f3c9a2b            the short name: what it computes, the architecture, digits of its text
gemm_f32_rr_512x512x512_simt_outer1_32x64x128_.. the full name, which stands in its header and once was its name

Full names go on like this:

gemm_f32_rc_Mx4096x4096_lda4100_...              M at run time, lda given
gemm_f32_rr_b4096_16x16x16_sa0_...               4096 products that share A (bB: their number at run time)
gemm_f32_rr_p4096_16x16x16_...                   4096 products whose matrices pointers name
gemm_f32_rr_512x512x512_bias_gelu_simt_...       with an epilogue; one that is made of no forms has digits
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gemmgen.families import FAMILIES, Config, Family, config_of
from gemmgen.kernel.config import todays_words
from gemmgen.kernel.headers import used_by
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.epilogue import LINEAR, epilogue_of_token
from gemmgen.problem.forms import FORMS
from gemmgen.problem.gemm import LD_ALIGN, POINTER_ALIGN, Problem
from gemmgen.problem.inputs import PLAIN, TOKEN, Inputs
from gemmgen.problem.matrix import Layout
from gemmgen.problem.sizes import Size
from gemmgen.problem.types import Compute, Types
from gemmgen.support.errors import require

# Leading dimensions and strides as names write them.
_LINES = {"lda": "lda", "ldb": "ldb", "ldc": "ldc", "stride_a": "sa", "stride_b": "sb", "stride_c": "sc"}
_LINES |= {"ld_residual": "ldr", "stride_residual": "sr"}
# A form of an epilogue.
_FORM = f"(?:{'|'.join(sorted(FORMS, key=len, reverse=True))})"
_NAME = re.compile(
    rf"gemm_(?P<types>[a-z0-9]+(?:_(?:{'|'.join(compute.label for compute in Compute)}))?)"
    r"_(?P<layout>[rc]{2})(?:_(?P<kind>[bp])(?P<batch>B|[1-9]\d*))?"
    r"_(?P<M>M|0|[1-9]\d*)x(?P<N>N|0|[1-9]\d*)x(?P<K>K|0|[1-9]\d*)"
    r"(?:_lda(?P<lda>\d*))?(?:_ldb(?P<ldb>\d*))?(?:_ldc(?P<ldc>\d*))?"
    r"(?:_sa(?P<stride_a>\d*))?(?:_sb(?P<stride_b>\d*))?(?:_sc(?P<stride_c>\d*))?"
    r"(?:_ldr(?P<ld_residual>\d*))?(?:_sr(?P<stride_residual>\d*))?"
    r"(?:_pa(?P<pointer_align>\d+))?(?:_la(?P<ld_align>\d+))?"
    rf"(?:_(?P<inputs>{TOKEN}))?"
    rf"(?:_(?P<epilogue>ep[0-9a-f]{{8}}|{_FORM}(?:_{_FORM})*))?"
    r"_(?P<family>[a-z]+)_(?P<config>\w+)",
    re.ASCII,
)


LONGEST = 64  # characters of a short name
DIGITS = 8  # of the digest in it
_RESERVED = (  # words of C and C++, then CUDA's own and what its headers declare
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class",
    "co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype",
    "default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int",
    "long main mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register",
    "reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch",
    "template this thread_local throw true try typedef typeid typename typeof union unsigned using virtual void",
    "volatile wchar_t while xor xor_eq threadIdx blockIdx blockDim gridDim warpSize uint3 dim3 float2 float4 double2",
    "half half2 cudaError_t cudaStream_t std",
)
RESERVED = frozenset(" ".join(_RESERVED).split())


def short_name(problem: Problem, arch: str, digits: str) -> str:
    """Return a valid C identifier and file stem; `digits` distinguish what else differs.

    If it would be longer than LONGEST, it leaves out the epilogue, then the batch, then types and layout.
    """
    what = [problem.types.token, str(problem.layout)]
    epilogue = [problem.epilogue.token] if problem.epilogue.token else []
    choices: tuple[tuple[list[str], list[str]], ...] = (
        ([*what, *_batch(problem)], epilogue),
        ([*what, *_batch(problem)], []),
        (what, []),
        ([], []),
    )
    shape, ends = "x".join(_size_texts(problem)), (arch.replace("_", ""), digits)
    names = ["_".join(["gemm", *before, shape, *behind, *ends]) for before, behind in choices]
    return next((name for name in names if len(name) <= LONGEST), names[-1])


def require_identifier(name: str) -> None:
    """Raise InvalidInput unless `name` can name a C function and a file."""
    shown = repr(name) if len(name) <= 100 else f"{name[:100]!r}..., of {len(name)} letters,"
    require(
        re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,99}", name) is not None,
        f"{shown} can name no kernel: write a C identifier, as my_gemm, of at most 100 letters, digits and _",
    )
    require(name not in RESERVED, f"{name!r} can name no kernel: CUDA C++ has another use for it")
    use = used_by(name)
    require(use is None, f"{name!r} can name no kernel: {use}")


def full_name(problem: Problem, family: Family, config: Config) -> str:
    """The full name: all of problem, family and config, as `parse_name` reads it."""
    return "_".join(["gemm", problem_name(problem), family.name, str(config)])


def full_name_of(source: KernelSource) -> str:
    """The full name of what `source` was rendered from. Raises InvalidInput for an unknown family or axis."""
    return full_name(source.problem, *config_of(source))


def problem_name(problem: Problem) -> str:
    """The problem's part of a name: "f32_rr_512x512x512", and whatever else the problem says."""
    parts = [problem.types.token, str(problem.layout), *_batch(problem), "x".join(_size_texts(problem))]
    for name, letters in _LINES.items():
        value = getattr(problem, name)
        if value != "dense":
            parts.append(letters if value is None else f"{letters}{value}")
    if problem.pointer_align != POINTER_ALIGN:
        parts.append(f"pa{problem.pointer_align}")
    if problem.ld_align != LD_ALIGN:
        parts.append(f"la{problem.ld_align}")
    if problem.inputs.token:
        parts.append(problem.inputs.token)
    if problem.epilogue.token:
        parts.append(problem.epilogue.token)
    return "_".join(parts)


def _size_texts(problem: Problem) -> Iterator[str]:
    """M, N and K, each by its letter if it is a run-time size."""
    sizes = problem.sizes
    return (name if sizes[name] is None else str(sizes[name]) for name in "MNK")


def _batch(problem: Problem) -> list[str]:
    """ "b4096", "pB", or nothing without a batch."""
    kind = "p" if problem.pointers else "b"
    said = problem.batched and not problem.inputs.own_c  # else the inputs say it
    return [f"{kind}{'B' if problem.batch is None else problem.batch}"] if said else []


def parse_name(name: str) -> tuple[Problem, Family, Config]:
    """Return the problem, family and config of a full name of any age; raise InvalidInput if it is not one."""
    match = _NAME.fullmatch(todays_words(name))
    require(match is not None, f"{name!r} is not the full name of a gemmgen kernel")
    assert match is not None
    stated = stated_config(name)
    require(stated is not None, f"{name!r}: no kernel family reads {match['family']}_{match['config']}")
    assert stated is not None
    family, config = stated
    m, n, k = (_size(match[size]) for size in "MNK")
    epilogue = LINEAR if match["epilogue"] is None else epilogue_of_token(match["epilogue"])
    require(epilogue is not None, f"{name!r} does not say its epilogue: the kernel's JSON does")
    assert epilogue is not None
    distances: dict[str, Any] = {name: "dense" if match[name] is None else _size(match[name]) for name in _LINES}
    problem = Problem(
        m,
        n,
        k,
        types=Types.from_token(match["types"]),
        layout=Layout.parse(match["layout"]),
        batch=1 if match["batch"] is None else _size(match["batch"]),
        pointers=match["kind"] == "p",
        pointer_align=int(match["pointer_align"] or POINTER_ALIGN),
        ld_align=int(match["ld_align"] or LD_ALIGN),
        epilogue=epilogue,
        inputs=Inputs.from_token(match["inputs"]) if match["inputs"] else PLAIN,
        **distances,
    )
    return problem, family, config


def stated_problem(name: str) -> str | None:
    """The problem's part of a full name of any age, as `problem_name` writes it; None if `name` is not a full name."""
    match = _NAME.fullmatch(todays_words(name))
    return None if match is None else match.string[len("gemm_") : match.start("family") - 1]


def stated_config(name: str) -> tuple[Family, Config] | None:
    """The family and config of a full name of any age; None if it is not one, or the family or an axis is unknown."""
    match = _NAME.fullmatch(todays_words(name))
    family = FAMILIES.get(match["family"]) if match else None
    config = family.config_type.parse(match["config"]) if match and family else None
    return None if family is None or config is None else (family, config)


def _size(text: str) -> Size:
    return int(text) if text.isdigit() else None
