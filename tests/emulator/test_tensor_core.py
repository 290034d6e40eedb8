"""The emulator's ldmatrix, stmatrix and mma: the card's places and bits, and what is wrong about their use is found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gemmgen.kernel.contract import Contract, Parameter
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import ARCHS
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.mma import MMAS
from gemmgen.render.kernel_text import environment
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.executor import Operands
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store
from gemmgen.verification.tensor_core_recordings import FOLDER, TRIED, Recording, compare, vectors_of
from gemmgen.verification.vectors import random_vectors


@pytest.fixture
def emulator(shared_store: Store) -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor(shared_store) as executor:
        yield executor


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("mma_m16n8k16_bf16", "sm_90"),
        ("mma_m16n8k16_f16_f16", "sm_80"),
        ("mma_m16n8k8_tf32", "sm_86"),
        ("mma_m16n8k32_e4m3e5m2", "sm_89"),
        ("mma_m16n8k32_u8s8", "sm_120"),
        ("mma_m8n8k16_s8", "sm_75"),
        ("mma_m16n8k16_f64", "sm_90"),
        ("wgmma_m64n8k16_f16_f16", "sm_90"),
        ("wgmma_m64n8k32_e4m3e5m2", "sm_90"),
    ],
)
def test_a_kernels_products_are_those_of_the_model(name: str, arch: str, emulator: EmulatorExecutor) -> None:
    one = next(one for one in TRIED if one.function == name)
    vectors = random_vectors(one, 2 * one.k, products=4, seed=1)
    np.testing.assert_array_equal(vectors.run(emulator, arch), vectors.expected(arch))


@pytest.mark.soak
@pytest.mark.parametrize("arch", ARCHS)
def test_each_instruction_has_the_models_bits_on_every_architecture(arch: str, emulator: EmulatorExecutor) -> None:
    for vectors in vectors_of(arch):
        told = compare(vectors, vectors.run(emulator, arch), vectors.expected(arch))
        assert not told.differing, told


@pytest.mark.soak
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.npz")), ids=lambda path: path.stem)
def test_the_emulator_has_the_bits_of_the_card(path: Path, emulator: EmulatorExecutor) -> None:
    assert [told for told in Recording.load(path).against(emulator) if told.differing] == []


def test_an_instruction_that_the_architecture_lacks_is_not_judged(emulator: EmulatorExecutor) -> None:
    vectors = random_vectors(MMAS["mma_m16n8k32_e4m3"], 32, products=2, seed=1)
    with pytest.raises(
        CandidateFailed,
        match=r"\.f32\.e4m3\.e4m3\.f32`: it is no matrix instruction of .*: sm_90 has no mma_m16n8k32_e4m3: ",
    ) as caught:
        vectors.run(emulator, "sm_90")
    assert caught.value.failure.kind == "unjudged"


FUNCTIONS = """
//% from "device/ldmatrix.cu" import ldmatrix
//% from "device/mma.cu" import mma
${ ldmatrix(((4, false), (4, true), (2, false)), ((4, false), (4, true))) }
${ mma([instruction]) }
"""
MATRICES = """
    const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
    __shared__ __align__(16) unsigned short M[32][16], W[32][16];  // a row of a matrix takes the first half of a line
    for (int i = 0; i < 8; ++i) M[lane][i] = 8 * lane + i;
    __syncwarp();
    unsigned r[4], two[2];
    ldmatrix_x4(r, M[lane]);
    for (int i = 0; i < 4; ++i) assert(r[i] == (64 * i + 8 * g + 2 * t) * 0x10001u + 0x10000u);
    ldmatrix_x4_trans(r, M[lane]);
    for (int i = 0; i < 4; ++i) assert(r[i] == (64 * i + 16 * t + g) * 0x10001u + 0x80000u);
    ldmatrix_x2(two, M[lane % 16]);
    for (int i = 0; i < 2; ++i) assert(two[i] == (64 * i + 8 * g + 2 * t) * 0x10001u + 0x10000u);
    stmatrix_x4(W[lane], r);  // transposed by now
    __syncwarp();
    for (int i = 0; i < 8; ++i) assert(W[lane][i] == lane / 8 * 64 + 8 * i + lane % 8);
    __syncwarp();
    stmatrix_x4_trans(W[lane], r);
    __syncwarp();
    for (int i = 0; i < 8; ++i) assert(W[lane][i] == 8 * lane + i);
    if (lane < 8) C[blockIdx.x * 8 + lane] = 1;
"""
USED = "C[lane] = r[0];"
# What goes wrong where K says so, and what is said of it.
WRONG = {
    2: (
        "ldmatrix_x4(r, M[lane] + 4);",
        r"crash .*reads 16 bytes at a misaligned address, which 16 does not divide \(byte 8 of M\)",
    ),
    3: ("ldmatrix_x4(r, M[lane + 1]);", r"crash .*thread 31 reads 0 bytes after the end of M"),
    4: ("ldmatrix_x4(r, C);", r"crash .*thread 0 reads \d+ bytes (before the start|after the end) of [MW] "),
    5: (
        f"M[lane][0] = 1; ldmatrix_x4(r, M[31 - lane]); {USED}",
        r"race .*shared memory: .* writes byte \d+ of M at .*, thread \d+ reads it at",
    ),
    6: ("ldmatrix_x4(r, M[lane]); M[31 - lane][0] = 1;", "race .*data race on shared memory: .* reads byte .* of M at"),
    7: ("stmatrix_x4(W[0], r);", "race .*data race on shared memory: .* writes byte \\d+ of W at"),
    8: (
        "if (lane == 3) return; ldmatrix_x4(r, M[lane]);",
        "crash .*of a whole warp by 31 lanes: the others have exited",
    ),
    9: ("if (lane < 16) ldmatrix_x4(r, M[lane]);", "crash .*divergence.*16 of 32 threads wait at the warp collective"),
    10: (f"ldmatrix_x4(r, W[lane]); {USED}", "crash .*reads byte .* of W at .*, which no thread has written"),
    11: (
        "ldmatrix_x4(r, M[lane]); mma_m16n8k16_bf16(d, r, two); __syncwarp(); M[lane][0] = 8 * lane; __syncwarp();",
        "",
    ),
}


def matrices_kernel() -> KernelSource:
    problem = Problem(8, 8, None)
    cases = "\n".join(f"    if (K == {k}) {{ float d[4] = {{}}; {text} (void)d; }}" for k, (text, _) in WRONG.items())
    body = MATRICES.replace("    unsigned r[4], two[2];\n", f"    unsigned r[4] = {{}}, two[2] = {{}};\n{cases}\n")
    functions = environment(problem.types).from_string(FUNCTIONS).render(instruction=MMAS["mma_m16n8k16_bf16"])
    head = 'extern "C" __global__ void __launch_bounds__(32) k(const float* A, const float* B, float* C, int K)'
    parameters = (
        Parameter("A", "const float*"),
        Parameter("B", "const float*"),
        Parameter("C", "float*"),
        Parameter("K", "int"),
    )
    contract = Contract(problem, Launch(32, (("M", 8),)), parameters)
    return KernelSource("k", f"{functions}{head} {{{body}}}\n", "test", {}, contract)


def launch(emulator: EmulatorExecutor, k: int, seed: int = 0) -> None:
    source = matrices_kernel()
    case = source.problem.case(k=k)
    kernel = emulator.load(source)
    try:
        kernel.run(case, Operands(*(np.ones(matrix.elements, DType.F32.numpy) for matrix in case.matrices)), seed=seed)
    finally:
        kernel.close()


@pytest.mark.parametrize("seed", [0, 5])
def test_matrices_go_where_the_manual_says(seed: int, emulator: EmulatorExecutor) -> None:
    launch(emulator, 1, seed)
    launch(emulator, 11, seed)


@pytest.mark.parametrize("k", [k for k, (_, said) in WRONG.items() if said])
def test_what_is_wrong_about_a_matrix_is_told_with_its_line(k: int, emulator: EmulatorExecutor) -> None:
    with pytest.raises(CandidateFailed, match=WRONG[k][1]) as caught:
        launch(emulator, k)
    lines = enumerate(matrices_kernel().text.splitlines(), 1)
    line = next(number for number, line in lines if f"K == {k})" in line)
    assert re.search(rf"(k\.cu:|called from line ){line}\b", str(caught.value)), caught.value
