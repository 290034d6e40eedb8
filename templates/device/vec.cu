//% macro vec()
// N floats that move as one access of 4 * N bytes.
template <int N>
struct alignas(4 * N) Vec {
    float at[N];
};

template <int N>
__device__ __forceinline__ Vec<N> load(const float* from)
{
    return *reinterpret_cast<const Vec<N>*>(from);
}

template <int N>
__device__ __forceinline__ void store(float* to, const Vec<N>& value)
{
    *reinterpret_cast<Vec<N>*>(to) = value;
}

// The first `valid` of N floats, the rest zero: one access where all exist, else one by one.
template <int N>
__device__ __forceinline__ Vec<N> load_edge(const float* from, int valid)
{
    if (valid >= N) return load<N>(from);
    Vec<N> value = {};
    #pragma unroll
    for (int i = 0; i < N - 1; ++i) {
        if (i < valid) value.at[i] = from[i];
    }
    return value;
}
//% endmacro
