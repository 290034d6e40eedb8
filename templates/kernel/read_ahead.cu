/*# cp.async fills a ring of STAGES tiles in shared memory; registers hold the values of two depths, read two ahead. #*/
//% extends "kernel/gemm.cu"
//% from "device/cp_async.cu" import cp_async
//% block intrinsics
${ cp_async() }
//% endblock
//% block main_loop
    #pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
        const int depth = ${ view.K } - stage * BK;
        if (depth > 0) {
            copy_a(a_tile, s, rows, depth, As[stage]);
            copy_b(b_tile, s, columns, depth, Bs[stage]);
        }
        cp_async_commit();
        a_tile += a_step;
        b_tile += b_step;
    }

    ${ T } a[2][TM], b[2][TN];  // the values at an even and at an odd depth
    if (${ view.K } > 0) {
        cp_async_wait<STAGES - 1>();  // this thread's share of the first tile has landed
        __syncthreads();              // so has everybody's
        #pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
            read_a(As[0], odd, place.m, a[odd]);
            read_b(Bs[0], odd, place.n, b[odd]);
        }
    }

    int stage = 0, next = 2;  // next: the shared line to read next, counted through all stages
    for (int k = 0; k < ${ view.K }; k += BK) {
        #pragma unroll AHEAD / 2
        for (int i = 0; i < BK; i += 2) {
            if (i == BK - 2) {                // registers hold what is left of this tile
                cp_async_wait<STAGES - 2>();  // this thread's share of the next tile has landed
                __syncthreads();              // so has everybody's, and nobody reads this tile any more
                const int depth = ${ view.K } - k - STAGES * BK;
                if (depth > 0) {
                    copy_a(a_tile, s, rows, depth, As[stage]);
                    copy_b(b_tile, s, columns, depth, Bs[stage]);
                }
                cp_async_commit();  // an empty group too: the wait counts groups
                a_tile += a_step;
                b_tile += b_step;
                if (++stage == STAGES) stage = next = 0;
                if (k + BK >= ${ view.K }) next = 0;  // no tile is left: what is read now serves nothing, but must exist
            }
            // Each depth's values are replaced once they are used, and arrive while the other's are multiplied.
            add_product(a[0], b[0], acc);
            read_a(As[0], next, place.m, a[0]);
            read_b(Bs[0], next, place.n, b[0]);
            __syncwarp();  // so that the compiler does not gather all reads at the end of the loop
            add_product(a[1], b[1], acc);
            read_a(As[0], next + 1, place.m, a[1]);
            read_b(Bs[0], next + 1, place.n, b[1]);
            next += 2;
        }
    }
//% endblock
