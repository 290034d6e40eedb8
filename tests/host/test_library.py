"""Libraries: what SPEC.toml says, rules made of times, and folders that are made again."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, permutations
from itertools import product as combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gemmgen
from gemmgen.arrays.library import ArrayProduct, read_library
from gemmgen.cli import main
from gemmgen.exports.library import building, regret
from gemmgen.exports.library.building import Options, library_texts
from gemmgen.exports.library.choice import Choice, Timed
from gemmgen.exports.library.choices_json import choice_document, choices_from, rule_document, rule_from
from gemmgen.exports.library.clocks import Predicted, known_or
from gemmgen.exports.library.estimates import Axis, Tiling, estimated, estimates_from, octave, terms
from gemmgen.exports.library.members import Contestant, CublasLt, Member, Needs, case_of, why_no_fallback
from gemmgen.exports.library.rules import A_FEW, FOR_EACH, choose, grid_of
from gemmgen.exports.library.sizes import SizeRange
from gemmgen.exports.library.spec import BATCHES, OTHER_BATCHES, Product, Search, Spec, read_spec, spec_from
from gemmgen.exports.library.table import FEATURES, Box, Sizes, between, chosen, paying, regions, regret_of
from gemmgen.exports.library.texts import LibraryText
from gemmgen.families import FAMILIES
from gemmgen.problem.device import DEVICES
from gemmgen.problem.gemm import Problem
from gemmgen.problem.sizes import SIZE_LIMIT
from gemmgen.render.kernel_text import render
from gemmgen.run.gpu.executor import BesideLibrary
from gemmgen.run.gpu.timing import FIRST, GRID, InterleavedTimings, Timing
from gemmgen.run.target import Target
from gemmgen.search.trial import Progress
from gemmgen.support.errors import CandidateFailed, Failure, FailureKind, GemmgenError, InvalidInput
from gemmgen.support.files import Store
from gemmgen.support.jsontext import json_text

needs_toml = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python reads TOML from 3.11 on")

LINEAR: dict[str, Any] = {"name": "linear", "types": "bf16", "layout": "rc", "M": "1..8192", "N": "?", "K": "?"}
BLOCKS = {**LINEAR, "types": "e4m3,e4m3,bf16", "compute": "promoted", "layout": "rc", "inputs": "blocks"}


def spec_of(*products: dict[str, Any], **library: Any) -> Spec:
    return spec_from({"name": "mylib", "product": list(products), **library}, "sm_90", Path())


def product_of(**fields: Any) -> Product:
    return spec_of({**LINEAR, **fields}).products[0]


# SPEC.toml


@pytest.mark.parametrize(
    ("value", "least", "most", "listed"),
    [(4096, 1, 8192, (4096,)), ([8, 4], 1, 8192, (4, 8)), ("2..64", 2, 64, ()), ("?", 1, 8192, ())],
)
def test_sizes_are_a_number_a_list_a_range_or_any(value: object, least: int, most: int, listed: tuple[int]) -> None:
    assert SizeRange.parse("M", value) == SizeRange(listed, least, most)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"M": "8..4"}, 'product linear: M = "8..4": a range that holds no size'),
        ({"M": "many"}, 'product linear: M = "many": write a size, a list of sizes, a range "1..8192" or "?"'),
        ({"M": 0}, "product linear: M = 0: sizes are 1 to"),
        ({"K": 3000000000}, "product linear: K = 3000000000: sizes are 1 to 2147418112"),
        ({"N": [8, 0]}, r"product linear: N = \[8, 0\]: sizes are 1 to"),
        ({"M": []}, r"product linear: M = \[\]: list at least one size"),
        ({"M": True}, "product linear: M = True is no whole number"),
        ({"types": "bf17"}, "product linear: .*bf17"),
        ({"typ": "bf16"}, "product linear: unknown typ: known are name, types"),
        ({"name": "Linear"}, "'Linear' cannot name the product: write a C identifier of lower case"),
        ({"epilogue": "glue"}, "product linear: .*glue"),
        ({"tune": ["16x?x4096"]}, "product linear: tune = 16x[?]x4096: a kernel is tuned for numbers"),
        ({"batch": 0}, "product linear: batch = 0"),
        ({"tune": "16x16x16"}, r"product linear: tune = '16x16x16': write a list, as \[\"64x4096x4096\"\]"),
        (
            {"kernels": "mine.cu"},
            r"product linear: kernels = 'mine.cu': write the most kernels per set.* list of files, as \[\"NAME.cu",
        ),
        ({"kernels": 0}, "product linear: kernels = 0: write the most kernels per set, as 8"),
        ({"kernels": True}, "product linear: kernels = True: write the most"),
        ({"inputs": "groups=4+masked", "batch": 4}, "groups=4.masked go with 4 products, and batch = ?"),
        ({"inputs": "gathered", "invariant": True}, "invariant = true means nothing"),
        (
            {"types": "bf16,u4,bf16", "inputs": "scales=128+scattered", "N": 64, "K": 64, "invariant": True},
            "means nothing",
        ),
        (
            {"types": "bf16,u4,bf16", "inputs": "scales=128"},
            "product linear: N = 1..8192 and K = 1..8192: codes of u4 are packed for one N and one K",
        ),
        (
            {"layout": "rc", "inputs": "im2col=9x9x8_3x3"},
            "product linear: K = 1..8192, and inputs = im2col=9x9x8_3x3 have filters of 72",
        ),
        (
            {"layout": "cr", "inputs": "im2col=9x9x8_3x3+wgrad", "N": 64},
            "product linear: N = 64, and inputs = im2col=9x9x8_3x3.wgrad have filters of 72",
        ),
        ({"layout": "rc", "inputs": "im2col=9x9x8_3x3", "K": 72, "invariant": True}, "invariant = true means nothing"),
        ({"types": "bf16,u4,bf16", "N": 64, "K": 64}, "product linear: B of u4 needs scales"),
    ],
)
def test_a_product_that_means_nothing_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        spec_of({**LINEAR, **fields})


@pytest.mark.parametrize(
    ("library", "words"),
    [
        ({"product": []}, "mylib has no"),
        ({"name": "9"}, "'9' cannot name the library"),
        ({"product": [LINEAR, LINEAR]}, "two products are called linear"),
        ({"architectures": ["sm_42"], "product": [LINEAR]}, "unknown arch 'sm_42'"),
        ({"architectures": ["sm_90", "sm_90a"], "product": [LINEAR]}, "sm_90, sm_90a: sm_90 is named twice"),
        ({"products": [LINEAR]}, "the library: unknown products: known are name, architectures, product"),
        ({"product": [{"types": "f32"}]}, "product 1: no M, N, K: write a size"),
        ({"product": [3]}, r"product = 3: write \[\[product\]\] above each"),
        (
            {"product": [{**LINEAR, "name": "gemm"}]},
            "no product can be called gemm: the header has mylib_gemm of its own",
        ),
        ({"product": [{**LINEAR, "name": "h"}]}, "no product can be called h"),
        (
            {"product": [{**BLOCKS, "name": "quantise_rows_f16"}]},
            "no product can be called quantise_rows_f16: the header has mylib_quantise_rows_f16 of its own",
        ),
        (
            {"product": [LINEAR, {**LINEAR, "name": "linear_workspace_bytes"}]},
            "no product can be called linear_workspace_bytes: the header has mylib_linear_workspace_bytes of its own",
        ),
        ({"name": "test", "product": [LINEAR]}, "'test' cannot name the library: CMake has a target of its own"),
        ({"name": "math", "product": [LINEAR]}, "'math' cannot name the library: math.h would hide a header"),
    ],
)
def test_a_library_that_means_nothing_is_refused(library: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        spec_from({"name": "mylib", **library}, "sm_90", Path())


@needs_toml
def test_errors_of_a_file_begin_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    with pytest.raises(InvalidInput, match=f"cannot read {path}"):
        read_spec(path, "sm_90")
    path.write_text("name = [")
    with pytest.raises(InvalidInput, match=f"{path} is no TOML"):
        read_spec(path, "sm_90")
    path.write_text('name = "mylib"')
    with pytest.raises(InvalidInput, match=f"{path}: mylib has no"):
        read_spec(path, "sm_90")


def test_the_general_kernel_is_tuned_first_and_fixed_weights_have_kernels_of_their_own() -> None:
    first, *others = product_of(N=[4096], K=[4096, 11008]).searches(132)
    (general,) = first.problems
    assert (general.shape, general.pointer_align, general.ld_align) == ("?x?x?", 2, 1)
    assert [search.problems[0].shape for search in others] == ["?x4096x4096", "?x4096x11008", "?x?x?"]
    assert [search.counts for search in (first, *others)] == [False, True, True, False]
    for search in others:
        assert len({replace(problem, typical=()) for problem in search.problems}) == 1  # one text serves all
        assert search.problems[0].ld_align == 8 and "lda" in search.problems[0].runtime_names


def test_every_kernel_for_codes_serves_all_calls_so_that_one_search_is_enough() -> None:
    product = product_of(N=[4096], K=[4096], types="bf16,u4,bf16", inputs="scales=128")
    (search,) = product.searches(132)
    assert search.counts and {one.shape for one in search.problems} == {"?x4096x4096"}
    assert (product.general.ld_align, product.general.ldb) == (8, "dense")
    kernel = member(product, search.problems[0], "wgmma")
    assert kernel.needs is Needs.NONE and kernel.fixed == {}
    assert case_of(product, (64, 4096, 4096), Needs.NONE).lda == 4096
    with pytest.raises(InvalidInput, match="has K = 2048, and product linear 4096"):
        member(product, Problem(None, 4096, 2048, types="bf16,u4,bf16", layout="rc", inputs="scales=128"), "wgmma")


def test_every_kernel_of_experts_takes_whole_chunks_and_one_serves_all_weights() -> None:
    product = product_of(N=[4096], K=[7168], inputs="groups=8")
    weights, others = product.searches(132)
    assert (weights.problems[0].shape, others.problems[0].shape) == ("?x4096x7168", "?x?x?") and not others.counts
    assert (product.general.ld_align, product.general.pointer_align, product.general.stride_b) == (8, 16, None)
    kernel = member(product, weights.problems[0], "wgmma")
    assert kernel.needs is Needs.NONE and kernel.fixed == {"N": 4096, "K": 7168}
    case = case_of(product, (64, 136, 72), Needs.NONE)
    assert (case.lda, case.ldc, case.stride_b, case.b.batch) == (72, 136, 136 * 72, 8)
    with pytest.raises(InvalidInput, match="has inputs groups=4, and product linear groups=8"):
        member(product, Problem(None, 4096, 7168, "bf16", layout="rc", inputs="groups=4"), "wgmma")
    with pytest.raises(InvalidInput, match="inputs = groups=8: their equal rows are not compared"):
        product_of(inputs="groups=8", invariant=True)
    assert why_no_fallback(product) == "cuBLASLt is asked for no groups"


def test_groups_with_a_c_each_are_a_product_without_a_batch() -> None:
    """Sizes are chosen for all their matrices C, which lie a stride apart."""
    masked = product_of(N=[4096], K=[7168], inputs="groups=8+masked")
    deep = product_of(layout="cr", M=[512], N=[256], K="1..4096", inputs="groups=4+along_k")
    assert (masked.matrices_c, masked.general.batch, masked.batch) == (8, 8, None)
    assert masked.m.tuned(8 * 4096, 132) == tuple(dict.fromkeys(m for m, *_ in masked._tuned(132)))
    assert case_of(masked, (64, 136, 72), Needs.NONE).stride_c == 64 * 136
    assert [one.name for one in deep.general.strides] == ["C"]
    kernels = [member(one, one.general) for one in (masked, deep)]
    choices = tuple(chosen_of(one.product, [one]) for one in kernels)
    library = LibraryText(Spec("mylib", ("sm_90",), (masked, replace(deep, name="deep"))), choices)
    assert not library.batched and {"group_rows", "offs", "stride_c"} <= {*library.fields}
    header = library_texts(library)["mylib.h"]
    assert "with matrices A, B and C each" in header and "group_rows holds numbers from 0 to M" in header
    assert "for each of 4 groups along K, with a matrix C each" in header
    assert "int batch;" not in header


def test_rules_take_groups_for_one_product() -> None:
    """As the dispatcher of C does: their number is the same in every call."""
    asked: list[int] = []
    rule = SimpleNamespace(needs=Needs.NONE, box=Box(), kernel=lambda sizes, batch: asked.append(batch) or 0)
    choosing = cast(Any, SimpleNamespace(_rules=[rule], _names=("one",), _kernel=lambda name: name))
    for product, batch in ((product_of(inputs="groups=8+masked"), None), (product_of(batch=3), 3)):
        known = cast(Any, SimpleNamespace(case=product.general.case(m=8, n=16, k=16, batch=batch), forms={}))
        assert cast(Any, ArrayProduct._choose(choosing, known, None, False)) == "one"
    assert asked == [1, 3]


def test_rows_by_an_index_and_gradients_of_filters_are_products() -> None:
    tokens = product_of(N=[4096], K=[7168], inputs="groups=8+gathered")
    returned = product_of(N=[4096], K=[7168], inputs="groups=8+scattered")
    assert tokens.whole_chunks and returned.whole_chunks
    for inputs in ("gathered", "scattered"):
        assert why_no_fallback(product_of(inputs=inputs)) == "cuBLASLt is asked for no rows by an index"
    filters = product_of(layout="cr", M=[64], N=[72], K="1..4096", inputs="im2col=9x9x8_3x3+wgrad")
    assert (filters.general.shape, filters.fixed(64, 72, 100).shape) == ("?x72x?", "?x72x100")
    assert {one.shape for search in filters.searches(132) for one in search.problems} == {"?x72x?"}


def test_kernels_are_tuned_on_both_sides_of_sizes_at_which_tiles_and_waves_begin() -> None:
    sizes = SizeRange((), 1, 8192).tuned(4096, 132)
    assert sizes[0] == 1 and sizes[-1] == 8192
    assert {8, 16, 24, 32, 40, 48, 56, 64, 65, 128, 129, 256, 257, 512, 513, 1024, 1025} <= set(sizes)
    assert max(high / low for low, high in pairwise(sizes) if low >= 64) < 1.6
    assert SizeRange((), 101, 120).tuned(4096, 132) == (101, 104, 112, 120)
    assert SizeRange((7, 9)).tuned(4096, 132) == (7, 9)


def test_along_k_there_are_no_waves() -> None:
    sizes = SizeRange((), 1, 8192)
    assert set(sizes.ladder()) < set(sizes.tuned(4096, 132)) and all(size % 8 == 0 for size in sizes.ladder()[1:])
    _, search, *_ = product_of(M=64, N=4096, K="1..8192").searches(132)
    assert tuple(dict(one.typical)["K"] for one in search.problems) == sizes.ladder()


# From times to rules


def powers(most: int) -> list[int]:
    return [2**exponent for exponent in range(most.bit_length())]


def test_a_threshold_lies_between_the_sizes_that_it_parts() -> None:
    points = [(m, 64, 64) for m in (1, 16, 128, 129, 4096)]
    found = regions(points, [(1.0, 2.0) if m <= 128 else (2.0, 1.0) for m, _, _ in points])
    assert [(region.box.most[0], region.kernel) for region in found] == [(128, 0), (SIZE_LIMIT, 1)]
    assert between(100, 400) == 200


def test_what_depends_on_the_elements_of_c_takes_one_threshold() -> None:
    points = [*combinations(powers(4096), powers(4096), (64,))]
    found = regions(points, [(1.0, 1.5) if m * n <= 2**14 else (1.5, 1.0) for m, n, _ in points])
    assert [(region.kernel, region.box.most[3]) for region in found] == [(0, 23170), (1, SIZE_LIMIT**2)]


def test_a_difference_that_is_not_worth_a_rule_gets_none() -> None:
    points = [(m, 64, 64) for m in powers(4096)]
    found = regions(points, [(1.0, 1.0003) if m <= 64 else (1.0003, 1.0) for m, _, _ in points])
    assert [region.box for region in found] == [Box()]


def test_a_point_that_nobody_serves_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no kernel that serves it"):
        regions([(1, 1, 1)], [(float("inf"),)])


def sides(box: Box) -> list[tuple[int, int]]:
    return [*zip(box.least, box.most, strict=True)]


@given(
    times=st.lists(st.tuples(*[st.floats(0.5, 8)] * 3), min_size=27, max_size=27),
    sizes=st.tuples(*[st.integers(0, SIZE_LIMIT)] * 3),
)
def test_boxes_hold_every_size_once_and_choose_no_worse_than_one_kernel(
    times: list[tuple[float, ...]], sizes: tuple[int, int, int]
) -> None:
    points = [*combinations((1, 32, 1024), repeat=3)]
    found = regions(points, times)
    assert sum(region.box.holds(sizes) for region in found) == 1
    assert all(region.box.holds(region.example) for region in found)
    picked = [
        row[number] / min(row)
        for point, row in zip(points, times, strict=True)
        for number in [chosen(found, point)]
        if number is not None
    ]
    alone = [[row[kernel] / min(row) for row in times] for kernel in range(3)]
    assert len(picked) == len(points)
    assert regret_of(picked).mean <= min(regret_of(ratios).mean for ratios in alone) + 1e-9
    for region, above in permutations(found, 2):  # boxes of one kernel that together form a box are one
        apart = [axis for axis in range(len(FEATURES)) if sides(region.box)[axis] != sides(above.box)[axis]]
        meet = [region.box.most[axis] + 1 == above.box.least[axis] for axis in apart]
        assert region.kernel != above.kernel or meet != [True]


def test_regret_is_geometric() -> None:
    regret = regret_of([1.0, 1.0, 1.21, 1.21])
    assert regret.mean == pytest.approx(0.1)
    assert regret.worst == pytest.approx(0.21)


# Kernels and what they need


def member(product: Product, problem: Problem, family: str = "naive") -> Member:
    record = FAMILIES[family]
    return Member(product, render(problem, record, record.default(problem)), "sm_90")


def test_kernels_say_what_they_need() -> None:
    product = product_of(N=[256], K=[128])
    dense = Problem(64, 256, 128, types="bf16", layout="rc")
    assert member(product, product.general).needs is Needs.NONE
    assert member(product, product.aligned(1, 1, 1)).needs is Needs.ALIGNED
    assert member(product, product.fixed(1, 256, 128)).fixed == {"N": 256, "K": 128}
    assert member(product, dense).needs is Needs.DENSE
    assert member(product, Problem(None, None, None, types="bf16", layout="rc")).needs is Needs.ALIGNED  # by addresses
    assert [needs.text for needs in (Needs.NONE, Needs.ALIGNED | Needs.DENSE)] == ["ANY", "ALIGNED | DENSE"]


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (Problem(None, None, None), "has types f32, and product linear bf16"),
        (Problem(None, None, None, types="bf16"), "has layout rr, and product linear rc"),
        (Problem(8, 8, 8, types="bf16", layout="rc", lda=16), "is for lda = 16 alone, no dense 8"),
        (Problem(None, None, None, types="bf16", layout="rc", ld_align=16), "lines of whole 16 elements"),
        (
            Problem(None, None, None, types="bf16", layout="rc", batch=None),
            "has batched True, and product linear False",
        ),
    ],
)
def test_a_kernel_of_another_product_is_refused(problem: Problem, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        member(product_of(), problem)


def test_calls_that_keep_nothing_have_odd_lines() -> None:
    case = case_of(product_of(), (64, 64, 64), Needs.NONE)
    assert (case.lda, case.ldb, case.ldc) == (65, 65, 65)
    assert case_of(product_of(), (60, 60, 60), Needs.ALIGNED).lda == 64


def chosen_of(product: Product, members: Sequence[Member]) -> Choice:
    return choose(product, "sm_90", members, Predicted(DEVICES["H200"], most=64))


@pytest.mark.parametrize("listed", [[256, 512], [256]])
def test_rules_send_no_call_to_a_kernel_that_cannot_serve_it(listed: list[int]) -> None:
    product = product_of(N=listed, K=[128])
    problems = (product.general, product.aligned(64, 256, 128), product.fixed(64, 256, 128))
    members = [member(product, problem) for problem in problems]
    members += [member(product, product.aligned(8, 512, 128), "skinny"), member(product, product.general, "simt")]
    choice = chosen_of(product, members)
    assert choice.kind == "predicted"
    assert choice.rules[-1].needs is Needs.NONE
    for rule in choice.rules:
        for number, example in zip(rule.kernels, rule.examples, strict=True):
            kernel = choice.members[number]
            assert kernel.needs in rule.needs
            for name, size in kernel.fixed.items():
                place = FEATURES.index(name)
                assert rule.box.least[place] == rule.box.most[place] == size
            assert choice.chosen(example, rule.needs) == number  # the self-test's call reaches it


class FromARule:
    """A clock by which cuBLASLt is the fastest for more than 64 rows, and of the kernels the first."""

    kind: Literal["measured", "predicted"] = "measured"
    spec, most = DEVICES["H200"], 64

    def times(self, members: Sequence[Contestant], points: Sequence[Sizes], given: Needs) -> list[Timed]:
        ours = [float(number) for number in range(2, len(members) + 2)]
        return [
            Timed([t if isinstance(one, Member) else 1.5 + (m <= 64) for one, t in zip(members, ours, strict=True)])
            for m, _, _ in points
        ]


def square_products() -> tuple[Product, list[Contestant]]:
    """A product of three ranges, and kernels of several tiles."""
    product = product_of(M="64..4096", N="64..4096", K=512)
    problem, family = product.aligned(512, 512, 512), FAMILIES["mma"]
    tiles = ((64, 64), (128, 128), (64, 128), (32, 32))
    configs = [family.default(problem).with_values(BM=rows, BN=columns, WM=32, WN=32) for rows, columns in tiles]
    made = [render(problem, family, config, "sm_80") for config in configs]
    return product, [member(product, product.general), *(Member(product, source, "sm_80") for source in made)]


def test_estimates_give_back_times_that_are_made_of_what_they_count() -> None:
    ranges = [SizeRange((), 16, 4096), SizeRange((), 16, 4096), SizeRange((512,))]
    tilings = [Tiling(64, 64, 1, 528), Tiling(128, 256, 2, 132)]
    points = grid_of(ranges, (), DEVICES["H200"], 256)
    costs = [(3.0, 1.0, 0.002, 0.3, 0.001, 1e-6, 1e-7), (5.0, 2.0, 0.003, 0.1, 0.002, 2e-6, 1e-7)]

    def times(sizes: Sizes) -> list[float]:
        counts = [terms(tiling, 132, sizes, 3) for tiling in tilings]
        return [sum(a * b for a, b in zip(one, count, strict=True)) for one, count in zip(costs, counts, strict=True)]

    made = estimated(ranges, tilings, points, [times(sizes) for sizes in points], 132, [3] * len(points))
    for sizes in [(100, 3000, 512), (1111, 2222, 512), (4000, 17, 512)]:
        assert made.times_us(sizes, 3) == pytest.approx(times(sizes), rel=0.02)
    assert estimates_from(json.loads(json_text(asdict(made)))) == made


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 4095, 4096, 8192, SIZE_LIMIT])
def test_octaves_are_logarithms_at_powers_of_two(size: int) -> None:
    assert octave(size) == pytest.approx(math.log2(size), abs=0.0861)
    assert octave(size) == math.log2(size) or size & (size - 1)
    axis = Axis.of(SizeRange((), 4, 4096), 6)
    assert axis.place(1) == (0, 0) and axis.place(SIZE_LIMIT) == (4, 1)
    assert axis.sizes == (4, 16, 64, 256, 1024, 4096)


def played_times(members: Sequence[Contestant], sizes: Sizes) -> list[float]:
    """The model's times, each kernel's by a factor of its own that changes slowly with the sizes."""
    octaves = math.log2(sizes[0]) + math.log2(sizes[1]) / 2
    row = Predicted(DEVICES["H200"]).times(members, [sizes], Needs.ALIGNED)[0]
    phases = [one.tiling(DEVICES["H200"]).columns for one in members]
    return [time * (1 + 0.2 * math.sin(octaves / 2 + phase)) for time, phase in zip(row.us, phases, strict=True)]


class Played:
    """A clock of a GPU that is played; `failing` is a kernel that cannot compute one of the sizes."""

    kind: Literal["measured", "predicted"] = "measured"
    spec, most = DEVICES["H200"], 256

    def __init__(self, failing: Contestant | None = None) -> None:
        self.failing = failing

    def times(self, members: Sequence[Contestant], points: Sequence[Sizes], given: Needs) -> list[Timed]:
        rows = [played_times(members, sizes) for sizes in points]
        if self.failing in members:
            rows[5][members.index(self.failing)] = math.inf
        return [Timed(row) for row in rows]


def test_where_two_sizes_vary_the_least_estimate_decides() -> None:
    """By the same times boxes lose more than twice as much."""
    product, members = square_products()
    choice = choose(product, "sm_80", members, Played())
    assert [rule.estimates is None for rule in choice.rules] == [False, True]
    assert choice.regret.mean < 0.003 and choice.regret.p95 < 0.03, choice.regret
    points = [point.sizes for point in choice.times]
    found = regions(points, [played_times(choice.members, sizes) for sizes in points])
    ratios = []
    for drawn in choice.drawn:
        times = played_times(choice.members, drawn.sizes)
        ratios.append(times[chosen(found, drawn.sizes) or 0] / min(times))
    assert regret_of(ratios).mean > 2 * choice.regret.mean


def test_where_one_size_varies_steps_along_it_decide() -> None:
    product, members = linear_products()
    choice = choose(product, "sm_80", members, Played())
    (steps,) = (rule.steps for rule in choice.rules if rule.steps is not None)
    assert steps.axis == "M" and len(steps.kernels) == len(steps.bounds) + 1 > 1
    assert choice.regret.mean < 0.01 and choice.regret.p95 < 0.03, choice.regret
    (sets,) = choice.sets
    assert [len(one.kernels) for one in sets] == list(range(1, len(sets) + 1))
    assert all(more.slowdown < fewer.slowdown for fewer, more in pairwise(sets))
    few = choose(replace(product, most=1), "sm_80", members, Played())
    assert len({number for rule in few.rules if rule.needs for number in rule.kernels}) == 1
    assert few.regret.mean > choice.regret.mean  # against candidates that the library does not hold


def test_a_few_sizes_do_for_steps_and_more_are_timed_the_more_kernels_compete() -> None:
    product, members = linear_products()

    class Few(Played):
        asked = 0

        def times(self, members: Sequence[Contestant], points: Sequence[Sizes], given: Needs) -> list[Timed]:
            self.asked += len(points)
            return super().times(members, points, given)

    for most in (8, 256):
        clock = Few()
        clock.most = most
        choice = choose(product, "sm_80", members, clock)
        timed = [point for point in choice.times if point.given]
        assert any(rule.steps for rule in choice.rules)
        assert len({point.sizes for point in timed}) == len(timed)
        allowed = min(most, A_FEW + FOR_EACH * len(members))
        assert 4 <= len(timed) <= 16 if most == 8 else 0.8 * allowed < len(timed) <= allowed


def test_later_sizes_at_which_no_kernel_could_be_timed_are_left_out() -> None:
    product, members = linear_products()

    class Ending(Played):
        rounds = 0

        def times(self, members: Sequence[Contestant], points: Sequence[Sizes], given: Needs) -> list[Timed]:
            self.rounds += 1
            found = super().times(members, points, given)
            return found if self.rounds == 1 else [Timed([math.nan] * len(members)) for _ in found]

    choice = choose(product, "sm_80", members, Ending())
    assert any(rule.steps for rule in choice.rules) and choice.times


def test_a_table_of_steps_is_read_back_and_written_as_the_dispatcher_finds_it() -> None:
    product, members = linear_products()
    choice = choose(product, "sm_80", members, Played())
    (rule,) = (rule for rule in choice.rules if rule.steps is not None)
    assert rule.steps is not None
    names = [one.name for one in choice.members]
    read = rule_from(json.loads(json_text(rule_document(rule, names))), names)
    assert (read.steps, read.kernels) == (rule.steps, rule.kernels)
    text = library_texts(LibraryText(Spec("mylib", ("sm_80",), (product,)), (choice,)))["mylib.cu"]
    written = re.findall(r"\{(\d+|SIZE_LIMIT), &(\w+)_kernel\},", text)
    bounds = [SIZE_LIMIT if bound == "SIZE_LIMIT" else int(bound) for bound, _ in written]
    assert bounds == sorted(bounds) and len(bounds) == len(rule.steps.kernels)
    for bound, kernel in zip(bounds, (name for _, name in written), strict=True):
        assert choice.members[choice.chosen((bound, 512, 512), Needs.ALIGNED)].name == kernel


def linear_products() -> tuple[Product, list[Contestant]]:
    """A product of which M is a range, and kernels of several tiles for its weights."""
    product = product_of(M="1..4096", N=512, K=512)
    problem, family = product.fixed(512, 512, 512), FAMILIES["mma"]
    tiles = ((64, 64), (128, 128), (64, 128), (32, 32), (16, 64))
    configs = [family.default(problem).with_values(BM=rows, BN=columns, WM=16, WN=32) for rows, columns in tiles]
    made = [render(problem, family, config, "sm_80") for config in configs]
    return product, [member(product, product.general), *(Member(product, source, "sm_80") for source in made)]


def test_a_kernel_that_failed_at_a_size_is_not_estimated() -> None:
    product, members = square_products()
    choice, failing = choose(product, "sm_80", members, Played()), members[-1]
    assert failing in choice.members, choice.rules[0].kernels
    assert failing not in choose(product, "sm_80", members, Played(failing)).members


def _unloaded(source: object) -> Any:
    raise AssertionError("nothing is called")


def test_cublaslt_serves_what_it_is_faster_at_and_nothing_else(tmp_path: Path) -> None:
    product = product_of(N=[64], K=[64])
    members = [*(member(product, one) for one in (product.general, product.aligned(64, 64, 64))), CublasLt(product)]
    choice = choose(product, "sm_90", members, FromARule())
    names = [choice.members[choice.chosen((m, 64, 64), Needs.ALIGNED)].name for m in (1, 32, 128, 4096)]
    assert [name == "cublasLt" for name in names] == [False, False, True, True]
    assert choice.members[choice.chosen((4096, 64, 0), Needs.ALIGNED)] in choice.kernels  # it takes no K = 0
    assert choice.members[choice.chosen((4096, 65, 65), Needs.NONE)] in choice.kernels
    spec = Spec("mylib", ("sm_90",), (product,))
    texts = library_texts(LibraryText(spec, (choice,)))
    assert "&linear_cublasLt_kernel" in texts["mylib.cu"]
    assert "CUDA::cublasLt" in texts["CMakeLists.txt"]
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "mylib.record.json").write_text(json_text({"choices": [choice_document(choice)]}))
    library = read_library(tmp_path, "sm_90", _unloaded, "cuda")
    assert [*library] == ["linear"]  # Python takes the kernels alone
    with pytest.raises(InvalidInput, match=r"^the library has no product 'x': known are linear$"):
        library["x"]
    assert "x" not in library and library.get("x") is None
    alone = library_texts(LibraryText(spec, (replace(choice, members=choice.kernels, rules=choice.rules[-1:]),)))
    assert not any("cublas" in text.lower() for text in alone.values())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"epilogue": "bias"}, "the epilogue .* is not cuBLASLt's"),
        ({"batch": 8, "pointers": True}, "no arrays of pointers"),
        ({"types": "s8,s8,s32"}, "types s8,s8,s32 fma are not taken over"),
        ({"types": "bf16,f16,f32"}, "A of bf16 and B of f16 differ"),
    ],
)
def test_products_that_cublaslt_does_not_stand_for(fields: dict[str, Any], words: str) -> None:
    assert re.search(words, why_no_fallback(product_of(**fields)) or "")
    assert why_no_fallback(product_of()) is None


def test_a_product_without_a_general_kernel_is_refused() -> None:
    product = product_of()
    with pytest.raises(InvalidInput, match="no kernel of linear for sm_90 serves every call: there are gemm_bf16"):
        chosen_of(product, [member(product, product.aligned(1, 1, 1))])


# The folder


def write_kernels(folder: Path, product: Product) -> list[str]:
    """Files of a general kernel and one that wants whole chunks."""
    names = []
    for problem in (product.general, product.aligned(64, 64, 64)):
        source = render(problem, FAMILIES["naive"], FAMILIES["naive"].default(problem))
        (folder / f"{source.name}.cu").write_text(source.text)
        names.append(f"{source.name}.cu")
    return names


def make(folder: Path, *products: dict[str, Any], **options: Any) -> Any:
    spec = spec_from({"name": "mylib", "architectures": ["sm_90"], "product": list(products)}, "sm_90", folder)
    return gemmgen.library(spec, to=folder / "out", device="emulator", examples=0, points=27, **options)


def test_a_folder_is_made_again_and_only_its_own_files_go(tmp_path: Path) -> None:
    f32 = {"name": "dense", "types": "f32", "M": "?", "N": "?", "K": "?"}
    small = {**LINEAR, "kernels": write_kernels(tmp_path, product_of())}
    other = {**f32, "kernels": write_kernels(tmp_path, spec_of(f32).products[0])}
    first = make(tmp_path, small, other)
    out = tmp_path / "out"
    assert {path.name for path in first.files} == {path.name for path in out.iterdir()}
    assert {"mylib.h", "mylib.cu", "mylib_selftest.cu", "CMakeLists.txt", "mylib.record.json"} <= {
        *map(str, (path.name for path in first.files))
    }
    (out / "mine.txt").write_text("stays")
    f32_files = sorted(path for path in out.iterdir() if path.name.startswith("mylib_gemm_f32"))
    f32_files[0].write_text("edited")
    second = make(tmp_path, small)
    assert (second.left, set(second.removed)) == ((f32_files[0],), set(f32_files[1:]))
    assert (out / "mine.txt").exists()
    certificate = json.loads((out / "mylib.certificate.json").read_text())
    assert {one["name"] for one in certificate["kernels"]} == {one.name for one in second.choices[0].members}
    (out / "mylib.h").write_text("edited")
    with pytest.raises(InvalidInput, match=r"mylib\.h exists and is not as an export left it"):
        make(tmp_path, small)


def test_kernels_on_file_that_the_architecture_does_not_run_are_told_by_theirs(tmp_path: Path) -> None:
    problem = product_of().general
    source = render(problem, FAMILIES["naive"], FAMILIES["naive"].default(problem), "sm_100")
    (tmp_path / "newer.cu").write_text(source.text)
    with pytest.raises(InvalidInput, match=r"no kernel of product linear runs on sm_90: .* kernels for sm_100"):
        make(tmp_path, {**LINEAR, "kernels": ["newer.cu"]})


def test_the_record_has_every_time_and_says_where_it_comes_from(tmp_path: Path) -> None:
    make(tmp_path, {**LINEAR, "kernels": write_kernels(tmp_path, product_of())})
    record = json.loads((tmp_path / "out" / "mylib.record.json").read_text())
    (choice,) = record["choices"]
    assert (choice["times"]["kind"], choice["times"]["device"]) == ("predicted", "H200")
    assert choice["times"]["columns"][:4] == ["keeps", "M", "N", "K"]
    assert all(len(row) == len(choice["times"]["columns"]) for row in choice["times"]["points"])
    assert choice["regret"]["kind"] == "predicted"
    assert len(choice["regret"]["drawn"]) == choice["regret"]["points"] == 64
    known = {tuple(row[1:4]) for row in choice["times"]["points"]}
    assert not known & {tuple(row[1:4]) for row in choice["regret"]["drawn"]}
    dispatcher = (tmp_path / "out" / "mylib.cu").read_text()
    assert "predicted for H200 by a model: nothing was measured" in dispatcher or not choice["times"]["points"]
    assert len(re.findall(r"^    \{(?:ALIGNED|ANY|DENSE)", dispatcher, re.MULTILINE)) == len(choice["rules"])


def test_no_kernel_of_a_library_wants_more_of_matrices_behind_pointers_than_their_elements_do() -> None:
    product = product_of(batch=8, pointers=True)
    assert {problem.pointer_align for search in product.searches(132) for problem in search.problems} == {2}
    aligned = Problem(None, None, None, types="bf16", layout="rc", batch=None, pointers=True)
    with pytest.raises(InvalidInput, match="wants matrices behind pointers at 16 bytes"):
        member(product, aligned)


def test_what_is_known_is_not_found_again(tmp_path: Path) -> None:
    made: list[int] = []

    def make() -> dict[str, float]:
        made.append(1)
        return {"us": 1.5}

    store = Store(tmp_path)
    assert [known_or(store, "timing", "ab12", make) for _ in range(2)] == [{"us": 1.5}] * 2
    assert len(made) == 1


@needs_toml
def test_the_command_prints_what_was_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")  # of a table, whatever terminal this is
    names = write_kernels(tmp_path, product_of())
    fields = "".join(f"{name} = {json.dumps(value)}\n" for name, value in {**LINEAR, "kernels": names}.items())
    (tmp_path / "spec.toml").write_text(f'name = "mylib"\narchitectures = ["sm_90"]\n[[product]]\n{fields}')
    words = ["library", str(tmp_path / "spec.toml"), "--to", str(tmp_path / "out"), "--device", "emulator"]
    assert main([*words, "--examples", "0", "--points", "27"]) == 0
    assert re.search(r"linear +sm_90 +1 +predicted +H200 +0% +0% +1..8192 x 1..8192", capsys.readouterr().out)
    assert main([*words, "--examples", "0", "--points", "27", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [choice["product"] for choice in document["choices"]] == ["linear"]
    assert document["removed"] == []


@needs_toml
def test_the_example_is_a_library() -> None:
    spec = read_spec(Path(__file__).parents[2] / "examples" / "library.toml", "sm_90")
    assert len(spec.products) == 6
    assert all(len(list(product.searches(132))) >= 2 for product in spec.products)


def test_sizes_of_several_ranges_are_spread_and_none_is_beyond_them() -> None:
    ranges = [SizeRange((), 1, 8192), SizeRange((), 64, 4096), SizeRange((256,))]
    grid = grid_of(ranges, (), DEVICES["H200"], 100)
    assert len(set(grid)) == len(grid) == 100
    assert len({m for m, _, _ in grid}) > 60 and {k for _, _, k in grid} == {256}
    assert {(1, 64, 256), (8192, 4096, 256)} <= set(grid)
    assert all(1 <= m <= 8192 and 64 <= n <= 4096 for m, n, _ in grid)


def test_a_kernel_that_saves_little_is_left_out() -> None:
    points = [(m, 64, 64) for m in powers(4096)]
    times = [(1.0, 1.002 if m > 64 else 0.999, 0.5 if m == 1 else 2.0) for m, _, _ in points]
    assert paying(points, times, least=0.003) == (0, 2)
    assert paying(points, [(1.0, 1.0)] * len(points), least=0.003) == (0,)
    assert paying(points, [(float("inf"), 1.0)] * len(points), least=0.003) == (1,)


def test_a_kernel_that_is_the_fastest_in_the_middle_alone_has_a_rule() -> None:
    """Where either half as a whole is the other kernel's, so that no first split saves anything."""
    points = [(m, n, 64) for m in powers(4096) for n in powers(4096)]
    middle = [16 <= m <= 128 and n >= 256 for m, n, _ in points]
    found = regions(points, [(1.0, 0.8) if inside else (1.0, 3.0) for inside in middle])
    assert [chosen(found, point) for point in points] == middle
    assert len(found) <= 5


@pytest.mark.parametrize(("options", "budgets"), [(Options(), [1, 2]), (Options(budget=3), [3])])
def test_without_a_gpu_a_search_tries_another_kernel_where_the_first_fails(
    options: Options, budgets: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def tune(*_: object, budget: int, **__: object) -> None:
        asked.append(budget)
        raise GemmgenError("no config survives")

    monkeypatch.setattr(building, "tune", tune)
    maker = building._Maker(cast(Target, SimpleNamespace(gpu=None)), cast(Store, None), options, Progress())
    with pytest.raises(GemmgenError, match="no config survives"):
        maker._search(Search((product_of().general,)))
    assert asked == budgets


@pytest.mark.parametrize(
    ("fields", "words"), [({}, "times are predicted"), ({"epilogue": "bias"}, "the epilogue .* is not cuBLASLt's")]
)
def test_where_cublaslt_stands_for_nothing_the_library_says_so(
    fields: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = cast(Target, SimpleNamespace(gpu=None, arch="sm_90"))
    maker = building._Maker(target, cast(Store, None), Options(fallback=True), Progress())
    monkeypatch.setattr(building._Maker, "_tuned", lambda *_: [])
    monkeypatch.setattr(building._Maker, "_clock", None)
    monkeypatch.setattr(building, "choose", lambda *_, **__: None)
    with pytest.warns(UserWarning, match=f"cuBLASLt serves no call of {product_of().name}: {words}"):
        maker.choice(product_of(**fields))


# Regret


@dataclass(frozen=True)
class PlayedGpu:
    """A GPU that is played: kernels of these `members` take `played_times`."""

    members: Mapping[str, Contestant]
    arch: str = "sm_90"
    store: None = None
    description: str = "a card that is played"

    def load_compiled(self, source: Any, compiled: Any) -> Any:
        return self.members[source.name]

    def measure_many(self, kernels: Sequence[Any], case: Any, protocol: Any, *, beside: Any) -> Any:
        times = played_times(kernels, (case.m, case.n, case.k))
        return InterleavedTimings(tuple(Timing((time,), {}) for time in times), None)


@pytest.mark.parametrize(("kind", "asked"), [("unavailable", 1), ("launch", 2)])
def test_cublaslt_is_asked_for_once_if_it_is_missing(kind: FailureKind, asked: int) -> None:
    found: list[object] = []

    class Gpu:
        def measure_many(self, *_: Any, beside: Any = None) -> InterleavedTimings:
            found.append(beside)
            if beside is not None:
                raise CandidateFailed(Failure(kind, "cuBLASLt does not work", "cublaslt"))
            return InterleavedTimings((Timing((1.0,), {}),))

    timer = BesideLibrary(cast(Any, Gpu()))
    case = case_of(product_of(), (64, 64, 64), Needs.NONE)
    assert [timer.measure([], case, GRID).baseline for _ in range(2)] == [None, None]
    assert found.count(FIRST) == asked and found.count(None) == 2


def library_of_squares(folder: Path, kind: Literal["measured", "predicted"]) -> Spec:
    """A library's record and kernels in `folder`, chosen by a clock that is played."""
    product, members = square_products()
    played = Played()
    played.kind = kind
    choice = choose(product, "sm_90", members, played)
    for one in choice.kernels:
        (folder / f"mylib_{one.name}.cu").write_text(one.source.text)
    (folder / "mylib.record.json").write_text(json_text({"choices": [choice_document(choice)]}))
    return Spec("mylib", ("sm_90",), (product,))


def test_a_record_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    spec = library_of_squares(tmp_path, "measured")
    (choice,) = choices_from(spec, tmp_path)
    record = json.loads((tmp_path / "mylib.record.json").read_text())
    read, written = json.loads(json_text(choice_document(choice))), record["choices"][0]
    assert all(read[name] == written[name] for name in ("kernels", "rules", "times"))
    assert read["regret"]["drawn"] == written["regret"]["drawn"]
    with pytest.raises(InvalidInput, match=r"mylib\.record\.json: nothing of product linear for sm_80: make the"):
        choices_from(replace(spec, architectures=("sm_80",)), tmp_path)
    with pytest.raises(InvalidInput, match=r"holds no library other: .*other\.record\.json\. Make it first"):
        choices_from(replace(spec, name="other"), tmp_path)


def test_without_a_gpu_regret_is_that_on_record(tmp_path: Path) -> None:
    spec = library_of_squares(tmp_path, "measured")
    (found,) = gemmgen.regret(spec, to=tmp_path, device="emulator")
    assert (found.kind, found.device, found.regret.points) == ("recorded", "H200", 64)
    assert 0 <= found.regret.mean <= found.regret.arithmetic
    assert found.worst.us / found.worst.best_us == pytest.approx(1 + found.regret.worst)


@pytest.mark.parametrize(("types", "bits"), [("f32", 32), ("bf16", 32), ("f64", 64)])
def test_cublaslt_sums_in_the_type_of_the_product(types: str, bits: int) -> None:
    assert CublasLt(product_of(types=types)).compute == f"CUBLAS_COMPUTE_{bits}F"


def test_sizes_are_not_drawn_without_a_gpu(tmp_path: Path) -> None:
    spec = library_of_squares(tmp_path, "measured")
    with pytest.raises(
        InvalidInput, match=r"^30 sizes to draw, and no GPU of sm_90 here .*on record .*, 64 of a product"
    ):
        gemmgen.regret(spec, to=tmp_path, device="emulator", sizes=30)


def test_of_predicted_times_regret_is_predicted(tmp_path: Path) -> None:
    spec = library_of_squares(tmp_path, "predicted")
    (found,) = gemmgen.regret(spec, to=tmp_path, device="emulator")
    assert (found.kind, found.regret.points) == ("predicted", 64)


def test_on_a_gpu_regret_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = library_of_squares(tmp_path, "measured")

    @contextmanager
    def executor() -> Iterator[None]:
        yield

    (choice,) = choices_from(spec, tmp_path)
    members = {one.name: one for one in (*choice.members, *choice.rivals)}
    assert choice.rivals  # candidates that are in no table are rendered again, and timed
    target = SimpleNamespace(gpu=PlayedGpu(members), spec=DEVICES["H200"], executor=executor())
    monkeypatch.setattr(regret, "open_target", lambda *_: target)
    monkeypatch.setattr("gemmgen.exports.library.clocks.compile_kernel", lambda *_: None)
    (found,) = gemmgen.regret(spec, to=tmp_path, sizes=30)
    assert (found.kind, found.device) == ("measured", "H200")
    assert 25 <= found.regret.points <= 30  # those in the grid are left out
    record = json.loads((tmp_path / "mylib.record.json").read_text())["choices"][0]
    known = {tuple(row[1:4]) for row in record["times"]["points"]}
    assert not known & {one.sizes for one in found.drawn}
    for one in found.drawn:
        assert one.us >= one.best_us == min(played_times([*members.values()], one.sizes))


@needs_toml
def test_the_command_prints_regret_and_refuses_what_it_does_not_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    library_of_squares(tmp_path, "measured")
    fields = {**LINEAR, "M": "64..4096", "N": "64..4096", "K": 512}
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items())
    (tmp_path / "spec.toml").write_text(f'name = "mylib"\narchitectures = ["sm_90"]\n[[product]]\n{lines}')
    words = ["library", str(tmp_path / "spec.toml"), "--to", str(tmp_path), "--device", "emulator"]
    assert main([*words, "--regret"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"linear +sm_90 +recorded +H200 +64 ", said) and "there is no GPU" in said
    assert main([*words, "--regret", "--json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["points"]) == ("recorded", 64)
    assert {"arithmetic", "mean", "p95", "worst", "worst_call"} <= set(document)
    assert main([*words, "--regret", "--budget", "3"]) == 2
    assert "--regret makes nothing: leave out --budget" in capsys.readouterr().err
    assert main([*words, "--sizes", "3"]) == 2
    assert "--sizes 3 is of --regret" in capsys.readouterr().err


def test_where_the_number_of_products_varies_the_least_estimate_decides() -> None:
    product, members = batched_products()
    assert product.varies and {problem.typical for search in product.searches(108) for problem in search.problems}
    batches = {dict(problem.typical)["batch"] for search in product.searches(108) for problem in search.problems}
    assert batches == {*BATCHES}
    choice = choose(product, "sm_80", members, Played())
    (rule,) = (rule for rule in choice.rules if rule.estimates is not None)
    assert {point.batch for point in choice.times} == {*BATCHES}
    assert {drawn.batch for drawn in choice.drawn} == {*OTHER_BATCHES}
    assert choice.regret.mean < 0.02, choice.regret
    chosen = (choice.members[choice.chosen((64, 512, 512), Needs.ALIGNED, batch)] for batch in (1, 512))
    few, many = (one.tiling(DEVICES["H200"]) for one in chosen)
    assert few.rows * few.columns < many.rows * many.columns  # small tiles fill the card
    assert rule.needs in Needs.ALIGNED
    test = LibraryText(Spec("mylib", ("sm_80",), (product,)), (choice,)).products[0].test
    for reach in test.reaches:  # the self-test's calls
        case = reach.case
        given = Needs.ALIGNED if case.lda % 8 == 0 else Needs.NONE
        assert choice.chosen((case.m, case.n, case.k), given, case.batch) == reach.number


def test_a_batch_of_large_matrices_is_timed_as_far_as_memory_reaches() -> None:
    product, _ = batched_products()
    assert product.at(2, (64, 512, 512)).batch == BATCHES[2]
    large = product.at(2, (8192, 8192, 8192)).batch
    assert large is not None and 1 <= large < BATCHES[0]
    assert product_of(batch=64).at(2, (64, 512, 512)).batch == 64


def batched_products() -> tuple[Product, list[Contestant]]:
    """A product of a batch of any number, and kernels of several tiles."""
    product = product_of(M="16..512", N=512, K=512, batch="?")
    problem, family = product.fixed(64, 512, 512), FAMILIES["mma"]
    configs = [
        family.default(problem).with_values(BM=rows, BN=columns, WM=16, WN=32)
        for rows, columns in ((32, 32), (64, 64), (128, 128))
    ]
    made = [Member(product, render(problem, family, config, "sm_80"), "sm_80") for config in configs]
    return product, [member(product, product.general), *made]


def test_a_short_range_of_which_all_sizes_are_timed_has_a_regret() -> None:
    product = product_of(M="1..16", N=512, K=512)
    problem, family = product.fixed(16, 512, 512), FAMILIES["mma"]
    sources = [render(problem, family, family.default(problem).with_values(BM=rows), "sm_80") for rows in (64, 128)]
    members = [member(product, product.general), *(Member(product, one, "sm_80") for one in sources)]
    choice = choose(product, "sm_80", members, Played())
    assert choice.regret.points > 0
