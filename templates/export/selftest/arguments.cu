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
    const auto at = [&](auto Pointers::*field, std::uintptr_t where) {
        Pointers odd = tensors;
        odd.*field = reinterpret_cast<std::decay_t<decltype(odd.*field)>>(where);
        return odd;
    };
    const auto refuses = [&](const std::string& name, auto Pointers::*field, unsigned align) {
        const bool null = answers(name + " null", good, at(field, 0), cudaErrorInvalidValue);
        return null && (align == 1 || answers(name + " misaligned", good, at(field, somewhere + align / 2), cudaErrorMisalignedAddress));
    };
//% for name in out.located.values()
    passed &= refuses("${ name }", &Pointers::${ name }, ${ out.aligns[name] });
//% endfor
//% if out.parts
//% set needed = "%s_workspace_bytes(%s)" | format(out.name, out.runtime_sizes | map("replace", "", "good.", 1) | join(", "))
    passed &= answers("workspace null", good, tensors, cudaErrorInvalidValue, 0);
    passed &= answers("workspace misaligned", good, tensors, cudaErrorMisalignedAddress, somewhere + 16);
    passed &= answers("workspace too small", good, tensors, cudaErrorInvalidValue, somewhere, ${ needed } - 1);
//% endif
//% if out.runtime_names
    const auto with = [&](auto Shape::*field, long long value) {
        Shape bad = good;
        bad.*field = value;
        return bad;
    };
//% endif
//% for size in out.runtime_sizes
    passed &= answers("${ size } = -1", with(&Shape::${ size }, -1), tensors, cudaErrorInvalidValue);
//% endfor
//% for size in out.may_be_empty
    passed &= answers("${ size } = 0", with(&Shape::${ size }, 0), {}, cudaSuccess);
//% endfor
//% for ld in out.runtime_lds
    passed &= answers("${ ld.name } shorter than a line", with(&Shape::${ ld.name }, ${ ld.line_of("good") } - 1), tensors, cudaErrorInvalidValue);
//% if ld.unit > 1
    passed &= answers("${ ld.name } no multiple of ${ ld.unit }", with(&Shape::${ ld.name }, good.${ ld.name } + 1), tensors, cudaErrorInvalidValue);
//% endif
//% endfor
//% for stride in out.runtime_strides if not stride.may_be_zero
    passed &= answers("${ stride.name } = 0", with(&Shape::${ stride.name }, 0), tensors, cudaErrorInvalidValue);
//% endfor
    return passed;
}

