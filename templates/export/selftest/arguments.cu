/*# The launcher's answers to arguments that it must refuse, or that need no launch. #*/
// The launcher's answer to arguments that it must refuse, or that need no launch: no memory is touched.
//% if out.parts
bool answers(const std::string& what, const Shape& s, const Pointers& tensors, cudaError_t wanted, Address workspace = {4096}, std::size_t bytes = SIZE_MAX)
{
    const cudaError_t status = launch(s, tensors, {1, 0}, workspace, bytes);
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
    const Shape good = SHAPES[0];
    const std::pair<std::string, unsigned> aligned[] = {
//%- for name in out.located.values()
{"${ name }", ${ out.aligns[name] }}${ ", " if not loop.last }
//%- endfor
};
    Pointers tensors;
    tensors.fill({4096});  // which nothing is read from
    bool passed = true;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const auto& [name, align] = aligned[i];
        Pointers odd = tensors;
        odd[i] = {0};
        passed &= answers(name + " null", good, odd, cudaErrorInvalidValue);
        odd[i] = {4096 + align / 2};
        if (align > 1) passed &= answers(name + " misaligned", good, odd, cudaErrorMisalignedAddress);
    }
//% if out.parts
//% set needed = "%s_workspace_bytes(%s)" | format(out.name, out.runtime_sizes | map("replace", "", "good.", 1) | join(", "))
    passed &= answers("workspace null", good, tensors, cudaErrorInvalidValue, {0});
    passed &= answers("workspace misaligned", good, tensors, cudaErrorMisalignedAddress, {4096 + 16});
    passed &= answers("workspace too small", good, tensors, cudaErrorInvalidValue, {4096}, ${ needed } - 1);
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

