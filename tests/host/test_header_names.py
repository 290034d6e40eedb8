"""Names that headers of C and CUDA define are known, as the headers that are here have them; others may be used."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gemmgen.exports.library.spec import spec_from
from gemmgen.families import NAIVE
from gemmgen.kernel.headers import NAMES, in_headers
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.render.naming import RESERVED, require_identifier
from gemmgen.support.errors import InvalidInput

STANDARD = (
    *("assert", "ctype", "errno", "float", "limits", "math"),
    *("stddef", "stdint", "stdio", "stdlib", "string", "time"),
)
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not on the PATH")


def preprocessed(includes: str, *flags: str) -> str:
    command = ["gcc", "-E", "-P", "-x", "c", *flags, "-"]
    return subprocess.run(command, input=includes, capture_output=True, text=True, check=True).stdout


def defined(includes: str, *flags: str) -> set[str]:
    """Macros that headers define, and functions that they declare."""
    macros = re.findall(r"#define ([A-Za-z]\w*)", preprocessed(includes, "-dM", *flags))
    plain = re.sub(r"__attribute__ ?\(\(.*?\)\)", "", preprocessed(includes, *flags))
    begun = (re.match(r"\s*\w[\w\s*]*?[\s*](\w+)\s*\(", one) for one in re.split("[;{}]", plain))
    return {*macros, *(one[1] for one in begun if one and not one[1].startswith("_"))}


@needs_gcc
def test_what_c_s_headers_define_is_known() -> None:
    found = defined("".join(f"#include <{name}.h>\n" for name in STANDARD), "-std=c11")
    assert {"NULL", "EOF", "INT_MAX", "exp", "malloc", "expf", "UINT64_MAX"} <= found and len(found) > 500
    assert [name for name in sorted(found) if not in_headers(name) and name not in RESERVED] == []


@needs_gcc
def test_what_cuda_s_headers_define_is_known() -> None:
    nvcc = shutil.which("nvcc")
    places = [Path(nvcc).resolve().parents[1] / "include"] if nvcc else []
    folder = next((one for one in (*places, Path("/usr/local/cuda/include")) if (one / "cuda.h").is_file()), None)
    if folder is None:
        pytest.skip("there are no headers of CUDA")
    text = "#include <cuda.h>\n#include <cuda_runtime_api.h>\n"
    found = defined(text, "-std=c11", "-isystem", str(folder))
    assert {"cudaMallocManaged", "cuLaunchKernel", "CUDA_VERSION"} <= found and len(found) > 500
    assert [name for name in sorted(found) if not in_headers(name) and name not in RESERVED] == []


@needs_gcc
def test_what_is_known_stands_in_headers() -> None:
    """Most of it: systems differ."""
    includes = "".join(f"#include <{name}.h>\n" for name in STANDARD)
    flags = ("-std=gnu17", "-D_GNU_SOURCE")
    words = {*re.findall(r"\w+", preprocessed(includes, *flags) + preprocessed(includes, "-dM", *flags))}
    math = {name for name in NAMES if name[:-1] in NAMES}  # of types that not every system has
    others = {name for name in NAMES - math if not name.startswith(("h", "nv", "M_"))}
    assert len(others & words) > 0.8 * len(others)


@pytest.mark.parametrize("name", ["NULL", "EOF", "INT_MAX", "exp", "malloc", "cudaMalloc", "float4", "atomicAdd", "y0"])
def test_no_kernel_is_called_as_what_a_header_defines(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"'{name}' can name no kernel: "):
        require_identifier(name)


@pytest.mark.parametrize("name", ["write", "mmap", "pthread_create"])
def test_no_kernel_replaces_a_function_that_its_program_calls(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"'{name}' can name no kernel: the C library has a function of this name"):
        require_identifier(name)


@pytest.mark.parametrize("name", ["one", "tile", "mma", "plan", "CUSTOM_gemm", "current", "head", "make_tile", "M5"])
def test_other_names_are_free(name: str) -> None:
    require_identifier(name)


def test_words_of_comments_may_be_names_and_stay() -> None:
    problem = Problem(None, None, None)
    source = render(problem, NAIVE, NAIVE.default(problem))
    assert "one block" not in source.text
    told = replace(source, text=source.text.replace("\nnamespace {", "\n// one thread, one element\nnamespace {", 1))
    assert told != source
    once = told.renamed("one")
    assert "// one thread, one element\n" in once.text and once.text.startswith("// one\n")
    assert re.search(r"^one\($|\bone\(", once.text, re.MULTILINE)
    assert once.renamed("two").renamed(source.name).text == told.renamed("two").renamed(source.name).text
    with pytest.raises(InvalidInput, match="its text has another use for it"):
        source.renamed("lda")


@pytest.mark.parametrize(
    ("library", "product", "defines"),
    [("int", "max", "INT_MAX"), ("my", "malloc", None), ("m", "pi", "M_PI"), ("timer", "create", "timer_create")],
)
def test_functions_and_constants_of_a_library_are_not_what_headers_define(
    library: str, product: str, defines: str | None
) -> None:
    fields = {"name": product, "types": "bf16", "M": "?", "N": "?", "K": "?"}
    if defines is None:
        assert spec_from({"name": library, "product": [fields]}, "sm_90", Path()).name == library
        return
    with pytest.raises(InvalidInput, match=f"headers of C or CUDA define {defines}: give library or product another"):
        spec_from({"name": library, "product": [fields]}, "sm_90", Path())


def test_names_that_headers_define_are_listed_once_in_order() -> None:
    products = [{"name": name, "types": "bf16", "M": "?", "N": "?", "K": "?"} for name in ("min", "max")]
    with pytest.raises(InvalidInput, match="headers of C or CUDA define INT_MAX, INT_MIN: give library"):
        spec_from({"name": "int", "product": products}, "sm_90", Path())


def test_no_library_is_called_as_what_a_header_defines() -> None:
    fields = {"types": "bf16", "M": "?", "N": "?", "K": "?"}
    with pytest.raises(InvalidInput, match="'malloc' cannot name the library: headers of C or CUDA define it"):
        spec_from({"name": "malloc", "product": [fields]}, "sm_90", Path())
