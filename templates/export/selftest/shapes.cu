/*# What is checked: shapes, kinds of data and scalars; and where elements lie. #*/
struct Shape {  // in elements
    int ${ test.shape_fields | join(", ") };
//% if test.shape_strides
    long long ${ test.shape_strides | join(", ") };
//% endif
//% if "reach" in test.chosen
    int reach;  // the largest integer in exact A and B: no sum is rounded, in whatever order
//% endif
//% if test.sparse
    int terms;  // products that make an element of exact C: A is sparse where that lets every element be checked
    int apart[2];  // from one row that is checked to the next, of random and of exact data
//% elif test.samples
    int apart;  // from one row that is checked to the next
//% endif
};

constexpr Shape SHAPES[] = {
//% for case in test.shapes
//% set at = loop.index0
    {
//%- for name in test.shape_fields + test.shape_strides
${ case[name | lower] }${ ", " if not loop.last or test.chosen }
//%- endfor
//%- for chosen in test.chosen.values()
${ chosen[at] }${ ", " if not loop.last }
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
    bool exact;  // integers, else random
//% endif
    ${ out.element.scalar } alpha, beta;
};

//% if out.problem.batched
// An element's offset, by the distances between products, rows and columns.
//% else
// An element's offset, by the distances between rows and columns.
//% endif
struct Place {
//% if out.problem.pointers
    long long first, product, row, column;

    size_t operator()(int p, int m, int n) const { return first + p * product + m * row + n * column; }
//% elif out.problem.batched
    long long product, row, column;

    size_t operator()(int p, int m, int n) const { return p * product + m * row + n * column; }
//% else
    long long row, column;

    size_t operator()(int m, int n) const { return m * row + n * column; }
//% endif
};

