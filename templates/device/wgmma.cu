//% from "device/mma.cu" import listed, bound
/*# The asynchronous products of a warpgroup (sm_90a), a device function for each of `instructions` (problem/wgmma.py).
    `always`: it adds to sums whenever it is called, and the caller does not say so. #*/
//% macro wgmma(instructions, always=false)
#ifdef __CUDACC__
// The descriptor by which wgmma finds a tile of A or B in shared memory: bits 0-13 the address, 16-29 `leading` and
// 32-45 `stride`, each in units of 16 bytes, 62-63 the swizzle: of lines of 128, 64 or 32 bytes, whose chunks of 16 bytes
// TMA has permuted against bank conflicts, or 0. The hardware permutes the final address, so that a step along a line is
// a plain addition. A tile whose lines run along k lies in groups of 8 lines, `stride` bytes apart, and swizzled it has
// no use for `leading`.
template <int SWIZZLE>
__device__ __forceinline__ unsigned long long make_descriptor(const void* shared, int leading, int stride)
{
    constexpr unsigned long long LAYOUT = SWIZZLE == 128 ? 1 : SWIZZLE == 64 ? 2 : SWIZZLE == 32 ? 3 : 0;
    return LAYOUT << 62 | static_cast<unsigned long long>(stride >> 4) << 32 |
           static_cast<unsigned long long>(leading >> 4) << 16 | (shared_address(shared) & 0x3ffff) >> 4;
}

// Products are asynchronous, in groups. A fence comes before the first one, and again where other code has written to the
// registers of its sums since; a commit closes the group of products since the last commit. After a wait at most the N
// newest groups are under way: nobody may touch the sums of these, nor write what they read.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
//% for one in instructions
//% set registers = one.c_registers
//% set first_b = registers + (4 if one.registers else 1)
/*% if true %*/

/*% endif %*/
//% set letter = {"float": "f", "int": "r", "unsigned": "r"}[one.c_type]
// ${ "Four" if registers >= 4 else "Two" } of a thread's sums, which the instruction reads and writes.
#define SUMS(r) /*% for i in range([registers, 4] | min) %*/"+${ letter }"(d[r${ " + %d" | format(i) if i }])${ ", " if not loop.last }/*% endfor %*/

// ${ "d += a * b" if always else "d = a * b, plus d where it is to `accumulate`" }; 64 x ${ one.n } x ${ one.k }, by a warpgroup. Lane 4 g + t of warp w holds rows
// 16 w + g and 16 w + g + 8: d[4 j + 2 i + c]${ " (of two a register)" if one.c_shared > 1 } is row 16 w + g + 8 i, column 8 j + 2 t + c.
__device__ __forceinline__ void ${ one.function }(${ one.c_type } (&d)[${ registers }], ${ "const unsigned (&a)[4]" if one.registers else "unsigned long long a" }, unsigned long long b${ ", bool accumulate" if not always })
{
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, ${ "1" if always else "%%%d" | format(first_b + 1) }, 0;\n"
        "${ one.ptx } "
//% for first in range(0, registers, 16)
        "${ "{" if loop.first }${ listed(first, [first + 16, registers] | min) }${ "}, " if loop.last else ", " }"
//% endfor
        "${ "{" if one.registers }${ listed(registers, first_b) }${ "}" if one.registers }, %${ first_b }, p${ ", " if one.immediates }${ one.immediates | join(", ") }; }"
//% for first in range(0, registers, 44)
        ${ ":" if loop.first else " " } ${ sums(first, [first + 44, registers] | min) }${ "," if not loop.last }
//% endfor
        : ${ bound("r", "a", 4) if one.registers else '"l"(a)' }, "l"(b)${ ', "r"(static_cast<int>(accumulate))' if not always });
}
#undef SUMS
//% endfor
#endif  // __CUDACC__
//% endmacro

//% macro sums(first, end)
//% for r in range(first, end, 4)
SUMS(${ r })${ ", " if not loop.last }
//%- endfor
//%- endmacro
