/*# `unread` are sizes that this kernel reads nowhere, as most do the number of products: constants among them are left out.
    `offsets`: it reaches matrices itself. #*/
//% set offset = {true: ("long long", "can pass"), false: ("int", "stays below")}
//% macro shape(kernel, unread=("batch",), offsets=true)
//% set fixed = fixed_sizes(kernel, unread)
//% if not offsets and none not in kernel.sizes.values()
struct Shape { static constexpr int ${ fixed[2:] }; };  // constants, which fold into the code
//% else
// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
//% for name, size in kernel.sizes.items() if size is none or name not in unread
//% if size is none
    ${ kernel.ctype(name) } ${ name };
//% else
    static constexpr ${ kernel.ctype(name) } ${ name } = ${ size };
//% endif
//% endfor
};
//% endif
//% if offsets
using Offset = ${ offset[kernel.problem.needs_64bit][0] };  // elements from a matrix's start: ${ offset[kernel.problem.needs_64bit][1] } 2^31 here
//% endif
//% endmacro
//% macro fixed_sizes(kernel, unread)
//%- for name, size in kernel.sizes.items() if name not in unread
, ${ name } = ${ size }
//%- endfor
//%- endmacro

/*# The constants and what holds of them; of the sizes in `whole` those that end with a tile are never checked for an edge. #*/
//% macro tiling(kernel, whole="")
/*% for group in kernel.constants %*/
// ${ group.title }
/*% for c in group.lines %*/
constexpr int ${ c.name } = ${ c.text };${ " " * c.space }// ${ c.meaning }
/*% endfor %*/

/*% endfor %*/
//% for c in kernel.asserts
static_assert(${ c.expression }, "${ c.because }");
//% endfor
//% for size, tile in kernel.whole_tiles if size in whole
static_assert(Shape::${ size } % ${ tile } == 0, "tiles end where ${ size } does: no access is checked for that");
//% endfor
//% endmacro
