// The reference's products: C = A * B of doubles, a matrix of the batch after the other. A lies as K x M, B as K x N,
// C as M x N, each without padding.
constexpr int BM = 64, BN = 64, BK = 16;  // block tile
constexpr int TM = 4, TN = 4;             // thread tile, of rows and columns 16 apart
constexpr int LANES = 16;                 // threads along each side of the block tile

// Sums in double precision.
struct Sum {
    double high = 0.0;
    __device__ void add(double a, double b) { high = fma(a, b, high); }
    __device__ double value() const { return high; }
};

// Sums in twice as many bits: what a product and an addition round away is added up apart (Ogita, Rump and Oishi,
// "Accurate Sum and Dot Product", SIAM J. Sci. Comput. 26, 2005).
struct AccurateSum {
    double high = 0.0, low = 0.0;
    __device__ void add(double a, double b) {
        const double product = __dmul_rn(a, b);
        const double sum = __dadd_rn(high, product);
        const double added = __dsub_rn(sum, high);
        const double lost = __dadd_rn(__dsub_rn(high, __dsub_rn(sum, added)), __dsub_rn(product, added));
        low = __dadd_rn(low, __dadd_rn(lost, fma(a, b, -product)));
        high = sum;
    }
    __device__ double value() const { return isfinite(high) ? high + low : high; }
};

template <class Sums>
__device__ void multiply_tile(const double* A, const double* B, double* C, int M, int N, int K) {
    __shared__ double As[BK][BM];
    __shared__ double Bs[BK][BN];
    const int row = blockIdx.x * BM, column = blockIdx.y * BN;
    const int y = threadIdx.x / LANES, x = threadIdx.x % LANES;
    Sums sums[TM][TN];
    for (int k = 0; k < K; k += BK) {
        for (int i = threadIdx.x; i < BK * BM; i += LANES * LANES) {
            const int at = k + i / BM, m = row + i % BM;
            As[i / BM][i % BM] = at < K && m < M ? A[(long long)at * M + m] : 0.0;
        }
        for (int i = threadIdx.x; i < BK * BN; i += LANES * LANES) {
            const int at = k + i / BN, n = column + i % BN;
            Bs[i / BN][i % BN] = at < K && n < N ? B[(long long)at * N + n] : 0.0;
        }
        __syncthreads();
        const int depth = min(BK, K - k);
        for (int step = 0; step < depth; ++step) {
            double a[TM], b[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i) a[i] = As[step][y + LANES * i];
#pragma unroll
            for (int j = 0; j < TN; ++j) b[j] = Bs[step][x + LANES * j];
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) sums[i][j].add(a[i], b[j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) {
            const int m = row + y + LANES * i, n = column + x + LANES * j;
            if (m < M && n < N) C[(long long)m * N + n] = sums[i][j].value();
        }
}

template <class Sums>
__device__ void multiply_batch(const double* A, const double* B, double* C, int M, int N, int K, long long batch) {
    for (long long matrix = blockIdx.z; matrix < batch; matrix += gridDim.z)
        multiply_tile<Sums>(A + matrix * M * K, B + matrix * K * N, C + matrix * M * N, M, N, K);
}

extern "C" __global__ void __launch_bounds__(256)
    multiply(const double* A, const double* B, double* C, int M, int N, int K, long long batch) {
    multiply_batch<Sum>(A, B, C, M, N, K, batch);
}

extern "C" __global__ void __launch_bounds__(256)
    multiply_accurately(const double* A, const double* B, double* C, int M, int N, int K, long long batch) {
    multiply_batch<AccurateSum>(A, B, C, M, N, K, batch);
}

// The numbers of an operand, K x `lines` without padding, a matrix of the batch after the other: element (k, line) of a
// matrix lies at `k * along_k + line * along_lines` in `stored`, matrices `apart` elements from each other. What a bit
// pattern of 8 or 16 bits stands for is in `numbers`. `magnitudes`: |x| in the place of x.
template <class Bits, class Number>
__device__ void decode(const Bits* stored, double* decoded, long long K, long long lines, long long batch,
                       long long along_k, long long along_lines, long long apart, int magnitudes, Number number) {
    const long long threads = (long long)gridDim.x * blockDim.x, count = batch * K * lines;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {
        const long long line = i % lines, k = i / lines % K, matrix = i / lines / K;
        const double x = number(stored[matrix * apart + k * along_k + line * along_lines]);
        decoded[i] = magnitudes ? fabs(x) : x;
    }
}

#define DECODE(bytes, type, number)                                                                                   \
    extern "C" __global__ void __launch_bounds__(256)                                                                 \
        decode_##bytes(const type* stored, double* decoded, long long K, long long lines, long long batch,            \
                       long long along_k, long long along_lines, long long apart, int magnitudes, const double* numbers) { \
        decode(stored, decoded, K, lines, batch, along_k, along_lines, apart, magnitudes,                             \
               [numbers](type x) { return number; });                                                                 \
    }

DECODE(1, unsigned char, numbers[x])
DECODE(2, unsigned short, numbers[x])
DECODE(4, float, (double)x)
DECODE(8, double, x)

// The largest finite magnitude of each line of decoded numbers, a matrix of the batch after the other.
extern "C" __global__ void __launch_bounds__(256)
    largest(const double* decoded, double* most, long long K, long long lines, long long batch) {
    const long long threads = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < lines * batch; i += threads) {
        const double* line = decoded + i / lines * K * lines + i % lines;
        double found = 0.0;
        for (long long k = 0; k < K; ++k) {
            const double x = fabs(line[k * lines]);
            if (isfinite(x)) found = fmax(found, x);
        }
        most[i] = found;
    }
}
