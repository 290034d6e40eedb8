"""Certificates where nothing runs: what they say is not shown, edited files, and every broken certificate."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gemmgen.artifacts.certificate import examples_to_certify, not_shown
from gemmgen.artifacts.records import sanitizer_document
from gemmgen.cli import main
from gemmgen.kernel.naming import parse_name
from gemmgen.kernel.render import render
from gemmgen.problem.gemm import Problem
from gemmgen.problem.sizes import parse_shape
from gemmgen.verification.sanitizers.tool import TOOLS, SanitizerResult, Tool

FULL = "gemm_f32_rr_64x96x32_naive_16x16"
NAME = render(*parse_name(FULL)).name
CERTIFICATE = f"{NAME}.certificate.json"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in `tmp_path`; returns its exit code, standard output and standard error."""
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def run_words(*words: str) -> tuple[int, str, str]:
        code = main(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_words


@pytest.fixture
def exported(run: Run, tmp_path: Path) -> Path:
    """A folder with a kernel that was exported unverified."""
    assert run("export", FULL, "--to", "out", "--examples", "0")[0] == 0
    return tmp_path / "out"


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# Files that changed


@pytest.mark.parametrize("file", [f"{NAME}.cu", f"{NAME}.h", "README.md"])
def test_an_edited_file_voids_the_certificate(run: Run, exported: Path, file: str) -> None:
    path = exported / file
    certified = sha256(path)
    path.write_text(path.read_text() + "\n")
    code, out, _ = run("verify", "--certificate", f"out/{CERTIFICATE}")
    assert code == 1 and "VOID" in out and "no longer stands" in out
    assert file in out and certified in out and sha256(path) in out, "the file and both hashes"
    assert out.rstrip().endswith(f"gemmgen verify out/{NAME}.cu") and "renders" not in out
    document = json.loads(run("verify", "--certificate", f"out/{CERTIFICATE}", "--json")[1])
    assert document["stands"] is False and document["verification"] is None
    assert document["changed"] == [{"what": file, "certified": certified, "found": sha256(path)}]


@pytest.mark.parametrize("suffix", [".h", ".cu"])
def test_a_missing_file_voids_the_certificate(run: Run, exported: Path, suffix: str) -> None:
    (exported / f"{NAME}{suffix}").unlink()
    code, out, _ = run("verify", "--certificate", f"out/{CERTIFICATE}")
    assert code == 1 and f"{NAME}{suffix}" in out and "no such file" in out


def test_an_empty_file_is_no_missing_one(run: Run, exported: Path) -> None:
    (exported / f"{NAME}.h").write_bytes(b"")
    code, out, _ = run("verify", "--certificate", f"out/{CERTIFICATE}")
    assert code == 1 and hashlib.sha256().hexdigest() in out


def test_a_certificate_of_nothing_does_not_pass(run: Run, exported: Path) -> None:
    code, out, _ = run("verify", "--certificate", f"out/{CERTIFICATE}")
    assert code == 1 and "shows nothing" in out and "--examples 0" in out
    document = json.loads((exported / CERTIFICATE).read_text())
    assert document["verification"] is None and document["executor"]["name"] == "none"


# Broken certificates

BROKEN: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "no hash": (lambda record: record.pop("sha256"), "is not a certificate (KeyError: 'sha256')"),
    "another hash": (lambda record: record.update(sha256="0"), "sha256 is not that of the first"),
    "no files": (lambda record: record.pop("files"), "is not a certificate (KeyError: 'files')"),
    "no verification": (lambda record: record.pop("verification"), "is not a certificate (KeyError: 'verification')"),
    "a verification in words": (lambda record: record.update(verification="passed"), "is not a certificate"),
    "no seed": (lambda record: record["certified"].pop("seed"), "is not a certificate (KeyError: 'seed')"),
    "a length in words": (lambda record: record.update(kernel_bytes="all"), "kernel_bytes = 'all' is no whole number"),
    "a length that is a truth": (lambda record: record.update(kernel_bytes=True), "kernel_bytes = True is no whole"),
    "a length that is another": (lambda record: record.update(kernel_bytes=9), "that of the first 9 bytes of"),
    "no launch": (lambda record: record.pop("launch"), "is not the record of a kernel (KeyError: 'launch')"),
    "no parameters": (lambda record: record.update(parameters=3), "is not the record of a kernel"),
    "a file elsewhere": (lambda record: record["files"].update({"../secret": "0"}), "names no file beside it"),
    "a kernel that is no file": (
        lambda record: record.update(kernel_file="x.cu"),
        "certificate (KeyError: 'x.cu')",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_certificate_is_wrong_usage(run: Run, exported: Path, case: str) -> None:
    change, message = BROKEN[case]
    rewrite(exported / CERTIFICATE, change)
    code, out, err = run("verify", "--certificate", f"out/{CERTIFICATE}")
    assert code == 2 and out == "" and message in err and "Traceback" not in err
    assert f"out/{CERTIFICATE}" in err
    error = json.loads(run("verify", "--certificate", f"out/{CERTIFICATE}", "--json")[1])["error"]
    assert error["exit_code"] == 2 and message in error["message"]


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"not json", b"\xff\xfe", b'"text"'])
def test_what_is_no_certificate_is_wrong_usage(run: Run, exported: Path, content: bytes) -> None:
    (exported / CERTIFICATE).write_bytes(content)
    code, _, err = run("verify", "--certificate", f"out/{CERTIFICATE}")
    assert code == 2 and CERTIFICATE in err and "Traceback" not in err


def test_a_record_that_is_no_certificate_is_wrong_usage(run: Run) -> None:
    run("generate", "64x96x32", "--family", "naive")
    code, _, err = run("verify", "--certificate", f"gemmgen-out/{NAME}.json")
    assert code == 2 and "is not a certificate (KeyError: 'files')" in err


def test_another_kernel_under_the_name_voids_the_certificate(run: Run, exported: Path) -> None:
    other = FULL.replace("16x16", "8x8")
    run("export", other, "--to", "other", "--examples", "0")
    (exported / f"{NAME}.cu").write_bytes(next(Path("other").glob("*_sm90_????????.cu")).read_bytes())
    code, out, _ = run("verify", "--certificate", f"out/{CERTIFICATE}")
    assert code == 1 and "VOID" in out and sha256(exported / f"{NAME}.cu") in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("verify", "name a kernel, or its --certificate"),
        ("verify x --certificate y", "leave out kernel"),
        ("verify --certificate y --examples 5 --seed 3", "leave out examples, seed"),
        ("verify --certificate y --sanitize --tool memcheck", "leave out sanitize, tool"),
        ("verify --certificate nowhere.json", "cannot read nowhere.json: No such file"),
        ("export x --to y --examples -1", "--examples"),
    ],
)
def test_wrong_usage_is_explained(run: Run, words: str, message: str) -> None:
    code, out, err = run(*words.split())
    assert code == 2 and out == "" and message in err


def test_export_without_an_executor_says_what_to_do(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++")
    code, _, err = run("export", FULL, "--to", "out", "--device", "emulator")
    assert code == 1 and "does not run" in err and "--examples 0 exports the kernel unverified" in err
    assert not (tmp_path / "out").exists()


# What is not shown: each sentence follows from a fact

FREE = Problem(None, None, None)
FACTS: dict[str, Any] = {
    "problem": {
        **dict.fromkeys("mnk", "?"),
        **dict.fromkeys(("lda", "ldb", "ldc"), "dense"),
        "dtype": "f32",
        "layout": "rr",
        "pointer_align": 16,
        "ld_align": 1,
    },
    "arch": "sm_90",
    "resources": None,
    "time": {"kind": "predicted"},
    "earlier": None,
    "verification": {
        "executor": "emulator",
        "examples": 50,
        "determinism": {"same_bits": True, "blocks": 2, "grid": 9},
        "sanitizers": [],
        "domain": {
            "shapes": 31,
            "sizes": {"M": [1, 200], "N": [2, 300], "K": [0, 400]},
            "padding": {"lda": [0, 3], "ldb": [0, 7], "ldc": [1, 2]},
            "alphas": [-1.0, 1.0],
            "betas": [0.0, 0.5],
            "data": {"exact": 25, "random": 25},
            "whole": 44,
            "sampled": 6,
            "largest_whole": "200x300x400",
            "watched": 40,
            "watched_part": 3,
            "largest_watched": "65x17x33",
        },
    },
}
SENTENCES = {
    "drawn": "situations other than the 50 that were run",
    "sizes": "sizes outside of M from 1 to 200, N from 2 to 300, K from 0 to 400; inside, those that are not among the "
    "31 shapes drawn",
    "padding": "lda, ldb, ldc that exceed their lines by more than 7 elements",
    "scalars": "alpha other than -1, 1; beta other than 0, 0.5",
    "data": "data of these kinds: onehot, denormal, huge, special",
    "sampled": "whole grids in 6 situations: the blocks of 4 tiles of each ran, the largest that ran whole is "
    "200x300x400",
    "races": "data races in 10 of 50 situations, 3 of them watched in some blocks; the largest watched as a whole is "
    "65x17x33",
    "sanitizer": "what compute-sanitizer would find: it was not run",
    "repeated": "the same bits in a whole launch: 2 of 9 blocks were repeated",
    "gpu": "that it is right on a GPU: none ran it",
    "compiled": "that it compiles for sm_90: no CUDA compiler ran",
    "launcher": "that the launcher and the self-test work: export builds neither",
    "time": "how fast it is: the time is the model's prediction",
}


def test_what_was_not_shown_is_said_in_words() -> None:
    assert list(not_shown(FACTS)) == list(SENTENCES.values())


def _on_a_gpu(facts: dict[str, Any]) -> None:
    facts["verification"].update(executor="gpu")
    facts["verification"]["domain"].update(watched=0, watched_part=0)


def _under_tools(*tools: Tool) -> Callable[[dict[str, Any]], None]:
    """On a GPU, where `tools` found nothing in 8 situations."""

    def change(facts: dict[str, Any]) -> None:
        _on_a_gpu(facts)
        results = [SanitizerResult(tool, "2025.3.1.0", 8, (), 1.0, sampled=tool == "racecheck") for tool in tools]
        facts["verification"]["sanitizers"] = [sanitizer_document(result) for result in results]

    return change


SHOWN: dict[str, tuple[Callable[[dict[str, Any]], object], set[str], tuple[str, ...]]] = {
    "fixed sizes": (lambda facts: facts["problem"].update(m=64, n=64, k=64), {"sizes", "padding"}, ()),
    "a batch": (
        lambda facts: (
            facts["problem"].update(batch="?", stride_a="?", stride_b=0, stride_c="?"),
            facts["verification"]["domain"]["sizes"].update(batch=[1, 33]),
            facts["verification"]["domain"]["padding"].update(stride_a=[0, 5], stride_c=[0, 7]),
        ),
        {"sizes"},
        (
            "sizes outside of M from 1 to 200, N from 2 to 300, K from 0 to 400, batch from 1 to 33; inside, those "
            "that are not among the 31 shapes drawn",
            "stride_a, stride_c that exceed their matrices by more than 7 elements",
        ),
    ),
    "pointers": (
        lambda facts: (
            facts["problem"].update(batch=9, pointers=True),
            facts["verification"]["domain"]["sizes"].update(batch=[9, 9]),
        ),
        set(),
        ("matrices A, or B, that overlap",),
    ),
    "whole grids": (lambda facts: facts["verification"]["domain"].update(sampled=0, whole=50), {"sampled"}, ()),
    "all watched": (lambda facts: facts["verification"]["domain"].update(watched=50, watched_part=0), {"races"}, ()),
    "all blocks again": (lambda facts: facts["verification"]["determinism"].update(blocks=9), {"repeated"}, ()),
    "on a GPU": (_on_a_gpu, {"races", "gpu"}, ("data races that happened to do no harm",)),
    "under one tool": (
        _under_tools("memcheck"),
        {"races", "gpu", "sanitizer"},
        (
            "data races that happened to do no harm",
            "what compute-sanitizer's racecheck, initcheck, synccheck would find: it was not run",
            "what memcheck would find beyond the 8 situations that it watched",
        ),
    ),
    "under all tools": (
        _under_tools(*TOOLS),
        {"races", "gpu", "sanitizer"},
        (
            "data races on global memory: racecheck watches shared memory",
            "what memcheck would find beyond the 8 situations that it watched",
            "what racecheck would find beyond the 8 situations that it watched, of each launch its first blocks",
            "what initcheck would find beyond the 8 situations that it watched",
            "what synccheck would find beyond the 8 situations that it watched",
        ),
    ),
    "compiled": (lambda facts: facts.update(resources={"registers": 40}), {"compiled"}, ()),
    "measured": (lambda facts: facts.update(time={"kind": "measured"}), {"time"}, ()),
    "a GPU before": (
        lambda facts: facts.update(earlier={"verification": {"executor": "gpu", "examples": 8}}),
        {"gpu"},
        ("more on a GPU than the earlier verification there, of 8 situations",),
    ),
}


@pytest.mark.parametrize("case", SHOWN)
def test_what_was_shown_is_not_listed(case: str) -> None:
    change, gone, instead = SHOWN[case]
    facts = copy.deepcopy(FACTS)
    change(facts)
    said = list(not_shown(facts))
    assert {name for name, sentence in SENTENCES.items() if sentence not in said} >= gone
    assert all(any(words in sentence for sentence in said) for words in instead)
    assert len(said) == len(SENTENCES) - len(gone) + len(instead)


@pytest.mark.parametrize(("shape", "examples"), [("?x?x?", 100), ("512x512x512", 100), ("4096x4096x?", 20)])
def test_large_problems_are_certified_with_fewer_situations(shape: str, examples: int) -> None:
    assert examples_to_certify(Problem(*parse_shape(shape))) == examples
