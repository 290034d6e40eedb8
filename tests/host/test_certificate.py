"""Certificates where nothing runs: what they say is not shown, edited files, and every broken certificate."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import gemmgen
from gemmgen.cli import main
from gemmgen.exports.certificate import examples_to_certify, not_shown
from gemmgen.exports.json_records import sanitizer_document
from gemmgen.exports.kernelfile import read_kernel, source_from_record
from gemmgen.exports.recheck import read_certificate, recheck
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.problem.sizes import parse_shape
from gemmgen.render.kernel_text import render
from gemmgen.render.naming import parse_name
from gemmgen.verification.sanitizers.tool import TOOLS, SanitizerResult, Tool
from gemmgen.verification.verifier import Verdict

FULL = "gemm_f32_rr_64x96x32_naive_16x16"
NAME = render(*parse_name(FULL)).name
CERTIFICATE = f"{NAME}.certificate.json"

REPOSITORY = Path(__file__).parents[2]

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


def test_a_folder_in_the_place_of_a_file_cannot_be_read(run: Run, exported: Path) -> None:
    (exported / f"{NAME}.h").unlink()
    (exported / f"{NAME}.h").mkdir()
    code, _, error = run("verify", "--certificate", f"out/{CERTIFICATE}")
    assert code == 2 and f"cannot read out/{NAME}.h: Is a directory" in error


def test_an_empty_file_is_no_missing_one(run: Run, exported: Path) -> None:
    (exported / f"{NAME}.h").write_bytes(b"")
    code, out, _ = run("verify", "--certificate", f"out/{CERTIFICATE}")
    assert code == 1 and hashlib.sha256().hexdigest() in out


def test_a_certificate_of_nothing_does_not_pass(run: Run, exported: Path) -> None:
    code, out, _ = run("verify", "--certificate", f"out/{CERTIFICATE}")
    assert code == 1 and "shows nothing" in out and "--examples 0" in out
    document = json.loads((exported / CERTIFICATE).read_text())
    assert document["verification"] is None and document["executor"]["name"] == "none"


# Forged certificates: hashes and claims agree with each other, which shows nothing


def claimed(**claims: Any) -> Callable[[dict[str, Any]], object]:
    """Of 25 situations, all right, but for `claims`."""
    determinism = {"same_bits": True, "runs": 10, "blocks": 4, "grid": 4, "difference": None}
    proof = {"passed": True, "failure": None, "executor": "emulator", "examples": 25, "seed": 7}

    def change(record: dict[str, Any]) -> None:
        record["certified"].update(examples=25, seed=7)
        record["executor"].update(name="emulator")
        record["verification"] = {**proof, "determinism": determinism, **claims}

    return change


UNMET: dict[str, tuple[dict[str, Any], tuple[str, Any, Any]]] = {
    "that it failed": ({"passed": False}, ("passed", False, True)),
    "a pass that is no truth": ({"passed": 1}, ("passed", 1, True)),
    "why it failed": ({"failure": {"kind": "wrong"}}, ("failure", {"kind": "wrong"}, None)),
    "another seed": ({"seed": 8}, ("seed", 8, 7)),
    "another executor": ({"executor": "gpu"}, ("executor", "gpu", "emulator")),
    "nothing that ran": ({"examples": 0}, ("examples", 0, "1 to 25, as was asked")),
    "more than was asked": ({"examples": 1000}, ("examples", 1000, "1 to 25, as was asked")),
    "few runs": (
        {"determinism": {"same_bits": True, "runs": 1}},
        ("determinism.runs", 1, "10 or more"),
    ),
    "other bits in each run": (
        {"determinism": {"same_bits": False, "runs": 10}},
        ("determinism.same_bits", False, True),
    ),
    "bits in words": ({"determinism": "deterministic"}, ("determinism.same_bits", None, True)),
}


@pytest.mark.parametrize("case", UNMET)
def test_a_certificate_has_to_claim_what_it_certifies(run: Run, exported: Path, case: str) -> None:
    claims, (what, certified, required) = UNMET[case]
    rewrite(exported / CERTIFICATE, claimed(**claims))
    code, out, _ = run("verify", "--certificate", f"out/{CERTIFICATE}")
    assert code == 1 and "FAIL" in out and "certify no right kernel" in out and "STANDS" not in out
    assert what in out and str(certified) in out and str(required) in out
    document = json.loads(run("verify", "--certificate", f"out/{CERTIFICATE}", "--json")[1])
    assert not document["stands"] and document["verification"] is None, "nothing ran"
    assert {"claim": what, "certified": certified, "required": required} in document["unmet"]


def recertify(path: Path) -> None:
    """Give the files beside a certificate the hashes that they have now."""
    rewrite(path, lambda record: record["files"].update({name: sha256(path.parent / name) for name in record["files"]}))


EDITS = {
    "a launcher that passes beta for alpha": (
        f"{NAME}.cu",
        "Plan made = {A, B, C, alpha,",
        "Plan made = {A, B, C, beta,",
    ),
    "a header of another contract": (f"{NAME}.h", "beta = 0 never reads C", "beta = 0 may read C"),
    "a dull self-test": (f"{NAME}_selftest.cu", "return", "return 0 *"),
    "flags that no test had": (
        "CMakeLists.txt",
        "cmake_minimum_required",
        "add_compile_options(-use_fast_math)\ncmake",
    ),
}


@pytest.mark.parametrize("case", EDITS)
def test_files_that_gemmgen_does_not_render_are_called_edited(run: Run, exported: Path, case: str) -> None:
    name, right, wrong = EDITS[case]
    file = exported / name
    text = file.read_text()
    assert right in text
    file.write_text(text.replace(right, wrong, 1))
    rewrite(exported / CERTIFICATE, claimed())
    recertify(exported / CERTIFICATE)
    code, out, _ = run("verify", "--certificate", f"out/{CERTIFICATE}")
    assert code == 1 and "EDITED" in out and "STANDS" not in out
    document = json.loads(run("verify", "--certificate", f"out/{CERTIFICATE}", "--json")[1])
    (edit,) = document["edits"]
    assert edit["file"] == name and f"{name}:{edit['line']}" in out
    assert edit["rendered"] in text and edit["stands"] in file.read_text() and edit["stands"] != edit["rendered"]
    assert edit["stands"].strip() in out and edit["rendered"].strip() in out, "both lines"
    assert document["verification"] is None, "nothing ran"


def test_a_file_that_the_certificate_does_not_name_is_looked_at(run: Run, exported: Path) -> None:
    (exported / f"{NAME}.h").write_text("#define alpha beta\n")

    def forget(record: dict[str, Any]) -> None:
        claimed()(record)
        del record["files"][f"{NAME}.h"]

    rewrite(exported / CERTIFICATE, forget)
    code, out, _ = run("verify", "--certificate", f"out/{CERTIFICATE}")
    assert code == 1 and "EDITED" in out and "#define alpha beta" in out


MACROS = {
    "its name": "#define NAME_launch(...) launched_otherwise(__VA_ARGS__)",
    "an argument, in two lines": "#def\\\nine alpha beta",
}


@pytest.mark.parametrize("case", MACROS)
def test_kernel_text_that_changes_the_launcher_is_called_edited(run: Run, exported: Path, case: str) -> None:
    file, line = exported / f"{NAME}.cu", MACROS[case].replace("NAME", NAME)
    text = file.read_bytes()
    certificate = json.loads((exported / CERTIFICATE).read_text())
    start = certificate["kernel_start"]
    end = start + certificate["kernel_bytes"]
    kernel = text[start:end] + f"{line}\n".encode()
    file.write_bytes(text[:start] + kernel + text[end:])

    def forge(record: dict[str, Any]) -> None:
        claimed()(record)
        record.update(kernel_bytes=len(kernel), sha256=hashlib.sha256(kernel).hexdigest())

    rewrite(exported / CERTIFICATE, forge)
    recertify(exported / CERTIFICATE)
    code, out, _ = run("verify", "--certificate", f"out/{CERTIFICATE}")
    assert code == 1 and "EDITED" in out and "STANDS" not in out
    (edit,) = json.loads(run("verify", "--certificate", f"out/{CERTIFICATE}", "--json")[1])["edits"]
    assert edit["stands"] == line.replace("\\\n", "") and edit["line"] == text[:end].count(b"\n") + 1


def test_a_check_draws_by_a_seed_that_no_certificate_knows(
    run: Run, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    def passes(executor: Any, source: KernelSource, *, examples: int, seed: int, on_example: object) -> Verdict:
        asked.append((examples, seed))
        return Verdict("emulator", examples, seed, 0.5)

    monkeypatch.setattr("gemmgen.exports.recheck.verify", passes)
    monkeypatch.setattr("gemmgen.exports.recheck.not_shown", lambda _: [])
    rewrite(exported / CERTIFICATE, claimed())
    certificate = read_certificate(exported / CERTIFICATE)
    executor = SimpleNamespace(name="emulator", description="no compiler", flags=(), environment="none", unconfined=())
    target: Any = SimpleNamespace(executor=executor, gpu="which no CUDA compiler needs to judge for")
    assert all(recheck(certificate, target).stands for _ in range(2))
    assert recheck(certificate, target, examples=5, seed=3).stands
    (known, own), (again, other), (last, given) = zip(asked[::2], asked[1::2], strict=True)
    assert known == again == last == (25, 7) and given == (5, 3)
    assert own[0] == other[0] == 100 and len({7, own[1], other[1]}) == 3


# Broken certificates

BROKEN: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "no hash": (lambda record: record.pop("sha256"), "is not a certificate: it lacks 'sha256'"),
    "another hash": (lambda record: record.update(sha256="0"), "sha256 is not that of bytes "),
    "no files": (lambda record: record.pop("files"), "is not a certificate: it lacks 'files'"),
    "no verification": (lambda record: record.pop("verification"), "is not a certificate: it lacks 'verification'"),
    "a verification in words": (lambda record: record.update(verification="passed"), "is not a certificate"),
    "no seed": (lambda record: record["certified"].pop("seed"), "is not a certificate: it lacks 'seed'"),
    "no examples": (
        lambda record: (claimed()(record), record["certified"].update(examples=0)),
        "certified.examples = 0: at least 1 is needed",
    ),
    "a length in words": (lambda record: record.update(kernel_bytes="all"), "kernel_bytes = 'all' is no whole number"),
    "a length that is a truth": (lambda record: record.update(kernel_bytes=True), "kernel_bytes = True is no whole"),
    "a length that is another": (lambda record: record.update(kernel_bytes=9), "sha256 is not that of bytes "),
    "a start that is another": (lambda record: record.update(kernel_start=9), "sha256 is not that of bytes 9 to "),
    "no launch": (lambda record: record.pop("launch"), "is not the record of a kernel: it lacks 'launch'"),
    "a family that is a list": (lambda record: record.update(family=[]), "family = [] is no name"),
    "a name that is a path": (lambda record: record.update(name="../x"), "name = '../x' names no function"),
    "no parameters": (lambda record: record.update(parameters=3), "is not the record of a kernel"),
    "a file elsewhere": (lambda record: record["files"].update({"../secret": "0"}), "names no file beside it"),
    "a hash that is no text": (lambda record: record["files"].update({f"{NAME}.h": []}), f"'{NAME}.h' = [] is no hash"),
    "files without hashes": (lambda record: record.update(files=[f"{NAME}.h"]), "is not a certificate"),
    "a kernel that is no file": (
        lambda record: record.update(kernel_file="x.cu"),
        "certificate: it lacks 'x.cu'",
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
    assert code == 2 and "is not a certificate: it lacks 'files'" in err


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
        ("verify --certificate y --out here", "leave out out"),
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
    assert code == 3 and "does not run" in err and "--examples 0 exports the kernel unverified" in err
    assert not (tmp_path / "out").exists()


# What is not shown: each sentence follows from a fact

FREE = Problem(None, None, None)
FACTS: dict[str, Any] = {
    "problem": {
        **dict.fromkeys("mnk", "?"),
        **dict.fromkeys(("lda", "ldb", "ldc"), "dense"),
        "types": dict.fromkeys("abc", "f32"),
        "compute": "fma",
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
        "coverage": {"branches": 12, "untaken": [{"line": 31, "text": "k < K", "outcome": None}], "lines": [[40, 44]]},
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
    "data": "data of these kinds: sparse, onehot, denormal, huge, special",
    "sampled": "whole grids in 6 situations: the blocks of 4 tiles of each ran, the largest that ran whole is "
    "200x300x400",
    "races": "data races in 10 of 50 situations, 3 of them watched in some blocks; the largest watched as a whole is "
    "65x17x33",
    "sanitizer": "what compute-sanitizer would find: it was not run",
    "repeated": "the same bits in a whole launch: 2 of 9 blocks were repeated",
    "covered": "what the kernel computes where it never ran: line 31: `k < K` was never evaluated; lines 40 to 44",
    "gpu": "that it is right on a GPU: none ran it",
    "compiled": "that it compiles for sm_90: no CUDA compiler ran",
    "launcher": "that the launcher and the self-test work: export builds neither",
    "time": "how fast it is: the time is the model's prediction",
}


def test_what_was_not_shown_is_said_in_words() -> None:
    assert list(not_shown(FACTS)) == list(SENTENCES.values())


def test_what_a_certificate_leaves_out_is_read_all_the_same(tmp_path: Path) -> None:
    for path in sorted((REPOSITORY / "generated" / "sm_90").glob("*.cu"))[::40]:
        kernel = read_kernel(path)
        folder = tmp_path / path.stem
        gemmgen.export(path, to=folder, examples=0)
        certificate = json.loads((folder / f"{path.stem}.certificate.json").read_text())
        assert "parameters" not in certificate and "ld_residual" not in certificate["problem"]
        assert replace(source_from_record(certificate, path), text=kernel.source.text) == kernel.source
        assert kernel.record is not None
        whole = {**certificate, **{name: kernel.record[name] for name in ("problem", "launch", "parameters")}}
        assert source_from_record(whole, path) == source_from_record(certificate, path), "as older ones say it"


def test_a_certificate_has_what_was_measured_and_not_how_it_was_found(tmp_path: Path) -> None:
    path = next(iter(sorted((REPOSITORY / "generated" / "sm_90").glob("gemm_bf16_rc_1000x1000x1000_*.cu"))))
    record = read_kernel(path).record
    assert record is not None
    gemmgen.export(path, to=tmp_path, examples=0)
    certificate = json.loads((tmp_path / f"{path.stem}.certificate.json").read_text())
    bench, time = record["bench"], dict(record["time"])
    protocol = {name: time["protocol"][name] for name in ("protocol", "samples", "launches_per_sample", "date")}
    del time["samples_us"], time["gbs"], time["case"]  # whose sizes are the problem's
    rounded = {name: float(f"{time[name]:.6g}") for name in ("us", "tflops", "spread")}
    assert certificate["time"] == {**time, **rounded, "protocol": protocol} and time["kind"] == "measured"
    baseline = {name: bench["cublaslt"][name] for name in ("kind", "us", "version")}
    assert certificate["bench"] == {"cublaslt": baseline, "speedup": bench["speedup"]}
    assert "command" not in certificate and "gemmgen suite" in record["command"]  # of the suite's run, for many kernels


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
    "all covered": (lambda facts: facts["verification"]["coverage"].update(untaken=[], lines=[]), {"covered"}, ()),
    "not counted": (
        lambda facts: facts["verification"].update(coverage=None),
        {"covered"},
        ("which lines and branches of the kernel ran: they were not counted",),
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
