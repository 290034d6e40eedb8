/*# A ring of STAGES tiles in shared memory, filled by cp.async STAGES - 1 k tiles ahead. #*/
//% extends "tiled.cu"
//% from "epilogue/sums.cu" import sums
//% from "copy/first_tiles.cu" import first_stages
//% from "device/cp_async.cu" import cp_async, start_tile
//% block access
${ cp_async() }
//% endblock
//% block main_loop
${ first_stages(view, K) }
    int read = 0, write = STAGES - 1;
    for (int k = 0; k < ${ K }; k += BK) {
        cp_async_wait<STAGES - 2>();  // this thread's copies of the stage to read have landed
        __syncthreads();              // and all threads'; none reads the stage to write any more
        const int depth = ${ K } - k - (STAGES - 1) * BK;
${ start_tile(view.a, view.b, "depth > 0", "depth", "write", "  // an empty group too: the wait counts groups") | indent(8, true) | trim("\n") }
        a_tile += a_step;
        b_tile += b_step;
        mma(As[read], Bs[read], thread, acc${ sums(kernel) });
        read = read + 1 < STAGES ? read + 1 : 0;
        write = write + 1 < STAGES ? write + 1 : 0;
    }
//% endblock
