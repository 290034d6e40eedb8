//% from "device/mma.cu" import listed, bound
/*# The asynchronous products of a warpgroup (sm_90a), a device function for each of `instructions` (problem/wgmma.py).
    `always`: it adds to sums whenever it is called, and the caller does not say so. #*/
//% macro wgmma(instructions, always=false)
// The matrix descriptor by which wgmma finds a tile in shared memory. Bits 0-13: address / 16; 16-29 and 32-45: PTX's
// leading and stride byte offsets / 16; 49-51: base offset, 0 as tiles begin with a pattern of the swizzle; 62-63: the
// swizzle, 1, 2, 3 for lines of 128, 64, 32 bytes. `stride` leads from 8 lines to the next 8. `leading` leads from one
// box to the next where lines run across k (MN-major); where they run along k (K-major) nothing reads it. The swizzle
// applies to the final address: to go on by so many bytes in a tile, add them / 16 to the descriptor.
template <int SWIZZLE>
__device__ __forceinline__ unsigned long long make_descriptor(const void* shared, int leading, int stride)
{
    constexpr unsigned long long LAYOUT = SWIZZLE == 128 ? 1 : SWIZZLE == 64 ? 2 : SWIZZLE == 32 ? 3 : 0;
    return LAYOUT << 62 | static_cast<unsigned long long>(stride >> 4) << 32 |
           static_cast<unsigned long long>(leading >> 4) << 16 | (shared_address(shared) & 0x3ffff) >> 4;
}

// wgmma is asynchronous. A fence comes before the first one, and again after other code has written registers that it
// reads or adds to. A commit closes a group of all since the last commit; after a wait at most the N newest groups are
// in flight. Nobody may touch the accumulators of a group in flight, nor overwrite what it reads.
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
#define SUMS(r) /*% for i in range([registers, 4] | min) %*/"+${ letter }"(d[r${ " + %d" | format(i) if i }])${ ", " if not loop.last }/*% endfor %*/  // ${ "four" if registers >= 4 else "two" } of a thread's accumulators
// ${ "d += a * b" if always else "d = a * b, plus d where it is to `accumulate`" }; 64 x ${ one.n } x ${ one.k }, by a warpgroup.${ " " if always else "\n// " }In lane 4 g + t of warp w d[4 j + 2 i + c]${ ", of two a register," if one.c_shared > 1 } is row 16 w + g + 8 i,${ "\n// " if always else " " }column 8 j + 2 t + c.${ " After b: scale-d, imm-scale-a and -b (1: not negated)" if one.immediates }${ ", imm-trans-a and -b (1: MN-major)" if one.immediates | length == 4 }${ "." if one.immediates }
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
//% endmacro

//% macro sums(first, end)
//% for r in range(first, end, 4)
SUMS(${ r })${ ", " if not loop.last }
//%- endfor
//%- endmacro
