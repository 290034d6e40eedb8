/*# Every thread computes which warp is its own. #*/
//% set consumer, idle = "threadIdx.x / 128", "threadIdx.x > CONSUMERS * 128"
//% set idle_warp, one_of_warp = "threadIdx.x / 32 > CONSUMERS * 4", "threadIdx.x % 32 == 0"
//% set leads = "threadIdx.x == CONSUMERS * 128"
//% macro first_lane()
//%- endmacro
//% macro elect_one()
//%- endmacro
