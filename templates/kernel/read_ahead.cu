/*# cp.async fills a ring of STAGES tiles in shared memory; registers hold the values of two depths, read two ahead. #*/
//% extends "kernel/gemm.cu"
//% from "device/cp_async.cu" import cp_async, start_tile
//% from "compute/outer.cu" import outer_product
//% block intrinsics
${ cp_async() }
//% endblock
//% block compute
${ outer_product(view) }
//% endblock
//% block main_loop
    const int padded = (${ view.K } + BK - 1) / BK * BK;  // rounded up to whole steps
    #pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
        // The first step takes the remainder and zeros behind it, so that all others are whole.
        const int depth = EDGE_K && stage == 0 ? ${ view.K } - (padded - BK) : BK;
${ start_tile("padded > stage * BK", "depth", "stage") | indent(8, first=true) }        a_tile += ${ "depth" if view.a.along_k else "Offset(depth) * s.lda" };
        b_tile += ${ "depth" if view.b.along_k else "Offset(depth) * s.ldb" };
    }

    if (padded > 0) {
        cp_async_wait<STAGES - 1>();  // this thread's share of the first tile has landed
        __syncthreads();              // so has everybody's
        // The values of depth d are replaced by those of d + 2 once they are used, and arrive while those of d + 1 are
        // multiplied. A turn of the loop takes AHEAD depths; a_from and b_from say where the values of these lie.
        const ${ T }* a_from = &As[0][${ view.first }][place.m];
        const ${ T }* b_from = &Bs[0][${ view.first }][place.n];
        ${ T } a[2][TM], b[2][TN];
        #pragma unroll
        for (int d = 0; d < 2; ++d) {
            read_a(a_from + d * PITCH_A, a[d]);
            read_b(b_from + d * PITCH_B, b[d]);
        }

        int stage = 0;
        for (int k = AHEAD; k < padded${ " / SLICES" if view.slices > 1 }; k += AHEAD) {
            #pragma unroll
            for (int d = 0; d < AHEAD; ++d) {
                if (d == AHEAD - 2) {  // what is read from here on is the next turn's
                    a_from += AHEAD * PITCH_A;
                    b_from += AHEAD * PITCH_B;
                }
                if (d == AHEAD - 2 && k % ${ view.depth } == 0) {  // and of the next tile
                    cp_async_wait<STAGES - 2>();      // this thread's share of it has landed
                    __syncthreads();                  // so has everybody's, and nobody reads this tile any more
${ start_tile("padded - k%s > (STAGES - 1) * BK" % (" * SLICES" if view.slices > 1), "BK", "stage", "  // an empty group too: the wait counts groups") | indent(20, first=true) }                    a_tile += a_step;
                    b_tile += b_step;
                    stage = stage + 1 < STAGES ? stage + 1 : 0;
                    a_from = &As[stage][${ view.first }][place.m];
                    b_from = &Bs[stage][${ view.first }][place.n];
                }
                add_product(a[d % 2], b[d % 2], acc);
//% for x in ((view.b, view.a) if view.b_first else (view.a, view.b))
                read_${ x.x }(${ x.x }_from + (d + 2) % AHEAD * PITCH_${ x.X }, ${ x.x }[d % 2]);
//% endfor
            }
        }

        #pragma unroll
        for (int d = 0; d < AHEAD; ++d) {  // the last turn
            add_product(a[d % 2], b[d % 2], acc);
            if (d + 2 < AHEAD) {
                read_a(a_from + (d + 2) * PITCH_A, a[d % 2]);
                read_b(b_from + (d + 2) * PITCH_B, b[d % 2]);
            }
        }
    }
//% endblock
