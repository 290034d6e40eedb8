/*# Two stages in shared memory: the next k tile is loaded to registers while this one is multiplied. #*/
//% extends "mma/mma.cu"
//% from "mma/tensor.cu" import summed
//% from "copy/access.cu" import limits
//% from "copy/first_tiles.cu" import first_tile
//% from "copy/staged_chunks.cu" import staged
//% from "device/vec.cu" import load_edge, load_words
//% block copies
//% for x in [view.a, view.b] if x.at_edge and not x.words
//% if loop.first
${ load_edge() }
//% endif
//% endfor
//% if view.a.words or view.b.words
${ load_words((view.a.words and view.a.at_edge) or (view.b.words and view.b.at_edge)) | trim("\n") }

//% endif
//% endblock
//% block k_tiles
${ first_tile(view, K, staged(view.a), staged(view.b)) }
    int stage = 0;
    for (int k = 0; k < ${ K }; k += BK) {
        const int depth = ${ K } - k - BK;  // of K behind this k tile
        if (depth > 0) {                 // these loads run while this k tile is multiplied
            a_tile += a_step;
            b_tile += b_step;
            fetch_a(a_tile, s${ limits(view.a) }, a_staged);
            fetch_b(b_tile, s${ limits(view.b) }, b_staged);
        }
        #pragma unroll
        for (int step = 0; step < K_STEPS; ++step) {
            ${ view.mma.a_type } a[MMAS_M][4], b[MMAS_N][2];
            load_fragments_a(As[stage], warp.m, step * K_STEP, a);
            load_fragments_b(Bs[stage], warp.n, step * K_STEP, b);
            mma(a, b, acc${ summed(kernel) });
        }
//% if view.promoted
        promote(acc, totals);
//% endif
        stage ^= 1;
        if (depth > 0) {
            store_shared_a(a_staged, As[stage]);
            store_shared_b(b_staged, Bs[stage]);
        }
        __syncthreads();  // the next stage is complete, and no thread reads this one any more
    }
//% endblock
