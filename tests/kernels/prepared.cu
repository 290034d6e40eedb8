/*# C = A * B of what launches before have copied: rows of A and columns of B, in chunks of 16 bytes. A thread an element. #*/
//% from "device/convert.cu" import element_types
//% from "device/dependent_launch.cu" import dependent_launch
//% from "prepare/prepare.cu" import prepare
${ element_types(reads_c=false) }
${ dependent_launch() }
${ prepare(copies) }
extern "C" __global__ void __launch_bounds__(64)
k(
//% for p in parameters
    ${ p.ctype } ${ p.text }${ ")" if loop.last else "," }
//% endfor
{
    constexpr int CHUNK = 16 / sizeof(${ TA });
    const int columns = (N + 7) / 8, rows = (M + 7) / 8, matrix = blockIdx.x / (rows * columns);
    const int m = blockIdx.x / columns % rows * 8 + threadIdx.x / 8, n = blockIdx.x % columns * 8 + threadIdx.x % 8;
    if (m >= M || n >= N) return;
    const int chunks = (K + CHUNK - 1) / CHUNK;
    const Chunk<${ TA }>* const a = reinterpret_cast<const Chunk<${ TA }>*>(prepared_a) + (1LL * matrix * M + m) * chunks;
    const Chunk<${ TB }>* const b = reinterpret_cast<const Chunk<${ TB }>*>(prepared_b) + (1LL * matrix * N + n) * chunks;
    ${ T } sum = 0;
    for (int k = 0; k < chunks; ++k) {
        const Chunk<${ TA }> x = a[k];
        const Chunk<${ TB }> y = b[k];
        for (int i = 0; i < CHUNK; ++i) sum += ${ T }(x.at[i]) * ${ T }(y.at[i]);  // zeros behind the end of a line
    }
    C[${ "matrix * stride_c + " if batched }1LL * m * ldc + n] = ${ TC }(sum);
}
