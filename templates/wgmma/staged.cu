/*# Pieces of C that TMA stores from shared memory. #*/
//% from "epilogue/result.cu" import narrowed, scaled
//% from "epilogue/sums.cu" import sums as sums_taken
//% from "wgmma/each.cu" import kept_sums, of_mma
//% macro staged_at(view)
// Where an element of a piece lies in shared memory, swizzled as TMA expects it: the number of its chunk of 16 bytes is
// XORed with its line's, so that the eight lines that a warp writes at once do not meet in a bank.${ " Boxes of\n// %s lines lie one behind the other." | format(view.box_lines) if view.c_boxes > 1 }
//% set line, column = ("(n / CN * %s + m)" | format(view.box_lines), "n % CN") if view.c_boxes > 1 else ("m", "n")
//% if view.full_lines and view.c_boxes == 1
__device__ __forceinline__ int staged_at(int m, int n) { return m * CN + ((n / ${ view.chunk }) ^ (m % 8)) * ${ view.chunk } + n % ${ view.chunk }; }
//% else
__device__ __forceinline__ int staged_at(int m, int n)
{
//% if view.full_lines
    return ${ line } * CN + ((${ column } / ${ view.chunk }) ^ (m % 8)) * ${ view.chunk } + n % ${ view.chunk };
//% else
    constexpr int CHUNK = 16 / sizeof(${ TC }), CHUNKS = CN / CHUNK;  // elements of one; chunks of a line
    return ${ line } * CN + ((${ column } / CHUNK) ^ (m / (8 / CHUNKS) % CHUNKS)) * CHUNK + n % CHUNK;
//% endif
}
//% endif
//% endmacro
/*# A piece of C from sums in registers, in the order that device/wgmma.cu tells. #*/
//% macro stage_row(view)
//% set S = types.scalar.ctype
// Write alpha * acc + beta * C to the staged piece, of the first or `second` of this thread's two rows, 8 apart, in pairs of
// columns 8 apart. If beta is not 0, the old C is there already; else it is not read: it may be uninitialised.
__device__ __forceinline__ void stage_row(${ TC }* c, int row, int column, int second, const ${ view.wgmma.c_type } (&acc)[${ kept_sums(view) }], int piece, ${ S } alpha, ${ S } beta)
{
    struct alignas(2 * sizeof(${ TC })) PairOfC { ${ TC } at[2]; };  // two neighbouring elements
    const int m = row + second * 8;
    #pragma unroll
    for (int j = 0; j < ${ view.piece } / 8; ++j) {
        const int n = column + j * 8, r = piece * ${ view.piece } / 2 + j * 4 + second * 2;
        ${ S } value[2] = {${ scaled("acc[r]") }, ${ scaled("acc[r + 1]") }};
        PairOfC& to = *reinterpret_cast<PairOfC*>(c + staged_at(m, n));
        if (beta != ${ types.scalar.arithmetic.zero }) {
            const PairOfC old = to;
            for (int v = 0; v < 2; ++v) value[v] = ${ types.scalar.arithmetic.fma }(beta, old.at[v], value[v]);
        }
        to = {${ narrowed("value[0]") }, ${ narrowed("value[1]") }};
    }
}
//% endmacro
/*# The same where products are those of C's transpose: what lies side by side in C is in eight lanes, and stmatrix transposes it. #*/
//% macro stage_transposed(view)
//% set S = types.scalar.ctype
// Write alpha * acc + beta * C to the staged piece: stmatrix transposes matrices of 8 x 8, of which a warp has two side by side
// for each eight rows of C. If beta is not 0, the old C is there already; else it is not read: it may be uninitialised.
__device__ __forceinline__ void stage_transposed(${ TC }* c, int row, int column, const ${ view.wgmma.c_type } (&acc)[${ kept_sums(view) }], int piece, ${ S } alpha, ${ S } beta)
{
    union Pair { unsigned bits; ${ TC } at[2]; };  // elements of two neighbouring rows
    #pragma unroll
    for (int m = 0; m < CM; m += ${ view.matrices * 4 }) {
        ${ TC }* const to = c + staged_at(m + row, column);
        unsigned old[${ view.matrices }] = {}, stored[${ view.matrices }];
        if (beta != ${ types.scalar.arithmetic.zero }) ldmatrix_x${ view.matrices }_trans(old, to);
        #pragma unroll
        for (int i = 0; i < ${ view.matrices }; ++i) {
            const int r = piece * CM / 2 + m / 2 + i * 2;
            ${ S } value[2] = {${ scaled("acc[r]") }, ${ scaled("acc[r + 1]") }};
            Pair pair{old[i]};
            if (beta != ${ types.scalar.arithmetic.zero })
                for (int v = 0; v < 2; ++v) value[v] = ${ types.scalar.arithmetic.fma }(beta, pair.at[v], value[v]);
            for (int v = 0; v < 2; ++v) pair.at[v] = ${ narrowed("value[v]") };
            stored[i] = pair.bits;
        }
        stmatrix_x${ view.matrices }_trans(to, stored);
    }
}
//% endmacro
/*# The coordinates of a piece that say which matrix C is. #*/
//% macro of_matrix(view)
${ ", origin_c.near, origin_c.far" if view.pointers else ", matrix" if view.batched }
//%- endmacro
/*# Room for a piece in shared memory, and the old C in it. #*/
//% macro take_stage(view)
${ TC }* const c = shared.c[consumer][${ "(i * %s / %s + piece)" | format(view.stored, view.piece) if view.mmas else "piece" } % C_STAGES];
if (leads) tma_store_wait_read<C_STAGES - 1>();  // TMA has read the piece that was there
named_barrier_sync(1 + consumer, 128);
//% if view.loads_c
if (beta != ${ types.scalar.arithmetic.zero }) {  // else C is not read: it may be uninitialised
    if (leads) {
        mbarrier_arrive_expect_tx(&shared.c_loaded[consumer], 64 * ${ view.piece } * sizeof(${ TC }));
//% if view.c_boxes > 1
        for (int at = 0; at < ${ view.boxes_columns }; at += CN) tma_load_${ view.c_rank }d(c + at * ${ view.box_lines }, &map_c, &shared.c_loaded[consumer], n + at, m${ of_matrix(view) });
//% else
        tma_load_${ view.c_rank }d(c, &map_c, &shared.c_loaded[consumer], n, m${ of_matrix(view) });
//% endif
    }
    mbarrier_wait(&shared.c_loaded[consumer], c_parity);
    c_parity ^= 1;
}
//% endif
//% endmacro
//% macro store_staged(kernel, view)
//% if view.direct and view.swapped
stage_transposed(c, row, column, ${ view.kept }${ of_mma(view) }, piece, alpha, beta);
//% elif view.direct
#pragma unroll
for (int second = 0; second < 2; ++second) stage_row(c, row, column, second, ${ view.kept }${ of_mma(view) }, piece, alpha, beta);
//% else
store_c(c, s${ ", s.M - m" if "M" in view.edges }${ ", s.N - n" if "N" in view.edges }, thread, sums${ ", sums2" if view.gated }${ sums_taken(kernel) }, ${ "e" if kernel.epilogue else "alpha, beta" });
//% endif
fence_proxy_async();
named_barrier_sync(1 + consumer, 128);
if (leads) {
//% if view.c_boxes > 1
    for (int at = 0; at < ${ view.boxes_columns }; at += CN) tma_store_${ view.c_rank }d(&map_c, c + at * ${ view.box_lines }, n + at, m${ of_matrix(view) });
//% else
    tma_store_${ view.c_rank }d(&map_c, c, n, m${ of_matrix(view) });
//% endif
    tma_store_commit();
}
//% endmacro
