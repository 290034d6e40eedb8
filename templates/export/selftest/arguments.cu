/*# The launcher's answers to arguments that it must refuse, or that need no launch. #*/
// An address that nothing is read from.
template <typename Pointer>
Pointer address(std::uintptr_t at)
{
    return reinterpret_cast<Pointer>(at);
}

// The launcher's answer to arguments that it must refuse, or that need no launch: no memory is touched.
//% if out.parts
bool answers(const std::string& what, const Shape& s, const Pointers& tensors, cudaError_t wanted, std::uintptr_t at = 4096, std::size_t bytes = SIZE_MAX)
{
    const cudaError_t status = launch(s, tensors, {1, 0}, address<void*>(at), bytes);
//% else
bool answers(const std::string& what, const Shape& s, const Pointers& tensors, cudaError_t wanted)
{
    const cudaError_t status = launch(s, tensors, {1, 0});
//% endif
    std::printf("%s  %s: %s\n", status == wanted ? "PASS" : "FAIL", what.c_str(), cudaGetErrorName(status));
    return status == wanted;
}

bool checks_its_arguments()
{
    constexpr std::uintptr_t somewhere = 4096;
    const Pointers tensors = {
//%- for name in out.located.values()
address<${ out.ctypes[name] }>(somewhere)${ ", " if not loop.last }
//%- endfor
};
    const Shape good = SHAPES[0];
    bool passed = true;
    Pointers odd = tensors;
//% for name in out.located.values()
//% set to = out.ctypes[name]
    odd = tensors, odd.${ name } = nullptr;
    passed &= answers("${ name } null", good, odd, cudaErrorInvalidValue);
//% if out.aligns[name] > 1
    odd.${ name } = address<${ to }>(somewhere + ${ out.aligns[name] // 2 });
    passed &= answers("${ name } misaligned", good, odd, cudaErrorMisalignedAddress);
//% endif
//% endfor
//% if out.parts
//% set needed = "%s_workspace_bytes(%s)" | format(out.name, out.runtime_sizes | map("replace", "", "good.", 1) | join(", "))
    passed &= answers("workspace null", good, tensors, cudaErrorInvalidValue, 0);
    passed &= answers("workspace misaligned", good, tensors, cudaErrorMisalignedAddress, somewhere + 16);
    passed &= answers("workspace too small", good, tensors, cudaErrorInvalidValue, somewhere, ${ needed } - 1);
//% endif
//% if out.runtime_names
    Shape bad = good;
//% endif
//% for size in out.runtime_sizes
    bad = good, bad.${ size } = -1;
    passed &= answers("${ size } = -1", bad, tensors, cudaErrorInvalidValue);
//% endfor
//% if out.may_be_empty
    const Pointers nowhere = {};
//% endif
//% for size in out.may_be_empty
    bad = good, bad.${ size } = 0;
    passed &= answers("${ size } = 0", bad, nowhere, cudaSuccess);
//% endfor
//% for ld in out.runtime_lds
    bad = good, bad.${ ld.name } = ${ "good." ~ ld.line if ld.line in out.runtime_sizes else ld.line } - 1;
    passed &= answers("${ ld.name } shorter than a line", bad, tensors, cudaErrorInvalidValue);
//% if ld.unit > 1
    bad = good, bad.${ ld.name } += 1;
    passed &= answers("${ ld.name } no multiple of ${ ld.unit }", bad, tensors, cudaErrorInvalidValue);
//% endif
//% endfor
//% for stride in out.runtime_strides if not stride.may_be_zero
    bad = good, bad.${ stride.name } = 0;
    passed &= answers("${ stride.name } = 0", bad, tensors, cudaErrorInvalidValue);
//% endfor
    return passed;
}

