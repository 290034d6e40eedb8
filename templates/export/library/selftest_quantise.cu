/*# Checks of the functions that quantise. #*/
namespace test_quantise {

constexpr int BLOCK = 128;

using Function = cudaError_t (*)(const void*, int, int, int, void*, float*, cudaStream_t);

// Whether codes and scales of rows x k random elements, ld apart, are to the bit what the definition says.
template <class T>
bool passes(const char* name, Function function, bool squares, int rows, int k, int ld)
{
    std::mt19937_64 random(rows + k);
    vector<T> x(size_t(rows) * ld);
    for (T& element : x) element = T(random() % 8 == 0 ? 0.0f : std::ldexp(float(int(random() % 4096) - 2048), int(random() % 24) - 30));
    const int blocks = (k + BLOCK - 1) / BLOCK, height = squares ? BLOCK : 1, down = (rows + height - 1) / height;
    vector<std::uint8_t> codes(size_t(rows) * k), wanted_codes(codes.size());
    vector<float> scales(size_t(down) * blocks), wanted(scales.size());
    for (int line = 0; line < down; ++line)
        for (int block = 0; block < blocks; ++block) {
            const int row_end = std::min(rows, (line + 1) * height), k_end = std::min(k, (block + 1) * BLOCK);
            float largest = 1e-4f;
            for (int row = line * height; row < row_end; ++row)
                for (int i = block * BLOCK; i < k_end; ++i) largest = std::max(largest, std::fabs(float(x[size_t(row) * ld + i])));
            const float scale = largest / 448.0f, inverse = 1.0f / scale;
            wanted[squares ? size_t(line) * blocks + block : size_t(block) * rows + line] = scale;
            for (int row = line * height; row < row_end; ++row)
                for (int i = block * BLOCK; i < k_end; ++i) wanted_codes[size_t(row) * k + i] = __nv_fp8_e4m3(float(x[size_t(row) * ld + i]) * inverse).__x;
        }
    void *at = nullptr, *to = nullptr, *to_scales = nullptr;
    bool right = cudaMalloc(&at, x.size() * sizeof(T)) == cudaSuccess && cudaMalloc(&to, codes.size()) == cudaSuccess && cudaMalloc(&to_scales, scales.size() * sizeof(float)) == cudaSuccess;
    right = right && cudaMemcpy(at, x.data(), x.size() * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess && function(at, rows, k, ld, to, static_cast<float*>(to_scales), nullptr) == cudaSuccess;
    right = right && cudaMemcpy(codes.data(), to, codes.size(), cudaMemcpyDeviceToHost) == cudaSuccess && cudaMemcpy(scales.data(), to_scales, scales.size() * sizeof(float), cudaMemcpyDeviceToHost) == cudaSuccess;
    cudaFree(at), cudaFree(to), cudaFree(to_scales);
    right = right && codes == wanted_codes && scales == wanted;
    std::printf("%s  %s: %d x %d, rows %d apart\n", right ? "PASS" : "FAIL", name, rows, k, ld);
    return right;
}

bool passes_all()
{
    bool passed = true;
//% for what in ("rows", "squares")
//% for label, ctype in lib.quantised_on_host.items()
    for (const auto& [rows, k, ld] : {std::array{1, 128, 128}, std::array{300, 999, 1007}, std::array{257, 384, 512}})
        passed &= passes<${ ctype }>("${ lib.name }_quantise_${ what }_${ label }", ${ lib.name }_quantise_${ what }_${ label }, ${ "true" if what == "squares" else "false" }, rows, k, ld);
//% endfor
//% endfor
    return passed;
}

}  // namespace test_quantise

