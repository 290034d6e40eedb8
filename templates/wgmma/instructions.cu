/*# The instructions that a kernel of `wgmma` uses, as device functions. #*/
//% from "device/shared_address.cu" import shared_address
//% from "device/mbarrier.cu" import mbarrier
//% from "device/cluster.cu" import cluster, load_shared_cluster, mbarrier_arrive_cluster, tma_multicast
//% from "device/dependent_launch.cu" import dependent_launch
//% from "device/tma.cu" import tma, fence_proxy_async
//% from "device/warpgroup.cu" import elect_one, named_barriers, setmaxnreg
//% from "device/wgmma.cu" import wgmma
//% macro instructions(kernel, view)
${ shared_address() }
${ mbarrier(arrives=view.cluster == 1) }
//% if view.cluster > 1
${ mbarrier_arrive_cluster() }
${ cluster(split=false) }
//% elif view.split
${ cluster() }
${ load_shared_cluster(T) }
//% endif
//% if kernel.dependent or kernel.launch.overlapped
${ dependent_launch() }
//% endif
${ tma((view.box_rank, view.c_rank) | unique if view.loads_c else (view.box_rank,), (view.c_rank,) if view.staged else (), written=false) }
//% if view.cluster > 1
${ tma_multicast((view.box_rank,)) }
//% endif
//% if view.staged or view.limited
${ fence_proxy_async() }
//% endif
//% if view.staged or view.pingpong or view.split
${ named_barriers(arrive=view.pingpong) }
//% endif
//% if view.donates
${ setmaxnreg() }
//% endif
//% if view.uniform
${ elect_one() }
//% endif
${ wgmma([view.wgmma], always=not view.promoted) | trim("\n") }
//% endmacro
