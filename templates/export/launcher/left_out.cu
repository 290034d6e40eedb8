/*# The kernels in a pass for an architecture that runs none of them: nvcc takes the host's stubs from the last pass. #*/
namespace ${ out.name }_impl {
namespace {
//% for name in out.structs
//% if name == "TensorMap"
struct alignas(64) TensorMap { unsigned long long opaque[16]; };
//% else
struct ${ name };
//% endif
//% endfor
}  // namespace
//% for one in out.source.program
extern "C" __global__ void __launch_bounds__(1) ${ one.name }(${ one.parameters | map(attribute="ctype") | join(", ") }) {}
//% endfor
}  // namespace ${ out.name }_impl
