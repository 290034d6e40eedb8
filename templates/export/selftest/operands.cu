/*# The data of a check, drawn for each tensor as its type and what it stands for ask. #*/
//% set exact = not test.scalar.is_integer
// What the tensors hold before a launch.
struct Operands {
//% for held, names in test.stored
    ${ held } ${ names | join(", ") };
//% endfor
//% if test.codes
    vector<${ "double" if out.problem.scaled_depth else out.element.A }> weights;  // what B's codes stand for, row by row
//% endif
};

//% if test.into_range
//% set c, a, b = test.into_range
// A power of two that brings most sums of K random products into the range of C's elements.
${ out.element.scalar } into_range(int K) { return std::exp2(std::round(std::log2(${ c } / (2 * ${ a } * ${ b } * std::sqrt(K + 1.0))))); }

//% endif
//% set columns = "%d * s.N" | format(out.problem.products) if out.problem.products > 1 else "s.N"
Operands make_operands(const Check& s)
{
    Random random = {std::mt19937_64(s.M * 3u + s.N * 5u + s.K * 7u)};
//% if exact
    const bool exact = s.exact;
//% endif
//% if "value" in test.drawn or "before" in test.drawn
    const auto value = [&] { return exact ? random.integer(s.reach) : random.uniform(); };
//% endif
//% if "value_s8" in test.drawn and not test.codes
    const auto value_s8 = [&] { return ${ "exact ? random.integer(s.reach) : " if exact }random.below(256) - 128; };
//% endif
//% if "value_u8" in test.drawn and not test.codes
    const auto value_u8 = [&] { return random.below(${ "exact ? s.reach + 1 : 256" if exact else "256" }); };
//% endif
//% for dtype in [out.types.b] if test.codes
    const auto value_${ dtype.label } = [&] { return random.below(${ 2 ** dtype.storage_bits })${ " - %d" | format(2 ** (dtype.storage_bits - 1)) if dtype.is_signed }; };
//% endfor
//% if "scale" in test.drawn
    const auto scale = [&] { return ${ "exact ? 1 << random.below(%d) : " | format(test.exact_scales) }random.uniform(); };
//% endif
//% if "value_s32" in test.drawn
    const auto value_s32 = [&] { return std::int32_t(std::uint32_t(random.bits())); };
//% endif
//% if test.sparse
    const auto sparse = [&] { return random.below(s.K) < (exact ? s.terms : s.K) ? ${ test.draws.A }() : 0; };
//% endif
//% if "before" in test.drawn
    const auto before = [&] { return s.beta == 0 ? NAN : value(); };
//% endif
//% if "unwritten" in test.drawn
    const auto unwritten = [&] { return NAN; };
//% endif
//% if "factor" in test.drawn or "ranged_factor" in test.drawn
    const auto factor = [&] { return exact ? (1 << random.below(3)) / 2.0 : random.uniform(); };
//% endif
//% if "ranged_factor" in test.drawn
    const auto ranged_factor = [&] { return factor() * (exact ? 1 : into_range(s.K)); };
//% endif
//% if "zero_point" in test.drawn
    const auto zero_point = [&] { return random.integer(${ "exact ? 8 : 255" if exact else "255" }); };
//% endif
//% set gathered, scattered = out.problem.inputs.gathered, out.problem.inputs.scattered
//% set indexed = gathered or scattered
//% if indexed and test.groups
    int end = 0;  // of the last group so far
//% endif
//% if "ends" in test.drawn
    // Ends of groups: some groups are empty, and the last rows, or k, may be in no group.
    const auto ends = [&, group = 0${ ", end = 0" if not indexed }]() mutable {
        const int rest = s.${ "K" if out.problem.inputs.along_k else "M" } - end;
        if (++group == ${ out.problem.inputs.groups } && random.below(2) == 0) return end += rest;
        return end += random.below(4) > 0 ? random.below(rest + 1) : 0;
    };
//% endif
//% if gathered and test.groups
    // Any row of A; -1, which must not be read, for rows in no group.
    const auto index = [&, m = 0]() mutable { return m++ < end ? random.below(${ test.rows_of_a }) : -1; };
//% elif gathered
    const auto index = [&] { return random.below(${ test.rows_of_a }); };
//% endif
//% if scattered
    // Different rows of C in any order.
//% if test.groups
    // For rows in no group -1, where nothing must be stored.
//% endif
    vector<int> places(${ test.rows_of_c });
    for (int row = 0; row < ${ test.rows_of_c }; ++row) places[row] = row;
    const auto place = [&, m = 0]() mutable {
        std::swap(places[m], places[m + random.below(${ test.rows_of_c } - m)]);
        return ${ "m < end ? places[m++] : -1" if test.groups else "places[m++]" };
    };
//% endif
//% if "counts" in test.drawn
    const auto counts = [&] { return random.below(3) > 0 ? random.below(s.M + 1) : random.below(2) * s.M; };
//% endif
//% if "given_sum" in test.drawn
    const auto given_sum = [&] { return random.integer(${ "exact ? 8 : " if exact }int(128 * std::sqrt(s.K + 1.0))); };
//% endif
//% if out.amaxes
    // 0 lies around largest magnitudes: what raises it shows, and NaN cannot be raised.
//% endif
/*# Where elements lie. Behind pointers matrices lie in reverse order. #*/
//% macro place(product, row, column)
{${ "0, " if out.problem.pointers }${ product ~ ", " if out.problem.batched }${ row }, ${ column }}
//%- endmacro
//% macro matrix(stride, row, column)
//% if out.problem.pointers
{(s.batch - 1) * ${ stride }, -${ stride }, ${ row }, ${ column }}
//%- else
${ place(stride, row, column) }
//%- endif
//%- endmacro
//% macro of_ab(order, stride, ld)
//% set row, column = (ld, 1) if order == "r" else (1, ld)
${ matrix(stride if test.own_ab else "0", row, column) }
//%- endmacro
//% macro count(extent)
//% if not extent.size
${ extent.number }
//%- elif extent.step == 1
s.${ extent.size }
//%- else
(s.${ extent.size } + ${ extent.step - 1 }) / ${ extent.step }
//%- endif
//%- endmacro
//% set batch, one = ("s.batch, ", "1, ") if out.problem.batched else ("", "")
//% set batch_ab = batch if test.own_ab else one
//% set by_rows, by_columns = test.groups and out.problem.layout.b == "r", test.groups and out.problem.layout.b == "c"
//% set of_a = test.rows_of_a ~ ", s.K"
//% set of_b = (test.groups ~ " * " if by_rows else "") ~ "s.K, " ~ (test.groups ~ " * " if by_columns else "") ~ columns
//% set images = test.images
//% if images
//% set pixels = "(s.%s + %d) / %d * %d, %d" | format(out.problem.inputs.places, images.per_image - 1, images.per_image, images.pixels, images.size[2])
//% set of_a, of_b = (pixels, of_b) if out.problem.inputs.images == "A" else (of_a, pixels)
//% endif
//% set given, layout, draws_a = "Operands x =" if test.codes else "return", out.problem.layout, "sparse" if test.sparse else test.draws.A
    ${ given } {{${ batch_ab }${ of_a }, ${ of_ab(layout.a, "s.stride_a", "s.lda") }, ${ draws_a }},
            {${ batch_ab }${ of_b }, ${ of_ab(layout.b, "s.stride_b", "s.ldb") }, ${ test.draws.B }},
            {${ batch }${ test.rows_of_c }, s.N, ${ matrix("s.stride_c", "s.ldc", 1) }, ${ test.draws.C }}
//%- for x in out.problem.companions
,
//% set rows, columns = count(x.rows), count(x.cols)
//% set rows = "%d * (%s)" | format(x.matrices, rows) if x.matrices else rows
//% set pitch = "(%s + %d) / %d * %d" | format(columns, x.unit - 1, x.unit, x.unit) if x.unit > 1 else columns
            {${ one }${ rows }, ${ columns }, ${ place(0, pitch, 1) }, ${ test.draws[x.name] }}
//%- endfor
//%- for x in out.epilogue.operands
,
//% set groups, draw = out.problem.groups_of(x), test.draws[x.name]
//% set columns, by_column = ("s.N", 1) if "n" in x.along else (1, 0)
//% set rows, by_row = (groups, columns) if groups else ("s.M", 1) if "m" in x.along else (1, 0)
//% if x.is_matrix
            {${ batch }s.M, s.N, ${ place("s." ~ x.stride, "s." ~ x.ld, 1) }, ${ draw }}
//%- elif x.is_amax
            {${ batch }${ rows }, ${ columns }, ${ place("s." ~ x.size, by_row, by_column) }, ${ draw }, 0}
//%- else
            {${ one }${ rows }, ${ columns }, ${ place(0, by_row, by_column) }, ${ draw }}
//%- endif
//%- endfor
${ ", {}" if test.codes }};
//% if test.codes
//% set group = out.problem.inputs.group
    x.weights.reserve(${ test.groups ~ " * " if test.groups }size_t(s.K) * s.N);
//% if test.groups
    for (int row = 0; row < ${ test.groups } * s.K; ++row)
        for (int n = 0; n < s.N; ++n) {
            const int of = row / s.K, k = row % s.K;
            const int group = ${ "of * ((s.K + %d) / %d) + k / %d" | format(group - 1, group, group) if group else "of" };
            const double code = decode(x.B(${ "row, n" if by_rows else "k, of * s.N + n" }))${ " - decode(x.zeros_b(group, n))" if out.problem.inputs.zeros };
//% else
    for (int k = 0; k < s.K; ++k)
        for (int n = 0; n < s.N; ++n) {
            const int group = ${ "k / %d" | format(group) if group else "0" };
            const double code = decode(x.B(k, n))${ " - decode(x.zeros_b(group, n))" if out.problem.inputs.zeros };
//% endif
            const double weight = code * decode(x.scales_b(group, n));
            x.weights.push_back(${ "weight" if out.problem.scaled_depth else "encode<%s>(weight)" | format(out.element.A) });
        }
    return x;
//% endif
}

