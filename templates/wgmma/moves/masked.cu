/*# Pieces of C whose rows are all of one group move by TMA. Of others threads move the group's rows: the next ones are another
    tile's, which another block may store meanwhile. #*/
//% import "wgmma/moves/whole.cu" as whole
//% from "wgmma/store/first.cu" import first_of_c
//% macro functions(view)
// The first `rows` rows of a staged piece, which has more, to C, where it begins at `to`, up to `columns`: 16 bytes at a time.
__device__ __forceinline__ void store_rows(${ TC }* to, Shape s, int rows, int columns, const ${ TC }* piece)
{
${ each_chunk(view) }        if (m < rows && n < columns) *reinterpret_cast<uint4*>(to + Offset(m) * s.ldc + n) = *reinterpret_cast<const uint4*>(piece + staged_at(m, n));
    }
}

//% if view.reads_c
// The other way; the piece's further rows and columns become zero.
__device__ __forceinline__ void load_rows(const ${ TC }* from, Shape s, int rows, int columns, ${ TC }* piece)
{
${ each_chunk(view) }        const bool exists = m < rows && n < columns;
        ${ "if (m < %s) " | format(view.box_lines) if view.part_step }*reinterpret_cast<uint4*>(piece + staged_at(m, n)) = exists ? *reinterpret_cast<const uint4*>(from + Offset(m) * s.ldc + n) : uint4{};
    }
}

//% endif
//% endmacro
//% macro each_chunk(view)
    constexpr int CHUNK = 16 / sizeof(${ TC }), CHUNKS = ${ view.boxes_columns } / CHUNK;  // elements of one; chunks of a row
    #pragma unroll
    for (int first = 0; first < ${ view.box_lines } * CHUNKS; first += 128) {
        const int i = first + static_cast<int>(threadIdx.x) % 128;
        const int m = i / CHUNKS, n = i % CHUNKS * CHUNK;
//% endmacro
//% macro load(view)
if (m + ${ view.box_lines } <= tile.end) {
${ whole.load(view) | indent(4, true) | trim("\n") }
} else {
    load_rows(${ first_of_c[view.batches] }Offset(m) * s.ldc + n, s, tile.end - m, s.N - n, c);
    named_barrier_sync(1 + consumer, 128);
}
//% endmacro
//% macro store(view)
//% import view.boxes as boxes
if (m + ${ view.box_lines } > tile.end) store_rows(${ first_of_c[view.batches] }Offset(m) * s.ldc + n, s, tile.end - m, s.N - n, c);
else if (leads) ${ boxes.store(view) | trim("\n") }
if (leads) tma_store_commit();  // for each piece, whoever stores it: waits count pieces
//% endmacro
