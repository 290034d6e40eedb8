/*# The product's function, called with the arguments of a check. #*/
//% include "export/selftest/pointers.cu"
const char* ${ out.name }_refusal() { return ${ lib.name }_refusal(); }

cudaError_t launch(const Check& s, const Pointers& tensors)
{
    const auto& [${ out.located.values() | join(", ") }] = tensors;
    const size_t workspace_bytes = ${ out.name }_workspace_bytes(${ out.runtime_sizes | map("replace", "", "s.", 1) | join(", ") });
    void* const workspace = workspace_of(workspace_bytes);
    return ${ out.name }(
//%- for one in p.arguments
${ "s." if one.text in test.numbers }${ one.text }${ ", " }
//%- endfor
workspace, workspace_bytes, nullptr);
}

