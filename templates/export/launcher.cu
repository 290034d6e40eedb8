/*# The host's side of NAME.cu, appended to the kernel's text: checks the arguments, launches. #*/

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)  // NVRTC and host emulation take the kernel alone
/*% if out.feature %*/

#if defined(__CUDA_ARCH__) && !defined(${ out.feature })
#error "${ out.name } has instructions of ${ out.arch } alone: compile it with ${ out.nvcc_arch }"
#endif
/*% endif %*/

#include "${ out.name }.h"
/*% if out.maps.encoded %*/

#include <cuda.h>
/*% endif %*/
/*% if out.planned %*/

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
/*% else %*/

#include <climits>
#include <cstdint>
#include <initializer_list>
/*% endif %*/

//% if out.adds_up
//% set sizes = out.workspace_sizes | map("replace", "", "int ", 1) | join(", ")
namespace {

size_t tiles_of_c(${ sizes })
{
    const auto tiles = [](size_t size, size_t tile) { return (size + tile - 1) / tile; };
    return ${ out.tiles };
}
/*% if out.stream %*/

// The grid's blocks: whole waves of ${ out.stream }, of which those of the last one share its tiles.
size_t blocks_for(size_t tiles)
{
    return (tiles + ${ out.stream - 1 }) / ${ out.stream } * ${ out.stream };
}
/*% endif %*/

}  // namespace

extern "C" size_t ${ out.name }_partials_bytes(${ sizes })
{
//% if out.stream
    return (${ out.stream } + tiles_of_c(${ out.workspace_sizes | join(", ") }) % ${ out.stream }) * ${ out.partial_elements } * sizeof(${ out.element.sums });
//% else
    return tiles_of_c(${ out.workspace_sizes | join(", ") }) * ${ "%d * " | format(out.splits) if out.splits > 1 }${ out.partial_elements } * sizeof(${ out.element.sums });
//% endif
}

extern "C" size_t ${ out.name }_semaphores_bytes(${ sizes })
{
//% if out.stream
//% for size in out.workspace_sizes
    static_cast<void>(${ size });  // as many for all of them
//% endfor
    return ${ out.stream } * sizeof(unsigned);
//% else
    return tiles_of_c(${ out.workspace_sizes | join(", ") }) * sizeof(unsigned);
//% endif
}

//% endif
//% if out.planned
//% include "export/launcher/plan.cu"
//% else
extern "C" cudaError_t ${ out.name }_launch(
//% for p in out.arguments
    ${ p.ctype } ${ p.text },
//% endfor
    cudaStream_t stream)
{
//% if out.runtime_sizes
    constexpr int size_limit = ${ out.size_limit };  // rounding a size up to a tile must stay below 2^31
//% for size in out.runtime_sizes
    if (${ size } < 0 || ${ size } > size_limit) return cudaErrorInvalidValue;
//% endfor
//% endif
//% for ld in out.runtime_lds
    if (${ ld.name } < ${ ld.line }${ " || " ~ ld.name ~ " % " ~ ld.unit ~ " != 0" if ld.unit > 1 }) return cudaErrorInvalidValue;
//% endfor
//% for x in out.runtime_strides
    if (${ x.name ~ " != 0 && " if x.may_be_zero }${ x.name } < (${ x.lines } - 1LL) * ${ x.ld } + ${ x.line }) return cudaErrorInvalidValue;
//% if x.unit > 1
    if (${ x.name } % ${ x.unit } != 0) return cudaErrorInvalidValue;
//% endif
//% endfor
//% if out.may_be_empty
    if (${ out.may_be_empty | join(" == 0 || ") } == 0) return cudaSuccess;  // C has no elements
//% endif
//% set A, B, C = out.operands
//% if "K" in out.runtime_sizes and not out.pointers
    if (C == nullptr || (K > 0 && (A == nullptr || B == nullptr))) return cudaErrorInvalidValue;
//% else
    if (${ A } == nullptr || ${ B } == nullptr || ${ C } == nullptr) return cudaErrorInvalidValue;
//% endif
//% if out.adds_up
    if (partials == nullptr || semaphores == nullptr) return cudaErrorInvalidValue;
//% endif
//% if out.extra
    for (const void* operand : std::initializer_list<const void*>{${ out.extra | join(", ") }}) {
        if (operand == nullptr) return cudaErrorInvalidValue;
    }
//% endif
//% for group in out.alignments
    for (const void* operand : std::initializer_list<const void*>{${ group.names | join(", ") }}) {
        if (reinterpret_cast<std::uintptr_t>(operand) % ${ group.bytes } != 0) return cudaErrorMisalignedAddress;
    }
/*% endfor %*/

//% include "export/launcher/blocks.cu"
    if (blocks > INT_MAX) return cudaErrorInvalidConfiguration;

//% include "export/launcher/start.cu"
}
/*% endif %*/

#endif  // __CUDACC__ && !__CUDACC_RTC__
