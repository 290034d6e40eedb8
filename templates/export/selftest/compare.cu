/*# A launch, and its results beside the reference: all rows, or some of them and weighted sums of the others. #*/
//% set columns, column_sum = "column_amax" in test.outputs, "column_sum" in test.epilogue.sums
int rows_of_all(const Shape& s) { return s.batch * s.M; }

//% if test.samples
// All rows of all products if the budget allows; else some, an odd number apart, which finds each place in a tile, and the last.
std::vector<int> rows_to_check(const Check& check)
{
    const Shape& s = check.shape;
    const double cost = s.N * std::max(1.0, ${ "terms_of(check)" if test.sparse else "double(s.K)" });
    const int all = rows_of_all(s), apart = all * cost <= REFERENCE_BUDGET ? 1 : int(all * cost / REFERENCE_BUDGET) | 1;
    std::vector<int> rows;
    for (int row = 0; row < all - 1; row += apart) rows.push_back(row);
    if (all > 0) rows.push_back(all - 1);
    return rows;
}

//% endif
//% if test.sums_all
//% set bits, power = ("std::uint32_t", 32) if test.scalar.is_integer else ("std::uint64_t", 64)
// An integer modulo 2^${ power }, where sums and products of whole rows are exact.
${ bits } whole(${ test.wide } value) { return static_cast<${ bits }>(static_cast<std::int64_t>(value)); }

// The first row of all in which some element is wrong, or their number: Freivalds' check${ ", for exact data only" if not test.scalar.is_integer }. C x must be
// alpha A (B x) + beta C x for any x. The weights x are odd, so no wrong element can vanish on its own.
int first_row_off(const Check& check, const Operands& x, const Storage<${ out.element.C }>& c)
{
    const Shape& s = check.shape;
    const auto [alpha, beta] = check.scalars;
    Random random = {std::mt19937_64(s.N)};
    std::vector<${ bits }> weights(s.N);
    for (${ bits }& weight : weights) weight = static_cast<${ bits }>(random.bits() | 1);
    for (int p = 0; p < s.batch; ++p) {
        std::vector<${ bits }> b_weights(s.K);
        for (int k = 0; k < s.K; ++k)
            for (int n = 0; n < s.N; ++n) b_weights[k] += whole(decode(x.B(p, k, n))) * weights[n];
        for (int m = 0; m < s.M; ++m) {
            ${ bits } difference = 0;
            for (int k = 0; k < s.K; ++k) difference += whole(alpha) * whole(decode(x.A(p, m, k))) * b_weights[k];
            for (int n = 0; n < s.N; ++n) {
                const ${ test.wide } got = decode(c(p, m, n)), old = beta == 0 ? 0 : decode(x.C(p, m, n));
//% if not test.scalar.is_integer
                if (!(std::fabs(got) <= LARGEST_EXACT) || got != std::trunc(got)) return p * s.M + m;
//% endif
                difference += (whole(beta) * whole(old) - whole(got)) * weights[n];
            }
            if (difference != 0) return p * s.M + m;
        }
    }
    return rows_of_all(s);
}

//% endif
std::string describe(const Check& check)
{
    const auto& [s, data, scalars] = check;
    char text[300];
    std::snprintf(text, sizeof text, "%dx%dx%d${ " batch=%d strides=%lld,%lld,%lld" if out.batched } lda=%d ldb=%d ldc=%d %s alpha=%g beta=%g", s.M, s.N, s.K,${ " s.batch, s.stride_a, s.stride_b, s.stride_c," if out.batched } s.lda, s.ldb,
                  s.ldc, ${ '"random"' if test.scalar.is_integer else 'data == Data::exact ? "exact" : "random"' }, double(scalars.alpha), double(scalars.beta));
    return text;
}

// What was written around an output or between its lines of `length` elements, or "".
template <typename Element>
std::string writes_outside(const char* output, const Shape& s, int length, const Storage<Element>& before, Storage<Element> after)
{
    constexpr std::size_t BAND = Storage<Element>::BAND;
    for (int row = 0; row < rows_of_all(s); ++row) {
        const std::size_t start = BAND + before.at(row / s.M, row % s.M, 0);
        std::copy_n(&before.elements[start], length, &after.elements[start]);
    }
    for (std::size_t i = 0; i < after.elements.size(); ++i) {  // by bits: NaN is no less equal to itself
        if (std::memcmp(&after.elements[i], &before.elements[i], sizeof(Element)) == 0) continue;
        return "wrote outside " + std::string(output) + ", " + std::to_string((long long)i - (long long)BAND) + " elements from its start";
    }
    return "";
}

// The first wrong element of row m of product p of `output`, or "".
template <typename Element>
std::string wrong_in_row(const char* output, int p, int m, const Storage<Element>& results, const std::vector<${ test.value }>& expected)
{
    for (int n = 0; n < int(expected.size()); ++n) {
        const auto& wanted = expected[n];
        const double got = ${ "double(decode(results(p, m, n)))" if test.wide != "double" else "decode(results(p, m, n))" };
//% if test.scalar.is_integer
        const double least = wanted.value(), most = least;
//% else
        const auto nearest = [](${ test.wide } value) { return double(decode(encode<Element>(value))); };  // to what is within the bound
        const double least = nearest(wanted.value - wanted.bound), most = nearest(wanted.value + wanted.bound);
//% endif
        if (least <= got && got <= most) continue;  // NaN is not
        char text[200];
        std::snprintf(text, sizeof text, "${ "product %d: " if out.batched }%s[%d][%d] = %.${ test.digits }g, expected %.${ test.digits }g to %.${ test.digits }g",${ " p," if out.batched } output, m, n,
                      got, least, most);
        return text;
    }
    return "";
}

bool passes(const Check& check)
{
    const Shape& s = check.shape;
    Operands x = make_operands(check);
//% if out.parts
    const std::size_t bytes = ${ out.name }_workspace_bytes(${ out.runtime_sizes | map("replace", "", "s.", 1) | join(", ") });
//% endif
//% if out.packed
    static bool packs = true;  // every other check, in a workspace that has no more than what is left
    packs = !packs;
    const std::size_t packed = ${ out.name }_packed_bytes(${ out.packed_sizes | map("replace", "", "s.", 1) | join(", ") });
    char* const memory = static_cast<char*>(workspace_of(bytes));
//% endif
//% if out.pointers
//% for name in ["A", "B", "C"]
    const DevicePointers<${ out.element[name] }> ${ name }_array(x.${ name }, s.batch);
//% endfor
//% endif
    const auto address = [](const void* at) { return Address{reinterpret_cast<std::uintptr_t>(at)}; };
    const cudaError_t started = launch(s, {
//%- for name, text in out.located.items()
address(${ "s.K == 0 ? nullptr : " if name in out.may_be_null }${ "%s.device.get()" | format(text) if text != name else "x.%s.to_device()" | format(name) })${ ", " if not loop.last }
//%- endfor
}, check.scalars${ ", packs ? memory + packed : memory, packs ? bytes - packed : bytes, packs ? memory : nullptr" if out.packed else ", workspace_of(bytes), bytes" if out.parts });
    if (started != cudaSuccess) std::puts(${ out.name }_refusal());
    must(describe(check).c_str(), started);
    must(describe(check).c_str(), cudaDeviceSynchronize());
//% for output in test.outputs
    const Storage<${ out.element[output] }> new_${ output } = x.${ output }.from_device();
/*% endfor %*/

//% if test.samples
    std::vector<int> rows = rows_to_check(check);
    const bool sampled = int(rows.size()) < rows_of_all(s);
    std::string scope = sampled ? std::to_string(rows.size()) + " of " + std::to_string(rows_of_all(s)) + " rows${ ", not column_amax" if columns }" : "every element";
//% endif
//% if test.sums_all
    if (sampled${ " && check.data == Data::exact" if not test.scalar.is_integer }) {
        scope += " in full, all rows by their weighted sums";
        const int off = first_row_off(check, x, new_C);
        if (off < rows_of_all(s)) rows.push_back(off);
    }
    std::sort(rows.begin(), rows.end());
//% endif
    std::string problem;
//% if column_sum
    ColumnSums sums;  // of the row's product
//% endif
//% if columns
    std::vector<Bounded> columns(std::size_t(s.batch) * s.N, Bounded{0, 0});
//% endif
//% if test.samples
    for (std::size_t i = 0; i < rows.size() && problem.empty(); ++i) {
        const int row = rows[i];
//% else
    for (int row = 0; row < rows_of_all(s) && problem.empty(); ++row) {
//% endif
//% if column_sum
        if (${ "i == 0 || row / s.M != rows[i - 1] / s.M" if test.samples else "row % s.M == 0" }) sums = column_sums(x, s, row / s.M);
//% endif
        const Row expected = reference_row(check, x, ${ "sums, " if column_sum }row / s.M, row % s.M);
//% for output in test.outputs if output != "column_amax"
        ${ "problem =" if loop.first else "if (problem.empty()) problem =" } wrong_in_row("${ output }", row / s.M, row % s.M, new_${ output }, expected.${ output });
//% endfor
//% if columns
        for (int n = 0; n < s.N; ++n) {
            Bounded& column = columns[x.column_amax.at(row / s.M, 0, n)];
            column = larger(column, expected.column_amax[n]);
        }
//% endif
    }
//% if columns
    for (int p = 0; p < s.batch && problem.empty()${ " && !sampled" if test.samples }; ++p) {
        const auto first = columns.begin() + std::ptrdiff_t(x.column_amax.at(p, 0, 0));
        problem = wrong_in_row("column_amax", p, 0, new_column_amax, std::vector<Bounded>(first, first + s.N));
    }
//% endif
//% for output in test.outputs
    if (problem.empty()) problem = writes_outside("${ output }", s, ${ "1" if output == "row_amax" else "s.N" }, x.${ output }, new_${ output });
//% endfor
    std::printf("%s  %s: %s\n", problem.empty() ? "PASS" : "FAIL", describe(check).c_str(),
                problem.empty() ? ${ "scope.c_str()" if test.samples else '"every element"' } : problem.c_str());
    return problem.empty();
}

