/*# The launcher, called with the arguments that it takes of a check. #*/
//% include "export/selftest/pointers.cu"
//% set arguments = out.arguments | map(attribute="text") | join(", ")
cudaError_t launch(const Shape& s, const Pointers& tensors, Scalars scalars${ ", void* workspace, std::size_t workspace_bytes" if out.parts }${ ", void* packed = nullptr" if out.packed })
{
    [[maybe_unused]] const auto& [${ (test.shape_fields + test.shape_strides) | join(", ") }] = s;
    [[maybe_unused]] const auto& [alpha, beta] = scalars;
    const auto& [${ out.located.values() | join(", ") }] = tensors;
//% if not out.parts
    constexpr void* workspace = nullptr;
    constexpr std::size_t workspace_bytes = 0;
//% endif
//% if out.packed
    if (packed != nullptr) {  // weights apart
        ${ out.name }_plan plan;
        cudaError_t status = ${ out.name }_pack_b(${ out.packing | map(attribute="text") | join(", ") }, packed, nullptr);
        if (status == cudaSuccess) status = ${ out.name }_make_packed_plan(&plan, ${ out.by_packed | map(attribute="text") | join(", ") });
        return status == cudaSuccess ? ${ out.name }_run(&plan, nullptr) : status;
    }
//% endif
//% if out.parts or out.maps.encoded
    if (beta == 0) {  // C is not read: a plan that runs again writes the same
        ${ out.name }_plan plan;
        cudaError_t status = ${ out.name }_make_plan(&plan, ${ arguments });
        if (status == cudaSuccess) status = ${ out.name }_run(&plan, nullptr);
        return status == cudaSuccess ? ${ out.name }_run_prepared(&plan, nullptr) : status;
    }
//% endif
    return ${ out.name }_launch(${ arguments }, nullptr);
}

