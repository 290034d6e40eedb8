/*# The launcher, called with the arguments that it takes of a check. #*/
//% include "export/selftest/pointers.cu"
//% macro passed(arguments)
//%- for one in arguments
${ "s." if one.text in test.numbers }${ one.text if out.parts or not one.is_workspace else "0" if loop.last else "nullptr" }${ ", " if not loop.last }
//%- endfor
//%- endmacro
//% set reads = out.parts or out.maps.encoded or out.arguments | map(attribute="text") | select("in", test.numbers) | list
cudaError_t launch(${ "[[maybe_unused]] " if not reads }const Check& s, const Pointers& tensors${ ", Address workspace, std::size_t workspace_bytes" if out.parts })
{
    const auto& [${ out.located.values() | join(", ") }] = tensors;
//% if out.parts or out.maps.encoded
    ${ out.name }_plan plan;
//% endif
//% if out.packed
    if (s.beta != 0) {  // the weight apart, and a workspace of no more than what is left
        const Address packed = workspace;
        const std::size_t packed_bytes = ${ out.name }_packed_bytes(${ out.packed_sizes | map("replace", "", "s.", 1) | join(", ") });
        workspace = {static_cast<const char*>(packed) + packed_bytes};
        workspace_bytes -= packed_bytes;
        cudaError_t status = ${ out.name }_pack_b(${ passed(out.packing) }, packed, nullptr);
        if (status == cudaSuccess) status = ${ out.name }_make_packed_plan(&plan, ${ passed(out.by_packed) });
        return status == cudaSuccess ? ${ out.name }_run(&plan, nullptr) : status;
    }
//% endif
//% if out.parts or out.maps.encoded
    cudaError_t status = ${ out.name }_launch(${ passed(out.arguments) }, nullptr);
    if (status != cudaSuccess${ " || s.beta != 0" if not out.packed }) return status;
    status = ${ out.name }_make_plan(&plan, ${ passed(out.arguments) });
    return status == cudaSuccess ? ${ out.name }_run_prepared(&plan, nullptr) : status;  // C is not read: it is the same again
//% else
    return ${ out.name }_launch(${ passed(out.arguments) }, nullptr);
//% endif
}

