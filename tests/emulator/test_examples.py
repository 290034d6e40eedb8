"""The scripts in examples/ run where what they import is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_a_transformer_by_kernels_has_the_logits_of_torch(shared_cache: Path) -> None:
    for package in ("torch", "transformers"):
        pytest.importorskip(package)
    command = (sys.executable, str(ROOT / "examples" / "transformer.py"), "--device", "cpu", "--repeats", "1")
    environment = {**os.environ, "XDG_CACHE_HOME": str(shared_cache), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "15 linear layers replaced" in done.stdout


def test_host_times_need_a_gpu() -> None:
    pytest.importorskip("torch")
    command = (sys.executable, str(ROOT / "examples" / "host_time.py"))
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "no GPU: torch.cuda.is_available() is False\n")
