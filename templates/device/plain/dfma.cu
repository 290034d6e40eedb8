// FP64 rate: independent chains of DFMA in registers, no memory.
// Each thread does `count` of them, a multiple of CHAINS * UNROLL.
constexpr int CHAINS = 16;  // hides the DFMA latency with room to spare
constexpr int UNROLL = 64;

extern "C" __global__ void __launch_bounds__(256) dfma(double* buffer, long long count) {
    const double x = 0.999 + 1e-6 * threadIdx.x;
    const double y = 1e-3;
    double chain[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) chain[c] = c + x;
    for (int done = 0; done < (int)count; done += CHAINS * UNROLL) {
#pragma unroll
        for (int step = 0; step < UNROLL; ++step)
#pragma unroll
            for (int c = 0; c < CHAINS; ++c) chain[c] = fma(chain[c], x, y);
    }
    double sum = 0.0;
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) sum += chain[c];
    if (sum == 12345.0) buffer[0] = sum;  // never true: it keeps the chains alive
}
