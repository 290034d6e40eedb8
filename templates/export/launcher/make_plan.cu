/*# NAME_make_plan: checks the arguments, and encodes tensor maps. With `packed` the plan reads what was made of B there. #*/
//% set major, minor = out.capability
//% if out.packed
static cudaError_t ${ out.name }_plan_of(
${ out.declared(out.arguments, before="Plan* plan", behind="const void* packed") })
//% else
cudaError_t ${ out.name }_make_plan(
${ out.declared(out.arguments, before="Plan* plan", unused=not out.parts) })
//% endif
{
    const cudaError_t begun = begin(plan);
    if (begun != cudaSuccess) return begun;
//% if out.runtime_sizes
    constexpr int size_limit = ${ out.size_limit };  // rounding a size up to a tile must stay below 2^31
    const struct {
        const char* name;
        int value;
    } sizes[] = {
//%- for size in out.runtime_sizes
{"${ size }", ${ size }}${ ", " if not loop.last }
//%- endfor
};
    for (const auto& [name, value] : sizes)
        if (value < 0 || value > size_limit) return refuse(cudaErrorInvalidValue, "%s = %d is not in 0 to %d", name, value, size_limit);
//% endif
//% if "K" in out.runtime_sizes and out.maps.bound
    if (K > ${ out.maps.bound }) return refuse(cudaErrorInvalidValue, "K = %d is more than %d", K, ${ out.maps.bound });  // lines of a bounded map
//% endif
//% if out.runtime_lds or out.runtime_strides
    const struct {
        const char* name;
        long long value, least, unit;
    } distances[] = {
//% for ld in out.runtime_lds
        {"${ ld.name }", ${ ld.name }, ${ ld.line if ld.line.isdigit() or not ld.least else "std::max(%d, %s)" | format(ld.least, ld.line) }, ${ ld.unit }},
//% endfor
//% for x in out.runtime_strides
        {"${ x.name }", ${ x.name }, ${ x.least() }, ${ x.unit }},
//% endfor
    };
    for (const auto& [name, value, least, unit] : distances) {
        if (value < least) return refuse(cudaErrorInvalidValue, "%s = %lld is less than %lld", name, value, least);
        if (value % unit != 0) return refuse(cudaErrorInvalidValue, "%s = %lld is no multiple of %lld elements", name, value, unit);
    }
//% endif
//% if out.may_be_empty
    if (${ out.may_be_empty | join(" == 0 || ") } == 0) {  // C has no elements
        *plan = {};
        return cudaSuccess;
    }
//% endif
    const struct {
        const char* name;
        const void* address;
        unsigned align;
//% if out.may_be_null
        bool may_be_null;
//% endif
    } pointers[] = {
//%- for name, align in out.aligns.items()
//% set address = "packed != nullptr ? packed : " ~ name if name in out.packed_from and out.packed else name
//% set null = ", K == 0" if name in out.may_be_null else ", false" if out.may_be_null
{"${ name }", ${ address }, ${ align }${ null }}${ ", " if not loop.last or out.parts }
//%- endfor
//%- if out.parts
//% set address = "packed != nullptr ? packed : workspace" if out.packed_end == "bytes" and out.packed else "workspace"
{"workspace", ${ address }, ${ out.workspace_align }${ ", false" if out.may_be_null }}
//%- endif
};
    for (const auto& [name, address, align${ ", may_be_null" if out.may_be_null }] : pointers) {
//% if out.may_be_null
        if (address == nullptr && may_be_null) continue;
//% endif
//% if out.packed
        const cudaError_t wrong = check(name, address, align);
        if (wrong != cudaSuccess) return wrong;
//% else
        if (address == nullptr) return refuse(cudaErrorInvalidValue, "%s is null", name);
        if (reinterpret_cast<std::uintptr_t>(address) % align != 0)
            return refuse(cudaErrorMisalignedAddress, "%s = %p is no multiple of %u bytes", name, address, align);
//% endif
    }
//% if out.parts
    const Workspace at = workspace_of(${ out.workspace_sizes | join(", ") });
//% if out.packed
    const size_t begin = packed != nullptr ? at.${ out.packed_end } : 0;  // the workspace then has no part of B's
    if (workspace_bytes < at.bytes - begin)
        return refuse(cudaErrorInvalidValue, "workspace_bytes = %zu is less than %zu", workspace_bytes, at.bytes - begin);
    char* const memory = static_cast<char*>(workspace) - begin;
    char* const of_b = packed != nullptr ? static_cast<char*>(const_cast<void*>(packed)) : memory;
//% else
    if (workspace_bytes < at.bytes)
        return refuse(cudaErrorInvalidValue, "workspace_bytes = %zu is less than %zu", workspace_bytes, at.bytes);
    char* const memory = static_cast<char*>(workspace);
//% endif
//% for part in out.parts
    ${ part.ctype } const ${ part.name } = reinterpret_cast<${ part.ctype }>(${ "of_b" if part in out.packed else "memory" } + at.${ part.name });
//% endfor
//% endif

//% if out.stream
    const size_t blocks = tiles_of(${ out.tiles_of_c }, ${ out.stream }) * ${ out.stream };  // whole waves, of which those of the last one share its tiles
//% else
//% set each, tiles = out.launch.blocks_per_tile, out.tiles_of_c if out.launch.leaves_partials else out.tiles
    const size_t blocks = ${ "%d * " | format(each) if each > 1 }${ tiles };
//% endif
//% if out.tile_sizes
    if (blocks > INT_MAX) return refuse(cudaErrorInvalidConfiguration, "%zu blocks are more than %d", blocks, INT_MAX);
/*% endif %*/

//% if out.asks_device
    int device = 0, major = 0, minor = 0${ ", sms = 0" if out.launch.persistent };
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess) status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (status == cudaSuccess) status = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
//% if out.launch.persistent
    if (status == cudaSuccess) status = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
//% endif
    if (status != cudaSuccess) return refuse(status, "no device answers: %s", cudaGetErrorName(status));
//% if out.feature
    if (major != ${ major } || minor != ${ minor })
        return refuse(cudaErrorNoKernelImageForDevice, "the device is an sm_%d%d, and the kernel is for sm_${ major }${ minor } alone", major, minor);
//% else
    if (major < ${ major })
        return refuse(cudaErrorNoKernelImageForDevice, "the device is an sm_%d%d, and the kernel needs an sm_${ major }${ minor }", major, minor);
//% endif

//% endif
//% if out.launch.groups
    // Blocks find their tiles on the device, by the groups' ends.
//% if out.launch.cluster > 1
    const size_t launched = std::min<size_t>(blocks / ${ out.launch.cluster }, sms / ${ out.launch.cluster }) * ${ out.launch.cluster };
//% else
    const size_t launched = std::min<size_t>(blocks, sms);
//% endif
//% elif out.launch.persistent
    // As few blocks as leave no block more tiles than one on each SM would have: the power that idle SMs save, the others use.
//% if out.launch.cluster > 1
    const size_t clusters = blocks / ${ out.launch.cluster }, at_once = sms / ${ out.launch.cluster };
    const size_t turns = std::max<size_t>(1, (clusters + at_once - 1) / at_once);
    const size_t launched = (clusters + turns - 1) / turns * ${ out.launch.cluster };
//% else
    const size_t turns = std::max<size_t>(1, (blocks + sms - 1) / sms);
    const size_t launched = (blocks + turns - 1) / turns;
//% endif
//% endif
    Plan made = {${ out.planned | join(", ") }, static_cast<unsigned>(${ "launched" if out.launch.persistent else "blocks" })${ ", packed != nullptr" if out.packed }};
//% if out.maps.encoded
//% if out.maps.encoded | selectattr("address", "in", out.may_be_null) | list
    // A map needs an address even where K = 0 and nothing is read.
    const auto mapped = [C](const void* address) { return address != nullptr ? address : reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(C) / 16 * 16); };
//% endif
    Encode encode = nullptr;
    status = find(encode);
//% if out.maps.encoded | selectattr("conv") | list
    EncodeImages of_images = nullptr;
    if (status == cudaSuccess) status = find(of_images);
//% endif
//% endif
//% for one in out.maps.encoded
//% set call, address = "encode_images(of_images" if one.conv else "encode_map(encode", one.located
//% set address = "mapped(%s)" | format(address) if address in out.may_be_null else address
    if (status == cudaSuccess)
        status = ${ call }, "${ one.address }", ${ address }, CU_TENSOR_MAP_DATA_TYPE_${ one.type },
            {
//%- for size in one.tensor
//% set extent = "std::max(1, K)" if size == "K" else size
${ size if size.isdigit() else "cuuint64_t(%s)" | format(extent) }${ ", " if not loop.last }
//%- endfor
}, {
//%- for distance in one.distances
${ distance if distance.isdigit() or distance.startswith("copy_ld") else "cuuint64_t(%s)" | format(distance) } * ${ one.element_bytes }${ ", " if not loop.last }
//%- endfor
//% set layout = "CU_TENSOR_MAP_SWIZZLE_%s, CU_TENSOR_MAP_L2_PROMOTION_%s" | format(one.swizzle, one.promotion)
//% if one.conv
},
            {${ one.map.corners[:2] | join(", ") }}, {${ one.map.corners[2:] | join(", ") }}, ${ one.box | join(", ") }, {1, ${ one.map.steps | join(", ") }, 1}, ${ layout },
//% else
}, {${ one.box | join(", ") }}, ${ layout },
//% endif
            made.kept_${ one.map.parameter });
//% endfor
//% if out.maps.encoded
    if (status != cudaSuccess) return status;
//% endif
    *plan = made;
    return cudaSuccess;
}
