/*# The function of a product `p`, whose arguments are the fields of a call. #*/
//% set out = p.out
//% macro line(names, text)
 * ${ ("%-11s %s" | format(names | join(", "), text)) | wordwrap(116, break_long_words=False, wrapstring="\n *             ") }
//%- endmacro
/* ${ p.function_of }
//% if out.images
 * ${ (out.images ~ ".") | wordwrap(118, wrapstring="\n * ") }
//% endif
//% if out.problem.inputs.wgrad
 * ${ out.whole_images }.
//% endif
 *
//% for m in out.matrices
//% set argument = out.located[m.name]
//% set what = "%s x %s elements of %s, %s-major" | format(m.rows, m.cols, out.element[m.name], m.order)
//% set access = "written, and overlaps no other operand" if m.name in out.written else ("written, and read where beta is not 0; overlaps no other operand" if out.epilogue.reads_c else "written; overlaps no other operand") if m.name == "C" else "read"
//% set at = " at an address divisible by %d" | format(out.aligns[argument])
//% if argument == "packed"
${ line([argument], "device memory%s: %s, as %s_pack_b packs them; read" | format(at, out.packed_words, out.name)) }
//% elif argument != m.name
${ line([argument], "device memory%s with a pointer for each product, to device memory at an address that its elements' size divides: %s; %s" | format(at, what, access)) }
//% else
${ line([argument], "device memory%s: %s%s; %s" | format(at, what, ", for each product" if out.problem.batched, access)) }
//% endif
//% endfor
//% for x in out.beside
${ line([x.name], "device memory at an address divisible by %d: %s of %s, %s%s; read%s" | format(out.aligns[x.name], x.lies(out.problem.sizes), out.element[x.name], "without padding, " if x.unit == 1 and x.name not in out.unchecked, x.meaning, "; %s %s" | format(x.name, out.unchecked[x.name]) if x.name in out.unchecked)) }
//% endfor
//% for v in out.epilogue.operands if not v.is_matrix
//% set of_group = "%s: %s" | format(out.problem.whose(v), v.meaning)
//% set meaning = v.note if v.is_amax else of_group if out.problem.groups_of(v) else v.meaning
${ line([v.name], "device memory at an address divisible by %d: %s of %s, %s; %s" | format(out.aligns[v.name], out.problem.extent_of(v), out.element[v.name], meaning, "written" if v.written else "read")) }
//% endfor
${ line(out.runtime_sizes | reject("equalto", "batch") | list, "sizes in elements, 0 to %d" | format(out.size_limit)) }
//% for ld in out.runtime_lds
//% set m = out.matrices | selectattr("ld", "equalto", ld.name) | first
${ line([ld.name], "elements from one %s of %s to the next, at least %s%s; 0 for %ss without a gap" | format(m.order, m.name, ld.line, " and divisible by %d" | format(ld.unit) if ld.unit > 1, m.order)) }
//% endfor
//% if out.takes_batch
${ line(["batch"], "products, 0 to %d" | format(out.size_limit)) }
//% endif
//% for x in out.runtime_strides
//% set divisible = " and divisible by %d" | format(x.unit) if x.unit > 1
//% set shared = ", or 0: all %s share the matrix" | format("groups" if out.problem.inputs.groups else "products") if x.may_be_zero
${ line([x.name], "elements from one matrix to the next, at least (%s - 1) * %s + %s%s%s" | format(x.lines, x.ld, x.line, divisible, shared)) }
//% endfor
//% if out.epilogue.scalars
${ line(out.epilogue.scalars, "factors of the formula above, passed by value") }
//% endif
${ line(["workspace"], "as for %s_gemm, of the bytes that %s_workspace_bytes gives for these sizes" | format(lib.name, out.name)) }
 *
 * All memory stays the caller's, and stays as it is until work that is on `stream` by then is done. Returns what
 * ${ lib.name }_gemm does.
 */
cudaError_t ${ out.name }(
//% for a in p.arguments
    ${ a.ctype } /* ${ a.text } */,
//% endfor
    void* /* workspace */, size_t /* workspace_bytes */, cudaStream_t /* stream */);

/* Bytes of workspace that it takes at most on the current device, for sizes in these ranges; 0 where no kernel is for the
 * device. */
size_t ${ out.name }_workspace_bytes(${ unnamed(out.runtime_sizes) });
/*% if out.takes_packed %*/

/* Pack B, once for any number of calls. An element of B is ${ out.decoded }.
 *
${ line(["B"], "its codes, in device memory at an address divisible by %d" | format(out.aligns.B)) }
//% for x in out.problem.packed_with_b
${ line([x.name], "device memory at an address divisible by %d: %s of %s%s, %s%s; read" | format(out.aligns[x.name], x.lies(out.problem.sizes), out.element[x.name], ", without padding" if x.rows.text(out.problem.sizes) != "1", x.meaning, ", two to a byte as in B" if x.dtype == out.types.b)) }
//% endfor
${ line(["packed"], "device memory of %s_packed_bytes() bytes, at an address divisible by %d; written" | format(out.name, out.workspace_align)) }
 */
cudaError_t ${ out.name }_pack_b(
${ out.declared(out.packing, behind="void* /* packed */, cudaStream_t /* stream */", commented=True) });
size_t ${ out.name }_packed_bytes(void);
/*% endif %*/
