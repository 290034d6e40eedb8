/*# NAME_pack_b and what takes its result: the parts that are made of B, apart from a workspace. #*/
//% set operand, steps = "B", out.prepared | selectattr("operand", "eq", "B") | list
//% set lds = out.runtime_lds | selectattr("name", "eq", "ldb") | list
size_t ${ out.name }_packed_bytes(${ out.packed_sizes | map("replace", "", "int ", 1) | join(", ") })
{
    return workspace_of(${ out.workspace_of_packed | join(", ") }).${ out.packed_end };
}

cudaError_t ${ out.name }_pack_b(
${ out.declared(out.packing, behind="void* packed, cudaStream_t stream") })
{
    reason[0] = '\0';
//% for size in out.packed_sizes
    if (${ size } < 0 || ${ size } > ${ out.size_limit }) return refuse(cudaErrorInvalidValue, "${ size } = %d is not in 0 to %d", ${ size }, ${ out.size_limit });
//% endfor
//% for ld in lds
    if (ldb < ${ ld.line }) return refuse(cudaErrorInvalidValue, "ldb = %d is less than %d", ldb, ${ ld.line });
//% if ld.unit > 1
    if (ldb % ${ ld.unit } != 0) return refuse(cudaErrorInvalidValue, "ldb = %d is no multiple of %d elements", ldb, ${ ld.unit });
//% endif
//% endfor
    cudaError_t status = ${ "B == nullptr && K == 0 ? cudaSuccess : " if "B" in out.may_be_null }check("B", B, ${ out.aligns["B"] });
//% for name in out.packed_from[1:]
    if (status == cudaSuccess) status = check("${ name }", ${ name }, ${ out.aligns[name] });
//% endfor
    if (status == cudaSuccess) status = check("packed", packed, ${ out.workspace_align });
//% if not out.run_by.all_known
    if (status == cudaSuccess) status = compiled_here();
//% endif
    if (status != cudaSuccess) return status;
    const Workspace at = workspace_of(${ out.workspace_of_packed | join(", ") });
//% for part in out.packed
    ${ part.ctype } const ${ part.name } = reinterpret_cast<${ part.ctype }>(static_cast<char*>(packed) + at.${ part.name });
//% endfor
//% include "export/launcher/steps.cu"
}

cudaError_t ${ out.name }_make_plan(
${ out.declared(out.arguments, before="Plan* plan") })
{
    return ${ out.name }_plan_of(plan, ${ out.arguments | map(attribute="text") | join(", ") }, nullptr);
}

cudaError_t ${ out.name }_make_packed_plan(
${ out.declared(out.by_packed, before="Plan* plan") })
{
    cudaError_t status = begin(plan);
    if (status == cudaSuccess) status = check("packed", packed, ${ out.workspace_align });
    if (status != cudaSuccess) return status;
//% for ld in lds
//% set least = "std::max(1, %s)" | format(ld.line)
    const int ldb = ${ least if ld.unit == 1 else "static_cast<int>(tiles_of(%s, %d) * %d)" | format(least, ld.unit, ld.unit) };  // B itself is not read
//% endfor
    return ${ out.name }_plan_of(plan, ${ out.by_packed_passed | join(", ") }, packed);
}
