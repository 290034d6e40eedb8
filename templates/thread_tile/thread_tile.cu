/*# A thread computes TM x TN elements of C in registers, by outer products of operands read from global memory. #*/
//% from "header.cu" import header
//% from "constants.cu" import shape, tiling
//% from "signature.cu" import signature
//% from "device/convert.cu" import element_types
//% from "epilogue/result.cu" import result, narrowed
//% from "tile_row_by_row.cu" import row_by_row
//% from "epilogue/tree.cu" import epilogue, applied_at, declare_outputs, inputs, store_outputs
//% set layout = kernel.problem.layout
${ header(kernel) }
namespace {

${ element_types(reads_c=kernel.problem.epilogue.reads_c) }${ shape(kernel) }
${ tiling(kernel) }
//% if kernel.epilogue
${ epilogue(kernel) }
//% endif
}  // namespace

${ signature(kernel) }{
    const Shape s{${ kernel.problem.runtime_names | join(", ") }};
//% if kernel.drops_alpha
    if (s.K == 0) alpha = ${ types.scalar.arithmetic.zero };  // nothing to scale, be alpha infinite or NaN
//% endif
${ row_by_row(kernel) }    const int first_m = tile_m * BM + threadIdx.x / STEP_N;
    const int first_n = tile_n * BN + threadIdx.x % STEP_N;  // neighbouring threads read neighbouring columns of B

    ${ T } acc[TM][TN] = {};
    #pragma unroll UNROLL
    for (int k = 0; k < s.K; ++k) {
        ${ T } a[TM], b[TN];
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            const int m = min(first_m + i * STEP_M, s.M - 1);  // beyond the edge the last row again, which is not stored
            a[i] = A[${ "Offset(m) * s.lda + k" if layout.a == "r" else "Offset(k) * s.lda + m" }];
        }
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int n = min(first_n + j * STEP_N, s.N - 1);
            b[j] = B[${ "Offset(k) * s.ldb + n" if layout.b == "r" else "Offset(n) * s.ldb + k" }];
        }
        #pragma unroll
        for (int i = 0; i < TM; ++i)
            #pragma unroll
            for (int j = 0; j < TN; ++j) acc[i][j] = ${ fma }(a[i], b[j], acc[i][j]);
    }
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = first_m + i * STEP_M;
        if (m >= s.M) return;
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int n = first_n + j * STEP_N;
            if (n >= s.N) break;
            ${ TC }* const to = C + Offset(m) * s.ldc + n;
//% if kernel.epilogue
            const Epilogue e = ${ inputs(kernel) };
//% if kernel.outputs
${ declare_outputs(kernel.problem.epilogue) | indent(12, true) | trim("\n") }
//% endif
            *to = ${ narrowed(applied_at(kernel, "m", "n", "acc[i][j]", "*to")) };
//% if kernel.outputs
${ store_outputs(kernel.problem.epilogue, "m", "n") | indent(12, true) | trim("\n") }
//% endif
//% else
            *to = ${ result("acc[i][j]", "*to") };  // beta = 0 leaves C unread
//% endif
        }
    }
}
