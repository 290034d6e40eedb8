"""Headers of exports and libraries, of all kinds together, for C from 1989 on and C++: as users include them."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from builds import built

from gemmgen.exports.folder import own_texts
from gemmgen.exports.library.building import library_texts
from gemmgen.exports.library.clocks import Predicted
from gemmgen.exports.library.members import Member
from gemmgen.exports.library.rules import choose
from gemmgen.exports.library.spec import spec_from
from gemmgen.exports.library.texts import FUNCTIONS, LibraryText
from gemmgen.families import FAMILIES
from gemmgen.problem.device import DEVICES
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render

STRICT = ("-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-fsyntax-only")
# What users' code may have defined: a header that has names is one that breaks.
MACROS = (
    *(f"#define {name} 5" for name in ("M", "N", "K", "A", "B", "C", "I", "OUT", "small", "alpha", "beta", "batch")),
    *(
        f"#define {name} 5"
        for name in ("workspace", "stream", "plan", "blocks", "lda", "stride_a", "bias_n", "A_array")
    ),
    *(f"#define {name} 5" for name in ("product", "args", "status", "packed", "semaphores", "partials", "map_a")),
    "#define min(a, b) ((a) < (b) ? (a) : (b))",
    "#define max(a, b) ((a) > (b) ? (a) : (b))",
)
EXPORTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "f32": ("naive", "sm_80", {}),
    "bf16": ("naive", "sm_80", {"types": "bf16"}),
    "f16": ("naive", "sm_80", {"types": "f16", "epilogue": "bias+aux+gelu"}),
    "fp8": ("naive", "sm_89", {"types": "e4m3,e5m2,f16"}),
    "s8": ("naive", "sm_80", {"types": "s8,u8,s32"}),
    "split": ("simt", "sm_80", {}),
    "strided": ("naive", "sm_80", {"types": "bf16", "batch": None}),
    "pointers": ("naive", "sm_80", {"types": "bf16", "batch": None, "pointers": True, "pointer_align": 2}),
    "maps": ("wgmma", "sm_90a", {"types": "bf16", "ld_align": 8}),
    "packs": ("wgmma", "sm_90a", {"types": "s8,s8,s32", "epilogue": "zero_m+zero_n"}),
}
PRODUCTS: tuple[dict[str, Any], ...] = (
    {"name": "linear", "types": "bf16", "layout": "rc", "epilogue": "bias+gelu"},
    {"name": "many", "types": "e4m3,e4m3,f16", "batch": "?"},
    {"name": "pointed", "types": "s8,s8,s32", "batch": 8, "pointers": True},
)


def library() -> LibraryText:
    fields = [{**one, "M": "1..64", "N": "?", "K": "?"} for one in PRODUCTS]
    spec = spec_from({"name": "mylib", "product": fields}, "sm_90", Path())
    naive, clock = FAMILIES["naive"], Predicted(DEVICES["H200"], most=8)
    sources = [(one, render(one.general, naive, naive.default(one.general))) for one in spec.products]
    return LibraryText(
        spec, tuple(choose(one, "sm_90", [Member(one, source, "sm_90")], clock) for one, source in sources)
    )


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of headers."""
    folder = tmp_path_factory.mktemp("headers")
    for name, (family, arch, fields) in EXPORTS.items():
        problem, chosen = Problem(None, None, None, **fields), FAMILIES[family]
        config = chosen.default(problem).with_values(**({"SPLIT": 3} if name == "split" else {}))
        source = render(problem, chosen, config, arch.rstrip("a")).renamed(f"k_{name}")
        (folder / f"k_{name}.h").write_text(own_texts(source, arch)[f"k_{name}.h"])
    (folder / "mylib.h").write_text(library_texts(library())["mylib.h"])
    return folder


def cuda_headers() -> Path | None:
    nvcc = shutil.which("nvcc")
    places = [
        *([Path(nvcc).resolve().parent.parent] if nvcc else []),
        Path(os.environ.get("CUDA_PATH", "/usr/local/cuda")),
    ]
    return next((place / "include" for place in places if (place / "include" / "cuda_fp8.h").is_file()), None)


CUDA = cuda_headers()
needs_cuda = pytest.mark.skipif(
    CUDA is None or shutil.which("gcc") is None or shutil.which("g++") is None,
    reason="CUDA's headers or gcc are missing",
)
COMPILERS = [
    *(("gcc", "-x", "c", f"-std={standard}") for standard in ("c89", "c99", "c11")),
    *(("g++", "-x", "c++", f"-std={standard}") for standard in ("c++11", "c++17")),
]


def takes(folder: Path, compiler: tuple[str, ...], text: str) -> None:
    command = [*compiler, *STRICT, "-isystem", str(CUDA), f"-I{folder}", "-"]
    done = built(command, folder, text)
    assert done.returncode == 0, done.stderr


@needs_cuda
@pytest.mark.parametrize("compiler", COMPILERS, ids=lambda one: one[-1])
def test_headers_of_all_kinds_are_taken_together(headers: Path, compiler: tuple[str, ...]) -> None:
    names = sorted(path.name for path in headers.glob("*.h"))
    assert len(names) == len(EXPORTS) + 1
    text = "".join(f'#include "{name}"\n' for name in (*names, *reversed(names)))
    takes(headers, compiler, f"{text}int main(void) {{ return 0; }}\n")
    for name in names:
        takes(headers, compiler, f'#include "{name}"\nint main(void) {{ return 0; }}\n')


@needs_cuda
@pytest.mark.parametrize("compiler", COMPILERS, ids=lambda one: one[-1])
def test_macros_of_users_neither_break_a_header_nor_change(headers: Path, compiler: tuple[str, ...]) -> None:
    """CUDA's own headers come first where C++ takes types from them: these have names of their own."""
    names = sorted(path.name for path in headers.glob("*.h"))
    types = "#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n#include <cuda_fp8.h>\n" if compiler[0] == "g++" else ""
    cuda = f"#include <cuda_runtime_api.h>\n#include <stdint.h>\n{types}"
    defined = "".join(f"{line}\n" for line in MACROS)
    kept = "#if M != 5 || product != 5 || alpha != 5 || min(2, 1) != 1\n#error changed\n#endif\n"
    takes(headers, compiler, cuda + defined + "".join(f'#include "{name}"\n' for name in names) + kept + "int x;\n")


@needs_cuda
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
def test_nvcc_takes_headers_after_macros_without_a_warning(headers: Path, tmp_path: Path) -> None:
    names = ("k_f32.h", "k_bf16.h", "mylib.h")
    text = "#include <cuda_fp16.h>\n#include <cuda_fp8.h>\n#include <cuda_bf16.h>\n"
    text += "".join(f"{line}\n" for line in MACROS) + "".join(f'#include "{name}"\n' for name in names)
    (tmp_path / "user.cu").write_text(f'{text}static_assert(M == 5, "");\n')
    command = (
        "nvcc",
        "-std=c++17",
        "-Xcompiler",
        "-Wall,-Wextra",
        "-Werror",
        "all-warnings",
        f"-I{headers}",
        "-c",
        "user.cu",
    )
    done = built(command, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_a_header_declares_behind_its_kernel_s_name_is_known(headers: Path) -> None:
    """So that a library refuses a kernel by whose name it would have a function twice."""
    declared: set[str] = set()
    for name in EXPORTS:
        text = re.sub(r"/\*.*?\*/", "", (headers / f"k_{name}.h").read_text(), flags=re.DOTALL)
        declared |= {word.lower() for word in re.findall(rf"\bk_{name}_(\w+)", text, re.IGNORECASE)}
    assert declared - {"packs_b"} == {*FUNCTIONS}


def test_a_library_s_header_lists_every_status_that_it_returns() -> None:
    texts = library_texts(library())
    returned = {word for name, text in texts.items() if name.endswith(".cu") and "selftest" not in name for word in
                re.findall(r"(?:refuse|started)\((?:[\w ]+ == \w+ \? )?(cudaError[A-Z]\w+)", text)}  # fmt: skip
    assert len(returned) >= 4
    listed = re.findall(r"^ \* (cuda(?:Success|Error\w+)): (.*(?:\n \*     .*)*)", texts["mylib.h"], re.MULTILINE)
    meant = {name: re.sub(r"\n \* +", " ", meaning) for name, meaning in listed}
    assert returned <= meant.keys()
    for name, meaning in meant.items():
        assert f'case {name}: return "{meaning}";' in texts["mylib.cu"]


def test_a_library_s_header_describes_every_argument_of_its_functions() -> None:
    header = library_texts(library())["mylib.h"]
    for product in PRODUCTS:
        before, _, behind = header.partition(f"cudaError_t mylib_{product['name']}(")
        described = before[before.rindex("\n/* ") :]
        names = re.findall(r"/\* (\w+) \*/", behind[: behind.index(");")])
        assert {"M", "workspace", "stream"} < {*names}
        for name in names:
            assert name in ("stream", "workspace_bytes") or re.search(
                rf"^ \* (\w+, )*{name}\b", described, re.MULTILINE
            ), name
    assert "device memory at an address divisible by 4: N elements of float" in header
    assert "divisible by 8 with a pointer for each product" in header
