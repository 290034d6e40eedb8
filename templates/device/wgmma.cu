//% from "device/mma.cu" import listed, bound
/*# The asynchronous products of a warpgroup (sm_90a), a device function for each of `instructions` (problem/wgmma.py). #*/
//% macro wgmma(instructions)
#ifdef __CUDACC__
// Where a warpgroup's product finds A or B in shared memory: bits 0-13 the address, 16-29 `leading` and 32-45 `stride`, each in
// units of 16 bytes, 62-63 the swizzle: of lines of 128, 64 or 32 bytes, whose chunks of 16 bytes TMA has permuted, or 0. The
// hardware permutes the final address, so that a step along a line is a plain addition. A tile whose lines run along k lies in
// groups of 8 lines, `stride` bytes apart, and swizzled it has no use for `leading`.
template <int SWIZZLE>
__device__ __forceinline__ unsigned long long make_descriptor(const void* shared, int leading, int stride)
{
    constexpr unsigned long long LAYOUT = SWIZZLE == 128 ? 1 : SWIZZLE == 64 ? 2 : SWIZZLE == 32 ? 3 : 0;
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    return LAYOUT << 62 | static_cast<unsigned long long>(stride >> 4) << 32 |
           static_cast<unsigned long long>(leading >> 4) << 16 | (at & 0x3ffff) >> 4;
}

// Before the first product, and again where other code has written to the registers of its sums since.
__device__ __forceinline__ void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Close the group of products since the last commit.
__device__ __forceinline__ void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Wait until at most the N newest groups are under way. Until then nobody may touch their sums, nor write what they read.
template <int N>
__device__ __forceinline__ void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
//% for one in instructions
//% set registers = one.c_registers
//% set first_b = registers + (4 if one.registers else 1)
/*% if true %*/

/*% endif %*/
// d = a * b, plus d where it is to `accumulate`; 64 x ${ one.n } x ${ one.k }, by a warpgroup. Lane 4 g + t of warp w holds rows
// 16 w + g and 16 w + g + 8: d[4 j + 2 i + c]${ " (of two a register)" if one.c_shared > 1 } is row 16 w + g + 8 i, column 8 j + 2 t + c.
__device__ __forceinline__ void ${ one.function }(${ one.c_type } (&d)[${ registers }], ${ "const unsigned (&a)[4]" if one.registers else "unsigned long long a" }, unsigned long long b, bool accumulate)
{
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %${ first_b + 1 }, 0;\n"
        "${ one.ptx } "
//% for first in range(0, registers, 16)
        "${ "{" if loop.first }${ listed(first, [first + 16, registers] | min) }${ "}, " if loop.last else ", " }"
//% endfor
        "${ "{" if one.registers }${ listed(registers, first_b) }${ "}" if one.registers }, %${ first_b }, p${ ", " if one.immediates }${ one.immediates | join(", ") };\n"
        "}\n"
//% for first in range(0, registers, 8)
        ${ ":" if loop.first else " " } ${ bound_some("+" ~ {"float": "f", "int": "r", "unsigned": "r"}[one.c_type], "d", first, [first + 8, registers] | min) }${ "," if not loop.last }
//% endfor
        : ${ bound("r", "a", 4) if one.registers else '"l"(a)' }, "l"(b), "r"(static_cast<int>(accumulate)));
}
//% endfor
#endif  // __CUDACC__
//% endmacro

//% macro bound_some(constraint, name, first, end)
//% for i in range(first, end)
"${ constraint }"(${ name }[${ i }])${ ", " if not loop.last }
//%- endfor
//%- endmacro
