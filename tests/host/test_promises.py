"""What only the JSON beside a kernel promises: shown where nothing contradicts it, refused where header or name do."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gemmgen.cli import main
from gemmgen.cli.reports.verify import show_verdict
from gemmgen.exports.json_records import kernel_document
from gemmgen.exports.kernelfile import KernelFile, read_kernel
from gemmgen.exports.stated_contract import only_promised
from gemmgen.exports.writing import write_kernel
from gemmgen.kernel.source import CONFIG, KernelSource
from gemmgen.render.kernel_text import render
from gemmgen.render.naming import parse_name
from gemmgen.support.errors import Failure, InvalidInput
from gemmgen.verification.comparison import Mismatch
from gemmgen.verification.verifier import Verdict

SOURCE = render(*parse_name("gemm_f32_rr_MxNx40_naive_8x8"))
BATCH = render(*parse_name("gemm_f32_rr_b3_4x5x6_naive_8x8"))


def without_header(source: KernelSource) -> KernelSource:
    """Its text without the line that has its full name, as an edit may leave it."""
    return replace(source, text="".join(line for line in source.text.splitlines(True) if not line.startswith(CONFIG)))


def written(source: KernelSource, folder: Path, change: Callable[[dict[str, Any]], object] = lambda _: None) -> Path:
    """The `.cu` of `source`, beside a JSON that `change` edited."""
    record = {**kernel_document(source), "arch": "sm_90"}
    change(record)
    return write_kernel(source, record, folder)[0]


CONTRADICTIONS: dict[str, tuple[KernelSource, dict[str, Any], str, str]] = {
    "a leading dimension that 4 divides": (SOURCE, {"ld_align": 4}, "f32_rr_MxNx40_la4", "f32_rr_MxNx40"),
    "addresses that 8 divides": (SOURCE, {"pointer_align": 8}, "f32_rr_MxNx40_pa8", "f32_rr_MxNx40"),
    "a size": (SOURCE, {"m": 64}, "f32_rr_64xNx40", "f32_rr_MxNx40"),
    "another shape": (BATCH, {"m": 6, "k": 4}, "f32_rr_b3_6x5x4", "f32_rr_b3_4x5x6"),
    "a line": (SOURCE, {"ldb": "?"}, "f32_rr_MxNx40_ldb", "f32_rr_MxNx40"),
    "another layout": (SOURCE, {"layout": "rc"}, "f32_rc_MxNx40", "f32_rr_MxNx40"),
    "fewer products": (BATCH, {"batch": 1}, "f32_rr_4x5x6", "f32_rr_b3_4x5x6"),
    "one matrix for all products": (BATCH, {"stride_b": 0}, "f32_rr_b3_4x5x6_sb0", "f32_rr_b3_4x5x6"),
    "an epilogue": (SOURCE, {"epilogue": "relu(alpha * acc)"}, "f32_rr_MxNx40_", "f32_rr_MxNx40"),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_a_json_of_another_problem_is_named_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    source, fields, said, stated = CONTRADICTIONS[case]
    path = written(source, tmp_path, lambda record: record["problem"].update(fields))
    assert main(("verify", str(path), "--device", "emulator")) == 2, "before anything runs"
    error = capsys.readouterr().err
    assert f"{path.with_suffix('.json')} describes another problem than the kernel {source.name}: {said}" in error
    assert f"says {stated}." in error and "Traceback" not in error


def test_a_header_of_another_problem_is_refused_as_well(tmp_path: Path) -> None:
    text = SOURCE.text.replace(f"{CONFIG}gemm_f32_rr_MxNx40_naive", f"{CONFIG}gemm_f32_rr_MxNx40_la4_naive")
    with pytest.raises(InvalidInput, match=r": f32_rr_MxNx40, where .* says f32_rr_MxNx40_la4"):
        read_kernel(written(replace(SOURCE, text=text), tmp_path))


def test_where_the_header_is_gone_the_name_counts(tmp_path: Path) -> None:
    path = written(without_header(SOURCE), tmp_path, lambda record: record["problem"].update(m=64))
    short = SOURCE.name.replace("MxNx40", "64xNx40")
    with pytest.raises(InvalidInput, match=f"f32_rr_64xNx40, whose kernels are called {short}"):
        read_kernel(path)


def test_nothing_is_promised_that_the_header_says(tmp_path: Path) -> None:
    assert read_kernel(written(SOURCE, tmp_path)).only_promised == ()
    assert only_promised(SOURCE.renamed("theirs")) == (), "the header says it, whatever the name"
    assert KernelFile(without_header(SOURCE)).only_promised == (), "no JSON, no promise"


PROMISES: dict[str, tuple[KernelSource, Callable[[dict[str, Any]], object], tuple[str, ...]]] = {
    "alignment that a short name leaves out": (
        without_header(SOURCE),
        lambda record: record["problem"].update(ld_align=4, pointer_align=8),
        ("pointer_align = 8", "ld_align = 4"),
    ),
    "a distance": (without_header(BATCH), lambda record: record["problem"].update(lda=8), ("lda = 8",)),
    "all of it, under a name that says nothing": (
        without_header(SOURCE.renamed("theirs")),
        lambda record: record["problem"].update(ld_align=4),
        ("f32_rr_MxNx40_la4",),
    ),
    "the launch": (
        SOURCE,
        lambda record: record["launch"].update(threads=128, shared_bytes=1024),
        ("threads = 128 (gemmgen launches it with 64)", "shared_bytes = 1024 (gemmgen launches it with 0)"),
    ),
    "what is passed": (
        BATCH,
        lambda record: record["parameters"].reverse(),
        ("parameters beta, alpha, C, B, A (gemmgen passes A, B, C, alpha, beta)",),
    ),
}


@pytest.mark.parametrize("case", PROMISES)
def test_what_only_the_json_promises_is_shown(tmp_path: Path, case: str) -> None:
    source, change, promised = PROMISES[case]
    kernel = read_kernel(written(source, tmp_path, change))
    assert kernel.only_promised == promised
    console = Console(width=400, record=True)
    show_verdict(console, kernel, Verdict("emulator", 8, 0, 0.5), "gemmgen verify", None)
    assert f"judged under {', '.join(promised)}, which only its JSON promises" in console.export_text()


def test_the_first_wrong_element_is_one_of_the_output_that_is_wrong(tmp_path: Path) -> None:
    wrong = Mismatch(5, 0, 1.0, 2.0, 1.0, 0.0, 3, matrix=2, output="row_amax")
    failed = Verdict("emulator", 1, 0, math.inf, Failure("wrong", str(wrong), "verifier"), mismatch=wrong)
    console = Console(width=400, record=True)
    show_verdict(console, read_kernel(written(SOURCE, tmp_path, lambda _: None)), failed, "gemmgen verify", None)
    assert "row_amax of matrix 2: row_amax[5][0] of 3 wrong elements" in console.export_text()


def test_a_json_that_launches_otherwise_what_gemmgen_renders_is_at_fault(tmp_path: Path) -> None:
    crash = Verdict("emulator", 1, 0, math.inf, Failure("crash", "thread 64 reads outside A", "emulator"))

    def shown(kernel: KernelFile) -> str:
        console = Console(width=400, record=True)
        show_verdict(console, kernel, crash, "gemmgen verify", None)
        return console.export_text()

    def launched(source: KernelSource, threads: int, folder: str) -> KernelFile:
        (tmp_path / folder).mkdir()
        return read_kernel(written(source, tmp_path / folder, lambda one: one["launch"].update(threads=threads)))

    wrong = launched(SOURCE, 128, "wrong")
    assert wrong.launch_is_wrong
    assert "FAIL  its JSON, whose launch is not that of the text: crash, after 1 situation" in shown(wrong)
    assert "threads = 128 (gemmgen launches it with 64): `gemmgen generate` writes the JSON anew" in shown(wrong)
    older = render(*parse_name("gemm_f32_rr_MxNx40_naive_8x8"), arch="sm_80")
    assert launched(older, 128, "of an older architecture").launch_is_wrong
    edited = replace(SOURCE, text=SOURCE.text.replace("float acc = 0.0f;", "float acc = 1.0f;"))
    for kernel in (launched(SOURCE, 64, "right"), launched(edited, 128, "edited"), KernelFile(SOURCE)):
        assert not kernel.launch_is_wrong, "an edit may want another launch"
        assert "FAIL  crash, after 1 situation" in shown(kernel)


def test_a_certificate_of_another_problem_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = written(SOURCE, tmp_path)
    assert main(("export", str(kernel), "--to", str(tmp_path / "out"), "--examples", "0")) == 0
    path = tmp_path / "out" / f"{SOURCE.name}.certificate.json"
    record = json.loads(path.read_text())
    record["problem"]["ld_align"] = 4
    path.write_text(json.dumps(record))
    assert main(("verify", "--certificate", str(path))) == 2
    error = capsys.readouterr().err
    assert str(path) in error and "f32_rr_MxNx40_la4, where the kernel's header or name says f32_rr_MxNx40." in error


def test_the_json_of_verify_has_what_only_its_json_promises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = Verdict("emulator", 8, 0, 0.5)
    monkeypatch.setattr("gemmgen.cli.verify.property_test", lambda *_, **__: passes)
    monkeypatch.setattr("gemmgen.cli.verify.check_cuda", lambda *_: None)
    path = written(without_header(SOURCE), tmp_path, lambda record: record["problem"].update(ld_align=4))
    assert main(("verify", str(path), "--device", "emulator", "--json")) == 0
    assert json.loads(capsys.readouterr().out)["only_promised"] == ["ld_align = 4"]
