"""NVRTC takes the device functions of clusters; each is the instruction that it names."""

from __future__ import annotations

import pytest

from gemmgen.problem.types import Types
from gemmgen.render.kernel_text import environment
from gemmgen.run.compile import compile_text
from gemmgen.run.sass import disassemble
from gemmgen.support.files import Store

TEXT = """
//% from "device/cluster.cu" import cluster, cluster_at_once, mbarrier_arrive_cluster, tma_multicast
//% from "device/dynamic_shared.cu" import dynamic_shared
//% from "device/shared_address.cu" import shared_address
//% from "device/mbarrier.cu" import mbarrier
//% from "device/tma.cu" import tensor_map
${ tensor_map() }
${ shared_address() }
${ mbarrier() }
${ cluster() if split else cluster_at_once() }
${ mbarrier_arrive_cluster() }
${ tma_multicast((2, 3)) }
${ dynamic_shared(1024) }
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128)
k(const __grid_constant__ TensorMap map_a, unsigned* C)
{
    unsigned char* const tile = dynamic_shared();
    unsigned long long* const full = reinterpret_cast<unsigned long long*>(tile + 65536);
    if (threadIdx.x == 0) {
        mbarrier_init(full, 2);
        fence_mbarrier_init();
    }
    cluster_sync();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(full, 4096);
        tma_load_multicast_2d(tile, &map_a, full, 0, 64, 3);
        tma_load_multicast_3d(tile + 2048, &map_a, full, 0, 64, 1, 3);
        mbarrier_arrive_cluster(full, cluster_rank() ^ 1);
    }
    mbarrier_wait(full, 0);
    C[blockIdx.x * 128 + threadIdx.x] = tile[threadIdx.x];
    cluster_sync();
}
"""
NAMES = ("UTMALDG.2D.MULTICAST", "UTMALDG.3D.MULTICAST", "UCGABAR_ARV", "UCGABAR_WAIT", "SYNCS.ARRIVE.TRANS64.RED.A1T0")
SYNCS = 2  # cluster_sync in TEXT, which alone pay for the order of the whole GPU's memory


@pytest.mark.parametrize("split", [False, True])
def test_the_functions_of_clusters_are_there(split: bool, shared_store: Store) -> None:
    text = environment(Types.parse("f32")).from_string(TEXT).render(split=split)
    machine_code = disassemble(compile_text(text, "sm_90", shared_store).cubin).text
    assert [name for name in NAMES if name not in machine_code] == []
    assert machine_code.count("MEMBAR.ALL.GPU") == machine_code.count("CCTL.IVALL") == SYNCS
