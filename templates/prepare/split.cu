/*# Operands of f32 as sums of narrower pieces: how they are split, and which pairs of pieces are multiplied. #*/
//% macro pieces(view)
//% set P = view.pieces.dtype.ctype
// x = at[0] + at[1] + at[2]: each piece is the nearest ${ P } to what those before it leave.
struct Pieces {
    ${ P } at[${ view.pieces.count }];
};

// If x is not 0, neither is its first piece, else Inf times it would be NaN: for a tiny x that is the smallest ${ P }, which the
// second piece makes up for. Inf and NaN go to the last piece, which is multiplied by the other operand's first piece only.
__device__ __forceinline__ Pieces split(float x)
{
    const float largest = __uint_as_float(0x7f7f0000u), smallest = copysignf(__uint_as_float(0x00010000u), x);  // magnitudes of ${ P }
    if (!isfinite(x)) return {${ P }(smallest), ${ P }(0.0f), ${ P }(x)};
    ${ P } first(fminf(fmaxf(x, -largest), largest));
    if (first == 0.0f && x != 0.0f) first = ${ P }(smallest);
    const float rest = x - first;
    const ${ P } second(rest);
    return {first, second, ${ P }(rest - second)};
}
//% endmacro
//% macro pair_of(view)
// The pieces of A and B that are multiplied, pair by pair: small products first, while the sum is small, too.
struct Pair {
    int a, b;
};

__device__ __forceinline__ Pair pair_of(int number)
{
    constexpr Pair pairs[PAIRS] = {
//%- for a, b in view.pieces.pairs
{${ a }, ${ b }}${ ", " if not loop.last }
//%- endfor
};
    return pairs[number];
}
//% endmacro
