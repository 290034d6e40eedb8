/*# An epilogue as a kernel of its own, behind a product that left A * B in C, or where `partials` says: what a fused one saves.
    One thread an element. #*/
//% from "constants.cu" import shape, tiling
//% from "signature.cu" import signature
//% from "tile_row_by_row.cu" import row_by_row
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
${ row_by_row(kernel) }    const int m = tile_m * BM + threadIdx.x / BN;
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
//% set row = "(static_cast<long long>(matrix) * s.M + m)" if kernel.problem.batched else "static_cast<long long>(m)"
//% set of_all = " * %d" | format(kernel.problem.products) if kernel.problem.products > 1
        const ${ kernel.left.ctype }* const left = partials + ${ row }${ of_all } * s.N + n;  // M rows, of N sums of each product
        const ${ types.accumulator.ctype } acc = left[0]
//%- for acc in (e.accumulators | list)[1:]
, ${ acc } = left[${ "%d * " | format(loop.index) if loop.index > 1 }s.N]
//%- endfor
;
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
