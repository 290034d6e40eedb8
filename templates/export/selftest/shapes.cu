/*# What is checked: shapes, kinds of data and scalars; and where elements lie. #*/
struct Shape {  // in elements
    int ${ test.shape_fields | join(", ") };
//% if test.shape_strides
    long long ${ test.shape_strides | join(", ") };
//% endif
};

constexpr Shape SHAPES[] = {
//% for case in test.shapes
    {
//%- for name in test.shape_fields + test.shape_strides
${ case[name | lower] }${ ", " if not loop.last }
//%- endfor
},
//% endfor
};

constexpr ${ out.element.scalar } SCALARS[][2] = {
//%- for alpha, beta in test.scalars
{${ alpha }, ${ beta }}${ ", " if not loop.last }
//%- endfor
};  // alpha, beta

struct Check : Shape {
//% if not test.scalar.is_integer
    bool exact;  // data, else random
//% endif
    ${ out.element.scalar } alpha, beta;
};
/*% if test.samples %*/

constexpr double REFERENCE_BUDGET = 1 << ${ test.budget_bits };  // multiply-adds a check: a second or two of the host
/*% endif %*/
/*% if test.sparse %*/

// Products that make an element of C. Of exact data A is sparse where that lets every element of a large C be checked.
//% if test.always_sparse
double terms_of(const Check& s) { return s.exact ? ${ test.terms } : s.K; }
//% else
double terms_of(const Check& s)
{
    const bool large = ${ "double(s.batch) * s.M" if out.batched else "double(s.M)" } * s.N * s.K > REFERENCE_BUDGET;
    return s.exact && large ? std::min(${ test.terms }.0, double(s.K)) : s.K;
}
//% endif
/*% endif %*/

// Where an element lies: how far apart ${ "products, " if out.batched }rows and columns are.
struct Place {
    long long ${ "first, " if out.pointers }${ "product, " if out.batched }row, column;

    std::size_t operator()(${ "int p, " if out.batched }int m, int n) const { return ${ "first + " if out.pointers }${ "p * product + " if out.batched }m * row + n * column; }
};

