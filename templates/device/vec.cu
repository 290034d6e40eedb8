//% macro vec(stores=true)
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
//% endmacro

//% macro load_edge()
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
//% endmacro
