/*# Every thread computes which warp is its own. #*/
//% set consumer, idle = "threadIdx.x / 128", "threadIdx.x > CONSUMERS * 128"
//% macro first_lane()
//%- endmacro
//% macro elect_one()
//%- endmacro
