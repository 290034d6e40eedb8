/*# A block computes one tile of C. #*/
//% set readers, readers_of_cluster = "CONSUMERS", "CLUSTER * CONSUMERS"
//% set all_consumers, first_parameter = " * CONSUMERS", "int first, "
//% macro overview()
// Each stage of the ring goes from the producer to the consumers and back, by two mbarriers:
//     producer  waits for empty[stage], has full[stage] expect their bytes, and starts TMA's loads, which complete it
//     consumer  waits for full[stage], multiplies by wgmma and, once that has read the stage, arrives at
//               empty[stage] of each block that fills a part of it
//% endmacro
//% macro advance_by()
//%- endmacro
//% macro schedule(view)
//%- endmacro
//% macro each_tile(view)
${ caller() | trim("\n") }
//% endmacro
//% macro each_own_tile(view)
${ caller() | trim("\n") }
//% endmacro
//% macro pass_turn(view)
//%- endmacro
