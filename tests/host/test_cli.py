"""The command line without compiling or running anything: results, reproducible headers, and every bad input."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

import gemmgen as api
from gemmgen.cli import COMMANDS, cli, main, progress
from gemmgen.cli.options import SECTIONS, Sectioned
from gemmgen.cli.reports import words
from gemmgen.exports.json_records import problem_document
from gemmgen.exports.kernelfile import find_kernel, read_kernel
from gemmgen.exports.writing import write_kernel
from gemmgen.families import SEARCHED, SIMT, config_of
from gemmgen.judge import bench
from gemmgen.kernel.source import CONFIG
from gemmgen.lab.study import STUDIES, Study
from gemmgen.problem.device import device_named
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.sizes import parse_shape
from gemmgen.render.kernel_text import render
from gemmgen.render.naming import RESERVED, full_name_of, parse_name
from gemmgen.render.rerender import rendered_again
from gemmgen.search.explorer import search_of
from gemmgen.support.child import child_environment
from gemmgen.support.errors import GemmgenError, InvalidInput
from gemmgen.support.words import figure

SHAPE = "64x96x32"
STUDY_COMMANDS = [f"study {name}" for name in (*STUDIES, "model", "arithmetic")]
FULL = "gemm_f32_rr_64x96x32_naive_16x16"
RENDERED = render(*parse_name(FULL)).name
CARD = device_named("H200")


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test has its own folder and its own cache."""
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line; returns its exit code, standard output and standard error."""

    def run_words(*words: str) -> tuple[int, str, str]:
        code = main(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_words


def written(out: str) -> str:
    """The kernel that `generate` says it wrote."""
    (path,) = re.findall(r"^  (.*\.cu)$", out, re.MULTILINE)
    return str(path)


def no_files_but(folder: Path, *names: str) -> bool:
    return {path.name for path in folder.rglob("*") if path.is_file() and "cache" not in path.parts} == set(names)


# Results


@pytest.mark.parametrize("command", [*(name for name in COMMANDS if name != "study"), *STUDY_COMMANDS])
def test_help_teaches(run: Run, command: str) -> None:
    code, out, _ = run(*command.split(), "--help")
    assert code == 0
    assert ("--json" in out) == (command != "worker") and len(out.splitlines()) > 8, "a worker has no result"


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_help_of_a_study_names_the_dtype_that_it_takes(study: Study, run: Run) -> None:
    out = " ".join(run("study", study.name, "--help")[1].split())
    assert f"[SHAPE: {study.shape}, {study.dtype.label}]" in out
    assert f"integers in s32. [default: {study.dtype.label}]" in out


@pytest.mark.parametrize("command", ["generate", "tune", "space", "verify", "export", "library", "bench"])
def test_help_lists_options_in_sections(run: Run, command: str) -> None:
    out = run(command, "--help")[1]
    found = cli.get_command(click.Context(cli), command)
    assert isinstance(found, Sectioned)
    sections = dict(re.findall(r"^(\w[\w ]*):\n((?:  .*\n)+)", out, re.MULTILINE))
    listed = {title: re.findall(r"^  (?:-h, )?(--[\w-]+)", text, re.MULTILINE) for title, text in sections.items()}
    assert "--json" in listed["Output"] and "--help" in listed["Output"]
    assert all({*options} <= {*SECTIONS[title]} for title, options in listed.items() if title != "Options")
    assert "Options" not in listed, "each in a section"
    every = [one.opts[-1] for one in found.get_params(click.Context(found)) if isinstance(one, click.Option)]
    assert sorted(one for options in listed.values() for one in options) == sorted(every)


def test_help_lists_every_command(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    for name, summary in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(summary)}$", out, re.MULTILINE), "on one line, whole"
        assert callable(cli.get_command(click.Context(cli), name))


def test_help_loads_no_more_than_it_shows() -> None:
    """So that it takes a fifth of a second."""
    script = "import sys; from gemmgen.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    words, environ = [sys.executable, "-c", script], child_environment()
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
    assert not {"numpy", "hypothesis", "jinja2", "rich", "cuda"} & set(done.stderr.split())


def test_generate_loads_what_renders_a_kernel_and_little_else(tmp_path: Path) -> None:
    """Neither what runs, verifies or measures kernels, nor what finds those on file."""
    script = "import sys; from gemmgen.cli import main; main(['generate', '512x512x512']); print(); print(*sys.modules)"
    words, environ = [sys.executable, "-c", script], child_environment()
    done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True)
    loaded = [name for name in done.stdout.splitlines()[-1].split() if name.partition(".")[0] == "gemmgen"]
    assert len(loaded) <= 112, loaded
    assert len(list((tmp_path / "gemmgen-out").iterdir())) == 2


@pytest.mark.parametrize("wraps", ["raise", "raise RuntimeError from"])
@pytest.mark.parametrize(("module", "words"), [("click", ["--help"]), ("numpy", ["space", SHAPE])])
def test_an_interrupt_while_modules_are_imported_is_one_line(
    tmp_path: Path, module: str, words: list[str], wraps: str
) -> None:
    """In the program's own imports, in those of a command, and where an import makes another exception of it."""
    interrupted = f"import os, signal\ntry: os.kill(os.getpid(), signal.SIGINT)\nexcept BaseException as e: {wraps} e\n"
    (tmp_path / f"{module}.py").write_text(interrupted)
    environ = child_environment()
    environ["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{environ['PYTHONPATH']}"
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell may ignore it
    program += "import sys; from gemmgen.__main__ import main; sys.exit(main())"
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert re.fullmatch(r"\n?gemmgen: stopped: interrupted.*\n", done.stderr), "click ends the line of ^C"


def test_an_interrupt_within_a_callback_is_not_lost() -> None:
    program = """
import gc, os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import gemmgen.cli

def interrupt(*_):
    gc.callbacks.clear()
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0)

def run():
    gc.callbacks.append(interrupt)
    try:
        gc.collect()
        time.sleep(60)
    except KeyboardInterrupt:
        return 130

gemmgen.cli.main = run
from gemmgen.__main__ import main
sys.exit(main())
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=False, timeout=50)
    assert (done.returncode, done.stderr) == (130, "")


def test_a_batch_of_pointers_is_written_and_read_back(run: Run, tmp_path: Path) -> None:
    code, out, _ = run(*["generate", "16x12x8", "--batch", "4096", "--pointers", "--family", "batched"])
    assert code == 0 and written(out).startswith("gemmgen-out/gemm_f32_rr_p4096_16x12x8_sm90_")
    kernel = read_kernel(tmp_path / written(out))
    assert kernel.source == api.generate(Problem(16, 12, 8, batch=4096, pointers=True), family="batched")
    made_by = (
        "// Made by gemmgen generate 16x12x8 --dtype f32 --layout rr --batch 4096 --pointers --arch sm_90 --family"
    )
    assert f"{made_by} batched\n" in kernel.source.text


@pytest.mark.parametrize("folder", ["x[/b]y", "x[bold]y", "a:bomb:b"])
def test_a_folder_is_named_as_it_was_given(run: Run, tmp_path: Path, folder: str) -> None:
    code, out, _ = run("generate", SHAPE, "--family", "naive", "--out", folder)
    assert code == 0 and written(out) == f"{folder}/{RENDERED}.cu" and (tmp_path / written(out)).is_file()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("words", ["space 64x96x32 --family naive --json", "space 64x96x32 --family naive"])
def test_a_full_disk_behind_standard_output_is_told_in_one_line(tmp_path: Path, words: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gemmgen", *words.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=tmp_path,
        )
    assert done.returncode == 1
    assert done.stderr == "gemmgen: failed: cannot write to standard output: No space left on device\n"


def test_a_nul_in_a_file_is_never_printed(run: Run, tmp_path: Path) -> None:
    run("generate", SHAPE, "--family", "naive")
    record = tmp_path / "gemmgen-out" / f"{RENDERED}.json"
    written = json.loads(record.read_text())
    kernel = str(record.with_suffix(".cu"))
    for name, value in (("name", "a\0b"), ("family", "a\0b"), ("parameters", [{"name": "a\0b", "ctype": "int"}])):
        record.write_text(json.dumps({**written, name: value}))
        code, out, err = run("explain", kernel)
        assert code == 2 and "\0" not in out + err and "a\\x00b" in err
    shapes = tmp_path / "shapes"
    shapes.write_text("64x64\0x64\n")
    code, out, err = run("suite", "--shapes", str(shapes), "--out", "mine")
    assert code == 2 and "\0" not in out + err and "64x64\\x00x64" in err


def test_a_certificate_that_names_a_file_with_a_nul_is_refused(run: Run, tmp_path: Path) -> None:
    run("generate", SHAPE, "--family", "naive")
    run("export", FULL, "--to", "vendored", "--examples", "0")
    (path,) = (tmp_path / "vendored").glob("*.certificate.json")
    record = json.loads(path.read_text())
    record["files"]["a\0b"] = "0" * 64
    path.write_text(json.dumps(record))
    code, out, err = run("verify", "--certificate", str(path))
    assert code == 2 and "\0" not in out + err and "names no file beside it: 'a\\x00b'" in err


def test_a_typical_size_goes_into_the_record_and_not_into_the_kernel(run: Run, tmp_path: Path) -> None:
    words = ["generate", "?x96x32", "--family", "naive"]
    run(*words, "--out", "usual")
    code, out, _ = run(*words, "--typical", "M=16")
    assert code == 0
    kernel, usual = read_kernel(tmp_path / written(out)), read_kernel(tmp_path / "usual" / Path(written(out)).name)
    assert kernel.source.problem == Problem(None, 96, 32, typical={"M": 16})
    assert kernel.source.text == usual.source.text and kernel.record and usual.record
    assert kernel.record["time"]["case"]["M"] == 16 and usual.record["time"]["case"]["M"] == 4096
    explained = json.loads(run("explain", written(out), "--json")[1])
    assert explained["case"]["M"] == 16


def test_a_batch_is_written_and_read_back(run: Run, tmp_path: Path) -> None:
    code, out, _ = run(
        *["generate", "16x12x8", "--batch", "?", "--stride-b", "0", "--family", "batched", "--dtype", "f64"]
    )
    assert code == 0 and written(out).startswith("gemmgen-out/gemm_f64_rr_bB_16x12x8_sm90_")
    kernel = read_kernel(tmp_path / written(out))
    problem = Problem(16, 12, 8, dtype=DType.F64, batch=None, stride_b=0)
    assert kernel.source == api.generate(problem, family="batched") and not kernel.edited
    made_by = (
        "gemmgen generate 16x12x8 --dtype f64 --layout rr --batch '?' --stride-b 0 --arch sm_90 --family batched\n"
    )
    assert made_by in kernel.source.text


def test_generate_writes_kernel_and_record(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("generate", SHAPE, "--family", "naive")
    assert code == 0 and written(out) == f"gemmgen-out/{RENDERED}.cu"
    kernel = read_kernel(tmp_path / written(out))
    assert kernel.record is not None and not kernel.edited
    assert kernel.source == api.generate(Problem(64, 96, 32), family="naive")
    assert kernel.record["time"]["kind"] == "predicted"
    assert kernel.record["verification"] is None
    assert kernel.record["command"] == "gemmgen generate 64x96x32 --family naive"
    assert no_files_but(tmp_path, f"{RENDERED}.cu", f"{RENDERED}.json")


@pytest.mark.parametrize("shape", [pytest.param("512x512x512", marks=pytest.mark.soak), "16x4096x4096"])
def test_generate_takes_what_the_model_ranks_first_and_says_what_to_do_next(run: Run, shape: str) -> None:
    code, out, err = run("generate", shape, "--dtype", "bf16", "--arch", "H100", "--out", "mine")
    problem = Problem(*parse_shape(shape), dtype=DType.BF16)
    best = search_of(problem, SEARCHED, device_named("H100"))[0].ranked[0]
    source = read_kernel(Path(written(out))).source
    assert code == 0 and err == "" and config_of(source) == (best.family, best.config)
    assert source == api.generate(problem, arch="H100") and source.family == "wgmma"
    assert f"{best.config} of wgmma, which the model ranks first\n" in out
    assert f"{figure(best.prediction.time_us)} us, predicted for H100; nothing was" in out
    commands = re.findall(r"^  (gemmgen .*)$", out, re.MULTILINE)
    assert [line.split()[1] for line in commands] == ["verify", "explain", "export", "tune"]
    assert all(f" {source.name} --out mine" in line for line in commands[:3])
    assert commands[3] == f"gemmgen tune {shape} --dtype bf16 --layout rr --arch sm_90"


def test_generate_says_why_no_family_has_a_config(run: Run, tmp_path: Path) -> None:
    code, out, err = run("generate", "64x64x64", "--dtype", "e4m3", "--compute", "promoted", "--arch", "sm_80")
    assert code == 1 and out == "" and no_files_but(tmp_path)
    assert err.startswith("gemmgen: failed: no kernel family has a config for 64x64x64 e4m3 ")
    assert "on sm_80: " in err and "simt" in err and "only tensor cores compute as --compute asks" in err


IMAGES = "100352x64x576 --dtype bf16 --layout rc --inputs im2col=56x56x64_3x3_p1x1"
MEANT = [
    ("512X512X512", "512x512x512"),
    ("512x512x512 --arch sm90", "512x512x512 --arch sm_90"),
    ("512x512x512 --arch SM_90A", "512x512x512 --arch sm_90a"),
    ("512x512x512 --arch hopper", "512x512x512 --arch sm_90"),
    ("512x512x512 --arch Ada", "512x512x512 --arch sm_89"),
    ("512x512x512 --arch Turing", "512x512x512 --arch sm_75"),
    ("512x512x512 --arch 8.0", "512x512x512 --arch sm_80"),
    ("512x512x512 --arch compute_86", "512x512x512 --arch sm_86"),
    ("512x512x512 --arch rtx4090", "512x512x512 --arch 'RTX 4090'"),
    ("512x512x512 --set bm=64", "512x512x512 --set BM=64"),
    ("'?x512x512' --typical m=16", "'?x512x512' --typical M=16"),
    ("512x512x512 --family SIMT", "512x512x512 --family simt"),
    ("512x512x512 --dtype BF16", "512x512x512 --dtype bf16"),
    ("512x512x512 --dtype float16", "512x512x512 --dtype f16"),
    ("512x512x512 --dtype torch.float64", "512x512x512 --dtype f64"),
    ("512x512x512 --types int8,INT8,Int32", "512x512x512 --types s8,s8,s32"),
    ("512x512x512 --types float8_e4m3fn,fp8_e5m2,half", "512x512x512 --types e4m3,e5m2,f16"),
    ("conv 32x56x56x64 64x3x3 --pad 1", IMAGES),
    ("--pad 1x1 CONV 32X56X56X64 64x3x3x64 --stride 1", IMAGES),
    (
        "conv '?x9x8x16' 24x3x2 --pad 1x0x2x1 --stride 2x1 --dilation 2 --dtype f16 --typical images=5",
        "'?x24x96' --dtype f16 --layout rc --inputs im2col=9x8x16_3x2_p1x0x2x1_s2x1_d2x2 --typical M=140",
    ),
    ("conv 2x9x8x16 '?x1x1' --layout rr", "144x?x16 --dtype bf16 --inputs im2col=9x8x16_1x1"),
]


@pytest.mark.parametrize(("words", "meant"), MEANT)
def test_other_spellings_are_understood(run: Run, words: str, meant: str) -> None:
    family = [] if "--family" in words or "--set" in words else ["--family", "naive"]
    lines = [["generate", *shlex.split(line), *family, "--json"] for line in (words, meant)]
    documents = [json.loads(run(*line)[1]) for line in lines]
    assert "error" not in documents[1] and documents[0] == documents[1]


@pytest.mark.parametrize("words", [["--family", "simt"], ["--set", "BM=64"]])
def test_generate_takes_the_default_config_where_a_family_or_an_axis_is_given(run: Run, words: list[str]) -> None:
    out = run("generate", "512x512x512", "--dtype", "bf16", *words)[1]
    default, values = SIMT.default(Problem(512, 512, 512, dtype=DType.BF16)), {"BM": 64} if "--set" in words else {}
    config = default.with_values(**values)
    assert config_of(read_kernel(Path(written(out))).source) == (SIMT, config) and "the model ranks" not in out


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("64x96x32", marks=pytest.mark.soak),
        "64x96x32 --family simt",
        "512x512x512 --dtype bf16",
        "'?x?x?' --layout cc --set BM=64 --set BN=64 --set WM=32 --set TM=4",
        "64x96x32 --lda 40 --ldb '?' --ldc 100 --pointer-align 8 --ld-align 2",
        "'?x96x32' --layout rc --family naive --set BM=8",
    ],
)
def test_header_states_a_command_that_reproduces_the_file(run: Run, tmp_path: Path, words: str) -> None:
    _, out, _ = run("generate", *shlex.split(words))
    path = tmp_path / written(out)
    command = re.search(r"// Made by gemmgen (.*)", path.read_text())
    assert command is not None
    code, again, _ = run(*shlex.split(command[1]), "--out", "again")
    assert code == 0
    assert (tmp_path / written(again)).name == path.name
    assert (tmp_path / written(again)).read_bytes() == path.read_bytes()


def test_json_is_one_document(run: Run) -> None:
    _, out, err = run("generate", SHAPE, "--family", "naive", "--json")
    document = json.loads(out)
    assert document["name"] == RENDERED and len(document["files"]) == 2 and err == ""


@pytest.mark.parametrize(("command", "stated"), [("explain", True), ("export", True), ("diff", True), ("tune", False)])
def test_help_says_what_arch_auto_is(run: Run, command: str, stated: bool) -> None:
    out = " ".join(run(command, "--help")[1].split())
    assert ("auto: that of the kernel's JSON, else of the GPU here, else sm_90." in out) == stated
    assert ("auto: of the GPU here, else sm_90." in out) != stated


def test_space_shows_how_many_configs_are_accepted_where_most_are_not(run: Run) -> None:
    assert "16 configs, 15 accepted\n" in run("space", "512x512x512", "--family", "naive")[1]
    assert words.accepted(1, 2) == "1 accepted (1 in 2)" and words.accepted(0, 9) == "0 accepted"


def test_space_counts_add_up(run: Run) -> None:
    _, out, _ = run("space", SHAPE, "--json")
    document = json.loads(out)
    rejected = sum(rule["configs"] for rule in document["rejected"])
    assert document["accepted"] + rejected == document["configs"]
    code, shown, _ = run("space", SHAPE)
    assert code == 0 and f"{document['configs']:,} configs" in shown and "BM % WM == 0" in shown


def test_explain_counts_what_an_fma_costs(run: Run) -> None:
    """BM = BN = 128, TM = TN = 8: for each k 256 floats of global memory for 128 * 128 FMAs, 16 of shared for 64."""
    name = full_name_of(api.generate(Problem(4096, 4096, 4096), family="simt"))
    code, out, _ = run("explain", name)
    assert code == 0
    assert "0.0625 bytes of reads for each FMA, 256 for each element of C" in out
    assert "1 bytes of reads for each FMA, 4096 for each element of C" in out
    document = json.loads(run("explain", name, "--json")[1])
    assert document["traffic"]["shared_bytes"] == 1
    assert document["roofline"]["bound"] == "compute"
    assert document["tiles"][0] == {"unit": "block", "rows": 128, "cols": 128, "count": 1024, "above": "grid"}


def test_devices_knows_cards_that_are_not_here(run: Run) -> None:
    document = json.loads(run("devices", "--json")[1])
    assert {"A100", "H200", "RTX 5090"} <= {card["name"] for card in document["known"]}
    assert [part["name"] for part in document["here"]["parts"]] == ["GPU", "NVRTC", "nvdisasm", "C++ compiler"]
    assert run("devices")[0] == 0


def test_export_of_a_generated_kernel(run: Run, tmp_path: Path) -> None:
    run("generate", SHAPE, "--family", "naive")
    code, out, _ = run("export", FULL, "--to", "vendored", "--examples", "0", "--json")
    assert code == 0
    files = [Path(file) for file in json.loads(out)["files"]]
    assert all((tmp_path / file).is_file() for file in files)
    certificate = json.loads((tmp_path / "vendored" / f"{RENDERED}.certificate.json").read_text())
    assert certificate["arch"] == "sm_90" and certificate["launch"]["threads"] == 256


def test_export_of_several_kernels_into_one_folder(run: Run, tmp_path: Path) -> None:
    other = FULL.replace("64x96x32", "64x96x48")
    code, out, _ = run("export", FULL, other, "--to", "both", "--examples", "0", "--json")
    kernels = json.loads(out)["kernels"]
    assert code == 0 and all(len(one["files"]) == 6 for one in kernels)
    assert len(list((tmp_path / "both").iterdir())) == 2 * 4 + 2
    code, _, err = run("export", FULL, FULL, "--to", "both", "--examples", "0")
    assert code == 2 and f"two of the kernels write {RENDERED}.certificate.json" in err
    code, _, err = run("export", FULL, other, "--to", "both", "--examples", "0", "--as", "mine")
    assert code == 2 and "--as mine names one kernel, not 2" in err
    assert run("export", FULL, "--to", "both", "--examples", "0", "--as", "mine")[0] == 0
    for name in (RENDERED, "mine"):
        _, out, _ = run("verify", "--certificate", f"both/{name}.certificate.json")
        assert "the files are those of the certificate" in out, "an export beside it touches no certificate"
    names = (RENDERED, kernels[1]["name"], "mine")
    build = (tmp_path / "both" / "CMakeLists.txt").read_text()
    assert all(f"add_kernel({name} 75)" in build for name in names)


def test_export_of_an_edited_kernel_claims_nothing_of_the_original(run: Run, tmp_path: Path) -> None:
    run("generate", SHAPE, "--family", "naive")
    path = tmp_path / "gemmgen-out" / f"{RENDERED}.cu"
    record = json.loads(path.with_suffix(".json").read_text())
    path.with_suffix(".json").write_text(json.dumps({**record, "verification": {"passed": True}}))
    path.write_text(path.read_text() + "// by hand\n")
    assert run("export", str(path), "--to", "vendored", "--examples", "0")[0] == 0
    certificate = json.loads((tmp_path / "vendored" / f"{RENDERED}.certificate.json").read_text())
    assert certificate["edited"] is True
    assert certificate["verification"] is None and certificate["earlier"] is None
    assert "that it is right: nothing was run for this certificate" in certificate["not_shown"]


# Kernels on disk


def test_a_name_is_looked_up_then_rendered(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert find_kernel(FULL, out, CARD).path is None
    assert find_kernel(FULL, out, CARD).reference == FULL, "a command that reads it again"
    assert "_sm80_" in find_kernel(FULL, out, device_named("A100")).source.name
    source = api.generate(Problem(64, 96, 32), family="naive", out=out)
    (out / f"{RENDERED}.cu").write_text(source.text + "// by hand\n")
    found = find_kernel(RENDERED, out, CARD)
    assert found.path == out / f"{RENDERED}.cu" and found.edited and found.source.text.endswith("// by hand\n")
    assert find_kernel(str(found.path.with_suffix(".json")), tmp_path, CARD) == found


def test_a_file_without_json_is_launched_by_its_header(tmp_path: Path) -> None:
    source = api.generate(Problem(64, 96, 32), family="naive", out=tmp_path)
    (tmp_path / f"{RENDERED}.json").unlink()
    assert read_kernel(tmp_path / f"{RENDERED}.cu").source == source


def test_a_renamed_file_is_launched_by_its_json(tmp_path: Path) -> None:
    source = api.generate(Problem(64, 96, 32), family="naive", out=tmp_path)
    for suffix in (".cu", ".json"):
        (tmp_path / f"{RENDERED}{suffix}").rename(tmp_path / f"mine{suffix}")
    assert read_kernel(tmp_path / "mine.cu").source == source
    (tmp_path / "mine.json").unlink()
    assert read_kernel(tmp_path / "mine.cu").source == source, "and without one by its header"
    (tmp_path / "mine.cu").write_text(source.text.replace(CONFIG, "// "))
    with pytest.raises(InvalidInput, match=r"how to launch .*mine.cu is not known.* Copy its JSON along"):
        read_kernel(tmp_path / "mine.cu")


def test_a_file_of_old_is_launched_by_its_name(tmp_path: Path) -> None:
    """As those are called that were rendered when names were full."""
    source = api.generate(Problem(64, 96, 32), family="naive")
    lines = [line for line in source.text.splitlines(keepends=True) if not line.startswith(CONFIG)]
    (tmp_path / f"{FULL}.cu").write_text("".join(lines).replace(source.name, FULL))
    kernel = read_kernel(tmp_path / f"{FULL}.cu").source
    assert (kernel.name, kernel.launch, kernel.parameters) == (FULL, source.launch, source.parameters)


def test_a_kernel_is_found_by_the_beginning_of_its_name(run: Run, tmp_path: Path) -> None:
    for shape, out in (("64x96x32", "gemmgen-out"), ("65x96x32", "."), ("66x96x32", "generated/sm_90")):
        assert run("generate", shape, "--family", "naive", "--out", out)[0] == 0
    for shape in ("64", "65", "66"):
        found = find_kernel(f"gemm_f32_rr_{shape}", Path("gemmgen-out"), CARD)
        assert found.source.name.startswith(f"gemm_f32_rr_{shape}x96x32_sm90_")
    code, out, err = run("explain", "gemm_f32_rr")
    assert (
        code == 2 and out == "" and "'gemm_f32_rr' begins the names of 3 kernels:\n  gemm_f32_rr_64x96x32_sm90_" in err
    )
    assert run("generate", "64x96x32", "--set", "BM=64", "--as", "gemm_f32")[0] == 0
    found = find_kernel("gemm_f32", Path("gemmgen-out"), CARD)
    assert found.source.name == "gemm_f32", "a whole name is no beginning"
    for arch in ("sm_80", "sm_89"):  # of several architectures the one that is asked for, or at hand, comes first
        for shape in ("66x96x32", "67x96x32"):
            assert run("generate", shape, "--family", "naive", "--arch", arch, "--out", f"generated/{arch}")[0] == 0
    assert find_kernel("gemm_f32_rr_66", Path("gemmgen-out"), CARD).source.arch == CARD.arch.name
    assert find_kernel("gemm_f32_rr_66", Path("gemmgen-out"), device_named("RTX 4090")).source.arch == "sm_89"
    with pytest.raises(InvalidInput, match="'gemm_f32_rr_67' begins the names of 2 kernels"):
        find_kernel("gemm_f32_rr_67", Path("gemmgen-out"), CARD)
    code, _, err = run("explain", "gemm_f64")
    assert code == 2 and "'gemm_f64' is not the full name of a gemmgen kernel" in err


def test_a_name_of_the_users_own(run: Run, tmp_path: Path) -> None:
    words = ["generate", "64x96x32", "--family", "naive", "--arch", "sm_80"]
    assert written(run(*words, "--as", "my_gemm")[1]) == "gemmgen-out/my_gemm.cu"
    kernel = read_kernel(tmp_path / "gemmgen-out" / "my_gemm.cu")
    assert kernel.source.own_name == "my_gemm" and "\nmy_gemm(\n" in kernel.source.text and not kernel.edited
    made = next(line for line in kernel.source.text.splitlines() if line.startswith("// Made by "))
    assert made.endswith(" --as my_gemm"), "the command makes it again, name included"
    again = run(*shlex.split(made.removeprefix("// Made by gemmgen ")), "--out", "again")[1]
    assert Path(written(again)).read_text() == kernel.source.text
    assert rendered_again(kernel.source, kernel.arch) == kernel.source
    assert run("export", "my_gemm", "--to", "vendored", "--examples", "0", "--as", "theirs")[0] == 0
    assert {path.name for path in Path("vendored").glob("theirs*")} == {
        *("theirs.cu", "theirs.h", "theirs_selftest.cu", "theirs.certificate.json"),
    }
    header = Path("vendored/theirs.h").read_text()
    assert "theirs_launch(" in header and "my_gemm" not in header
    assert "renders the same text" in run("verify", "--certificate", "vendored/theirs.certificate.json")[1]


NO_NAMES = ("", "2fast", "a b", "a-b", "über", "_x", "x" * 101, "while", "co_await", "threadIdx")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *((f"generate {SHAPE} --family naive", name) for name in NO_NAMES),
        *((command, name) for command in (f"tune {SHAPE}", f"export {FULL} --to out") for name in ("2fast", "while")),
    ],
)
def test_what_can_name_no_kernel_is_refused(run: Run, tmp_path: Path, command: str, name: str) -> None:
    code, out, err = run(*command.split(), "--as", name)
    because = "CUDA C++ has another use for it" if name in RESERVED else "write a C identifier"
    assert code == 2 and out == "" and f"can name no kernel: {because}" in err
    assert no_files_but(tmp_path)


def test_names_of_a_hundred_letters_are_taken_and_longer_ones_counted(run: Run) -> None:
    name = "x" * 100
    assert run(*f"export {FULL} --to out --examples 0".split(), "--as", name)[0] == 0
    assert f"{name}_launch(" in Path(f"out/{name}.h").read_text()
    err = run("generate", SHAPE, "--as", f"{name}y")[2]
    assert f"'{name}'..., of 101 letters, can name no kernel: " in err and "of at most 100 letters" in err


def test_a_name_that_the_text_uses_is_refused(run: Run, tmp_path: Path) -> None:
    for command in ("generate", "tune"):
        code, _, err = run(command, SHAPE, "--as", "Shape")
        assert code == 2 and "'Shape' cannot name this kernel: its text has another use for it" in err
    code, _, err = run("tune", SHAPE, SHAPE, "--as", "mine")
    assert code == 2 and "--as mine names one kernel: 2 shapes are given" in err
    assert no_files_but(tmp_path)


@pytest.mark.parametrize(
    "problem",
    [Problem(1, 2, 3), Problem(None, 8, None, layout=Layout("c", "r"), lda=None, ldc=9, pointer_align=4, ld_align=4)],
)
def test_records_read_back(tmp_path: Path, problem: Problem) -> None:
    source = api.generate(problem, out=tmp_path)
    assert read_kernel(tmp_path / f"{source.name}.cu").source == source
    assert json.loads(json.dumps(problem_document(problem))) == problem_document(problem)


def test_a_kernel_that_cannot_be_written_leaves_no_record(tmp_path: Path) -> None:
    source = api.generate(Problem(64, 96, 32), family="naive")
    (tmp_path / f"{RENDERED}.cu").mkdir()  # a folder cannot be replaced by a file
    with pytest.raises(GemmgenError):
        write_kernel(source, {}, tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / f"{RENDERED}.cu"]


# Bad input: a clear message, exit code 2 or 1, nothing half-written, no traceback


def wide(digits: str) -> str:
    """`digits` as East Asian typography has them, which int() reads."""
    return "".join(chr(ord(digit) - ord("0") + 0xFF10) for digit in digits)


BROKEN_USAGE = {
    "shape that overflows": ("generate 99999999999x1x1", "M = 99999999999: a size is 1 to 2147418112"),
    "absurd shape": (f"tune {'9' * 5000}x1x1", "is no shape: write MxNxK"),
    "zero size": ("tune 0x64x64", "M = 0"),
    "negative size": ("tune 64x-1x64", "N = -1"),
    "no shape": ("space 64x64", "write MxNxK"),
    "a shape in full-width digits": (f"tune {wide('512')}x512x512", "is no shape: write MxNxK"),
    "a parameter in full-width digits": (
        f"generate 64x64x64 --set BM={wide('64')}",
        "write NAME=VALUE with an integer",
    ),
    "a distance in full-width digits": (f"generate 64x64x64 --lda {wide('64')}", 'known are "dense", None or "?"'),
    "a batch in full-width digits": (f"generate 64x64x64 --batch {wide('9')}", "is no whole number"),
    "a part in full-width digits": (f"suite --part {wide('1')}/2", "is no part: write I/N"),
    "an arch in full-width digits": (f"explain x --arch sm_{wide('90')}", f"unknown arch 'sm_{wide('90')}'"),
    "bf16 by WMMA of sm_75": (
        "generate 64x64x64 --family wmma --dtype bf16 --arch sm_75",
        "(ARCH = 75, WMMA_SINCE = 80): the architecture has no such instruction of these types",
    ),
    "f16 by batchedmma of sm_75": (
        "generate 64x64x64 --family batchedmma --dtype f16 --batch 9 --arch sm_75",
        "(ARCH = 75, MMA_SINCE = 80): the architecture has no such instruction of these types",
    ),
    "a dtype that may be one of two": (
        "tune 64x64x64 --dtype fp8",
        "unknown dtype 'fp8' (e4m3 or e5m2 here): known are f32",
    ),
    "tf32 as a type": ("tune 64x64x64 --dtype TF32", "not an element type: f32 with compute tf32"),
    "dtype": ("tune 64x64x64 --dtype f17", "unknown dtype 'f17': known are f32"),
    "layout": ("generate 64x64x64 --layout rx", "unknown layout 'rx'"),
    "arch": ("tune 64x64x64 --arch sm_10", "unknown arch 'sm_10': known are sm_75"),
    "a generation of several archs": (
        "generate 64x64x64 --arch ampere",
        "ampere may mean sm_80 (A100) or sm_86 (RTX 3090, A10)",
    ),
    "the latest generation": ("explain x --arch Blackwell", "Blackwell may mean sm_100 (B200) or sm_120 (RTX 5090)"),
    "an arch of a generation that is too old": ("generate 64x64x64 --arch sm70", "unknown arch 'sm_70': known are"),
    "card": ("explain x --arch Voodoo2", "unknown arch 'Voodoo2'"),
    "family": ("generate 64x64x64 --family cute", "'cute' is not one of 'simt', 'skinny', 'batched', 'naive'"),
    "a typical size that is fixed": ("tune 64x64x64 --typical M=8", "typical M = 8, but M is fixed at 64"),
    "no typical size": ("tune ?x64x64 --typical M", "write NAME=VALUE with an integer"),
    "constraint": ("generate 64x64x64 --set BM=100", "BM % TM is 4; BM = 100, TM = 8"),
    "nearest values": ("generate 64x64x64 --set BM=100", "Nearest that would do: BM = 64 or 128"),
    "zero parameter": ("generate 64x64x64 --set TM=0", "a tile holds at least one element"),
    "negative parameter": ("generate 64x64x64 --set TM=-8", "no parameter is negative"),
    "no parameter": ("generate 64x64x64 --set XY=1", "'XY' is no parameter: known are OUTER"),
    "no value": ("generate 64x64x64 --set BM=big", "write NAME=VALUE with an integer"),
    "leading dimension": ("generate 64x64x64 --lda 8", "lda = 8 is shorter than a line of 64"),
    "no distance": ("generate 64x64x64 --lda 8.5", "lda = '8.5': known are"),
    "alignment": ("generate 64x64x64 --pointer-align 3", "pointer_align = 3"),
    "no batch": ("generate 64x64x64 --batch many", "batch = 'many' is no whole number"),
    "a stride without a batch": ("generate 64x64x64 --stride-a 0", "stride_a = 0 serves a batch, and batch = 1"),
    "pointers without a batch": ("generate 64x64x64 --pointers", "arrays of pointers serve a batch, and batch = 1"),
    "pointers with strides": (
        "generate 64x64x64 --batch 9 --pointers --stride-a 0",
        "stride_a = 0: matrices behind pointers have no stride",
    ),
    "a family that serves no such problem": ("generate 64x64x64 --family batched", "it serves batches only"),
    "budget": ("tune 64x64x64 --budget 0", "--budget"),
    "command": ("optimise 64x64x64", "No such command 'optimise'"),
    "option": ("tune 64x64x64 --fast", "No such option"),
    "no kernel": (
        "verify no_such_kernel",
        "no kernel in gemmgen-out, this folder or generated/ has a name that begins so",
    ),
    "no rung": ("diff nowhere nothing", "no rung there has this title: gemmgen study LADDER --out gemmgen-out"),
    "a typical size that is none": ("tune ?x64x64 --typical M=five", "'M=five' sets nothing: write NAME=VALUE with an"),
    "and what would be one": ("tune ?x64x64 --typical M=five", "for example M=512"),
    "a record without its kernel": (
        "verify no/such.json",
        "no/such.json stands for the kernel beside it, and there is no",
    ),
    "no file": ("explain no/such/file.cu", "cannot read no/such/file.cu: No such file"),
    "missing --to": ("export x", "Missing option '--to'"),
    "bench of a wrong shape": ("bench 0x1x1", "M = 0"),
    "no gallery": ("gallery nowhere", "nowhere is no folder"),
    "two shapes": ("generate 64x64x64 32x32x32", "2 shapes are given, and this command takes one"),
    "no filters": (
        "tune conv 2x9x9x8",
        "filters KxRxS, for example conv 32x56x56x64 64x3x3, and 2x9x9x8 alone follows",
    ),
    "no images": ("tune conv 9x9x8 64x3x3", "'9x9x8' are no images: write NxHxWxC, for example 32x56x56x64"),
    "filters without taps": ("bench conv 2x9x9x8 64x3", "'64x3' are no filters: write KxRxS, for example 64x3x3"),
    "depthwise filters": ("tune conv 2x9x9x8 8x3x3x1", "groups = 8 of 8 channels: kernels take groups = 1"),
    "filters of other channels": (
        "tune conv 2x9x9x8 8x3x3x3",
        "filters 8x3x3x3 have 3 channels, and images 2x9x9x8 have 8",
    ),
    "a filter larger than the image": (
        "generate conv 2x5x9x8 8x7x7 --pad 0x1",
        "the filter spans 7 rows, and the padded image has 5",
    ),
    "three numbers around": ("tune conv 2x9x9x8 8x3x3 --pad 1x2x3", "3 numbers, and 1, 2 or 4 are needed"),
    "no numbers around": ("tune conv 2x9x9x8 8x3x3 --pad 1x", "'1x' is neither a number nor several"),
    "padding of a product": ("tune 64x64x64 --pad 1 --stride 2", "--pad 1 and --stride 2 without a convolution: write"),
    "inputs of a convolution": (
        "tune conv 2x9x9x8 8x3x3 --inputs gathered",
        "inputs = gathered, and those of a convolution are im2col=9x9x8_3x3: leave them out",
    ),
}


@pytest.mark.parametrize("case", BROKEN_USAGE)
def test_wrong_usage_is_explained(run: Run, tmp_path: Path, case: str) -> None:
    line, message = BROKEN_USAGE[case]
    code, out, err = run(*shlex.split(line))
    assert code == 2 and out == ""
    assert message in err and "Traceback" not in err
    code, out, _ = run(*shlex.split(line), "--json")
    error = json.loads(out)["error"]
    assert code == 2 and error["exit_code"] == 2 and message in error["message"]
    assert no_files_but(tmp_path)


def test_a_name_that_breaks_a_constraint_is_wrong_usage(run: Run) -> None:
    code, _, err = run("explain", FULL.replace("16x16", "64x64"))
    assert code == 2 and "THREADS <= MAX_THREADS fails (MAX_THREADS = 1024, THREADS = 4096)" in err


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"name": 1}', "not json", '{"launch": {"threads": 1}}'])
def test_a_broken_json_is_wrong_usage(run: Run, tmp_path: Path, content: str) -> None:
    api.generate(Problem(64, 96, 32), family="naive", out=tmp_path)
    (tmp_path / f"{RENDERED}.json").write_text(content)
    code, _, err = run("explain", str(tmp_path / f"{RENDERED}.cu"))
    assert code == 2 and f"{RENDERED}.json" in err and "Traceback" not in err


WRONG_RECORDS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "threads": (lambda record: record["launch"].update(threads=-5), "-5 threads a block"),
    "a tile": (lambda record: record["launch"]["grid"][0].__setitem__(1, 0), "the grid divides M by 0"),
    "a size": (lambda record: record["problem"].update(m=-1), "M = -1"),
    "a dtype": (lambda record: record["problem"]["types"].update(b="f17"), "unknown dtype 'f17'"),
    "a parameter": (
        lambda record: record.update(parameters=[{"name": "X", "ctype": "const float*"}]),
        "unknown parameter const float* X",
    ),
    "the family": (lambda record: record.update(family="nope"), "unknown family 'nope'"),
    "an axis": (lambda record: record["config"].update(XX=1), "'XX' is no parameter"),
    "a negative axis": (lambda record: record["config"].update(BM=-1), "BM = -1: at least 0 is needed"),
    "a huge axis": (
        lambda record: record["config"].update(BM=10**30),
        f"BM = {10**30}: less than 2147483648 is needed, as kernels have it as an int",
    ),
    "a divisor": (lambda record: record.update(family="simt", config={"TM": 0}), "BM >= 1 and BN >= 1 and BK >= 1"),
    "the architecture": (lambda record: record.update(arch="sm_10"), "unknown arch 'sm_10'"),
}


@pytest.mark.parametrize("case", WRONG_RECORDS)
def test_a_wrong_value_in_a_json_is_told_with_its_file(run: Run, tmp_path: Path, case: str) -> None:
    change, message = WRONG_RECORDS[case]
    api.generate(Problem(64, 96, 32), family="naive", out=tmp_path)
    path = tmp_path / f"{RENDERED}.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    code, _, err = run("explain", str(path.with_suffix(".cu")))
    assert code == 2 and err.startswith(f"gemmgen: wrong usage: {path}: {message}")


def test_a_kernel_cut_off_in_its_header_has_no_function(run: Run, tmp_path: Path) -> None:
    api.generate(Problem(64, 96, 32), family="naive", out=tmp_path)
    path = tmp_path / f"{RENDERED}.cu"
    path.write_text(path.read_text()[:300])
    code, _, err = run("verify", path.name)
    assert RENDERED in path.read_text() and code == 2 and f"{path.name} has no function {RENDERED}" in err


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"int main() {}"])
def test_a_file_that_is_no_kernel_is_wrong_usage(run: Run, tmp_path: Path, content: bytes) -> None:
    (tmp_path / f"{RENDERED}.cu").write_bytes(content)
    code, _, err = run("verify", str(tmp_path / f"{RENDERED}.cu"), "--device", "emulator")
    assert code in (1, 2) and "Traceback" not in err  # 1 where there is no emulator either


@pytest.mark.parametrize("command", ["generate 64x64x64 --out", "tune 64x64x64 --out", f"export {FULL} --to"])
@pytest.mark.parametrize("where", ["/proc/nowhere/out", "file"])
def test_a_folder_that_takes_no_files(run: Run, tmp_path: Path, command: str, where: str) -> None:
    (tmp_path / "file").write_text("in the way")
    code, _, err = run(*command.split(), where)
    assert code == 1 and err.startswith("gemmgen: failed: cannot ") and "Traceback" not in err
    assert where != "file" or err.endswith(" file: Not a directory\n")
    assert no_files_but(tmp_path, "file")


def test_a_corpus_that_takes_no_files_is_refused_before_anything_runs(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr("gemmgen.cli.fuzz.open_target", None)
    code, out, err = run("fuzz", "--corpus", "file/corpus")
    assert code == 1 and out == "" and "cannot write to file/corpus: " in err and "file: Not a directory" in err


def test_a_full_disk(tmp_path: Path) -> None:
    """A limit on the size of files stands for it: writing fails half-way."""
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))"
    program = f"{limited}; import sys; from gemmgen.cli import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", program, "generate", SHAPE]
    here = {**os.environ, "PYTHONPATH": str(Path(api.__file__).parents[1])}
    done = subprocess.run(words, cwd=tmp_path, env=here, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "File too large" in done.stderr and "Traceback" not in done.stderr
    assert no_files_but(tmp_path)


def test_no_driver(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("gemmgen.run.target", "gemmgen.judge.bench", "gemmgen.run.gpu.executor"):
        monkeypatch.setattr(sys.modules[module], "why_no_gpu", lambda: "no NVIDIA driver: install the driver")
    for line, expected in (
        ("tune 64x64x64 --device gpu", 1),
        (f"verify {FULL} --device gpu", 3),
        (f"export {FULL} --device gpu --to out", 3),
        ("bench 64x64x64", 1),
        ("devices --measure", 1),
    ):
        code, out, err = run(*line.split())
        assert code == expected and out == "" and "no NVIDIA driver: install the driver" in err, line
    document = json.loads(run("tune", "64x64x64", "--device", "gpu", "--json")[1])
    assert document["error"]["failure"] == {
        "kind": "unavailable",
        "reason": "no NVIDIA driver: install the driver",
        "source": "gpu",
    }


def test_a_kernel_that_nothing_here_can_run_is_not_judged(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++")
    code, out, err = run("verify", FULL, "--device", "emulator")
    assert code == 3 and out == "" and err.startswith("gemmgen: not judged: unavailable (emulator): ")
    error = json.loads(run("verify", FULL, "--device", "emulator", "--json")[1])["error"]
    assert error["exit_code"] == 3 and error["failure"]["kind"] == "unavailable"


def test_a_problem_too_large_to_verify(run: Run, tmp_path: Path) -> None:
    code, _, err = run("tune", "1000000x1000000x1000000")
    assert code == 1 and "too large to verify here" in err
    assert no_files_but(tmp_path)
    code, out, err = run("verify", FULL.replace("64x96x32", "400000x400000x40000"))
    assert code == 3 and out == "" and "not judged" in err and "too large to verify here" in err, "nothing is wrong"


def test_an_interrupt_says_that_it_resumes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gemmgen.lab.commands.space.explore", interrupted)
    code, out, err = run("space", SHAPE)
    assert code == 130 and out == "" and "the same command resumes" in err


def test_an_interrupt_is_one_also_where_cleanup_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise AssertionError

    monkeypatch.setattr("gemmgen.lab.commands.space.explore", interrupted)
    code, out, err = run("space", SHAPE)
    assert code == 130 and out == "" and "the same command resumes" in err


def test_a_bug_is_not_hidden(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("gemmgen.lab.commands.space.explore", broken)
    with pytest.raises(ZeroDivisionError):
        run("space", SHAPE)


# Progress, where standard error is no terminal


def test_a_stage_says_how_far_it_is_while_it_lasts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.01)

    def heard(words: str) -> bool:
        nonlocal err
        for _ in range(6000):  # a minute and more
            err += capsys.readouterr().err
            if words in err:
                return True
            time.sleep(0.01)
        return False

    err = ""
    with progress.watch() as watch:
        watch.stage("explore", 1)
        assert heard("explore the space: ")
        watch.stage("verify", 2)
        assert heard("verify: 0 of 2, ")
        watch.step("verify", None)
        assert heard("verify: 1 of 2, ")
    with progress.counter("plant bugs", 3) as step:
        step()
        assert heard("plant bugs: 1 of 3, ")
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == "", "nothing after the end"


def test_a_short_stage_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.watch() as watch:
        watch.stage("explore", 1)
        watch.stage("compile", 24)
    assert capsys.readouterr().err == "explore the space\ncompile: 24\n"


# Bench


def test_bench_takes_the_fastest_measured_winner_on_file(tmp_path: Path) -> None:
    problem = Problem(64, 96, 32)
    for tile, us, kind in ((8, 5.0, "measured"), (16, 3.0, "measured"), (32, 1.0, "predicted")):
        source = api.generate(problem, family="naive", BM=tile, out=tmp_path)
        path = tmp_path / f"{source.name}.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "time": {"kind": kind, "us": us}}))
    found = bench.winner_on_file(problem, "sm_90", CARD, tmp_path)
    assert found is not None and found.source.config["BM"] == 16
    assert bench.winner_on_file(problem, "sm_80", CARD, tmp_path) is None
    assert bench.winner_on_file(Problem(1, 1, 1), "sm_90", CARD, tmp_path) is None


def test_a_grid_that_cuda_cannot_launch_is_wrong_usage(run: Run, tmp_path: Path) -> None:
    code, _, err = run("generate", "2147418112x16384x1", "--family", "naive", "--out", str(tmp_path / "out"))
    assert code == 2
    assert "137434759168" in err and "2147483647" in err, "both numbers"
    assert not (tmp_path / "out").exists()
