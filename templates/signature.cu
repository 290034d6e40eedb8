//% macro signature(kernel)
extern "C" __global__ void __launch_bounds__(${ kernel.launch_bounds | join(", ") })
${ kernel.name }(
//% for p in kernel.parameters
    ${ p.ctype }${ " __restrict__ " if p.is_pointer else " " }${ p.name }${ ")" if loop.last else "," }
//% endfor
//% endmacro
