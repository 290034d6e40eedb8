"""The documents' experiments: which kernels, why each is as fast as it is, and how that reads and looks."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from gemmgen.cli import main
from gemmgen.exports.kernelfile import KernelFile
from gemmgen.families import FAMILIES, SIMT
from gemmgen.families.base import constants, first_rejection
from gemmgen.judge import explain as explaining
from gemmgen.judge.explain import Explanation
from gemmgen.kernel.model import predict
from gemmgen.lab.commands import study as command
from gemmgen.lab.prints import plots as plotting
from gemmgen.lab.prints.study import markdown, write_study
from gemmgen.lab.study import STUDIES, Limit, Study, StudyPoint, StudyResult, StudyRow, engine, run_study, study_named
from gemmgen.lab.study.beside import beside
from gemmgen.lab.study.engine import _measured, spill_us
from gemmgen.lab.study.points import BLOCK_TILE, LADDER, LOOP_ORDER, REGISTER_TILE, TENSOR_LADDER, config_for
from gemmgen.lab.study.reasons import registers_allowed, shared_reads, why, why_rejected
from gemmgen.problem.device import DEVICES, DeviceSpec, device_named
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.render.kernel_text import render
from gemmgen.run import target
from gemmgen.run.compile import CompiledKernel
from gemmgen.run.gpu.capability import DeviceProperties
from gemmgen.run.gpu.executor import GpuExecutor, GpuKernel
from gemmgen.run.gpu.timing import Baseline, InterleavedTimings, Timing
from gemmgen.run.sass import Instruction, Loop, Sass
from gemmgen.search.trial import Trial
from gemmgen.support.errors import CandidateFailed, Failure, InvalidInput
from gemmgen.support.files import Store

PROBLEM = Problem(2048, 2048, 2048)
BF16 = Problem(4096, 4096, 4096, types="bf16", layout="rc")
LAPTOP, H200 = device_named("RTX 4050 Laptop"), device_named("H200")


def rejection_of(point: StudyPoint, problem: Problem, spec: DeviceSpec) -> str | None:
    """Why `point` cannot be rendered for `problem`, or None."""
    family, config = FAMILIES[point.family], config_for(problem, point)
    rejection = first_rejection(family, problem, config, spec.arch.limits)
    return None if rejection is None else why_rejected(problem, family, config, rejection, spec.arch.limits)


# Points


@pytest.mark.parametrize("layout", ["rr", "rc", "cr", "cc"])
@pytest.mark.parametrize("study", STUDIES.values(), ids=lambda study: study.name)
def test_every_point_renders_in_every_layout(study: Study, layout: str) -> None:
    problem = Problem(2048, 2048, 2048, dtype=study.dtype, layout=Layout.parse(layout))
    ours = [point for point in study.points if point.maker == "config"]
    assert [point.label for point in ours if rejection_of(point, problem, H200)] == []
    assert len({config_for(problem, point) for point in ours}) == len(ours)
    assert len({point.label for point in study.points}) == len(study.points)


def test_the_ladder_climbs_from_naive_to_the_library() -> None:
    assert [point.maker for point in LADDER.points][-2:] == ["search", "cuBLASLt"]
    assert LADDER.points[0].family == "naive"
    tiled = [config_for(PROBLEM, point).values for point in LADDER.points[1:-2]]
    changes = [{name for name in one if one[name] != other[name]} for one, other in pairwise(tiled)]
    assert {"OUTER", "TN"} in changes  # the strip becomes a tile, computed the old way
    assert {"OUTER"} in changes and {"STAGES"} in changes
    assert all(point.lesson for point in LADDER.points)


def test_the_ladder_of_tensor_cores_climbs_from_wmma_to_the_library() -> None:
    *ours, tuned, library = TENSOR_LADDER.points
    assert (tuned.maker, library.maker) == ("search", "cuBLASLt")
    assert {point.family for point in ours} == {"wmma", "mma", "wgmma"}
    assert [point.against for point in TENSOR_LADDER.points[1:]] == [point.label for point in [*ours, tuned]]
    in_order, swizzled = (config_for(BF16, point).values for point in ours[1:3])
    assert {name for name in in_order if in_order[name] != swizzled[name]} == {"SWIZZLE"}
    assert ours[0].family == "wmma" and all(point.lesson for point in TENSOR_LADDER.points)


def test_the_larger_steps_of_tensor_cores_are_expected_to_be_faster() -> None:
    points = {point.label: point for point in TENSOR_LADDER.points}
    rungs = [points[name] for name in ("wmma", "mma.sync", "swizzle", "multistage", "warp-specialised")]
    plans = [FAMILIES[point.family].plan(BF16, config_for(BF16, point)) for point in rungs]
    times = [predict(plan, H200).time_us for plan in plans]
    assert all(after < before for before, after in pairwise(times))


def test_sweeps_change_one_thing() -> None:
    def varying(study: Study) -> set[str]:
        settings = [point.settings for point in study.points]
        return {name for name in settings[0] if len({each[name] for each in settings}) > 1}

    assert varying(REGISTER_TILE) == {"TM", "TN"}
    assert varying(BLOCK_TILE) == {"BM", "BN"}
    assert varying(LOOP_ORDER) == {"TM", "TN", "OUTER"}
    tiles = [(point.settings["TM"], point.settings["TN"]) for point in REGISTER_TILE.points]
    assert tiles[0] == (2, 2) and tiles[-1] == (16, 16) and (4, 16) in tiles and (16, 4) in tiles


def test_an_unknown_study_is_refused() -> None:
    with pytest.raises(InvalidInput, match="known are ladder, tensor-ladder"):
        study_named("stairs")


# Reasons


@pytest.mark.parametrize(
    ("settings", "card", "expected"),
    [
        ({"BM": 256, "BN": 256, "TM": 4, "TN": 4}, "H200", "blocks of 4,096 threads cannot launch: CUDA allows 1,024"),
        (
            {"BM": 256, "BN": 256, "BK": 32, "STAGES": 2, "PAD": 0},
            "RTX 4050 Laptop",
            "the block's tiles exceed the shared memory by 29,696 bytes: 131,072 of 101,376",
        ),
        ({"STAGES": 3, "ASYNC": 1}, "T4", "cp.async needs sm_80 or newer (ASYNC = 1, HAS_CP_ASYNC = 0)"),
    ],
)
def test_what_cannot_be_rendered_names_its_limit(settings: dict[str, int], card: str, expected: str) -> None:
    base = next(point.settings for point in BLOCK_TILE.points)
    point = StudyPoint("tried", {**base, **settings})
    assert rejection_of(point, PROBLEM, device_named(card)) == expected


@pytest.mark.parametrize(("threads", "registers"), [(16, 255), (288, 168), (512, 128), (1000, 64), (1024, 64)])
def test_registers_that_a_block_leaves(threads: int, registers: int) -> None:
    assert registers_allowed(threads) == registers


class Machine:
    """Stands in for compiler and disassembler: says what each kernel takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.registers, self.spill_bytes, self.counts = 160, 0, {"FFMA": 512, "LDS": 32, "IADD3": 56}
        monkeypatch.setattr(explaining, "compile_kernel", lambda source, arch, store: self.compiled(source.digest))
        monkeypatch.setattr(explaining, "disassemble", self.disassemble)

    def disassemble(self, cubin: bytes, fma: str) -> Sass:
        loop = Loop(tuple(Instruction(opcode) for opcode, count in self.counts.items() for _ in range(count)), fma)
        return Sass("", loop.mix, loop)

    def compiled(self, digest: str) -> CompiledKernel:
        return CompiledKernel(digest, "sm_90", b"cubin", self.registers, self.spill_bytes, 0, 0, "NVRTC 0", (), 0.1)

    def explain(self, spec: DeviceSpec, problem: Problem = PROBLEM, **settings: int) -> Explanation:
        point = StudyPoint("tried", {**REGISTER_TILE.points[0].settings, **settings})
        source = render(problem, SIMT, config_for(problem, point))
        return explaining.explain(KernelFile(source), spec.arch.name, spec, Store(Path("unused")))

    def row(self, point: StudyPoint, spec: DeviceSpec, time_us: float, problem: Problem = PROBLEM) -> StudyRow:
        it = self.explain(spec, problem, **point.settings)
        config = config_for(problem, point)
        trial = Trial(it.kernel.source, SIMT.plan(problem, config), it.prediction, it.compiled)
        return StudyRow(point, trial, it, time_us=time_us, reason=why(it))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_masked_lanes_and_spilled_accumulators_are_named_first(machine: Machine) -> None:
    machine.registers, machine.spill_bytes = 255, 6732
    machine.counts = {"FFMA": 2048, "LDL": 512, "STL": 512, "LDS": 64}
    reason = why(machine.explain(LAPTOP, TM=16, TN=16))
    assert reason.startswith(
        "half a warp is masked: 16 threads a block; "
        "256 accumulators exceed 255 registers: 6,732 bytes spilled, 0.5 accesses to local memory per FMA; "
    )
    assert "model's bound" not in reason  # it knows no spills


def test_doubles_read_fewer_at_once_and_count_their_own_fmas(machine: Machine) -> None:
    problem = replace(PROBLEM, dtype=DType.F64)
    machine.counts = {"DFMA": 512, "LDS": 128, "FFMA": 3}
    it = machine.explain(LAPTOP, problem, TM=4, TN=4)
    assert constants(SIMT, problem, config_for(problem, REGISTER_TILE.points[0]))["VEC"] == 2
    assert shared_reads(it) == 0.25
    assert "80% of the main loop are FMAs" in why(it)


def test_large_blocks_leave_few_registers(machine: Machine) -> None:
    machine.registers, machine.spill_bytes = 64, 2688
    machine.counts = {"FFMA": 512, "LDS": 32}
    reason = why(machine.explain(H200, BM=256, BN=256, TM=8, TN=8))
    assert "blocks of 1,024 threads leave 64 registers a thread for 64 accumulators: 2,688 bytes spilled" in reason
    assert "none of them in the main loop" in reason
    assert "64 blocks for 132 SMs: 68 of them idle" in reason


def test_the_grid_may_hold_fewer_warps_than_fit(machine: Machine) -> None:
    small = Problem(512, 512, 512)
    reason = why(machine.explain(H200, small, TM=8, TN=8))
    assert "64 blocks for 132 SMs: 68 of them idle" in reason
    assert "the grid has 1 block for an SM where 6 fit: 2 warps an SM, so few" in reason


def test_shared_reads_are_those_of_the_machine_code(machine: Machine) -> None:
    assert "0.0625 shared reads per FMA, 85% of the main loop" in why(machine.explain(H200, TM=8, TN=8))
    machine.counts = {"FFMA": 100, "LDS": 125, "IMAD": 25}
    reason = why(machine.explain(H200, TM=8, TN=8, OUTER=0))
    assert "1.25 shared reads per FMA (the source has 2: the compiler joins neighbours), 40%" in reason


def test_spills_cost_time_in_a_prediction(machine: Machine) -> None:
    assert spill_us(machine.explain(H200, TM=16, TN=16)) == 0
    machine.spill_bytes, machine.counts = 7236, {"FFMA": 100, "LDL": 40, "STL": 35}
    # 1,024 blocks of a warp on 132 SMs: 8 on the busiest, each 256 * 2048 FMAs with 0.75 accesses at 1.98 GHz
    assert spill_us(machine.explain(H200, TM=16, TN=16)) == pytest.approx(8 * 256 * 2048 * 0.75 / 1980)


# Results


def result_of(study: Study, rows: list[StudyRow], spec: DeviceSpec = H200, **changes: Any) -> StudyResult:
    made = StudyResult(
        study, PROBLEM, spec, spec.arch.name, "emulator", "g++ 12", "predicted", Limit(66.9, "data sheet"), tuple(rows)
    )
    return replace(made, **changes)


@pytest.fixture
def sweep(machine: Machine) -> StudyResult:
    """A block-tile sweep: masked, best, spilled, and one that cannot be."""
    small, best, large = (BLOCK_TILE.points[place] for place in (0, 2, 6))
    rows = [machine.row(small, H200, 900.0), machine.row(best, H200, 450.0)]
    machine.spill_bytes = 2688
    rows.append(machine.row(large, H200, 800.0))
    refused = Failure("rejected", "blocks of 4,096 threads cannot launch: CUDA allows 1,024", "THREADS <= MAX_THREADS")
    rows.append(StudyRow(StudyPoint("512x512", {"BM": 512}), failure=refused, reason=refused.reason))
    return result_of(BLOCK_TILE, rows)


def test_shares_of_the_documents_best_stand_beside_ours(sweep: StudyResult) -> None:
    small, best, large = beside(sweep)
    assert small.share == pytest.approx(0.5) and small.reported_share == pytest.approx(0.55, abs=0.01)
    assert best.share == best.reported_share == 1 and large.reported == 0 < large.share


def test_no_comparison_without_the_documents_best(sweep: StudyResult) -> None:
    assert beside(replace(sweep, rows=(sweep.rows[0], sweep.rows[2]))) != []
    assert beside(replace(sweep, rows=sweep.rows[3:])) == []


def test_the_page_has_a_row_and_a_reason_for_each_point(sweep: StudyResult) -> None:
    page = markdown(sweep, "2026-11-21", "gemmgen study block-tile", "plot.svg")
    table = [line for line in page.splitlines() if line.startswith("| ")]
    assert len({line.count("|") for line in table}) == 1
    assert sum(line.startswith(f"| {row.point.label} |") for line in table for row in sweep.rows) == len(sweep.rows)
    assert all(f"- **{row.point.label}**: {row.reason}." in page for row in sweep.rows)
    assert "predicted us" in page and "Nothing was measured" in page and "](plot.svg)" in page
    measured = markdown(replace(sweep, kind="measured"), "2026-11-21", "gemmgen study block-tile", None)
    assert "predicted" not in measured and "measured us" in measured and "](" not in measured


def test_a_notebook_shows_a_row_and_a_reason_for_each_point(sweep: StudyResult) -> None:
    page = sweep._repr_html_()  # type: ignore[attr-defined]
    assert page.count("<tr>") == 1 + len(sweep.rows) and "(predicted)" in page
    assert all(f">{row.point.label}</td>" in page and escape(row.reason) in page for row in sweep.rows if row.runs)


def test_files_of_a_study(sweep: StudyResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plotting, "find_spec", lambda name: None)
    written = write_study(sweep, "gemmgen study block-tile", tmp_path)
    assert [path.name for path in written.paths] == [
        "study_block-tile_f32_rr_2048x2048x2048.md",
        "study_block-tile_f32_rr_2048x2048x2048.json",
    ]
    assert written.no_plot is not None and "pip install" in written.no_plot
    record = json.loads(written.paths[1].read_text())
    assert record["kind"] == "predicted" and [row["runs"] for row in record["rows"]] == [True, True, True, False]
    assert record["rows"][1]["shared_loads_per_fma"] == pytest.approx(32 / 512)
    assert record["rows"][3]["failure"]["kind"] == "rejected" and record["rows"][3]["time"] is None


def test_a_teaching_study_keeps_its_kernels(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plotting, "find_spec", lambda name: None)
    point = next(point for point in LADDER.points if point.label == "double buffer")
    library = StudyRow(LADDER.points[-1], failure=Failure("unavailable", "it needs a GPU", "gpu"))
    result = result_of(LADDER, [machine.row(point, H200, 450.0), library])
    kernel, record = write_study(result, "gemmgen study ladder", tmp_path).paths[-2:]
    assert f"| [double buffer]({kernel.name}) |" in (tmp_path / "study_ladder_f32_rr_2048x2048x2048.md").read_text()
    assert kernel.suffix == ".cu" and json.loads(record.read_text())["rung"]["title"] == "double buffer"


# Plots


def test_figures_stand_at_their_own_bars() -> None:
    assert plotting.figure_starts(20.5, 66.5, 0.0) == plotting.figure_starts(20.5, 66.5, 38.0) == 20.5
    assert plotting.figure_starts(20.5, 66.5, 21.0) == 21.0, "clear of a mark that would lie on it"


def test_plots_are_the_same_each_time(sweep: StudyResult) -> None:
    first, again = plotting.draw(sweep), plotting.draw(sweep)
    assert first == again
    assert first["png"].startswith(b"\x89PNG") and b"Matplotlib" not in first["png"]
    picture = first["svg"].decode()
    assert "<dc:date>" not in picture and "Matplotlib v" not in picture


def test_plots_show_what_cannot_run(sweep: StudyResult, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(plotting.SETTINGS, "svg.fonttype", "none")  # text that can be read here
    words = re.findall(r">([^<>]+)</text>", plotting.draw(sweep)["svg"].decode())
    assert any("4,096 threads cannot launch" in text for text in words)
    assert any("2048x2048x2048 f32 rr on H200, predicted, not measured" in text for text in words)
    assert "block tile BM x BN" in words and "shared loads per FMA" in words and "2,688 B spilled" in words
    assert any(text.startswith("TFLOPS (predicted); dashed: the limit, 66.90") for text in words)


# Timing on a GPU


class Gpu:
    """Stands in for GpuExecutor: refuses to load one kernel, and may lack cuBLASLt."""

    def __init__(self, refused: str, library: bool) -> None:
        self.refused, self.library, self.asked = refused, library, []  # type: ignore[var-annotated]

    def load_compiled(self, source: Any, compiled: CompiledKernel) -> GpuKernel:
        if source.name == self.refused:
            raise CandidateFailed(Failure("launch", "too many resources requested", "gpu"))
        return GpuKernel(self, source, compiled)  # type: ignore[arg-type]

    def measure_many(self, kernels: Any, case: Any, protocol: Any, *, beside: Any = None) -> InterleavedTimings:
        self.asked.append(beside is not None)
        if beside and not self.library:
            raise CandidateFailed(Failure("unavailable", "cuBLASLt is missing", "gpu"))
        timings = tuple(Timing((float(place),) * 3, {}) for place, _ in enumerate(kernels, start=1))
        theirs = Timing((9.0,) * 3, {})
        return InterleavedTimings(timings, Baseline(0, 1, theirs, theirs, "cuBLASLt 13") if beside else None)

    def unload(self, kernel: GpuKernel) -> None:
        pass


@pytest.mark.parametrize("library", [True, False])
def test_what_does_not_load_is_a_row(machine: Machine, library: bool) -> None:
    points = [BLOCK_TILE.points[2], BLOCK_TILE.points[6], BLOCK_TILE.points[3]]
    rows = [machine.row(point, H200, 1.0) for point in points] + [StudyRow(LADDER.points[-1])]
    assert rows[1].trial is not None
    gpu = Gpu(rows[1].trial.source.name, library)
    first, refused, last, theirs = _measured(rows, gpu, PROBLEM)  # type: ignore[arg-type]
    assert (
        (first.time_us, last.time_us) == (1.0, 2.0) and first.trial is not None and first.trial.timing is first.timing
    )
    assert refused.failure is not None and refused.failure.kind == "launch" and not refused.runs
    assert gpu.asked == ([True] if library else [True, False])
    if library:
        assert theirs.time_us == 9.0 and theirs.runs
    else:
        assert theirs.failure is not None and theirs.failure.reason == "cuBLASLt is missing"


# The command line


def test_json_is_one_document(
    sweep: StudyResult, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def run(name: str, problem: Problem, **choices: Any) -> StudyResult:
        asked.append((name, problem.shape, choices["device"]))
        return sweep

    monkeypatch.setattr(command, "run", run)
    assert main(["study", "block-tile", "64x64x64", "--device", "A100", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert asked == [("block-tile", "64x64x64", "A100")]
    assert document["command"] == "gemmgen study block-tile 64x64x64 --device A100 --json"
    assert len(document["rows"]) == 4 and document["files"] == []
    assert main(["study", "block-tile"]) == 0
    shown = capsys.readouterr().out
    assert "predicted" in shown and "4,096 threads cannot launch" in shown


def test_an_unknown_card_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "block-tile", "--device", "Voodoo 2"]) == 2
    message = capsys.readouterr().err
    assert "Voodoo 2" in message and all(name in message for name in DEVICES)


def test_no_rate_without_products(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "block-tile", "64x64x0", "--device", "A100"]) == 2
    assert "K = 0" in capsys.readouterr().err


# What does not compile


def test_what_does_not_compile_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failure = Failure("compile", "kernel.cu(7): error: no", "nvrtc")
    monkeypatch.setattr(engine, "compile_many", lambda sources, *rest: [failure for _ in sources])
    opened = target.open_target("emulator", "RTX 4050 Laptop", Store(tmp_path))
    with opened.executor:
        result = run_study(BLOCK_TILE, PROBLEM, opened, Store(tmp_path))
        assert {row.reason for row in result.rows} == {failure.reason} and result.best is None
        assert not any(row.runs for row in result.rows)
        page = markdown(result, "2026-11-21", "gemmgen study block-tile", None)
        assert f"- **256x256**: {failure.reason}." in page

        missing = Failure("unavailable", "NVRTC is missing", "nvrtc")
        monkeypatch.setattr(engine, "compile_many", lambda sources, *rest: [missing for _ in sources])
        with pytest.raises(CandidateFailed, match="NVRTC is missing"):
            run_study(BLOCK_TILE, PROBLEM, opened, Store(tmp_path))


# Which card


class Card(GpuExecutor):
    """Stands in for the GPU of a machine with an RTX 4090."""

    def __init__(self, store: Store) -> None:
        self.properties = DeviceProperties(
            "NVIDIA GeForce RTX 4090", "sm_89", "580", 128, 24 * 10**9, 72 * 10**6, 2520, 101376, 102400, 65536, 1536
        )
        self.description, self.arch, self.closed = str(self.properties), "sm_89", False

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("device", "executor", "card"),
    [
        ("auto", "gpu", "RTX 4090"),
        ("rtx 4090", "gpu", "RTX 4090"),
        ("sm_89", "gpu", "RTX 4090"),
        ("RTX 4050 Laptop", "emulator", "RTX 4050 Laptop"),  # of the same architecture, and not the one at hand
        ("H200", "emulator", "H200"),
        ("emulator", "emulator", "H200"),
    ],
)
def test_only_the_card_at_hand_is_measured(
    device: str, executor: str, card: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Card] = []
    monkeypatch.setattr(target, "why_no_gpu", lambda: None)
    monkeypatch.setattr(target, "GpuExecutor", lambda store: made.append(Card(store)) or made[-1])  # type: ignore[func-returns-value]
    monkeypatch.setattr(target.Target, "gpu", property(lambda self: self.executor if self.executor in made else None))
    opened = target.open_card(device, Store(tmp_path))
    assert (opened.executor.name, opened.spec.name) == (executor, card)
    assert all(one.closed == (executor == "emulator") for one in made)
