"""TMA's boxes of three dimensions, and registers that warpgroups give to each other, in the emulator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gemmgen.kernel.contract import Contract
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.kernel.tensor_map import TensorMap
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import environment
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.executor import Operands
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store

SEEDS = range(4)
TF32 = (Path(__file__).parents[1] / "kernels" / "tma_tf32.cu").read_text()

# A thread moves boxes of 8 x 4 elements of A to C, one element to the right and one line down.
MOVE = """
//% from "device/mbarrier.cu" import mbarrier
//% from "device/tma.cu" import tma, tensor_map
//% from "device/dynamic_shared.cu" import dynamic_shared
//% from "device/shared_address.cu" import shared_address
${ tensor_map() }
${ shared_address() }
${ mbarrier() }
${ tma((3,), (3,)) }
${ dynamic_shared(1024) }
extern "C" __global__ void __launch_bounds__(32, 1)
k(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_c, const float* B, int M, int N, int K,
  int batch, int lda, int ldb, int ldc, long long stride_a, long long stride_b, long long stride_c,
  float alpha, float beta)
{
    __shared__ unsigned long long full;
    unsigned char* const box = dynamic_shared();
    if (threadIdx.x != 0) return;
    mbarrier_init(&full, 1);
    fence_mbarrier_init();
    unsigned parity = 0;
    for (int matrix = 0; matrix < batch; ++matrix) {
        for (int row = 0; row < M; row += 4) {
            for (int column = 0; column < N; column += 8) {
                mbarrier_arrive_expect_tx(&full, 128);
                tma_load_3d(box, &map_a, &full, column - 4, row - 1, matrix);
                mbarrier_wait(&full, parity);
                parity ^= 1;
                tma_store_3d(&map_c, box, column, row, matrix);
                tma_store_commit();
                tma_store_wait_read<0>();
            }
        }
    }
}
"""
BATCH = Problem(None, None, None, batch=None)


@pytest.fixture(scope="module")
def emulator(shared_store: Store) -> Iterator[EmulatorExecutor]:
    with EmulatorExecutor(shared_store) as executor:
        yield executor


def mover(swizzle: int) -> KernelSource:
    text = environment(BATCH.types).from_string(MOVE).render()
    maps = tuple(TensorMap(name, (8, 4, 1), swizzle) for name in "AC")
    launch = Launch(32, (("M", 2**20), ("N", 2**20)), 1024, maps=maps)
    taken = {one.name: one for one in Contract.of(BATCH, launch).parameters}
    order = re.findall(r"(\w+)[,)]", text[text.index("\nk(") : text.index("\n{", text.index("\nk("))])
    return KernelSource("k", text, "test", {}, Contract(BATCH, launch, tuple(taken[name] for name in order)))


@pytest.mark.parametrize("swizzle", [0, 32])
def test_boxes_start_at_any_16_bytes_and_end_where_the_tensor_does(swizzle: int, emulator: EmulatorExecutor) -> None:
    kernel = emulator.load(mover(swizzle))
    case = BATCH.case(5, 12, 12, batch=3, lda=16)
    a = np.random.default_rng(1).normal(size=case.a.elements).astype(np.float32)
    given = Operands(a, np.zeros(case.b.elements, np.float32), np.full(case.c.elements, 7, np.float32))
    wanted = np.zeros((3, 5, 12), np.float32)
    wanted[:, 1:, 4:] = case.a.view(a)[:, :-1, :-4]
    for seed in SEEDS:
        np.testing.assert_array_equal(case.c.view(kernel.run(case, given, seed=seed)), wanted)
    kernel.close()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("&map_a, &full", "(const TensorMap*)B, &full", "takes a tensor map that is none of the kernel's parameters"),
        ("&map_a, &full", "(const TensorMap*)box, &full", "takes a tensor map that is none of the kernel's parameters"),
        ("__grid_constant__ TensorMap map_a", "TensorMap map_a", "of a parameter that is no __grid_constant__"),
        ("tma_load_3d(box,", "tma_load_3d(box + 64,", "128 does not divide"),
        ("column - 4,", "column - 1,", "of a box that begins -4 bytes into a line, no multiple of 16"),
        ("tma_load_3d(box,", "tma_load_3d(box + 896 + 128,", "of a box of 128 bytes that leaves shared memory"),
        ("mbarrier_wait(&full, parity);", "", "one arrival too many|not waited for yet"),
        ("tma_store_wait_read<0>();", "", "'s TMA store reads .*TMA load writes it .*not waited for yet"),
        ("mbarrier_init(&full, 1);", "", "uses the mbarrier at byte 0 of full, which no thread has initialised"),
        (
            "mbarrier_init(&full, 1);",
            "mbarrier_init(&full, 1); full = 0;",
            "at byte 0 of full, where something else has been stored since",
        ),
    ],
)
def test_wrong_use_of_tma_is_told(old: str, new: str, words: str, emulator: EmulatorExecutor) -> None:
    source = mover(0)
    assert source.text.count(old) >= 1
    functions, head, body = source.text.partition('extern "C"')
    kernel = emulator.load(replace(source, text=functions + head + body.replace(old, new)))
    case = BATCH.case(5, 12, 12, batch=2)
    given = Operands(*(np.ones(matrix.elements, np.float32) for matrix in case.matrices))
    with pytest.raises(CandidateFailed) as caught:
        kernel.run(case, given, seed=0)
    kernel.close()
    assert re.search(words, caught.value.failure.reason), caught.value.failure.reason


def test_a_tensor_that_tma_cannot_move_is_no_launch(emulator: EmulatorExecutor) -> None:
    kernel = emulator.load(mover(0))
    case = BATCH.case(5, 12, 12, batch=2, lda=13)
    given = Operands(*(np.ones(matrix.elements, np.float32) for matrix in case.matrices))
    with pytest.raises(CandidateFailed, match="TMA cannot move A: 52 bytes from a line") as caught:
        kernel.run(case, given)
    kernel.close()
    assert caught.value.failure.kind == "launch"


# Registers.

REGISTERS = """
//% from "device/warpgroup.cu" import setmaxnreg
${ setmaxnreg() }
extern "C" __global__ void __launch_bounds__(384, 1) k(const float* A, const float* B, float* C)
{
    const int group = threadIdx.x / 128;
    BODY
    C[threadIdx.x] = group;
}
"""
ROW = Problem(1, 384, 384)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("if (group == 0) setmaxnreg_dec<40>(); else setmaxnreg_inc<232>();", ""),
        (
            "if (group == 0) setmaxnreg_dec<40>(); else setmaxnreg_inc<240>();",
            r"deadlock in block 0: .* wait at line \d+, called from line \d+, for 240 registers a thread, where",
        ),
        ("if (group == 1) setmaxnreg_inc<176>();", "wait at line .* for 176 registers a thread, .* others leave 0"),
        ("setmaxnreg_inc<160>();", "setmaxnreg_inc<160> of a warpgroup whose threads have 168 registers"),
        ("if (threadIdx.x >= 32) setmaxnreg_dec<40>();", "wait at the warpgroup's instruction"),
    ],
)
def test_warpgroups_take_the_registers_that_others_give_up(body: str, words: str, emulator: EmulatorExecutor) -> None:
    text = environment(ROW.types).from_string(REGISTERS).render().replace("BODY", body)
    launch = Launch(384, (("M", 1),))
    contract = Contract(ROW, launch, Contract.of(ROW, launch).parameters[:3])
    kernel = emulator.load(KernelSource("k", text, "test", {}, contract))
    given = Operands(*(np.ones(matrix.elements, np.float32) for matrix in ROW.case().matrices))
    for seed in SEEDS:
        if not words:
            np.testing.assert_array_equal(kernel.run(ROW.case(), given, seed=seed), np.arange(384) // 128)
            continue
        with pytest.raises(CandidateFailed) as caught:
            kernel.run(ROW.case(), given, seed=seed)
        assert re.search(words, caught.value.failure.reason), caught.value.failure.reason
    kernel.close()


def test_elements_become_tf32_to_nearest_even(emulator: EmulatorExecutor) -> None:
    problem = Problem(8, 32, 32)
    text = environment(problem.types).from_string(TF32).render()
    launch = Launch(32, (("M", 8), ("N", 32)), 1024, maps=(TensorMap("A", (32, 8), tf32=True),))
    kernel = emulator.load(KernelSource("k", text, "test", {}, Contract.of(problem, launch)))
    bits = np.zeros(256, np.uint32)
    bits[:6] = [0x3F801000, 0x3F803000, 0xBF801001, 0x7F7FFFFF, 0x7F800000, 0x00001000]
    case = problem.case()
    given = Operands(bits.view(np.float32), *(np.zeros(one.elements, np.float32) for one in (case.b, case.c)))
    found = np.ascontiguousarray(kernel.run(case, given, seed=1)).view(np.uint32)
    assert [*found.ravel()[:6]] == [0x3F800000, 0x3F804000, 0xBF802000, 0x7F800000, 0x7F800000, 0]


def test_a_store_writes_whole_chunks_also_behind_a_lines_end(emulator: EmulatorExecutor) -> None:
    kernel, case = emulator.load(mover(0)), BATCH.case(5, 10, 10, batch=1, lda=12, ldc=16)
    given = Operands(*(np.zeros(one.elements, np.float32) for one in (case.a, case.b, case.c)))
    with pytest.raises(CandidateFailed, match=r"outside C|leaves the tensor"):
        kernel.run(case, given, seed=1)
