/*# Products of fragments on tensor cores. #*/
/*# The sums of A's rows and B's columns that an epilogue takes, as accumulators: further parameters, arguments, definitions. #*/
//% set lines = {"row_sum": "MMAS_M", "column_sum": "MMAS_N"}
//% macro summed_parameters(kernel)
//%- for name in kernel.problem.epilogue.sums
, ${ T } (&${ name }_acc)[${ lines[name] }][4]
//%- endfor
//%- endmacro
//% macro summed(kernel)
//%- for name in kernel.problem.epilogue.sums
, ${ name }_acc
//%- endfor
//%- endmacro
//% macro declare_summed(kernel)
//% for name in kernel.problem.epilogue.sums
    ${ T } ${ name }_acc[${ lines[name] }][4] = {};  // sums of lines of an operand, as products with ones
//% endfor
//% endmacro
/*# A thread's column `j` of C: of which fragment of B, and which of the two columns that the thread has sums of in that. #*/
//% macro fragment_of(view)
${ "j / 4 * 2 + j % 2" if view.b.pairs else "j / 2" }
//%- endmacro
//% macro column_of(view)
${ "j / 2 % 2" if view.b.pairs else "j % 2" }
//%- endmacro
/*# What multiplies a fragment of A by one of B. #*/
//% macro multiply(view)
${ "multiply" if view.composed else view.mma.function }
//%- endmacro
//% macro mma(view, kernel)
//% set sums, F, D = kernel.problem.epilogue.sums, view.mma.a_type, view.mma.c_type
//% if view.composed
// d += a * b, 16 x 8 x K_STEP, by instructions for ${ view.mma.m } x 8 x ${ view.mma.k }: all that the architecture has.
__device__ __forceinline__ void multiply(${ D } (&d)[${ view.registers }], const ${ F } (&a)[4], const ${ F } (&b)[2])
{
    #pragma unroll
//% if view.mma.m == 16
    for (int half = 0; half < 2; ++half) {  // of the k
        const ${ F } a_half[2] = {a[2 * half], a[2 * half + 1]}, b_half[1] = {b[half]};
        ${ view.mma.function }(d, a_half, b_half);
    }
//% else
    for (int part = 0; part < 4; ++part) {  // of the rows, then of the k
        ${ T } rows[2] = {d[part % 2 * 2], d[part % 2 * 2 + 1]};
        const ${ F } a_part[1] = {a[part]}, b_half[1] = {b[part / 2]};
        ${ view.mma.function }(rows, a_part, b_half);
        d[part % 2 * 2] = rows[0];
        d[part % 2 * 2 + 1] = rows[1];
    }
//% endif
}

//% endif
// acc += a * b: the products of one k step. In a serpentine: each instruction has a fragment of the one before it.
__device__ __forceinline__ void mma(const ${ F } (&a)[MMAS_M][4], const ${ F } (&b)[MMAS_N][2], Accumulators& acc${ summed_parameters(kernel) })
{
    #pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
        #pragma unroll
        for (int step = 0; step < MMAS_N; ++step) {
            const int j = i % 2 ? MMAS_N - 1 - step : step;
            ${ multiply(view) }(acc[i][j], a[i], b[j]);
        }
    }
//% if sums
    const unsigned one = 0x01010101u;  // four elements
//% endif
//% if "row_sum" in sums
    const ${ F } b_ones[2] = {one, one};
    #pragma unroll
    for (int i = 0; i < MMAS_M; ++i) ${ multiply(view) }(row_sum_acc[i], a[i], b_ones);
//% endif
//% if "column_sum" in sums
    const ${ F } a_ones[4] = {one, one, one, one};
    #pragma unroll
    for (int j = 0; j < MMAS_N; ++j) ${ multiply(view) }(column_sum_acc[j], a_ones, b[j]);
//% endif
}

//% if view.promoted
// Adds the sums of a k tile to those of all before, in f32: tensor cores keep fewer bits of sums of these types.
__device__ __forceinline__ void promote(Accumulators& acc, Accumulators& totals)
{
    #pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
        #pragma unroll
        for (int j = 0; j < MMAS_N; ++j) {
            #pragma unroll
            for (int r = 0; r < 4; ++r) {
                totals[i][j][r] += acc[i][j][r];
                acc[i][j][r] = 0.0f;
            }
        }
    }
}

//% endif
// The sums by the rows that this thread has of C, and by columns in each.
__device__ __forceinline__ void rows_of(const Accumulators& acc, ${ T } (&sums)[TM][TN])
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int j = 0; j < TN; ++j) sums[i][j] = ${ "float_from_f16(static_cast<unsigned short>(acc[i / 2][%s][i %% 2] >> 16 * (%s)))" | format(fragment_of(view), column_of(view)) if view.halves else "acc[i / 2][%s][i %% 2 * 2 + %s]" | format(fragment_of(view), column_of(view)) };
    }
}
//% endmacro
/*# Sums change lanes, so that those of neighbouring columns meet. #*/
//% macro exchange(view)
// Two lanes DISTANCE apart exchange sums of a row. Before, each holds runs of WIDTH neighbours, and a run of the upper lane follows the
// lower lane's in C. Of each two such pairs of runs the lower lane then holds the first pair, the upper lane the second.
template <int DISTANCE>
__device__ __forceinline__ void exchange_with(${ T } (&row)[TN])
{
    constexpr int WIDTH = ${ view.run } * DISTANCE;
    const bool upper = threadIdx.x & DISTANCE;
    #pragma unroll
    for (int j = 0; j < TN; ++j) {
        if (j / WIDTH % 2) continue;
        ${ T }& first = row[j];
        ${ T }& second = row[j + WIDTH];
        const ${ T } got = __shfl_xor_sync(0xffffffffu, upper ? first : second, DISTANCE);
        (upper ? first : second) = got;
    }
}

// Tensor cores leave a thread runs of two or four neighbours in a row of C. Lanes exchange them until each thread has runs of FN neighbours.
__device__ __forceinline__ void exchange(${ T } (&row)[TN])
{
//% for distance in view.exchanges
    exchange_with<${ distance }>(row);
//% endfor
}
//% endmacro
