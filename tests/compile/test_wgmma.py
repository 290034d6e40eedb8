"""NVRTC takes the device functions of TMA, mbarriers and wgmma for sm_90a; each is the instruction that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gemmgen.problem.dtype import DType
from gemmgen.problem.types import Types
from gemmgen.problem.wgmma import ARCH, Wgmma, wgmmas
from gemmgen.render.kernel_text import environment
from gemmgen.run.compile import compile_text
from gemmgen.run.sass import disassemble
from gemmgen.support.files import Store

TEXT = """
//% from "device/mbarrier.cu" import mbarrier, mbarrier_arrive
//% from "device/tma.cu" import tma, tensor_map, fence_proxy_async, tma_store_wait
//% from "device/warpgroup.cu" import named_barrier_arrive, named_barrier_sync, elect_one, setmaxnreg
//% from "device/wgmma.cu" import wgmma
//% from "device/dynamic_shared.cu" import dynamic_shared
//% from "device/shared_address.cu" import shared_address
${ tensor_map() }
${ shared_address() }
${ mbarrier(mbarrier_arrive()) }
${ tma((2, 3), (2,)) }
${ tma_store_wait() }
${ fence_proxy_async() }
${ named_barrier_sync() }
${ named_barrier_arrive() }
${ elect_one() }
${ setmaxnreg() }
${ dynamic_shared(1024) }
${ wgmma(instructions) }
extern "C" __global__ void __launch_bounds__(256, 1)
k(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_c, float* C)
{
    unsigned char* const tile = dynamic_shared();
    unsigned long long* const full = reinterpret_cast<unsigned long long*>(tile + 65536);
    if (threadIdx.x == 0) {
        mbarrier_init(full, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= 128) {
        setmaxnreg_dec<24>();
        if (elect_one()) {
            mbarrier_arrive_expect_tx(full, 8192);
            tma_load_2d(tile, &map_a, full, 0, 64);
            tma_load_3d(tile + 8192, &map_a, full, 0, 64, 1);
            mbarrier_arrive(full);
        }
    } else {
        setmaxnreg_inc<240>();
        mbarrier_wait(full, 0);
//% for one in instructions
        {
            ${ one.c_type } d[${ one.c_registers }] = {};
//% if one.registers
            const unsigned a[4] = {threadIdx.x, 1, 2, 3};
//% else
            const unsigned long long a = make_descriptor<128>(tile, 16, 1024);
//% endif
            wgmma_fence();
            ${ one.function }(d, a, make_descriptor<128>(tile + 8192, 16, 1024), true);
            wgmma_commit();
            wgmma_wait<0>();
            C[threadIdx.x] += static_cast<float>(d[0]) + static_cast<float>(d[1]);
        }
//% endfor
        named_barrier_arrive(1, 128);
        fence_proxy_async();
        named_barrier_sync(2, 128);
        if (threadIdx.x == 0) {
            tma_store_2d(&map_c, tile, 0, 0);
            tma_store_commit();
            tma_store_wait_read<0>();
            tma_store_wait<0>();
        }
    }
}
"""
INSTRUCTIONS = {
    Wgmma(16, DType.BF16, DType.BF16, DType.F32): "HGMMA.64x16x16.F32.BF16",
    Wgmma(8, DType.F16, DType.F16, DType.F16, trans_a=True, trans_b=True): r"HGMMA.64x8x16.F16\b.*",
    Wgmma(
        24, DType.F16, DType.F16, DType.F16
    ): r"HGMMA.64x24x16.F16\b.*",  # six registers of sums, not a multiple of four
    Wgmma(24, DType.S8, DType.U8, DType.S32): "IGMMA.64x24x32.S8.U8",
    Wgmma(32, DType.E4M3, DType.E5M2, DType.F32): "QGMMA.64x32x32.F32.E4M3.E5M2",
    Wgmma(40, DType.F32, DType.F32, DType.F32): "HGMMA.64x40x8.F32.TF32",
    Wgmma(48, DType.BF16, DType.BF16, DType.F32, trans_b=True, registers=True): r"HGMMA.64x48x16.F32.BF16\b.*",
    Wgmma(64, DType.E4M3, DType.E4M3, DType.F32, registers=True): "QGMMA.64x64x32.F32.E4M3.E4M3",
}
OTHERS = ("UTMALDG.2D", "UTMALDG.3D", "UTMASTG.2D", "USETMAXREG", "SYNCS", "ELECT", "UTMACMDFLUSH", "WARPGROUP.DEPBAR")


@pytest.fixture(scope="module")
def machine_code(shared_store: Store) -> str:
    text = environment(Types.parse("f32")).from_string(TEXT).render(instructions=list(INSTRUCTIONS))
    return disassemble(compile_text(text, ARCH, shared_store).cubin).text


def test_the_kernel_by_hand_compiles_without_spilling(shared_store: Store) -> None:
    text = (Path(__file__).parents[1] / "kernels" / "wgmma.cu").read_text()
    rendered = (
        environment(Types.parse("f32")).from_string(text).render(instruction=wgmmas()["wgmma_m64n64k16_bf16"], n=0)
    )
    assert compile_text(rendered, ARCH, shared_store).spill_bytes == 0


@pytest.mark.parametrize("one", INSTRUCTIONS, ids=lambda one: one.function)
def test_each_product_is_the_instruction_that_it_names(one: Wgmma, machine_code: str) -> None:
    assert len(re.findall(rf"\b{INSTRUCTIONS[one]}\b", machine_code)) == 1, re.findall(r"\b\wGMMA\S*", machine_code)


@pytest.mark.parametrize("name", OTHERS)
def test_the_others_are_there(name: str, machine_code: str) -> None:
    assert name in machine_code
