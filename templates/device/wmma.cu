/*# A warp's product of 16 x 16 x 16 in the form of nvcuda::wmma, whose header NVRTC does not bring: the PTX behind it. `one` is a
    record of problem/wmma.py. #*/
//% from "device/mma.cu" import bound, listed
//% macro wmma(one)
// Fragments of a warp's product of 16 x 16 x 16. Which lane has which element is left open: only the functions below know.
struct FragmentA {
    unsigned registers[${ one.registers }];
};
struct FragmentB {
    unsigned registers[${ one.registers }];
};
struct Accumulator {
    float registers[${ one.sums }];
};

${ load("a", one.a, one) }
${ load("b", one.b, one) }
//% set first_a, first_b = one.sums, one.sums + one.registers
// d += a * b.
__device__ __forceinline__ void ${ one.function }(Accumulator& d, const FragmentA& a, const FragmentB& b)
{
    asm volatile(
        "${ one.ptx } "
        "{${ listed(0, first_a) }}, {${ listed(first_a, first_b) }}, "
        "{${ listed(first_b, first_b + one.registers) }}, {${ listed(0, first_a) }};"
        : ${ bound("+f", "d.registers", one.sums) }
        : ${ bound("r", "a.registers", one.registers) }, ${ bound("r", "b.registers", one.registers) });
}

// The 16 rows of d to shared memory, `ld` floats apart: 4 divides that, and 32 bytes the first one's address.
__device__ __forceinline__ void wmma_store(float* rows, const Accumulator& d, int ld)
{
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(rows));
    asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%0], {${ listed(1, one.sums + 1) }}, %${ one.sums + 1 };"
                 :
                 : "r"(to), ${ bound("f", "d.registers", one.sums) }, "r"(ld)
                 : "memory");
}
//% endmacro

//% macro load(x, order, one)
//% set lines = "rows" if order == "row" else "columns"
// ${ x.upper() }'s 16 ${ lines } of 16 from shared memory, `ld` elements apart: 8 divides that, and 32 bytes the first one's address.
__device__ __forceinline__ void wmma_load_${ x }_${ order }(Fragment${ x.upper() }& ${ x }, const void* ${ lines }, int ld)
{
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(${ lines }));
    asm volatile("wmma.load.${ x }.sync.aligned.${ order }.m16n16k16.shared.${ one.half.a.label } {${ listed(0, one.registers) }}, [%${ one.registers }], %${ one.registers + 1 };"
                 : ${ bound("=r", x ~ ".registers", one.registers) }
                 : "r"(from), "r"(ld)
                 : "memory");
}
//% endmacro
