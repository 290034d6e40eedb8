"""Inputs that are no plain matrices: their text, names and records, who refuses them, and what they mean."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from gemmgen.arrays.kernel import ArrayKernel
from gemmgen.exports.folder import require_exportable
from gemmgen.exports.json_records import problem_document
from gemmgen.exports.record_reading import problem_from
from gemmgen.families import FAMILIES, NAIVE
from gemmgen.families.base import first_rejection
from gemmgen.problem.device import DEFAULT_ARCH, parse_arch
from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.inputs import PLAIN, Inputs
from gemmgen.problem.matrix import Layout
from gemmgen.problem.types import F32_TYPES, Types
from gemmgen.render.kernel_text import render
from gemmgen.render.naming import full_name, parse_name
from gemmgen.support.errors import InvalidInput
from gemmgen.verification.companions import computed, factor
from gemmgen.verification.corpus import situation_document, situation_from
from gemmgen.verification.data import make_operands
from gemmgen.verification.linear import root_of
from gemmgen.verification.reference import expected
from gemmgen.verification.situation import ALL_DATA_KINDS, Situation, side_of
from gemmgen.verification.window import Window

SCALED = Problem(None, 35, 67, types="bf16,u4,f32", layout="rc", inputs="scales=32+zeros")
GROUPED = Problem(None, 35, 67, types="bf16,bf16,f32", layout="rc", inputs="groups=5", stride_b=None)
GATHERED, MIXTURE = "gathered", "groups=5+gathered"
SCATTERED = "scattered", "groups=5+gathered+scattered"
PROBLEMS = (SCALED, replace(SCALED, inputs=Inputs.parse("scales=K"), epilogue="bias+gelu", ldb=None), GROUPED)
PROBLEMS += tuple(
    replace(GROUPED, inputs=Inputs.parse(inputs), stride_b="dense") for inputs in (GATHERED, MIXTURE, *SCATTERED)
)
PROBLEMS += (replace(SCALED, inputs=Inputs.parse("scales=32+scattered")),)
BLOCKS = Problem(None, 150, 300, types="e4m3,e4m3,bf16", layout="rc", inputs="blocks")
IMAGES = Problem(None, 35, 24, types="f16,f16,f32", layout="rc", inputs="im2col=8x9x4_3x2_p1x1x2x0_s2x1_d1x2")
MASKED, ALONG_K = (
    replace(GROUPED, inputs=Inputs.parse(f"groups=5+{form}"), stride_b="dense", stride_c=None)
    for form in ("masked", "along_k")
)
PROBLEMS += (MASKED, ALONG_K, replace(ALONG_K, layout=Layout.parse("cr"), k=None))
PROBLEMS += (
    BLOCKS,
    replace(BLOCKS, inputs=Inputs.parse("blocks+lines+padded")),
    replace(SCALED, inputs=Inputs.parse("scales=32+zeros+groups=5"), stride_b=None),
    replace(SCALED, inputs=Inputs.parse("scales=K+groups=5"), layout=Layout.parse("rr")),
    replace(BLOCKS, inputs=Inputs.parse("groups=5+blocks"), n=None),
    replace(BLOCKS, inputs=Inputs.parse("groups=5+blocks+lines+padded")),
    IMAGES,
    replace(IMAGES, lda=None, inputs=Inputs.parse("im2col=8x9x4_3x2")),
    Problem(35, 24, None, types="f16,f16,f32", layout="cr", inputs="im2col=8x9x4_3x2_p1x1x2x0_s2x1_d1x2+wgrad"),
    Problem(None, 24, 90, types="f16,f16,f32", layout="rr", ldb=None, inputs="im2col=8x9x4_3x2+wgrad"),
)


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_names_and_records_hold_inputs(problem):
    name = full_name(problem, NAIVE, NAIVE.default(problem))
    assert parse_name(name)[0] == problem
    assert problem_from(problem_document(problem)) == problem
    assert Inputs.parse(str(problem.inputs)) == problem.inputs
    assert f"--inputs {problem.inputs} " in render(problem, NAIVE, NAIVE.default(problem)).text


def test_records_and_names_of_plain_inputs_say_nothing_of_them():
    plain = Problem(None, 35, 67, types="bf16,s8,f32")
    assert "inputs" not in problem_document(plain)
    assert "_k" not in full_name(plain, NAIVE, NAIVE.default(plain))
    assert Inputs.parse(str(PLAIN)) == PLAIN


@pytest.mark.parametrize(
    ("types", "inputs", "words"),
    [
        ("bf16,u4,f32", "plain", "B of u4 needs scales"),
        ("bf16,bf16,f32", "scales=32", "scales along K are for u4, s4, u8, s8"),
        ("s8,s8,s32", "scales=32", "A of s8: scaled numbers of B are of A's type"),
        ("s8,u4,s32", "scales=32", "floats multiply it"),
        ("bf16,u4,f32", "scales=48", "write scales=32, 64, 128 or K"),
        ("bf16,u4,f32", "zeros", "zero points of B go with scales"),
        ("bf16,u4,f32", "scales=32+groups=3+masked", "go alone"),
        ("bf16,u4,f32", "scales=32+groups=3+gathered", "go alone"),
        ("bf16,u4,f32", "scales=32+blocks", "go alone"),
        ("bf16,u4,f32", "scales=32+gathered", "go alone"),
        ("f32", "groups=0", "write scales=32"),
        ("f32", "blocks", "A of f32: scales by blocks are for e4m3, e5m2"),
        ("e4m3_fast", "blocks", "go with --compute fma or promoted, not fast"),
        ("e4m3", "blocks+gathered", "go alone"),
        ("e4m3", "padded", "padded rows of scales go with blocks"),
        ("f32", "im2col=8x9_3x3", "write HxWxC_RxS"),
        ("f32", "im2col=8x0x4_3x3", "sizes are 1 to"),
        ("f32", "im2col=2x9x4_3x3", "the filter spans 3 rows, and the padded image has 2"),
        ("f32", "im2col=9x9x4_3x3_d1x5", "the filter spans 11 columns, and the padded image has 9"),
        ("f32", "im2col=8x9x4_3x3", "K = None, and .* have filters of 36"),
        ("f32", "im2col=8x9x4_3x3+wgrad", "N = None, and .* have filters of 36"),
        ("f32", "groups=3+wgrad", "wgrad goes with im2col=HxWxC_RxS.wgrad"),
        ("f32", "groups=65537", "groups = 65537: at most 65536"),
        ("f32", "masked", "masked, and groups = 0: write groups=8\\+masked"),
        ("f32", "gathered+along_k", "along_k, and groups = 0"),
        ("f32", "groups=3+masked+along_k", "groups=3.masked.along_k: groups are masked or along_k, not both"),
        ("f32", "groups=3+masked+gathered", "rows are gathered in one A"),
        ("e4m3", "groups=3+along_k+blocks", "go alone"),
        ("f32", "groups=3+masked+scattered", "rows are scattered in one C"),
        ("f32", "groups=3+along_k+scattered", "rows are scattered in one C"),
        ("f32", "im2col=8x9x4_3x3+scattered", "rows are scattered in one C"),
        ("e4m3", "groups=3+gathered+blocks", "go alone"),
        ("e4m3", "im2col=8x9x4_3x3+blocks", "go alone"),
    ],
)
def test_what_means_nothing_is_refused(types, inputs, words):
    with pytest.raises(InvalidInput, match=words):
        Problem(None, None, None, types=types, inputs=inputs)


@pytest.mark.parametrize(
    ("inputs", "more", "words"),
    [
        ("groups=5", {"batch": 5}, "groups=5 go with one product, and batch = 5"),
        ("groups=5+masked", {"batch": 3}, "groups=5.masked go with 5 products, and batch = 3"),
        ("groups=5+along_k", {"batch": None}, "go with 5 products, and batch = \\?"),
        ("groups=5+masked", {"pointers": True}, "have no pointers to matrices"),
        ("groups=5+along_k", {"stride_a": 0}, "stride_a = 0 serves a batch, and inputs = groups=5.along_k have one A"),
        ("groups=5+along_k", {"stride_b": None}, "stride_b = \\? serves a batch, and .* have one B"),
        (
            "groups=5+along_k",
            {"epilogue": "acc + K * scale_m"},
            "have a K for each group, and the epilogue .* takes one",
        ),
        ("groups=5+masked", {"epilogue": "bias+row_amax"}, "takes row_amax"),
    ],
)
def test_groups_with_a_c_each_are_a_batch_of_their_own(inputs, more, words):
    with pytest.raises(InvalidInput, match=words):
        Problem(None, None, None, inputs=inputs, **more)


def test_products_side_by_side_share_no_scales_of_groups():
    with pytest.raises(InvalidInput, match=r"inputs = groups=5.blocks go with one product, and .* takes 2"):
        Problem(None, None, None, types="e4m3", inputs="groups=5+blocks", epilogue="swiglu")


@pytest.mark.parametrize("more", [{"batch": 3}, {"epilogue": "swiglu"}, {"epilogue": "zero_n+scale_n"}], ids=str)
def test_inputs_go_with_one_product_without_sums_of_a_and_b(more):
    with pytest.raises(InvalidInput, match="inputs = scales=32"):
        Problem(None, None, None, types="bf16,u4,f32", inputs="scales=32", **more)


@pytest.mark.parametrize("family", [one for one in FAMILIES.values() if not one.any_inputs], ids=lambda one: one.name)
@pytest.mark.parametrize("problem", [one for one in PROBLEMS if str(one.inputs) != "scattered"], ids=str)
def test_other_families_refuse_inputs(family, problem):
    rejection = first_rejection(family, problem, family.default(problem), parse_arch(DEFAULT_ARCH).limits)
    scaled = family.scaled_inputs and problem.inputs.group is not None
    ranges = problem.inputs.ragged_groups + problem.inputs.k_groups > 0
    grouped = family.grouped_inputs and (ranges or problem.inputs.blocks)
    moved = problem.inputs.gathered or problem.inputs.scattered
    images = family.image_inputs and (problem.inputs.conv is not None or (family.grouped_inputs and moved))
    assert images or rejection is not None
    assert images or not problem.inputs.scattered or rejection.constraint is family.rules[0]
    assert scaled or grouped or images or rejection.constraint is family.rules[0]


@pytest.mark.parametrize("problem", [one for one in PROBLEMS if one.coded], ids=str)
def test_exports_refuse_codes_that_no_launch_packs(problem):
    source = render(problem, NAIVE, NAIVE.default(problem))
    with pytest.raises(InvalidInput, match=re.escape(f"inputs = {problem.inputs}")):
        require_exportable(source)


def test_exports_take_groups_of_rows_whose_matrices_lie_side_by_side_or_are_told():
    require_exportable(render(GROUPED, NAIVE, NAIVE.default(GROUPED)))
    fixed = replace(GROUPED, stride_b=3000)
    with pytest.raises(InvalidInput, match="inputs = groups=5 with stride_b = 3000"):
        require_exportable(render(fixed, NAIVE, NAIVE.default(fixed)))


@pytest.mark.parametrize("problem", [one for one in PROBLEMS if one.coded], ids=str)
def test_arrays_are_no_codes_that_no_launch_packs(problem):
    source = render(problem, NAIVE, NAIVE.default(problem))
    with pytest.raises(InvalidInput, match=re.escape(f"inputs = {problem.inputs}, and from Python ")):
        ArrayKernel(source, None)


def test_groups_have_a_matrix_b_each_and_share_a_and_c():
    case = GROUPED.case(m=9)
    assert (case.a.batch, case.b.batch, case.c.batch) == (None, 5, None)
    assert case.stride_b == 35 * 67
    assert case.tensors["offs"].elements == 5
    assert "stride_b" in Problem(9, None, None, inputs="groups=5").runtime_names


def test_ends_of_groups_ascend_and_some_are_empty_last_or_all():
    drawn = [make_operands(Situation(GROUPED.case(m=40), "exact", seed)).extra["offs"] for seed in range(40)]
    assert all((np.diff(ends) >= 0).all() and ends[0] >= 0 and ends[-1] <= 40 for ends in drawn)
    assert any((np.diff(ends) == 0).any() for ends in drawn)
    assert any(0 < ends[-1] < 40 for ends in drawn)
    assert any(40 in np.diff(ends, prepend=0) for ends in drawn)


def test_the_reference_of_a_group_is_the_product_with_its_b():
    situation = Situation(GROUPED.case(m=40), "random", 3)
    case, operands = situation.case, make_operands(situation)
    (window,) = computed(case, operands)
    values, _ = expected(situation, window)
    a, b = case.a.view(operands.a).astype(float), case.b.view(operands.b).astype(float)
    ends = [0, *operands.extra["offs"]]
    assert ends[-1] > 0
    for group in range(5):
        rows = slice(ends[group], ends[group + 1])
        assert np.allclose(values[rows], a[rows] @ b[group])


@pytest.mark.parametrize("form", ["masked", "along_k"])
def test_groups_say_the_batch_whatever_their_number(form):
    one, eight = (Problem(9, 8, 7, inputs=f"groups={count}+{form}") for count in (1, 8))
    assert (one.batch, one.case().c.batch, eight.batch, eight.case().c.batch) == (1, 1, 8, 8)
    assert "batch" not in render(one, NAIVE, NAIVE.default(one)).text.split("Made by")[1].splitlines()[0]
    assert replace(eight, inputs=PLAIN) == Problem(9, 8, 7, batch=8)


def test_groups_along_k_share_a_and_b():
    case = ALONG_K.case(m=9)
    assert (case.a.batch, case.b.batch, case.c.batch) == (None, None, 5)
    assert case.flops == 2 * 9 * 35 * 67
    assert "stride_a" not in ALONG_K.sizes


def test_masked_groups_have_no_rows_some_or_all_and_nan_behind_them():
    drawn = [make_operands(Situation(MASKED.case(m=40), "random", seed)) for seed in range(40)]
    counts = np.array([one.extra["group_rows"] for one in drawn])
    assert counts.min() == 0
    assert counts.max() == 40
    assert ((counts > 0) & (counts < 40)).any()
    assert any(sorted(of_one) == [0, 0, 0, 0, 40] for of_one in counts.tolist())
    case = MASKED.case(m=40)
    for operands in drawn:
        for of_group, rows in zip(case.a.view(operands.a).astype(float), operands.extra["group_rows"], strict=True):
            assert np.isfinite(of_group[:rows]).all()
            assert np.isnan(of_group[rows:]).all()


def test_groups_that_share_an_a_keep_the_rows_of_the_longest():
    case = replace(MASKED, stride_a=0).case(m=40)
    drawn = (make_operands(Situation(case, "random", seed)) for seed in range(99))
    operands = next(one for one in drawn if 0 < one.extra["group_rows"].max() < 40)
    values, most = case.a.view(operands.a).astype(float), operands.extra["group_rows"].max()
    assert np.isfinite(values[:, :most]).all()
    assert np.isnan(values[:, most:]).all()


def test_ranges_of_k_are_empty_last_or_all_and_nan_lies_behind_them():
    case = ALONG_K.case(m=3)
    drawn = [make_operands(Situation(case, "random", seed)) for seed in range(40)]
    ends = np.array([one.extra["offs"] for one in drawn])
    sizes = np.diff(ends, axis=1, prepend=0)
    assert sizes.min() == 0
    assert sizes.max() == 67
    assert (ends[:, -1] < 67).any()
    for operands, end in zip(drawn, ends[:, -1], strict=True):
        a, b = (matrix.view(of).astype(float) for matrix, of in ((case.a, operands.a), (case.b, operands.b)))
        assert np.isfinite(a[:, :end]).all()
        assert np.isfinite(b[:end]).all()
        assert np.isnan(a[:, end:]).all()
        assert np.isnan(b[end:]).all()


@pytest.mark.parametrize("data", ["exact", "random"])
def test_the_reference_of_a_range_of_k_is_the_product_of_its_columns_and_rows(data):
    for seed in range(6):
        situation = Situation(replace(ALONG_K, types=F32_TYPES).case(m=20, beta=1.0), data, seed)
        case, operands = situation.case, make_operands(situation)
        values, bounds = expected(situation, Window.whole(case))
        a, b, c = (
            of.view(stored).astype(float)
            for of, stored in zip(case.matrices, (operands.a, operands.b, operands.c), strict=True)
        )
        ends = [0, *operands.extra["offs"]]
        for group in range(5):
            part = slice(ends[group], ends[group + 1])
            assert np.allclose(values[group], a[:, part] @ b[part] + c[group], rtol=1e-6)
            one = Window(3, 4, 9, 11, group, group + 1)
            assert np.array_equal(expected(situation, one)[0][0], values[group, 3:9, 4:11])
            size = np.abs(a[:, part]) @ np.abs(b[part]) + np.abs(c[group])
            roundings = root_of(ends[group + 1] - ends[group] + 2, True)  # of its own k, not of all groups'
            assert (bounds[group] <= 1.001 * roundings * 2.0**-24 * size).all()


def test_a_bound_by_the_largest_product_knows_ranges_of_k_that_are_empty():
    case = replace(ALONG_K, types=Types.parse("f64")).case(m=20)
    ends = (make_operands(Situation(case, "random", seed)).extra["offs"] for seed in range(99))
    seed = next(seed for seed, one in enumerate(ends) if one[0] == 0 < one[-1])
    _, bounds = expected(Situation(case, "random", seed), Window.whole(case))
    assert bounds[0].max() < bounds.max()


@pytest.mark.parametrize("epilogue", ["alpha * acc + beta * C", "relu(alpha * acc + bias_n)"])
def test_an_infinite_alpha_scales_nothing_of_an_empty_range(epilogue):
    problem = replace(ALONG_K, epilogue=parse_epilogue(epilogue))
    for seed in range(6):
        situation = Situation(problem.case(m=4, alpha=np.inf, beta=0.0), "exact", seed)
        values, _ = expected(situation, Window.whole(situation.case))
        empty = np.diff(make_operands(situation).extra["offs"], prepend=0) == 0
        assert np.isfinite(values[empty]).all()


@pytest.mark.parametrize("inputs", [GATHERED, "im2col=8x9x4_3x3"])
def test_rows_and_images_are_those_of_a_row_major_a_alone(inputs):
    with pytest.raises(InvalidInput, match="rows are those of a row-major A"):
        Problem(None, None, 36, layout="cr", inputs=inputs)


@pytest.mark.parametrize("inputs", [GATHERED, MIXTURE])
def test_gathered_rows_repeat_and_reach_the_last_row_of_a(inputs):
    problem = replace(GROUPED, inputs=Inputs.parse(inputs), stride_b="dense")
    case = problem.case(m=40, rows_a=300 if inputs == GATHERED else 7)
    assert (case.a.rows, case.c.rows) == (case.rows_a, 40)
    for seed in range(8):
        operands = make_operands(Situation(case, "random", seed))
        rows, index = sum(window.bottom for window in computed(case, operands)), operands.extra["index_a"]
        assert rows == 0 or index[:rows].max() == case.rows_a - 1
        assert (index[rows:] == -1).all()  # nobody may read these
        values = factor(case, operands, "A", (slice(0, rows), slice(None)))
        assert np.array_equal(values, case.a.view(operands.a)[index[:rows]].astype(float))


@pytest.mark.parametrize("inputs", SCATTERED)
def test_scattered_rows_are_different_ones_and_reach_the_last_row_of_c(inputs):
    problem = replace(GROUPED, inputs=Inputs.parse(inputs), stride_b="dense")
    case = problem.case(m=40, spare_c=3)
    assert (case.a.rows, case.c.rows) == (40, 43)
    for seed in range(8):
        operands = make_operands(Situation(case, "random", seed))
        rows, index = sum(window.bottom for window in computed(case, operands)), operands.extra["index_c"]
        assert rows == 0 or index[:rows].max() == case.c.rows - 1
        assert (index[:rows] >= 0).all() and len(set(index[:rows].tolist())) == rows
        assert (index[rows:] == -1).all()  # nobody may read these


def test_only_a_c_whose_rows_are_scattered_has_rows_to_spare():
    assert replace(GROUPED, inputs=Inputs.parse("scattered"), stride_b="dense").case(m=9, spare_c=7).c.rows == 16
    with pytest.raises(InvalidInput, match="spare_c = 7: at most 0"):
        GROUPED.case(m=9, spare_c=7)


def test_the_sums_of_a_block_are_multiplied_by_both_scales_whose_product_is_rounded():
    situation = Situation(BLOCKS.case(m=9), "random", 3)
    case, operands = situation.case, make_operands(situation)
    values, _ = expected(situation, Window.whole(case))
    a, b = case.a.view(operands.a).astype(float), case.b.view(operands.b).astype(float)
    of_a, of_b = operands.extra["scales_a"].reshape(3, 9), operands.extra["scales_b"].reshape(2, 3)
    wanted = np.zeros((9, 150))
    for n in range(150):
        for block in range(3):  # K = 300 has a last block of 44
            k = slice(128 * block, 128 * (block + 1))
            wanted[:, n] += (of_a[block] * of_b[n // 128, block]).astype(float) * (a[:, k] @ b[k, n])
    assert np.allclose(values, wanted, rtol=1e-13, atol=0)


def test_an_infinite_scale_keeps_the_sign_of_its_blocks_sum():
    situation = next(
        one
        for seed in range(1, 99)
        if np.isinf(make_operands(one := Situation(BLOCKS.case(m=300), "special", seed)).extra["scales_a"]).any()
    )
    values, _ = expected(situation, Window.whole(situation.case))
    assert np.isinf(values).any()


def test_images_follow_from_the_rows_of_c():
    conv = IMAGES.inputs.conv
    assert conv.places == (5, 8)
    assert conv.depth == IMAGES.k == 24
    case = IMAGES.case(m=41)  # one place more than an image has
    assert (case.a.rows, case.a.cols, case.lda) == (2 * 8 * 9, 4, 4)


@pytest.mark.parametrize("data", ["exact", "random", "onehot"])
def test_a_row_of_a_is_what_a_filter_meets(data):
    case = IMAGES.case(m=90)
    operands = make_operands(Situation(case, data, 0))
    rows = factor(case, operands, "A", (slice(0, 90), slice(None))).reshape(90, 3, 2, 4)
    images = case.a.view(operands.a).astype(float).reshape(3, 8, 9, 4)
    padded = np.zeros((3, 11, 10, 4))
    padded[:, 1:9, 1:10] = images
    for m in (0, 7, 39, 40, 89):
        image, p, q = m // 40, m // 8 % 5, m % 8
        assert np.array_equal(rows[m], padded[image, 2 * p : 2 * p + 3, q : q + 3 : 2])


def test_no_filter_meets_two_pixels_of_a_that_selects():
    drawn = (Situation(IMAGES.case(m=90), data, seed) for data in ("onehot", "sparse") for seed in range(8))
    chosen = [one for one in drawn if side_of(one.seed) == "A"]
    assert chosen
    for one in chosen:
        rows = factor(one.case, make_operands(one), "A", (slice(0, 90), slice(None))).reshape(90, 6, 4)
        assert ((rows != 0).any(axis=2).sum(axis=1) <= 1).all()
        assert (rows != 0).any()


@pytest.mark.parametrize("problem", [MASKED, ALONG_K], ids=str)
def test_a_corpus_holds_groups_with_a_c_each(problem):
    situation = Situation(problem.case(m=9, stride_c=9 * 35 + 3), "exact", 3)
    assert situation_from(situation_document(situation), problem) == situation


@pytest.mark.parametrize(
    "problem", [GROUPED, *(replace(GROUPED, inputs=Inputs.parse(one)) for one in (MIXTURE, SCATTERED[1]))], ids=str
)
def test_a_corpus_holds_strides_of_groups_and_rows_of_a_and_c(problem):
    more = {"rows_a": 7} if problem.inputs.gathered else {}
    more |= {"spare_c": 2} if problem.inputs.scattered else {}
    situation = Situation(problem.case(m=9, stride_b=35 * 67 + 3, **more), "exact", 3)
    assert situation_from(situation_document(situation), problem) == situation


def test_two_elements_of_4_bits_share_a_byte_the_first_in_its_low_half():
    for dtype, values in ((DType.U4, [1, 2, 15]), (DType.S4, [1, 2, -1])):
        assert dtype.packed(np.array(values, np.int8).astype(dtype.numpy)).tolist() == [0x21, 0xFF]
    assert DType.BF16.packed(np.ones(1, DType.BF16.numpy)).tolist() == [0x80, 0x3F]


@pytest.mark.parametrize("data", ALL_DATA_KINDS)
def test_an_element_of_b_is_its_code_less_the_zero_point_times_the_scale_rounded_once(data):
    case = SCALED.case(m=5)
    operands = make_operands(Situation(case, data, 3))
    values = factor(case, operands, "B", (slice(None), slice(None)))
    for k in (0, 31, 32, 66):  # K = 67 has a last group of 3
        for n in (0, 34):
            code = int(operands.b[n * case.ldb + k])
            zero, scale = (operands.extra[name][k // 32 * case.n + n] for name in ("zeros_b", "scales_b"))
            with np.errstate(invalid="ignore"):
                wanted = np.float32((code - int(zero)) * np.float64(scale)).astype(DType.BF16.numpy)
            assert np.array_equal(np.float64(wanted), values[k, n], equal_nan=True)


def test_selecting_data_is_zero_beside_what_it_selects():
    situations = (Situation(SCALED.case(m=5), "onehot", seed) for seed in range(8))
    chosen = [factor(one.case, make_operands(one), "B", (slice(None), slice(None))) for one in situations]
    assert any(((values != 0).sum(axis=0) == 1).all() and (values.max(axis=0) == 1).all() for values in chosen)
