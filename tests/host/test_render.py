"""What every rendered kernel keeps: same input, same text; constraints as asserts; a header that tells the truth."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import jinja2
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gemmgen.families import BATCHED, FAMILIES, NAIVE, SIMT, SKINNY, Config, Family, config_of
from gemmgen.families.base import constants, first_rejection
from gemmgen.kernel.expression import evaluate, names_in, without_guards
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import ARCHS
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.sizes import Size
from gemmgen.problem.types import Types
from gemmgen.render import kernel_text
from gemmgen.render.kernel_text import environment, render
from gemmgen.support.files import TEMPLATES

LIMITS = ARCHS["sm_90"].limits
SQUARE = Problem(512, 512, 512)


@cache
def default(layout: str = "rr", m: Size = 512) -> KernelSource:
    problem = Problem(m, 512, 512, layout=Layout.parse(layout))
    return render(problem, SIMT, SIMT.default(problem))


@st.composite
def kernels(draw: st.DrawFn) -> KernelSource:
    family = draw(st.sampled_from(list(FAMILIES.values())))
    size = st.integers(1, 32) if family is BATCHED else st.one_of(st.none(), st.integers(1, 300), st.just(4096))
    sizes = [draw(size) for _ in "MNK"]
    batch = draw(st.sampled_from([None, 2, 100] if family is BATCHED else [1, None, 2]))
    types = draw(st.sampled_from(family.types or ("f32", "f64")))
    layout = Layout.parse(draw(st.sampled_from(["rr", "rc", "cr", "cc"])))
    align = draw(st.sampled_from([8, 16]))
    problem = Problem(*sizes, types=types, layout=layout, pointer_align=align, batch=batch)  # type: ignore[arg-type]
    problem = replace(problem, pointers=problem.batched and draw(st.booleans()))
    config = family.default(problem)
    assume(first_rejection(family, problem, config, LIMITS) is None)
    for axis in family.config_type.axes():
        changed = config.with_values(**{axis.name: draw(st.sampled_from(axis.values), axis.name)})
        if first_rejection(family, problem, changed, LIMITS) is None:
            config = changed
    return render(problem, family, config)


def configs_of(source: KernelSource) -> tuple[Family, Config]:
    return config_of(source)


@given(kernels())
def test_text_is_as_tidy_as_hand_written(source: KernelSource) -> None:
    lines = source.text.split("\n")
    assert [line for line in lines if line != line.rstrip() or "\t" in line] == []
    assert lines[-1] == "" and lines[-2] == "}"
    assert "\n\n\n" not in source.text
    assert not re.search(r"/\*[%#]|[%#]\*/|//%|\$\{", source.text)
    assert source.text.isascii()


@given(kernels())
def test_text_declares_what_its_record_says(source: KernelSource) -> None:
    family, config = configs_of(source)
    values = constants(family, source.problem, config)
    seen: dict[str, int] = {}
    for name, expression in re.findall(r"^constexpr int (\w+) = (.*?);", source.text, re.MULTILINE):
        seen[name] = evaluate(expression, seen)
    assert seen
    assert seen == {name: values[name] for name in seen}
    found = re.findall(r"__launch_bounds__\((.*?)\)\s(\w+)\((.*?)\)\s*\{", source.text, re.DOTALL)
    assert [name for _, name, _ in found] == [one.name for one in source.program]
    for (bounds, _, taken), one in zip(found, source.program, strict=True):
        assert evaluate(bounds.split(",")[0], values) == one.launch.threads
        assert [part.split()[-1] for part in taken.split(",")] == [p.text for p in one.parameters]


@given(kernels())
def test_text_asserts_the_constraints_that_its_constants_decide(source: KernelSource) -> None:
    family, config = configs_of(source)
    declared = set(re.findall(r"^constexpr int (\w+) =", source.text, re.MULTILINE))
    asked = (rule for rule in family.constraints if rule.in_kernel and names_in(rule.expression) <= declared)
    asserted = re.findall(r"static_assert\((.*),\s+\"(.*)\"\);", source.text)  # long lines are broken
    values = constants(family, source.problem, config)
    for rule in asked:
        expression = without_guards(rule.expression, values)
        assert ((expression, rule.because) in asserted) == (expression is not None)
    for expression, _ in asserted:
        if "sizeof" in expression:  # the compiler knows it
            continue
        assert evaluate(expression.replace("Shape::", ""), {**values, "batch": values["BATCH"]})


def test_the_constraints_that_matter_most_are_asserted() -> None:
    for expression in ("BM % TM == 0", "BN % TN == 0", "WM * WN == 32 * TM * TN", "TM % FM == 0"):
        assert f"static_assert({expression}, " in default().text


def test_two_processes_render_the_same_text() -> None:
    program = (
        "from gemmgen.families import SIMT; from gemmgen.render.kernel_text import render\n"
        "from gemmgen.problem.gemm import Problem\n"
        "problem = Problem(512, 512, 512); print(render(problem, SIMT, SIMT.default(problem)).digest)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == default().digest


@pytest.mark.parametrize("layout", ["rr", "rc", "cr", "cc"])
def test_runtime_sizes_are_parameters_and_fixed_ones_are_not(layout: str) -> None:
    fixed, free = default(layout), default(layout, None)
    assert [p.name for p in fixed.parameters] == ["A", "B", "C", "alpha", "beta"]
    assert [p.name for p in free.parameters] == ["A", "B", "C", *free.problem.runtime_names, "alpha", "beta"]
    assert "static constexpr int M = 512;" in fixed.text
    assert "int M;" in free.text.splitlines()[free.text.splitlines().index("struct Shape {") + 1]


def test_shared_memory_over_48_kb_is_dynamic_and_declared_nowhere() -> None:
    config = SIMT.default(SQUARE).with_values(ASYNC=1, STAGES=4, BK=32)
    source = render(SQUARE, SIMT, config)
    assert source.launch.shared_bytes == constants(SIMT, SQUARE, config)["SHARED_BYTES"] > 48 * 1024
    assert "__shared__ __align__(16) Tile" not in source.text
    assert default().launch.shared_bytes == 0
    assert "extern __shared__" not in default().text


def test_launch_covers_c() -> None:
    problem = Problem(None, 300, 64)
    source = render(problem, NAIVE, NAIVE.default(problem))
    assert source.launch.grid == (("M", 16), ("N", 16))
    assert source.launch.blocks(problem.case(m=17)) == 2 * 19


def test_header_says_what_it_is_and_how_to_make_it_again() -> None:
    text = default("rc", None).text
    header = text[: text.index("namespace {")]
    assert header.startswith("// gemm_f32_rc_Mx512x512_sm90_")
    assert "// Made by gemmgen generate '?x512x512' --dtype f32 --layout rc --arch sm_90 --family simt\n" in header
    assert "C is read unless beta = 0, A and B always" in header


def test_header_names_the_alignment_that_leading_dimensions_promise() -> None:
    problem = Problem(None, 512, 512, layout=Layout("c", "r"), ldc=None, ld_align=4)
    assert "lda, ldc divisible by 4\n" in render(problem, SIMT, SIMT.default(problem)).text
    assert "lda, ldc divisible" not in render(replace(problem, ld_align=1), SIMT, SIMT.default(problem)).text


def test_a_misspelt_name_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="no attribute 'threds'"):
        environment(Types.of(DType.F32)).from_string("${ kernel.threds }").render(kernel=Path())


def test_braces_of_ptx_are_left_alone() -> None:
    ptx = 'asm("{ .reg .pred p; mov.b32 %0, {{%1, %2}}; }");'
    assert environment(Types.of(DType.F32)).from_string(ptx).render() == ptx


SCHEDULES = ({"STAGES": 1}, {"STAGES": 2}, {"STAGES": 3, "ASYNC": 1}, {"STAGES": 2, "ASYNC": 1, "K_UNROLL": 2})


@pytest.mark.parametrize("changes", SCHEDULES, ids=str)
@pytest.mark.parametrize("layout", ["rr", "cc"])
def test_a_kernel_checks_the_edges_that_it_can_meet_and_no_others(layout: str, changes: dict[str, int]) -> None:
    def text(m: Size, n: Size, k: Size) -> str:
        problem = Problem(m, n, k, layout=Layout.parse(layout))
        return render(problem, SIMT, SIMT.default(problem).with_values(**changes)).text

    whole, free = text(512, 512, 512), text(None, None, None)
    checks = ("valid_a(", "valid_b(", "m >= rows", "int columns", "AT_EDGE", "load_edge")
    assert not any(check in whole for check in checks)
    for size, tile in (("M", "BM"), ("N", "BN"), ("K", "BK")):
        asserted = f"static_assert(Shape::{size} % {tile} == 0"
        assert asserted in whole and asserted not in free
    assert (
        "valid_a(at, rows, depth)" in free
        and "valid_b(at, columns, depth)" in free
        and "if (m >= rows) return;" in free
    )
    only_m = text(None, 512, 512)
    assert "valid_a(at, rows)" in only_m and "valid_b(" not in only_m and "int columns" not in only_m


def test_groups_of_products_are_checked_where_the_batch_can_end_in_them() -> None:
    texts = [
        render(one, BATCHED, BATCHED.default(one)).text for one in (Problem(8, 8, 8, batch=b) for b in (None, 30, 32))
    ]
    assert ["product < s.batch" in text for text in texts] == [True, True, False]


def test_skinny_checks_the_lines_that_may_not_exist() -> None:
    texts = [
        render(one, SKINNY, SKINNY.default(one)).text for one in (Problem(8, n, 512, ld_align=4) for n in (None, 4096))
    ]
    assert [["n >= s.N" in text, "s.N - first" in text, "m >= s.M" in text] for text in texts] == [
        [True, True, False],
        [False, False, False],
    ]


def test_what_a_kernel_asserts_concerns_it() -> None:
    config = SIMT.default(SQUARE)
    warped, plain = (render(SQUARE, SIMT, config.with_values(WM=size, WN=size // 2)).text for size in (64, 0))
    assert "static_assert(BM % WM == 0" in warped and "WM == 0 or" not in warped
    assert "WM" not in plain.partition("namespace")[2].partition("extern")[0]
    assert "(0: " not in warped + plain


def test_templates_are_compiled_once_for_all_types(monkeypatch):
    compiled, compile_one = [], jinja2.Environment.compile

    def counted(made, *arguments, **options):
        compiled.append(arguments[1])
        return compile_one(made, *arguments, **options)

    monkeypatch.setattr(jinja2.Environment, "compile", counted)
    monkeypatch.setattr(kernel_text, "COMPILED", {})
    environment.cache_clear()
    for types in ("f32", "bf16"):
        render(problem := Problem(8, 8, 8, types=Types.parse(types)), NAIVE, NAIVE.default(problem))
    assert len(compiled) == len(set(compiled)) > 1
    environment.cache_clear()


CONDITIONAL = re.compile(r"\$\{[^}]*\bif\b[^}]*\}|/\*% *(?:el)?if")


def test_no_conditional_stands_in_a_comment_of_a_kernel() -> None:
    """A comment holds for every kernel of its file, or is chosen as a whole."""
    lines = [
        f"{path.relative_to(TEMPLATES)}: {line}"
        for path in TEMPLATES.rglob("*.cu")
        if "export" not in path.parts
        for line in path.read_text().splitlines()
        for match in CONDITIONAL.finditer(line)
        if re.search(r"(?<!:)//(?!%)", line[: match.start()])
    ]
    assert lines == []
