"""Records by card: folders, whose they are, and what a kernel's name means where two cards have some by it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import gemmgen as api
from gemmgen.cli import main
from gemmgen.exports.cards import belongs, card_folder, card_folders, card_of, is_of_another
from gemmgen.exports.kernelfile import (
    KernelFile,
    find_kernel,
    find_rung,
    kernel_paths,
    kernels_in,
    read_kernel,
)
from gemmgen.exports.writing import remove_kernel, text_path, write_kernel
from gemmgen.families import Config, Family
from gemmgen.judge import bench
from gemmgen.judge.bench import BenchRow
from gemmgen.kernel.model import representative
from gemmgen.lab.gallery import check, rerender, write_readmes
from gemmgen.lab.report.page import collect
from gemmgen.problem.device import DEVICES, DeviceSpec
from gemmgen.problem.gemm import Problem
from gemmgen.run import card as card_at_hand
from gemmgen.run.card import spec_of
from gemmgen.run.gpu.capability import DeviceProperties
from gemmgen.run.gpu.limits import MeasuredLimits
from gemmgen.run.gpu.timing import Baseline, Timing
from gemmgen.search.trial import Progress
from gemmgen.support.files import Store
from gemmgen.verification.verifier import Verdict

PROBLEM = Problem(64, 96, 32)
NAME = "gemm_f32_rr_64x96x32"
OUT = Path("gemmgen-out")


def reported(name: str, arch: str = "sm_90", sms: int = 132, gib: float = 79.65) -> DeviceSpec:
    """The card at hand, as its driver describes it."""
    return spec_of(DeviceProperties(name, arch, "580.1", sms, int(gib * 2**30), 50, 1980.0, 0, 0, 0, 0))


H200 = reported("NVIDIA H200", gib=140.4)
H100 = reported("NVIDIA H100 80GB HBM3")


@pytest.mark.parametrize(
    ("card", "folder"),
    [
        (H200, "sm_90"),
        (H100, "sm_90_h100"),
        (reported("NVIDIA H100 PCIe", sms=114), "sm_90_h100_pcie"),
        (reported("NVIDIA H100 NVL", gib=93.6), "sm_90_h100_nvl"),
        (reported("NVIDIA H100", sms=114), "sm_90_h100_114"),
        (reported("NVIDIA GH200 480GB", gib=95.6), "sm_90_gh200_480gb"),
        (reported("NVIDIA H100 80GB HBM3 MIG 1g.10gb", sms=16, gib=9.75), "sm_90_h100_80gb_hbm3_mig_1g_10gb"),
        (reported("NVIDIA A100-SXM4-40GB", "sm_80", 108, 39.4), "sm_80"),
        (reported("NVIDIA A100-SXM4-80GB", "sm_80", 108, 79.2), "sm_80_a100_sxm4_80gb"),
        (reported("NVIDIA GeForce RTX 3090", "sm_86", 82, 23.7), "sm_86"),
        (reported("NVIDIA A10", "sm_86", 72, 22.1), "sm_86_a10"),
        (reported("Orin", "sm_87", 16, 30.0), "sm_87_orin"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_card_has_a_folder_that_no_other_has(card: DeviceSpec, folder: str) -> None:
    arch = folder[:5]
    assert card_folder(arch, card) == folder
    path = Path(folder)
    assert belongs(card.name, path) and not is_of_another(path, card)
    others = [name for name in ("sm_90", "sm_90_h100", "sm_86", "sm_86_a10") if name != folder]
    assert all(is_of_another(Path(name), card) for name in others)


def test_a_known_card_has_one_folder_whether_named_or_at_hand() -> None:
    names = {spec.name: card_folder(spec.arch.name, spec) for spec in DEVICES.values()}
    assert len({*names.values()}) == len(names)
    assert (names["H200"], names["H100"], names["L4"]) == ("sm_90", "sm_90_h100", "sm_89_l4")
    assert all(card_of(Path(folder)) == DEVICES[name] for name, folder in names.items())
    assert card_folder("sm_90a", DEVICES["H200"]) == "sm_90a" and card_of(Path("sm_90_gh200")) is None


def test_rows_of_another_card_do_not_belong() -> None:
    assert not belongs("NVIDIA H200", Path("sm_90_h100")) and not belongs("NVIDIA H100 80GB HBM3", Path("sm_90"))
    assert not belongs("NVIDIA H100 80GB HBM3", Path("sm_90_h100_pcie")) and not belongs("NVIDIA L40", Path("sm_89_l4"))


def test_folders_go_by_architecture_and_the_first_cards_before_others(tmp_path: Path) -> None:
    for name in ("sm_100", "sm_90_h100", "sm_90", "sm_9x", "notes", "sm_90_B"):
        (tmp_path / name).mkdir()
    (tmp_path / "sm_80").write_text("a file")
    assert [folder.name for folder in card_folders(tmp_path)] == ["sm_90", "sm_90_h100", "sm_100"]
    assert [folder.name for folder in card_folders(tmp_path, "sm_90")] == ["sm_90", "sm_90_h100"]
    assert card_folders(tmp_path / "none") == []


# The card at hand


def test_auto_is_the_card_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    h100 = DeviceProperties("NVIDIA H100 80GB HBM3", "sm_90", "580.1", 132, 85 * 10**9, 50, 1980.0, 0, 0, 0, 0)
    monkeypatch.setattr(card_at_hand, "arch_here", lambda: "sm_90")
    monkeypatch.setattr(card_at_hand, "properties_here", lambda: h100)
    assert card_folder(*card_at_hand.compile_target("auto")) == "sm_90_h100"
    assert card_folder(*card_at_hand.compile_target("sm_90")) == "sm_90"
    assert card_folder(*card_at_hand.compile_target("H100")) == "sm_90_h100"
    monkeypatch.setattr(card_at_hand, "arch_here", lambda: None)
    assert card_folder(*card_at_hand.compile_target("auto")) == "sm_90"


# Names


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout in which an H200 has tiles 8 and 16, and an H100 has 8 and 32, of two problems."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(card_at_hand, "arch_here", lambda: None)
    made = (("sm_90", "NVIDIA H200", 16, 5.0), ("sm_90_h100", "NVIDIA H100 80GB HBM3", 32, 7.0))
    for folder, device, tile, us in made:
        for problem, each in ((PROBLEM, tile), (Problem(32, 32, 32), 8)):
            source = api.generate(problem, family="naive", BM=each, out=Path("generated") / folder)
            measured(Path("generated") / folder / f"{source.name}.json", device, us)
    return tmp_path / "generated"


def measured(path: Path, device: str, us: float) -> None:
    """Have the record say so."""
    record = json.loads(path.read_text())
    verdict = {"executor": "gpu", "passed": True, "examples": 20, "sampled": 0}
    time = {"kind": "measured", "us": us, "tflops": 1 / us, "gbs": 1.0}
    limits = {"card": device, "ffma_tflops": 66.0, "dfma_tflops": 33.0, "read_gbs": 1.0, "copy_gbs": 1.0, "date": ""}
    beside = {
        "ours": time,
        "speedup": 10 / us,
        "limits": limits,
        "card": device,
        "date": "2026-11-26",
        "moving_us": 1.0,
    }
    bench = {**beside, "cublaslt": {"version": "cuBLASLt 13.1", "us": 10.0, "tflops": 0.1}}
    path.write_text(json.dumps({**record, "device": device, "time": time, "verification": verdict, "bench": bench}))


def test_a_name_means_the_kernel_of_the_card_at_hand_else_of_the_first(two: Path) -> None:
    for card, tile in ((H200, 16), (H100, 32), (reported("NVIDIA GH200 480GB"), 16), (DEVICES["T4"], 16)):
        assert find_kernel(NAME, OUT, card).source.config["BM"] == tile, card.name
    shared = "gemm_f32_rr_32x32x32"
    for card, folder in ((H200, "sm_90"), (H100, "sm_90_h100")):
        found = find_kernel(shared, OUT, card)
        assert found.path is not None and found.path.parent.name == folder
        assert found.card == DEVICES["H200" if folder == "sm_90" else "H100"]


def test_a_rung_is_that_of_the_card_at_hand(two: Path) -> None:
    for path in two.glob(f"*/{NAME}*.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "rung": {"number": 1, "title": "naive"}}))
    for card, tile in ((H200, 16), (H100, 32), (DEVICES["T4"], 16)):
        found = find_rung("naive", OUT, card)
        assert found is not None and found.source.config["BM"] == tile
    assert find_rung("no such rung", OUT, H200) is None


def test_explain_takes_the_card_of_the_record(two: Path) -> None:
    (theirs,) = two.glob(f"sm_90_h100/{NAME}*.cu")
    assert api.explain(theirs).device == DEVICES["H100"]
    assert api.explain(theirs, arch="sm_90").device == DEVICES["H200"]


# Texts that cards share

SHARED = "gemm_f32_rr_32x32x32"


def other_text(path: Path) -> str:
    """The text of the kernel at `path` with another comment."""
    return f"// edited\n{path.read_text()}"


def write_edited(path: Path) -> str:
    """Write another text of the kernel at `path`, as a search by other templates does; returns what it was."""
    kernel, before = read_kernel(path), path.read_text()
    edited = replace(kernel.source, text=other_text(path))
    write_kernel(edited, {**(kernel.record or {}), "sha256": edited.digest}, path.parent)
    return before


def test_a_text_that_cards_share_is_on_file_once(two: Path) -> None:
    (text,) = two.glob(f"*/{SHARED}*.cu")
    assert text.parent.name == "sm_90" and len([*two.glob(f"*/{SHARED}*.json")]) == 2
    theirs = two / "sm_90_h100" / text.name
    assert text_path(theirs) == text and theirs in kernel_paths(theirs.parent)
    for path, device in ((text, "NVIDIA H200"), (theirs, "NVIDIA H100 80GB HBM3")):
        for kernel in (read_kernel(path), find_kernel(str(path.with_suffix(".json")), OUT, H200)):
            assert kernel.source.text == text.read_text() and kernel.path == path
            assert kernel.record is not None and kernel.record["device"] == device
    write_readmes(two)
    assert f"](../sm_90/{text.name})" in (theirs.parent / "README.md").read_text()
    assert check(two) == []


def test_a_card_keeps_its_text_when_the_other_has_another(two: Path) -> None:
    (text,) = two.glob(f"*/{SHARED}*.cu")
    theirs = two / "sm_90_h100" / text.name
    before = write_edited(text)
    assert theirs.read_text() == before != text.read_text()
    assert read_kernel(theirs).source.text == before
    write_edited(theirs)
    assert not theirs.exists() and read_kernel(theirs).source.text == text.read_text(), "equal again"


def test_the_first_card_takes_the_text_that_another_had_alone(two: Path) -> None:
    (theirs,) = two.glob(f"sm_90_h100/{NAME}*.cu")
    kernel = read_kernel(theirs)
    write_kernel(kernel.source, kernel.record or {}, two / "sm_90")
    assert not theirs.exists() and read_kernel(theirs).source == kernel.source


def test_a_card_keeps_its_text_when_the_other_has_none_any_more(two: Path) -> None:
    (text,) = two.glob(f"*/{SHARED}*.cu")
    theirs, before = two / "sm_90_h100" / text.name, text.read_text()
    remove_kernel(text)
    assert not text.exists() and not text.with_suffix(".json").exists()
    assert read_kernel(theirs).source.text == before


@pytest.mark.parametrize("damage", ["missing", "edited"])
def test_a_shared_text_that_is_not_what_the_record_says_is_told_with_both_files(
    two: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (text,) = two.glob(f"*/{SHARED}*.cu")
    theirs = two / "sm_90_h100" / text.with_suffix(".json").name
    write_readmes(two)
    if damage == "missing":
        text.unlink()
    else:
        text.write_text(other_text(text))
    for command in ("explain", "verify"):
        assert main([command, str(theirs)]) == 2
        said = capsys.readouterr().err
        assert str(theirs) in said and str(text) in said
    refused: list[str] = []
    assert theirs.stem not in {
        kernel.source.name for kernel in kernels_in(theirs.parent, lambda it: refused.append(str(it)))
    }
    assert len(refused) == 1 and str(theirs) in refused[0] and str(text) in refused[0]
    assert any(str(theirs) in one.reason and str(text) in one.reason for one in check(two))


def test_templates_that_change_rewrite_a_shared_text_once(two: Path, tmp_path: Path) -> None:
    (text,) = two.glob(f"*/{SHARED}*.cu")
    theirs, today = two / "sm_90_h100" / text.name, text.read_text()
    for path in (text, theirs):  # as templates of old rendered it
        write_edited(path)
    rerender(two, Store(tmp_path))
    write_readmes(two)
    assert text.read_text() == today and not theirs.exists() and check(two) == []


# Bench


class Searched(Exception):
    """Ends a search that is played."""


class Card:
    """Plays a card on which every kernel takes 4 us, and cuBLASLt 10."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, spec: DeviceSpec) -> None:
        executor: Any = nullcontext()
        executor.name, executor.description = "gpu", f"NVIDIA {spec.name} (sm_90)"
        self.spec, self.verified = spec, 0
        self.start: list[int] = []  # tiles that the last search started with
        self.target: Any = SimpleNamespace(gpu=executor, executor=executor, spec=spec, arch="sm_90")
        monkeypatch.setattr(bench, "compare", self._compare)
        monkeypatch.setattr(bench, "verify", self._verify)
        monkeypatch.setattr(bench, "tune", self._tune)

    def bench(self, *wanted: Problem | KernelFile) -> tuple[BenchRow, ...]:
        return bench.measure_all(wanted, self.target, Store(Path("store")), OUT, "gemmgen bench", Progress())

    def _compare(self, kernels: list[KernelFile], *_: Any) -> list[BenchRow]:
        limits = MeasuredLimits(f"NVIDIA {self.spec.name}", 66.0, 33.0, 4400.0, 3800.0, "2026-11-26")
        ours, theirs = Timing((4.0,), {}), Timing((10.0,), {})
        baseline = Baseline(0, 8, theirs, theirs, "cuBLASLt 13.1")
        case = representative(kernels[0].source.problem)
        return [BenchRow(kernel, case, limits.card, ours, baseline, limits, ours) for kernel in kernels]

    def _verify(self, *_: Any, **__: Any) -> Verdict:
        self.verified += 1
        return Verdict("gpu", 20, 0, 0.1)

    def _tune(self, *_: Any, start: Sequence[tuple[Family, Config]], **__: Any) -> None:
        self.start = [config.values["BM"] for _, config in start]
        raise Searched


def test_the_winner_on_file_is_the_cards_own(two: Path) -> None:
    for card, tile in ((H200, 16), (H100, 32)):
        found = bench.winner_on_file(PROBLEM, "sm_90", card, OUT)
        assert found is not None and found.source.config["BM"] == tile
    assert bench.winner_on_file(PROBLEM, "sm_90", reported("NVIDIA H100 PCIe", sms=114), OUT) is None
    source = api.generate(PROBLEM, family="naive", BM=8, out=OUT)
    measured(OUT / f"{source.name}.json", "NVIDIA H200", 0.1)
    found = bench.winner_on_file(PROBLEM, "sm_90", H100, OUT)
    assert found is not None and found.source.config["BM"] == 32, "faster, and on another card"


def test_a_search_starts_with_what_cards_of_the_architecture_have(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch, reported("NVIDIA GH200 480GB"))
    with pytest.raises(Searched):
        card.bench(PROBLEM)
    assert card.start == [16, 32]


@pytest.mark.parametrize(("at_hand", "kept"), [(H200, True), (H100, False)], ids=["its own", "another"])
def test_a_result_goes_into_no_record_of_another_card(
    two: Path, monkeypatch: pytest.MonkeyPatch, at_hand: DeviceSpec, kept: bool
) -> None:
    (path,) = two.glob(f"sm_90/{NAME}*.json")
    for record in (path.read_text(), unmeasured(path)):
        path.write_text(record)
        card = Card(monkeypatch, at_hand)
        (row,) = card.bench(read_kernel(path.with_suffix(".cu")))
        assert row.speedup == 2.5 and (path.read_text() != record) is kept
        assert kept or card.verified == 1, "passed on another card alone"


def unmeasured(path: Path) -> str:
    """As a change of its machine code leaves it."""
    return json.dumps({**json.loads(path.read_text()), "time": None, "verification": None, "bench": None})


# The page


def test_the_report_keeps_cards_apart(two: Path) -> None:
    page = collect([two], two, None, Progress())
    assert [one.card for one in page.results] == ["H200", "H100 80GB HBM3"]
    assert [one.ratios.problems for one in page.results] == [2, 2]
    ratios = [[dot.ratio for strip in one.ratios.strips for dot in strip.dots] for one in page.results]
    assert ratios == [[2.0, 2.0], [10 / 7, 10 / 7]]
    assert "H100" not in page.results[0].ratios.measured and "H200" not in page.results[1].ratios.measured
    assert len(page.kernels) == 4 and len({card.anchor for card in page.kernels}) == 4
    assert {plot.device for plot in page.rooflines} == {"H200", "H100"}
    dots = {dot.kernel for one in page.results for strip in one.ratios.strips for dot in strip.dots}
    assert dots == {card.anchor for card in page.kernels}
