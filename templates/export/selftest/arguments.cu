/*# The launcher's answers to arguments that it must refuse, or that need no launch. #*/
//% set check = ", 1, 0" if test.scalar.is_integer else ", true, 1, 0"
const char* const SOMEWHERE = reinterpret_cast<const char*>(4096);  // an address that nothing is read from

// Its answer to arguments that it must refuse, or that need no launch: no memory is touched.
//% if out.parts
bool answers(const std::string& what, const Shape& s, const Pointers& tensors, cudaError_t wanted, Address workspace = {SOMEWHERE}, std::size_t bytes = SIZE_MAX)
{
    const cudaError_t status = launch({s${ check }}, tensors, workspace, bytes);
//% else
bool answers(const std::string& what, const Shape& s, const Pointers& tensors, cudaError_t wanted)
{
    const cudaError_t status = launch({s${ check }}, tensors);
//% endif
    return report(status == wanted, what, cudaGetErrorName(status));
}

bool checks_its_arguments()
{
    const Shape good = SHAPES[0];
    const struct {
        std::string name;
        unsigned align;
    } aligned[] = {
//%- for name in out.located.values()
{"${ name }", ${ out.aligns[name] }}${ ", " if not loop.last }
//%- endfor
};
    Pointers tensors;
    tensors.fill({SOMEWHERE});
    bool passed = true;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const auto& [name, align] = aligned[i];
        Pointers odd = tensors;
        odd[i] = {nullptr};
        passed &= answers(name + " null", good, odd, cudaErrorInvalidValue);
        odd[i] = {SOMEWHERE + align / 2};
        if (align > 1) passed &= answers(name + " misaligned", good, odd, cudaErrorMisalignedAddress);
    }
//% if out.parts
//% set needed = "%s_workspace_bytes(%s)" | format(out.name, out.runtime_sizes | map("replace", "", "good.", 1) | join(", "))
    passed &= answers("workspace null", good, tensors, cudaErrorInvalidValue, {nullptr});
    passed &= answers("workspace misaligned", good, tensors, cudaErrorMisalignedAddress, {SOMEWHERE + 16});
    passed &= answers("workspace too small", good, tensors, cudaErrorInvalidValue, {SOMEWHERE}, ${ needed } - 1);
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

