/*# Many small products: a block copies MB matrices A and B whole, multiplies, and walks on to the next. #*/
//% from "header.cu" import header
//% from "constants.cu" import shape, tiling
//% from "signature.cu" import signature
//% from "device/vec.cu" import vec
//% from "device/cp_async.cu" import cp_async
//% from "device/dynamic_shared.cu" import dynamic_shared
//% from "epilogue/linear.cu" import store_c as store_linear
//% from "epilogue/tree.cu" import inputs, store_c as store_tree
//% set store_c = store_tree if kernel.epilogue else store_linear
//% from "copy/whole.cu" import copy
//% from "fragment/whole.cu" import fragment
//% set A, B = ("A_array", "B_array") if kernel.problem.pointers else ("A", "B")
${ header(kernel) }
namespace {

${ shape(kernel) }
${ tiling(kernel, "MN") }
//% set edge = "batch" in kernel.edges
//% if not edge
static_assert(Shape::batch % (MB * WALK) == 0, "groups end where the batch does: no product is checked for that");

/*% endif %*/
${ vec() }
using MatrixA = ${ T }[SHARED_A / PITCH_A][PITCH_A];  // A in shared memory, line by line: [${ "m][k" if view.a.along_k else "k][m" }]
using MatrixB = ${ T }[SHARED_B / PITCH_B][PITCH_B];  // B in shared memory, line by line: [${ "n][k" if view.b.along_k else "k][n" }]

// Where a thread's elements start within its product. They come in FM x FN patches, STEP_M and STEP_N apart,
// so that neighbouring threads read neighbouring addresses of shared memory.
struct Place {
    int m, n;
};

__device__ __forceinline__ Place place_of_lane(int lane)
{
    // PAIR neighbours share rows, and those PAIR apart share columns: a vector read that meets an address
    // twice in neighbouring lanes takes half the shared-memory cycles.
    const int lane_m = lane / PAIR % LANES_M;
    const int lane_n = lane / (PAIR * LANES_M) * PAIR + lane % PAIR;
    return {lane_m * FM, lane_n * FN};
}

//% if kernel.launch.shared_bytes
${ dynamic_shared() }
//% endif
//% if view.asynchronous
${ cp_async() }
//% endif
${ copy(view.a, view.asynchronous, kernel.problem.pointers, edge) }
${ copy(view.b, view.asynchronous, kernel.problem.pointers, edge) }
${ fragment(view.a) }
${ fragment(view.b) }
// acc += A * B: for each k an outer product of this thread's TM values of A and TN of B.
__device__ __forceinline__ void multiply(const MatrixA& As, const MatrixB& Bs, Place place, ${ T } (&acc)[TM][TN])
{
    #pragma unroll UNROLL
    for (int k = 0; k < Shape::K; k += DEPTH) {
        ${ T } a[DEPTH][TM], b[DEPTH][TN];
        read_a(As, k, place.m, a);
        read_b(Bs, k, place.n, b);
        #pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] = ${ fma }(a[d][i], b[d][j], acc[i][j]);
            }
        }
    }
}

${ store_c(kernel) }
}  // namespace

${ signature(kernel) }{
//% if kernel.launch.shared_bytes
    MatrixA* const As = reinterpret_cast<MatrixA*>(dynamic_shared());  // STAGES groups of MB
    MatrixB* const Bs = reinterpret_cast<MatrixB*>(dynamic_shared() + BYTES_A);
//% else
    __shared__ __align__(16) MatrixA As[STAGES * MB];  // STAGES groups of MB
    __shared__ __align__(16) MatrixB Bs[STAGES * MB];
//% endif
    const Shape s{${ kernel.problem.runtime_names | join(", ") }};
    const int first = blockIdx.x * (MB * WALK);  // product of the block
    const int mine = threadIdx.x / LANES;        // of a group, this thread's
    const Place place = place_of_lane(threadIdx.x % LANES);

    #pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
        copy_a(${ A }, s, first + stage * MB, &As[stage * MB]);
        copy_b(${ B }, s, first + stage * MB, &Bs[stage * MB]);
//% if view.asynchronous
        cp_async_commit();
//% endif
    }

    int stage = 0;
    for (int step = 0; step < WALK; ++step) {
//% if view.asynchronous
        cp_async_wait<STAGES - 1>();  // this thread's share of the group has landed
        __syncthreads();              // so has everybody's
//% else
        __syncthreads();  // the group is complete
//% endif
        const int product = first + step * MB + mine;
        ${ "if (product < s.batch) " if edge }{
//% if kernel.problem.pointers
            ${ T }* const C = C_array[product];  // on its way while the products are summed
//% endif
            ${ T } acc[TM][TN] = {};
            multiply(As[stage * MB + mine], Bs[stage * MB + mine], place, acc);
//% if kernel.epilogue
            const Epilogue e = ${ inputs(kernel, product="product") };
//% endif
            store_c(${ "C" if kernel.problem.pointers else "C + product * s.stride_c" }, s, place, acc, ${ "e" if kernel.epilogue else "alpha, beta" });
        }
        const int next = step + STAGES;
        if (next < WALK) {
            __syncthreads();  // nobody reads the stage any more
            copy_a(${ A }, s, first + next * MB, &As[stage * MB]);
            copy_b(${ B }, s, first + next * MB, &Bs[stage * MB]);
        }
//% if view.asynchronous
        cp_async_commit();  // an empty group too: the wait counts groups
//% endif
        stage = stage + 1 < STAGES ? stage + 1 : 0;
    }
}
