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
//% set each = 4 if registers % 4 == 0 else 2
//% set named = "two of a thread's accumulators" if 2 == each < registers else "four of a thread's accumulators, or all"
//% set a = operands_a[one.registers]
//% set first_b = registers + a.registers
//% set letter = {"float": "f", "int": "r", "unsigned": "r"}[one.c_type]
//% set accumulate = {
    true: {"parameter": "", "number": "1", "bound": ""},
    false: {"parameter": ", bool accumulate", "number": "%%%d" | format(first_b + 1), "bound": ", \"r\"(static_cast<int>(accumulate))"}}[always]

#define SUMS(r) "+${ letter }"(d[r${ ["", " + 1", " + 2", " + 3"][:each] | join(']), "+%s"(d[r' | format(letter)) }])  // ${ named }
// d += a * b, 64 x ${ one.n } x ${ one.k }, by a warpgroup; d = a * b where it is told not to accumulate. In lane 4 g + t of warp w
// d[4 j + 2 i + c] is row 16 w + g + 8 i, column 8 j + 2 t + c; sums of f16 are two to a register. Behind b stand scale-d, then
// imm-scale-a and -b (1: not negated) and imm-trans-a and -b (1: MN-major), where the instruction has them.
__device__ __forceinline__ void ${ one.function }(${ one.c_type } (&d)[${ registers }], ${ a.parameter }, unsigned long long b${ accumulate.parameter })
{
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, ${ accumulate.number }, 0;\n"
        "${ one.ptx } "
        "{%${ range(registers) | batch(16) | map("join", ", %") | join(', "\n        "%') }}, "
        "${ a.text | replace("#", listed(registers, first_b)) }, %${ first_b }, ${ (["p"] + one.immediates | list) | join(", ") }; }"
        : SUMS(${ range(0, registers, each) | batch(11) | map("join", "), SUMS(") | join("),\n          SUMS(") })
        : ${ a.bound }, "l"(b)${ accumulate.bound });
}
#undef SUMS
//% endfor
//% endmacro
/*# The first operand, by whether it is in registers: how many these are, the function's parameter, the instruction's text and its
    operands. #*/
//% set operands_a = {
    true: {"registers": 4, "parameter": "const unsigned (&a)[4]", "text": "{#}", "bound": bound("r", "a", 4)},
    false: {"registers": 1, "parameter": "unsigned long long a", "text": "#", "bound": "\"l\"(a)"}}
