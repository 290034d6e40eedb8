"""Products that an executor makes: they count as numpy's do, and numpy notices where they are wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Types
from gemmgen.verification import reference
from gemmgen.verification.checks import check
from gemmgen.verification.companions import factor, scales_of_sums
from gemmgen.verification.comparison import compare
from gemmgen.verification.data import make_operands
from gemmgen.verification.device_products import allowed, differs, on_host, products_by
from gemmgen.verification.products import products
from gemmgen.verification.situation import EXACT_KINDS, Situation, data_kinds
from gemmgen.verification.window import Window

TYPES = ("f32", "f64", "bf16", "f16,f16,f32", "e4m3,e4m3,bf16", "s8,s8,s32", "u8,s8,bf16")


def situation(types: str, data: str, seed: int = 3, batch: int | None = 1) -> Situation:
    problem = Problem(9, 7, 33, types=Types.parse(types), layout="rc", batch=batch)
    return Situation(problem.case(alpha=0.5 if not problem.types.scalar.is_integer else 2.0, beta=1.0), data, seed)


def by_longs(case, operands, *, seed, sizes, largest):
    """A Multiply that sums in long doubles, in order of k: another way than numpy's."""
    whole, inputs = Window.whole(case), case.problem.inputs
    a = case.a.dtype.decode(case.a.view(operands.a)).astype(np.longdouble)
    b = case.b.dtype.decode(case.b.view(operands.b)).astype(np.longdouble)
    if inputs.group is not None:
        b = factor(case, operands, "B", whole.b_index).astype(np.longdouble)
    scales: list[tuple[Any, slice]] = [(np.ones(()), slice(case.k))]
    if case.problem.scaled_depth:
        scales = list(scales_of_sums(case, operands, whole.rows, np.arange(case.n)))

    def summed(a, b, scales):
        with np.errstate(invalid="ignore", over="ignore"):
            parts = (
                scale * sum(a[..., :, k, None] * b[..., None, k, :] for k in range(case.k)[part])
                for scale, part in scales
            )
            return sum(parts).astype(np.float64)

    found = summed(a, b, scales)
    size = summed(abs(a), abs(b), [(abs(scale), part) for scale, part in scales]) if sizes else found
    if not largest:
        return found, size, found
    of_parts = [abs(scale) * abs(a[:, part]).max(1)[:, None] * abs(b[part]).max(0) for scale, part in scales]
    return found, size, np.max(of_parts, axis=0).astype(np.float64)


SCALED = (
    ("bf16,u4,bf16", "scales=32+zeros"),
    ("f16,s4,f16", "scales=K"),
    ("bf16,s8,bf16", "scales=128+zeros"),
    ("bf16,u4,bf16_promoted", "scales=64+zeros"),
    ("bf16,s4,bf16_promoted", "scales=K"),
    ("e4m3,e4m3,bf16_promoted", "blocks"),
    ("e4m3,e4m3,f32_promoted", "blocks+lines+padded"),
)


@pytest.mark.parametrize(("types", "inputs"), SCALED)
def test_another_product_of_scaled_numbers_gives_the_same_reference(types: str, inputs: str) -> None:
    parsed = Types.parse(types)
    case = Problem(5, 131, 300, types=parsed, layout="rc", inputs=inputs).case()
    whole = Window.whole(case)
    for data in data_kinds(parsed):
        what, in_doubt = Situation(case, data, 3), case.problem.scaled_depth and data == "special"
        made = products_by(by_longs, what)
        assert (made is None) == bool(in_doubt), "numpy finds sums that are in doubt"
        if made is None:
            continue
        for kind, ours, theirs in zip(
            ("product", "size", "largest"), made, products(case, data, 3, whole), strict=True
        ):
            if kind != "size" or data not in EXACT_KINDS:  # which need none
                np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-300)
        assert data != "random" or differs(what, made[0] + made[1])


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("batch", [1, 3])
def test_another_product_gives_the_same_reference(types: str, batch: int) -> None:
    for data in data_kinds(Types.parse(types)):
        what = situation(types, data, batch=batch)
        whole = Window.whole(what.case)
        made = products_by(by_longs, what)
        assert made is not None
        for ours, theirs in zip(made, products(what.case, what.data, what.seed, whole), strict=True):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=1e-300)
            if data in EXACT_KINDS or types.startswith(("s8", "u8")):
                assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("types", TYPES)
def test_numpy_notices_a_product_that_is_missing(types: str) -> None:
    """And one that is added twice, where all elements are wrong alike."""
    for data in set(data_kinds(Types.parse(types))) & {"random", "exact"}:
        what = situation(types, data)
        operands = make_operands(what)
        product, *_ = by_longs(what.case, operands, seed=0, sizes=False, largest=False)
        a, b = what.case.a.view(operands.a), what.case.b.view(operands.b)
        last = np.multiply.outer(a[:, -1].astype(np.float64), b[-1].astype(np.float64))
        assert not differs(what, product)
        assert differs(what, product - last) and differs(what, product + last)


@pytest.mark.parametrize("sums", [DType.F32, DType.F64])
def test_products_of_larger_operands_may_be_further_apart(sums: DType) -> None:
    size = np.array([1.0, 2.0**20])
    small, large = allowed(sums, 33, size, np.zeros(2))
    assert large == pytest.approx(2.0**20 * small)


def test_numpy_counts_where_the_other_product_is_wrong() -> None:
    what = situation("f32", "random")
    with pytest.warns(UserWarning, match="is not numpy's, which counts"):
        assert products_by(lambda *given, **how: (np.zeros((9, 7)),) * 3, what) is None


def test_an_executor_may_leave_products_to_numpy() -> None:
    assert products_by(on_host, situation("f32", "random")) is None


class Kernel:
    """Right, by numpy; its executor multiplies by `by_longs`, and counts."""

    runs_parts = False
    multiplied = 0

    def __init__(self, problem: Problem) -> None:
        from gemmgen.families import NAIVE
        from gemmgen.render.kernel_text import render

        self.source = render(problem, NAIVE, NAIVE.default(problem))

    def can_run_whole(self, case):
        return True

    def run(self, case, operands, **_):
        a, b, c = (matrix.view(operands.by_name[name]) for name, matrix in zip("ABC", case.matrices, strict=True))
        result = operands.c.copy()
        case.c.view(result)[...] = case.alpha * (a.astype(np.float64) @ b) + case.beta * c
        return result

    def multiply(self, case, operands, *, seed, sizes, largest):
        self.multiplied += 1
        return by_longs(case, operands, seed=seed, sizes=sizes, largest=largest)

    def judge(self, case, operands, *, seed, rule, places):
        return None

    def watched(self, case, *, seed, blocks=None):
        return 0


def test_a_whole_run_asks_its_kernel_for_products_once() -> None:
    problem = Problem(21, 22, 23)
    kernel, what = Kernel(problem), Situation(problem.case(beta=2.0), "random", 77)
    for _ in range(2):  # the second candidate meets what is kept
        assert check(kernel, what) <= 1
    assert kernel.multiplied == 1


@pytest.mark.parametrize("types", ["f32", "bf16", "s8,s8,s32"])
@pytest.mark.parametrize("batch", [1, 5])
def test_parts_find_what_the_whole_finds(types: str, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same values, bounds, first wrong element and count, whatever part of C a thread looks at."""
    what = situation(types, "random", seed=5, batch=batch)
    right, bound = reference.expected(what, Window.whole(what.case))
    dtype = what.case.c.dtype
    result = dtype.encode(right).ravel()
    result[[17, 40, -1]] = dtype.encode(-2 * right.ravel() + 50)[[17, 40, -1]]
    whole = compare(what, result)
    reference.EXPECTED.__init__(32, 2**30)
    monkeypatch.setattr(reference, "PART_ELEMENTS", 16)
    monkeypatch.setattr(reference, "MOST_PART_ELEMENTS", 16)
    again = reference.expected(what, Window.whole(what.case))
    assert np.array_equal(right, again[0]) and np.array_equal(bound, again[1])
    assert compare(what, result).mismatch == whole.mismatch and whole.mismatch.count == 3
    assert compare(what, dtype.encode(right).ravel()).mismatch is None


@pytest.mark.parametrize("most", [1, 5, 12, 40, 1000])
@pytest.mark.parametrize("window", [Window(2, 3, 9, 8), Window(2, 3, 9, 8, 1, 7)])
def test_parts_of_a_window_are_all_of_it_once(window: Window, most: int) -> None:
    counts = np.zeros((7, 10, 9) if window.last else (10, 9), int)
    parts = window.parts(most)
    for part in parts:
        counts[part.index] += 1
        assert np.array_equal(counts[part.index], counts[window.index][part.within(window)])
    assert counts[window.index].all() and counts.max() == 1 and counts.sum() == window.elements
    width = window.right - window.left
    assert all(part.elements <= max(most, width) for part in parts)
    area = width * (window.bottom - window.top)
    of_rows = [part for part in parts if part.elements < area and part.bottom < window.bottom]
    assert all(part.elements + width > most for part in of_rows)  # one more row would not do
