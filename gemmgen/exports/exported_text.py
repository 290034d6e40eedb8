"""The text that `export` writes around a kernel's text in NAME.cu, and the way back to the kernel."""

from __future__ import annotations

import re

from gemmgen.support.errors import require

OF_LIBRARY = r"(?:\w+_)?"  # a library's name, before that of its kernel
GUARD = r"#if defined\(__CUDACC__\) && !defined\(__CUDACC_RTC__\)"


def own_name_in(text: str, name: str) -> str | None:
    """The library's name for the kernel `name` in its file's text; None for other files."""
    found = re.search(rf"^namespace (\w+_{name})_impl \{{$", text, re.MULTILINE)
    return found[1] if found else None


def kernel_alone(text: str, name: str) -> str:
    """The kernel's own text within an exported `.cu`; other texts are returned whole.

    Raises InvalidInput if after an edit only one end of it can be found.
    """
    begin = re.search(rf"^namespace {OF_LIBRARY}{name}_impl \{{\r?\n#endif\r?\n(\r?\n)?", text, re.MULTILINE)
    end = re.search(rf"\r?\n{GUARD}\r?\nnamespace \{{\r?\n\r?\nusing Plan = {OF_LIBRARY}{name}_plan;", text)
    if begin is None and end is None:
        return text
    require(
        begin is not None and end is not None and begin.end() <= end.start(),
        f"{name} is of an export, and where its {'launcher' if begin else 'text'} begins cannot be told after an edit: "
        f"keep the lines `namespace {name}_impl {{` and `using Plan = {name}_plan;` with those before them",
    )
    assert begin is not None and end is not None
    return text[begin.end() : end.start()]
