/*# A ring of STAGES k tiles in shared memory, filled by cp.async STAGES - 1 of them ahead; fragments one k step ahead. #*/
//% extends "mma/mma.cu"
//% from "mma/tensor.cu" import summed
//% from "copy/first_tiles.cu" import advance, first_stages
//% from "device/cp_async.cu" import cp_async, start_tile
//% block copies
${ cp_async() }
//% endblock
//% block k_tiles
${ first_stages(view, K) }
    cp_async_wait<STAGES - 2>();  // this thread's copies of the first k tile have landed
    __syncthreads();              // and all threads'
    ${ view.mma.a_type } a[2][MMAS_M][4], b[2][MMAS_N][2];  // fragments of a k step, and of the next one
//% if view.b.codes
    Columns held[MMAS_N / 2];
//% endif
//% if view.may_be_empty
    if (${ K } > 0) {
        load_fragments_a(As[0], warp.m, 0, a[0]);
        load_fragments_b(Bs[0], warp.n, 0, b[0]${ ", held" if view.b.codes });
    }
//% else
    load_fragments_a(As[0], warp.m, 0, a[0]);
    load_fragments_b(Bs[0], warp.n, 0, b[0]${ ", held" if view.b.codes });
/*% endif %*/

//% if view.refills
    int read = 0, write = STAGES - 1;
//% elif view.advances
    int read = 0;
//% endif
    for (int k = 0; k < ${ K }; k += BK) {
        #pragma unroll
        for (int step = 0; step < K_STEPS; ++step) {
            // Load the next step's fragments, then multiply this one's: with no branch between, ptxas interleaves both.
            const int next = (step + 1) % 2;
//% if view.advances
            if (step + 1 == K_STEPS) {        // of the next k tile; after the last one, of this one again, unused
                cp_async_wait<STAGES - 2>();  // this thread's copies of it have landed
                __syncthreads();              // and all threads'; none reads this k tile any more
                if (k + BK < ${ K }) read = read + 1 < STAGES ? read + 1 : 0;
            }
            load_fragments_a(As[read], warp.m, (step + 1) % K_STEPS * K_STEP, a[next]);
            load_fragments_b(Bs[read], warp.n, (step + 1) % K_STEPS * K_STEP, b[next]${ ", held" if view.b.codes });
//% if view.refills
            if (step == 0) {
                const int depth = ${ K } - k - (STAGES - 1) * BK;
${ start_tile(view.a, view.b, "depth > 0", "depth", "write", "  // an empty group too: the wait counts groups") | indent(16, true) | trim("\n") }
                ${ advance(view.a) };
                b_tile += b_step;
                write = write + 1 < STAGES ? write + 1 : 0;
            }
//% else
            if (step == 0) cp_async_commit();  // an empty group, as all copies have begun: the wait counts groups
//% endif
//% else
            if (step + 1 < K_STEPS) {
                load_fragments_a(As[0], warp.m, (step + 1) * K_STEP, a[next]);
                load_fragments_b(Bs[0], warp.n, (step + 1) * K_STEP, b[next]${ ", held" if view.b.codes });
            }
//% endif
            mma(a[step % 2], b[step % 2], acc${ summed(kernel) });
        }
//% if view.promoted
        promote(acc, totals);
//% endif
    }
//% endblock
