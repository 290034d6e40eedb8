//% macro vec(stores=true)
//% if not types.uniform
// N elements that move as one access.
template <typename E, int N>
struct alignas(sizeof(E) * N) Vec {
    E at[N];
};

template <int N, typename E>
__device__ __forceinline__ Vec<E, N> load(const E* from)
{
    return *reinterpret_cast<const Vec<E, N>*>(from);
}
/*% if stores %*/

template <int N, typename E>
__device__ __forceinline__ void store(E* to, const Vec<E, N>& value)
{
    *reinterpret_cast<Vec<E, N>*>(to) = value;
}
//% endif
//% else
// N ${ T }s that move as one access of ${ size } * N bytes.
template <int N>
struct alignas(${ size } * N) Vec {
    ${ T } at[N];
};

template <int N>
__device__ __forceinline__ Vec<N> load(const ${ T }* from)
{
    return *reinterpret_cast<const Vec<N>*>(from);
}
/*% if stores %*/

template <int N>
__device__ __forceinline__ void store(${ T }* to, const Vec<N>& value)
{
    *reinterpret_cast<Vec<N>*>(to) = value;
}
//% endif
//% endif
//% endmacro

/*# Accesses through registers: of elements of 8 bits each byte would take a register of its own. #*/
//% macro load_words(edge)
// N elements of 8 bits as words.
template <int N, typename E>
__device__ __forceinline__ Vec<unsigned, N / 4> load_words(const E* from)
{
    return load<N / 4>(reinterpret_cast<const unsigned*>(from));
}

//% if edge
// The first `valid` of them, the rest zero: one access where all exist, else one by one.
template <int N, typename E>
__device__ __forceinline__ Vec<unsigned, N / 4> load_edge_words(const E* from, int valid)
{
    if (valid >= N) return load_words<N>(from);
    Vec<unsigned, N / 4> words = {};
    #pragma unroll
    for (int i = 0; i < N - 1; ++i) {
        if (i < valid) words.at[i / 4] |= static_cast<unsigned>(reinterpret_cast<const unsigned char*>(from)[i]) << i % 4 * 8;
    }
    return words;
}

//% endif
//% endmacro

//% macro load_edge()
//% if not types.uniform
// The first `valid` of N elements, the rest zero: one access where all exist, else one by one.
template <int N, typename E>
__device__ __forceinline__ Vec<E, N> load_edge(const E* from, int valid)
{
    if (valid >= N) return load<N>(from);
    Vec<E, N> value = {};
    #pragma unroll
    for (int i = 0; i < N - 1; ++i) {
        if (i < valid) value.at[i] = from[i];
    }
    return value;
}
//% else
// The first `valid` of N ${ T }s, the rest zero: one access where all exist, else one by one.
template <int N>
__device__ __forceinline__ Vec<N> load_edge(const ${ T }* from, int valid)
{
    if (valid >= N) return load<N>(from);
    Vec<N> value = {};
    #pragma unroll
    for (int i = 0; i < N - 1; ++i) {
        if (i < valid) value.at[i] = from[i];
    }
    return value;
}
//% endif
//% endmacro
