/*# What is checked: shapes, kinds of data and scalars; and where elements lie. #*/
// In elements.
struct Shape {
    int ${ test.shape_fields | join(", ") };
    long long ${ test.shape_strides | join(", ") };
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

struct Scalars {
    ${ out.element.scalar } alpha, beta;
};

constexpr Scalars SCALARS[] = {{1, 0}, {3, -2}};

enum class Data { ${ test.kinds | join(", ") } };

struct Check {
    Shape shape;
    Data data;
    Scalars scalars;
};

//% if test.samples
constexpr double REFERENCE_BUDGET = 1 << ${ test.budget_bits };  // multiply-adds a check: a second or two of the host
//% endif
/*% if test.sparse %*/

// Products that make an element of C. Of exact data A is sparse where that lets every element of a large C be checked.
double terms_of(const Check& check)
{
    const Shape& s = check.shape;
    const bool large = double(s.batch) * s.M * s.N * s.K > REFERENCE_BUDGET;
    return check.data == Data::exact && large ? std::min(8.0, double(s.K)) : s.K;
}
/*% endif %*/

// Where an element lies: how far apart products, rows and columns are.
struct Place {
    long long ${ "first, " if out.pointers }product, row, column;

    std::size_t operator()(int p, int m, int n) const { return ${ "first + " if out.pointers }p * product + m * row + n * column; }
};

