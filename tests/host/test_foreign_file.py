"""A text may include only CUDA's headers: `foreign_file` finds other files that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmgen.run.nvrtc import foreign_file


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('#include <cuda_fp16.h>\n#include "mma.h"\n', None),
        ("int include;\n#define include_it\n", None),
        ('a;\n#include "/etc/passwd"\n', 'line 2: `#include "/etc/passwd"`'),
        ("#include <../../secret>\n", "line 1: `#include <../../secret>`"),
        ("#inc\\\nlude NAME\n", "line 1: `#include NAME`"),
        ('%:/*\n*/include "/a"\n', 'line 1: `%:/* */include "/a"`'),
        ("#if __has_include(<a>)\n", "line 1: `__has_include`"),
        ("#" + "/**/" * 5000 + "\n", None),  # exponential time would not end
        ("#" + "/***/" * 5000 + "include </a>\n", "line 1: `#" + "/***/" * 5000 + "include </a>`"),
    ],
)
def test_foreign_files_are_found(text: str, said: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert foreign_file(text) == said
