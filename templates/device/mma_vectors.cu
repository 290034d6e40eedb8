/*# One product a warp by one instruction, from global memory: to see how the instruction rounds. #*/
//% from "device/mma.cu" import mma
// ${ name }: each block adds to an ${ one.m } x ${ one.n } matrix of C what ${ one.ptx }
// makes of ${ one.m } x ${ K } of A, row-major, and ${ K } x ${ one.n } of B, column-major. In registers of ${ one.a_shared } element${ "s" if one.a_shared > 1 }.
//
// Made by gemmgen study arithmetic --arch ${ arch }

${ mma([one]) }
//% set k_step = one.k // one.a_shared
extern "C" __global__ void __launch_bounds__(32) ${ name }(const ${ one.a_type }* A, const ${ one.a_type }* B, ${ one.c_type }* C)
{
    constexpr int K = ${ K // one.a_shared };  // in registers
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    const ${ one.a_type }* const row = A + (blockIdx.x * ${ one.m } + g) * K + t;
    const ${ one.a_type }* const column = B + (blockIdx.x * ${ one.n } + g) * K + t;
    ${ one.c_type }* const c = C + (blockIdx.x * ${ one.m } + g) * ${ one.n // one.c_shared } + ${ "2 * t" if one.c_shared == 1 else "t" };
    ${ one.c_type } d[${ one.c_registers }];
//% for i in range(one.c_registers)
    d[${ i }] = c[${ c_offset(i) }];
//% endfor
    for (int k = 0; k < K; k += ${ k_step }) {
        ${ one.a_type } a[${ one.a_registers }], b[${ one.b_registers }];
        for (int i = 0; i < ${ one.a_registers }; ++i) a[i] = row[${ "i % 2 * 8 * K + k + i / 2 * 4" if one.m == 16 else "k + i * 4" }];
        for (int i = 0; i < ${ one.b_registers }; ++i) b[i] = column[k + i * 4];
        ${ one.function }(d, a, b);
    }
//% for i in range(one.c_registers)
    c[${ c_offset(i) }] = d[${ i }];
//% endfor
}
