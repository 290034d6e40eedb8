/*# Pieces of C whose rows an index names one by one, so that threads move them. #*/
//% from "wgmma/moves/masked.cu" import each_chunk
//% macro functions(view)
// The first `rows` rows of a staged piece to those rows of C that `index` names, up to `columns`: 16 bytes at a time. `to` is the
// piece's first column in C's first row.
__device__ __forceinline__ void scatter_rows(${ TC }* to, const int* index, Shape s, int rows, int columns, const ${ TC }* piece)
{
${ each_chunk(view) }        if (${ "m < %s && " | format(view.box_lines) if view.part_step }m < rows && n < columns) *reinterpret_cast<uint4*>(to + Offset(index[m]) * s.ldc + n) = *reinterpret_cast<const uint4*>(piece + staged_at(m, n));
    }
}

//% if view.reads_c
// The other way; the piece's further rows and columns become zero.
__device__ __forceinline__ void gather_rows_of_c(const ${ TC }* from, const int* index, Shape s, int rows, int columns, ${ TC }* piece)
{
${ each_chunk(view) }        const bool exists = m < rows && n < columns;
        ${ "if (m < %s) " | format(view.box_lines) if view.part_step }*reinterpret_cast<uint4*>(piece + staged_at(m, n)) = exists ? *reinterpret_cast<const uint4*>(from + Offset(index[m]) * s.ldc + n) : uint4{};
    }
}

//% endif
//% endmacro
//% macro load(view)
//% import view.schedule as schedule
gather_rows_of_c(C + n, index_c + m, s, ${ schedule.ends["M"] } - m, s.N - n, c);
named_barrier_sync(1 + consumer, 128);
//% endmacro
//% macro store(view)
//% import view.schedule as schedule
scatter_rows(C + n, index_c + m, s, ${ schedule.ends["M"] } - m, s.N - n, c);
//% endmacro
