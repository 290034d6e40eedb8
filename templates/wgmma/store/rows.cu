/*# Pieces of C that warps store by rows, where TMA cannot: each stages eight of its rows at a time. #*/
//% from "epilogue/extent.cu" import counts, left
//% from "epilogue/sums.cu" import sums_of_row
//% from "wgmma/store/first.cu" import first_of_c
//% from "wgmma/store/sums.cu" import piece_of_sums, sums_of_piece, thread_origin
//% set origin = thread_origin
/*# How much of a row there is, in kernels that look at these edges of C. #*/
//% set widths = {"": "CN", "M": "m < rows ? CN : 0", "N": "max(0, min(CN, columns))", "MN": "m < rows ? max(0, min(CN, columns)) : 0"}
//% macro functions_of_all(view)
//%- endmacro
//% macro member(view)
    alignas(16) ${ TC } c[CONSUMERS * 4][8 * PITCH_C];  // eight rows of each warp
//% endmacro
/*# The row of C that the row m of eight becomes, and how functions are told of such rows. #*/
//% set row_of_c = {false: "m", true: "index[m]"}
//% set index_of = {false: "", true: ", const int* index"}
//% macro functions(kernel, view)
//% import view.epilogue as epilogue
${ sums_of_piece(view) }
// Where an element of a piece lies among the eight rows that its warp has in shared memory. Rows begin an odd multiple of 8
// elements apart: so the eight that a warp writes at once lie in banks of their own.
__device__ __forceinline__ int staged_at(int m, int n)
{
    return m % 8 * PITCH_C + n;
}

${ epilogue.store_c(kernel, shared=true, staged=true, edges=view.edges) }

//% if kernel.problem.epilogue.reads_c
${ load_rows(kernel.c_edges, "unroll" if view.rows_unroll else "unroll 1", view.scattered) }

//% endif
${ store_rows(kernel.c_edges, view) }
//% endmacro
/*# `unroll`: of the loop over the rows, by its pragma. #*/
//% macro load_rows(edges, unroll, scattered)
//% if scattered
// Brings those eight rows of the old C that `index` names to where a warp stages them, from the column on in which `c` lies. What
// lies beyond C's edges becomes zero.
//% else
// Brings eight rows of the old C, which begin at `c`, to where a warp stages them. What lies beyond C's edges becomes zero.
//% endif
__device__ __forceinline__ void load_rows(const ${ TC }* c${ index_of[scattered] }, Shape s${ counts(edges) }, ${ TC }* staged)
{
    #pragma ${ unroll }
    for (int m = 0; m < 8; ++m) {
//% if edges
//% set zero_of_c = "static_cast<%s>(0)" | format(TC) if " " in TC else TC ~ "{}"
        const int width = ${ widths[edges | join] };
        for (int n = threadIdx.x % 32; n < CN; n += 32) staged[staged_at(m, n)] = n < width ? c[Offset(${ row_of_c[scattered] }) * s.ldc + n] : ${ zero_of_c };
//% else
        for (int n = threadIdx.x % 32; n < CN; n += 32) staged[staged_at(m, n)] = c[Offset(${ row_of_c[scattered] }) * s.ldc + n];
//% endif
    }
}
//% endmacro
//% macro store_rows(edges, view)
//% set row = row_of_c[view.scattered]
//% if view.scattered
// Stores the eight rows that a warp has staged to those rows of C that `index` names, from the column on in which `c` lies, up
// to C's edges. Neighbouring lanes write neighbouring elements, for whole sectors of C's lines wherever these begin.
//% else
// Stores the eight rows that a warp has staged to C, where they begin at `c`, up to C's edges. Neighbouring lanes write
// neighbouring elements, for whole sectors of C's lines wherever these begin.
//% endif
__device__ __forceinline__ void store_rows(${ TC }* c${ index_of[view.scattered] }, Shape s${ counts(edges) }, const ${ TC }* staged)
{
    #pragma ${ "unroll" if view.rows_unroll else "unroll 1" }
    for (int m = 0; m < 8; ++m) {
        const int width = ${ widths[edges | join] };
//% if view.row_access > 1
        #pragma unroll
        for (int first = 0; first < CN; first += 32 * ${ view.row_access }) {
            const int n = first + static_cast<int>(threadIdx.x) % 32 * ${ view.row_access };
            if (n < width) store<${ view.row_access }>(c + Offset(${ row }) * s.ldc + n, load<${ view.row_access }>(staged + staged_at(m, n)));
        }
//% else
        #pragma unroll
        for (int first = 0; first < CN; first += 32) {
            const int n = first + static_cast<int>(threadIdx.x) % 32;
            if (n < width) c[Offset(${ row }) * s.ldc + n] = staged[staged_at(m, n)];
        }
//% endif
    }
}
//% endmacro
//% macro places(view)
const ThreadOrigin thread = thread_origin();
//% endmacro
/*# The piece of a consumer, eight rows of each warp at a time. #*/
//% macro store_piece(kernel, view, inputs)
//% import view.epilogue as epilogue
//% import view.matrices as matrices
//% import view.schedule as schedule
//% set column_amax = "column_amax" in kernel.outputs
//% set rows_left = left(kernel.c_edges, "row", "n", schedule.ends)
//% set named = ", index_c + row" if view.scattered else ""
${ piece_of_sums(view) | trim("\n") }
${ inputs }${ TC }* const c = shared.c[threadIdx.x / 32];
//% if column_amax
Magnitude column_amaxs[TN] = {};
//% endif
#pragma unroll
for (int j = 0; j < TM; ++j) {  // eight rows of each warp
    const int row = m + threadIdx.x / 32 % 4 * 16 + j * STEP_M;
    ${ TC }* const to = ${ first_of_c[view.batches] }${ "n" if view.scattered else "Offset(row) * s.ldc + n" };
    __syncwarp();  // all lanes have read the rows before
//% if kernel.problem.epilogue.reads_c
    if (beta != ${ types.scalar.arithmetic.zero }) {  // else C is not read: it may be uninitialised
        load_rows(to${ named }, s${ rows_left }, c);
        __syncwarp();
    }
//% endif
    store_row(c, s${ left(view.edges, "m", "n", schedule.ends) }, thread, j, sums[j]${ matrices.further(view, "[j]") }${ sums_of_row(kernel, "j") }, ${ epilogue.arguments }${ ", column_amaxs" if column_amax });
    __syncwarp();
    store_rows(to${ named }, s${ rows_left }, c);
}
//% if column_amax
raise_column_amaxs(e${ left(kernel.c_edges | reject("equalto", "M"), "m", "n") }, thread, column_amaxs);
//% endif
//% endmacro
//% macro leave(view)
//%- endmacro
