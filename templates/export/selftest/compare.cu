/*# A launch, and its results beside the reference: all rows, or some of them and weighted sums of the others. #*/
//% from "export/selftest/factor.cu" import factor_of_a, factor_of_b, row_of_c with context
//% set columns, column_sum = "column_amax" in test.outputs, "column_sum" in test.epilogue.sums
//% set integer, several = test.scalar.is_integer, test.outputs | length > 1
//% set int_p, p = ("int p, ", "p, ") if out.problem.batched else ("", "")
//% set all, at = ("s.batch * s.M", "row / s.M, row % s.M") if out.problem.batched else ("s.M", "row")
//% set scattered, placed_m = out.problem.inputs.scattered, p ~ row_of_c("m")
/*# Where a row is: C is the only output of a product whose rows are scattered. #*/
//% set placed = row_of_c("row") if scattered else at
//% set looks = test.leaves_rows or scattered
/*# Whether a row of an output is in no group, or none of those that count. #*/
//% set skipped = "group_of(x, row) == %d" | format(test.groups) if test.groups else "!counts(x, row / s.M, row % s.M)"
//% set strides, several_strides = test.shape_strides if out.problem.batched else (), ["%lld"] * test.shape_strides | length
//% if test.sums_all
//% set bits, power = ("std::uint32_t", 32) if integer else ("std::uint64_t", 64)
//% set tab, row = ("    ", "p * s.M + m") if out.problem.batched else ("", "m")
//% if not integer
constexpr double LARGEST_EXACT = 1LL << ${ test.exact_bits };  // sums of integers below it are exact

//% endif
// An integer modulo 2^${ power }, where sums and products of whole rows are exact.
${ bits } whole(${ test.wide } value) { return static_cast<${ bits }>(static_cast<std::int64_t>(value)); }

//% set first, when = "first row of all" if out.problem.batched else "first row", ", for exact data only" if not integer
// The ${ first } in which some element is wrong, or their number: Freivalds' check${ when }. C x must be
// alpha A (B x) + beta C x for any x. The weights x are odd, so no wrong element can vanish on its own.
int first_row_off(const Check& s, const Operands& x, const Storage<${ out.element.C }>& c)
{
    Random random = {std::mt19937_64(s.N)};
    vector<${ bits }> weights(s.N)${ ", b_weights(s.K)" if not out.problem.batched };
    for (auto& weight : weights) weight = ${ "static_cast<%s>(random.bits() | 1)" | format(bits) if integer else "random.bits() | 1" };
//% if out.problem.batched
    for (int p = 0; p < s.batch; ++p) {
//% endif
//% if out.problem.batched
        vector<${ bits }> b_weights(s.K);
//% endif
    ${ tab }for (int k = 0; k < s.K; ++k)
    ${ tab }    for (int n = 0; n < s.N; ++n) b_weights[k] += whole(${ factor_of_b("k", "n") }) * weights[n];
    ${ tab }for (int m = 0; m < s.M; ++m) {
    ${ tab }    ${ bits } difference = 0;
    ${ tab }    for (int k = 0; k < s.K; ++k) difference += whole(s.alpha) * whole(${ factor_of_a("m", "k") }) * b_weights[k];
    ${ tab }    for (int n = 0; n < s.N; ++n) {
    ${ tab }        const ${ test.wide } got = decode(c(${ placed_m }, n)), old = s.beta == 0 ? 0 : decode(x.C(${ placed_m }, n));
//% if not integer
    ${ tab }        if (!(std::fabs(got) <= LARGEST_EXACT) || got != std::trunc(got)) return ${ row };
//% endif
    ${ tab }        difference += (whole(s.beta) * whole(old) - whole(got)) * weights[n];
    ${ tab }    }
    ${ tab }    if (difference != 0) return ${ row };
    ${ tab }}
//% if out.problem.batched
    }
//% endif
    return ${ all };
}

//% endif
//% if out.problem.batched
//% set batch = " batch=%%d strides=%s" | format(several_strides | join(","))
//% set of_batch = " s.batch, %s," | format(strides | map("replace", "", "s.", 1) | join(", "))
//% else
//% set batch, of_batch = "", ""
//% endif
string describe(const Check& s)
{
    return text("%dx%dx%d${ batch } lda=%d ldb=%d ldc=%d ${ "random" if integer else "%s" } alpha=%g beta=%g", s.M, s.N, s.K,${ of_batch } s.lda, s.ldb,
        s.ldc${ ', s.exact ? "exact" : "random"' if not integer }, double(s.alpha), double(s.beta));
}

// Writes around an output or between its lines of `length` elements, in words; "" if none.
//% if test.leaves_rows
// Rows that no group computes must keep their values, too.
//% endif
//% if scattered
// Rows that the index does not name must keep their values, too.
//% endif
template <typename Element>
string writes_outside(const char* output, const Check& s, ${ "const Operands& x, " if looks }int length, const Storage<Element>& before, Storage<Element> after)
{
    for (int row = 0; row < ${ all }; ++row) {
//% if test.leaves_rows
        if (${ skipped }) continue;
//% endif
        const size_t start = before.BAND + before.at(${ placed }, 0);
        std::copy_n(&before.elements[start], length, &after.elements[start]);
    }
    for (size_t i = 0; i < after.elements.size(); ++i)  // by bits, as NaN != NaN
        if (std::memcmp(&after.elements[i], &before.elements[i], sizeof(Element)) != 0)
            return text("wrote outside %s, %lld elements from its start", output, (long long)(i - before.BAND));
    return "";
}

//% if out.problem.batched
// The first wrong element of row m of product p of `output`; "" if none is.
//% else
// The first wrong element of row m of `output`; "" if none is.
//% endif
template <typename Element>
string wrong_in_row(const char* output, ${ int_p }int m, const Storage<Element>& results, const vector<${ test.value }>& expected)
{
//% if not integer
    const auto nearest = [](${ test.wide } value) { return double(decode(encode<Element>(value))); };  // as C holds it
//% endif
    for (int n = 0; n < int(expected.size()); ++n) {
        const double got = ${ "double(decode(results(%sm, n)))" | format(p) if test.wide != "double" else "decode(results(%sm, n))" | format(p) };
//% if integer
        const double least = expected[n].value(), most = least;
//% else
        const auto [value, bound] = expected[n];
        const double least = nearest(value - bound), most = nearest(value + bound);
//% endif
        if (!(least <= got && got <= most))  // false for NaN
            return text("${ "product %d: " if out.problem.batched }%s[%d][%d] = %.${ test.digits }g, expected %.${ test.digits }g to %.${ test.digits }g",${ " p," if out.problem.batched } output, m, n, got, least, most);
    }
    return "";
}

bool passes(const Check& s)
{
    const Operands x = make_operands(s);
    const string what = describe(s);
//% if out.problem.pointers
//% for name in ["A", "B", "C"]
    const auto ${ name }_array = pointers_to(x.${ name }, s.batch);
//% endfor
//% endif
//% if out.parts
    const size_t bytes = ${ of("workspace_bytes") }(${ out.runtime_sizes | map("replace", "", "s.", 1) | join(", ") });
    const vector<char> ones(std::max<size_t>(1, bytes), '\xff');  // a launch sets up what it needs there
    const auto workspace = on_device(ones.data(), ones.size());
//% endif
//% if out.takes_packed
    const vector<char> codes(${ of("packed_bytes") }(), '\xff');
    const auto packed = on_device(codes.data(), codes.size());
    const auto packs = ${ of("pack_b") }(
//%- for one in out.packing
${ "x.%s.first()" | format(one.text) }${ ", " }
//%- endfor
packed.get(), nullptr);
    must(what + ", pack_b. " + ${ of("refusal") }(), packs);
//% endif
    const auto started = launch(s, {
//%- for name, text in out.located.items()
//% set address = "x.%s.first()" | format(name) if text == name else text ~ ".get()"
${ "s.K == 0 ? nullptr : " if name in out.may_be_null }${ address }${ ", " if not loop.last }
//%- endfor
}${ ", {workspace.get()}, bytes" if out.parts });
    must(what + ". " + ${ of("refusal") }(), started);
    must(what, cudaDeviceSynchronize());
//% for output in test.outputs
    const auto new_${ output } = x.${ output }.from_device();
/*% endfor %*/

    string problem;
//% if column_sum
    ColumnSums sums;
//% if out.problem.batched
    int summed = -1;  // of which product
//% endif
//% endif
//% if columns
    vector<Bounded> columns(${ "size_t(s.batch) * s.N" if out.problem.batched else "s.N" }, Bounded{0, 0});
//% endif
    const auto check = [&](int row) {
//% if test.leaves_rows
        if (${ skipped }) return;
//% endif
//% if column_sum and out.problem.batched
        if (summed != row / s.M) sums = column_sums(x, s, summed = row / s.M);
//% endif
        const auto expected = reference_row(s, x, ${ "sums, " if column_sum }${ at });
//% for output in test.outputs if output != "column_amax"
        if (problem.empty()) problem = wrong_in_row("${ output }", ${ placed }, new_${ output }, expected${ "." ~ output if several });
//% endfor
//% if columns
        for (int n = 0; n < s.N; ++n) {
            Bounded& column = columns[x.column_amax.at(${ "row / s.M, " if out.problem.batched }0, n)];
            column = larger(column, expected.column_amax[n]);
        }
//% endif
    };
//% if column_sum and not out.problem.batched
    sums = column_sums(x, s);
//% endif
//% if test.samples
    const int apart = s.apart${ "[s.exact]" if test.sparse };
    int checked = 0;
    for (int row = 0; row < ${ all } && problem.empty(); row += row + apart < ${ all } ? apart : std::max(1, ${ all } - 1 - row), ++checked) check(row);
    string scope = apart == 1 ? "every element" : text("%d of %d rows${ ", not column_amax" if columns }", checked, ${ all });
//% if test.sums_all
    if (apart > 1${ " && s.exact" if not integer }) {
        scope += " in full, all rows by their weighted sums";
        const int off = first_row_off(s, x, new_C);
        if (off < ${ all }) check(off);
    }
//% endif
//% else
    for (int row = 0; row < ${ all } && problem.empty(); ++row) check(row);
//% endif
//% if columns
//% if out.problem.batched
    for (int p = 0; p < s.batch && problem.empty()${ " && apart == 1" if test.samples }; ++p) {
        const auto first = columns.begin() + std::ptrdiff_t(x.column_amax.at(p, 0, 0));
        problem = wrong_in_row("column_amax", p, 0, new_column_amax, vector<Bounded>(first, first + s.N));
    }
//% else
    if (problem.empty()${ " && apart == 1" if test.samples }) problem = wrong_in_row("column_amax", 0, new_column_amax, columns);
//% endif
//% endif
//% for output in test.outputs
    if (problem.empty()) problem = writes_outside("${ output }", s, ${ "x, " if looks }${ "1" if output == "row_amax" else "s.N" }, x.${ output }, new_${ output });
//% endfor
    return report(problem.empty(), what, problem.empty() ? ${ "scope" if test.samples else '"every element"' } : problem);
}

