/* ${ out.name }
 *
 *     C = ${ out.formula }      sums in ${ out.types.accumulator.label }${ ", for each of %s products" % out.batch if out.problem.batched }
//% if out.groups
 *     ${ out.groups }
//% endif
//% if out.images
 *     ${ out.images | wordwrap(112, wrapstring="\n *     ") }
//% if out.problem.inputs.wgrad
 *     ${ out.whole_images }
//% endif
//% endif
 *
//% for m in out.matrices
 *     ${ "%-8s" | format(m.name) } ${ out.element[m.name] }, ${ m.rows } x ${ m.cols }, ${ m.order }-major, ${ m.ld } elements from one ${ "pixel" if m.name == out.problem.inputs.images else m.order } to the next${ ", " ~ m.batch_stride ~ " to the next matrix" if m.batch_stride }
//% if m.name in out.written
 *              is written: ${ out.written[m.name] }
//% elif m.name == "B" and out.coded
 *              codes of ${ out.problem.code_bits } bits, ${ out.code_range }${ ": a byte holds two, the first in its lower half" if out.halves }
//% endif
//% endfor
//% for x in out.problem.companions
 *     ${ "%-8s" | format(x.name) } ${ out.element[x.name] }, ${ x.lies(out.problem.sizes) }${ ", without padding" if x.rows.text(out.problem.sizes) != "1" and x.unit == 1 }: ${ x.meaning }${ "; two to a byte, as in B" if out.coded and x.dtype == out.types.b and out.halves }
//% endfor
//% for v in out.epilogue.operands if not v.is_matrix
//% set meaning = v.note if v.is_amax else out.problem.whose(v) ~ ": " ~ v.meaning
//% set others = "; another for each product, behind the last's" if v.written else "; the same for all products"
 *     ${ "%-8s" | format(v.name) } ${ out.element[v.name] }, ${ out.problem.extent_of(v) }, ${ meaning }${ others if out.problem.batched }
//% endfor
 *
//% if out.coded
//% set zeros, group = out.problem.inputs.zeros, out.problem.inputs.group
 * An element of B is ${ out.decoded }.
 * ${ "In a column of B each group of %d along K has" | format(group) if group else "A column of B has" } one scale${ " and one zero point" if zeros }.
//% endif
//% if out.problem.inputs.blocks
 * What ${ out.problem.inputs.block } products along K add up to is multiplied by the product of both scales, rounded to f32.
//% endif
//% if out.epilogue.reads_c
 * beta = 0 never reads C.${ (" K = 0 gives beta * C and reads neither A nor B." if out.epilogue.is_linear else " K = 0 makes acc zero and reads neither A nor B.") if "K" in out.runtime_sizes and not out.problem.pointers }
//% else
 * C is not read.${ " K = 0 makes acc zero and reads neither A nor B." if "K" in out.runtime_sizes and not out.problem.pointers }
//% endif
//% if "alpha" in out.epilogue.scalars
 * alpha = 0 is no special case, unlike in BLAS: A and B are read, and NaN or infinity in them makes C NaN.
//% endif
//% if out.types.note
 * ${ ("As --compute %s says, %s." | format(out.types.compute.label, out.types.note)) | wordwrap(118, wrapstring="\n * ") }
//% endif
//% if out.types.accumulator.is_integer
 * Sums${ " and what becomes of them" if out.types.scalar.is_integer }${ " and zero points" if out.takes_integers and not out.types.scalar.is_integer } are integers of 32 bits, which wrap around.
//% endif
//% if out.types.c != out.types.scalar
 * C's elements are rounded to the nearest, ties to even; those out of range become ${ "the largest or least number" if out.types.c.saturates else "infinite" }.
//% endif
 *
 * It needs ${ "an %s and no other" | format(out.arch) if out.feature else "an sm_%d or newer" | format(out.least_arch) }${ ", and %d bytes of dynamic shared memory a block" | format(out.launch.shared_bytes) if out.launch.shared_bytes else "; its shared memory is static, which any GPU has" }.
 */
#ifndef ${ out.name | upper }_H
#define ${ out.name | upper }_H

#include <cuda_runtime_api.h>
#include <stddef.h>
//% if out.has_integers
#include <stdint.h>
//% endif
/*% if out.cuda_elements %*/

//% set elements, headers = out.cuda_elements, out.cuda_headers
//% include "export/types.h"
/*% endif %*/

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the workspace that a launch${ " of these sizes" if out.runtime_sizes } takes in device memory.${ " Sizes must be in the ranges below." if out.runtime_sizes and out.parts }
//% if not out.parts
 * This kernel takes none: `workspace` may be null. Other kernels of the same problem may take one.
//% else
//% if out.padded
 * It holds ${ "copies" if out.padded | length > 1 else "a copy" } of ${ out.padded | map(attribute="operand") | join(" and ") }, with lines as the kernel takes them.
//% endif
//% if out.coded
 * It holds ${ out.packed_words }, packed as the kernel takes them.
//% endif
//% if out.summed
 * It holds the sums of ${ out.summed | map("replace", "A", "A's rows") | map("replace", "B", "B's columns") | join(" and ") }.
//% endif
//% if out.stream
 * ${ out.stream } blocks share the last tiles of C: each sums runs along K, and the last at a tile adds its parts, which the
 * workspace holds, in their order. So results do not depend on the order in which blocks run.
//% elif out.launch.leaves_partials
 * ${ out.launch.splits } blocks share a tile of C: each sums a part of K, and the last of them adds the parts, which the workspace
 * holds, in their order. So results do not depend on the order in which blocks run.
//% endif
 *
 * It may hold anything before a launch, which sets up what it needs there. One launch at a time uses it: two would write over
 * each other's ${ "copies" if out.copies and not out.launch.leaves_partials else "sums" }. Launches in order on one stream may share it, those of other kernels, too.
//% endif
 */
//% from "export/names.h" import unnamed
size_t ${ out.name }_workspace_bytes(${ unnamed(out.runtime_sizes) });

/* Start the kernel on `stream` of the current device; returns before it has run.
 *
//% for group in out.alignments
 * ${ "%-9s" | format(group.names | join(", ")) } device memory, at addresses divisible by ${ group.bytes }
//% endfor
//% if out.unaligned
 * ${ "%-9s" | format(out.unaligned | join(", ")) } device memory, at any address
//% endif
//% if out.problem.pointers
 * A_array, B_array, C_array
 *           hold ${ out.batch } pointers each, to the products' matrices A, B and C in device memory, at addresses divisible by
 *           ${ out.behind_align }. Those to A and B may repeat and overlap; no matrix C overlaps another
 *           matrix${ ". With K = 0 A and B are not read, but their pointers are" if "K" in out.runtime_sizes }
//% endif
//% if out.written
 * C, ${ out.written | join(", ") } are written, and overlap no other operand
//% elif not out.problem.pointers
 * C         overlaps no other operand
//% endif
//% for name, holds in out.unchecked.items()
 * ${ "%-9s" | format(name) } ${ holds }
//% endfor
//% if out.amaxes
 * ${ out.amaxes | join(", ") } may hold anything before: each launch sets them to 0 first${ "; where C has no element there is none, and they stay" if out.may_be_empty }
//% endif
//% if out.runtime_sizes
 * ${ "%-9s" | format(out.runtime_sizes | join(", ")) } 0 to ${ out.size_limit }${ "; with no element in C nothing is launched" if out.may_be_empty }
//% endif
//% for ld in out.runtime_lds
 * ${ "%-9s" | format(ld.name) } at least ${ ld.line }${ " and %d" % ld.least if ld.least and not ld.line.isdigit() }${ ", and divisible by " ~ ld.unit if ld.unit > 1 }
//% endfor
//% for x in out.runtime_strides
//% set divisible = "; and divisible by " ~ x.unit if x.unit > 1
//% if x.may_be_zero
 * ${ "%-9s" | format(x.name) } at least 0: ${ "groups" if out.problem.inputs.groups else "products" } may share the matrix, and lines of several may interleave${ divisible }
//% else
 * ${ "%-9s" | format(x.name) } at least (${ x.lines } - 1) * ${ x.ld } + ${ x.line }, or ${ x.line } where the lines of all products lie between two of one, within ${ x.ld }${ divisible }
//% endif
//% endfor
//% if out.parts
 * workspace of at least the bytes above, at an address divisible by ${ out.workspace_align }
//% endif
 *
 * Nothing is allocated, and nothing waits: it can be captured in a graph. Returns cudaSuccess, or
 *
//% set outside = ["a size%s outside its range" | format(", leading dimension or stride" if out.runtime_strides else " or leading dimension" if out.runtime_lds else "")] if out.runtime_names else []
//% set small = ["a workspace that is too small"] if out.parts else []
 * cudaErrorInvalidValue: ${ (["a null pointer" ~ (" (A and B may be null where K = 0)" if out.may_be_null else "")] + outside + small) | join("; ") }
//% if out.alignments or out.parts
 * cudaErrorMisalignedAddress: an address that is not divisible as above${ "; what arrays hold is not checked" if out.problem.pointers }
//% endif
//% set no_grid = ["a grid of more than 2^31 - 1 blocks"] if out.tile_sizes else []
//% set no_memory = ["a device whose blocks have no %d bytes of shared memory" | format(out.launch.shared_bytes)] if out.launch.shared_bytes else []
//% if no_grid + no_memory
 * cudaErrorInvalidConfiguration: ${ (no_grid + no_memory) | join("; ") }
//% endif
 * cudaErrorNoKernelImageForDevice: a device ${ "that is no sm_%s" | format(out.capability | join) if out.feature else "that is older than sm_%s" | format(out.capability | join) if out.maps.encoded else "for which the kernel was not compiled" }
//% if out.maps.encoded
 * cudaErrorCallRequiresNewerDriver: a driver older than CUDA 12.0
//% endif
 * another of CUDA's: no device (cudaErrorNoDevice, cudaErrorInsufficientDriver), or earlier work that failed
 */
cudaError_t ${ out.name }_launch(
${ out.declared(out.arguments, behind="cudaStream_t /* stream */", commented=True) });

/* Why the last of these calls on this thread refused its arguments or the device, as "lda = 100 is less than 128"; else empty. */
const char* ${ out.name }_refusal(void);

/* A launch whose arguments are checked${ " and whose tensor maps are encoded" if out.maps.encoded }: it may be copied, and run any number of
 * times on the device that was current, while tensors and workspace stay where they are. Its fields are the launcher's own. */
typedef struct ${ out.name }_plan {
//% if out.maps.encoded
    size_t kept_${ out.maps.encoded | map(attribute="map.parameter") | join("[16], kept_") }[16];
//% endif
//% for p in out.kept
    ${ p.ctype } kept_${ p.text };
//% endfor
//% for part in out.parts
    ${ part.ctype } kept_${ part.name };
//% endfor
    unsigned kept_blocks;
//% if out.packed
    int kept_packed;
//% endif
} ${ out.name }_plan;

/* Check the arguments as a launch does, with the same errors, without starting anything. If it fails, `plan` stays as it was. */
cudaError_t ${ out.name }_make_plan(
${ out.declared(out.arguments, before=out.name ~ "_plan* /* plan */", commented=True) });

/* Launch as planned, on `stream`. */
cudaError_t ${ out.name }_run(const ${ out.name }_plan* /* plan */, cudaStream_t /* stream */);

//% set made_of_b = [out.made_of["B"] ~ " to the workspace's start, where plans of any M find it"] if out.made_of["B"] else []
//% set done_for_b = made_of_b + (["sets counters to zero, as each launch that ends leaves them"] if out.launch.leaves_partials else [])
//% if not out.made_of["A"] and not done_for_b
/* The same in parts, for kernels that copy operands first: they copy weights only once. This one reads A and B as they lie, and
 * preparing them does nothing.
//% else
/* The same in parts: both prepare, then any number of launches run while nobody else writes to the workspace. A, or B, is
 * prepared again where it changes. So weights are copied once, whatever kernel of the problem this is.
 *
 * prepare_a  ${ out.made_of["A"] or "does nothing: the kernel reads A as it lies" }
 * prepare_b  ${ done_for_b | join(", and ") or "does nothing: the kernel reads B as it lies" }
//% endif
 */
cudaError_t ${ out.name }_prepare_a(const ${ out.name }_plan* /* plan */, cudaStream_t /* stream */);
cudaError_t ${ out.name }_prepare_b(const ${ out.name }_plan* /* plan */, cudaStream_t /* stream */);
cudaError_t ${ out.name }_run_prepared(const ${ out.name }_plan* /* plan */, cudaStream_t /* stream */);
/*% if out.packed %*/

/* Weights apart from a workspace, for several products at once: what prepare_b would make of B, in device memory of its own.
//% if out.coded
 * pack_b ${ out.made_of["B"] } to `packed`, which has packed_bytes at an address divisible by ${ out.workspace_align }.
 * make_packed_plan takes that in place of ${ out.packed_words }; any number of plans on any stream may share it while
 * nobody writes there. Their workspace has packed_bytes less, and may be null where nothing is left.
//% else
 * pack_b ${ out.made_of["B"] } to `packed`, which has packed_bytes at an address divisible by ${ out.workspace_align }. make_packed_plan takes that in place
 * of B; any number of plans on any stream may share it while nobody writes there. Their workspace has packed_bytes less, and
 * may be null where nothing is left.
//% endif
 */
#define ${ out.name }_PACKS_B 1 /* kernels that read B as it lies have none of this */
size_t ${ out.name }_packed_bytes(${ unnamed(out.packed_sizes) });
cudaError_t ${ out.name }_pack_b(
${ out.declared(out.packing, behind="void* /* packed */, cudaStream_t /* stream */", commented=True) });
cudaError_t ${ out.name }_make_packed_plan(
${ out.declared(out.by_packed, before=out.name ~ "_plan* /* plan */", commented=True) });
/*% endif %*/

#ifdef __cplusplus
}
#endif

#endif
