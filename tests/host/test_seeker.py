"""What is sought for a comparison that lacks an outcome: from its operands, without running anything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gemmgen.families import SIMT
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.coverage import Near
from gemmgen.run.executor import tells
from gemmgen.verification.checks import sampled
from gemmgen.verification.guided import AGAIN, MOST_TRIES, SOUGHT_FLOPS, Seeker, sampling
from gemmgen.verification.situation import FAR_SIZES, Situation

FREE = Problem(None, None, None, lda=None, ldb=None, ldc=None)
SOURCE = render(FREE, SIMT, SIMT.default(FREE))
BM = dict(SOURCE.launch.grid)["M"]
CASE = FREE.case(50, 60, 70, lda=75, alpha=2.0)


class Kernel:
    """Has one comparison, `text`, whose operands `measure` gives for a case and whose outcome is `holds`."""

    def __init__(self, text, measure, holds, source=SOURCE):
        self.text, self.measure, self.holds, self.source = text, measure, holds, source
        self.met, self.last = False, None

    def run(self, case):
        self.last = self.measure(case)
        self.met |= self.holds(*self.last)

    def lacking(self):
        return {} if self.met else {3: Near(self.text, *map(float, self.last))}


def tries(kernel, case=CASE, largest=FAR_SIZES[-1]):
    """The situations that are run after `case` until the outcome is met, or none is left."""
    seeker, found = Seeker(kernel, largest), []
    situation = Situation(case, "exact", 0)
    while situation is not None:
        kernel.run(situation.case)
        seeker.ran(situation)
        situation = seeker.next()
        found += [situation] if situation is not None else []
    return found


EQUAL, LESS = (lambda a, b: a == b), (lambda a, b: a < b)
MET = {
    "K > 400": (lambda case: (400, case.k), LESS, 2),
    "K % 37 == 0": (lambda case: (case.k % 37, 0), EQUAL, 1),
    "(K & 255) == 96": (lambda case: (case.k & 255, 96), EQUAL, 1),
    "K / 64 == 17": (lambda case: (case.k // 64, 17), EQUAL, 18),
    "iteration == 255": (lambda case: (-(-case.k // 8) - 1, 255), EQUAL, 20),
    "lda == 2 * K": (lambda case: (case.lda, 2 * case.k), EQUAL, 1),
    "lda - K == 96": (lambda case: (case.lda - case.k, 96), EQUAL, 6),
    "M == 70000": (lambda case: (case.m, 70000), EQUAL, 1),
    "blockIdx.x == 300": (lambda case: (-(-case.m // BM) - 1, 300), lambda a, b: a >= b, 2),
    "N % 512 == 511": (lambda case: (case.n % 512, 511), EQUAL, 2),
    "alpha == 1.5f": (lambda case: (case.alpha, 1.5), EQUAL, 1),
    "fabsf(alpha) < 1e-30f": (lambda case: (abs(case.alpha), 1e-30), LESS, 3),
    "beta == -3.25f": (lambda case: (case.beta, -3.25), EQUAL, 1),
}


@pytest.mark.parametrize("text", MET)
def test_an_outcome_is_met_in_a_few_tries(text):
    measure, holds, most = MET[text]
    kernel = Kernel(text, measure, holds)
    found = tries(kernel)
    number = next(number for number, one in enumerate(found) if holds(*measure(one.case)))
    assert kernel.met and number < most, [str(one.case) for one in found]
    scalars = [scalar for one in found[number + 1 :][:2] for scalar in (one.case.alpha, one.case.beta)]
    assert scalars == pytest.approx([scalar for *pair, _ in AGAIN[:2] for scalar in pair])
    sizes = {replace(one.case, alpha=1.0, beta=0.0) for one in found[number:][:3]}
    assert len(sizes) == 1, "the situation that met it runs again, with other scalars"
    met = found[number].case
    assert all(one.case.m * one.case.n > met.m * met.n for one in found[number + 3 :])


@pytest.mark.parametrize(
    ("name", "other", "near", "wanted"), [("alpha", "beta", 2**-100, 0), ("beta", "alpha", 2**100, 2**100)]
)
def test_a_scalar_is_sought_where_the_other_one_hides_nothing(name, other, near, wanted):
    kernel = Kernel(f"{name} == 2^n", lambda case: (getattr(case, name), near), EQUAL)
    found = tries(kernel, FREE.case(50, 60, 70, alpha=2.0, beta=3.0))
    assert next(getattr(one.case, other) for one in found if getattr(one.case, name) == near) == wanted


def test_one_k_tile_more_is_tried():
    kernel = Kernel("left == 8", lambda case: (float(case.k % 8 == 6 and case.k > 70), 1), EQUAL)
    assert tries(kernel) and kernel.met


def test_what_is_impossible_is_given_up():
    found = tries(Kernel("K < 0", lambda case: (case.k, -5), LESS))
    assert 0 < len(found) <= MOST_TRIES and len({one.case for one in found}) == len(found)
    assert all(one.case.flops <= SOUGHT_FLOPS for one in found)


def test_what_a_problem_fixes_stays():
    fixed = Problem(50, None, 70, ld_align=4)
    case = fixed.case(n=64, alpha=2.0)
    kernel = Kernel("K == 96", lambda case: (case.k, 96), EQUAL, render(fixed, SIMT, SIMT.default(fixed)))
    found = tries(kernel, case)
    assert found and not kernel.met
    assert all((one.case.m, one.case.k) == (50, 70) for one in found)


def test_sizes_stay_below_the_largest():
    kernel = Kernel("K == 4096", lambda case: (case.k, 4096), EQUAL)
    found = tries(kernel, largest=200)
    assert not kernel.met and all(max(one.case.m, one.case.n, one.case.k) <= 200 for one in found)


def test_exact_data_has_exact_scalars():
    kernel = Kernel("alpha == 1.1f", lambda case: (case.alpha, 1.1), EQUAL)
    assert {one.data for one in tries(kernel)} == {"random"}


def test_nothing_is_sought_where_nothing_lacks():
    assert tries(Kernel("K == K", lambda case: (case.k, case.k), EQUAL)) == []


class Sampled:
    """A kernel of a grid that does not run whole, with a comparison of the block's number."""

    runs_parts = True

    def __init__(self, wanted):
        problem = Problem(1024, 1024, 512)
        self.source, self.wanted = render(problem, SIMT, SIMT.default(problem)), wanted
        self.nearest = None

    def can_run_whole(self, case):
        return False

    def run(self, situation):
        blocks = sampled(situation.case, self.source.launch, situation.seed)
        self.nearest = float(min(blocks, key=lambda block: abs(block - self.wanted)))

    def lacking(self):
        return {} if self.nearest == self.wanted else {0: Near("blockIdx.x == 37", self.nearest, float(self.wanted))}


def test_a_block_of_a_sampled_grid_is_sought_by_its_number():
    kernel = Sampled(37)
    seeker, situation = Seeker(kernel, FAR_SIZES[-1]), Situation(kernel.source.problem.case(), "exact", 3)
    kernel.run(situation)
    assert kernel.nearest != 37
    seeker.ran(situation)
    sought = seeker.next()
    kernel.run(sought)
    assert kernel.nearest == 37 and sought.case == situation.case
    kernel.can_run_whole = lambda case: True
    assert sampling(kernel, situation, 37) is not None, "other seeds than one in eight still take a sample"
    small = Problem(32, 32, 8).case()
    assert sampling(kernel, Situation(small, "exact", 3), 0) is None


def test_the_last_tile_of_a_sampled_grid_comes_first():
    """Where C ends other branches run, and a sample of a large grid hardly ever has the last tile."""
    kernel = Sampled(63)
    kernel.lacking = lambda: {0: Near("n < skip_columns", 0.0, 0.0)}
    case = kernel.source.problem.case(beta=0.0)
    seeker, situation = Seeker(kernel, FAR_SIZES[-1]), Situation(case, "exact", 3)
    assert kernel.source.launch.tiles(case) == 64
    kernel.run(situation)
    assert kernel.nearest != 63
    seeker.ran(situation)
    kernel.run(seeker.next())
    assert kernel.nearest == 63


def test_elements_of_another_kind_are_sought_for_a_comparison_of_elements():
    kernel = Kernel("x != 0.0f", lambda case: (0, 0), LESS)
    kernel.can_run_whole = lambda case: True
    kinds = [one.data for one in tries(kernel)]
    assert kinds[0] == "denormal" and {"huge", "special", "sparse"} <= {*kinds}
    names_a_scalar = Kernel("beta != 0.0f", lambda case: (case.beta, 0), LESS)
    assert {one.data for one in tries(names_a_scalar)} <= {"exact", "random"}


@pytest.mark.parametrize(
    ("case", "shows"),
    [
        (CASE, True),
        (replace(CASE, alpha=-2.0), True),
        (replace(CASE, alpha=0.0), False),
        (replace(CASE, alpha=float("inf")), False),
        (replace(CASE, beta=float("nan")), False),
        (FREE.case(50, 60, 0), False),
    ],
)
def test_products_show_in_c_by_finite_scalars_and_an_alpha_that_is_not_zero(case, shows):
    assert tells(case) == shows
