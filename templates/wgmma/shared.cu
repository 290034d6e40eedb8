/*# Shared memory: the ring of k tiles, C on its way out, and their barriers. #*/
//% macro shared(kernel, view)
//% import view.matrices as matrices
//% import view.each as mmas
//% import view.store as store
// A thread's accumulators: its part of the 64 x ${ view.wgmma.n } sums of an instruction, over the 128 threads of a warpgroup.
${ mmas.accumulators(view) }
// The ring of k tiles, C on its way out, and barriers. Tiles begin with a pattern of their swizzle, which repeats after
// 8 lines: in lines of 128 bytes it XORs address bits 7-9, the line, into bits 4-6, its chunk of 16 bytes.
struct Shared {
    alignas(1024) ${ factor["A"] } a[STAGES][BM * BK];  // boxes of lines of LINE_A elements, one behind the other
//% if view.codes
    alignas(1024) unsigned b[STAGES][BK / CHUNK_K][BN / 64][CHUNK_LINES * LINE_B];  // chunks of codes, with what scales them
//% else
    alignas(1024) ${ factor["B"] } b[STAGES][${ matrices.times(view) }BN * BK];  // boxes of lines of LINE_B elements, likewise
//% endif
${ store.member(view) | trim("\n") }
    unsigned long long full[STAGES];   // a stage's tiles have landed: consumers wait
    unsigned long long empty[STAGES];  // those that read them have: the producer waits
//% if view.loads_c
    unsigned long long c_loaded[CONSUMERS];  // a piece of the old C has landed
//% endif
};
static_assert(sizeof(Shared) == ${ kernel.launch.shared_bytes }, "the launch asks for as much shared memory");
//% endmacro
/*# Where a thread of the ring is. #*/
//% macro ring(view)
//% import view.tiles as tiles
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
${ tiles.advance_by() }};
//% endmacro
