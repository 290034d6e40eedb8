/*# The compiler is told that a warp's number is the same in all of its lanes. #*/
//% import "device/warpgroup.cu" as warpgroup
//% set first_lane, elect_one = warpgroup.first_lane, warpgroup.elect_one
//% set consumer, idle = "first_lane(threadIdx.x / 128)", "first_lane(threadIdx.x / 32) > CONSUMERS * 4 || !elect_one()"
//% set idle_warp, one_of_warp = "first_lane(threadIdx.x / 32) > CONSUMERS * 4", "elect_one()"
//% set leads = "first_lane(threadIdx.x / 32) == CONSUMERS * 4 && elect_one()"
