/*# Codes of 4 or 8 bits, dequantised in registers. Of a warp's 16 columns of B by 16 k a lane has eight codes, in one word or in two; two
    codes for each of four registers. `of` is a kernel.prepare.Codes. #*/
/*# The instructions' suffix for pairs, by type. #*/
//% set pairs = {"BF16": "bf16x2", "F16": "f16x2"}
/*# The type of eight codes, by the words that hold them. #*/
//% set step = {1: "unsigned", 2: "uint2"}
/*# A zero point of a group in 16 bits, or where there is none, as the number that is subtracted from those of codes. #*/
//% macro zero_of(of, stored)
//% if of.wide
${ "0x%s | %s" | format(of.magic, stored) if of.zeros else "0x" ~ of.zero }
//%- else
replicated(${ stored ~ (" ^ 0x8000" if of.negated) if of.zeros else "0x" ~ of.zero })
//%- endif
//%- endmacro
//% macro chunks_across()
// Chunks of 64 columns that lie side by side.
__device__ __forceinline__ int chunks_across(Shape s) { return (s.N + 63) / 64; }
//% endmacro
//% macro words(of)
//% if of.step_words == 1
// Codes that a thread loads at once, words of eight.
//% else
// Codes that a thread loads at once: eight in two words.
//% endif
struct alignas(${ 4 * of.words }) Codes {
    ${ step[of.step_words] } at[${ of.steps }];
};
//% endmacro
/*# `raw`: for code that loads them long before their use. #*/
//% macro scales(of, raw=false)
//% if of.wide
// Scales and zero points of two columns of B, 8 apart. A zero point is a float that has ${ of.added } added to it, as codes have.
//% else
// Scales and zero points of two columns of B, 8 apart. A zero point has ${ of.added } added to it, as codes have, and is replicated in both
// halves of a word.
//% endif
//% if of.negated
// It is negated, for fma to subtract it.
//% endif
//% if not of.sums and of.wide
// Scales are replicated in both halves of a word.
//% elif not of.sums
// Scales are replicated, too.
//% endif
struct Scales {
//% if of.sums
    float scale[2];
    unsigned zero[2];
//% else
    unsigned scale[2], zero[2];
//% endif
};

//% if of.sums and of.number.ctype == "F16"
__device__ __forceinline__ float float_of(unsigned short f16)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(f16));
    return value;
}

//% endif
//% if not (of.sums and of.wide)
__device__ __forceinline__ unsigned replicated(unsigned number) { return number | number << 16; }

//% endif
//% if raw
// Scales as they lie in memory. They are converted where they are used, since that waits for the loads.
struct RawScales {
    unsigned short scale[2]${ ", zero[2]" if of.zeros };
};

// Load those of columns `column` and `column + 8` of a chunk; they follow its codes.
__device__ __forceinline__ RawScales load_scales(const unsigned* chunk, int column)
{
    const unsigned short* const scales = reinterpret_cast<const unsigned short*>(chunk + ${ 2 * of.bits } * CHUNK_K) + column;
    return {{scales[0], scales[8]}${ ", {scales[64], scales[72]}" if of.zeros }};
}

__device__ __forceinline__ Scales scales_of(const RawScales& raw)
{
    Scales found;
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        found.scale[i] = replicated(raw.scale[i]);
        found.zero[i] = ${ zero_of(of, "raw.zero[i]") };
    }
    return found;
}
//% else
// Load those of columns `column` and `column + 8` of a chunk; they follow its codes.
__device__ __forceinline__ Scales load_scales(const unsigned* chunk, int column)
{
    const unsigned short* const scales = reinterpret_cast<const unsigned short*>(chunk + ${ 2 * of.bits } * CHUNK_K) + column;
    Scales found;
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
//% if not of.sums
        found.scale[i] = replicated(scales[8 * i]);
//% elif of.number.ctype == "BF16"
        found.scale[i] = __uint_as_float(scales[8 * i] << 16);
//% else
        found.scale[i] = float_of(scales[8 * i]);
//% endif
        found.zero[i] = ${ zero_of(of, "scales[64 + 8 * i]") };
    }
    return found;
}
//% endif
//% endmacro
//% macro numbers(of)
${ numbers_of_nibbles(of) if of.bits == 4 else numbers_of_bytes(of) }
//%- endmacro
//% macro numbers_of_nibbles(of)
//% set magic, pair = "0x" ~ of.magic * 2, pairs[of.number.ctype]
// Dequantise eight codes. Register r of a fragment has column g + 8 * (r % 2) at k = 2 t + 8 * (r / 2) and the next (lane 4 g + t).
// ${ of.added } plus a code is exact (the code becomes its last bits), and so is its difference from ${ of.added } plus a zero point.
//% if not of.sums
// The difference's product with the scale is rounded once.
//% endif
//% if of.fused
// fma adds -0 to that product, which changes nothing.
//% endif
__device__ __forceinline__ void dequantise(unsigned codes, const Scales& of, unsigned (&numbers)[4])
{
    unsigned last_bits;  // of both halves of a word, in a register: the one constant that lop3 holds is the number added to codes
    asm volatile("mov.b32 %0, 0x000f000f;" : "=r"(last_bits));
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
//% if of.fused
        asm("{ .reg .b32 code, difference;\n"
            "lop3.b32 code, %1, %2, ${ magic }, 0xea;\n"  // (%1 & %2) | ${ magic }
            "fma.rn.${ pair } difference, code, %5, %3;\n"
            "fma.rn.${ pair } %0, difference, %4, %6; }"
            : "=r"(numbers[r])
            : "r"(codes >> 4 * r), "r"(last_bits), "r"(of.zero[r % 2]), "r"(of.scale[r % 2]), "r"(0x3f803f80), "r"(0x80008000));
//% elif of.sums
        asm("{ .reg .b32 code;\n"
            "lop3.b32 code, %1, %2, ${ magic }, 0xea;\n"  // (%1 & %2) | ${ magic }
            "sub.rn.${ pair } %0, code, %3; }"
            : "=r"(numbers[r]) : "r"(codes >> 4 * r), "r"(last_bits), "r"(of.zero[r % 2]));
//% else
        asm("{ .reg .b32 code, difference;\n"
            "lop3.b32 code, %1, %2, ${ magic }, 0xea;\n"  // (%1 & %2) | ${ magic }
            "sub.rn.${ pair } difference, code, %3;\n"
            "mul.rn.${ pair } %0, difference, %4; }"
            : "=r"(numbers[r]) : "r"(codes >> 4 * r), "r"(last_bits), "r"(of.zero[r % 2]), "r"(of.scale[r % 2]));
//% endif
    }
}
//% endmacro
//% macro numbers_of_bytes(of)
//% set pair = pairs[of.number.ctype]
// Dequantise eight codes, the bytes of two words. Register r of a fragment has column g + 8 * (r % 2) at k = 2 t + 8 * (r / 2) and the next
// (lane 4 g + t). ${ of.added } plus a code is exact (the code becomes its last bits), and so is its difference from ${ of.added } plus a zero point.
//% if of.wide
// The difference has eight significant bits: the upper half of a float holds it.
//% endif
//% if not of.sums
// The difference's product with the scale is rounded once.
//% endif
//% if of.fused
// fma adds -0 to that product, which changes nothing.
//% endif
__device__ __forceinline__ void dequantise(uint2 codes, const Scales& of, unsigned (&numbers)[4])
{
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        const unsigned word = r < 2 ? codes.x : codes.y;
//% if of.wide
        const float zero = __uint_as_float(of.zero[r % 2]);
        const float first = __uint_as_float(__byte_perm(word, 0x${ of.magic }, r % 2 ? 0x7442 : 0x7440)) - zero;
        const float second = __uint_as_float(__byte_perm(word, 0x${ of.magic }, r % 2 ? 0x7443 : 0x7441)) - zero;
        const unsigned difference = __byte_perm(__float_as_uint(first), __float_as_uint(second), 0x7632);
//% else
        const unsigned code = __byte_perm(word, 0x${ of.magic }, r % 2 ? 0x5352 : 0x5150);
//% endif
//% if of.sums and of.wide
        numbers[r] = difference;
//% elif of.sums
        asm("sub.rn.${ pair } %0, %1, %2;" : "=r"(numbers[r]) : "r"(code), "r"(of.zero[r % 2]));
//% elif of.fused and of.wide
        asm("fma.rn.${ pair } %0, %1, %2, %3;" : "=r"(numbers[r]) : "r"(difference), "r"(of.scale[r % 2]), "r"(0x80008000));
//% elif of.wide
        asm("mul.rn.${ pair } %0, %1, %2;" : "=r"(numbers[r]) : "r"(difference), "r"(of.scale[r % 2]));
//% else
        asm("{ .reg .b32 difference;\n"
            "sub.rn.${ pair } difference, %1, %2;\n"
            "mul.rn.${ pair } %0, difference, %3; }"
            : "=r"(numbers[r]) : "r"(code), "r"(of.zero[r % 2]), "r"(of.scale[r % 2]));
//% endif
    }
}
//% endmacro
