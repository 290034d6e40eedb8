"""What README.md shows works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import mypy.api

ROOT = Path(__file__).parents[2]


def test_the_python_example_passes_mypy_strict(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    path = tmp_path / "example.py"
    path.write_text(example)
    options = ["--strict", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    said, _, status = mypy.api.run([*options, str(path)])
    assert status == 0, said
