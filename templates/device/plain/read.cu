// Read bandwidth: every thread sums float4s, four in flight. `count` float4s in all.
constexpr int IN_FLIGHT = 4;

extern "C" __global__ void __launch_bounds__(256) read(float* buffer, long long count) {
    const float4* data = reinterpret_cast<const float4*>(buffer);
    const long long stride = (long long)gridDim.x * blockDim.x;
    float sum = 0.0f;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += IN_FLIGHT * stride) {
        float4 value[IN_FLIGHT];
#pragma unroll
        for (int v = 0; v < IN_FLIGHT; ++v) value[v] = i + v * stride < count ? __ldcs(data + i + v * stride) : float4{};
#pragma unroll
        for (int v = 0; v < IN_FLIGHT; ++v) sum += value[v].x + value[v].y + value[v].z + value[v].w;
    }
    if (sum == 12345.678f) buffer[0] = sum;  // practically never: it keeps the loads alive
}
