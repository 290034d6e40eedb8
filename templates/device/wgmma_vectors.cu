/*# One product a warpgroup by one wgmma, from tiles that its threads store: to see how the instruction rounds. #*/
//% from "device/dynamic_shared.cu" import dynamic_shared
//% from "device/shared_address.cu" import shared_address
//% from "device/tma.cu" import fence_proxy_async
//% from "device/wgmma.cu" import wgmma
/*# Where register i of C lies, from the thread's first. #*/
//% set beside = 2 // one.c_shared
//% macro at(i)
${ i // beside % 2 * 8 * one.n // one.c_shared + i // (2 * beside) * 8 // one.c_shared + i % beside }
//%- endmacro
// ${ name }: each block adds to ${ one.m } x ${ one.n } elements of C, row-major, the product of ${ one.m } x ${ K } of A, row-major, and
// ${ K } x ${ one.n } of B, column-major, by ${ one.ptx }. A and B are arrays of 16 bytes, C of registers with ${ one.c_shared } elements each.
//
// Made by gemmgen study arithmetic --arch ${ arch }

${ dynamic_shared(128) }
${ fence_proxy_async() }
${ shared_address() }
${ wgmma([one]) }
extern "C" __global__ void __launch_bounds__(128) ${ name }(const uint4* A, const uint4* B, ${ one.c_type }* C)
{
    constexpr int CHUNKS = ${ K // one.k * 2 };  // of 16 bytes, along k: an instruction multiplies two
    uint4 (*const As)[${ one.m }] = reinterpret_cast<uint4 (*)[${ one.m }]>(dynamic_shared());
    uint4 (*const Bs)[${ one.n }] = reinterpret_cast<uint4 (*)[${ one.n }]>(As + CHUNKS);
    for (int i = threadIdx.x; i < ${ one.m } * CHUNKS; i += 128) As[i % CHUNKS][i / CHUNKS] = A[blockIdx.x * ${ one.m } * CHUNKS + i];
    for (int i = threadIdx.x; i < ${ one.n } * CHUNKS; i += 128) Bs[i % CHUNKS][i / CHUNKS] = B[blockIdx.x * ${ one.n } * CHUNKS + i];
    fence_proxy_async();
    __syncthreads();
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    ${ one.c_type }* const c = C + (blockIdx.x * ${ one.m } + row) * ${ one.n // one.c_shared } + threadIdx.x % 4${ {1: " * 2", 2: ""}[one.c_shared] };
    ${ one.c_type } d[${ one.c_registers }];
//% for i in range(one.c_registers)
    d[${ i }] = c[${ at(i) }];
//% endfor
    wgmma_fence();
    #pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk += 2) {
        const unsigned long long a = make_descriptor<0>(As[chunk], sizeof As[0], 128);
        const unsigned long long b = make_descriptor<0>(Bs[chunk], sizeof Bs[0], 128);
        ${ one.function }(d, a, b, true);
    }
    wgmma_commit();
    wgmma_wait<0>();
//% for i in range(one.c_registers)
    c[${ at(i) }] = d[${ i }];
//% endfor
}
