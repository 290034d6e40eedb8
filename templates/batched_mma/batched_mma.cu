/*# Many small products on tensor cores: a warp loads A and B of one straight to the registers of fragments. #*/
//% from "header.cu" import header
//% from "constants.cu" import shape, tiling
//% from "signature.cu" import signature, matrices_of
//% from "device/convert.cu" import element_types
//% from "device/vec.cu" import vec
//% from "device/dependent_launch.cu" import dependent_launch, overlap
//% from "device/mma.cu" import mma
//% from "epilogue/linear.cu" import store_c as store_linear
//% from "epilogue/tree.cu" import inputs, store_c as store_tree
//% set store_c = store_tree if kernel.epilogue else store_linear
/*# global -> registers: of each of a lane's lines the k that it has, in pairs. #*/
//% macro load(x)
//% set line, count = ("row", "TM") if x.x == "a" else ("column", "MMAS_N")
// This lane's ${ line }s of ${ x.X } from `${ line }` on: of each its pairs of neighbours along k, from `k` on.
__device__ __forceinline__ void load_${ x.x }(const ${ element[x.X] }* ${ x.X }, Shape s, int ${ line }, int k, unsigned (&${ x.x })[${ count }][WORDS])
{
    #pragma unroll
//% if x.along_k
    for (int i = 0; i < ${ count }; ++i) {
        #pragma unroll
        for (int word = 0; word < WORDS; word += V${ x.X } / 2) {
            const Words<V${ x.X } / 2> read = load_words<V${ x.X } / 2>(${ x.X } + Offset(${ line } + i) * s.${ x.ld } + k + 2 * word);
            #pragma unroll
            for (int v = 0; v < V${ x.X } / 2; ++v) ${ x.x }[i][word + v] = read.at[v];
        }
    }
//% else
    for (int word = 0; word < WORDS; ++word) {
        const ${ element[x.X] }* const even = ${ x.X } + Offset(k + 2 * word) * s.${ x.ld } + ${ line };
        #pragma unroll
        for (int i = 0; i < ${ count }; i += V${ x.X }) {
            const Words<V${ x.X } / 2> first = load_words<V${ x.X } / 2>(even + i), second = load_words<V${ x.X } / 2>(even + s.${ x.ld } + i);
            #pragma unroll
            for (int v = 0; v < V${ x.X } / 2; ++v) {  // two ${ line }s at two k become two k of each
                ${ x.x }[i + 2 * v][word] = __byte_perm(first.at[v], second.at[v], 0x5410);
                ${ x.x }[i + 2 * v + 1][word] = __byte_perm(first.at[v], second.at[v], 0x7632);
            }
        }
    }
//% endif
}
//% endmacro
${ header(kernel) }
namespace {

${ element_types(converts=false, reads_c=kernel.problem.epilogue.reads_c, adds=kernel.adds_integers) }${ shape(kernel, unread=()) }
${ tiling(kernel, "K") }
${ vec() }
// N pairs of elements that move as one access.
template <int N>
struct alignas(4 * N) Words {
    unsigned at[N];
};

template <int N>
__device__ __forceinline__ Words<N> load_words(const void* from)
{
    return *static_cast<const Words<N>*>(from);
}

${ mma((view.mma,)) }
// A lane's first row and column of C, TM and TN of which it has. Which of them, and which k, an instruction calls its own is free
// while A, B and C agree: row g + 8 h of instruction i is row g * TM + 2 * i + h here, column c of instruction j is column
// c * MMAS_N + j, and k goes to lanes t = 0 to 3 in runs of BK / 4.
struct ThreadOrigin {
    int m, n;
};

${ load(view.a) }
${ load(view.b) }
// acc += the products of a k tile.
__device__ __forceinline__ void mma(const unsigned (&a)[TM][WORDS], const unsigned (&b)[MMAS_N][WORDS], ${ T } (&acc)[MMAS_M][MMAS_N][4])
{
    #pragma unroll
    for (int step = 0; step < K_STEPS; ++step) {
        #pragma unroll
        for (int i = 0; i < MMAS_M; ++i) {
            const unsigned rows[4] = {a[2 * i][2 * step], a[2 * i + 1][2 * step], a[2 * i][2 * step + 1], a[2 * i + 1][2 * step + 1]};
            #pragma unroll
            for (int j = 0; j < MMAS_N; ++j) {
                const unsigned column[2] = {b[j][2 * step], b[j][2 * step + 1]};
                ${ view.mma.function }(acc[i][j], rows, column);
            }
        }
    }
}

${ store_c(kernel) }
//% if kernel.dependent
${ dependent_launch() }
//% endif
}  // namespace

${ signature(kernel) }{
//% if kernel.dependent
${ overlap() | trim("\n") }
//% endif
    const Shape s{${ kernel.problem.runtime_names | join(", ") }};
    const int product = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
//% if "batch" in kernel.edges
    if (product >= s.batch) return;
//% endif
${ matrices_of(kernel, "product") }    const ThreadOrigin thread = {lane / 4 * TM, lane % 4 * TN};
    ${ T } acc[MMAS_M][MMAS_N][4] = {};
    #pragma unroll
    for (int k = 0; k < Shape::K; k += BK) {
        unsigned a[TM][WORDS], b[MMAS_N][WORDS];
        load_a(A, s, thread.m, k + lane % 4 * (BK / 4), a);
        load_b(B, s, lane / 4 * MMAS_N, k + lane % 4 * (BK / 4), b);
        mma(a, b, acc);
    }
    ${ T } sums[TM][TN];
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int j = 0; j < TN; ++j) sums[i][j] = acc[i / 2][j % MMAS_N][i % 2 * 2 + j / MMAS_N];
    }
//% if kernel.epilogue
    const Epilogue e = ${ inputs(kernel) };
//% endif
    store_c(C, s, thread, sums, ${ "e" if kernel.epilogue else "alpha, beta" });
}
