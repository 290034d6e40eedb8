/*# The launches `steps` that prepare `operand`, as the end of a function. #*/
//% from "export/launcher/config.cu" import start with context
//% macro launch(step, tiles)
${ start(step.entry, tiles, step.prepare.threads, 0, out.launch.overlapped, step.passed) }
//%- endmacro
//% for step in steps
    const size_t ${ "tiles" if loop.last else step.part ~ "_tiles" } =
//%- for size, tile in step.grid
 ${ "* " if not loop.first }tiles_of(${ size }, ${ tile })
//%- endfor
;
//% if loop.last
    if (tiles == 0) return cudaSuccess;  // ${ "K = 0: %s has no elements" | format(operand) if loop.first else "there are no lines" }
    return ${ launch(step, "tiles") };
//% else
    if (${ step.part }_tiles > 0) {  // with K = 0 ${ operand } has no elements, and its lines sums of 0
        const cudaError_t copied = ${ launch(step, step.part ~ "_tiles") };
        if (copied != cudaSuccess) return copied;
    }
//% endif
//% endfor
