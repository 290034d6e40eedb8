/*# The element types that C++ lacks, and what reads and stores them. A kernel has those of its operands. `packed`: it unpacks
    A and B by `unpack`. `converts`: it reads elements of A and B at all. `reads_c`: it reads C.
    `halves`: its sums are halves. `adds`: it adds integers up. `pieces`: what A and B are split into. `rounds`: the label of a type
    that it rounds to besides. #*/
//% macro element_types(packed=false, reads_c=true, converts=true, halves=false, adds=true, pieces=none, rounds="")
//% set used, factors = types.operands | map(attribute="label") | list, [types.a.label, types.b.label]
//% set read = (factors if converts and not packed else []) + ([types.c.label] if reads_c else [])
//% if types.accumulator.is_integer and adds
${ multiply_add() }
//% endif
//% set split = pieces.dtype.label if pieces else ""
//% if "bf16" in used or split == "bf16"
${ bf16("bf16" in read or split == "bf16", types.c.label == "bf16" or "bf16" in (split, rounds)) }
//% endif
//% set unpacked = factors if packed and converts else []
//% if halves or "f16" in read or "e5m2" in read or "f16" in unpacked or "e5m2" in unpacked or "e4m3" in unpacked and "e4m3" not in computed
${ from_f16() }
//% endif
//% if "f16" in used
${ f16("f16" in read, types.c.label == "f16" or rounds == "f16") }
//% endif
//% if "e4m3" in used
${ e4m3("e4m3" in read or "e4m3" in computed and "e4m3" in unpacked, types.c.label == "e4m3") }
//% endif
//% if "e5m2" in used
${ e5m2("e5m2" in read, types.c.label == "e5m2") }
//% endif
//% if types.c.label in ("s8", "u8")
${ saturated() }
//% endif
//% endmacro

/*# sum += term; an integer sum wraps around. #*/
//% macro add_to(sum, term)
//% if types.accumulator.is_integer
${ sum } = multiply_add(1, ${ term }, ${ sum });
//%- else
${ sum } += ${ term };
//%- endif
//%- endmacro

//% macro multiply_add()
// a * b + c, which wraps around at 32 bits.
__device__ __forceinline__ int multiply_add(int a, int b, int c)
{
    return static_cast<int>(static_cast<unsigned>(a) * static_cast<unsigned>(b) + static_cast<unsigned>(c));
}
//% endmacro

//% macro multiply_subtract()
// c - a * b, which wraps around at 32 bits.
__device__ __forceinline__ int multiply_subtract(int a, int b, int c)
{
    return static_cast<int>(static_cast<unsigned>(c) - static_cast<unsigned>(a) * static_cast<unsigned>(b));
}
//% endmacro

/*# A type of the kernel's own: its bits, and conversions from float where it is `stored` and to float where it is `read`. #*/
//% macro element_type(name, bits, stored, from_float, read, to_float)
struct ${ name } {
    ${ bits } bits;
//% if stored
    ${ name }() = default;
    __device__ __forceinline__ explicit ${ name }(float value) : bits(${ from_float }(value)) {}
//% endif
//% if read
    __device__ __forceinline__ operator float() const { return ${ to_float }; }
//% endif
};
//% endmacro

/*# The names of conversions, and their texts, by whether they are computed: the architecture may lack an instruction. #*/
//% set rounding = {
    "bf16": {true: "round_to_bf16", false: "bf16_from_float"},
    "e4m3": {true: "round_to_e4m3", false: "e4m3_from_float"},
    "e5m2": {true: "round_to_e5m2", false: "e5m2_from_float"}}

//% macro bf16(read, stored)
//% set is_computed = "bf16" in computed
//% if stored
${ {true: round_to_bf16, false: bf16_from_float}[is_computed]() }

//% endif
// A bfloat16: the upper half of a float.
${ element_type("BF16", "unsigned short", stored, rounding["bf16"][is_computed], read, "__uint_as_float(static_cast<unsigned>(bits) << 16)") }
//%- endmacro

//% macro round_to_bf16()
// The nearest bfloat16, ties to even. No instruction before sm_80 does it.
__device__ __forceinline__ unsigned short round_to_bf16(float value)
{
    const unsigned bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;  // NaN
    return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
//% endmacro

//% macro bf16_from_float()
// The nearest bfloat16, ties to even.
__device__ __forceinline__ unsigned short bf16_from_float(float value)
{
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
//% endmacro

//% macro tf32()
// The nearest tf32, ties away from zero: tensor cores cut off the last 13 bits of an f32 that is not rounded before.
__device__ __forceinline__ unsigned tf32_from_float(float value)
{
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
}

//% endmacro

//% macro from_f16()
__device__ __forceinline__ float float_from_f16(unsigned short bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
//% endmacro

//% macro f16(read, stored)
//% if stored
// The nearest half, ties to even.
__device__ __forceinline__ unsigned short f16_from_float(float value)
{
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

//% endif
// A half, IEEE 754's binary16.
${ element_type("F16", "unsigned short", stored, "f16_from_float", read, "float_from_f16(bits)") }
//%- endmacro

/*# `shift`ed down, a float's bits keep the fraction of `label`; `half` of what is cut off rounds them. #*/
//% macro round_to_fp8(label, largest, code, normal, normal_bits, unit, whole, shift, half, bias)
// The nearest ${ label }, ties to even; beyond the largest, ${ largest }, that one. No instruction before sm_89 does it.
__device__ __forceinline__ unsigned char round_to_${ label }(float value)
{
    const unsigned sign = __float_as_uint(value) >> 24 & 0x80u;
    unsigned bits = __float_as_uint(value) & 0x7fffffffu;
    if (bits > 0x7f800000u) return 0x7f;  // NaN
    if (bits < ${ normal_bits }) {  // below ${ normal }: a multiple of ${ unit }, the last bit of such a sum
        bits = __float_as_uint(__uint_as_float(bits) + ${ whole }) - __float_as_uint(${ whole });
    } else {
        bits = ((bits + ${ half } + (bits >> ${ shift } & 1u)) >> ${ shift }) - ${ bias };  // the exponents' biases
    }
    return static_cast<unsigned char>(sign | min(bits, ${ code }));
}
//% endmacro

//% macro e4m3(read, stored)
//% set is_computed = "e4m3" in computed
//% if read
${ {true: widen_e4m3, false: float_from_e4m3}[is_computed]() }

//% endif
//% if stored
${ {true: round_to_e4m3, false: e4m3_from_float}[is_computed]() }

//% endif
// An 8-bit float of 4 bits of exponent and 3 of fraction.
${ element_type("E4M3", "unsigned char", stored, rounding["e4m3"][is_computed], read, {true: "widen_e4m3(bits)", false: "float_from_e4m3(bits)"}[is_computed]) }
//%- endmacro

//% macro round_to_e4m3()
${ round_to_fp8("e4m3", 448, "0x7eu", "2^-6", "0x3c800000u", "2^-9", "16384.0f", 20, "0x7ffffu", "((127u - 7u) << 3)") }
//%- endmacro

//% macro widen_e4m3()
// No instruction before sm_89 does it.
__device__ __forceinline__ float widen_e4m3(unsigned char bits)
{
    if ((bits & 0x7fu) == 0x7fu) return __uint_as_float(0x7fffffffu);  // NaN
    // Exponents of f32 are larger by 120, those of denormal numbers too; 0x7b800000 is 2^120.
    return __uint_as_float((bits & 0x80u) << 24 | (bits & 0x7fu) << 20) * __uint_as_float(0x7b800000u);
}
//% endmacro

//% macro float_from_e4m3()
__device__ __forceinline__ float float_from_e4m3(unsigned char bits)
{
    unsigned pair;  // of halves, which hold every number of e4m3
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<unsigned short>(bits)));
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<unsigned short>(pair)));
    return value;
}
//% endmacro

//% macro e4m3_from_float()
// The nearest e4m3, ties to even; beyond the largest, 448, that one.
__device__ __forceinline__ unsigned char e4m3_from_float(float value)
{
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
    return static_cast<unsigned char>(pair);
}
//% endmacro

//% macro e5m2(read, stored)
//% set is_computed = "e5m2" in computed
//% if stored
${ {true: round_to_e5m2, false: e5m2_from_float}[is_computed]() }

//% endif
// An 8-bit float of 5 bits of exponent and 2 of fraction: the upper half of a half.
${ element_type("E5M2", "unsigned char", stored, rounding["e5m2"][is_computed], read, "float_from_f16(static_cast<unsigned short>(bits << 8))") }
//%- endmacro

//% macro round_to_e5m2()
${ round_to_fp8("e5m2", 57344, "0x7bu", "2^-14", "0x38800000u", "2^-16", "128.0f", 21, "0xfffffu", "((127u - 15u) << 2)") }
//%- endmacro

//% macro e5m2_from_float()
// The nearest e5m2, ties to even; beyond the largest, 57344, that one.
__device__ __forceinline__ unsigned char e5m2_from_float(float value)
{
    unsigned short pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
    return static_cast<unsigned char>(pair);
}
//% endmacro

//% macro saturated()
// The nearest ${ types.c.ctype }, ties to even; beyond its range the end of that.
__device__ __forceinline__ ${ types.c.ctype } ${ types.c.narrowing }(float value)
{
    return static_cast<${ types.c.ctype }>(max(${ types.c.least | int }, min(${ types.c.largest | int }, __float2int_rn(value))));
}
//% endmacro

/*# What takes elements of these types, which share registers, out of them. #*/
//% set of_bytes = {
    "integers": "return static_cast<%s>(word >> 8 * i);",
    "signed": "// As the last bits of 2^23 + 128 + element: faster than a conversion.
    return __uint_as_float(__byte_perm(word ^ 0x80808080u, 0x4b000000u, 0x7440u + i)) - 8388736.0f;",
    "unsigned": "// As the last bits of 2^23 + element: faster than a conversion.
    return __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440u + i)) - 8388608.0f;"}
//% set bytes = "integers" if types.accumulator.is_integer else ""
//% set unpacking = {
    "f32": "return __uint_as_float(word);",
    "bf16": "return __uint_as_float(i == 0 ? word << 16 : word & 0xffff0000u);",
    "f16": "return float_from_f16(static_cast<unsigned short>(word >> 16 * i));",
    "e5m2": "const unsigned halves = (i % 2 == 0 ? word << 8 : word) & 0xff00ff00u;  // elements i % 2 and i % 2 + 2
    return float_from_f16(static_cast<unsigned short>(halves >> 16 * (i / 2)));",
    "e4m3": {
        true: "return widen_e4m3(static_cast<unsigned char>(word >> 8 * i));",
        false: "const unsigned halves = halves_from_e4m3(static_cast<unsigned short>(word >> 16 * (i / 2)));
    return float_from_f16(static_cast<unsigned short>(halves >> 16 * (i % 2)));"}["e4m3" in computed],
    "s8": of_bytes[bytes or "signed"] | replace("%s", "signed char"),
    "u8": of_bytes[bytes or "unsigned"] | replace("%s", "unsigned char")}
//% macro unpack(dtypes)
//% for dtype in dtypes if dtype.label == "e4m3" and "e4m3" not in computed
${ halves_of_e4m3() }
//% endfor
// Element i of those that share 32 bits, from the lowest on.
template <typename E>
__device__ __forceinline__ ${ T } unpack(unsigned word, int i);
//% for dtype in dtypes

template <>
__device__ __forceinline__ ${ T } unpack<${ dtype.ctype }>(unsigned word, ${ {"f32": "int"}.get(dtype.label, "int i") })
{
    ${ unpacking[dtype.label] }
}
//% endfor
//% endmacro

//% macro halves_of_e4m3()
// Two halves, which hold every number of e4m3.
__device__ __forceinline__ unsigned halves_from_e4m3(unsigned short pair)
{
    unsigned halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
    return halves;
}

//% endmacro

/*# The sum of four products of bytes, of x's and w's types, by whether each is signed. #*/
//% set dots = {
    (true, true): "__dp4a(static_cast<int>(%(x)s), static_cast<int>(%(w)s), sum)",
    (true, false): "dp4a_us(%(w)s, static_cast<int>(%(x)s), sum)",
    (false, true): "dp4a_us(%(x)s, static_cast<int>(%(w)s), sum)",
    (false, false): "static_cast<int>(__dp4a(%(x)s, %(w)s, static_cast<unsigned>(sum)))"}
//% macro dot(x, w)
//% set signed = {"A": types.a.is_signed, "B": types.b.is_signed}
//% if signed.A != signed.B
// c plus the products of four unsigned bytes with four signed ones.
__device__ __forceinline__ int dp4a_us(unsigned a, int b, int c)
{
    int sum;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}

//% endif
// sum + the products of ${ x.X }'s and ${ w.X }'s four elements, which share 32 bits. It wraps around at 32 bits.
__device__ __forceinline__ int dot(unsigned ${ x.x }, unsigned ${ w.x }, int sum)
{
    return ${ dots[signed[x.X], signed[w.X]] | format(x=x.x, w=w.x) };
}
//% endmacro
