/*# The product's function, called with the arguments of a check. #*/
//% include "export/selftest/pointers.cu"
const char* ${ out.name }_refusal() { return ${ lib.name }_refusal(); }

cudaError_t launch(const Shape& s, const Pointers& tensors, Scalars scalars)
{
    [[maybe_unused]] const auto& [${ (test.shape_fields + test.shape_strides) | join(", ") }] = s;
    [[maybe_unused]] const auto& [alpha, beta] = scalars;
    const auto& [${ out.located.values() | join(", ") }] = tensors;
    const std::size_t workspace_bytes = ${ out.name }_workspace_bytes(${ out.runtime_sizes | join(", ") });
    void* const workspace = workspace_of(workspace_bytes);
    return ${ out.name }(${ p.arguments | map(attribute="text") | join(", ") }, workspace, workspace_bytes, nullptr);
}

