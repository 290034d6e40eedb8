/*# One thread an element of C, every operand read from global memory. #*/
//% from "header.cu" import header
//% from "constants.cu" import shape, tiling
//% from "signature.cu" import signature
//% from "device/convert.cu" import add_to, element_types
//% from "epilogue/result.cu" import result, narrowed
//% from "tile_row_by_row.cu" import row_by_row
//% from "naive/operands.cu" import codes, find_group, find_row, read_a, read_b, sum_blocks
//% from "epilogue/tree.cu" import epilogue, applied_at, declare_outputs, inputs, store_outputs
${ header(kernel) }
namespace {

${ element_types(reads_c=kernel.problem.epilogue.reads_c, rounds="" if kernel.problem.inputs.group is none else types.a.label) }${ shape(kernel) }
${ codes(kernel) }${ tiling(kernel) }
//% if kernel.epilogue
${ epilogue(kernel) }
//% endif
}  // namespace

${ signature(kernel) }{
    const Shape s{${ kernel.problem.runtime_names | join(", ") }};
//% if kernel.drops_alpha
    if (s.K == 0) alpha = ${ types.scalar.arithmetic.zero };  // nothing to scale, be alpha infinite or NaN
//% endif
${ row_by_row(kernel) }    const int m = tile_m * BM + threadIdx.x / BN;
    const int n = tile_n * BN + threadIdx.x % BN;  // neighbouring threads read neighbouring columns of B
    if (m >= s.M || n >= s.N) return;
${ find_group(kernel) }${ find_row(kernel) }
//% set gated = kernel.problem.products > 1
//% set sums = (["acc2"] if gated else []) + kernel.problem.epilogue.sums | list
    ${ T } acc = ${ zero }${ ", %s = %s" | format(sums | join(" = %s, " | format(zero)), zero) if sums };
//% if kernel.problem.inputs.blocks
${ sum_blocks(kernel) }
//%- else
    for (int k = 0; k < s.K; ++k) {
${ read_a(kernel) }${ read_b(kernel) }        acc = ${ fma }(a, b, acc);
//% if gated
        const ${ T } b2 = B[${ "Offset(k) * s.ldb + s.N + n" if kernel.problem.layout.b == "r" else "Offset(s.N + n) * s.ldb + k" }];  // of the second matrix, beside the first
        acc2 = ${ fma }(a, b2, acc2);
//% endif
//% for name in kernel.problem.epilogue.sums
        ${ add_to(name, "a" if name == "row_sum" else "b") }
//% endfor
    }
//% endif
    ${ TC }* const to = C + Offset(m) * s.ldc + n;
//% if kernel.epilogue
    const Epilogue e = ${ inputs(kernel) };
//% if kernel.outputs
${ declare_outputs(kernel.problem.epilogue) | indent(4, true) | trim("\n") }
//% endif
    *to = ${ narrowed(applied_at(kernel, "m", "n", "acc", "*to")) };
//% if kernel.outputs
${ store_outputs(kernel.problem.epilogue, "m", "n") | indent(4, true) | trim("\n") }
//% endif
//% else
    *to = ${ result("acc", "*to") };  // beta = 0 leaves C unread
//% endif
}
