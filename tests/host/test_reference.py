"""The reference: what each kind of data is, and what counts as right where NaN and Inf are."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from gemmgen.problem.dtype import DType
from gemmgen.problem.epilogue import parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Types
from gemmgen.support.bounded_cache import Recent
from gemmgen.verification.comparison import compare
from gemmgen.verification.data import DENORMAL_FLOPS, NEAR_DENORMAL, REPEATED, make_operands
from gemmgen.verification.products import SLICE_RESIDUE, accurate_product
from gemmgen.verification.reference import Wanted, expected
from gemmgen.verification.situation import ALL_DATA_KINDS, NAN, Situation, side_of
from gemmgen.verification.strategies import HUGE_SCALARS
from gemmgen.verification.tensor_bound import LAMBDA
from gemmgen.verification.window import Window

KINDS = pytest.mark.parametrize("data", ALL_DATA_KINDS)


DTYPES = pytest.mark.parametrize("dtype", [DType.F32, DType.F64])


def situation(data, seed=0, m=13, n=11, k=70, dtype=DType.F32, **scalars):
    return Situation(Problem(None, None, None, dtype=dtype).case(m, n, k, **scalars), data, seed)


def computed(what):
    """What a kernel computes that sums in order of k, in the problem's dtype."""
    case, operands = what.case, make_operands(what)
    a, b = case.a.view(operands.a), case.b.view(operands.b)
    real = case.problem.types.c.numpy.type
    total = np.zeros(case.c.view(operands.c).shape, real)
    with np.errstate(all="ignore"):
        for k in range(case.k):
            total += a[..., :, k, None] * b[..., None, k, :]
        total *= real(case.alpha)
        if case.beta != 0:
            total += real(case.beta) * case.c.view(operands.c)
    result = operands.c.copy()
    case.c.view(result)[...] = total
    return result


@KINDS
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (-1.0, 2.0), (0.0, 1.0), (2.0, NAN)])
@pytest.mark.parametrize("k", [0, 1, 70])
@DTYPES
def test_arithmetic_in_order_of_k_is_right(data, alpha, beta, k, dtype):
    for seed in range(5):
        what = situation(data, seed, k=k, alpha=alpha, beta=beta, dtype=dtype)
        comparison = compare(what, computed(what))
        assert comparison.mismatch is None, f"{what}: {comparison.mismatch}"
        assert comparison.worst == comparison.ratios.max() <= 1


@pytest.mark.parametrize("data", ["random", "denormal", "special"])
@DTYPES
def test_a_huge_alpha_overflows_nothing(data, dtype):
    for seed in range(8):
        what = situation(data, seed, alpha=HUGE_SCALARS[dtype], beta=1.0, dtype=dtype)
        assert compare(what, computed(what)).mismatch is None


@KINDS
@DTYPES
def test_one_wrong_element_shows(data, dtype):
    what = situation(data, seed=3, beta=1.0, dtype=dtype)
    result = computed(what)
    view = what.case.c.view(result)
    row, col = (int(index) for index in np.argwhere(np.isfinite(view))[0])
    largest = np.abs(view[np.isfinite(view)]).max()
    for wrong in (np.nan, np.inf, -np.inf, view[row, col] + largest / 4):
        kept, view[row, col] = view[row, col], wrong
        mismatch = compare(what, result).mismatch
        view[row, col] = kept
        assert mismatch is not None and (mismatch.row, mismatch.col, mismatch.count) == (row, col, 1)


def test_nan_and_inf_must_stand_where_they_are_expected():
    what = situation("special", seed=1, beta=1.0)
    want, bound = expected(what, Window.whole(what.case))
    assert np.isnan(want).any() and np.isinf(want).any() and np.isfinite(want).any()
    assert np.isfinite(bound).all()
    result = computed(what)
    view = what.case.c.view(result)
    for places, wrong in ((np.isnan(want), 0.0), (np.isnan(want), np.inf), (want == np.inf, -np.inf)):
        row, col = np.argwhere(places)[0]
        kept, view[row, col] = view[row, col], wrong
        assert compare(what, result).mismatch is not None
        view[row, col] = kept
    assert compare(what, result).mismatch is None


def test_beta_zero_hides_what_c_holds():
    what = situation("special", beta=0.0)
    assert np.isnan(make_operands(what).c).all()
    assert not np.isnan(expected(what, Window.whole(what.case))[0]).all()


def test_one_hot_data_names_the_element_that_was_read():
    for seed in (0, 1):
        what = situation("onehot", seed)
        operands = make_operands(what)
        a, b = what.case.a.view(operands.a), what.case.b.view(operands.b)
        selects, codes = (a.T, b) if seed == 0 else (b, a)
        assert set(np.unique(selects)) == {0.0, 1.0} and (selects.sum(axis=0) == 1).all()
        assert len(np.unique(codes)) == codes.size


@pytest.mark.parametrize("seed", [0, 1])
def test_one_hot_data_shows_one_bit_that_an_operand_has_lost(seed: int) -> None:
    what = situation("onehot", seed)
    case, operands = what.case, make_operands(what)
    cut = {name: (operands.by_name[name].view(np.uint32) & ~np.uint32(1)).view(np.float32) for name in "AB"}
    result = case.alpha * case.a.view(cut["A"]) @ case.b.view(cut["B"]) + case.beta * case.c.view(operands.c)
    stored = np.zeros_like(operands.c)
    case.c.view(stored)[...] = result
    assert compare(what, stored).mismatch is not None


@pytest.mark.parametrize(("types", "grows"), [("s8,s8,s32", True), ("u8,s8,bf16", True), ("s8,s8,s8", False)])
def test_sums_of_integers_grow_with_k_by_every_other_seed(types: str, grows: bool) -> None:
    case = Problem(4, 5, 40_000, types=Types.parse(types)).case()
    for seed, one_sign in ((2, False), (3, grows)):
        columns = case.b.view(make_operands(Situation(case, "random", seed)).b).astype(np.int64).sum(0)
        assert (np.abs(columns) > 2**20).all() == one_sign


@pytest.mark.parametrize(
    ("types", "k", "one_sign"),
    [("f32", 70, True), ("f64", 70, True), ("bf16", 70, True), ("f32_tf32", 70, True), ("e4m3,e4m3,f32", 70, True),
     ("f16", 60_000, True), ("f16", 70_000, False), ("e4m3", 400, True), ("e4m3", 500, False),
     ("bf16,s8,f16", 70, False),
     ("bf16,s8,bf16", 70, True)],
)  # fmt: skip
def test_products_of_random_data_have_one_sign_by_every_other_seed(types: str, k: int, one_sign: bool) -> None:
    """As far as C holds their sums."""
    case = Problem(2, 3, k, types=Types.parse(types)).case()
    for seed, wanted in ((0, False), (1, one_sign), (4, False), (5, one_sign)):
        operands = make_operands(Situation(case, "random", seed))
        a, b, c = (case.tensors[name].dtype.decode(case.tensors[name].view(operands.by_name[name])) for name in "ABC")
        products = a[:, :, None] * b[None]
        assert (np.all(products >= 0) or np.all(products <= 0)) == wanted, seed
        assert np.isnan(c).all()


def test_large_one_hot_data_selects_with_either_operand():
    """Large situations share two sets of data."""
    selecting = set()
    for seed in range(8):
        what = situation("onehot", seed, m=1, n=2048, k=16384)
        selecting |= {name for name in "AB" if set(np.unique(make_operands(what).by_name[name])) == {0.0, 1.0}}
        if len(selecting) == 2:
            break
    assert selecting == {"A", "B"}


def test_specials_leave_many_sums_of_a_large_problem_finite():
    want, _ = expected(situation("special", m=2, n=500, k=9000), Window.whole(situation("special", m=2, n=500).case))
    assert 0.2 < np.isfinite(want).mean() < 0.8


def test_large_data_repeats_at_no_distance_between_lines():
    b = make_operands(situation("random", m=1, n=2100, k=2100)).b
    assert (b[:-REPEATED] == b[REPEATED:]).all()
    for distance in (1, 2100, 2100 * 1997, 2**22):
        assert (b[distance:] == b[:-distance]).mean() < 0.01


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("m", "n", "k"), [(13, 11, 1), (16, 24, 40), (64, 48, 1000), (6, 900, 9000)])
@pytest.mark.parametrize("name", ["A", "B", "C", "alpha", "beta"])
@pytest.mark.parametrize("bits", [8, 11])
def test_whatever_is_rounded_to_fewer_bits_shows_at_any_k(seed, m, n, k, name, bits):
    scalars = {"alpha": 1.2000000476837158, "beta": -1.7000000476837158}
    what = situation("sparse", seed, m, n, k, **scalars)
    operands, case = make_operands(what), what.case
    values = {one: case.tensors[one].view(operands.by_name[one]).astype(np.float64) for one in "ABC"} | scalars
    mantissa, exponent = np.frexp(values[name])
    values[name] = np.ldexp(np.rint(mantissa * 2**bits) / 2**bits, exponent)
    result = operands.c.copy()
    case.c.view(result)[...] = values["alpha"] * (values["A"] @ values["B"]) + values["beta"] * values["C"]
    found = compare(what, result).mismatch
    assert found is not None and found.count > 0.5 * m * n


@pytest.mark.parametrize("seed", range(8))
def test_inf_meets_zeros_and_inf_of_the_other_sign(seed):
    """In most tiles of 32 x 32, and much of C stays finite."""
    case = Problem(256, 320, 200).case()
    operands = make_operands(Situation(case, "special", seed))
    a, b = case.a.view(operands.a), case.b.view(operands.b)
    product, _ = expected(Situation(case, "special", seed), Window.whole(case))
    lines, others = (a, b) if side_of(seed) == "A" else (b.T, a.T)
    has_both = (lines == np.inf).any(-1) & (lines == -np.inf).any(-1)
    meets_zero = np.isinf(lines).astype(int) @ (others == 0) > 0
    assert has_both.sum() > 4
    nan = np.isnan(product if side_of(seed) == "A" else product.T)
    assert nan[meets_zero].all()
    tiles = meets_zero[: lines.shape[0] // 32 * 32].reshape(-1, 32, meets_zero.shape[1] // 32, 32).any((1, 3))
    assert tiles.mean() > 0.7 and np.isfinite(product).mean() > 0.4


@pytest.mark.parametrize("seed", range(8))
def test_inf_meets_zeros_of_a_single_row_or_column(seed):
    """In most of a few columns, as a sample of small tiles reads them."""
    for m, n in ((1, 640), (640, 1)):
        what = Situation(Problem(m, n, 300).case(), "special", seed)
        if (side_of(seed) == "A") == (m > 1):
            nan = np.isnan(expected(what, Window.whole(what.case))[0]).reshape(-1, 16)
            assert nan.any(1).mean() > 0.9 and not nan.all()


def test_a_c_that_must_not_be_read_holds_more_than_nan():
    held = [make_operands(situation("random", seed)).c for seed in range(8)]
    assert sum(np.isnan(c).all() for c in held) == 6
    others = np.concatenate([c[~np.isnan(c)] for c in held])
    assert np.isinf(others).any() and (np.signbit(others) & (others == 0)).any()


def test_scalars_of_integers_are_exact_modulo_2_to_the_32():
    problem = Problem(5, 6, 3000, types=Types.parse("s8,s8,s32"))
    what = Situation(problem.case(alpha=-(2.0**31), beta=2.0**31 - 1), "random", 0)
    operands, case = make_operands(what), what.case
    a, b, c = (case.tensors[name].view(operands.by_name[name]).astype(object) for name in "ABC")
    want = (-(2**31) * a.dot(b) + (2**31 - 1) * c + 2**31) % 2**32 - 2**31
    assert (expected(what, Window.whole(case))[0] == want.astype(np.float64)).all()


def test_huge_data_is_large_and_finite():
    want, _ = expected(situation("huge", alpha=2.0, beta=2.0), Window.whole(situation("huge").case))
    assert np.isfinite(want).all() and 2.0**118 < np.abs(want).max() < 2.0**127


def test_denormal_data_has_results_that_are_denormal():
    want, bound = expected(situation("denormal"), Window.whole(situation("denormal").case))
    assert (np.abs(want) < 2.0**-120).all() and (np.abs(want) > bound).any()


@pytest.mark.parametrize("seed", [0, 1])
def test_a_large_launch_has_few_denormal_products_and_they_show(seed):
    """A kernel that takes them for zero is off by more than the bound wherever a row of A has one, or a column of B."""
    case = Problem(256, 256, 256).case()
    what = Situation(case, "denormal", seed)
    operands = make_operands(what)
    a, b = case.a.view(operands.a), case.b.view(operands.b)
    a, b = (a, b) if side_of(seed) == "A" else (b.T, a.T)
    is_denormal = np.abs(a) < np.finfo(np.float32).tiny
    assert 0.8 < 2 * is_denormal.sum() * case.n / DENORMAL_FLOPS < 1.2
    want, bound = expected(what, Window.whole(case))
    flushed = np.where(is_denormal, 0.0, a).astype(np.float64) @ b
    rows = is_denormal.any(axis=1)
    wrong = np.abs(flushed - (want if side_of(seed) == "A" else want.T)) > bound.max()
    assert rows.sum() > 200 and wrong[rows].mean() > 0.9


@pytest.mark.parametrize("seed", [0, 1])
def test_large_denormal_data_repeats_but_for_its_few_denormals(seed):
    case = Problem(1100, 1100, 2200).case()
    operands = make_operands(Situation(case, "denormal", seed))
    values = case.a.view(operands.a).ravel() if side_of(seed) == "A" else case.b.view(operands.b).ravel()
    tiny = np.finfo(np.float32).tiny
    is_denormal = np.abs(values) < tiny
    assert 0.8 < 2 * is_denormal.sum() * case.n / DENORMAL_FLOPS < 1.2
    assert (np.abs(values) <= tiny * (NEAR_DENORMAL + 1) / 2).all()
    assert (is_denormal[:-REPEATED] != is_denormal[REPEATED:]).sum() > is_denormal.sum() / 2
    assert 0.9 < (values[:-REPEATED] == values[REPEATED:]).mean() < 1


def test_operands_and_references_are_kept_for_the_next_candidate() -> None:
    problem = Problem(24, 40, 16)
    situations = [Situation(problem.case(beta=beta), "random", seed) for seed in range(8) for beta in (0.0, 1.0)]
    first, again = (
        [(make_operands(one), *expected(one, Window.whole(one.case))) for one in situations] for _ in range(2)
    )
    assert all(a is b for one, other in zip(first, again, strict=True) for a, b in zip(one, other, strict=True))
    assert not any(array.flags.writeable for operands, *_ in first for array in operands.by_name.values())


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_operands_beyond_the_cache_are_made_once_while_nothing_else_is(monkeypatch, beta: float) -> None:
    monkeypatch.setattr("gemmgen.verification.data.OPERANDS", kept := Recent(64, 1000))
    one = Situation(Problem(24, 40, 16).case(beta=beta), "random", 0)
    operands = make_operands(one)
    assert make_operands(one) is operands
    assert kept.bytes == sum(array.nbytes for array in operands.by_name.values()) > 1000


def test_an_array_that_two_values_hold_counts_once() -> None:
    shared, own = np.zeros(600, np.uint8), np.zeros(100, np.uint8)
    recent = Recent(3, 1000)
    recent.get("both", lambda: (shared, own), lambda made: made)
    recent.get("one", lambda: (shared,), lambda made: made)
    assert recent.bytes == 700
    recent.get("other", lambda: (np.zeros(400, np.uint8),), lambda made: made)
    assert recent.bytes == 1000, "the oldest value is gone, but another one holds an array of it"
    recent.get("last", lambda: (np.zeros(10, np.uint8),), lambda made: made)
    assert recent.bytes == 410


def test_what_is_kept_is_bounded_in_number_and_bytes() -> None:
    recent = Recent(3, 1000)
    made: list[int] = []

    def get(key: int, size: int) -> None:
        def make() -> np.ndarray:
            made.append(key)
            return np.zeros(size, np.uint8)

        recent.get(key, make, lambda array: (array,))

    for key in (0, 1, 2, 0, 3, 0, 1):  # 3 takes the place of 1, which was used longest ago
        get(key, 10)
    assert made == [0, 1, 2, 3, 1] and recent.bytes == 30
    get(4, 995)
    assert recent.bytes == 995
    get(5, 5000)
    get(5, 5000)
    assert made[-2:] == [4, 5] and recent.bytes == 5000, "the newest stays whatever its size"
    recent.share(4)
    for key in (6, 7, 6):
        get(key, 200)
    assert made[-3:] == [6, 7, 6] and recent.bytes == 200, "250 bytes are the part of one process in four"


@pytest.mark.parametrize("k", [16, 1024, 16384])
def test_a_missing_product_of_average_size_shows(k):
    """As the page says: up to K = 19,800."""
    what = situation("random", m=3, n=5, k=k)
    operands = make_operands(what)
    size = np.abs(what.case.a.view(operands.a)).astype(float) @ np.abs(what.case.b.view(operands.b))
    _, bound = expected(what, Window.whole(what.case))
    assert (bound < size / k).all()
    unit = 2.0**-24
    assert bound == pytest.approx(LAMBDA * np.sqrt(k + 2) * unit * size, rel=1e-6)
    assert (LAMBDA * unit) ** (-2 / 3) == pytest.approx(19_800, rel=0.01)


def test_the_bound_scales_with_alpha_and_takes_beta_c_in():
    whole = Window.whole(situation("random").case)
    plain = expected(situation("random"), whole)[1]
    assert expected(situation("random", alpha=-2.0), whole)[1] == pytest.approx(2 * plain)
    assert (expected(situation("random", beta=0.5), whole)[1] > plain).all()


def test_ratios_are_error_over_bound_element_by_element():
    what = situation("random", seed=2)
    result = computed(what)
    want, bound = expected(what, Window.whole(what.case))
    found = compare(what, result)
    assert found.ratios == pytest.approx(np.abs(what.case.c.view(result) - want) / bound)
    assert found.worst == found.ratios.max() and found.largest_bound == bound.max()


@pytest.mark.parametrize("k", [1, 2, 100, 5000])
@pytest.mark.parametrize("spread", [0, 30])
def test_the_reference_of_f64_errs_by_less_than_it_says(k, spread):
    """Against rational numbers, with elements of very different size in one sum."""
    rng = np.random.default_rng(k)
    a, b = ((2 * rng.random(shape) - 1) * 2.0 ** rng.integers(-spread, spread + 1, shape) for shape in ((3, k), (k, 2)))
    found = accurate_product(a, b)
    for m, n in np.ndindex(3, 2):
        products = [Fraction(x) * Fraction(y) for x, y in zip(a[m].tolist(), b[:, n].tolist(), strict=True)]
        allowed = 2.0**-53 * sum(abs(x) for x in products)
        allowed += k * SLICE_RESIDUE * Fraction(np.abs(a[m]).max()) * Fraction(np.abs(b[:, n]).max())
        assert abs(Fraction(found[m, n]) - sum(products)) <= allowed


def test_sums_in_float_are_wrong_for_f64():
    what = situation("random", dtype=DType.F64)
    operands = make_operands(what)
    a, b = what.case.a.view(operands.a), what.case.b.view(operands.b)
    result = operands.c.copy()
    what.case.c.view(result)[...] = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float64)
    mismatch = compare(what, result).mismatch
    assert mismatch is not None and mismatch.count == 13 * 11


@KINDS
@DTYPES
def test_a_batch_is_checked_product_by_product(data, dtype):
    problem = Problem(6, 5, None, dtype=dtype, batch=4, stride_a=0, stride_c=None)
    what = Situation(problem.case(k=9, stride_c=40, beta=2.0), data, seed=5)
    result = computed(what)
    assert compare(what, result).mismatch is None
    view = what.case.c.view(result)
    view[2, 3, 1] = np.inf if np.isnan(view[2, 3, 1]) else np.nan
    mismatch = compare(what, result).mismatch
    assert mismatch is not None and (mismatch.matrix, mismatch.row, mismatch.col) == (2, 3, 1)
    assert "C of matrix 2: C[3][1]" in str(mismatch)
    inner = Window(1, 0, 4, 5, 1, 3)
    assert (expected(what, inner)[0].shape, compare(what, result, inner).mismatch.matrix) == ((2, 3, 5), 2)


def test_sums_of_one_hot_codes_are_bounded_and_of_small_integers_exact() -> None:
    case = Problem(2, 3, 6, dtype=DType.F64, epilogue="zero_m").case()
    for data, bounded in (("onehot", True), ("exact", False)):
        _, bound = expected(Situation(case, data, 0), Window.whole(case))
        assert bound.any() == bounded


def test_the_largest_bound_is_finite_where_some_are_not() -> None:
    """A record holds it, and JSON has no infinity."""
    bound = np.array([0.5, np.inf, 2.0])
    assert Wanted.of(np.zeros(3), bound).largest_bound == 2.0
    assert Wanted.of(np.zeros(1), bound[1:2]).largest_bound == 0.0


def test_a_line_whose_sum_may_overflow_leaves_what_its_zero_point_makes_of_it_open() -> None:
    """A kernel's f32 sum is infinite where float64's is not, and times a zero point of 0 that is NaN."""
    problem = replace(Problem(None, None, None, types=Types.parse("bf16")), epilogue=parse_epilogue("zero_n"))
    case = problem.case(m=97, n=97, k=700, alpha=1.0, beta=0.0)
    what = Situation(case, "onehot", seed=6)
    rows = case.a.dtype.decode(case.a.view(make_operands(what).a))
    overflows = np.abs(rows).sum(-1) > DType.F32.largest
    _, bound = expected(what, Window.whole(case))
    assert overflows.any() and not overflows.all()
    assert np.isinf(bound[overflows]).all() and np.isfinite(bound[~overflows]).any()


@pytest.mark.parametrize(("types", "inputs"), [("e4m3,e4m3,bf16", "blocks"), ("bf16,u4,bf16_promoted", "scales=32")])
def test_a_sum_that_may_vanish_under_an_infinite_scale_leaves_c_open(types: str, inputs: str) -> None:
    situation = Situation(Problem(64, 512, 384, types=types, layout="rc", inputs=inputs).case(), "special", 1)
    values, bound = expected(situation, Window.whole(situation.case))
    in_doubt = np.isnan(values) & np.isinf(bound)
    assert 0 < in_doubt.sum() < np.isinf(values).sum(), "some sums, and not most, are as small beside their products"
    assert (np.isnan(values) & (bound == 0)).any(), "NaN by NaN, and by infinities of both signs, is certain"
    result = situation.case.c.dtype.encode(np.where(in_doubt, -np.inf, values)).ravel()
    assert compare(situation, result).mismatch is None
    at = np.argwhere(np.isinf(values))[0]
    situation.case.c.view(result)[tuple(at)] = np.nan
    assert compare(situation, result).mismatch is not None
