"""generated/ is what templates and JSON make of it, and the check notices whatever is not."""

from __future__ import annotations

import hashlib
import json
import shutil
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

import gemmgen as api
from gemmgen.cli import main
from gemmgen.exports.kernelfile import read_kernel
from gemmgen.kernel.source import KernelSource
from gemmgen.lab.gallery import check, folders, moved, readme, rerender, write_readmes
from gemmgen.lab.scores import scores_in
from gemmgen.problem.gemm import Problem
from gemmgen.render.rerender import rendered_again
from gemmgen.support.files import Store

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def gallery(tmp_path: Path) -> Path:
    """Two kernels for one problem, and one for another."""
    root = tmp_path / "generated"
    for tile in (8, 16):
        api.generate(Problem(64, 96, 32), family="naive", BM=tile, out=root / "sm_90")
    api.generate(Problem(32, 32, 32), family="simt", out=root / "sm_90")
    write_readmes(root)
    return root


def test_one_kernel_in_twelve_of_the_repository_is_what_its_templates_render() -> None:
    of_families: dict[str, list[Path]] = {}
    for path in sorted(REPOSITORY.glob("generated/*/*.cu")):
        of_families.setdefault(json.loads(path.with_suffix(".json").read_text())["family"], []).append(path)
    assert {*of_families} >= {"simt", "skinny", "batched", "mma", "wgmma"}
    for path in chain.from_iterable(paths[::12] for paths in of_families.values()):
        kernel = read_kernel(path)
        assert rendered_again(kernel.source, kernel.arch) == kernel.source and not kernel.edited, kernel.path


def test_small_folders_of_the_repository_agree_with_their_templates(tmp_path: Path) -> None:
    """With their pages; those of an sm_90 hold hundreds of kernels."""
    for folder in (REPOSITORY / "generated").iterdir():
        if folder.is_dir() and not folder.name.startswith("sm_90"):
            shutil.copytree(folder, tmp_path / folder.name)
    assert len(folders(tmp_path)) >= 5 and check(tmp_path) == []


@pytest.mark.soak
def test_the_repository_agrees_with_its_templates() -> None:
    assert check(REPOSITORY / "generated") == []


def test_a_fresh_gallery_agrees(gallery: Path) -> None:
    assert check(gallery) == []
    assert main(["gallery", str(gallery), "--check"]) == 0


def test_readme_says_what_is_predicted(gallery: Path) -> None:
    text = (gallery / "sm_90" / "README.md").read_text()
    rows = [line for line in text.splitlines() if ".cu)" in line]
    assert len(rows) == 3
    assert all("predicted" in row for row in rows)


def test_readme_links_to_studies(gallery: Path) -> None:
    folder = gallery / "sm_90"
    (folder / "study_ladder_f32_rr_64x96x32.md").write_text("# The ladder on a card (predicted)\n\nMore.\n")
    assert check(gallery) != []
    write_readmes(gallery)
    assert "- [The ladder on a card (predicted)](study_ladder_f32_rr_64x96x32.md)" in (folder / "README.md").read_text()
    assert check(gallery) == []


def test_studies_name_kernels_as_they_are_called_after_a_change_of_templates(gallery: Path, tmp_path: Path) -> None:
    folder = gallery / "sm_90"
    kernel = sorted(folder.glob("*.cu"))[0]
    former = f"{kernel.stem[:-8]}01234567"
    for path in (kernel, kernel.with_suffix(".json")):
        path.with_stem(former).write_text(path.read_text().replace(kernel.stem, former))
        path.unlink()
    page = folder / "study_ladder_f32_rr_64x96x32.md"
    page.write_text(f"# The ladder\n\n| [naive]({former}.cu) | [{former}_2]({former}.cu) |\n")
    rerender(gallery, Store(tmp_path))
    write_readmes(gallery)
    assert page.read_text() == f"# The ladder\n\n| [naive]({kernel.name}) | [{former}_2]({kernel.name}) |\n"
    assert check(gallery) == []
    page.write_text(f"[naive]({former}.cu)")
    assert f"links to {former}.cu, which is not there" in [one.reason for one in check(gallery)]


def test_folders_go_by_architecture_and_card(tmp_path: Path) -> None:
    for name in ("sm_100", "sm_90", "sm_90_h100", "notes"):
        (tmp_path / name).mkdir()
    assert [folder.name for folder in folders(tmp_path)] == ["sm_90", "sm_90_h100", "sm_100"]


@pytest.mark.parametrize(
    ("folder", "device", "predicted", "measured"),
    [
        ("sm_90", "NVIDIA H200", "Kernels for sm_90", "Kernels for sm_90, measured on an H200"),
        (
            "sm_90_h100",
            "NVIDIA H100 80GB HBM3",
            "Kernels for sm_90, as predicted for an H100",
            "Kernels for sm_90, measured on an H100",
        ),
        (
            "sm_90_gh200_480gb",
            "NVIDIA GH200 480GB",
            "Kernels for sm_90_gh200_480gb",
            "Kernels for sm_90, measured on a GH200 480GB",
        ),
    ],
)
def test_a_page_names_its_card(folder: str, device: str, predicted: str, measured: str, tmp_path: Path) -> None:
    source = api.generate(Problem(64, 96, 32), family="naive", out=tmp_path / folder)
    assert readme(tmp_path / folder).partition("\n")[0] == f"# {predicted}"
    path = tmp_path / folder / f"{source.name}.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "device": device, "time": {**record["time"], "kind": "measured"}}))
    assert readme(tmp_path / folder).partition("\n")[0] == f"# {measured}"
    write_readmes(tmp_path)
    assert check(tmp_path) == []
    path.write_text(json.dumps({**json.loads(path.read_text()), "device": "NVIDIA H300"}))
    write_readmes(tmp_path)
    assert [one.reason for one in check(tmp_path)] == ["was measured on NVIDIA H300, whose records have another folder"]


def test_the_plot_of_ratios_shows_the_worst_rows_and_how_they_were_measured() -> None:
    folder = REPOSITORY / "generated" / "sm_90"
    picture = ElementTree.fromstring((folder / "ratios.svg").read_text())
    text = " ".join(picture.itertext())
    assert "prefers-color-scheme: dark" in text and "cuBLASLt 13" in text and "NVRTC" in text
    worst = min((score for score in scores_in(folder) if score.ratio), key=lambda score: score.ratio or 0)
    assert f"{worst.ratio:.3f}x" in text and f"{worst.problem}" in text
    assert "ratios.svg" in (folder / "README.md").read_text() and "ratios.svg" in (REPOSITORY / "README.md").read_text()


@pytest.mark.parametrize("harm", ["text", "record", "orphan", "readme", "stranger"])
def test_what_disagrees_is_found(gallery: Path, harm: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = gallery / "sm_90"
    kernel = sorted(folder.glob("*.cu"))[0]
    record = kernel.with_suffix(".json")
    if harm == "text":
        kernel.write_text(kernel.read_text() + "\n")
    elif harm == "record":
        fields = json.loads(record.read_text())
        record.write_text(json.dumps({**fields, "launch": {**fields["launch"], "threads": 1}}))
    elif harm == "orphan":
        record.unlink()
    elif harm == "stranger":
        kernel.rename(folder / "mine.cu")
    else:
        (folder / "README.md").write_text("all is well")
    assert main(["gallery", str(gallery), "--check"]) == 1
    assert capsys.readouterr().out != ""


@pytest.mark.parametrize("words", [[], ["--check"], ["--render"]])
def test_a_folder_without_architectures_is_no_gallery(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes").mkdir()
    assert main(["gallery", str(tmp_path), *words]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and f"{tmp_path} holds no folder of an architecture" in captured.err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *[(name, content) for name in ("kernel", "no_kernel", "failed_1x1x1") for content in ("{", "[1]")],
        *[(name, '{"problem": 3}') for name in ("kernel", "failed_1x1x1")],
    ],
)
def test_a_damaged_json_is_named(gallery: Path, name: str, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = gallery / "sm_90"
    path = sorted(folder.glob("*.json"))[0] if name == "kernel" else folder / f"{name}.json"
    path.write_text(content)
    assert main(["gallery", str(gallery)]) == 1
    captured = capsys.readouterr()
    assert captured.out.split() == [str(folder / "README.md")]
    assert captured.err.startswith(f"{path} cannot be read: {path} is not ") and captured.err.count("\n") == 1
    assert main(["gallery", str(gallery), "--check"]) == 1
    assert f"cannot be read: {path} is not " in capsys.readouterr().out
    assert main(["gallery", str(gallery), "--json"]) == 1
    (one,) = json.loads(capsys.readouterr().out)["unreadable"]
    assert one["file"] == str(path)


@pytest.mark.parametrize(
    "evidence",
    [
        {"verification": 1.5},
        {"verification": {"passed": True}},
        {"time": "x"},
        {"time": {"kind": "predicted", "us": "fast", "tflops": 1}},
        {"rung": {"number": 1}},
        {"bench": {"speedup": 1.5}},
    ],
)
def test_a_kernel_whose_record_cannot_be_shown_is_named_and_the_others_are_shown(
    gallery: Path, evidence: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    path = next((gallery / "sm_90").glob("*_32x32x32_*.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), **evidence}))
    for words in ([], ["--render"]):
        assert main(["gallery", str(gallery), *words]) == 1
        assert capsys.readouterr().err.startswith(f"{path} cannot be read: {path}")
        rows = (gallery / "sm_90" / "README.md").read_text()
        assert rows.count(".cu)") == 2 and path.stem not in rows
    assert main(["gallery", str(gallery), "--check"]) == 1
    assert f"cannot be read: {path}" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--check"], ["--render"]])
def test_a_config_that_cannot_be_rendered_is_told_with_its_file(
    gallery: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = next((gallery / "sm_90").glob("*_32x32x32_*.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "config": {"BM": 0}}))
    assert main(["gallery", str(gallery), *words]) == (1 if words == ["--check"] else 2)
    captured = capsys.readouterr()
    assert path.stem in captured.out + captured.err and "BM >= 1" in captured.out + captured.err


def test_a_record_from_before_an_axis_is_brought_up_to_date(gallery: Path) -> None:
    path = next((gallery / "sm_90").glob("*_32x32x32_*.json"))
    record = json.loads(path.read_text())
    del record["config"]["MINB"]  # which every name states
    path.write_text(json.dumps({**record, "date": "then"}))
    assert any("a JSON that disagrees" in one.reason for one in check(gallery))
    assert main(["gallery", str(gallery), "--render"]) == 0
    assert check(gallery) == []
    renewed = json.loads(path.read_text())
    assert renewed["config"]["MINB"] == 1 and renewed["date"] == "then"


@pytest.mark.parametrize(("older", "compiled"), [("// an older header\n", 0), ("int i;\n", 2)])
def test_what_was_verified_stands_with_the_machine_code_but_not_coverage_that_is_none_of_its_text(
    gallery: Path, monkeypatch: pytest.MonkeyPatch, older: str, compiled: int
) -> None:
    """If only comments differ, nothing needs to be compiled."""
    path = next((gallery / "sm_90").glob("*_32x32x32_*.cu"))
    record = json.loads(path.with_suffix(".json").read_text())
    path.write_text(older + path.read_text())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    emulated = {"executor": "emulator", "passed": True, "examples": 20}
    elsewhere = {"branches": 4, "untaken": [{"line": 1, "text": "no < condition", "outcome": True}], "lines": []}
    verified = {**record, "sha256": digest, "emulator": {**emulated, "coverage": elsewhere}}
    path.with_suffix(".json").write_text(json.dumps(verified))
    texts: list[str] = []

    def compile_kernel(source: KernelSource, *_: object) -> SimpleNamespace:
        texts.append(source.text)
        return SimpleNamespace(cubin=b"", registers=32)

    monkeypatch.setattr("gemmgen.lab.gallery.compile_kernel", compile_kernel)
    monkeypatch.setattr("gemmgen.lab.gallery.same_machine_code", lambda one, other: True)
    assert main(["gallery", str(gallery), "--render"]) == 0
    assert check(gallery) == []
    assert json.loads(path.with_suffix(".json").read_text())["emulator"] == emulated
    assert len(texts) == compiled


def test_coverage_moves_with_its_lines() -> None:
    before = "void k(int n)\n{\n    if (n > 3) {\n        n = 3;\n    }\n    while (n < 9) ++n;\n}\n"
    now = "// New.\n" + before.replace("{\n    if", "{\n    // Few.\n    if")
    never = {"line": 6, "text": "n < 9", "outcome": False}
    coverage = {"branches": 4, "untaken": [never], "lines": [[3, 5]], "unreachable": [], "taken": 3}
    verdict = {"passed": True, "coverage": coverage}
    there = moved(verdict, before, now)["coverage"]
    assert there == {**coverage, "untaken": [{**never, "line": 8}], "lines": [[5, 7]]}
    assert moved(verdict, before, now.replace("n < 9", "n < 8")) == {"passed": True}, "another condition"
