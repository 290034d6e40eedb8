/*# Pieces of C that TMA, or threads where rows are scattered, store from shared memory, and load before that. #*/
//% from "device/tma.cu" import fence_proxy_async
//% from "device/warpgroup.cu" import named_barriers
//% macro functions_of_all(view)
${ fence_proxy_async() }
//% endmacro
//% macro member(view)
    alignas(1024) ${ TC } c[CONSUMERS][C_STAGES][64 * ${ view.piece }];  // pieces of C
//% endmacro
//% macro staged_at(view)
//% import view.boxes as boxes
//% import view.moves as moves
// Where an element of a piece lies in shared memory, swizzled as TMA expects it: the number of its chunk of 16 bytes is
// XORed with its line's, so that the eight lines that a warp writes at once do not meet in a bank. Where a piece has several boxes,
// these lie one behind the other.
__device__ __forceinline__ int staged_at(int m, int n)
{
//% if view.full_lines
    return ${ boxes.line(view) } * CN + ((${ boxes.column } / ${ view.chunk }) ^ (m % 8)) * ${ view.chunk } + n % ${ view.chunk };
//% else
    constexpr int CHUNK = 16 / sizeof(${ TC }), CHUNKS = CN / CHUNK;  // elements of one; chunks of a line
    return ${ boxes.line(view) } * CN + ((${ boxes.column } / CHUNK) ^ (m / (8 / CHUNKS) % CHUNKS)) * CHUNK + n % CHUNK;
//% endif
}

${ moves.functions(view) }
//%- endmacro
/*# What a consumer's thread is to know of itself: whether it stores, #*/
//% macro leads(view)
//% if view.c_by_tma
const bool leads = threadIdx.x % 128 == 0;  // the one thread of its warpgroup that stores
//% endif
//% endmacro
/*# and how it awaits C's old elements. #*/
//% macro parity(view)
//% if view.loads_c
unsigned c_parity = 0;  // of the phase of shared.c_loaded
//% endif
//% endmacro
/*# Room for a piece in shared memory, and the old C in it. #*/
//% macro take(view)
//% import view.each as mmas
//% import view.moves as moves
${ TC }* const c = shared.c[consumer][${ mmas.piece(view) } % C_STAGES];
//% if view.c_by_tma
if (leads) tma_store_wait_read<C_STAGES - 1>();  // TMA has read the piece that was there
//% endif
named_barrier_sync(1 + consumer, 128);
//% if view.reads_c
if (beta != ${ types.scalar.arithmetic.zero }) {  // else C is not read: it may be uninitialised
${ moves.load(view) | indent(4, true) | trim("\n") }
}
//% endif
//% endmacro
/*# What lies there on its way to C. #*/
//% macro send(view)
//% import view.moves as moves
//% if view.c_by_tma
fence_proxy_async();
//% endif
named_barrier_sync(1 + consumer, 128);
${ moves.store(view) | trim("\n") }
//% endmacro
//% macro leave(view)
//% if view.c_by_tma
    if (leads) tma_store_wait_read<0>();  // shared memory must outlast TMA's reads of it
//% endif
//% endmacro
