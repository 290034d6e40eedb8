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

// The sums of the thread's tile over k from `first` on, before `end`.
template <class Sums>
__device__ void add_products(Sums (&sums)[TM][TN], const double* A, const double* B, int M, int N, int first, int end) {
    __shared__ double As[BK][BM];
    __shared__ double Bs[BK][BN];
    const int row = blockIdx.x * BM, column = blockIdx.y * BN;
    const int y = threadIdx.x / LANES, x = threadIdx.x % LANES;
    for (int k = first; k < end; k += BK) {
        for (int i = threadIdx.x; i < BK * BM; i += LANES * LANES) {
            const int at = k + i / BM, m = row + i % BM;
            As[i / BM][i % BM] = at < end && m < M ? A[(long long)at * M + m] : 0.0;
        }
        for (int i = threadIdx.x; i < BK * BN; i += LANES * LANES) {
            const int at = k + i / BN, n = column + i % BN;
            Bs[i / BN][i % BN] = at < end && n < N ? B[(long long)at * N + n] : 0.0;
        }
        __syncthreads();
        const int depth = min(BK, end - k);
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
}

// The row and the column of C of element (i, j) of the thread's tile.
__device__ int row_of(int i) { return blockIdx.x * BM + threadIdx.x / LANES + LANES * i; }
__device__ int column_of(int j) { return blockIdx.y * BN + threadIdx.x % LANES + LANES * j; }

template <class Sums>
__device__ void multiply_tile(const double* A, const double* B, double* C, int M, int N, int K) {
    Sums sums[TM][TN];
    add_products(sums, A, B, M, N, 0, K);
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) {
            const int m = row_of(i), n = column_of(j);
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

// Scales of sums over `depth` k each: `of_a` has one for each row of A (null: 1), `of_b` for each `width` columns of B.
struct Scales {
    const double *of_a, *of_b;
    int depth, width;
    __device__ double at(int part, int m, int n, int M, int N) const {
        const double b = of_b[(long long)part * ((N + width - 1) / width) + n / width];
        return of_a ? (double)(float)(of_a[(long long)part * M + m] * b) : b;
    }
};

// C = the sum of scaled sums. `magnitudes`: A and B hold magnitudes, and those of the scales count.
extern "C" __global__ void __launch_bounds__(256)
    multiply_parts(const double* A, const double* B, double* C, int M, int N, int K, const double* of_a,
                   const double* of_b, int depth, int width, int magnitudes) {
    const Scales scales{of_a, of_b, depth, width};
    double total[TM][TN] = {};
    for (int part = 0; part * scales.depth < K; ++part) {
        const int first = part * scales.depth;
        Sum sums[TM][TN];
        add_products(sums, A, B, M, N, first, min(first + scales.depth, K));
        for (int i = 0; i < TM; ++i)
            for (int j = 0; j < TN; ++j) {
                const int m = row_of(i), n = column_of(j);
                if (m >= M || n >= N) continue;
                const double scale = scales.at(part, m, n, M, N);
                total[i][j] += (magnitudes ? fabs(scale) : scale) * sums[i][j].value();
            }
    }
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) {
            const int m = row_of(i), n = column_of(j);
            if (m < M && n < N) C[(long long)m * N + n] = total[i][j];
        }
}

// For each element of C the largest scaled product that its rows' and columns' largest magnitudes, by part, allow.
extern "C" __global__ void __launch_bounds__(256)
    largest_of_parts(const double* of_rows, const double* of_columns, double* most, int M, int N, int K,
                     const double* of_a, const double* of_b, int depth, int width) {
    const Scales scales{of_a, of_b, depth, width};
    const int parts = (K + depth - 1) / depth;
    const long long threads = (long long)gridDim.x * blockDim.x, count = (long long)M * N;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {
        const int m = i / N, n = i % N;
        double found = 0.0;
        for (int part = 0; part < parts; ++part) {
            const double product = of_rows[(long long)part * M + m] * of_columns[(long long)part * N + n];
            found = fmax(found, fabs(scales.at(part, m, n, M, N)) * product);
        }
        most[i] = found;
    }
}

// The numbers of an operand, K x `lines` without padding, a matrix of the batch after the other: element (k, line) of a
// matrix lies at `k * along_k + line * along_lines` in `stored`, matrices `apart` elements from each other. What a bit
// pattern of 4, 8 or 16 bits stands for is in `numbers`. `magnitudes`: |x| in the place of x.
template <class Number>
__device__ void decode(double* decoded, long long K, long long lines, long long batch, long long along_k,
                       long long along_lines, long long apart, int magnitudes, Number number) {
    const long long threads = (long long)gridDim.x * blockDim.x, count = batch * K * lines;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {
        const long long line = i % lines, k = i / lines % K, matrix = i / lines / K;
        const double x = number(matrix * apart + k * along_k + line * along_lines);
        decoded[i] = magnitudes ? fabs(x) : x;
    }
}

#define DECODE(bits, type, number)                                                                                    \
    extern "C" __global__ void __launch_bounds__(256)                                                                 \
        decode_##bits(const type* stored, double* decoded, long long K, long long lines, long long batch,             \
                      long long along_k, long long along_lines, long long apart, int magnitudes, const double* numbers) { \
        decode(decoded, K, lines, batch, along_k, along_lines, apart, magnitudes,                                     \
               [stored, numbers](long long at) { return number; });                                                   \
    }

DECODE(4, unsigned char, numbers[stored[at / 2] >> at % 2 * 4 & 15])
DECODE(8, unsigned char, numbers[stored[at]])
DECODE(16, unsigned short, numbers[stored[at]])
DECODE(32, float, (double)stored[at])
DECODE(64, double, stored[at])

// x, rounded once to a type of `precision` bits: its smallest denormal is 2^`least`, its largest number `largest`.
__device__ double rounded(double x, int precision, int least, double largest) {
    if (!isfinite(x) || x == 0.0) return x;
    const int last = max(ilogb(x) + 1 - precision, least);  // the exponent of its last bit
    const double nearest = ldexp(rint(ldexp(x, -last)), last);
    return fabs(nearest) > largest ? copysign(__longlong_as_double(0x7FF0000000000000LL), x) : nearest;
}

// Codes of B, K x N, become (code - zero point) * scale, rounded to a type; each `group` k of a column share these two
// numbers. Null zero points are 0, null scales 1.
extern "C" __global__ void __launch_bounds__(256)
    scale_codes(double* codes, const double* scales, const double* zeros, long long K, long long N, long long group,
                int precision, int least, double largest, int magnitudes) {
    const long long threads = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < K * N; i += threads) {
        const long long of = i / N / group * N + i % N;
        const double difference = codes[i] - (zeros ? zeros[of] : 0.0);
        const double x = scales ? rounded(difference * scales[of], precision, least, largest) : difference;
        codes[i] = magnitudes ? fabs(x) : x;
    }
}

// The largest finite magnitude of each line of decoded numbers in each `depth` k, a matrix of the batch after the other.
extern "C" __global__ void __launch_bounds__(256)
    largest(const double* decoded, double* most, long long K, long long lines, long long batch, long long depth) {
    const long long threads = (long long)gridDim.x * blockDim.x, parts = (K + depth - 1) / depth;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < lines * parts * batch; i += threads) {
        const long long first = i / lines % parts * depth;
        const double* line = decoded + i / lines / parts * K * lines + i % lines;
        double found = 0.0;
        for (long long k = first; k < min(first + depth, K); ++k) {
            const double x = fabs(line[k * lines]);
            if (isfinite(x)) found = fmax(found, x);
        }
        most[i] = found;
    }
}
