"""Plan -> KernelSource: Python computes every value, the templates place them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from math import gcd
from types import CodeType
from typing import Any

import jinja2
from jinja2.bccache import Bucket

from gemmgen.families import DEFAULT_FAMILY, family_named
from gemmgen.families.base import Family
from gemmgen.kernel.config import Config, Derived
from gemmgen.kernel.contract import size_type
from gemmgen.kernel.launch import DEPENDENT_LAUNCH
from gemmgen.kernel.plan import Plan
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import DEFAULT_ARCH, WARP, parse_arch
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import LD_ALIGN, POINTER_ALIGN, Problem
from gemmgen.problem.inputs import Inputs
from gemmgen.problem.operands import Operand
from gemmgen.problem.sizes import RUNTIME
from gemmgen.problem.types import Compute, Types
from gemmgen.render.epilogue_text import EpilogueText, epilogue_text
from gemmgen.render.header_text import HeaderText
from gemmgen.render.line_width import WIDTH, fitted
from gemmgen.render.naming import DIGITS, full_name, short_name
from gemmgen.render.prepare_text import copy_texts, sum_texts
from gemmgen.support.files import TEMPLATES, content_key
from gemmgen.support.words import listed

MIN_NAN_SINCE = 80  # sm_NN: PTX ISA, min.NaN.f32
KEPT = 256  # rendered kernels, of some 20 KB each
COMPILED: dict[tuple[str, str], CodeType] = {}  # by template and a digest of its text
BLANK_LINES = re.compile(r"\n{3,}")  # one is enough where a part of a template is empty


@dataclass(frozen=True)
class Constant:
    """A line `constexpr int NAME = text;  // meaning`, with the spaces that align the comments."""

    name: str
    text: str
    meaning: str
    space: int


@dataclass(frozen=True)
class ConstantGroup:
    """Constants under one heading."""

    title: str
    lines: tuple[Constant, ...]


@dataclass(frozen=True)
class VectorText:
    """N elements in one vector, or several: the `width` of each, their count as an array's bound, and element i of
    N."""

    width: str
    count: str
    element: str


class Kernel:
    """All that the templates may ask about a kernel beyond its family's own view."""

    def __init__(self, plan: Plan, arch: str, name: str) -> None:
        self.plan, self.arch, self.name = plan, arch, name
        self.problem, self.launch, self.parameters = plan.problem, plan.launch, plan.contract.parameters
        self.asserts, self.edges, self.notes = plan.asserts, plan.edges, plan.prose
        problem, launch = self.problem, self.launch
        self.full_name = full_name(problem, family_named(plan.family), plan.config)
        self.types, self.sizes = problem.types, problem.sizes
        # Whether it may start while the kernel before is ending, and waits for it before it reads or writes memory.
        self.dependent = DEPENDENT_LAUNCH in launch.attributes
        # The launches before it that copy operands, and that sum lines, for prepare/prepare.cu.
        self.copies, self.sums = (of(plan.contract, name) for of in (copy_texts, sum_texts))
        self.launch_bounds = ("THREADS", "MINB") if "MINB" in plan.constants else ("THREADS",)
        # The constant that says how many blocks a cluster has; "" where there is none.
        self.cluster = "" if launch.cluster == 1 else "SPLIT" if launch.splits > 1 else "CLUSTER"
        self.tiles = " * ".join(
            _tiles_text(size, tile, launch.row_groups if size == "M" else 0) for size, tile in launch.grid
        )
        counted = "" if launch.stream is None else f", for T = {self.tiles} tiles"
        self.header = HeaderText(problem, launch, self.computes, self.blocks, counted)
        self.outputs = tuple(operand.name for operand in problem.epilogue.outputs)  # what is written beside C
        self.c_edges = tuple(size for size in "MN" if size in self.edges)
        tiles = {"M": "BM", "N": "BN", "K": "BK"}
        # (size, tile) of each fixed size that is a whole number of tiles.
        self.whole_tiles = tuple((size, tile) for size, tile in tiles.items() if size not in self.edges)

    @property
    def computes(self) -> str:
        """ "f32 on CUDA cores", with the types of operands and sums where they differ."""
        types, cores = self.types, "CUDA cores" if self.plan.mma is None else "tensor cores"
        if types.compute is not Compute.FMA:
            cores += f", as --compute {types.compute.label} says"
        sums = DType.F16.label if types.compute is Compute.F16 else types.accumulator.label
        if types.uniform:
            return f"{types} on {cores}"
        same = types.a == types.b == types.c
        operands = ", ".join(f"{name} {dtype.label}" for name, dtype in zip("ABC", types.operands, strict=True))
        return f"{types if same else operands}; sums in {sums} on {cores}"

    @property
    def blocks(self) -> str:
        if self.launch.stream is not None:
            wave = self.launch.stream.blocks
            return f"ceil(T / {wave}) * {wave}"
        each = self.launch.blocks_per_tile
        return self.tiles + (f" * {each}" if each > 1 else "")

    @staticmethod
    def ctype(size: str) -> str:
        """The C type of `size`, one of `sizes`."""
        return size_type(size)

    @cached_property
    def epilogue(self) -> EpilogueText | None:
        """The epilogue's text; None if it is alpha * acc + beta * C, which templates write out."""
        epilogue = self.problem.epilogue
        names = {"alpha": "e.alpha", "beta": "e.beta", "C": "c", "K": "s.K"}
        if epilogue.is_linear:
            return None
        integer_sums, short = self.types.accumulator.is_integer, self.problem.short_results
        return epilogue_text(epilogue, self.types.scalar, names, integer_sums, short)

    @property
    def adds_integers(self) -> bool:
        """Whether summing products calls multiply_add, for parts of a sum or by the epilogue."""
        if not self.types.accumulator.is_integer:
            return False
        stored = self.epilogue.adds if self.epilogue is not None else self.types.scalar.is_integer
        return stored or self.launch.adds_up

    @property
    def drops_alpha(self) -> bool:
        """Whether K may be 0. Then alpha has nothing to scale and counts as 0, even if it is infinite or NaN."""
        scaled = self.problem.epilogue.alpha_scales_acc and not self.types.scalar.is_integer
        return scaled and (not self.problem.k or self.problem.inputs.along_k)

    def ctype_of(self, operand: Operand) -> str:
        """The C type of an element of `operand`, one of the epilogue's."""
        return self.problem.dtype_of(operand.name).ctype

    def output_vectors(self, operand: Operand) -> VectorText:
        """The vectors that hold the elements of an output beside VC elements of C, in one access if its alignment
        allows.

        Its lines are as far apart as those of C, which may be unaligned if C is staged.
        """
        allowed = self.problem.align_of(operand.name) // self.problem.dtype_of(operand.name).size
        allowed = min(allowed, self.problem.vector_limit("ldc"))
        columns = self.plan.constants["VC"]
        if allowed >= columns:
            return VectorText("N", "", ".at[i]")
        if allowed == 1:
            return VectorText("1", "[N]", "[i].at[0]")
        return VectorText(str(allowed), f"[N / {allowed}]", f"[i / {allowed}].at[i % {allowed}]")

    def amax_lanes(self, operand: Operand) -> tuple[int, int] | None:
        """For a block whose lanes have neighbouring columns: (the least distance of two lanes that share a row, or
        column; the end of such distances, each twice the one before). None if no two lanes share one."""
        columns = self.plan.tile[1]
        first, end = (1, gcd(WARP, columns)) if operand.along == "m" else (columns, WARP)
        return (first, end) if first < end and WARP % first == 0 else None

    @property
    def warp_amaxes(self) -> bool:
        """Whether there are lanes that share a row or column."""
        return any(self.amax_lanes(operand) is not None for operand in self.problem.epilogue.amaxes)

    def to_product(self, operand: Operand, product: str) -> str:
        """The distance in elements from an operand of the epilogue's first product, or group, to `product`; empty if
        they share it."""
        if operand.is_matrix:
            return f"{product} * s.{operand.stride}" if self.problem.batched else ""
        if not (operand.is_amax or self.problem.groups_of(operand)):
            return ""
        return f"static_cast<long long>({product}) * s.{operand.size}" if operand.size else product

    @property
    def constants(self) -> tuple[ConstantGroup, ...]:
        """The axes, then the constants that follow from them, as the kernel declares them."""
        groups = groupby(self.plan.declares, key=lambda line: line.group)
        return tuple(_aligned(title, list(group)) for title, group in groups)

    @property
    def maps(self) -> Iterator[str]:
        """Each tensor map as a caller encodes it, the first behind a label."""
        copied = {one.operand: one.part for one in self.copies}
        for number, one in enumerate(self.launch.maps):
            what = copied.get(one.operand, one.operand)
            if one.anywhere:
                what = f"memory from address 0 on, lines as those of {what}'s matrices"
            label = " " * len("Maps    ") if number else "Maps    "
            yield f"{label}{one.parameter} of {what}: {one.words}"

    @property
    def promises(self) -> Iterator[str]:
        """What the caller must guarantee, as the kernel checks none of it."""
        problem = self.problem
        beside = problem.companions or problem.epilogue.operands
        others = "no other operand" if beside else "neither A nor B"
        if problem.pointers:
            yield f"A_array, B_array and C_array of {self.sizes['batch'] or 'batch'} device pointers each"
            yield f"each of them divisible by {problem.pointer_align}; those to A and B may repeat and overlap"
            yield "no matrix of C overlapping another matrix of A, B or C"
        else:
            written = listed(("C", *self.outputs))
            aligned = f"{problem.operand_words} at addresses divisible by {problem.pointer_align}"
            yield f"{aligned}, {written} overlapping {others}"
        yield from self._promises_of_companions
        if problem.strided:
            yield "no two matrices of C that overlap"
        distances = (*problem.line_sizes, *problem.stride_sizes)
        free = [name for name in distances if name in problem.runtime_names]
        if problem.ld_align > 1 and free:
            yield f"{', '.join(free)} divisible by {problem.ld_align}"
        if problem.epilogue.amaxes:
            yield f"{', '.join(one.name for one in problem.epilogue.amaxes)} holding 0 before every launch"
        yield from self._workspace

    @property
    def _promises_of_companions(self) -> Iterator[str]:
        """What the caller must guarantee about numbers of rows, which the device alone knows."""
        problem = self.problem
        if problem.inputs.masked:
            yield f"group_rows none below 0 or above {self.sizes['M'] or 'M'}"
        elif problem.inputs.groups:
            along = "K" if problem.inputs.along_k else "M"
            yield f"offs ascending, none below 0 or above {self.sizes[along] or along}"
        if problem.inputs.gathered:
            yield "index_a naming rows that A has"
        if problem.inputs.scattered:
            yield "index_c naming rows that C has, no two the same"

    @property
    def _workspace(self) -> Iterator[str]:
        """What the caller must guarantee about the workspace."""
        if self.launch.leaves_partials:
            sums = f"{self.launch.partial_elements} {self.types.accumulator.ctype}s"
            blocks, tiles = self.blocks, self.tiles
            if self.launch.stream is not None:
                wave = self.launch.stream.blocks
                blocks, tiles = f"({wave} + T % {wave})", str(wave)
            yield f"partials: {blocks} * {sums}, uninitialised"
            yield f"semaphores: {tiles} counters, zero before the first launch, which every launch leaves zero"
        for one in (*self.copies, *self.sums):
            written = f"{one.part}: {one.extent}, which {one.entry} writes before"
            yield f"{written}: any grid, blocks of {one.threads} threads"
        if self.launch.parts:
            yield "no other launch using the same workspace at the same time"

    @property
    def command(self) -> str:
        """The command line that renders this kernel again."""
        return " ".join(["gemmgen generate", *problem_words(self.problem), *self._settings()])

    def _settings(self) -> Iterator[str]:
        default = family_named(self.plan.family).default(self.problem).values
        own = [f"--set {name}={value}" for name, value in self.plan.config.values.items() if value != default[name]]
        yield f"--arch {self.arch}"
        if self.plan.family != DEFAULT_FAMILY or not own:  # with neither the model chooses
            yield f"--family {self.plan.family}"
        yield from own


def _tiles_text(size: str, tile: int, groups: int) -> str:
    """The number of tiles along a size, at most."""
    if groups:
        return f"(min({size}, {groups}) + max({size} - {groups}, 0) / {tile})"
    return size if tile == 1 else f"ceil({size} / {tile})"


def problem_words(problem: Problem) -> Iterator[str]:
    """SHAPE and options of a command line for `problem`, its typical sizes apart."""
    yield f"'{problem.shape}'" if RUNTIME in problem.shape else problem.shape
    yield from _types_options(problem.types, problem.inputs)
    yield f"--layout {problem.layout}"
    if problem.batched and not problem.inputs.own_c:
        yield "--batch '?'" if problem.batch is None else f"--batch {problem.batch}"
    if problem.pointers:
        yield "--pointers"
    for name in (*problem.line_sizes, *problem.stride_sizes):
        value, option = getattr(problem, name), name.replace("_", "-")
        if value != "dense":
            yield f"--{option} '?'" if value is None else f"--{option} {value}"
    if not problem.epilogue.is_linear:
        yield f"--epilogue {shlex.quote(str(problem.epilogue))}"
    if problem.pointer_align != POINTER_ALIGN:
        yield f"--pointer-align {problem.pointer_align}"
    if problem.ld_align != LD_ALIGN:
        yield f"--ld-align {problem.ld_align}"


def _types_options(types: Types, inputs: Inputs) -> Iterator[str]:
    yield f"--dtype {types}" if types.a == types.b == types.c else f"--types {types}"
    if types.compute is not Compute.FMA:
        yield f"--compute {types.compute.label}"
    if not inputs.is_plain:
        yield f"--inputs {inputs}"


def _aligned(title: str, group: list[Derived]) -> ConstantGroup:
    """Constants with aligned comments, except where an expression is too long to leave room for its own."""
    lengths = [len(line.name) + len(line.expression) for line in group]
    room = WIDTH - len("constexpr int  = ;  // ")
    fits = (
        width
        for width in sorted(lengths, reverse=True)
        if all(
            width + len(line.meaning) <= room for line, length in zip(group, lengths, strict=True) if length <= width
        )
    )
    width = next(fits, 0) + 2
    lines = (
        Constant(line.name, line.expression, line.meaning, max(2, width - length))
        for line, length in zip(group, lengths, strict=True)
    )
    return ConstantGroup(title, tuple(lines))


def render(problem: Problem, family: Family, config: Config, arch: str = DEFAULT_ARCH) -> KernelSource:
    """Return the `.cu` of `config` for `problem`, which must satisfy its constraints (see `families.base.check`)."""
    return render_plan(family.plan(problem, config), arch)


@lru_cache(maxsize=KEPT)
def render_plan(plan: Plan, arch: str = DEFAULT_ARCH) -> KernelSource:
    """The `.cu` of `plan`, named for `arch` ("sm_90") and by a digest of its text, in which the config stands.

    It is kept: a search, its verification and an export ask for the same kernels.
    """
    unnamed = short_name(plan.problem, arch, "0" * DIGITS)
    template = environment(plan.problem.types, arch).get_template(plan.template)
    text = template.render(kernel=Kernel(plan, arch, unnamed), view=plan.view)
    text = fitted(BLANK_LINES.sub("\n\n", text))
    name = short_name(plan.problem, arch, content_key(text)[:DIGITS])
    return KernelSource(
        name=name,
        text=text.replace(unnamed, name),
        family=plan.family,
        config=dict(plan.config.values),
        contract=plan.contract,
    )


class CompiledTemplates(jinja2.BytecodeCache):
    """Each template is compiled once per process, for the environments of all types: that takes ten times as long as
    rendering a kernel."""

    def load_bytecode(self, bucket: Bucket) -> None:
        """Return cached code of a template to Jinja, if there is any."""
        bucket.code = COMPILED.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code of a template that Jinja has compiled."""
        assert bucket.code is not None
        COMPILED[bucket.key, bucket.checksum] = bucket.code


@lru_cache(maxsize=64)
def environment(types: Types, arch: str = DEFAULT_ARCH) -> jinja2.Environment:
    """The Jinja environment: delimiters that leave CUDA and inline PTX alone; a misspelt name is an error.

    Every template and macro knows the types: `TA`, `TB`, `TC` of the operands' elements, `T` of the sums with its bytes
    `size`, its `fma` and `zero`, and `types`, the record. `element["A"]` is `TA`, and `Vec<${ of["A"] }N>` is N of
    them, of `${ times["A"] }N` bytes; `factor["A"]` is what instructions multiply: `TA`, or the type of its pieces.
    `computed` are labels of the types that `arch` has no instructions to convert; `min_nan`: whether it has a minimum
    that propagates NaN.
    """
    options: dict[str, Any] = {
        "block_start_string": "/*%",
        "block_end_string": "%*/",
        "variable_start_string": "${",
        "variable_end_string": "}",
        "comment_start_string": "/*#",
        "comment_end_string": "#*/",
        "line_statement_prefix": "//%",
        "trim_blocks": True,
        "lstrip_blocks": True,
        "keep_trailing_newline": True,
        "undefined": jinja2.StrictUndefined,
        "autoescape": False,
        "auto_reload": False,  # templates stay as they are while a process runs
    }
    made = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), bytecode_cache=CompiledTemplates(), **options)
    sums = types.accumulator
    made.globals.update(T=sums.ctype, size=sums.size, fma=sums.arithmetic.fma, zero=sums.arithmetic.zero, types=types)
    named = (*types.operands, types.scalar)
    made.globals.update(zip(("TA", "TB", "TC", "TS"), (dtype.ctype for dtype in named), strict=True))
    number = parse_arch(arch).number
    made.globals.update(min_nan=number >= MIN_NAN_SINCE)
    made.globals.update(computed={dtype.label for dtype in types.operands if dtype.converted_since > number})
    element = dict(zip("ABC", (dtype.ctype for dtype in types.operands), strict=True))
    made.globals.update(factor=dict(zip("AB", (dtype.ctype for dtype in types.factors), strict=True)))
    # The first template argument of Vec, which holds one type only where all are the same.
    vectors = {**element, "sums": sums.ctype, "scalar": types.scalar.ctype}
    of = {name: "" if types.uniform else f"{ctype}, " for name, ctype in vectors.items()}
    sizes = {name: dtype.size for name, dtype in zip("ABC", types.operands, strict=True)}
    times = {name: f"{size} * " if size > 1 else "" for name, size in sizes.items()}
    made.globals.update(element=element, of=of, times=times)
    return made
