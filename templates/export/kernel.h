/* ${ out.name }
 *
 *     C = ${ out.formula }      sums in ${ out.types.accumulator.label }${ ", for each of %s products" % out.batch if out.batched }
 *
//% for m in out.matrices
 *     ${ "%-8s" | format(m.name) } ${ out.element[m.name] }, ${ m.rows } x ${ m.cols }, ${ m.order }-major, ${ m.ld } elements from one ${ m.order } to the next${ ", " ~ m.batch_stride ~ " to the next matrix" if m.batch_stride }
//% if m.name in out.written
 *              is written: ${ out.written[m.name] }
//% endif
//% endfor
//% for v in out.epilogue.operands if not v.is_matrix
 *     ${ "%-8s" | format(v.name) } ${ out.element[v.name] }, ${ "%s elements" | format(out.sizes[v.size]) if v.size else "one element" }, ${ v.note if v.is_amax else v.whose ~ ": " ~ v.meaning }${ ("; another for each product, behind the last's" if v.written else "; the same for all products") if out.batched }
//% endfor
 *
//% if out.epilogue.reads_c
 * beta = 0 never reads C.${ (" K = 0 gives beta * C and reads neither A nor B." if out.epilogue.is_linear else " K = 0 makes acc zero and reads neither A nor B.") if "K" in out.runtime_sizes and not out.pointers }
//% else
 * C is not read.${ " K = 0 makes acc zero and reads neither A nor B." if "K" in out.runtime_sizes and not out.pointers }
//% endif
//% if "alpha" in out.epilogue.scalars
 * alpha = 0 multiplies as any other: A and B are read, and NaN or infinity in them makes NaN of C. BLAS does not read them.
//% endif
//% if out.types.accumulator.is_integer
 * Sums${ " and what becomes of them" if out.types.scalar.is_integer }${ " and zero points" if out.takes_integers and not out.types.scalar.is_integer } are integers of 32 bits, which wrap around.
//% endif
//% if out.types.c != out.types.scalar
 * C's elements are rounded to the nearest, ties to even; those out of range become ${ "the largest or least number" if out.types.c.saturates else "infinite" }.
//% endif
//% if out.least_arch
 * Its types need an sm_${ out.least_arch } or newer.
//% endif
 */
#ifndef ${ out.name | upper }_H
#define ${ out.name | upper }_H

#include <cuda_runtime_api.h>
//% if out.parts
#include <stddef.h>
//% endif
//% if out.has_integers
#include <stdint.h>
//% endif
/*% if out.cuda_elements %*/

#ifdef __cplusplus
//% for header in out.cuda_headers
#include <${ header }>
//% endfor
#else /* CUDA defines ${ "this type" if out.cuda_elements | length == 1 else "these types" } for C++ alone: C knows pointers to ${ "it" if out.cuda_elements | length == 1 else "them" } */
//% for element in out.cuda_elements
typedef struct ${ element.name } ${ element.name };
//% endfor
#endif
/*% endif %*/

#ifdef __cplusplus
extern "C" {
#endif

//% if out.adds_up
//% if out.stream
/* ${ out.stream } blocks share the last tiles of C: each sums runs along K, and the last at a tile adds its parts in their order, so that
//% else
/* ${ out.splits } blocks share a tile of C: each sums a part of K, and the last of them adds the parts in their order, so that
//% endif
 * results do not depend on the order in which blocks run. For that a launch needs a workspace in device memory:
 *
 * partials    ${ out.name }_partials_bytes(...) bytes that may hold anything
 * semaphores  ${ out.name }_semaphores_bytes(...) bytes: set them to zero once, before the first launch; each launch that
 *             runs to its end leaves them zero
 *
 * Launches that may run at the same time need a workspace each; those that follow one another on a stream can share
 * one that is large enough for each of them, launches of other such kernels too. Semaphores may not lie where partials
 * of another kernel do: these are not zero afterwards. Sizes must be in the ranges given below.
 */
//% set sizes = out.workspace_sizes | map("replace", "", "int ", 1) | join(", ") or "void"
size_t ${ out.name }_partials_bytes(${ sizes });
size_t ${ out.name }_semaphores_bytes(${ sizes });

//% endif
//% if out.copies
/* The kernel reads copies of ${ out.copies | map(attribute="operand") | join(" and ") }. Launches before it make them in device memory, at an address divisible by 16:
 *
//% for copy in out.copies
 * ${ "%-11s" | format(copy.part) } ${ out.name }_${ copy.part }_bytes(...) bytes that may hold anything
//% endfor
 *
 * Launches that may run at the same time need memory each. Sizes must be in the ranges given below.
 */
//% for copy in out.copies
size_t ${ out.name }_${ copy.part }_bytes(${ copy.sized_by | map("replace", "", "int ", 1) | join(", ") or "void" });
/*% endfor %*/

//% endif
/* Start the kernel on `stream` of the current device; returns before it has run.
 *
//% for group in out.alignments
 * ${ group.names | join(", ") }
 *           device memory, at addresses divisible by ${ group.bytes }
//% endfor
//% if out.unaligned
 * ${ out.unaligned | join(", ") }
 *           device memory, at any address
//% endif
//% if out.pointers
 * A_array, B_array, C_array
 *           hold ${ out.batch } pointers each, to the products' matrices A, B and C in device memory, at addresses divisible by
 *           ${ out.behind_align }. Those to A and B may repeat and overlap; no matrix C overlaps another
 *           matrix${ ". With K = 0 A and B are not read, but their pointers are" if "K" in out.runtime_sizes }
//% endif
//% if out.written
 * C, ${ out.written | join(", ") }
 *           are written, and overlap no other operand
//% elif not out.pointers
 * C         overlaps no other operand
//% endif
//% if out.amaxes
 * ${ out.amaxes | join(", ") }
 *           may hold anything before: each launch sets them to 0 first
//% endif
//% if out.adds_up
 * partials, semaphores: the workspace, see above
//% endif
//% if out.copies
 * ${ out.copies | map(attribute="part") | join(", ") }: memory for copies, see above
//% endif
//% if out.runtime_sizes
 * ${ "%-9s" | format(out.runtime_sizes | join(", ")) } 0 to ${ out.size_limit }${ "; with no element in C nothing is launched" if out.may_be_empty }
//% endif
//% for ld in out.runtime_lds
 * ${ "%-9s" | format(ld.name) } at least ${ ld.line }${ " and %d" % ld.least if ld.least and not ld.line.isdigit() }${ ", and divisible by " ~ ld.unit if ld.unit > 1 }
//% endfor
//% for x in out.runtime_strides
 * ${ "%-9s" | format(x.name) } ${ "0 (all products share the matrix), or " if x.may_be_zero }at least (${ x.lines } - 1) * ${ x.ld } + ${ x.line }${ ", and divisible by " ~ x.unit if x.unit > 1 }
//% endfor
 *
 * Returns cudaSuccess, or
 *     cudaErrorInvalidValue           ${ "a null pointer, or a size or leading dimension outside its range" if out.runtime_names else "a null pointer" }
//% if out.alignments
 *     cudaErrorMisalignedAddress      a pointer to an address that is not divisible as above${ "; what arrays hold is not checked" if out.pointers }
//% endif
 *     cudaErrorInvalidConfiguration   a grid of more than 2^31 - 1 blocks
//% if out.maps.encoded or out.feature
 *     cudaErrorNoKernelImageForDevice a device that is ${ "no" if out.feature else "older than" } sm_${ out.capability | join }
//% endif
//% if out.maps.encoded
 *     cudaErrorCallRequiresNewerDriver  a driver older than CUDA 12.0
//% endif
 *     what cudaGetLastError() reports after the launch: an error that an earlier call left behind, too.
 */
cudaError_t ${ out.name }_launch(
//% for p in out.arguments
    ${ p.ctype } ${ p.text },
//% endfor
    cudaStream_t stream);
/*% if out.planned %*/

/* A launch whose arguments are checked${ " and whose tensor maps are encoded" if out.maps.encoded }. It may be copied, and be run any
 * number of times on the device that was the current one, while the tensors stay where they are. Its fields are the
 * launcher's own.
 */
typedef struct ${ out.name }_plan {
//% for one in out.maps.encoded
    unsigned long long ${ one.parameter }[16];
//% endfor
//% for p in out.kept
    ${ p.ctype } ${ p.text };
//% endfor
    unsigned blocks;
} ${ out.name }_plan;

/* What ${ out.name }_launch does before it starts anything: same arguments, same errors. Where it fails, `plan` stays as it was. */
cudaError_t ${ out.name }_make_plan(
    ${ out.name }_plan* plan,
//% for p in out.arguments
    ${ p.ctype } ${ p.text }${ ");" if loop.last else "," }
/*% endfor %*/

/* Start ${ "the kernel and what it needs" if out.copies else "the kernel" } as planned, on `stream`; returns before it has run. */
cudaError_t ${ out.name }_run(const ${ out.name }_plan* plan, cudaStream_t stream);
/*% if out.copies %*/

/* The same in parts: make ${ "a copy" if out.copies | length == 1 else "each copy" }, and start the kernel on ${ "it" if out.copies | length == 1 else "them" }.
 * What is made once, of weights say, serves any number of launches, those of other plans with the same copy, too.
 */
//% for copy in out.copies
cudaError_t ${ out.name }_prepare_${ copy.operand | lower }(const ${ out.name }_plan* plan, cudaStream_t stream);
//% endfor
cudaError_t ${ out.name }_run_prepared(const ${ out.name }_plan* plan, cudaStream_t stream);
/*% endif %*/

/* Why the last of these calls on this thread refused its arguments or the device: "lda = 100 is no multiple of 8 elements".
 * Empty where it did not. */
const char* ${ out.name }_refusal(void);
/*% endif %*/

#ifdef __cplusplus
}
#endif

#endif
