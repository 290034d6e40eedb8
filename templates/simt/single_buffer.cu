/*# One tile in shared memory: load, wait, mma, wait. #*/
//% extends "tiled.cu"
//% from "epilogue/sums.cu" import sums
//% from "copy/access.cu" import limits
//% block main_loop
    Vec<${ of.A }VA> a_staged[A_ITERATIONS];
    Vec<${ of.B }VB> b_staged[B_ITERATIONS];
    for (int k = 0; k < ${ K }; k += BK) {
        fetch_a(a_tile, s${ limits(view.a, depth=K ~ " - k") }, a_staged);
        fetch_b(b_tile, s${ limits(view.b, depth=K ~ " - k") }, b_staged);
        store_shared_a(a_staged, As[0]);
        store_shared_b(b_staged, Bs[0]);
        __syncthreads();  // the tiles are complete
        mma(As[0], Bs[0], thread, acc${ sums(kernel) });
        __syncthreads();  // no thread reads them any more
        a_tile += a_step;
        b_tile += b_step;
    }
//% endblock
