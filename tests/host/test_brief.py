"""What gemmgen's functions return can be shown in an interpreter: in at most LONGEST characters, and with its name."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

import gemmgen
from gemmgen.cli.reports.tune import apart, failures, show_tuning, winner
from gemmgen.exports.kernelfile import KernelFile
from gemmgen.families import FAMILIES
from gemmgen.kernel.model import predict
from gemmgen.problem.device import device_named
from gemmgen.problem.gemm import Problem
from gemmgen.run.compile import CompiledKernel
from gemmgen.run.gpu.timing import FINAL, Timing
from gemmgen.search.result import TuneResult, pick_predicted
from gemmgen.search.space import explore
from gemmgen.search.trial import Trial
from gemmgen.support.console import PlainConsole
from gemmgen.support.errors import Failure
from gemmgen.support.short_repr import LONGEST
from gemmgen.verification.situation import Situation
from gemmgen.verification.verifier import Verdict

PROBLEM = Problem(None, 4096, None, batch=None, stride_a=0, ld_align=4)
SPEC = device_named("H200")


@pytest.fixture(scope="module")
def result() -> TuneResult:
    """Of a search that tried many, with machine code and samples as long as they come."""
    family = FAMILIES["simt"]
    config = family.default(PROBLEM)
    source, plan = gemmgen.generate(PROBLEM, family=family.name), family.plan(PROBLEM, config)
    compiled = CompiledKernel(source.digest, "sm_90", bytes(200_000), 255, 0, 0, 0, "NVRTC 13.0", ("-v",), 2.0)
    failure = Failure("wrong", "C[0][0] is off " * 1000, "verifier")
    verdict = Verdict("emulator", 20, 0, 0.5, failure, Situation(PROBLEM.case(5, k=7, batch=3), "random", 0))
    timing = Timing(tuple(i / 7 for i in range(5000)), {"rounds": 7})
    trial = Trial(source, plan, predict(plan, SPEC), compiled, verdict, timing, failure)
    trials = tuple(replace(trial) for _ in range(500))
    spaces = (explore(FAMILIES["naive"], PROBLEM, SPEC),)
    return TuneResult(PROBLEM, "H200", "sm_90", "emulator", spaces, trials, trials[:2], pick_predicted([1.0, 2.0]))


def test_a_result_is_shown_in_short(result: TuneResult) -> None:
    best = result.winner
    assert best.compiled is not None and best.verdict is not None
    kernel = KernelFile(best.source, {"text": best.source.text})
    for record in (result, best, best.source, best.compiled, best.verdict, best.timing, result.spaces[0], kernel):
        assert type(record).__name__ in repr(record)
        assert len(repr(record)) <= LONGEST


def test_what_is_long_is_told_by_its_length(result: TuneResult) -> None:
    best = result.winner
    assert "trials=<500 entries>" in repr(result)
    assert f"name='{best.source.name}', text=<{len(best.source.text):,} characters>" in repr(best.source)
    assert "cubin=<200,000 bytes>" in repr(best.compiled)
    assert "samples_us=<5,000 entries>" in repr(best.timing)


def test_the_report_names_the_sizes_that_a_search_was_for(result: TuneResult) -> None:
    console = PlainConsole(stderr=False, width=200)
    console.file = io.StringIO()
    problem = replace(PROBLEM, typical={"M": 16, "batch": 3})
    source = result.winner.source.promising(problem=problem)
    trials = (replace(result.winner, source=source, timing=None, failure=None),)
    show_tuning(console, replace(result, problem=problem, trials=trials, finalists=trials, pick=pick_predicted([1.0])))
    shown = console.file.getvalue()
    assert "tuned at M = 16, K = 4096, batch = 3: --typical sets it" in shown
    assert "TFLOPS at M = 16, K = 4096, batch = 3, predicted for H200" in shown


def test_the_report_says_how_long_each_phase_took(result: TuneResult) -> None:
    best = replace(result.winner, failure=None)
    seconds = {"start": 1.04, "explore": 0.26, "compile": 2.0, "measure": 0.5, "compare": 0.2, "verify": 1.0}
    found = replace(result, trials=(best,) * 3, finalists=(best,) * 2, seconds=seconds)
    assert dict(winner(found))["took"] == (
        "5.0 s: start 1.0, explore 0.3, compile 3 in 2.0, measure 3 in 0.5, compare 2 in 0.2, verify 3 in 1.0"
    )
    untimed = replace(best, timing=None)
    predicted = replace(found, trials=(untimed,), finalists=(untimed,))
    assert "measure" not in dict(winner(predicted))["took"], "nothing was"


def test_the_report_holds_no_time_of_another_run_against_the_finalists(result: TuneResult) -> None:
    """A card that has been under load for longer is slower: one that lost in an earlier run was timed faster there."""
    late = Failure("rejected", "a faster one is right", "tuner")
    spills = Failure("rejected", "8 bytes of registers spill", "ptxas")
    final = {"protocol": FINAL.name}
    best = replace(result.winner, failure=None, timing=Timing((10.0,), final))
    second = replace(best, source=replace(best.source, name="second"))
    losers = [
        replace(best, source=replace(best.source, name=f"k{us}"), timing=Timing((us,), {}), failure=failure)
        for us, failure in ((11.0, late), (12.0, late), (13.0, spills), (14.0, late))
    ]
    found = replace(result, trials=(best, second, *losers), finalists=(best, second))
    assert list(failures(found)) == [
        "#3 to #4 rejected (tuner): a faster one is right",
        "#5 rejected (ptxas): 8 bytes of registers spill",
        "#6 rejected (tuner): a faster one is right",
    ]
    assert dict(winner(found))["why"].startswith("least measured time of 2 finalists of 6 candidates, and correct")
    assert apart(found) == ""
    faster = replace(losers[0], timing=Timing((9.0,), {}))
    assert "earlier runs" in apart(replace(found, trials=(*found.trials, faster)))
    wrong = replace(best, timing=Timing((9.0,), final), failure=Failure("wrong", "C[0][0] is off", "verifier"))
    assert apart(replace(found, trials=(*found.trials, wrong))) == "", "it met the winner"
