"""Export with a certificate and its check from scratch, where kernels really run."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gemmgen.cli import main
from gemmgen.exports.kernelfile import source_from_record
from gemmgen.render.kernel_text import render
from gemmgen.render.naming import parse_name
from gemmgen.search.candidate_verdicts import EXAMPLES

FULL = "gemm_f32_rr_MxNx40_naive_8x8"
NAME = render(*parse_name(FULL)).name
CHECK = ("verify", "--examples", "5", "--seed", "3", "--certificate")  # five of the check's own

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in `tmp_path`; returns its exit code and standard output."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)

    def run_words(*words: str) -> tuple[int, str]:
        code = main(words)
        return code, capsys.readouterr().out

    return run_words


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Path:
    """A kernel exported with 19 situations."""
    folder, shown = tmp_path_factory.mktemp("exported"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(shown):
        patch.setenv("XDG_CACHE_HOME", str(shared_cache))
        patch.chdir(folder)
        words = ("export", FULL, "--to", "out", "--examples", "19", "--seed", "7", "--device", "emulator")
        assert main(words) == 0
    assert "PASS" in shown.getvalue() and "the same bits in 10 runs" in shown.getvalue()
    return folder / "out"


@pytest.fixture
def certificate(exported: Path, tmp_path: Path) -> Path:
    """That of `exported`, in a folder of the test's own."""
    shutil.copytree(exported, tmp_path / "out")
    return tmp_path / "out" / f"{NAME}.certificate.json"


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def test_a_certificate_says_what_ran_and_stands(run: Run, certificate: Path) -> None:
    record = json.loads(certificate.read_text())
    verification = record["verification"]
    assert verification["passed"] and (verification["examples"], verification["seed"]) == (19, 7)
    assert verification["determinism"]["same_bits"] and verification["determinism"]["runs"] == 10
    assert verification["domain"]["sizes"]["K"] == [40, 40]
    assert 0 < verification["errors"]["quantiles"]["0.5"] < verification["worst_error_over_bound"] <= 1
    assert record["executor"]["name"] == "emulator" and "--std=c++17" in record["executor"]["flags"]
    assert record["certified"]["examples"] == 19 and len(record["generator"]["digest"]) == 64
    assert "that it is right on a GPU: none ran it" in record["not_shown"]
    code, out = run(*CHECK, str(certificate))
    assert code == 0 and "STANDS" in out
    assert re.search(r"PASS  19 situations \(\d+ of them on 4 random tiles of the grid\) on the emulator, seed 7", out)
    assert "same executor, compiler, machine and gemmgen" in out and "renders the same text" in out
    document = json.loads(run(*CHECK, str(certificate), "--json")[1])
    assert document["stands"] and document["executor"]["same"] and document["rendered_by_this_version"]
    assert document["verification"] == verification, "everything again, to the last digit"
    assert document["differences"] == [] and document["edits"] == [] and document["unmet"] == []
    own = document["own_verification"]
    assert own["passed"] and (own["examples"], own["seed"]) == (5, 3), "and a seed that no certificate knows"
    assert "PASS  5 situations" in out and "seed 3\n" in out and "of this check's own" in out


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "worst_error_over_bound": lambda proof: proof.update(worst_error_over_bound=0.001),
    "examples": lambda proof: proof.update(examples=18),
    "domain": lambda proof: proof["domain"]["sizes"].update(M=[1, 99999]),
    "determinism": lambda proof: proof["determinism"].update(grid=1, blocks=1),
    "errors": lambda proof: proof.pop("errors"),
}


@pytest.mark.parametrize("changed", [[*CHANGES], *(pytest.param([one], marks=pytest.mark.soak) for one in CHANGES)])
def test_figures_that_do_not_come_out_again_fail(run: Run, certificate: Path, changed: list[str]) -> None:
    rewrite(certificate, lambda record: [CHANGES[what](record["verification"]) for what in changed])
    code, out = run(*CHECK, str(certificate), "--json")
    document = json.loads(out)
    assert code == 1 and not document["stands"] and {one["what"] for one in document["differences"]} == {*changed}


def test_a_certificate_that_hides_what_was_not_shown_fails(run: Run, certificate: Path) -> None:
    hidden = "that it is right on a GPU: none ran it"
    rewrite(certificate, lambda record: record["not_shown"].remove(hidden))
    code, out = run(*CHECK, str(certificate), "--json")
    (difference,) = json.loads(out)["differences"]
    assert code == 1 and difference["what"] == "not_shown"
    assert set(difference["found"]) - set(difference["certified"]) == {hidden}


def test_figures_that_do_not_come_out_again_are_shown(run: Run, certificate: Path) -> None:
    rewrite(certificate, lambda record: [change(record["verification"]) for change in CHANGES.values()])
    code, out = run(*CHECK, str(certificate))
    assert code == 1 and "FAIL" in out and all(what in out for what in CHANGES)


def test_under_other_conditions_figures_may_differ(run: Run, certificate: Path) -> None:
    def elsewhere(record: dict[str, Any]) -> None:
        record["executor"].update(description="another compiler", environment="another")
        record["verification"]["worst_error_over_bound"] = 0.875

    rewrite(certificate, elsewhere)
    code, out = run(*CHECK, str(certificate))
    assert code == 0 and "STANDS" in out
    assert "other conditions than certified (emulator: another compiler; here emulator: " in out
    assert "certified 0.875" in out


def test_a_wrong_kernel_with_the_right_hashes_fails(run: Run, certificate: Path) -> None:
    kernel = certificate.with_name(f"{NAME}.cu")
    wrong = kernel.read_text().replace("k < s.K", "k < s.K - (s.M > 9)")
    kernel.write_text(wrong)

    def forge(record: dict[str, Any]) -> None:
        record["kernel_bytes"] += len(" - (s.M > 9)")
        text = wrong.encode()[record["kernel_start"] :][: record["kernel_bytes"]]
        record["sha256"] = hashlib.sha256(text).hexdigest()
        record["files"][kernel.name] = hashlib.sha256(wrong.encode()).hexdigest()

    assert run(*CHECK, str(certificate))[0] == 1, "void: the hashes are those of the right kernel"
    rewrite(certificate, forge)
    code, out = run(*CHECK, str(certificate))
    assert code == 1 and "FAIL" in out and "the kernel is wrong" in out and "renders another text" in out
    assert run("verify", str(kernel), "--examples", "50", "--device", "emulator")[0] == 1, "and by what it computes"


def test_lines_that_another_compiler_sees_otherwise_do_not_stand(run: Run, certificate: Path) -> None:
    kernel = certificate.with_name(f"{NAME}.cu")
    right, start = kernel.read_text(), "    float acc = 0.0f;\n"
    edited = right.replace(start, f"#ifndef __CUDACC_RTC__\n    if (alpha == 3.0f) return;\n#endif\n{start}")
    kernel.write_text(edited)

    def forge(record: dict[str, Any]) -> None:
        record["kernel_bytes"] += len(edited) - len(right)
        text = edited.encode()[record["kernel_start"] :][: record["kernel_bytes"]]
        record["sha256"] = hashlib.sha256(text).hexdigest()
        record["files"][kernel.name] = hashlib.sha256(edited.encode()).hexdigest()

    rewrite(certificate, forge)
    code, out = run(*CHECK, str(certificate))
    line = edited[: edited.index("#ifndef __CUDACC_RTC__")].count("\n") + 1
    assert code == 3 and "STANDS" not in out
    assert f"NOT JUDGED  lines {line} to {line + 2}: compilers other than NVRTC may read them differently" in out
    document = json.loads(run(*CHECK, str(certificate), "--json")[1])
    assert not document["stands"] and document["not_judged"]


def test_one_situation_that_is_right_certifies_nothing(run: Run, tmp_path: Path) -> None:
    """The first one drawn has a single element of C: a check draws its own."""
    run("generate", "?x?x40", "--family", "naive", "--set", "BM=8", "--set", "BN=8")
    kernel = tmp_path / "gemmgen-out" / f"{NAME}.cu"
    kernel.write_text(kernel.read_text().replace("float acc = 0.0f;", "float acc = s.M > 1 ? 1.0f : 0.0f;"))
    assert run("export", str(kernel), "--to", "out", "--examples", "1", "--device", "emulator")[0] == 4
    path = tmp_path / "out" / f"{NAME}.certificate.json"
    code, out = run(*CHECK, str(path))
    assert code == 1 and "STANDS" not in out and "the kernel is wrong" in out and "drawn by seed 3 of the check" in out
    assert "EDITED" in out and "float acc = s.M > 1 ? 1.0f : 0.0f;" in out and "float acc = 0.0f;" in out, "both lines"
    document = json.loads(run(*CHECK, str(path), "--json")[1])
    assert document["verification"]["passed"] and document["differences"] == [], "as certified, to the last digit"
    assert not document["own_verification"]["passed"] and not document["stands"]


def test_an_edit_that_keeps_it_right_voids_the_certificate_and_passes_verify(run: Run, certificate: Path) -> None:
    kernel = certificate.with_name(f"{NAME}.cu")
    kernel.write_text(kernel.read_text().replace("float acc = 0.0f;", "float acc = 0.0f;  // by hand"))
    code, out = run(*CHECK, str(certificate))
    assert code == 1 and "VOID" in out
    assert run("verify", str(kernel), "--examples", "10", "--device", "emulator")[0] == 0


def test_verify_judges_an_exported_file_but_for_edits_of_what_is_around_the_kernel(run: Run, tmp_path: Path) -> None:
    """In an `#if` that leaves all of it to some architectures."""
    assert (
        run("export", "gemm_bf16_rr_MxNx40_naive_8x8", "--to", "out", "--examples", "1", "--device", "emulator")[0] == 0
    )
    (kernel,) = (path for path in (tmp_path / "out").glob("*.cu") if not path.stem.endswith("_selftest"))
    text, words = kernel.read_text(), ("verify", str(kernel), "--examples", "1", "--device", "emulator")
    assert text.startswith("#if !defined(__CUDA_ARCH__) ||") and run(*words)[0] == 0
    for old, new in (("#include <algorithm>", "#include <vector>"), ("__CUDA_ARCH__ >= ", "__CUDA_ARCH__ > ")):
        assert old in text
        kernel.write_text(text.replace(old, new))
        code, out = run(*words)
        assert code == 3 and "NOT JUDGED" in out


def test_a_wrong_kernel_is_not_exported(run: Run, tmp_path: Path) -> None:
    run("generate", "?x?x40", "--family", "naive", "--set", "BM=8", "--set", "BN=8")
    kernel = tmp_path / "gemmgen-out" / f"{NAME}.cu"
    kernel.write_text(kernel.read_text().replace("alpha * acc", "acc"))
    code, out = run("export", str(kernel), "--to", "out", "--device", "emulator")
    assert code == 1 and "FAIL" in out and "first wrong" in out
    document = json.loads(run("export", str(kernel), "--to", "out", "--device", "emulator", "--json")[1])
    assert document["files"] == [] and not document["verification"]["passed"]
    assert not (tmp_path / "out").exists()


def test_what_tune_found_stays_in_the_certificate(run: Run, tmp_path: Path) -> None:
    assert run("tune", "48x40x24", "--device", "emulator", "--budget", "1")[0] == 0
    (kernel,) = (tmp_path / "gemmgen-out").glob("*.cu")
    assert run("export", str(kernel), "--to", "out", "--examples", "12", "--device", "emulator")[0] == 0
    record = json.loads((tmp_path / "out" / f"{kernel.stem}.certificate.json").read_text())
    assert record["earlier"]["verification"]["examples"] == EXAMPLES and record["verification"]["examples"] == 12
    assert record["earlier"]["executor"]["name"] == "emulator"
    assert record["command"].startswith("gemmgen tune") and record["certified"]["command"].startswith("gemmgen export")
    assert run(*CHECK, str(tmp_path / "out" / f"{kernel.stem}.certificate.json"))[0] == 0


def test_a_certificate_of_a_batch_of_pointers_stands(run: Run, tmp_path: Path) -> None:
    full = "gemm_f32_rr_pB_6x8x5_naive_8x8"
    name = render(*parse_name(full)).name
    code, _ = run("export", full, "--to", "out", "--examples", "12", "--device", "emulator")
    path = tmp_path / "out" / f"{name}.certificate.json"
    record = json.loads(path.read_text())
    assert code == 0 and record["problem"]["pointers"] is True
    assert [parameter.ctype for parameter in source_from_record(record, path).parameters[:3]] == [
        *["const float* const*"] * 2,
        "float* const*",
    ]
    assert "matrices A, or B, that overlap" in record["not_shown"]
    assert set(record["verification"]["domain"]["padding"]) == {"lda", "ldb", "ldc"}
    code, out = run(*CHECK, str(path), "--device", "emulator")
    assert code == 0 and "STANDS" in out
