/*# Pieces of C move by TMA, which drops what lies beyond C. #*/
//% macro functions(view)
//%- endmacro
/*# The old C to the piece's place in shared memory, #*/
//% macro load(view)
//% import view.boxes as boxes
if (leads) {
    mbarrier_arrive_expect_tx(&shared.c_loaded[consumer], 64 * ${ view.piece } * sizeof(${ TC }));
${ boxes.load(view) | indent(4, true) | trim("\n") }
}
mbarrier_wait(&shared.c_loaded[consumer], c_parity);
c_parity ^= 1;
//% endmacro
/*# and from there to C. #*/
//% macro store(view)
//% import view.boxes as boxes
if (leads) {
${ boxes.store(view) | indent(4, true) | trim("\n") }
    tma_store_commit();
}
//% endmacro
