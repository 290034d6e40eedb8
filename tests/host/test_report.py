"""The page of `gemmgen report`: well-formed, whole without a network, its links resolve, its plots say what is."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import gemmgen as api
from gemmgen.cli import main
from gemmgen.exports.kernelfile import KernelFile
from gemmgen.families import NAIVE
from gemmgen.lab import api as lab_api
from gemmgen.lab.report.measured_on import measuring_cards
from gemmgen.lab.report.page import Page, collect
from gemmgen.lab.report.ratios import RADIUS, ratio_plot
from gemmgen.lab.report.scale import LogScale
from gemmgen.lab.scores import scores_in
from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Compute, Types
from gemmgen.render.kernel_text import render
from gemmgen.run.gpu.timing import Conditions
from gemmgen.search.trial import Progress
from gemmgen.support.errors import GemmgenError, InvalidInput

REPOSITORY = Path(__file__).parents[2]
VOID = {"meta", "input", "link", "br", "hr", "img"}
PROBLEM = Problem(512, 512, 512)
HOSTILE = "<script>alert('x')</script> & \"quoted\""


class Document(HTMLParser):
    """Reads a page strictly: every element is closed in its order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], "elements that are never closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def values(self, attribute: str) -> list[str]:
        return [str(attrs[attribute]) for _, attrs in self.found if attribute in attrs]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few kernels on file, one in a folder of its own."""
    root = tmp_path_factory.mktemp("kernels")
    for tile in (8, 16):
        api.generate(Problem(64, 96, 32), family="naive", BM=tile, out=root / "sm_90")
    api.generate(PROBLEM, family="simt", out=root)
    return root


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Page]:
    """The page of the repository's own kernels; of those of an sm_90, which are most, a ladder and the studies."""
    root = tmp_path_factory.mktemp("generated")
    for folder in (REPOSITORY / "generated").iterdir():
        if folder.name != "sm_90":
            (root / folder.name).symlink_to(folder)
    (root / "sm_90").mkdir()
    for pattern in ("gemm_f32_rr_1024x1024x1024_*", "study_*"):
        for path in (REPOSITORY / "generated" / "sm_90").glob(pattern):
            (root / "sm_90" / path.name).symlink_to(path)
    to = tmp_path_factory.mktemp("page") / "report.html"
    return to, lab_api.report(root, to=to)


def test_the_page_is_whole_and_asks_for_nothing_elsewhere(gallery: tuple[Path, Page]) -> None:
    to, page = gallery
    text = to.read_text()
    document = Document(text)
    assert [name for name, count in Counter(document.values("id")).items() if count > 1] == []
    assert not [tag for tag, attrs in document.found if "src" in attrs or tag in ("link", "iframe", "object")]
    elsewhere = text.replace("http://www.w3.org/2000/svg", "")
    assert "://" not in elsewhere and "@import" not in elsewhere and "url(" not in elsewhere
    assert text.count('<article class="kernel"') == len(page.kernels) > 150


def test_every_link_of_the_page_leads_somewhere(gallery: tuple[Path, Page]) -> None:
    to, page = gallery
    document = Document(to.read_text())
    ids, links = set(document.values("id")), set(document.values("href"))
    assert {link for link in links if link.startswith("#") and link[1:] not in ids} == set()
    assert {link for link in links if not link.startswith("#") and not (to.parent / link).is_file()} == set()
    assert {f"#{card.anchor}" for card in page.kernels} <= links


def test_everything_can_be_reached_and_read_without_a_mouse(gallery: tuple[Path, Page]) -> None:
    document = Document(gallery[0].read_text())
    html = [attrs for tag, attrs in document.found if tag == "html"]
    assert html == [{"lang": "en"}]
    assert next(attrs["href"] for tag, attrs in document.found if tag == "a") == "#main"
    pictures = [attrs for tag, attrs in document.found if tag == "svg"]
    assert pictures and all(attrs.get("role") == "img" for attrs in pictures)


def test_the_same_kernels_make_the_same_page(folder: Path, tmp_path: Path) -> None:
    pages = []
    for name in ("a", "b"):
        lab_api.report(folder, to=tmp_path / f"{name}.html")
        pages.append((tmp_path / f"{name}.html").read_bytes())
    assert pages[0] == pages[1]


def test_kernels_that_were_not_measured_are_said_to_be_predicted(folder: Path, tmp_path: Path) -> None:
    page = collect([folder], tmp_path, None, Progress())
    assert len(page.kernels) == 3 and page.results == ()
    assert {card.time[2] for card in page.kernels} == {"predicted"}
    assert not any(point.measured for plot in page.rooflines for point in plot.points)


def test_an_instruction_of_several_rates_is_told_by_its_types(tmp_path: Path) -> None:
    for types, compute in (("bf16", "fma"), ("f32", "tf32"), ("s8,s8,s32", "fma")):
        problem = Problem(256, 256, 256, types=Types.parse(types, Compute.parse(compute)), layout="rc")
        api.generate(problem, family="wgmma", arch="sm_90", out=tmp_path)
    (plot,) = collect([tmp_path], tmp_path, None, Progress()).rooflines
    names = [ceiling.text.rpartition(" ")[0] for ceiling in plot.ceilings]
    assert names == ["HGMMA f32 tf32", "HGMMA bf16", "IGMMA"]


def test_what_a_json_says_is_text_and_no_markup(folder: Path, tmp_path: Path) -> None:
    path = next(folder.glob("*.json"))
    before = path.read_text()
    path.write_text(json.dumps({**json.loads(before), "command": HOSTILE}))
    try:
        lab_api.report(folder, to=tmp_path / "page.html")
    finally:
        path.write_text(before)
    text = (tmp_path / "page.html").read_text()
    assert HOSTILE in "".join(Document(text).text) and HOSTILE not in text


def test_a_kernel_that_was_edited_says_so(folder: Path, tmp_path: Path) -> None:
    path = next((folder / "sm_90").glob("*.cu"))
    before = path.read_text()
    path.write_text(before + "// mine\n")
    try:
        page = collect([folder], tmp_path, None, Progress())
    finally:
        path.write_text(before)
    (edited,) = [card for card in page.kernels if card.checks[0][0] == "edited"]
    assert edited.name == path.stem


def test_the_command_writes_it_and_says_where(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = tmp_path / "deep" / "page.html"
    assert main(["report", str(folder), "--to", str(to)]) == 0
    assert capsys.readouterr().out == f"{to}: 3 kernels\n" and to.is_file()
    assert main(["report", str(folder), "--to", str(to), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["kernels"]) == 3


@pytest.mark.parametrize(
    "evidence",
    [
        {"verification": 1.5},
        {"verification": {"passed": True}},
        {"time": {"kind": "measured"}},
        {"sanitizers": [{}]},
        {"family": "nope"},
        {"config": {"BM": 10**30}},
        {"problem": 3},
        {"bench": {"speedup": -1.0}},
    ],
)
def test_a_kernel_whose_record_cannot_be_shown_is_named_and_the_others_are_shown(
    tmp_path: Path, evidence: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    for tile in (8, 16):
        source = api.generate(Problem(64, 96, 32), family="naive", BM=tile, out=tmp_path)
    path = tmp_path / f"{source.name}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **evidence}))
    to = tmp_path / "page.html"
    assert main(["report", str(tmp_path), "--to", str(to)]) == 1
    captured = capsys.readouterr()
    assert captured.out == f"{to}: 1 kernel\n" and captured.err.startswith(str(path))
    assert to.read_text().count('<article class="kernel"') == 1


@pytest.mark.parametrize(("name", "code", "words"), [("missing", 2, "is no folder"), ("empty", 1, "no kernel")])
def test_a_folder_without_kernels_is_refused(
    name: str, code: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["report", str(tmp_path / name), "--to", str(tmp_path / "page.html")]) == code
    assert words in capsys.readouterr().err and not (tmp_path / "page.html").exists()


def test_every_measured_ratio_is_a_dot_where_its_axis_says() -> None:
    scores = [score for score in scores_in(REPOSITORY / "generated" / "sm_90") if score.ratio]
    plot = ratio_plot(scores)
    assert plot is not None and plot.problems == len(scores)
    dots = [dot for strip in plot.strips for dot in strip.dots]
    assert sorted(dot.ratio for dot in dots) == sorted(score.ratio for score in scores if score.ratio)
    assert all((dot.x < plot.parity) == dot.slower for dot in dots)
    assert all(plot.frame.left < dot.x < plot.frame.right for dot in dots)
    for strip in plot.strips:
        assert strip.least == min(dot.ratio for dot in strip.dots), "the worst row is named"
        assert all(abs(dot.y - strip.y) + RADIUS <= plot.frame.row / 2 for dot in strip.dots)


def test_a_logarithmic_axis_keeps_ratios() -> None:
    scale = LogScale(0.5, 8.0, 100.0, 500.0)
    assert [round(scale.at(value)) for value in (0.5, 1, 2, 4, 8)] == [100, 200, 300, 400, 500]
    assert [tick.text for tick in scale.ticks()] == ["0.5", "1", "2", "5"]
    falling: dict[str, Any] = {"low": 2.0, "high": 1.0, "start": 0.0, "end": 1.0}
    with pytest.raises(InvalidInput, match=r"from 2\.0 to 1\.0"):
        LogScale(**falling)


def test_studies_on_file_lead_to_their_kernels(gallery: tuple[Path, Page]) -> None:
    _, page = gallery
    (ladder,) = [one for one in page.ladders if one.title.startswith("1024x1024x1024 f32 rr on H200, one idea")]
    assert len(page.ladders) == len(list((REPOSITORY / "generated").glob("*/study_*.json")))
    assert [rung.label for rung in ladder.rungs if rung.kernel is None] == ["cuBLAS"]
    titles = {card.anchor: card.explanation.kernel.record or {} for card in page.kernels}
    assert all(titles[rung.kernel]["rung"]["title"] == rung.label for rung in ladder.rungs if rung.kernel)
    assert all(0 < rung.length <= ladder.frame.right - ladder.frame.left for rung in ladder.rungs)


def test_a_study_that_cannot_be_read_is_passed_over(folder: Path, tmp_path: Path) -> None:
    path = folder / "study_ladder_f32_rr_8x8x8.json"
    path.write_text('{"study": "ladder"}')
    try:
        assert collect([folder], tmp_path, None, Progress()).ladders == ()
    finally:
        path.unlink()


def test_an_exported_kernel_comes_with_its_certificate(tmp_path: Path) -> None:
    source = api.generate(Problem(64, 96, 32), family="naive")
    exported = api.export(source, to=tmp_path / "vendored", examples=0)
    page = collect([tmp_path], tmp_path, None, Progress())
    (card,) = page.kernels
    assert card.checks == () and card.certified is not None and card.certified.path in exported.files
    assert any("nothing was run" in one for one in card.certified.not_shown)
    names = [name for name, _ in card.files]
    assert names == [f"{source.name}.cu", f"{source.name}.certificate.json"]
    lab_api.report(tmp_path, to=tmp_path / "page.html")
    assert "that it is right: nothing was run for this certificate" in (tmp_path / "page.html").read_text()
    (tmp_path / "vendored" / names[1]).write_text("{}")
    with pytest.raises(GemmgenError, match="no kernel"):
        collect([tmp_path], tmp_path, None, Progress())


def test_the_folders_of_this_checkout_are_taken_where_none_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report"]) == 2
    assert "there is neither gemmgen-out nor generated here" in capsys.readouterr().err
    (tmp_path / "generated").symlink_to(folder)
    assert main(["report"]) == 0
    assert capsys.readouterr().out == "gemmgen-out/report.html: 3 kernels\n"


def test_paper_is_light_whatever_the_theme(gallery: tuple[Path, Page]) -> None:
    style = gallery[0].read_text().partition("<style>")[2].partition("</style>")[0]
    screen, _, paper = style.partition("@media print")
    grounds = re.findall(r"--ground: (#\w+)", screen)
    assert len(grounds) == 3 and len(set(grounds)) == 2, "light, dark by the system, dark by the button"
    assert re.findall(r"--ground: (#\w+)", paper) == ["#ffffff"]
    assert ":root:root:root" in paper, "more specific than what the screen's themes say"


def test_cards_stand_beside_each_other() -> None:
    """By their UUIDs, with what was recorded while each timed its kernels."""

    def timed(uuid: str, speedup: float, **seen: object) -> KernelFile:
        source = render(Problem(64, 64, 64), NAIVE, NAIVE.default(Problem(64, 64, 64)))
        limits = {"ffma_tflops": 66.0 + speedup, "read_gbs": 4400.0}
        conditions = asdict(Conditions("NVIDIA H200", "580.1", f"host/{uuid}", **seen))  # type: ignore[arg-type]
        return KernelFile(source, {"bench": {"ours": {"conditions": conditions}, "speedup": speedup, "limits": limits}})

    one, other = measuring_cards(
        [
            timed("GPU-2", 1.1),
            timed("GPU-1", 1.0, sm_mhz=1400, temperature_c=60, power_limit_w=700, limited_by=("power",), drift=-0.01),
            timed("GPU-1", 1.21, sm_mhz=1980, temperature_c=55, power_limit_w=700, drift=0.004, repeated=1),
            KernelFile(render(Problem(64, 64, 64), NAIVE, NAIVE.default(Problem(64, 64, 64))), {}),
        ]
    )
    assert (one.uuid, one.kernels, one.sm_mhz, one.temperature_c) == ("GPU-1", 2, (1400, 1980), 60)
    assert one.ffma_tflops == pytest.approx(67.105) and one.read_gbs == 4400
    assert one.ratio == pytest.approx(1.1) and (one.drift, one.repeated, one.limited_by) == (0.01, 1, ("power",))
    assert (other.uuid, other.kernels, other.sm_mhz, other.power_limit_w) == ("GPU-2", 1, None, None)
