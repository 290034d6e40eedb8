/*# Two stages in shared memory: the next k tile is loaded to registers while this one is multiplied. #*/
//% extends "tiled.cu"
//% from "epilogue/sums.cu" import sums
//% from "copy/access.cu" import limits
//% from "copy/first_tiles.cu" import first_tile
//% block main_loop
${ first_tile(view, K) }
    int stage = 0;
    for (int k = 0; k < ${ K }; k += BK) {
        const int depth = ${ K } - k - BK;  // of K behind this k tile
        if (depth > 0) {                 // these loads run during the FMAs of this k tile
            a_tile += a_step;
            b_tile += b_step;
            fetch_a(a_tile, s${ limits(view.a) }, a_staged);
            fetch_b(b_tile, s${ limits(view.b) }, b_staged);
        }
        mma(As[stage], Bs[stage], thread, acc${ sums(kernel) });
        stage ^= 1;
        if (depth > 0) {
            store_shared_a(a_staged, As[stage]);
            store_shared_b(b_staged, Bs[stage]);
        }
        __syncthreads();  // the next stage is complete, and no thread reads this one any more
    }
//% endblock
