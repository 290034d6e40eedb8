/*# Pieces of C that warps store by rows, where TMA cannot: each stages eight of its rows at a time. #*/
//% from "epilogue/sums.cu" import sums as sums_taken
//% macro staged_row_at()
// Where an element of a piece lies among the eight rows that its warp has in shared memory. Rows begin an odd multiple of 8
// elements apart: so the eight that a warp writes at once lie in banks of their own.
__device__ __forceinline__ int staged_at(int m, int n)
{
    return m % 8 * PITCH_C + n;
}
//% endmacro
/*# Those rows between shared memory and C. #*/
//% macro row_extent(kernel)
${ ", int rows" if "M" in kernel.edges }${ ", int columns" if "N" in kernel.edges }
//%- endmacro
//% macro row_width(kernel)
//% set width = "max(0, min(CN, columns))" if "N" in kernel.edges else "CN"
${ "m < rows ? %s : 0" | format(width) if "M" in kernel.edges else width }
//%- endmacro
//% macro rows_words(kernel)
//% set extent = (["`rows` of them"] if "M" in kernel.edges else []) + (["`columns` of each"] if "N" in kernel.edges else [])
${ ": %s exist" | format(extent | join(" and ")) if extent }
//%- endmacro
//% macro load_rows(kernel, unrolls)
// Brings eight rows of the old C, which begin at `c`, to where a warp stages them${ rows_words(kernel) }${ ". The others become zeros" if "M" in kernel.edges or "N" in kernel.edges }.
__device__ __forceinline__ void load_rows(const ${ TC }* c, Shape s${ row_extent(kernel) }, ${ TC }* staged)
{
    #pragma unroll${ " 1" if not unrolls }
    for (int m = 0; m < 8; ++m) {
        const int width = ${ row_width(kernel) };
//% set zero_of_c = "static_cast<%s>(0)" | format(TC) if " " in TC else TC ~ "{}"
        for (int n = threadIdx.x % 32; n < CN; n += 32) staged[staged_at(m, n)] = ${ "n < width ? c[Offset(m) * s.ldc + n] : %s" | format(zero_of_c) if "M" in kernel.edges or "N" in kernel.edges else "c[Offset(m) * s.ldc + n]" };
    }
}
//% endmacro
//% macro store_rows(kernel, width, unrolls)
//% set edge, access = "M" in kernel.edges or "N" in kernel.edges, " * %d" | format(width) if width > 1
// Stores the eight rows that a warp has staged to C, where they begin at `c`${ rows_words(kernel) }. Neighbouring lanes write
// neighbouring elements${ ", %d each" | format(width) if width > 1 }, for whole sectors of C's lines wherever these begin.
__device__ __forceinline__ void store_rows(${ TC }* c, Shape s${ row_extent(kernel) }, const ${ TC }* staged)
{
    #pragma unroll${ " 1" if not unrolls }
    for (int m = 0; m < 8; ++m) {
        const int width = ${ row_width(kernel) };
        #pragma unroll
        for (int first = 0; first < CN; first += 32${ access }) {
            const int n = first + static_cast<int>(threadIdx.x) % 32${ access };
//% if width > 1
            if (n < width) store<${ width }>(c + Offset(m) * s.ldc + n, load<${ width }>(staged + staged_at(m, n)));
//% else
            if (n < width) c[Offset(m) * s.ldc + n] = staged[staged_at(m, n)];
//% endif
        }
    }
}
//% endmacro
/*# The piece of a consumer, eight rows of each warp at a time. #*/
//% macro store_by_rows(kernel, view)
//% set e, column_amax = kernel.problem.epilogue, "column_amax" in kernel.outputs
${ TC }* const c = shared.c[threadIdx.x / 32];
//% if column_amax
Magnitude column_amaxs[TN] = {};
//% endif
#pragma unroll
for (int j = 0; j < TM; ++j) {  // eight rows of each warp
    const int row = m + threadIdx.x / 32 % 4 * 16 + j * STEP_M;
    ${ TC }* const to = ${ "C_array[matrix]" if view.pointers else "C" } + ${ "matrix * s.stride_c + " if view.batched and not view.pointers }Offset(row) * s.ldc + n;
    __syncwarp();  // all lanes have read the rows before
//% if e.reads_c
    if (beta != ${ types.scalar.arithmetic.zero }) {  // else C is not read: it may be uninitialised
        load_rows(to, s${ rows_left(kernel) }${ columns_left(kernel) }, c);
        __syncwarp();
    }
//% endif
    store_row(c, s${ left_of_piece(kernel) if kernel.epilogue }, thread, j, sums[j]${ ", sums2[j]" if view.gated }${ sums_taken(kernel) | replace("row_sums", "row_sums[j]") }, ${ "e" if kernel.epilogue else "alpha, beta" }${ ", column_amaxs" if column_amax });
    __syncwarp();
    store_rows(to, s${ rows_left(kernel) }${ columns_left(kernel) }, c);
}
//% if column_amax
raise_column_amaxs(e${ columns_left(kernel) }, thread, column_amaxs);
//% endif
//% endmacro
/*# As arguments: how many rows there are from `row` on, columns from `n` on, and of the piece. #*/
//% macro rows_left(kernel)
${ ", s.M - row" if "M" in kernel.edges }
//%- endmacro
//% macro columns_left(kernel)
${ ", s.N - n" if "N" in kernel.edges }
//%- endmacro
//% macro left_of_piece(kernel)
${ ", s.M - m" if "M" in kernel.edges }${ columns_left(kernel) }
//%- endmacro
