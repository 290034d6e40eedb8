/*# The launcher, called with the arguments that it takes of a check. #*/
// Where a launch's tensors are.
struct Pointers {
//% for name in out.located.values()
    ${ out.ctypes[name] } ${ name };
//% endfor
};

//% if out.adds_up
// Device memory that grows with the shapes. Semaphores are set to zero only when they are new: launches leave them so.
struct Workspace {
    void *partials = nullptr, *semaphores = nullptr;
    size_t partials_bytes = 0, semaphores_bytes = 0;

    cudaError_t reserve(const Shape& s)
    {
        [[maybe_unused]] const auto& [${ (test.shape_fields + test.shape_strides) | join(", ") }] = s;
        const size_t partials_needed = ${ out.name }_partials_bytes(${ out.workspace_sizes | join(", ") });
        const size_t semaphores_needed = ${ out.name }_semaphores_bytes(${ out.workspace_sizes | join(", ") });
        if (partials_needed <= partials_bytes && semaphores_needed <= semaphores_bytes) return cudaSuccess;
        cudaFree(partials);
        cudaFree(semaphores);
        partials_bytes = std::max(partials_bytes, partials_needed);
        semaphores_bytes = std::max(semaphores_bytes, semaphores_needed);
        const std::vector<unsigned> zeros(semaphores_bytes / sizeof(unsigned));
        cudaError_t status = cudaMalloc(&partials, partials_bytes);
        if (status == cudaSuccess) status = cudaMalloc(&semaphores, semaphores_bytes);
        return status == cudaSuccess ? cudaMemcpy(semaphores, zeros.data(), semaphores_bytes, cudaMemcpyHostToDevice) : status;
    }
};

Workspace workspace;

//% endif
cudaError_t launch(const Shape& s, const Pointers& tensors, Scalars scalars)
{
    [[maybe_unused]] const auto& [${ (test.shape_fields + test.shape_strides) | join(", ") }] = s;
    [[maybe_unused]] const auto& [alpha, beta] = scalars;
    const auto& [${ out.located.values() | join(", ") }] = tensors;
//% if out.adds_up
    if (M > 0 && N > 0 && batch > 0) {
        const cudaError_t status = workspace.reserve(s);
        if (status != cudaSuccess) return status;
    }
    ${ out.element.sums }* const partials = static_cast<${ out.element.sums }*>(workspace.partials);
    unsigned* const semaphores = static_cast<unsigned*>(workspace.semaphores);
//% endif
//% set arguments = out.arguments | map(attribute="text") | join(", ")
//% if out.maps.encoded
    if (beta == 0) {  // C is not read: a plan that runs again writes the same
        ${ out.name }_plan plan;
        cudaError_t status = ${ out.name }_make_plan(&plan, ${ arguments });
        if (status == cudaSuccess) status = ${ out.name }_run(&plan, nullptr);
        return status == cudaSuccess ? ${ out.name }_run(&plan, nullptr) : status;
    }
//% endif
    return ${ out.name }_launch(${ arguments }, nullptr);
}

