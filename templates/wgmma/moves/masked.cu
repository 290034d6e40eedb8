/*# Pieces of C whose rows are all of one group move by TMA. Of others, threads move the group's rows: the rows behind these are in
    another tile, which another block may store meanwhile. #*/
//% import "wgmma/moves/whole.cu" as whole
//% from "wgmma/store/chunks.cu" import load_chunks, store_chunks
//% from "wgmma/store/first.cu" import first_of_c
//% macro functions(view)
// Store the first `rows` rows of a staged piece, which has more, and of these the first `columns` elements. `to` is where the piece
// begins in C.
__device__ __forceinline__ void store_rows(${ TC }* to, Shape s, int rows, int columns, const ${ TC }* piece)
{
${ store_chunks(view, "m", rows_end=true) }}

//% if view.reads_c
// Load the old elements of the same rows of C to the staged piece; its other elements become zero.
__device__ __forceinline__ void load_rows(const ${ TC }* from, Shape s, int rows, int columns, ${ TC }* piece)
{
${ load_chunks(view, "m") }}

//% endif
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
if (leads) tma_store_commit();  // also of a piece that threads store: tma_store_wait_read counts pieces
//% endmacro
