"""One readable name for a kernel: function, file, log line and test id. It reads back without loss.

gemm_f32_rr_512x512x512_simt_outer1_128x128x8_8x8_...      all sizes fixed
gemm_f32_rc_Mx4096x4096_lda4100_...                        M at run time, lda given
gemm_f32_rr_b4096_16x16x16_sa0_...                         4096 products that share A (bB: their number at run time)
gemm_f32_rr_p4096_16x16x16_...                             4096 products whose matrices pointers name
gemm_f32_rr_512x512x512_bias_gelu_simt_...                 with an epilogue; one that is made of no forms has digits
"""

from __future__ import annotations

import re
from typing import Any

from gemmgen.kernel.families import FAMILIES, Config, Family
from gemmgen.problem.epilogue import FORMS, LINEAR, epilogue_of_token
from gemmgen.problem.gemm import Problem, Size
from gemmgen.problem.matrix import Layout
from gemmgen.problem.types import Types
from gemmgen.support.errors import require

# Leading dimensions and strides as names write them.
_LINES = {"lda": "lda", "ldb": "ldb", "ldc": "ldc", "stride_a": "sa", "stride_b": "sb", "stride_c": "sc"}
_LINES |= {"ld_residual": "ldr", "stride_residual": "sr"}
# Of an epilogue.
_FORM = f"(?:{'|'.join(sorted(FORMS, key=len, reverse=True))})"
_NAME = re.compile(
    r"gemm_(?P<types>[a-z0-9]+)_(?P<layout>[rc]{2})(?:_(?P<kind>[bp])(?P<batch>B|[1-9]\d*))?"
    r"_(?P<M>M|0|[1-9]\d*)x(?P<N>N|0|[1-9]\d*)x(?P<K>K|0|[1-9]\d*)"
    r"(?:_lda(?P<lda>\d*))?(?:_ldb(?P<ldb>\d*))?(?:_ldc(?P<ldc>\d*))?"
    r"(?:_sa(?P<stride_a>\d*))?(?:_sb(?P<stride_b>\d*))?(?:_sc(?P<stride_c>\d*))?"
    r"(?:_ldr(?P<ld_residual>\d*))?(?:_sr(?P<stride_residual>\d*))?"
    r"(?:_pa(?P<pointer_align>\d+))?(?:_la(?P<ld_align>\d+))?"
    rf"(?:_(?P<epilogue>ep[0-9a-f]{{8}}|{_FORM}(?:_{_FORM})*))?"
    r"_(?P<family>[a-z]+)_(?P<config>\w+)",
    re.ASCII,
)


def kernel_name(problem: Problem, family: Family, config: Config) -> str:
    """The name of `config`'s kernel for `problem`: a valid C identifier and file stem."""
    return "_".join(["gemm", problem_name(problem), family.name, str(config)])


def problem_name(problem: Problem) -> str:
    """ "f32_rr_512x512x512", and whatever else the problem says."""
    sizes = problem.sizes
    shape = "x".join(name if sizes[name] is None else str(sizes[name]) for name in "MNK")
    kind = "p" if problem.pointers else "b"
    batch = [f"{kind}{'B' if problem.batch is None else problem.batch}"] if problem.batched else []
    parts = [problem.types.token, str(problem.layout), *batch, shape]
    for name, letters in _LINES.items():
        value = getattr(problem, name)
        if value != "dense":
            parts.append(letters if value is None else f"{letters}{value}")
    if problem.pointer_align != Problem.pointer_align:
        parts.append(f"pa{problem.pointer_align}")
    if problem.ld_align != Problem.ld_align:
        parts.append(f"la{problem.ld_align}")
    if problem.epilogue.token:
        parts.append(problem.epilogue.token)
    return "_".join(parts)


def parse_name(name: str) -> tuple[Problem, Family, Config]:
    """The problem, family and config that `name` encodes; raises InvalidInput where it encodes none."""
    match = _NAME.fullmatch(name)
    require(match is not None, f"{name!r} is not the name of a gemmgen kernel")
    assert match is not None
    family = FAMILIES.get(match["family"])
    config = family.config_type.parse(match["config"]) if family else None
    require(config is not None, f"{name!r}: no kernel family reads {match['family']}_{match['config']}")
    assert family is not None and config is not None
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
        pointer_align=int(match["pointer_align"] or Problem.pointer_align),
        ld_align=int(match["ld_align"] or Problem.ld_align),
        epilogue=epilogue,
        **distances,
    )
    return problem, family, config


def _size(text: str) -> Size:
    return int(text) if text.isdigit() else None
