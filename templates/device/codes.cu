/*# Packed codes of 4 bits, of which threads make numbers in registers. Of a warp's 16 columns of B by 16 k a lane has a word of eight codes,
    two for each of four registers. `of` is a kernel.prepare.Codes. #*/
/*# By type: a number whose last bits are those of a code, as bits and as a word, and the instructions' suffix for pairs. #*/
//% set magics, names, pairs = {"BF16": "0x4300", "F16": "0x6400"}, {"BF16": "128", "F16": "1024"}, {"BF16": "bf16x2", "F16": "f16x2"}
//% macro words(of)
// Codes that a thread loads at once, words of eight.
struct alignas(${ 4 * of.words }) Codes {
    unsigned at[${ of.words }];
};
//% endmacro
//% macro scales(of)
//% set magic = magics[of.number.ctype]
// Scales and zero points of two columns of B, 8 apart.
// A zero point has ${ names[of.number.ctype] } added to it, as codes have, and fills its word twice, for instructions on pairs.
//% if not of.sums
// A scale fills its word twice, too.
//% endif
//% if of.fused
// Its sign is changed, for fma to subtract it.
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
__device__ __forceinline__ unsigned twice(unsigned number) { return number | number << 16; }

// Those of a chunk's `column` and of the one 8 further on, which lie behind the codes of 64 columns.
__device__ __forceinline__ Scales load_scales(const unsigned* chunk, int column)
{
    const unsigned short* const scales = reinterpret_cast<const unsigned short*>(chunk + 8 * CHUNK_K) + column;
    Scales found;
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        found.scale[i] = ${ ("__uint_as_float(scales[8 * i] << 16)" if of.number.ctype == "BF16" else "float_of(scales[8 * i])") if of.sums else "twice(scales[8 * i])" };
//% if of.zeros
        found.zero[i] = twice(scales[64 + 8 * i]${ " ^ 0x8000" if of.fused });
//% else
        found.zero[i] = twice(${ magic | replace("0x4", "0xc") if of.fused else magic }${ " + %d" | format(of.middle) if of.middle });
//% endif
    }
    return found;
}
//% endmacro
//% macro numbers(of)
//% set magic, pair = magics[of.number.ctype], pairs[of.number.ctype]
// The numbers of eight codes, two in each register: of column g at k + 2 t and the next, of column g + 8, and of both at k + 8 + 2 t.
// ${ names[of.number.ctype] } plus a code is exact, its last bits are the code's, and its distance from a zero point is exact, too.
//% if not of.sums
// The distance's product with the scale is rounded once.
//% endif
//% if of.fused
// fma adds -0 to that product, which changes nothing.
//% endif
__device__ __forceinline__ void numbers_of(unsigned codes, const Scales& of, unsigned (&numbers)[4])
{
    unsigned last_bits;  // of both halves of a word: volatile, or ptxas would load this constant again for each use
    asm volatile("mov.b32 %0, 0x000f000f;" : "=r"(last_bits));
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
//% if of.fused
        asm("{ .reg .b32 code, distance;\n"
            "lop3.b32 code, %1, %2, ${ magic }${ magic[2:] }, 0xea;\n"  // (%1 & %2) | ${ magic }${ magic[2:] }
            "fma.rn.${ pair } distance, code, %5, %3;\n"
            "fma.rn.${ pair } %0, distance, %4, %6; }"
            : "=r"(numbers[r])
            : "r"(codes >> 4 * r), "r"(last_bits), "r"(of.zero[r % 2]), "r"(of.scale[r % 2]), "r"(0x3f803f80), "r"(0x80008000));
//% elif of.sums
        asm("{ .reg .b32 code;\n"
            "lop3.b32 code, %1, %2, ${ magic }${ magic[2:] }, 0xea;\n"  // (%1 & %2) | ${ magic }${ magic[2:] }
            "sub.rn.${ pair } %0, code, %3; }"
            : "=r"(numbers[r]) : "r"(codes >> 4 * r), "r"(last_bits), "r"(of.zero[r % 2]));
//% else
        asm("{ .reg .b32 code, distance;\n"
            "lop3.b32 code, %1, %2, ${ magic }${ magic[2:] }, 0xea;\n"  // (%1 & %2) | ${ magic }${ magic[2:] }
            "sub.rn.${ pair } distance, code, %3;\n"
            "mul.rn.${ pair } %0, distance, %4; }"
            : "=r"(numbers[r]) : "r"(codes >> 4 * r), "r"(last_bits), "r"(of.zero[r % 2]), "r"(of.scale[r % 2]));
//% endif
    }
}
//% endmacro
