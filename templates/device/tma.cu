/*# Boxes of tensors between global and shared memory, by TMA: one thread issues them. `loads` and `stores` are the numbers of
    dimensions that a kernel uses. The kernel's parameters are `const __grid_constant__ TensorMap map_a` and the like. #*/
//% macro tensor_map()
// A CUtensorMap, which the host encodes (cuTensorMapEncodeTiled): a matrix in global memory, its boxes, their swizzle.
struct alignas(64) TensorMap { unsigned long long opaque[16]; };
//% endmacro

/*# For maps of all of memory, which begin at address 0: see gemmgen/kernel/tensor_map.py. #*/
//% macro map_origin()
// Where a matrix begins, as coordinates of a tensor map of all memory: a chunk of 16 bytes, and past 2^31 of them the next.
struct MapOrigin {
    int near, far;
};

__device__ __forceinline__ MapOrigin map_origin(const void* matrix)
{
    const unsigned long long chunk = reinterpret_cast<unsigned long long>(matrix) / 16;
    return {static_cast<int>(chunk & 0x7fffffff), static_cast<int>(chunk >> 31)};
}
//% endmacro

/*# For bounded maps: see gemmgen/kernel/tensor_map.py. #*/
//% macro bound(view)
// A box with coordinates (x, BOUND - n, BOUND, end) begins n lines before line `end`. The tensor map has BOUND lines, so
// that TMA fills the box with zeros from line `end` on: the third coordinate moves its address back by BOUND lines, the
// fourth moves it on by `end` lines.
constexpr int BOUND = 1 << ${ view.bound_bits };
//% endmacro

//% macro tma(loads=(2,), stores=())
//% for rank in loads
// Start loading the box at (${ coordinates(rank, "") }), x along the contiguous dimension, to shared memory. Its bytes count at `barrier`, also
// those outside of the tensor, which become zeros.
__device__ __forceinline__ void tma_load_${ rank }d(void* to, const TensorMap* map, unsigned long long* barrier, ${ coordinates(rank, "int ") })
{
    asm volatile("cp.async.bulk.tensor.${ rank }d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {${ numbers(3, rank) }}], [%2];"
                 ::"r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), ${ bound_coordinates(rank) } : "memory");
}

//% endfor
//% for rank in stores
// Start storing a box. Outside of the tensor nothing is written but the rest of a 16-byte chunk across a line's end.
__device__ __forceinline__ void tma_store_${ rank }d(const TensorMap* map, const void* from, ${ coordinates(rank, "int ") })
{
    asm volatile("cp.async.bulk.tensor.${ rank }d.global.shared::cta.tile.bulk_group [%0, {${ numbers(2, rank) }}], [%1];"
                 ::"l"(map), "r"(shared_address(from)), ${ bound_coordinates(rank) } : "memory");
}

//% endfor
//% if stores
// Close a group of this thread's stores since the last commit; and wait until all but its N newest groups have read
// shared memory, which may be overwritten then: what they write to global memory may still be under way.
__device__ __forceinline__ void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void tma_store_wait_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
//% endif
//% endmacro

/*# Boxes of images, by im2col mode: see gemmgen/kernel/tensor_map.py. #*/
//% macro about_im2col()
// Start loading pixels of images (NHWC): those that lie under one tap of the filter at consecutive output pixels, their
// channels from `channel` on. At the first of these the filter begins at `column` and `row`, and the tap is that far
// `right` and `down`. All bytes count at `barrier`, also those of pixels outside of an image, which become zeros.
//% endmacro
//% macro tma_im2col()
${ about_im2col() | trim("\n") }
__device__ __forceinline__ void tma_load_im2col(void* to, const TensorMap* map, unsigned long long* barrier, int channel, int column, int row, int image, unsigned short right, unsigned short down)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};"
                 ::"r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "r"(channel), "r"(column), "r"(row), "r"(image),
                   "h"(right), "h"(down) : "memory");
}

//% endmacro

/*# For kernels that read what TMA has written. #*/
//% macro tma_store_wait()
// Wait until what all but the N newest groups of stores write is written.
template <int N>
__device__ __forceinline__ void tma_store_wait() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory"); }
//% endmacro

//% macro fence_proxy_async()
// Threads access shared memory by the generic proxy, TMA and wgmma by the async proxy. These see what a thread wrote only
// after its fence: each that wrote fences, then all meet at a barrier, and then a copy or a product may read it.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
//% endmacro

/*# Coordinates of a box: their names, each behind `ctype`, as operands of an instruction, and by the numbers that these have. #*/
//% macro coordinates(rank, ctype)
${ ctype }${ ["x", "y", "z", "w"][:rank] | join(", " ~ ctype) }
//%- endmacro

//% macro bound_coordinates(rank)
"r"(${ ["x", "y", "z", "w"][:rank] | join('), "r"(') })
//%- endmacro

//% macro numbers(first, rank)
%${ range(first, first + rank) | join(", %") }
//%- endmacro
