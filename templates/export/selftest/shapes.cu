/*# What is checked: shapes, kinds of data and scalars; and where the elements of a shape's matrices lie. #*/
// Sizes, leading dimensions and strides between products, in elements.
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

//% if out.pointers
// Matrices lie in the opposite order of their products: what follows from a pointer is in nobody's memory, or another's.
int slot(const Shape& s, int p) { return s.batch - 1 - p; }

//% endif
// Where elements of product p lie.
//% set p = "slot(s, p)" if out.pointers else "p"
std::size_t at_A(const Shape& s, int p, int m, int k) { return std::size_t(${ p }) * s.stride_a + std::size_t(${ "m" if out.layout.a == "r" else "k" }) * s.lda + ${ "k" if out.layout.a == "r" else "m" }; }
std::size_t at_B(const Shape& s, int p, int k, int n) { return std::size_t(${ p }) * s.stride_b + std::size_t(${ "k" if out.layout.b == "r" else "n" }) * s.ldb + ${ "n" if out.layout.b == "r" else "k" }; }
std::size_t at_C(const Shape& s, int p, int m, int n) { return std::size_t(${ p }) * s.stride_c + std::size_t(m) * s.ldc + n; }
//% for x in out.epilogue.operands if x.is_amax
std::size_t at_${ x.name }(const Shape& s, int p, int${ " m" if x.along == "m" }, int${ " n" if x.along == "n" }) { return std::size_t(p) * s.${ x.size } + ${ x.along }; }
//% endfor
//% for x in out.epilogue.operands if not x.is_amax
std::size_t at_${ x.name }(${ "const Shape& s, int p" if x.is_matrix else "const Shape&, int" }, int${ " m" if "m" in x.along }, int${ " n" if "n" in x.along }) { return ${ "std::size_t(p) * s.%s + std::size_t(m) * s.%s + n" | format(x.stride, x.ld) if x.is_matrix else x.along or "0" }; }
/*% endfor %*/

