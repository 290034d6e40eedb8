/*# cuBLASLt called as a kernel is. #*/
// cuBLASLt computes what was measured to be faster by it. It is column-major: C^T = B^T A^T on the same memory, so that B comes first.
constexpr size_t CUBLASLT_WORKSPACE = 32 << 20;  // as NVIDIA recommends for Hopper

// The handle for the current device, which the first call there makes.
cudaError_t handle_here(cublasLtHandle_t& handle)
{
    constexpr int DEVICES = 64;
    static std::atomic<cublasLtHandle_t> known[DEVICES];
    static std::mutex making;
    int device = 0;
    const cudaError_t status = cudaGetDevice(&device);
    if (status != cudaSuccess) return status;
    if (device >= DEVICES) return refuse(cudaErrorInvalidDevice, "device %d is not in 0 to %d", device, DEVICES - 1);
    handle = known[device].load(std::memory_order_acquire);
    if (handle != nullptr) return cudaSuccess;
    const std::lock_guard<std::mutex> lock(making);
    handle = known[device].load(std::memory_order_relaxed);
    if (handle != nullptr) return cudaSuccess;
    if (cublasLtCreate(&handle) != CUBLAS_STATUS_SUCCESS) return refuse(cudaErrorInitializationError, "%s", "cublasLtCreate fails");
    known[device].store(handle, std::memory_order_release);
    return cudaSuccess;
}

// How a matrix lies: a column of cuBLASLt's is a line of ours.
struct Lines {
    cudaDataType type;
    int length, count, ld;
    long long stride;

    bool describe(cublasLtMatrixLayoutOpaque_t& layout, int batch) const
    {
        const int64_t apart = stride;
        return cublasLtMatrixLayoutInit(&layout, type, length, count, ld) == CUBLAS_STATUS_SUCCESS &&
            cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch) == CUBLAS_STATUS_SUCCESS &&
            cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart, sizeof apart) == CUBLAS_STATUS_SUCCESS;
    }
};

template <typename Scalar>
cudaError_t call_cublaslt(const Args& a, int batch, cublasComputeType_t compute, cudaDataType scalar, const Lines& lines_a, bool a_columns,
    const Lines& lines_b, bool b_columns, const Lines& lines_c, void* workspace, size_t workspace_bytes, cudaStream_t stream)
{
    cublasLtHandle_t handle = nullptr;
    const cudaError_t status = handle_here(handle);
    if (status != cudaSuccess) return status;
    if (workspace_bytes < CUBLASLT_WORKSPACE) return refuse(cudaErrorInvalidValue, "workspace_bytes = %zu is less than %zu", workspace_bytes, CUBLASLT_WORKSPACE);
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t x, y, z;
    cublasLtMatmulPreferenceOpaque_t preference;
    const cublasOperation_t op_x = b_columns ? CUBLAS_OP_T : CUBLAS_OP_N, op_y = a_columns ? CUBLAS_OP_T : CUBLAS_OP_N;
    const uint64_t most = CUBLASLT_WORKSPACE;
    const uint32_t align = 16;
    bool well = cublasLtMatmulDescInit(&product, compute, scalar) == CUBLAS_STATUS_SUCCESS &&
        cublasLtMatmulDescSetAttribute(&product, CUBLASLT_MATMUL_DESC_TRANSA, &op_x, sizeof op_x) == CUBLAS_STATUS_SUCCESS &&
        cublasLtMatmulDescSetAttribute(&product, CUBLASLT_MATMUL_DESC_TRANSB, &op_y, sizeof op_y) == CUBLAS_STATUS_SUCCESS &&
        lines_b.describe(x, batch) && lines_a.describe(y, batch) && lines_c.describe(z, batch) &&
        cublasLtMatmulPreferenceInit(&preference) == CUBLAS_STATUS_SUCCESS &&
        cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most) == CUBLAS_STATUS_SUCCESS;
    for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
             CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
        well = well && cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &align, sizeof align) == CUBLAS_STATUS_SUCCESS;
    cublasLtMatmulHeuristicResult_t found = {};
    int count = 0;
    well = well && cublasLtMatmulAlgoGetHeuristic(handle, &product, &x, &y, &z, &z, &preference, 1, &found, &count) == CUBLAS_STATUS_SUCCESS;
    if (!well || count == 0) return refuse(cudaErrorNotSupported, "cuBLASLt has no algorithm for %d x %d x %d", a.M, a.N, a.K);
    const Scalar alpha = static_cast<Scalar>(a.alpha), beta = static_cast<Scalar>(a.beta);
    const cublasStatus_t done =
        cublasLtMatmul(handle, &product, &alpha, a.B, &x, a.A, &y, &beta, a.C, &z, a.C, &z, &found.algo, workspace, CUBLASLT_WORKSPACE, stream);
    return done == CUBLAS_STATUS_SUCCESS ? cudaSuccess : refuse(cudaErrorLaunchFailure, "cublasLtMatmul: status %d", int(done));
}

