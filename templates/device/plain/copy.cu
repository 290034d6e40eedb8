// Copy bandwidth: the first half of the buffer to the second. `count` float4s in a half; reads and writes both count.
constexpr int IN_FLIGHT = 4;

extern "C" __global__ void __launch_bounds__(256) copy(float* buffer, long long count) {
    const float4* from = reinterpret_cast<const float4*>(buffer);
    float4* to = reinterpret_cast<float4*>(buffer) + count;
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += IN_FLIGHT * stride) {
        float4 value[IN_FLIGHT];
#pragma unroll
        for (int v = 0; v < IN_FLIGHT; ++v) value[v] = i + v * stride < count ? __ldcs(from + i + v * stride) : float4{};
#pragma unroll
        for (int v = 0; v < IN_FLIGHT; ++v)
            if (i + v * stride < count) __stcs(to + i + v * stride, value[v]);
    }
}
