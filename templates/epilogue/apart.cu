/*# An epilogue as a kernel of its own, behind a product that left A * B in C, or where `partials` says: what a fused one saves.
    One thread an element. #*/
//% from "constants.cu" import shape, tiling
//% from "signature.cu" import signature, matrices_of
//% from "device/raster.cu" import tile_rows, tile_columns
//% from "device/convert.cu" import element_types
//% from "epilogue/result.cu" import narrowed
//% from "epilogue/tree.cu" import epilogue, applied, declare_outputs, inputs, raise_amaxes, store_matrices, warp_amax
namespace {

${ element_types() }${ shape(kernel) }
${ tiling(kernel) }
${ epilogue(kernel) }
//% if kernel.warp_amaxes
${ warp_amax() }
//% endif
}  // namespace

${ signature(kernel) }{
    const Shape s{${ kernel.problem.runtime_names | join(", ") }};
    const int columns = ${ tile_columns };  // of tiles
//% if kernel.problem.batched
    const int rows = ${ tile_rows };
    const int matrix = blockIdx.x / (rows * columns);
${ matrices_of(kernel, "matrix") }    const int tile_m = blockIdx.x / columns % rows, tile_n = blockIdx.x % columns;
//% else
    const int tile_m = blockIdx.x / columns, tile_n = blockIdx.x % columns;
//% endif
    const int m = tile_m * BM + threadIdx.x / BN;
    const int n = tile_n * BN + threadIdx.x % BN;
//% set e = kernel.problem.epilogue
    const bool exists = m < s.M && n < s.N;

    ${ TC }* const to = C + Offset(m) * s.ldc + n;
    const Epilogue e = ${ inputs(kernel) };
//% if e.outputs
${ declare_outputs(e) | indent(4, true) | trim("\n") }
//% endif
    if (exists) {
//% if kernel.left is not none
//% set both = kernel.problem.products > 1
        const ${ kernel.left.ctype }* const left = partials + ${ "(static_cast<long long>(matrix) * s.M + m)" if kernel.problem.batched else "static_cast<long long>(m)" }${ " * 2" if both } * s.N + n;  // M rows, of N sums of each product
        const ${ types.accumulator.ctype } acc = left[0]${ ", acc2 = left[s.N]" if both };
//% endif
        *to = ${ narrowed(applied(kernel, "m", "n", "*to" if kernel.left is none else "acc", types.scalar.arithmetic.zero)) };
//% if e.written_matrices
${ store_matrices(e, "m", "n") | indent(8, true) | trim("\n") }
//% endif
    }
//% if e.amaxes
${ raise_amaxes(kernel) | indent(4, true) | trim("\n") }
//% endif
}
