/*# The launcher, called with the arguments that it takes of a check. #*/
// Where a launch's tensors are.
struct Pointers {
//% for name in out.located.values()
    ${ out.ctypes[name] } ${ name };
//% endfor
};

//% if out.parts
// Device memory that grows with the shapes.${ " Semaphores are set to zero only when they are new: launches leave them so." if out.adds_up }
struct Part {
    void* memory = nullptr;
    size_t bytes = 0;

    cudaError_t reserve(size_t needed, int byte)
    {
        if (needed <= bytes) return cudaSuccess;
        cudaFree(memory);
        memory = nullptr;
        bytes = 0;
        const cudaError_t status = cudaMalloc(&memory, needed);
        if (status != cudaSuccess) return status;
        bytes = needed;
        return cudaMemsetAsync(memory, byte, bytes, nullptr);
    }
};

Part ${ out.parts | join("_part, ") }_part;

//% endif
cudaError_t launch(const Shape& s, const Pointers& tensors, Scalars scalars)
{
    [[maybe_unused]] const auto& [${ (test.shape_fields + test.shape_strides) | join(", ") }] = s;
    [[maybe_unused]] const auto& [alpha, beta] = scalars;
    const auto& [${ out.located.values() | join(", ") }] = tensors;
//% if out.parts
    if (M > 0 && N > 0 && K >= 0 && batch > 0) {
        cudaError_t status = cudaSuccess;
//% for name in out.parts
        if (status == cudaSuccess) status = ${ name }_part.reserve(${ out.name }_${ name }_bytes(${ out.part_sizes[name] | join(", ") }), ${ "0" if name == "semaphores" else "0xff" });
//% endfor
        if (status != cudaSuccess) return status;
    }
//% for name in out.parts
    ${ out.ctypes[name] } const ${ name } = static_cast<${ out.ctypes[name] }>(${ name }_part.memory);
//% endfor
//% endif
//% set arguments = out.arguments | map(attribute="text") | join(", ")
//% if out.planned
    if (beta == 0) {  // C is not read: a plan that runs again writes the same
        ${ out.name }_plan plan;
        cudaError_t status = ${ out.name }_make_plan(&plan, ${ arguments });
        if (status == cudaSuccess) status = ${ out.name }_run(&plan, nullptr);
        return status == cudaSuccess ? ${ out.name }_run${ "_prepared" if out.copies }(&plan, nullptr) : status;
    }
//% endif
    return ${ out.name }_launch(${ arguments }, nullptr);
}

