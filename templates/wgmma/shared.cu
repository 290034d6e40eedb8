/*# Shared memory: the ring of k tiles, C on its way out, and their barriers. #*/
//% from "wgmma/each.cu" import sums_of_mma
/*# How an operand's k tile lies there. #*/
//% macro boxes_of(x)
//% set boxes, behind = ("boxes", ", one behind the other") if x.boxes > 1 else ("a box", "")
//% set last = ": the last tile fills fewer lines" if x.ragged else ""
${ boxes } of ${ "B" ~ x.MN if x.along_k else "BK" } lines of LINE_${ x.X } elements${ behind }${ last }
//%- endmacro
//% macro shared(kernel, view)
// A thread's accumulators: 64 x ${ "2 * " if view.gated }${ "BM" if view.swapped else "BN" }${ " of each instruction" if view.mmas } over the 128 threads of a warpgroup${ ", two halves a register" if view.halves }${ "; the first half of them are\n// A * B1's, the second A * B2's" if view.gated }.
using Accumulators = ${ view.wgmma.c_type }${ "[%s]" | format(view.mmas) if view.mmas }[${ sums_of_mma(view) }];
//% if not view.mmas
static_assert(${ "BN" if view.swapped else "BM" } == 64${ " * CONSUMERS" if not view.pingpong }, "a consumer multiplies 64 ${ "columns" if view.swapped else "rows" }");
/*% endif %*/

// The ring of k tiles, ${ "pieces" if view.staged else "rows" } of C on their way out, and barriers. Tiles begin with a pattern of their swizzle, which repeats after
// 8 lines: in lines of 128 bytes it XORs address bits 7-9, the line, into bits 4-6, its chunk of 16 bytes.
struct Shared {
    alignas(1024) ${ factor["A"] } a[STAGES][BM * BK];  // ${ boxes_of(view.a) }
    alignas(1024) ${ factor["B"] } b[STAGES][${ "2 * " if view.gated }BN * BK];  // ${ "of each of two matrices " if view.gated }${ boxes_of(view.b) }
//% if view.staged
    alignas(1024) ${ TC } c[CONSUMERS][C_STAGES][64 * ${ view.piece }];  // pieces of C
//% else
    alignas(16) ${ TC } c[CONSUMERS * 4][8 * PITCH_C];  // eight rows of each warp
//% endif
    unsigned long long full[STAGES];${ " " * 6 if view.loads_c }   // a stage's tiles have landed: consumers wait
//% if view.pingpong
    unsigned long long empty[STAGES];${ " " * 6 if view.loads_c }  // ${ "the consumers that read them, one in each block, have" if view.cluster > 1 else "the consumer that reads them has" } done so: the producer waits
//% else
    unsigned long long empty[STAGES];${ " " * 6 if view.loads_c }  // all consumers${ " of the cluster" if view.cluster > 1 } have read them: the producer waits
//% endif
//% if view.loads_c
    unsigned long long c_loaded[CONSUMERS];  // a piece of the old C has landed
//% endif
};
static_assert(sizeof(Shared) == ${ kernel.launch.shared_bytes }, "the launch asks for as much shared memory");
//% endmacro
/*# Where a thread of the ring is. #*/
//% macro ring(view)
// A place in the ring: a stage, and the parity of the round. In round r, from 0 on, consumers wait for phase r of
// full[stage], the producer for phase r - 1 of empty[stage].
struct Ring {
    int stage = 0;
    unsigned parity = 0;

    __device__ __forceinline__ void advance()
    {
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        parity ^= stage == 0;
    }
//% if view.pingpong

    // Past so many k tiles at once: those of the other consumers.
    __device__ __forceinline__ void advance(int stages)
    {
        parity ^= (stage + stages) / STAGES % 2;
        stage = (stage + stages) % STAGES;
    }
//% endif
};
//% endmacro
//% macro thread_origin(view)
// Row and column of this thread's first sum, of the ${ "BM x 64" if view.swapped else "64 x 2 * BN" if view.gated else "64 x BN" } that its warpgroup multiplies at once.
struct ThreadOrigin {
    int m, n;
};

__device__ __forceinline__ ThreadOrigin thread_origin()
{
//% if view.feeds
//% set row, column = "fragment_row()", "static_cast<int>(threadIdx.x) % 4 * 2"
    return {${ column if view.swapped else row }, ${ row if view.swapped else column }};
//% else
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
//% set row, column = "warp * 16 + lane / 4", "lane % 4 * 2"
    return {${ column if view.swapped else row }, ${ row if view.swapped else column }};
//% endif
}
//% endmacro
