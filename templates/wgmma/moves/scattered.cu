/*# Pieces of C whose rows an index names one by one, so that threads move them. #*/
//% from "wgmma/store/chunks.cu" import load_chunks, store_chunks
//% macro functions(view)
// Store the first `rows` rows of a staged piece, and of these the first `columns` elements: row m to row index[m] of C. `to` is the
// piece's first column in row 0 of C.
__device__ __forceinline__ void scatter_rows(${ TC }* to, const int* index, Shape s, int rows, int columns, const ${ TC }* piece)
{
${ store_chunks(view, "index[m]", rows_end=false) }}

//% if view.reads_c
// Load the old elements of the same rows of C to the staged piece; its other elements become zero.
__device__ __forceinline__ void gather_rows_of_c(const ${ TC }* from, const int* index, Shape s, int rows, int columns, ${ TC }* piece)
{
${ load_chunks(view, "index[m]") }}

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
