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
