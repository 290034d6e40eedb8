/*# One tile in shared memory: load, wait, multiply, wait. #*/
//% extends "kernel/gemm.cu"
//% from "copy/access.cu" import limits
//% block main_loop
    Vec<VA> a_staged[A_SHARE];
    Vec<VB> b_staged[B_SHARE];
    for (int k = 0; k < ${ view.K }; k += BK) {
        fetch_a(a_tile, s${ limits(view.a, depth=view.K ~ " - k") }, a_staged);
        fetch_b(b_tile, s${ limits(view.b, depth=view.K ~ " - k") }, b_staged);
        store_shared_a(a_staged, As[0]);
        store_shared_b(b_staged, Bs[0]);
        __syncthreads();  // the tiles are complete
        multiply(As[0], Bs[0], place, acc);
        __syncthreads();  // nobody reads them any more
        a_tile += a_step;
        b_tile += b_step;
    }
//% endblock
