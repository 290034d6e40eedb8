/*# Pieces of C that TMA stores from shared memory. #*/
//% from "epilogue/sums.cu" import sums as sums_taken
//% macro staged_at(view)
// Where an element of a piece lies in shared memory. TMA has chunks of 16 bytes trade places within a line, by XOR with the
// line's number: so the eight lines that a warp writes at once lie in banks of their own.${ " Boxes of\n// CM lines lie one behind the other." if view.swapped }
__device__ __forceinline__ int staged_at(int m, int n)
{
    constexpr int CHUNK = 16 / sizeof(${ TC }), CHUNKS = CN / CHUNK;  // elements of one; chunks of a line
//% if view.swapped
    return (n / CN * CM + m) * CN + ((n % CN / CHUNK) ^ (m / (8 / CHUNKS) % CHUNKS)) * CHUNK + n % CHUNK;
//% else
    return m * CN + ((n / CHUNK) ^ (m / (8 / CHUNKS) % CHUNKS)) * CHUNK + n % CHUNK;
//% endif
}
//% endmacro
/*# Room for a piece in shared memory, and the old C in it. #*/
//% macro take_stage(view)
${ TC }* const c = shared.c[consumer][(i * ${ "BM / CM" if view.swapped else "BN / CN" } + piece) % C_STAGES];
if (leads) tma_store_wait_read<C_STAGES - 1>();  // TMA has read what was there
named_barrier_sync(1 + consumer, 128);
//% if view.loads_c
if (beta != ${ types.scalar.arithmetic.zero }) {  // else C is not read: what stands there may be NaN
    if (leads) {
        mbarrier_arrive_expect_tx(&shared.c_loaded[consumer], 64 * ${ "CM" if view.swapped else "CN" } * sizeof(${ TC }));
//% if view.swapped
        for (int at = 0; at < 64; at += CN) tma_load_${ view.c_rank }d(c + at * CM, &map_c, &shared.c_loaded[consumer], n + at, m${ ", matrix" if view.batched });
//% else
        tma_load_${ view.c_rank }d(c, &map_c, &shared.c_loaded[consumer], n, m${ ", matrix" if view.batched });
//% endif
    }
    mbarrier_wait(&shared.c_loaded[consumer], c_parity);
    c_parity ^= 1;
}
//% endif
//% endmacro
//% macro store_staged(kernel, view)
store_c(c, s${ ", s.M - m" if "M" in kernel.edges }${ ", s.N - n" if "N" in kernel.edges }, thread, sums${ ", sums2" if view.gated }${ sums_taken(kernel) }, ${ "e" if kernel.epilogue else "alpha, beta" });
fence_proxy_async();
named_barrier_sync(1 + consumer, 128);
if (leads) {
//% if view.swapped
    for (int at = 0; at < 64; at += CN) tma_store_${ view.c_rank }d(&map_c, c + at * CM, n + at, m${ ", matrix" if view.batched });
//% else
    tma_store_${ view.c_rank }d(&map_c, c, n, m${ ", matrix" if view.batched });
//% endif
    tma_store_commit();
}
//% endmacro
