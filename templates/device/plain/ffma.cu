// FP32 rate: independent chains of FFMA in registers, no memory.
// Each thread does `count` of them, a multiple of CHAINS * UNROLL.
constexpr int CHAINS = 16;  // hides the FFMA latency of 4 cycles with room to spare
constexpr int UNROLL = 64;

extern "C" __global__ void __launch_bounds__(256) ffma(float* buffer, long long count) {
    const float x = 0.999f + 1e-6f * threadIdx.x;
    const float y = 1e-3f;
    float chain[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) chain[c] = c + x;
    for (int done = 0; done < (int)count; done += CHAINS * UNROLL) {
#pragma unroll
        for (int step = 0; step < UNROLL; ++step)
#pragma unroll
            for (int c = 0; c < CHAINS; ++c) chain[c] = fmaf(chain[c], x, y);
    }
    float sum = 0.0f;
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) sum += chain[c];
    if (sum == 12345.0f) buffer[0] = sum;  // never true: it keeps the chains alive
}
