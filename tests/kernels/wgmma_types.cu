/*# A wgmma of each type and layout: alpha says which. A and B are bytes, in rows of 128, of which the first 32 are k. Threads put
    chunks of 16 where the layouts of the PTX manual have them, and wgmma reads them by descriptors. #*/
//% from "device/tma.cu" import fence_proxy_async
//% from "device/wgmma.cu" import wgmma
//% from "device/dynamic_shared.cu" import dynamic_shared
//% from "device/shared_address.cu" import shared_address
${ fence_proxy_async() }
${ dynamic_shared(1024) }
${ shared_address() }
${ wgmma(instructions) }
// Where chunk `chunk` of line `line` lies, of lines of `chunks`; groups of 8 lines lie one behind the other.
__device__ int swizzled(int line, int chunk, int chunks)
{
    const int shift = chunks == 8 ? 0 : chunks == 4 ? 1 : chunks == 2 ? 2 : 3;
    return line * chunks + (chunk ^ (line >> shift & (chunks - 1)));
}
extern "C" __global__ void __launch_bounds__(128, 1)
k(const unsigned char* A, const unsigned char* B, int* C, int alpha, int beta)
{
    uint4* const tile_a = reinterpret_cast<uint4*>(dynamic_shared());
    uint4* const tile_b = tile_a + 512;
    const uint4* const from_a = reinterpret_cast<const uint4*>(A);  // row-major: 8 chunks a row
    const uint4* const from_b = reinterpret_cast<const uint4*>(B);
    const unsigned short* const halves_a = reinterpret_cast<const unsigned short*>(A);
    const unsigned short* const halves_b = reinterpret_cast<const unsigned short*>(B);
    int* const to = C + threadIdx.x * 16;
//% for product in products
//% set one, span = product.one, product.swizzle
//% set chunks = span // 16 if span else 1
    if (alpha == ${ loop.index }) {
//% for name, lines, trans in (("a", 64, one.trans_a), ("b", one.n, one.trans_b)) if not (name == "a" and one.registers)
//% if not trans
        for (int i = threadIdx.x; i < ${ lines * 2 }; i += 128)  // 32 bytes of k
//% if span
            tile_${ name }[swizzled(i / 2, i % 2, ${ chunks })] = from_${ name }[i / 2 * 8 + i % 2];
//% else
            tile_${ name }[i % 2 * ${ lines } + i / 2] = from_${ name }[i / 2 * 8 + i % 2];
//% endif
//% else
        for (int i = threadIdx.x; i < ${ lines * 16 }; i += 128) {  // lines of one k
            const int k = i / ${ lines }, mn = i % ${ lines }, chunk = mn / 8;
            const int beside = chunk / ${ chunks } * ${ 16 * chunks };
            const int at = beside + swizzled(k, chunk % ${ chunks }, ${ chunks });
            reinterpret_cast<unsigned short*>(tile_${ name } + at)[mn % 8] = halves_${ name }[mn * 64 + k];
        }
//% endif
//% endfor
        fence_proxy_async();
        __syncthreads();
        ${ one.c_type } d[${ one.c_registers }] = {};
        for (int i = 0; i < ${ one.c_registers }; ++i) reinterpret_cast<int*>(d)[i] = to[i];
//% for name, lines, trans in (("a", 64, one.trans_a), ("b", one.n, one.trans_b)) if not (name == "a" and one.registers)
//% set leading = (256 * chunks if span else 128) if trans else lines * 16
//% set stride = 128 * chunks if span or not trans else 256
        const unsigned long long ${ name } = make_descriptor<${ span }>(tile_${ name }, ${ leading }, ${ stride });
//% endfor
//% if one.registers
        unsigned a[4];
        for (int r = 0; r < 4; ++r) {
            const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + r % 2 * 8;
            a[r] = reinterpret_cast<const unsigned*>(A)[row * 32 + r / 2 * 4 + threadIdx.x % 4];
        }
//% endif
        wgmma_fence();
        ${ one.function }(d, a, b, true);
        wgmma_commit();
        wgmma_wait<0>();
        for (int i = 0; i < ${ one.c_registers }; ++i) to[i] = reinterpret_cast<int*>(d)[i];
    }
//% endfor
}
