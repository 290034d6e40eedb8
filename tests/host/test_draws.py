"""The same seed draws the same, whatever else the process has imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
DRAW = """
from gemmgen.draws import for_each
from gemmgen.problem import Problem
from gemmgen.situation import situations
for_each(situations(Problem(None, 64, None), 160), print, examples=150, seed=5, shrink=False)
"""


def drawn(folder: Path, first: str) -> str:
    words = [sys.executable, "-c", first + DRAW]
    environment = {"PYTHONPATH": f"{REPOSITORY}:{folder}", "PYTHONHASHSEED": "random"}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


def test_imported_modules_do_not_change_what_is_drawn(tmp_path: Path) -> None:
    numbers = ", ".join(str(number) for number in range(40, 140))
    (tmp_path / "mine.py").write_text(f"NUMBERS = [{numbers}]\n")
    plain = drawn(tmp_path, "")
    assert plain.count("data=") == 150
    assert drawn(tmp_path, "import mine, gemmgen.cli") == plain
