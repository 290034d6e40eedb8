/* ${ lib.name }: matrix products, each by the kernel that suits its sizes.
 *
//% for p in lib.products
 * ${ lib.name }_${ p.name }
 *     C = ${ p.out.formula }      sums in ${ p.out.types.accumulator.label }${ ", for each of a batch of products" if p.out.takes_batch else ", for each of %s products" | format(p.out.batch) if p.out.problem.batched }
//% if p.out.groups
 *     ${ p.out.groups }
//% endif
//% if p.out.images
 *     ${ p.out.images | wordwrap(112, wrapstring="\n *     ") }
//% endif
//% if p.out.problem.inputs.wgrad
 *     ${ p.out.whole_images }
//% endif
//% for m in p.out.matrices
 *     ${ "%-8s" | format(m.name) } ${ p.out.element[m.name] }, ${ m.rows } x ${ m.cols }, ${ m.order }-major, ${ m.ld } elements from one ${ "pixel" if m.name == p.out.problem.inputs.images else m.order } to the next${ ", " ~ m.batch_stride ~ " to the next matrix" if m.batch_stride }
//% if m.name in p.out.written
 *              is written: ${ p.out.written[m.name] }
//% elif m.name == "B" and p.out.takes_packed
 *              codes of ${ p.out.problem.code_bits } bits, ${ p.out.code_range }${ ": a byte holds two, the first in its lower half" if p.out.halves }.
 *              Calls take what ${ p.out.name }_pack_b made of it
//% endif
//% endfor
//% for x in p.out.beside
 *     ${ "%-8s" | format(x.name) } ${ p.out.element[x.name] }, ${ x.lies(p.out.problem.sizes) }${ ", without padding" if x.unit == 1 and x.name not in p.out.unchecked }: ${ x.meaning }
//% endfor
//% for v in p.out.epilogue.operands if not v.is_matrix
 *     ${ "%-8s" | format(v.name) } ${ p.out.element[v.name] }, ${ p.out.problem.extent_of(v) }, ${ v.note if v.is_amax else p.out.problem.whose(v) ~ ": " ~ v.meaning }
//% endfor
 *     Kernels were chosen for ${ p.sizes_doc }; ${ p.serves_doc } are served, too.
 *
//% endfor
 * C is row-major. A column-major C is a row-major one transposed, C^T = B^T A^T: pass B for A and A for B, and swap M with N, lda
 * with ldb and what is along m with what is along n. So a product whose A and B are row-major serves column-major ones (BLAS's
 * N, N), and one of a row-major A and a column-major B serves just these (BLAS's T, N).
 *
 * beta = 0 never reads C. K = 0 makes A * B zero and reads neither A nor B.
//% if "alpha" in lib.scalars
 * alpha = 0 is no special case, unlike in BLAS: A and B are read, and NaN or infinity in them makes C NaN.
//% endif
 *
 * All functions may be called by any number of threads at once. None allocates memory or waits for the device, so that calls can
 * be captured in a graph; work is put on `stream` of the current device.
//% if lib.calls_cublaslt
 *
 * Where cuBLASLt was measured to be faster than all kernels it is called, and the tables in ${ lib.name }.cu say where. The first such
 * call on a device makes its handle, which allocates.
//% endif
 */
#ifndef ${ lib.name | upper }_H
#define ${ lib.name | upper }_H

#include <cuda_runtime_api.h>
#include <stddef.h>
//% if lib.has_integers
#include <stdint.h>
//% endif
/*% if lib.cuda_elements %*/

//% set elements, headers = lib.cuda_elements, lib.headers
//% include "export/types.h"
/*% endif %*/

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ${ lib.name }_product {
//% for p in lib.products
    ${ lib.name | upper }_${ p.name | upper }${ "," if not loop.last }
//% endfor
} ${ lib.name }_product;

/* A call. Set all to zero first (`= {0}` in C, `= {}` in C++): a leading dimension of 0 is that of matrices whose lines have
 * no gap.
 *
 * A, B, C     device memory, at addresses that their elements' size divides, and C overlaps nothing else; faster kernels need
 *             addresses and row pitches (leading dimension times element size) that are multiples of 16 bytes
//% for p in lib.products if p.out.takes_packed
 *             ${ p.out.name } takes such multiples alone; B is what ${ p.out.name }_pack_b wrote, and N and K are ${ p.out.sizes.N } and ${ p.out.sizes.K }, or 0
//% endfor
//% for p in lib.products if p.product.moved
 *             ${ p.out.name } takes such multiples alone${ ", and %s at addresses divisible by %d" | format(p.out.beside | map(attribute="name") | join(" and "), p.out.aligns[p.out.beside[0].name]) if p.out.beside }
//% endfor
//% if lib.pointers
 *             of ${ lib.pointers | join(", ") }: arrays of `batch` pointers to the matrices, in device memory
//% endif
//% if lib.batched
 * batch       products of those that take a batch; the others do not read it
//% endif
 *
 * Macros with the names of fields are undefined for this struct and restored after it.
 */
//% for name in lib.fields
#pragma push_macro("${ name }")
#undef ${ name }
//% endfor
typedef struct ${ lib.name }_args {
    ${ lib.name }_product product;
    int M, N, K;
    const void* A;
    const void* B;
    void* C;
//% for name, written in lib.extra.items()
    ${ "" if written else "const " }void* ${ name };
//% endfor
//% for name in lib.distances
    ${ "ptrdiff_t" if name.startswith("stride") else "int" } ${ name };
//% endfor
//% if lib.batched
    int batch;
//% endif
//% if lib.scalars
    double ${ lib.scalars | join(", ") };
//% endif
} ${ lib.name }_args;
//% for name in lib.fields
#pragma pop_macro("${ name }")
/*% endfor %*/

/* Start a product on `stream`; returns before it has run.
 *
 * workspace  device memory of ${ lib.name }_workspace_bytes(args) bytes, at an address divisible by 256; null where that is 0.
 *            It may hold anything. One call at a time uses it: calls in order on one stream may share it
 * stream     of the current device
 *
 * The arguments, the workspace and all tensors stay the caller's. Returns
 *
//% for status in lib.statuses
 * ${ ("%s: %s" | format(status.name, status.meaning)) | wordwrap(116, break_long_words=False, wrapstring="\n *     ") }
//% endfor
 * another of CUDA's: no device (cudaErrorNoDevice, cudaErrorInsufficientDriver), or earlier work that failed
 *
 * ${ lib.name }_status_text says the same of a status, and ${ lib.name }_refusal what was refused, in numbers.
 */
cudaError_t ${ lib.name }_gemm(
    const ${ lib.name }_args* /* args */, void* /* workspace */, size_t /* workspace_bytes */, cudaStream_t /* stream */);

/* Bytes of workspace that a call takes at most on the current device, whatever its addresses and leading dimensions: only
 * product, sizes and batch are read. 0 where C has no elements, where a size is out of range, and where the device is refused. */
size_t ${ lib.name }_workspace_bytes(const ${ lib.name }_args* /* args */);

/* The name of the kernel that would serve a call on the current device: null where it would be refused, and where C has no
 * elements. */
const char* ${ lib.name }_kernel(const ${ lib.name }_args* /* args */);

/* What a status of these functions means. */
const char* ${ lib.name }_status_text(cudaError_t /* status */);

/* Why the last call on this thread was refused: "lda = 100 is less than 128". Empty where it was not. */
const char* ${ lib.name }_refusal(void);

//% if lib.quantised
//% include "export/library/quantise.h"
/*% endif %*/

//% from "export/names.h" import unnamed
//% for p in lib.products
/*% include "export/library/function.h" %*/

//% endfor
#ifdef __cplusplus
}
#endif

#endif
