/*# One product a warp by one instruction, from global memory: to see how the instruction rounds. #*/
//% from "device/mma.cu" import mma
/*# Where register i of C lies, from the lane's first. #*/
//% macro at(i)
${ {1: i // 2 * 8 * one.n + i % 2, 2: i * 4 * one.n}[one.c_shared] }
//%- endmacro
// ${ name }: each block adds to ${ one.m } x ${ one.n } elements of C the product of ${ one.m } x ${ K } of A, row-major, and
// ${ K } x ${ one.n } of B, column-major, by ${ one.ptx }. Matrices are arrays of registers, of A's and B's with ${ one.a_shared } elements each.
//
// Made by gemmgen study arithmetic --arch ${ arch }

${ mma([one]) }
extern "C" __global__ void __launch_bounds__(32) ${ name }(const ${ one.a_type }* A, const ${ one.a_type }* B, ${ one.c_type }* C)
{
    constexpr int K = ${ K // one.a_shared };  // registers of a line
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    const ${ one.a_type }* const row = A + (blockIdx.x * ${ one.m } + g) * K + t;
    const ${ one.a_type }* const column = B + (blockIdx.x * ${ one.n } + g) * K + t;
    ${ one.c_type }* const c = C + (blockIdx.x * ${ one.m } + g) * ${ one.n // one.c_shared } + ${ {1: "2 * t", 2: "t"}[one.c_shared] };
    ${ one.c_type } d[${ one.c_registers }];
//% for i in range(one.c_registers)
    d[${ i }] = c[${ at(i) }];
//% endfor
    for (int k = 0; k < K; k += ${ one.k // one.a_shared }) {
        ${ one.a_type } a[${ one.a_registers }], b[${ one.b_registers }];
        for (int i = 0; i < ${ one.a_registers }; ++i) a[i] = row[${ {16: "i % 2 * 8 * K + k + i / 2 * 4", 8: "k + i * 4"}[one.m] }];
        for (int i = 0; i < ${ one.b_registers }; ++i) b[i] = column[k + i * 4];
        ${ one.function }(d, a, b);
    }
//% for i in range(one.c_registers)
    c[${ at(i) }] = d[${ i }];
//% endfor
}
