/*# The launcher, called with the arguments that it takes of a check. #*/
//% include "export/selftest/pointers.cu"
//% macro passed(arguments)
//%- for one in arguments
//% set workspace = one.text if out.parts else "0" if loop.last else "nullptr"
${ "s." if one.text in test.numbers }${ workspace if one.is_workspace else one.text }${ ", " if not loop.last }
//%- endfor
//%- endmacro
//% set reads = out.parts or out.maps.encoded or out.arguments | map(attribute="text") | select("in", test.numbers) | list
cudaError_t launch(${ "[[maybe_unused]] " if not reads }const Check& s, const Pointers& tensors${ ", Address workspace, size_t workspace_bytes" if out.parts })
{
    const auto& [${ out.located.values() | join(", ") }] = tensors;
//% if out.parts or out.maps.encoded
    ${ of("plan") } plan;
//% endif
//% if out.packed
    if (s.beta != 0) {  // the weight apart, and a workspace of no more than what is left
        const Address packed = workspace;
        const size_t packed_bytes = ${ of("packed_bytes") }(${ out.packed_sizes | map("replace", "", "s.", 1) | join(", ") });
        workspace = {static_cast<const char*>(packed) + packed_bytes};
        workspace_bytes -= packed_bytes;
        cudaError_t status = ${ of("pack_b") }(${ passed(out.packing) }, packed, nullptr);
        if (status == cudaSuccess) status = ${ of("make_packed_plan") }(&plan, ${ passed(out.by_packed) });
        return status == cudaSuccess ? ${ of("run") }(&plan, nullptr) : status;
    }
//% endif
//% if out.parts or out.maps.encoded
    cudaError_t status = ${ of("launch") }(${ passed(out.arguments) }, nullptr);
    if (status != cudaSuccess${ " || s.beta != 0" if not out.packed }) return status;
    status = ${ of("make_plan") }(&plan, ${ passed(out.arguments) });
    return status == cudaSuccess ? ${ of("run_prepared") }(&plan, nullptr) : status;  // C is not read: it is the same again
//% else
    return ${ of("launch") }(${ passed(out.arguments) }, nullptr);
//% endif
}

