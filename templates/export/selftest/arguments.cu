/*# The launcher's answers to arguments that it must refuse, or that need no launch. #*/
//% set check = ", 1, 0" if test.scalar.is_integer else ", true, 1, 0"
const char* const SOMEWHERE = reinterpret_cast<const char*>(4096);  // an address that nothing is read from

bool checks_its_arguments()
{
    bool passed = true;
    const auto answers = [&](const string& what, cudaError_t wanted, const Shape& s, const Pointers& tensors
//%- if out.parts
, Address workspace = {SOMEWHERE}, size_t bytes = SIZE_MAX
//%- endif
) {
        const cudaError_t status = launch({s${ check }}, tensors${ ", workspace, bytes" if out.parts });
        passed &= report(status == wanted, what, cudaGetErrorName(status));
    };
    const Shape good = SHAPES[0];
    const std::pair<string, unsigned> aligned[] = {
//%- for name in out.located.values()
{"${ name }", ${ out.aligns[name] }}${ ", " if not loop.last }
//%- endfor
};
    Pointers tensors;
    tensors.fill({SOMEWHERE});
    for (size_t i = 0; i < tensors.size(); ++i) {
        const auto& [name, align] = aligned[i];
        Pointers odd = tensors;
        odd[i] = {nullptr};
        answers(name + " null", cudaErrorInvalidValue, good, odd);
        odd[i] = {SOMEWHERE + align / 2};
        if (align > 1) answers(name + " misaligned", cudaErrorMisalignedAddress, good, odd);
    }
//% if out.parts
//% set needed = "%s(%s)" | format(of("workspace_bytes"), out.runtime_sizes | map("replace", "", "good.", 1) | join(", "))
    answers("workspace null", cudaErrorInvalidValue, good, tensors, {nullptr});
    answers("workspace misaligned", cudaErrorMisalignedAddress, good, tensors, {SOMEWHERE + 16});
    answers("workspace too small", cudaErrorInvalidValue, good, tensors, {SOMEWHERE}, ${ needed } - 1);
//% endif
//% if out.runtime_names
    const auto with = [&](auto Shape::*field, long long value) {
        Shape bad = good;
        bad.*field = value;
        return bad;
    };
//% endif
//% for size in out.runtime_sizes
    answers("${ size } = -1", cudaErrorInvalidValue, with(&Shape::${ size }, -1), tensors);
//% endfor
//% for size in out.may_be_empty
    answers("${ size } = 0", cudaSuccess, with(&Shape::${ size }, 0), {});
//% endfor
//% for ld in out.runtime_lds
    answers("${ ld.name } shorter than a line", cudaErrorInvalidValue, with(&Shape::${ ld.name }, ${ ld.line_of("good") } - 1), tensors);
//% if ld.unit > 1
    answers("${ ld.name } no multiple of ${ ld.unit }", cudaErrorInvalidValue, with(&Shape::${ ld.name }, good.${ ld.name } + 1), tensors);
//% endif
//% endfor
//% for stride in out.runtime_strides if not stride.may_be_zero
    answers("${ stride.name } = 0", cudaErrorInvalidValue, with(&Shape::${ stride.name }, 0), tensors);
//% endfor
    return passed;
}

