/*# Epilogues that are more than alpha * acc + beta * C: their functions and inputs, C's new element, and how a thread stores
    its elements. #*/
//% from "epilogue/extent.cu" import column_ends, counted, counts, row_ends, row_of_thread, rows_of_thread
//% from "epilogue/result.cu" import element_of_c, narrowed
//% from "epilogue/sums.cu" import sum_parameters, sums_of_row
//% from "device/convert.cu" import multiply_subtract
/*# What a store is given of the epilogue, #*/
//% set arguments = "e"
/*# and how a thread defines it, of C from row `m` and column `n` on, for the product number `product` of a batch. #*/
//% macro declare(kernel, m, n, product)
const Epilogue e = ${ inputs(kernel, m, n, product) };
//% endmacro
//% macro epilogue(kernel)
${ declarations(kernel) }
${ new_element(kernel, told(kernel.epilogue.element)) }
//%- endmacro
/*# Its functions, and the struct of what it takes. #*/
//% macro declarations(kernel)
//% set e = kernel.problem.epilogue
//% if kernel.epilogue.subtracts
${ multiply_subtract() }
//% endif
//% if e.amaxes
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
// What the epilogue takes beside sums and C. Pointers lead to the first row and column that it is asked for.
struct Epilogue {
//% if e.scalars
    ${ TS } ${ e.scalars | join(", ") };
//% endif
//% for x in e.operands
    ${ "const " if not x.written }${ kernel.ctype_of(x) }* ${ x.name };
//% endfor
};

//% endmacro
/*# C's new element. `parameters` follow the epilogue; `loaded` is what holds its inputs, if not memory. #*/
//% macro new_element(kernel, parameters, loaded="")
//% set e = kernel.problem.epilogue
// C's new element; c is the old one, or 0 where beta = 0:
// ${ e }
//% for a in e.amaxes
// ${ a.name } is the largest magnitude so far, which this may raise.
//% endfor
__device__ __forceinline__ ${ TS } epilogue(const Epilogue& e${ parameters }, ${ T } acc${ sums_of(e, T ~ " ") }${ ", %s c" | format(TS) if e.reads_c }${ output_parameters(e) })
{
//% for x in e.read
    const ${ kernel.ctype_of(x) } ${ x.name } = ${ loaded ~ x.name if loaded else read_operand(x) };
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
//% set position = {"s": "Shape s", "m": "int m", "n": "int n"}
//% macro told(where)
//%- for name in where.names
, ${ position[name] }
//%- endfor
//%- endmacro
/*# or as arguments. #*/
//% macro at_position(where, m="m", n="n")
//% set arguments = {"s": "s", "m": m, "n": n}
//%- for name in where.names
, ${ arguments[name] }
//%- endfor
//%- endmacro
/*# An operand's element for row m and column n. #*/
//% macro read_operand(x)
e.${ x.name }[${ {"m": "m", "n": "n", "mn": "Offset(m) * s.%s + n" | format(x.ld)}.get(x.along, "0") }]
//%- endmacro
/*# Largest magnitudes as bits. #*/
//% set bits = {
    "f32": ("unsigned", "__float_as_uint(value) & 0x7fffffffu"),
    "f64": ("unsigned long long", "static_cast<Magnitude>(__double_as_longlong(value)) & 0x7fffffffffffffffu")}
//% macro amax()
//% set type, magnitude = bits[types.scalar.label]
// A magnitude's bits, which are in the order of magnitudes, with NaN above all of them.
using Magnitude = ${ type };

__device__ __forceinline__ Magnitude magnitude(${ TS } value)
{
    return ${ magnitude };
}

// *to, which other blocks raise as well, becomes `value` if it is smaller.
__device__ __forceinline__ void raise_amax(${ TS }* to, Magnitude value)
{
    atomicMax(reinterpret_cast<Magnitude*>(to), value);
}
//% endmacro
/*# The epilogue's outputs, as further parameters, #*/
//% macro output_parameters(e)
//%- for x in e.outputs
, ${ "Magnitude" if x.is_amax else TS }& ${ x.name }
//%- endfor
//%- endmacro
/*# and as arguments where each has a variable. #*/
//% macro output_values(e)
//%- for x in e.outputs
, ${ x.name }_value
//%- endfor
//%- endmacro
/*# Of one element: where its outputs go first. #*/
//% macro declare_outputs(e)
//% for x in e.outputs
${ "Magnitude %s_value = 0" | format(x.name) if x.is_amax else "%s %s_value" | format(TS, x.name) };
//% endfor
//% endmacro
/*# And from there to memory: all, or those to matrices. #*/
//% macro store_outputs(e, m, n)
//% set of = {"m": m, "n": n}
${ store_matrices(e, m, n) }
//%- for x in e.amaxes
raise_amax(e.${ x.name } + ${ of[x.along] }, ${ x.name }_value);
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
//% set first_lane = {"m": "%d == 0" | format(lanes[1]), "n": "32 < %d" | format(lanes[0])}
${ a.name }_value = warp_amax<${ lanes | join(", ") }>(${ a.name }_value);
if (exists && threadIdx.x % ${ first_lane[a.along] }) raise_amax(e.${ a.name } + ${ a.along }, ${ a.name }_value);
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
/*# The other sums that the epilogue takes, as further parameters of `type`, or as arguments: `at` leads to a column's. #*/
//% macro sums_of(e, type="", at="", row="")
//%- for name in e.beside
, ${ type }${ name }${ row if name == "row_sum" else at }
//%- endfor
//%- endmacro
/*# The call for row `m` and column `n`, with C's old element; `at` leads to the column's of several sums. `outputs`: see below.
    `inputs` were loaded early. #*/
//% macro applied(kernel, m, n, acc, c, at="", outputs=none, inputs="")
//% set e = kernel.problem.epilogue
//% set loaded, old = ", " ~ inputs if inputs and e.read, ", " ~ c if e.reads_c
//% set places = at_position(kernel.epilogue.late if inputs else kernel.epilogue.element, m, n)
//% set written = output_values(e) if outputs is none else outputs
epilogue(e${ loaded }${ places }, ${ acc }${ sums_of(e, at=at) }${ old }${ written })
//%- endmacro
/*# The same with C's old element at `to`, which beta = 0 leaves unread. #*/
//% macro applied_at(kernel, m, n, acc, to, at="", outputs=none, inputs="")
${ applied(kernel, m, n, acc, "e.beta == %s ? %s : %s" | format(types.scalar.arithmetic.zero, types.scalar.arithmetic.zero, to), at, outputs, inputs) }
//%- endmacro
/*# The epilogue's inputs, from row `m` and column `n` of C on, or of the matrix `product` of a batch. #*/
//% macro inputs(kernel, m="", n="", product="")
{${ members(kernel, m, n, product)[2:] }}
//%- endmacro
//% macro members(kernel, m, n, product)
//%- for name in kernel.problem.epilogue.scalars
, ${ name }
//%- endfor
//%- for x in kernel.problem.epilogue.operands
, ${ x.name }
//%- if m
${ {"m": " + " ~ m, "n": " + " ~ n, "mn": " + Offset(%s) * s.%s + %s" | format(m, x.ld, n)}.get(x.along, "") }
//%- endif
//%- if product and kernel.to_product(x, product)
 + ${ kernel.to_product(x, product) }
//%- endif
//%- endfor
//%- endmacro
/*# Of a store of N columns of a row: the other sums that it takes, #*/
//% macro vector_sums(e)
//%- for name in e.beside
, ${ T if name == "row_sum" else "Vec<%sN>" | format(of.sums) } ${ name }
//%- endfor
//%- endmacro
/*# and where the largest magnitudes are raised. #*/
//% set raised = {"row_amax": ("Magnitude& row_amax", "row_amax"), "column_amax": ("Magnitude* column_amax", "column_amaxs + j")}
//% macro vector_amaxes(e)
//%- for x in e.amaxes
, ${ raised[x.name][0] }
//%- endfor
//%- endmacro
//% macro vector_amaxes_given(e)
//%- for x in e.amaxes
, ${ raised[x.name][1] }
//%- endfor
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
${ new_elements(kernel, "to") }store<N>(to, ${ stored[types.uniform] });
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
/*# They, in a vector, which is that of the sums where types are `uniform`; the old ones are `at` a pointer. #*/
//% set stored = {true: "value", false: "stored"}
//% macro new_elements(kernel, at)
//% if kernel.problem.epilogue.reads_c
Vec<${ of.C }N> old = {};
if (e.beta != ${ types.scalar.arithmetic.zero }) old = load<N>(${ at });  // else C is not read: it may be uninitialised
//% endif
//% if not types.uniform
Vec<${ of.C }N> stored;
//% endif
#pragma unroll
for (int i = 0; i < N; ++i) ${ stored[types.uniform] }.at[i] = ${ narrowed(applied(kernel, "m", "n + i", "value.at[i]", "old.at[i]", ".at[i]", vector_outputs(kernel))) };
//% endmacro
/*# Of a store of a thread's row: the other sums that it takes, and arguments of a thread that has several rows. #*/
//% macro row_sums(e)
//%- for name in e.beside
, ${ "%s row_sum" | format(T) if name == "row_sum" else "const %s (&%s)[TN]" | format(T, sums_named(name)) }
//%- endfor
//%- endmacro
//% macro row_sums_given(e)
//%- for name in e.beside
, ${ sums_named(name) }${ "[i]" if name != "column_sum" }
//%- endfor
//%- endmacro
/*# The sums of A * B2, and of the products behind it, of all of a thread's rows. #*/
//% macro further_sums(e)
//%- for name in e.beside if name.startswith("acc")
, const ${ T } (&${ sums_named(name) })[TM][TN]
//%- endfor
//%- endmacro
/*# What a thread calls its sums "acc2", "row_sum" and so on. #*/
//% macro sums_named(name)
${ name | replace("acc", "sums") if name.startswith("acc") else name ~ "s" }
//%- endmacro
/*# The sums of VC columns from j on, and the others beside them; `row` leads to those of a row. #*/
//% macro vectors_of_sums(e, row="")
${ vector_of_sums("value", "sums" ~ row) }
//%- for name in e.beside | reject("equalto", "row_sum")
${ vector_of_sums(name, sums_named(name) ~ (row if name != "column_sum")) }
//%- endfor
//% endmacro
//% macro vector_of_sums(name, sums)
Vec<${ of.sums }VC> ${ name };
#pragma unroll
for (int v = 0; v < VC; ++v) ${ name }.at[v] = ${ sums }[j + v];
//% endmacro
/*# As arguments: row and column, or the last ones of C where they lie beyond it: TMA drops what is stored of them. #*/
//% set last_row, last_column = {false: "m", true: "min(m, rows - 1)"}, {false: "n", true: "min(n, columns - VC)"}
//% macro at_last(stores, last)
${ at_position(stores, last_row["M" in last], last_column["N" in last]) }
//%- endmacro
/*# registers -> global, row by row of a thread's. `whole`: where it stores to, a tile has room beyond the edges of C; what the
    epilogue reads has none at `edges`, of M and N. #*/
//% macro store_c(kernel, moves_m=false, moves_n=false, sliced=false, shared=false, staged=false, edges=none, whole=false)
//% set e, stores = kernel.problem.epilogue, kernel.epilogue.stores
//% set edges = kernel.c_edges if edges is none else edges
//% set cut, last = ((), edges) if whole else (edges, ())
//% set row_end, column_end = row_ends[moves_m], column_ends[moves_n]
//% set names = {"M": row_end.count, "N": column_end.count}
//% set column_amax, rows = "column_amax" in kernel.outputs, rows_of_thread[sliced]
${ epilogue(kernel) }

//% if "N" in cut
// The first `valid` of N new elements to C.
template <int N>
__device__ __forceinline__ void store_edge(${ TC }* to, const Epilogue& e${ told(stores) }, Vec<${ of.sums }N> value${ vector_sums(e) }${ vector_amaxes(e) }, int valid)
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
// N new elements to C.
template <int N>
__device__ __forceinline__ void store_results(${ TC }* to, const Epilogue& e${ told(stores) }, Vec<${ of.sums }N> value${ vector_sums(e) }${ vector_amaxes(e) })
{
${ store_vector(kernel) | indent(4, true) | trim("\n") }
}
/*% endif %*/

// The i-th of this thread's rows of C, for those elements that are the tile's own.
__device__ __forceinline__ void store_row(${ TC }* tile, Shape s${ counts(edges, names) }, ThreadOrigin thread, int i,
                                          const ${ T } (&sums)[TN]${ row_sums(e) }, const Epilogue& e${ ", Magnitude (&column_amaxs)[TN]" if column_amax })
{
${ row_of_thread(sliced) | indent(4, true) | trim("\n") }
//% if "M" in cut
    if (${ row_end.beyond }) return;  // ${ row_end.because }
//% endif
//% if "row_amax" in kernel.outputs
    Magnitude row_amax = 0;
//% endif
    #pragma unroll
    for (int j = 0; j < TN; j += VC) {
        const int n = thread.n + j / FN * STEP_N + j % FN;
${ vectors_of_sums(e) | indent(8, true) | trim("\n") }
//% if "N" in cut
        store_edge<VC>(${ element_of_c(staged) }, e${ at_position(stores) }, value${ sums_of(e) }${ vector_amaxes_given(e) }, ${ column_end.valid });
//% else
        store_results<VC>(${ element_of_c(staged) }, e${ at_last(stores, last) }, value${ sums_of(e) }${ vector_amaxes_given(e) });
//% endif
    }
//% if "row_amax" in kernel.outputs
    raise_amax(e.row_amax + m, row_amax);
//% endif
}
/*% if column_amax %*/

${ raise_column_amaxs(cut | select("equalto", "N") | list, names, column_end) }
/*% endif %*/
/*% if not shared %*/

// The same for all of this thread's rows.
__device__ __forceinline__ void store_c(${ TC }* tile, Shape s${ counts(edges, names) }, ThreadOrigin thread,
                                        const ${ T } (&sums)[${ rows }][TN]${ further_sums(e) }${ sum_parameters(kernel, "const ") }, const Epilogue& e)
{
//% if column_amax
    Magnitude column_amaxs[TN] = {};
//% endif
    #pragma unroll
    for (int i = 0; i < ${ rows }; ++i) store_row(tile, s${ counted(edges, names) }, thread, i, sums[i]${ row_sums_given(e) }, e${ ", column_amaxs" if column_amax });
//% if column_amax
    raise_column_amaxs(e${ counted(cut | select("equalto", "N") | list, names) }, thread, column_amaxs);
//% endif
}
//% endif
//% endmacro
//% macro raise_column_amaxs(edges, names, end)
// The largest magnitudes of this thread's columns.
__device__ __forceinline__ void raise_column_amaxs(const Epilogue& e${ counts(edges, names) }, ThreadOrigin thread, const Magnitude (&column_amaxs)[TN])
{
    #pragma unroll
    for (int j = 0; j < TN; ++j) {
        const int n = thread.n + j / FN * STEP_N + j % FN;
        ${ "if (%s) " | format(end.within) if edges }raise_amax(e.column_amax + n, column_amaxs[j]);
    }
}
//% endmacro
