/*# Operands that are converted: vectors that stay as they lie in memory until each element is used. #*/
//% from "device/cp_async.cu" import cp_async
//% from "device/convert.cu" import unpack

/*# The type of an access to `width` elements of x; operands that nothing converts have plain vectors. #*/
//% macro access(x, width)
${ "Vec<" if types.uniform else "Packed<" ~ element[x.X] ~ ", " }${ width }>
//%- endmacro

//% macro packed(view)
//% if view.packed
${ unpack(view.packed) }
//% endif
//% if view.subwords
// What holds a vector: registers of 32 bits, or one of all its bits.
template <int BYTES>
struct Register {
    using Type = unsigned;
};
/*% for bytes, ctype in view.subwords %*/

template <>
struct Register<${ bytes }> {
    using Type = ${ ctype };
};
/*% endfor %*/

//% endif
// N elements that move as one access. They stay packed until each is used: to take one out is to wait for the load.
template <typename E, int N>
struct alignas(sizeof(E) * N) Packed {
//% if view.subwords
    using Word = typename Register<sizeof(E) * N>::Type;
    static constexpr int EACH = sizeof(Word) / sizeof(E);
    Word words[N / EACH];
//% else
    static constexpr int EACH = 4 / sizeof(E);
    unsigned words[N / EACH];
//% endif
/*% if view.packed %*/

    __device__ __forceinline__ ${ T } operator[](int i) const { return unpack<E>(words[i / EACH], i % EACH); }
/*% endif %*/
};

template <int N, typename E>
__device__ __forceinline__ Packed<E, N> load_packed(const E* from)
{
    return *reinterpret_cast<const Packed<E, N>*>(from);
}

//% if view.dots and not view.direct
template <int N, typename E>
__device__ __forceinline__ void store_packed(E* to, const Packed<E, N>& value)
{
    *reinterpret_cast<Packed<E, N>*>(to) = value;
}

//% endif
//% if view.ring
${ cp_async() }
//% endif
//% if view.load_edge
// The first `valid` of N elements, the rest zero: one access where all exist, else one by one.
template <int N, typename E>
__device__ __forceinline__ Packed<E, N> load_edge(const E* from, int valid)
{
    if (valid >= N) return load_packed<N>(from);
    alignas(Packed<E, N>) E some[N] = {};
    #pragma unroll
    for (int i = 0; i < N - 1; ++i) {
        if (i < valid) some[i] = from[i];
    }
    return load_packed<N>(some);
}
//% endif
//% endmacro
