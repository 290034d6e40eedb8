/*# The right answer for a row of C, and what a kernel may be off by. #*/
//% from "export/selftest/factor.cu" import factor_of_a, factor_of_b, row_of_c with context
//% set integers, sums, t = test.sums.is_integer, test.epilogue.sums, test.tensor
//% set spread = t and (t.of_spread or t.rounding)
//% set int_p, p, batched = ("int p, ", "p, ", true) if out.problem.batched else ("", "", false)
//% set several = test.outputs | length > 1
//% set Row, C = ("Row", "expected.C") if several else ("vector<%s>" | format(test.value), "expected")
//% if several
// What a row of each output should hold${ "; column_amax what it makes of the columns'" if "column_amax" in test.outputs }.
struct Row {
    vector<${ test.value }> ${ test.outputs | join(", ") };
};

//% endif
//% if not integers
constexpr double LAMBDA = ${ test.bound_lambda };  // standard deviations that the error of a sum may reach

//% endif
//% if "column_sum" in sums
// The sums of the columns of B${ ", and of their magnitudes" if not integers }.
struct ColumnSums {
    vector<${ test.wide }> sum${ ", magnitude" if not integers };
};

ColumnSums column_sums(const Operands& x, const Check& s${ ", int p" if batched })
{
    ColumnSums columns = {vector<${ test.wide }>(s.N)${ ", vector<%s>(s.N)" | format(test.wide) if not integers }};
//% for line, end in ([("k", "K"), ("n", "N")] if out.problem.layout.b == "r" else [("n", "N"), ("k", "K")])
    ${ "    " * loop.index0 }for (int ${ line } = 0; ${ line } < s.${ end }; ++${ line })${ " {" if loop.last }
//% endfor
            const ${ test.wide } b = decode(x.B(${ p }k, n));
            columns.sum[n] += b;
//% if not integers
            columns.magnitude[n] += std::fabs(b);
//% endif
        }
    return columns;
}

//% endif
//% set columns = "%d * s.N" | format(out.problem.products) if out.problem.products > 1 else "s.N"
//% if test.groups
// The group of row m; ${ test.groups } if it is in none.
int group_of(const Operands& x, int m)
{
    int group = 0;
    while (group < ${ test.groups } && m >= decode(x.offs(0, group))) ++group;
    return group;
}

//% endif
//% if test.images
//% set height, width, channels = test.images.size
//% set (down, across), (top, left), (dh, dw) = test.images.stride, test.images.pad[:2], test.images.dilation
//% set at, element = ("k", "n") if out.problem.inputs.wgrad else ("m", "k")
// The image's element that element ${ element } of a filter multiplies for output pixel ${ at }; 0 in the padding.
${ test.wide } pixel(const Operands& x, int ${ at }, int ${ element })
{
    const int place = ${ at } % ${ test.images.per_image }, tap = ${ element } / ${ channels };
    const int row = place / ${ test.images.places[1] } * ${ down } - ${ top } + tap / ${ test.images.taps[1] } * ${ dh };
    const int column = place % ${ test.images.places[1] } * ${ across } - ${ left } + tap % ${ test.images.taps[1] } * ${ dw };
    if (row < 0 || row >= ${ height } || column < 0 || column >= ${ width }) return 0;
    return decode(x.${ out.problem.inputs.images }((${ at } / ${ test.images.per_image } * ${ height } + row) * ${ width } + column, ${ element } % ${ channels }));
}

//% endif
//% if out.problem.inputs.masked
// Whether row m of product p counts.
bool counts(const Operands& x, int p, int m) { return m < decode(x.group_rows(0, 0, p)); }

//% endif
//% set row = "Row m of product p" if batched else "Row m"
//% if integers
// ${ row }, in ${ test.wide } arithmetic, which holds sums of integers exactly until they wrap around.
//% else
// ${ row }, in ${ test.wide } arithmetic.
//% endif
${ Row } reference_row(const Check& s, const Operands& x, ${ "const ColumnSums& columns, " if "column_sum" in sums }${ int_p }int m)
{
    vector<${ test.wide }> row_of_a(s.K), sum(${ columns })${ ", magnitude(%s)" | format(columns) if not integers }${ ", largest(%s)" | format(columns) if spread };
//% if out.problem.inputs.along_k
    const int begin = p > 0 ? int(decode(x.offs(0, 0, p - 1))) : 0, end = int(decode(x.offs(0, 0, p)));  // of the product's k
//% endif
    for (int k = 0; k < s.K; ++k) row_of_a[k] = ${ factor_of_a("m", "k") };
//% if test.groups
    const int group = group_of(x, m);
//% endif
//% if test.sparse
    vector<int> depths;  // at which A is not 0
    for (int k = 0; k < s.K; ++k)
        if (row_of_a[k] != 0) depths.push_back(k);
//% endif
//% if "row_sum" in sums
    ${ test.wide } row = 0${ ", row_magnitude = 0" if not integers };
    for (const ${ test.wide } a : row_of_a) row += a${ ", row_magnitude += std::fabs(a)" if not integers };
//% endif
//% for line, end in ([("k", "s.K"), ("n", columns)] if out.problem.layout.b == "r" else [("n", columns), ("k", "s.K")])
//% set each = "int k : depths" if line == "k" and test.sparse else "int %s = 0; %s < %s; ++%s" | format(line, line, end, line)
    ${ "    " * loop.index0 }for (${ each })${ " {" if loop.last }
//% endfor
            const ${ test.wide } product = row_of_a[k] * ${ factor_of_b("k", "n") };
            sum[n] += product;
//% if not integers
            magnitude[n] += std::fabs(product);
//% endif
//% if spread
            largest[n] = std::max(largest[n], std::fabs(product));
//% endif
        }

//% if not integers
    // Rounding errors of K products add up like a random walk (Higham and Mary, 2019).
    const double random_walk = s.exact ? 0 : ${ "SHARES * " if test.scalar.label == "f64" }LAMBDA * std::sqrt(s.K) * UNIT_ROUNDOFF;
//% endif
//% if t
    // Tensor cores truncate terms and sums where CUDA cores round them, and may be off by more.
    const double steps = std::ceil(${ "std::min(double(s.K), %s)" | format(t.most | float) if t.most else "double(s.K)" } / ${ t.products });
    const auto cut_off = [&](int n) -> double {
        if (s.exact) return 0;
//% if spread
        const double spread = std::min(magnitude[n], std::sqrt(largest[n] * magnitude[n]));
//% endif
//% set of_sum = "%r * std::fabs(sum[n])" | format(t.of_sum)
//% set steps = "std::sqrt(steps)" if t.root else "steps"
//% set each = "(%s + %r * spread)" | format(of_sum, t.of_spread) if t.of_spread else of_sum
//% set least = " + steps * %r" | format(t.least) if t.least
//% set rounding = " + std::min(%r * magnitude[n], LAMBDA * %r * spread)" | format(t.rounding, t.rounding) if t.rounding
        return ${ steps } * ${ each }${ least }${ rounding };
    };
//% endif
//% if several
//% set nothing = "Integer(0)" if test.scalar.is_integer else "Bounded{0, 0}"
    Row expected = {
//%- for output in test.outputs
vector<${ test.value }>(${ "1" if output == "row_amax" else "s.N" }, ${ nothing })${ ", " if not loop.last }
//%- endfor
};
//% else
    ${ Row } expected(s.N${ ", Integer(0)" if test.scalar.is_integer });
//% endif
    for (int n = 0; n < s.N; ++n) {
//% for acc in test.epilogue.accumulators
//% set at = ("n", "s.N + n", "2 * s.N + n", "3 * s.N + n")[loop.index0]
//% if integers
        const Integer ${ acc }(sum[${ at }]);
//% else
//% set magnitude = ("magnitude[%s]" if test.wide == "double" else "double(magnitude[%s])") | format(at)
        const Bounded ${ acc } = {sum[${ at }], random_walk * ${ magnitude }${ " + cut_off(%s)" | format(at) if t }};
//% endif
//% endfor
//% set old = "s.beta == 0 ? 0 : decode(x.C(%s%s, n))" | format(p, row_of_c("m"))
//% if test.linear
        ${ C }[n] = linear(s, acc, ${ old });
//% else
//% for name in sums
//% set value, magnitude = {"row_sum": ("row", "row_magnitude"), "column_sum": ("columns.sum[n]", "columns.magnitude[n]")}[name]
//% if integers
        const Integer ${ name }(${ value });
//% else
        const Bounded ${ name } = {${ value }, random_walk * double(${ magnitude })};
//% endif
//% endfor
//% if test.epilogue.reads_depth
        const ${ "Integer K(s.K)" if integers else "Bounded K = {%s(s.K), 0}" | format(test.wide) };
//% endif
//% for name in test.epilogue.scalars
        const ${ "Integer %s(s.%s)" | format(name, name) if test.scalar.is_integer else "Bounded %s = {s.%s, 0}" | format(name, name) };
//% endfor
//% if test.epilogue.reads_c
        const ${ test.wide } old = ${ old };
        const ${ "Integer C(old)" if test.scalar.is_integer else "Bounded C = {old, 0}" };
//% endif
//% for v in out.epilogue.operands if not v.written
//% set element = "decode(x.%s(%s%s, n))" | format(v.name, p, "group" if out.problem.groups_of(v) else "m")
        const ${ "Integer %s(%s)" | format(v.name, element) if integers and (v.summed or test.scalar.is_integer) else "Bounded %s = {%s, 0}" | format(v.name, element) };
//% endfor
//% for output in test.outputs if output != "C"
//% if output in out.amaxes
//% set to = "expected.%s[%s]" | format(output, "0" if output == "row_amax" else "n")
        const auto ${ output } = [&](Bounded x) { return ${ to } = larger(${ to }, x), x; };
//% else
        const auto ${ output } = [&](${ test.value } x) { return expected.${ output }[n] = x; };
//% endif
//% endfor
        ${ C }[n] = ${ test.reference.result };
//% endif
    }
    return expected;
}

