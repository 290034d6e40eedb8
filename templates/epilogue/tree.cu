/*# Epilogues that are more than alpha * acc + beta * C: their functions and inputs, C's new element, and how a thread stores
    its elements. #*/
//% from "epilogue/linear.cu" import extent
//% from "epilogue/result.cu" import element_of_c, narrowed
//% from "epilogue/sums.cu" import sum_parameters, sums
//% from "device/convert.cu" import multiply_subtract
/*# `early`: the caller has loaded what the epilogue reads of its tensors. #*/
//% macro epilogue(kernel, early=false)
//% if kernel.epilogue.subtracts
${ multiply_subtract() }
//% endif
//% if kernel.problem.epilogue.amaxes
${ amax() }
//% endif
/*% for f in kernel.epilogue.functions %*/
//% if f.template
//% from f.template import definition
${ definition() | trim("\n") }
//% else
__device__ __forceinline__ ${ TS } ${ f.name }(${ TS } ${ f.parameters | join(", %s " | format(TS)) })
{
    return ${ f.text };
}
/*% endif %*/

/*% endfor %*/
//% set e = kernel.problem.epilogue
// What the epilogue takes beside the sum${ " and C" if e.reads_c }${ ": pointers lead to the first row and column that it is asked for" if e.operands }${ ": nothing" if not e.operands and not e.scalars }.
//% if not e.operands and not e.scalars
struct Epilogue {};
//% else
struct Epilogue {
//% if e.scalars
    ${ TS } ${ e.scalars | join(", ") };
//% endif
//% for x in e.operands
    ${ "const " if not x.written }${ kernel.ctype_of(x) }* ${ x.name };
//% endfor
};
/*% endif %*/

//% if early and e.read
// What the epilogue reads of these for one element of C.
struct EpilogueInputs {
//% for x in e.read
    ${ kernel.ctype_of(x) } ${ x.name };
//% endfor
};

__device__ __forceinline__ EpilogueInputs load_inputs(const Epilogue& e${ told(kernel.epilogue.inputs) })
{
    return {
//%- for x in e.read
${ read_operand(x) }${ ", " if not loop.last }
//%- endfor
};
}

//% endif
// C's new element${ " in " ~ kernel.epilogue.element.words | join(" and ") if kernel.epilogue.element.words }${ "; c is the old one, or 0 where beta = 0" if e.reads_c }:
// ${ e }
//% if e.amaxes
// ${ e.amaxes | map(attribute="name") | join(" and ") }: the largest magnitude so far, which this may raise.
//% endif
__device__ __forceinline__ ${ TS } epilogue(const Epilogue& e${ ", const EpilogueInputs& inputs" if early and e.read }${ told(kernel.epilogue.late if early else kernel.epilogue.element) }, ${ T } acc${ sums_of(e, T) }${ ", %s c" | format(TS) if e.reads_c }${ output_parameters(e) })
{
//% for x in e.read
    const ${ kernel.ctype_of(x) } ${ x.name } = ${ "inputs." ~ x.name if early else read_operand(x) };
//% endfor
//% for s in kernel.epilogue.statements
//% if s.output is none
    const ${ TS } ${ s.name } = ${ s.text };
//% elif s.output.is_amax
    ${ s.name } = max(${ s.name }, magnitude(${ s.text }));
//% else
    ${ s.name } = ${ s.text };
//% endif
//% endfor
    return ${ kernel.epilogue.result };
}
//% endmacro
/*# What a function is told of its position in C, as further parameters, #*/
//% macro told(position)
${ ", Shape s" if position.shape }${ ", int m" if position.row }${ ", int n" if position.column }
//%- endmacro
/*# or as arguments. #*/
//% macro at_position(position, m="m", n="n")
${ ", s" if position.shape }${ ", " ~ m if position.row }${ ", " ~ n if position.column }
//%- endmacro
/*# An operand's element for row m and column n. #*/
//% macro read_operand(x)
e.${ x.name }[${ {"m": "m", "n": "n", "mn": "Offset(m) * s.%s + n" | format(x.ld)}.get(x.along, "0") }]
//%- endmacro
/*# Largest magnitudes as bits. #*/
//% macro amax()
//% set f64 = types.scalar.label == "f64"
//% set BITS = "unsigned long long" if f64 else "unsigned"
// A magnitude's bits, which are in the order of magnitudes, with NaN above all of them.
using Magnitude = ${ BITS };

__device__ __forceinline__ Magnitude magnitude(${ TS } value)
{
//% if f64
    return static_cast<Magnitude>(__double_as_longlong(value)) & 0x7fffffffffffffffu;
//% else
    return __float_as_uint(value) & 0x7fffffffu;
//% endif
}

// *to, which other blocks raise as well, becomes `value` if it is smaller.
__device__ __forceinline__ void raise_amax(${ TS }* to, Magnitude value)
{
    atomicMax(reinterpret_cast<Magnitude*>(to), value);
}
//% endmacro
/*# The epilogue's outputs, as further parameters. #*/
//% macro output_parameters(e)
//%- for x in e.outputs
, ${ "Magnitude" if x.is_amax else TS }& ${ x.name }
//%- endfor
//%- endmacro
/*# Of one element: where its outputs go first. #*/
//% macro declare_outputs(e)
//% for x in e.outputs
${ "Magnitude" if x.is_amax else TS } ${ x.name }_value${ " = 0" if x.is_amax };
//% endfor
//% endmacro
/*# And from there to memory: all, or those to matrices. #*/
//% macro store_outputs(e, m, n)
${ store_matrices(e, m, n) }
//%- for x in e.amaxes
raise_amax(e.${ x.name } + ${ m if x.along == "m" else n }, ${ x.name }_value);
//% endfor
//% endmacro
//% macro store_matrices(e, m, n)
//% for x in e.written_matrices
e.${ x.name }[Offset(${ m }) * s.${ x.ld } + ${ n }] = ${ x.name }_value;
//% endfor
//% endmacro
/*# What a thread's element raises, if it `exists`, once for the lanes of its warp that share a row, or a column. #*/
//% macro raise_amaxes(kernel)
//% for a in kernel.problem.epilogue.amaxes
//% set lanes = kernel.amax_lanes(a)
//% if lanes
${ a.name }_value = warp_amax<${ lanes | join(", ") }>(${ a.name }_value);
if (exists && threadIdx.x % ${ "%d == 0" | format(lanes[1]) if a.along == "m" else "32 < %d" | format(lanes[0]) }) raise_amax(e.${ a.name } + ${ a.along }, ${ a.name }_value);
//% else
if (exists) raise_amax(e.${ a.name } + ${ a.along }, ${ a.name }_value);
//% endif
//% endfor
//% endmacro
//% macro warp_amax()
// The largest of what lanes have that are FIRST, 2 * FIRST and so on, to END, apart.
template <int FIRST, int END>
__device__ __forceinline__ Magnitude warp_amax(Magnitude value)
{
    #pragma unroll
    for (int distance = FIRST; distance < END; distance *= 2) value = max(value, __shfl_xor_sync(0xffffffffu, value, distance));
    return value;
}
//% endmacro
/*# The other sums that the epilogue takes, as further parameters of `type`, or as arguments. #*/
//% macro sums_of(e, type="", at="")
${ ", %sacc2%s" | format(type ~ " " if type, at) if e.products > 1 }
//%- for name in e.sums
, ${ type ~ " " if type }${ name }${ at if name == "column_sum" }
//%- endfor
//%- endmacro
/*# The call for row `m` and column `n`, with C's old element; `at` leads to the column's of several sums. `outputs`: see below.
    `inputs` were loaded early. #*/
//% macro applied(kernel, m, n, acc, c, at="", outputs=none, inputs="")
//% set e = kernel.problem.epilogue
epilogue(e${ ", " ~ inputs if inputs and e.read }${ at_position(kernel.epilogue.late if inputs else kernel.epilogue.element, m, n) }, ${ acc }${ sums_of(e, at=at) }${ ", " ~ c if e.reads_c }${ (", " ~ e.outputs | map(attribute="name") | join("_value, ") ~ "_value" if e.outputs) if outputs is none else outputs })
//%- endmacro
/*# The same with C's old element at `to`, which beta = 0 leaves unread. #*/
//% macro applied_at(kernel, m, n, acc, to, at="", outputs=none, inputs="")
${ applied(kernel, m, n, acc, "e.beta == %s ? %s : %s" | format(types.scalar.arithmetic.zero, types.scalar.arithmetic.zero, to), at, outputs, inputs) }
//%- endmacro
/*# The epilogue's inputs, from row `m` and column `n` of C on, or of the matrix `product` of a batch. #*/
//% macro inputs(kernel, m="", n="", product="")
{
//%- for name in kernel.problem.epilogue.scalars
${ name }${ ", " if not loop.last or kernel.problem.epilogue.operands }
//%- endfor
//%- for x in kernel.problem.epilogue.operands
${ x.name }
//%- if m
${ {"m": " + " ~ m, "n": " + " ~ n, "mn": " + Offset(%s) * s.%s + %s" | format(m, x.ld, n)}.get(x.along, "") }
//%- endif
//%- if product and kernel.to_product(x, product)
 + ${ kernel.to_product(x, product) }
//%- endif
${ ", " if not loop.last }
//%- endfor
}
//%- endmacro
/*# Of a store of N columns of a row: the other sums that it takes. #*/
//% macro vector_sums(e)
${ ", Vec<%sN> acc2" | format(of.sums) if e.products > 1 }${ ", %s row_sum" | format(T) if "row_sum" in e.sums }${ ", Vec<%sN> column_sum" | format(of.sums) if "column_sum" in e.sums }
//%- endmacro
/*# Likewise: where the largest magnitudes are raised. #*/
//% macro vector_amaxes(kernel)
${ ", Magnitude& row_amax" if "row_amax" in kernel.outputs }${ ", Magnitude* column_amax" if "column_amax" in kernel.outputs }
//%- endmacro
/*# The outputs of element i of N, as further arguments: those to matrices lie in a vector, or are `alone`. #*/
//% macro vector_outputs(kernel, alone=false)
//%- for x in kernel.problem.epilogue.outputs
, ${ x.name }${ {"m": "", "n": "[i]", "mn": "" if alone else kernel.output_vectors(x).element}[x.along] }
//%- endfor
//%- endmacro
/*# N new elements of the sums `value` to C. #*/
//% macro store_vector(kernel)
//% for x in kernel.problem.epilogue.written_matrices
Vec<${ of.scalar }${ kernel.output_vectors(x).width }> ${ x.name }${ kernel.output_vectors(x).count };
//% endfor
//% set into = "value" if types.uniform else "stored"
${ new_elements(kernel, "to", into) }store<N>(to, ${ into });
//% for x in kernel.problem.epilogue.written_matrices
//% set to, vectors = "e.%s + Offset(m) * s.%s + n" | format(x.name, x.ld), kernel.output_vectors(x)
//% if vectors.count
#pragma unroll
//% set each = vectors.width if vectors.width != "1"
for (int i = 0; i < N${ " / " ~ each if each }; ++i) store<${ vectors.width }>(${ to } + i${ " * " ~ each if each }, ${ x.name }[i]);
//% else
store<N>(${ to }, ${ x.name });
//% endif
//% endfor
//% endmacro
/*# They, in the vector `into`; the old ones are `at` a pointer. #*/
//% macro new_elements(kernel, at, into)
//% if kernel.problem.epilogue.reads_c
Vec<${ of.C }N> old = {};
if (e.beta != ${ types.scalar.arithmetic.zero }) old = load<N>(${ at });
//% endif
//% if not types.uniform
Vec<${ of.C }N> stored;
//% endif
#pragma unroll
for (int i = 0; i < N; ++i) ${ into }.at[i] = ${ narrowed(applied(kernel, "m", "n + i", "value.at[i]", "old.at[i]", ".at[i]", vector_outputs(kernel))) };
//% endmacro
/*# Of a store of a thread's row: the other sums that it takes. #*/
//% macro row_sums(e)
${ ", const %s (&sums2)[TN]" | format(T) if e.products > 1 }${ ", %s row_sum" | format(T) if "row_sum" in e.sums }${ ", const %s (&column_sums)[TN]" | format(T) if "column_sum" in e.sums }
//%- endmacro
/*# The sums of VC columns from j on, and the others beside them; `row` leads to those of a row. #*/
//% macro vectors_of_sums(e, row="")
Vec<${ of.sums }VC> value;
#pragma unroll
for (int v = 0; v < VC; ++v) value.at[v] = sums${ row }[j + v];
//% if e.products > 1
Vec<${ of.sums }VC> acc2;
#pragma unroll
for (int v = 0; v < VC; ++v) acc2.at[v] = sums2${ row }[j + v];
//% endif
//% if "column_sum" in e.sums
Vec<${ of.sums }VC> column_sum;
#pragma unroll
for (int v = 0; v < VC; ++v) column_sum.at[v] = column_sums[j + v];
//% endif
//% endmacro
/*# As arguments: row and column, or the last ones of C where they lie beyond it. #*/
//% macro at_last(stores, m_last, n_last)
${ at_position(stores, "min(m, rows - 1)" if m_last else "m", "min(n, columns - VC)" if n_last else "n") }
//%- endmacro
//% macro beyond(m_last, n_last, c="it")
${ ". TMA drops what lies beyond " ~ c ~ ", where the epilogue reads what it does for the last " ~ (["row"] * m_last + ["columns"] * n_last) | join(" and ") if m_last or n_last }
//%- endmacro
/*# registers -> global, row by row of a thread's. `whole`: where it stores to, a tile has room beyond the edges of C; what the
    epilogue reads has none at `edges`, of M and N. #*/
//% macro store_c(kernel, moves_m=false, moves_n=false, sliced=false, shared=false, staged=false, edges=none, whole=false)
//% set e = kernel.problem.epilogue
//% set edges = kernel.edges if edges is none else edges
//% set m_edge, n_edge = "M" in edges and not whole, "N" in edges and not whole
//% set m_last, n_last = "M" in edges and whole, "N" in edges and whole
//% set stores = kernel.epilogue.stores
//% set row_amax, column_amax = "row_amax" in kernel.outputs, "column_amax" in kernel.outputs
//% set given = (", row_amax" if row_amax) ~ (", column_amaxs + j" if column_amax)
${ epilogue(kernel) }
//% if n_edge
// The first `valid` of N new elements${ " from " ~ stores.words | join(", ") if stores.words }${ " on" if stores.column } to C${ ". beta = 0 overwrites C unread: it may be uninitialised" if e.reads_c }.
template <int N>
__device__ __forceinline__ void store_edge(${ TC }* to, const Epilogue& e${ told(stores) }, Vec<${ of.sums }N> value${ vector_sums(e) }${ vector_amaxes(kernel) }, int valid)
{
    if (valid >= N) {
${ store_vector(kernel) | indent(8, true) | trim("\n") }
        return;
    }
    #pragma unroll
    for (int i = 0; i < N - 1; ++i) {
//% set new = narrowed(applied_at(kernel, "m", "n + i", "value.at[i]", "to[i]", ".at[i]", vector_outputs(kernel, alone=true)))
//% if e.written_matrices
        if (i < valid) {
            ${ TS } ${ e.written_matrices | map(attribute="name") | join(", ") };
            to[i] = ${ new };
//% for x in e.written_matrices
            e.${ x.name }[Offset(m) * s.${ x.ld } + n + i] = ${ x.name };
//% endfor
        }
//% else
        if (i < valid) to[i] = ${ new };
//% endif
    }
}
//% else
// N new elements${ " from " ~ stores.words | join(", ") if stores.words }${ " on" if stores.column } to C${ ". beta = 0 overwrites C unread: it may be uninitialised" if e.reads_c }.
template <int N>
__device__ __forceinline__ void store_results(${ TC }* to, const Epilogue& e${ told(stores) }, Vec<${ of.sums }N> value${ vector_sums(e) }${ vector_amaxes(kernel) })
{
${ store_vector(kernel) | indent(4, true) | trim("\n") }
}
/*% endif %*/

// The i-th of this thread's ${ "ROWS" if sliced else "TM" } rows of C${ extent(m_edge, n_edge, moves_m, moves_n) }${ beyond(m_last, n_last) }.
//% set rows, columns = "skip_rows" if moves_m else "rows", "skip_columns" if moves_n else "columns"
//% set parameters = (", int " ~ rows if "M" in edges) ~ (", int " ~ columns if "N" in edges)
//% if moves_m or moves_n
// The first ${ "`skip_rows` rows" if moves_m }${ " and " if moves_m and moves_n }${ "`skip_columns` columns" if moves_n } of a tile that moved back are another tile's, which stores them.
//% endif
__device__ __forceinline__ void store_row(${ TC }* tile, Shape s${ parameters }, ThreadOrigin thread, int i,
                                          const ${ T } (&sums)[TN]${ row_sums(e) }, const Epilogue& e${ ", Magnitude (&column_amaxs)[TN]" if column_amax })
{
//% if sliced
    const int row = static_cast<int>(threadIdx.x) / SLICE_THREADS * ROWS + i;  // of the thread tile
    const int m = thread.m + row / FM * STEP_M + row % FM;
//% else
    const int m = thread.m + i / FM * STEP_M + i % FM;
//% endif
//% if m_edge
    if (${ "m < skip_rows" if moves_m else "m >= rows" }) return;
//% endif
//% if row_amax
    Magnitude row_amax = 0;
//% endif
    #pragma unroll
    for (int j = 0; j < TN; j += VC) {
        const int n = thread.n + j / FN * STEP_N + j % FN;
${ vectors_of_sums(e) | indent(8, true) | trim("\n") }
//% if n_edge
        store_edge<VC>(${ element_of_c(staged) }, e${ at_position(stores) }, value${ sums_of(e) }${ given }, ${ "n < skip_columns ? 0 : VC" if moves_n else "columns - n" });
//% else
        store_results<VC>(${ element_of_c(staged) }, e${ at_last(stores, m_last, n_last) }, value${ sums_of(e) }${ given });
//% endif
    }
//% if row_amax
    raise_amax(e.row_amax + m, row_amax);
//% endif
}
/*% if column_amax %*/

// The largest magnitudes of this thread's columns.
__device__ __forceinline__ void raise_column_amaxs(const Epilogue& e${ ", int " ~ columns if n_edge }, ThreadOrigin thread, const Magnitude (&column_amaxs)[TN])
{
    #pragma unroll
    for (int j = 0; j < TN; ++j) {
        const int n = thread.n + j / FN * STEP_N + j % FN;
        ${ "if (n %s) " | format(">= skip_columns" if moves_n else "< columns") if n_edge }raise_amax(e.column_amax + n, column_amaxs[j]);
    }
}
//% endif
/*% if not shared %*/

// The same for all of this thread's rows.
__device__ __forceinline__ void store_c(${ TC }* tile, Shape s${ parameters }, ThreadOrigin thread,
                                        const ${ T } (&sums)[${ "ROWS" if sliced else "TM" }][TN]${ ", const %s (&sums2)[TM][TN]" | format(T) if e.products > 1 }${ sum_parameters(kernel, "const ") }, const Epilogue& e)
{
//% if column_amax
    Magnitude column_amaxs[TN] = {};
//% endif
    #pragma unroll
    for (int i = 0; i < ${ "ROWS" if sliced else "TM" }; ++i) store_row(tile, s${ ", " ~ rows if "M" in edges }${ ", " ~ columns if "N" in edges }, thread, i, sums[i]${ ", sums2[i]" if e.products > 1 }${ sums(kernel) | replace("row_sums", "row_sums[i]") }, e${ ", column_amaxs" if column_amax });
//% if column_amax
    raise_column_amaxs(e${ ", " ~ columns if n_edge }, thread, column_amaxs);
//% endif
}
//% endif
//% endmacro
/*# registers -> shared, all of a thread's elements of a piece of which TMA stores what lies in C. #*/
//% macro store_c_at_once(kernel, edges)
//% set e, stores = kernel.problem.epilogue, kernel.epilogue.stores
//% set m_last, n_last = "M" in edges, "N" in edges
//% set into = "value" if types.uniform else "stored"
${ epilogue(kernel) }
// N new elements of C${ " from " ~ stores.words | join(", ") if stores.words }${ " on" if stores.column }${ ". beta = 0 leaves the old ones unread: they may be uninitialised" if e.reads_c }.
template <int N>
__device__ __forceinline__ Vec<${ of.C }N> results(${ "const %s* from, " | format(TC) if e.reads_c }const Epilogue& e${ told(stores) }, Vec<${ of.sums }N> value${ vector_sums(e) })
{
${ new_elements(kernel, "from", into) | indent(4, true) | trim("\n") }
    return ${ into };
}

// This thread's elements of a piece${ beyond(m_last, n_last, "C") }. All are computed before the first is stored${ ": loads of the old ones stay behind the stores before them" if e.reads_c }.
__device__ __forceinline__ void store_c(${ TC }* tile, Shape s${ ", int rows" if m_last }${ ", int columns" if n_last }, ThreadOrigin thread,
                                        const ${ T } (&sums)[TM][TN]${ ", const %s (&sums2)[TM][TN]" | format(T) if e.products > 1 }${ sum_parameters(kernel, "const ") }, const Epilogue& e)
{
    Vec<${ of.C }VC> stored[TM][TN / VC];
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
//% if e.reads_c or stores.row
        const int m = thread.m + i / FM * STEP_M + i % FM;
//% endif
        #pragma unroll
        for (int j = 0; j < TN; j += VC) {
//% if e.reads_c or stores.column
            const int n = thread.n + j / FN * STEP_N + j % FN;
//% endif
${ vectors_of_sums(e, "[i]") | indent(12, true) | trim("\n") }
            stored[i][j / VC] = results<VC>(${ element_of_c(true) ~ ", " if e.reads_c }e${ at_last(stores, m_last, n_last) }, value${ sums_of(e) | replace("row_sum", "row_sums[i]") });
        }
    }
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = thread.m + i / FM * STEP_M + i % FM;
        #pragma unroll
        for (int j = 0; j < TN; j += VC) {
            const int n = thread.n + j / FN * STEP_N + j % FN;
            store<VC>(${ element_of_c(true) }, stored[i][j / VC]);
        }
    }
}
//% endmacro
