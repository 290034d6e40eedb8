/*# An index names the rows of A: threads of the producer copy them, as TMA takes only rows that follow each other. #*/
//% from "device/cp_async.cu" import cp_async
/*# Arrivals at a full stage: that of the thread that starts TMA's loads, and those of all threads that copy. #*/
//% macro arrivals(view)
${ "1 + 128" if view.gathered else "1" }
//%- endmacro
//% macro functions(view)
${ cp_async() }
//% set exists = (["rows[i] >= 0"] if view.rows_end else []) + (["bytes > 0"] if view.cut_rows_of_a else [])
//% if view.rows_end
// The rows of A that this thread copies, for rows of C from `first` on; -1 from row `end` on.
//% else
// The rows of A that this thread copies, for rows of C from `first` on.
//% endif
__device__ __forceinline__ void find_rows(const int* index_a, int first, ${ "int end, " if view.rows_end }int (&rows)[ROWS_A])
{
    #pragma unroll
    for (int i = 0; i < ROWS_A; ++i) {
        const int m = first + static_cast<int>(threadIdx.x) % 128 / CHUNKS_A + i * (128 / CHUNKS_A);
//% if view.rows_end
        rows[i] = m < end ? index_a[m] : -1;
//% else
        rows[i] = index_a[m];
//% endif
    }
}

// Start copying this thread's part of A's k tile, which begins at k: for each box a chunk of 16 bytes of each of its rows. Chunks
// lie where TMA would put them: their numbers within a line are XORed with the line's number.
//% if exists
// Rows and k that do not exist become zeros.
//% endif
__device__ __forceinline__ void copy_rows(${ factor["A"] }* to, const ${ factor["A"] }* A, Shape s, const int (&rows)[ROWS_A], int k)
{
    constexpr int CHUNK = 16 / sizeof(${ factor["A"] });  // elements
    const int line = threadIdx.x % 128 / CHUNKS_A, chunk = threadIdx.x % CHUNKS_A;
    to += line * LINE_A + (chunk ^ (line / (8 / CHUNKS_A) % CHUNKS_A)) * CHUNK;
    k += chunk * CHUNK;
    #pragma unroll
    for (int at = 0; at < BK; at += LINE_A) {
//% if view.cut_rows_of_a
        const int bytes = max(0, min(16, (s.K - k - at) * static_cast<int>(sizeof(${ factor["A"] }))));  // of this chunk within K
//% endif
        #pragma unroll
        for (int i = 0; i < ROWS_A; ++i) {
//% if view.rows_beside_tile
            if (line + i * (128 / CHUNKS_A) >= BM) break;  // the tile has no such row
//% endif
//% if exists
            const bool exists = ${ exists | join(" && ") };
            const ${ factor["A"] }* const from = exists ? A + Offset(rows[i]) * s.lda + k + at : A;
            cp_async<16>(to + at * BM + i * (128 / CHUNKS_A) * LINE_A, from, exists ? ${ "bytes" if view.cut_rows_of_a else "16" } : 0);
//% else
            cp_async<16>(to + at * BM + i * (128 / CHUNKS_A) * LINE_A, A + Offset(rows[i]) * s.lda + k + at, 16);
//% endif
        }
    }
}

// Hand a stage to the consumers, after this thread's copies to it have landed. The fence makes them visible to wgmma, which reads
// by the async proxy.
__device__ __forceinline__ void hand_over(Shared& shared, int stage)
{
    fence_proxy_async();
    mbarrier_arrive(&shared.full[stage]);
}

//% endmacro
/*# What a thread knows of its copies: k tiles behind the first of which it has not handed over. #*/
//% macro start()
Ring landing;     // the oldest stage that this thread has not handed over
int pending = 0;  // stages not handed over: their copies land while those of the next ones start
//% endmacro
/*# Its rows of a tile, #*/
//% macro rows(view)
//% import view.schedule as schedule
int rows[ROWS_A];
find_rows(index_a, tile.m, ${ schedule.ends["M"] ~ ", " if view.rows_end }rows);
//% endmacro
/*# its copies to a stage, #*/
//% macro fill()
copy_rows(shared.a[ring.stage], A, s, rows, k);
cp_async_commit();
if (pending == COPIES_AHEAD) {
    cp_async_wait<COPIES_AHEAD>();
    hand_over(shared, landing.stage);
    landing.advance();
} else {
    ++pending;
}
//% endmacro
/*# and those that are under way behind its last tile. #*/
//% macro finish()
cp_async_wait<0>();
for (; pending > 0; --pending, landing.advance()) hand_over(shared, landing.stage);
//% endmacro
