"""What exported folders say: header, launcher and self-test of a plain kernel and of one with types and epilogue."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gemmgen
from gemmgen.exports import exporting
from gemmgen.exports.exported_text import kernel_alone
from gemmgen.exports.exporting import compiled_where_possible
from gemmgen.exports.folder import (
    export,
    export_all,
    folder_texts,
    interface_of,
    own_texts,
    require_exportable,
    require_together,
    shared_texts,
)
from gemmgen.exports.interface import Interface
from gemmgen.exports.kernelfile import read_record
from gemmgen.exports.selftest import SelfTest
from gemmgen.exports.torchop import TorchOperator
from gemmgen.families import FAMILIES, NAIVE, WGMMA
from gemmgen.kernel.contract import Contract
from gemmgen.kernel.source import KernelSource
from gemmgen.kernel.tensor_map import TensorMap
from gemmgen.problem.epilogue import parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.images import Conv
from gemmgen.render.epilogue_text import reference_text
from gemmgen.render.kernel_text import render
from gemmgen.run.compile import CompiledKernel
from gemmgen.support.errors import CandidateFailed, Failure, FailureKind, InvalidInput
from gemmgen.support.files import Store


def naive(**problem: Any) -> KernelSource:
    described = Problem(None, None, None, **problem)
    return render(described, NAIVE, NAIVE.default(described)).renamed("gemm")


def mapped(source: KernelSource, *maps: TensorMap, **launch: Any) -> KernelSource:
    """`source` with a launch of tensor maps, whatever its text takes."""
    return replace(source, contract=Contract.of(source.problem, replace(source.launch, maps=maps, **launch)))


QUANTISED = "aux(alpha * (acc - zero_a * column_sum) * scale_n + beta * C) + residual"
MAPS = TensorMap("A", (64, 64), 128, 256), TensorMap("B", (128, 32), 0)
CODES = Problem(None, 136, 256, types="bf16,u4,bf16", layout="rc", inputs="scales=128+zeros")
BYTES = Problem(None, 136, 256, types="f16,s8,f16", layout="rc", inputs="scales=64+zeros")
IMAGES = Conv(None, (9, 8, 16), 24, (3, 2), pad=(1, 0, 2, 1), stride=(2, 1), dilation=2, lda=None, ld_align=8)
TOKENS = Problem(None, 136, 256, types="bf16", layout="rc", inputs="groups=5+gathered")
PLACES = Problem(None, 136, 256, types="bf16", layout="rc", inputs="groups=5+scattered", epilogue="scale_m")
GRADIENT = Problem(24, 96, None, types="bf16,bf16,f32", layout="cr", inputs="im2col=9x8x16_3x2_p1x0x2x1_s2x1+wgrad")
SAMPLES = {
    "plain": naive(),
    "quantised": naive(types="u8,s8,bf16", epilogue=QUANTISED),
    "mapped": mapped(naive(types="bf16", ld_align=8, epilogue="bias"), *MAPS, persistent=True),
    "codes": render(CODES, WGMMA, WGMMA.default(CODES)).renamed("gemm"),
    "bytes": render(BYTES, WGMMA, WGMMA.default(BYTES)).renamed("gemm"),
    "images": render(IMAGES, WGMMA, WGMMA.default(IMAGES)).renamed("gemm"),
    "gathered": render(TOKENS, WGMMA, WGMMA.default(TOKENS)).renamed("gemm"),
    "scattered": render(PLACES, WGMMA, WGMMA.default(PLACES)).renamed("gemm"),
    "gradient": render(GRADIENT, WGMMA, WGMMA.default(GRADIENT)).renamed("gemm"),
}

UNTESTED = ("mapped", "gemm_selftest.cu")  # it is as the others'


@pytest.mark.parametrize(
    ("name", "file"),
    [
        *[
            (name, file)
            for name in SAMPLES
            for file in ("gemm.h", "gemm.cu", "gemm_selftest.cu")
            if (name, file) != UNTESTED
        ],
        ("plain", "gemm_torch.cpp"),
        ("quantised", "gemm_torch.cpp"),
    ],
)
def test_exported_text(name: str, file: str, golden: Callable[[str, str], None]) -> None:
    source = SAMPLES[name]
    text = own_texts(source, "sm_90a" if source.launch.maps else "sm_90", torch=True)[file]
    golden(f"export/{name}/{file}", text.replace(source.text, "// the kernel\n"))


@pytest.mark.parametrize(
    ("types", "arguments", "headers"),
    [
        ("f32", ("const float* A", "const float* B", "float* C", "float alpha"), ()),
        ("bf16", ("const __nv_bfloat16* A", "const __nv_bfloat16* B", "__nv_bfloat16* C", "float alpha"), ("bf16",)),
        ("f16,e5m2,f32", ("const __half* A", "const __nv_fp8_e5m2* B", "float* C", "float alpha"), ("fp16", "fp8")),
        ("e4m3", ("const __nv_fp8_e4m3* A", "const __nv_fp8_e4m3* B", "__nv_fp8_e4m3* C", "float alpha"), ("fp8",)),
        ("s8,u8,s32", ("const int8_t* A", "const uint8_t* B", "int32_t* C", "int32_t alpha"), ()),
        ("u8", ("const uint8_t* A", "const uint8_t* B", "uint8_t* C", "float alpha"), ()),
    ],
)
def test_the_header_has_the_types_of_the_field(
    types: str, arguments: tuple[str, ...], headers: tuple[str, ...]
) -> None:
    header = own_texts(naive(types=types), "sm_90")["gemm.h"]
    declared = re.split(r",\s+", header.partition("gemm_launch(")[2].partition(");")[0].strip())
    assert {*arguments} <= {re.sub(r"/\* (\w+) \*/", r"\1", one) for one in declared}
    for name in ("bf16", "fp16", "fp8"):
        assert (f"#include <cuda_{name}.h>" in header) == (name in headers)
    assert f"It needs an sm_{89 if 'e4m3' in types else 80 if 'bf16' in types else 75} or newer;" in header
    assert ("#include <stdint.h>" in header) == any("int" in argument for argument in arguments)


def test_arrays_of_pointers_have_the_types_of_the_field() -> None:
    texts = own_texts(naive(types="bf16,bf16,f32", batch=None, pointers=True, pointer_align=2), "sm_90")
    assert "const __nv_bfloat16* const* /* A_array */," in texts["gemm.h"]
    assert "at addresses divisible by\n *           2 (A), 2 (B), 4 (C)." in texts["gemm.h"]
    assert "reinterpret_cast<const BF16* const*>(A_array)" in texts["gemm.cu"]


def test_each_address_is_checked_for_its_own_alignment() -> None:
    source = naive(types="bf16,e4m3,f32", pointer_align=1, epilogue="scale_n")
    assert [(one.bytes, one.names) for one in Interface(source, "sm_90").alignments] == [
        (2, ("A",)),
        (4, ("C", "scale_n")),
    ]
    assert " * B         device memory, at any address\n" in own_texts(source, "sm_90")["gemm.h"]


def test_what_is_written_beside_c_is_described() -> None:
    header = own_texts(naive(types="bf16", epilogue="bias+aux+gelu"), "sm_90")["gemm.h"]
    assert "aux      float, M x N, row-major, ldc elements from one row to the next" in header
    assert "is written: alpha * acc + beta * C + bias_n" in header
    assert " * C, aux are written, and overlap no other operand" in header


def test_the_header_says_what_a_compute_gives_up() -> None:
    wgmma = FAMILIES["wgmma"]
    for types, said in (("f32_bf16x6", "below 2^-110"), ("f32_tf32", "rounded to the 11 bits of tf32"), ("bf16", "")):
        problem = Problem(None, None, None, types=types)  # type: ignore[arg-type]
        source = render(problem, wgmma, wgmma.default(problem)).renamed("gemm")
        texts = own_texts(source, "sm_90a")
        lines = texts["gemm.h"].split("\n * As --compute ")
        assert (len(lines) == 2) == bool(said) and said in lines[-1]
        assert ("cut_off" in texts["gemm_selftest.cu"]) == (types != "f32_bf16x6")  # whose data has no tiny numbers


def test_a_launch_sets_the_largest_magnitudes_to_zero() -> None:
    texts = own_texts(naive(epilogue="row_amax+column_amax", batch=9), "sm_90")
    assert " * row_amax, column_amax may hold anything before: each launch sets them to 0" in texts["gemm.h"]
    assert "cudaMemsetAsync(row_amax, 0, sizeof(float) * 9 * M, stream)" in texts["gemm.cu"]
    assert "cudaMemsetAsync(column_amax, 0, sizeof(float) * 9 * N, stream)" in texts["gemm.cu"]


@pytest.mark.parametrize(
    ("types", "epilogue", "draws"),
    [
        ("f32", "bias+scale_n", {"A": "value", "C": "before", "bias_n": "value", "scale_n": "factor"}),
        ("s8", "scale_m+scale_a", {"A": "value_s8", "C": "value_s8", "scale_m": "ranged_factor", "scale_a": "factor"}),
        ("u8,s8,f32", "zero_a", {"A": "value_u8", "B": "value_s8", "C": "before", "zero_a": "zero_point"}),
        ("s8,s8,s32", "aux(acc - zero_m * sum_n) + residual", {"sum_n": "given_sum", "residual": "value_s32"}),
        ("bf16", "aux+row_amax", {"aux": "unwritten", "row_amax": "unwritten"}),
    ],
)
def test_data_is_drawn_by_type_and_meaning(types: str, epilogue: str, draws: dict[str, str]) -> None:
    drawn = SelfTest(Interface(naive(types=types, epilogue=epilogue), "sm_90")).draws
    assert draws.items() <= drawn.items()


def test_tma_asks_more_of_an_operand_than_the_problem_promises() -> None:
    plain = naive(types="bf16,bf16,f32", pointer_align=4, batch=None)
    source = mapped(plain, TensorMap("A", (64, 64, 1)))
    out, before = Interface(source, "sm_90"), Interface(plain, "sm_90")
    assert (out.aligns["A"], out.aligns["B"]) == (16, before.aligns["B"])
    assert {ld.name: ld.unit for ld in out.runtime_lds} == {"lda": 8, "ldb": 1, "ldc": 1}
    assert {one.name: (one.unit, one.may_be_zero) for one in out.runtime_strides} == {
        "stride_a": (8, True), "stride_b": (1, True), "stride_c": (1, False)
    }  # fmt: skip
    assert any(case.stride_b == 0 for case in SelfTest(out).shapes)


def test_arguments_stand_in_their_order_whatever_has_a_map() -> None:
    source = mapped(naive(types="bf16"), TensorMap("C", (64, 64)), TensorMap("B", (64, 64)))
    out = Interface(source, "sm_90")
    assert [one.text for one in out.arguments][:3] == ["A", "B", "C"]
    assert out.passed[:3] == ("as_parameter(map_c)", "as_parameter(map_b)", "reinterpret_cast<const BF16*>(A)")


def test_what_one_architecture_runs_is_built_for_it_alone() -> None:
    texts = {**own_texts(naive(), "sm_90a"), **shared_texts([interface_of(naive(), "sm_90a")])}
    opening = "#if !defined(__CUDA_ARCH__) || defined(__CUDACC_RTC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)"
    assert texts["gemm.cu"].startswith(opening) and "gemm needs sm_90a: compile it with" in texts["gemm.cu"]
    assert "set(CMAKE_CUDA_ARCHITECTURES 90a)" in texts["CMakeLists.txt"]
    assert "add_kernel(gemm 90a)" in texts["CMakeLists.txt"]
    assert "-gencode arch=compute_90a,code=sm_90a gemm.cu" in texts["README.md"]
    assert "__CUDA_ARCH__" not in own_texts(naive(), "sm_90")["gemm.cu"]


def test_sums_of_all_rows_serve_where_c_holds_them() -> None:
    def fixed(types: str) -> KernelSource:
        described = Problem(2048, 2048, 2048, types=types)  # type: ignore[arg-type]
        return render(described, NAIVE, NAIVE.default(described))

    found = {
        types: SelfTest(Interface(fixed(types), "sm_90")).sums_all
        for types in ("f32", "bf16", "bf16,bf16,f32", "s8,s8,s32", "s8")
    }
    assert found == {"f32": True, "bf16": False, "bf16,bf16,f32": True, "s8,s8,s32": True, "s8": False}
    test = SelfTest(Interface(naive(), "sm_90"))
    assert not test.samples and not test.sums_all, "whole references are cheap of such shapes"


def test_the_reference_keeps_integers_apart() -> None:
    epilogue = parse_epilogue("relu(2 * alpha * (acc - 3 * zero_m)) - 0.5")
    assert reference_text(epilogue).result == ("relu(number(2.0) * alpha * (acc - number(3.0) * zero_m)) - number(0.5)")
    assert reference_text(epilogue, integer_sums=True).result == (
        "relu(number(2.0) * alpha * (acc - Integer(3) * zero_m)) - number(0.5)"
    )
    whole = parse_epilogue("relu(2 * alpha * acc) - 5")
    assert reference_text(whole, True, True).result == "relu(Integer(2) * alpha * acc) - Integer(5)"


def test_launches_without_a_launcher_are_refused(tmp_path: Path) -> None:
    source = naive()
    special = source.promising(launch=replace(source.launch, attributes=("cooperative",)))
    with pytest.raises(InvalidInput, match="no launcher for kernels whose launch takes cooperative"):
        require_exportable(special)
    with pytest.raises(InvalidInput, match="cooperative"):
        export(special, {"arch": "sm_90"}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_codes_have_a_launcher_where_a_launch_before_packs_them(tmp_path: Path) -> None:
    """And no operator of torch."""
    with pytest.raises(InvalidInput, match="no launcher for kernels whose launch takes inputs = "):
        require_exportable(naive(types="bf16,u4,bf16", inputs="scales=128+zeros"))
    with pytest.raises(InvalidInput, match="gemm takes ends or rows of groups, and operators take none"):
        require_together([naive(types="bf16", inputs="groups=8")], torch=True)
    with pytest.raises(InvalidInput, match="gemm takes an index of rows, and operators take none"):
        require_together([naive(types="bf16", inputs="gathered")], torch=True)
    with pytest.raises(InvalidInput, match="gemm takes an index of rows, and operators take none"):
        require_together([naive(types="bf16", inputs="scattered")], torch=True)
    require_together([SAMPLES["codes"]])
    with pytest.raises(InvalidInput, match="gemm takes scales, and operators take none"):
        require_together([SAMPLES["codes"]], torch=True)
    with pytest.raises(InvalidInput, match="gemm takes images, and operators take none"):
        require_together([SAMPLES["images"]], torch=True)


def test_files_of_codes_say_what_their_bytes_are() -> None:
    problem = Problem(None, 136, 256, types="f16,s4,f16", layout="rc", inputs="scales=64")
    signed = render(problem, WGMMA, WGMMA.default(problem)).renamed("gemm")
    header = own_texts(signed, "sm_90a")["gemm.h"]
    assert "codes of 4 bits, -8 to 7 in two's complement: a byte holds two, the first in its lower half" in header
    assert "An element of B is code * scale, rounded once to f16." in header and "zeros_b" not in header
    readme = shared_texts([interface_of(SAMPLES["codes"], "sm_90a")])["README.md"]
    assert "`gemm_pack_b` packs B, scales_b and zeros_b once" in " ".join(readme.split())
    whole = own_texts(SAMPLES["bytes"], "sm_90a")["gemm.h"]
    assert "codes of 8 bits, -128 to 127 in two's complement\n" in whole and "two to a byte" not in whole


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("plan", None),  # a parameter's name, which hides the kernel's where that is not meant
        ("refuse", "its launcher has another use for it"),
        ("Plan", "its launcher has another use for it"),
        ("reason", "its launcher has another use for it"),
        ("tile", None),  # a word of the kernel's comments, too
        ("math", "math.h would hide a header"),
        ("cuda_bf16", "cuda_bf16.h would hide a header"),
        ("test", "CMake has a target"),
        ("null", None),  # a word of a message
        ("launches", None),  # and of a comment
    ],
)
def test_names_that_the_files_around_a_kernel_use_are_refused(name: str, why: str | None, tmp_path: Path) -> None:
    source = SAMPLES["plain"].renamed(name)
    if why is None:
        assert export(source, {"arch": "sm_90"}, tmp_path)
        return
    with pytest.raises(InvalidInput, match=f"'{name}' cannot name an exported kernel: {why}"):
        export(source, {"arch": "sm_90"}, tmp_path)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("types", "k", "reach"),
    [
        ("bf16", 4096, 8),
        ("f16_f16acc", 4096, 8),  # 3 * 8 * 8 * 8 + 2 * 8 < 2^11
        ("e4m3", 4096, 4),  # 3 * sqrt(8) * 4 * 4 is half of what e4m3 holds
        ("f32", 4096, 8),  # sums of rows show every wrong element: nothing is sparse
        ("f32", 2**22, 1),
    ],
)
def test_integers_of_exact_checks_are_as_large_as_sums_allow(types: str, k: int, reach: int) -> None:
    problem = Problem(4096, 4096, k, types=types)
    source = render(problem, NAIVE, NAIVE.default(problem))
    test = SelfTest(Interface(source, "sm_90"))
    assert test.chosen["reach"] == (str(reach),)
    assert test.chosen.get("terms") == (None if types == "f32" else ("8",))


def test_large_shapes_are_checked_by_rows_an_odd_number_apart() -> None:
    def apart(types: str, *sizes: int | None) -> tuple[str, ...] | None:
        problem = Problem(*sizes, types=types)
        return SelfTest(Interface(render(problem, NAIVE, NAIVE.default(problem)), "sm_90")).chosen.get("apart")

    assert apart("f32", 4096, 4096, 4096) == ("65",)  # 2^36 multiply-adds, of which a host does 2^30
    assert apart("bf16", 4096, 4096, 4096) == ("{257, 1}",)  # of 2^28; exact data are sparse
    assert apart("bf16", 16384, 16384, 4096) == ("{4097, 9}",)
    assert apart("f32", 64, 64, 64) is None and apart("bf16", None, None, None) is None


@pytest.mark.parametrize(
    ("types", "exact", "allowed"),
    [
        ("f32_tf32", 24, "steps * 2.384185791015625e-07 * std::fabs(sum[n]) + std::min("),
        ("f16_f16acc", 11, "std::sqrt(steps) * ("),
        ("e4m3,e4m3,bf16_promoted", 24, "std::ceil(std::min(double(s.K), 128.0) / 16)"),
        ("e4m3,e4m3,bf16_fast", 13, "std::ceil(double(s.K) / 16)"),
        ("bf16", 24, "steps * 2.384185791015625e-07 * std::fabs(sum[n]);"),
        ("f32", 24, None),
        ("s8,s8,bf16", 24, None),
    ],
)
def test_self_tests_allow_what_tensor_cores_cut_off(types: str, exact: int, allowed: str | None) -> None:
    mma = FAMILIES["mma" if allowed else "naive"]
    problem = Problem(None, None, None, types=types, layout="rc")  # type: ignore[arg-type]
    arch = "sm_89" if "e4m3" in types else "sm_90"
    source = render(problem, mma, mma.default(problem), arch)
    texts = own_texts(source, arch)
    text = next(text for name, text in texts.items() if name.endswith("_selftest.cu"))
    assert SelfTest(Interface(source, arch)).exact_bits == exact
    assert ("cut_off" in text) == (allowed is not None)
    assert allowed is None or allowed in text


# Operators of torch

RECORD = {"arch": "sm_90"}


def test_operators_come_where_they_are_asked_for_and_stay(tmp_path: Path) -> None:
    other = naive(types="bf16").renamed("other")
    export_all([(naive(), RECORD)], tmp_path, torch=True)
    export_all([(other, RECORD), (naive(), RECORD)], tmp_path)
    assert [path.name for path in tmp_path.glob("*_torch.cpp")] == ["gemm_torch.cpp"]
    build = (tmp_path / "CMakeLists.txt").read_text()
    assert build.endswith("add_kernel(gemm 75)\nadd_kernel(other 80)\nadd_operators(gemm)\n")
    assert "gemm_torch.cpp" in read_record(tmp_path / "gemm.certificate.json")["files"]
    found = {path.name: path.read_text() for path in tmp_path.iterdir() if path.suffix != ".json"}
    assert folder_texts(naive(), "sm_90", tmp_path).items() <= found.items()


def test_a_folder_without_operators_says_nothing_of_them() -> None:
    assert not any("torch" in text.lower() for text in shared_texts([interface_of(naive(), "sm_90")]).values())


def test_arrays_of_pointers_have_no_operators(tmp_path: Path) -> None:
    pointers = naive(types="bf16", batch=None, pointers=True, pointer_align=2)
    with pytest.raises(InvalidInput, match="takes arrays of pointers, and tensors are none: export it without --torch"):
        export(pointers, RECORD, tmp_path, torch=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("problem", "schemas"),
    [
        (
            {},
            ("Tensor B, *, float alpha=1) -> Tensor", "Tensor(a!) C, *, float alpha=1, float beta=0) -> ()"),
        ),
        (
            {"epilogue": "acc"},
            ("gemm(Tensor A, Tensor B) -> Tensor", "(Tensor A, Tensor B, Tensor(a!) C) -> ()"),
        ),
        (
            {"types": "s8,s8,s32", "epilogue": "aux(alpha * (acc - zero_m)) + bias_n"},
            (
                "Tensor B, *, Tensor bias_n, Tensor zero_m, int alpha=1) -> (Tensor, Tensor)",
                "*, Tensor bias_n, Tensor zero_m, Tensor(b!) aux, int alpha=1) -> ()",
            ),
        ),
    ],
)
def test_schemas_name_what_the_epilogue_does(problem: dict[str, Any], schemas: tuple[str, str]) -> None:
    op = TorchOperator(Interface(naive(**problem), "sm_90"))
    assert op.schema.endswith(schemas[0]) and op.out_schema.endswith(schemas[1])


def test_a_new_c_has_the_leading_dimension_that_the_kernel_is_built_for() -> None:
    def made(**problem: Any) -> tuple[str, str]:
        op = TorchOperator(Interface(naive(batch=None, **problem), "sm_90"))
        return op.new_ld, op.new_stride

    assert made() == ("N", "M * N")
    assert made(types="bf16", ld_align=8) == ("(N + 7) / 8 * 8", "M * ((N + 7) / 8 * 8)")


# Exported again


@pytest.mark.parametrize("name", [*SAMPLES])
@pytest.mark.parametrize("edit", [lambda text: text, lambda text: text.replace("\n", "\r\n")], ids=["as it is", "CRLF"])
def test_an_exported_kernel_is_found_again(name: str, edit: Callable[[str], str]) -> None:
    source = SAMPLES[name]
    text = own_texts(source, "sm_90")["gemm.cu"]
    assert kernel_alone(edit(text), "gemm") == edit(source.text)
    assert kernel_alone(source.text, "gemm") == source.text
    with pytest.raises(InvalidInput, match="gemm is of an export, and where its launcher begins cannot be told"):
        kernel_alone(text.replace("using Plan = gemm_plan;", ""), "gemm")
    with pytest.raises(InvalidInput, match="where its text begins cannot be told"):
        kernel_alone(text.replace("namespace gemm_impl {", "namespace mine {"), "gemm")


def test_an_exported_folder_is_exported_again(tmp_path: Path) -> None:
    source = SAMPLES["plain"]
    gemmgen.export(source, to=tmp_path / "one", examples=0)
    again = gemmgen.export(tmp_path / "one" / "gemm.cu", to=tmp_path / "two", examples=0)
    assert again.kernel.source.text == source.text
    for file in own_texts(source, "sm_90"):
        assert (tmp_path / "two" / file).read_text() == (tmp_path / "one" / file).read_text()
    named = gemmgen.export(tmp_path / "two" / "gemm.cu", to=tmp_path / "three", examples=0, name="other")
    assert {"other.cu", "other.h"} <= {path.name for path in named.files}
    assert "gemm_launch" not in (tmp_path / "three" / "other.cu").read_text()


# Sizes

HEAVY = "aux(alpha * (acc - zero_a * column_sum) * scale_n + beta * C) + residual"  # side output, zero points, scales


@pytest.mark.parametrize(
    ("family", "problem", "most", "beside"),
    [
        ("naive", {"m": 1024, "n": 1024, "k": 1024}, 22, 18),
        ("simt", {"m": None, "n": None, "k": None}, 25, 20),
        ("simt", {"m": 4096, "n": 4096, "k": 4096}, 24, 20),  # of which a host computes some rows only
        ("skinny", {"m": 4096, "n": 1, "k": 4096}, 22, 18),
        ("batched", {"m": 16, "n": 16, "k": 16, "batch": None, "types": "bf16", "pointers": True}, 28, 21),
        ("mma", {"m": 16, "n": 28672, "k": 8192, "types": "bf16", "epilogue": "bias+gelu"}, 28, 22),
        ("wgmma", {"m": 4096, "n": 4096, "k": 4096, "types": "bf16", "layout": "rc"}, 31, 20),  # with tensor maps
        ("wgmma", {"m": 4096, "n": 4096, "k": 4096, "types": "f32_bf16x6"}, 41, 24),  # and copies of A and B
        ("simt", {"m": None, "n": None, "k": None, "batch": None, "epilogue": HEAVY}, 34, 27),
        ("wgmma", {"m": None, "n": None, "k": None, "types": "bf16", "batch": None, "epilogue": HEAVY}, 56, 32),
    ],
)
def test_a_folder_is_small_beside_the_kernel(family: str, problem: dict[str, Any], most: int, beside: int) -> None:
    """In KB of all but the kernel's text and the certificate, and of these those that do not stand in NAME.cu."""
    described = Problem(**problem)
    source = render(described, FAMILIES[family], FAMILIES[family].default(described))
    arch = "sm_90a" if source.launch.maps else "sm_90"
    texts = {**own_texts(source, arch), **shared_texts([interface_of(source, arch)])}
    sizes = {name: len(text.encode()) for name, text in texts.items()}
    size, kernel = sum(sizes.values()), sizes[f"{source.name}.cu"]
    assert size - len(source.text.encode()) <= most * 1024, sizes
    assert size - kernel <= beside * 1024, sizes


FOLDER = 31 * 1024  # bytes of an exported folder beside NAME.cu, with the certificate,
VERIFIED = 3500  # and those of a certificate that a verification and its compiler add
REPOSITORY = Path(__file__).parents[2]
KINDS = (
    "gemm_bf16_rc_1000x1000x1000",  # wgmma
    "gemm_bf16_rc_4097x4097x4097",  # with copies, and B packed
    "gemm_f32_bf16x6_rr_4096x4096x4096",  # in pieces
    "gemm_e4m3e4m3bf16_promoted_rr_4096x4096x4096",
    "gemm_s8s8bf16_rc_1024x1024x1024_scale_m_scale_n",
    "gemm_bf16_rc_4096x4096x1024_bias_gelu",
    "gemm_bf16_rr_p64_1024x64x1024",  # by pointers
    "gemm_f32_rr_16x16384x16384",  # skinny
    "gemm_f32_rr_4096x4096x4096",  # simt
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_with_its_certificate_is_small(kind: str, tmp_path: Path) -> None:
    path = next((REPOSITORY / "generated" / "sm_90").glob(f"{kind}_sm90_*.cu"))
    gemmgen.export(path, to=tmp_path, examples=0)
    sizes = {file.name: file.stat().st_size for file in tmp_path.iterdir() if file.name != path.name}
    assert len(sizes) == 5 and sum(sizes.values()) <= FOLDER - VERIFIED, sizes


@pytest.mark.parametrize(("kind", "raises"), [("unavailable", False), ("compile", True)])
def test_what_nvrtc_refuses_is_no_missing_nvrtc(
    kind: FailureKind, raises: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def compile_apart(*_: object) -> CompiledKernel:
        raise CandidateFailed(Failure(kind, "not here", "nvrtc"))

    monkeypatch.setattr(exporting, "compile_apart", compile_apart)
    expected = pytest.raises(CandidateFailed, match="not here") if raises else nullcontext()
    with expected:
        assert compiled_where_possible(SAMPLES["plain"], "sm_90", Store(tmp_path)) is None
