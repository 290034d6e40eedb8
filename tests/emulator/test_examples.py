"""The scripts in examples/ run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("torch", "transformers")
def test_a_transformer_by_kernels_has_the_logits_of_torch(shared_cache: Path) -> None:
    command = (sys.executable, str(ROOT / "examples" / "transformer.py"), "--device", "cpu", "--repeats", "1")
    environment = {**os.environ, "XDG_CACHE_HOME": str(shared_cache), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "15 linear layers replaced" in done.stdout
