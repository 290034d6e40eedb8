"""The scripts in examples/ run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("torch", "transformers")
@pytest.mark.parametrize(
    ("more", "replaced", "libraries"),
    [
        ((), 15, 0),
        (("--libraries",), 15, 2),
        (("--codes", "--fuse"), 8, 0),
        (("--codes", "--fuse", "--libraries"), 8, 3),
    ],
    ids=str,
)
def test_a_transformer_by_kernels_has_the_logits_of_torch(
    more: tuple[str, ...], replaced: int, libraries: int, shared_cache: Path, tmp_path: Path
) -> None:
    words = ("--device", "cpu", "--rounds", "1", *more, *([str(tmp_path)] if libraries else []))
    command = (sys.executable, str(ROOT / "examples" / "transformer.py"), *words)
    environment = {**os.environ, "XDG_CACHE_HOME": str(shared_cache), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{replaced} linear layers replaced" in done.stdout
    assert done.stdout.count(" kernels, made in ") == libraries


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ("lstm.py", "3 sequences of 3 steps, 40 features: outputs at most"),
        ("lstm.py --cell", "3 sequences, 40 features: h and c of a step at most"),
        ("resnet.py", "2 images of 16 x 16, 7 convolutions by kernels: outputs differ from those in f32 by"),
        ("experts.py", "5 groups,     70 rows, 64 x 128: 3 kernels, right"),
        ("experts.py --fp8", "5 groups,     70 rows, 64 x 128: 3 kernels, right"),
        ("experts.py --blocks", "5 groups,     70 rows, 64 x 128: 2 kernels, right"),
        ("experts.py --gather", "5 groups,     70 rows, 64 x 128: 2 kernels, right"),
        ("experts.py --scatter", "5 groups,     70 rows, 64 x 128: 3 kernels, right"),
        ("convolutions.py", "9x7x16_3x3_p1x0x2x1_s2x1 -> 24, forward: 3 kernels, right"),
        ("convolutions.py --gradients", "9x7x16_3x3_p1x1 -> 24, gradient of filters: 2 kernels, right"),
    ],
)
def test_kernels_have_the_outputs_of_torch(script: str, shown: str, shared_cache: Path) -> None:
    name, *options = script.split()
    command = (sys.executable, str(ROOT / "examples" / name), *options, "--device", "cpu")
    environment = {**os.environ, "XDG_CACHE_HOME": str(shared_cache), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout


@pytest.mark.usefixtures("torch", "transformers")
def test_a_mixture_by_kernels_has_the_logits_of_torch(shared_cache: Path) -> None:
    words = ("--device", "cpu", "--layers", "1", "--prompt", "12")
    command = (sys.executable, str(ROOT / "examples" / "mixture.py"), *words)
    environment = {**os.environ, "XDG_CACHE_HOME": str(shared_cache), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert "experts of 1 layers replaced; torch's: grouped_mm" in done.stdout
    assert "logits of 12 tokens, error to f32: torch" in done.stdout


@pytest.mark.usefixtures("torch")
def test_host_times_need_a_gpu() -> None:
    command = (sys.executable, str(ROOT / "examples" / "host_time.py"))
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "no GPU: torch.cuda.is_available() is False\n")
