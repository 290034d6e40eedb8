"""Runs of one launch, compared bit for bit; what a verdict says of what was run. numpy stands in for an executor."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from gemmgen.exports.json_records import verdict_document
from gemmgen.families import NAIVE, SIMT
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.support.errors import CandidateFailed, Failure
from gemmgen.support.files import generator_digest
from gemmgen.verification import data
from gemmgen.verification.comparison import SAMPLED_RATIOS
from gemmgen.verification.determinism import RUNS, compare_runs, depth_of_parts, revealing
from gemmgen.verification.domain import QUANTILES
from gemmgen.verification.reference import expected
from gemmgen.verification.situation import SIMPLE_SCALARS, Situation
from gemmgen.verification.verifier import Verdict, make_data, verdict_from, verify
from gemmgen.verification.window import Window

FREE = Problem(None, None, None)
SOURCE = render(FREE, NAIVE, NAIVE.default(FREE))
LARGE = Problem(1200, 1200, 20)


def by_rows(case, seed):
    return range(case.k)


def by_seed(case, seed):
    """The order of the sum as atomics would have it."""
    return np.random.default_rng(seed).permutation(case.k)


class Summing:
    """An executor and its kernel in one: sums in float32, in the order of K that `order` gives for a seed."""

    name = "emulator"
    description, flags, environment = "numpy", (), ""

    def __init__(self, order=by_rows, whole_flops=math.inf, watches=0):
        self.order, self.whole_flops, self.watches = order, whole_flops, watches
        self.runs_parts = math.isfinite(whole_flops)
        self.runs = []

    def can_run_whole(self, case):
        return case.flops <= self.whole_flops

    def load(self, source):
        self.source = source
        return self

    @np.errstate(invalid="ignore", over="ignore")  # NaN, Inf and huge data are among what it gets
    def run(self, case, operands, *, seed=0, blocks=None, watch=True, output="C"):
        self.runs.append((case, seed, blocks))
        a, b = case.a.view(operands.a), case.b.view(operands.b)
        total = np.zeros((case.m, case.n), np.float32)
        with np.errstate(invalid="ignore"):
            for k in self.order(case, seed):
                total += np.multiply.outer(a[:, k], b[k])
            total *= np.float32(case.alpha)
            if case.beta != 0:
                total += np.float32(case.beta) * case.c.view(operands.c)
        after = operands.c.copy()
        kept = np.ones_like(total, bool) if blocks is None else self._tiles(case, blocks)
        case.c.view(after)[kept] = total[kept]
        return after

    def multiply(self, case, operands, *, seed, sizes, largest):
        return None

    def _tiles(self, case, blocks):
        tile = dict(self.source.launch.grid)
        columns = -(-case.n // tile["N"])
        kept = np.zeros((case.m, case.n), bool)
        for block in blocks:
            top, left = block // columns * tile["M"], block % columns * tile["N"]
            kept[top : top + tile["M"], left : left + tile["N"]] = True
        return kept

    def judge(self, case, operands, *, seed, rule, places):
        return None

    def watched(self, case, *, seed, blocks=None):
        return self.watches

    def coverage(self):
        return None

    def assumed(self):
        return ()

    def lacking(self):
        return {}

    def close(self):
        pass


def test_the_same_bits_in_ten_runs_of_one_launch():
    executor = Summing()
    verdict = verify(executor, SOURCE, examples=20, largest=64)
    assert verdict.passed and verdict.deterministic
    repeated = executor.runs[-RUNS:]
    assert len({case for case, _, _ in repeated}) == 1, "one launch"
    assert len({seed for _, seed, _ in repeated}) == RUNS == 10, "each in a schedule of its own"
    assert verdict.determinism is not None and verdict.determinism.runs == RUNS
    assert verdict.determinism.blocks == verdict.determinism.grid == SOURCE.launch.blocks(repeated[0][0])


def test_data_that_is_made_ahead_is_what_verification_asks_for(monkeypatch):
    problem, made = Problem(21, 33, 17), []
    fresh = data._fresh
    monkeypatch.setattr(data, "_fresh", lambda *of: made.append(of) or fresh(*of))
    make_data(problem, 20, 5)
    ahead = len(made)
    verdict = verify(Summing(), render(problem, NAIVE, NAIVE.default(problem)), examples=20, seed=5, runs=1)
    assert verdict.passed and ahead >= 10 and len(made) == ahead


def test_bits_that_differ_fail_with_both_values():
    verdict = verify(Summing(by_seed), SOURCE, examples=20, largest=64)
    assert verdict.failure is not None and verdict.failure.kind == "nondeterministic"
    assert not verdict.passed and verdict.deterministic is False
    assert verdict.situation is not None and verdict.situation.data == "random"
    shown = re.search(r"C\[(\d+)\]\[(\d+)\] is (\S+) in one run and (\S+) in", verdict.failure.reason)
    assert shown is not None
    row, col, one, other = shown.groups()
    assert one != other and float(one) == pytest.approx(float(other), rel=1e-3)
    assert int(row) < verdict.situation.case.m and int(col) < verdict.situation.case.n


def test_what_else_a_kernel_writes_has_the_same_bits_in_all_runs():
    class BesideC(Summing):
        def run(self, case, operands, *, seed=0, watch=True, output="C", **how):
            if output == "C":
                return super().run(case, operands, seed=seed, **how)
            after = operands.by_name[output].copy()
            case.c.view(after)[...] = expected(Situation(case, "random", seed), Window.whole(case), output)[
                0
            ]  # of other data
            return after

    problem = Problem(6, 7, 8, epilogue="aux")
    executor = BesideC()
    executor.load(render(problem, NAIVE, NAIVE.default(problem)))
    found = compare_runs(executor, Situation(problem.case(), "random", 0), 3).difference
    assert found is not None and found.startswith("aux[0][0] is")


def test_the_order_of_sums_shows_though_c_has_few_bits():
    """Of one element near 8, of 8 bits, nearly every order of 64 products gives the same."""
    problem = Problem(1, 1, 64, types="f32,f32,bf16")
    executor = Summing(by_seed)
    executor.load(render(problem, NAIVE, NAIVE.default(problem)))
    assert compare_runs(executor, Situation(revealing(problem.case()), "random", 0), 10).difference is not None


def test_runs_of_one_launch_share_operands_that_nobody_can_change():
    class Keeping(Summing):
        def run(self, case, operands, **how):
            met.append(operands)
            return super().run(case, operands, **how)

    met, problem = [], Problem(3, 4, 64, types="f32,f32,bf16")
    executor = Keeping()
    executor.load(render(problem, NAIVE, NAIVE.default(problem)))
    assert compare_runs(executor, Situation(revealing(problem.case()), "random", 0), 3).difference is None
    assert all(operands is met[0] for operands in met)
    assert not any(array.flags.writeable for array in met[0].by_name.values())


def test_a_launch_with_work_for_each_block_of_a_tile_is_repeated():
    source = render(FREE, SIMT, SIMT.default(FREE).with_values(SPLIT=6))
    assert depth_of_parts(source) == 6 * source.config["BK"] and depth_of_parts(SOURCE) == 1


def test_a_large_launch_is_repeated_in_part_where_parts_can_run():
    source = render(LARGE, NAIVE, NAIVE.default(LARGE))
    executor = Summing(whole_flops=1e7)
    verdict = verify(executor, source, examples=2)
    assert verdict.passed and verdict.sampled and verdict.determinism is not None
    assert 2 <= verdict.determinism.blocks < verdict.determinism.grid
    _, _, blocks = executor.runs[-1]
    assert blocks is not None and sorted(blocks) == list(range(min(blocks), max(blocks) + 1)), "neighbours"
    executor = Summing()  # as a GPU: whole
    verdict = verify(executor, source, examples=1)
    assert verdict.determinism is not None and verdict.determinism.blocks == verdict.determinism.grid
    assert executor.runs[-1][2] is None


def test_a_repeated_run_that_crashes_fails():
    class Crashing(Summing):
        def run(self, case, operands, **how):
            if len(self.runs) == 5 + RUNS - 1:
                raise CandidateFailed(Failure("crash", "data race on C", "emulator"))
            return super().run(case, operands, **how)

    verdict = verify(Crashing(), SOURCE, examples=5, largest=32)
    assert verdict.failure is not None and verdict.failure.reason == "data race on C"


def test_one_run_compares_nothing():
    verdict = verify(Summing(by_seed), SOURCE, examples=5, largest=32, runs=1)
    assert verdict.passed and verdict.deterministic is None


def test_the_domain_is_what_was_run():
    executor = Summing(watches=10**9)
    verdict = verify(executor, SOURCE, examples=40, largest=64, runs=1)
    cases = [case for case, _, _ in executor.runs]
    domain = verdict.domain
    assert domain is not None and len(cases) == verdict.examples
    assert domain.sizes["M"] == (min(case.m for case in cases), max(case.m for case in cases))
    assert domain.padding["ldc"][1] == max(case.ldc - case.n for case in cases)
    assert domain.betas == tuple(
        sorted({abs(case.beta) if case.beta == 0 else case.beta for case in cases} & SIMPLE_SCALARS)
    )
    assert 0 < domain.scalars["of full mantissa"] <= len(cases) and domain.scalars["NaN or Inf"] > 0
    assert domain.shapes == len({(case.m, case.n, case.k) for case in cases})
    assert domain.schedules == len({seed for _, seed, _ in executor.runs})
    assert sum(domain.data.values()) == domain.whole == domain.watched == verdict.examples
    largest = max(cases, key=lambda case: case.flops)
    assert domain.largest_whole == domain.largest_watched == f"{largest.m}x{largest.n}x{largest.k}"


def test_errors_are_spread_below_the_worst():
    verdict = verify(Summing(), SOURCE, examples=40, largest=64, runs=1)
    errors = verdict.errors
    assert errors is not None and 0 < errors.sampled <= errors.elements
    assert errors.sampled <= SAMPLED_RATIOS * verdict.examples
    ratios = [ratio for _, ratio in errors.quantiles]
    assert [share for share, _ in errors.quantiles] == list(QUANTILES)
    assert ratios[0] >= 0 and ratios == sorted(ratios) and ratios[-1] <= verdict.worst <= 1
    assert "data=" in errors.worst_in and errors.largest_bound > 0


def test_a_verdict_reads_back():
    verdict = verify(Summing(), SOURCE, examples=20, largest=64)
    assert verdict_from(json.loads(json.dumps(asdict(verdict)))) == verdict
    assert verdict_from(json.loads(json.dumps(asdict(Verdict("gpu", 3, 0, 0.5))))) == Verdict("gpu", 3, 0, 0.5)
    json.dumps(verdict_document(verdict), allow_nan=False)


def test_the_generator_has_a_digest_that_depends_on_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    known = generator_digest()
    assert known == generator_digest.__wrapped__()
    (tmp_path / "changed.cu").write_text("// another template")
    monkeypatch.setattr("gemmgen.support.files.TEMPLATES", tmp_path)
    assert generator_digest.__wrapped__() != known
