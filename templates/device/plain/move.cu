// What a product moves at the least, and nothing else: `read` float4s from `from` on, which are A and B, and `written` to
// `to`, which is C.
constexpr int IN_FLIGHT = 4;

extern "C" __global__ void __launch_bounds__(256)
    move(const float4* from, float4* to, long long read, long long written) {
    const long long stride = (long long)gridDim.x * blockDim.x;
    const long long most = read > written ? read : written;
    float sum = 0.0f;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < most; i += IN_FLIGHT * stride) {
        float4 value[IN_FLIGHT];
#pragma unroll
        for (int v = 0; v < IN_FLIGHT; ++v) value[v] = i + v * stride < read ? __ldcs(from + i + v * stride) : float4{};
#pragma unroll
        for (int v = 0; v < IN_FLIGHT; ++v) {
            if (i + v * stride < written) __stcs(to + i + v * stride, value[v]);
            sum += value[v].x + value[v].y + value[v].z + value[v].w;
        }
    }
    if (sum == 12345.678f) to[0].x = sum;  // practically never: it keeps the loads alive
}
