/*# The instructions that a kernel of `wgmma` uses, as device functions. #*/
//% from "device/shared_address.cu" import shared_address
//% from "device/dependent_launch.cu" import dependent_launch
//% from "device/tma.cu" import fence_proxy_async
//% from "device/warpgroup.cu" import named_barrier_arrive, named_barrier_sync, setmaxnreg
//% from "device/wgmma.cu" import wgmma
//% macro instructions(kernel, view)
//% import view.blocks as blocks
//% import view.roles as roles
${ shared_address() }
${ blocks.barriers(view) }
//% if kernel.dependent or kernel.launch.overlapped
${ dependent_launch() }
//% endif
${ blocks.loads(view) }
//% if view.c_by_tma or view.limited or view.gathered
${ fence_proxy_async() }
//% endif
//% if view.staged or view.pingpong or view.split or view.skips
${ named_barrier_sync() }
//% endif
//% if view.pingpong
${ named_barrier_arrive() }
//% endif
//% if view.donates
${ setmaxnreg() }
//% endif
${ roles.elect_one() }
${ wgmma([view.wgmma], always=not view.promoted) | trim("\n") }
//% endmacro
