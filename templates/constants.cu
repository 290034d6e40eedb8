/*# `unread` are sizes that this kernel reads nowhere: constants among them are left out. `offsets`: it reaches matrices itself. #*/
//% macro shape(kernel, unread=(), offsets=true)
//% if not offsets and none not in kernel.sizes.values()
struct Shape { static constexpr int /*% for name, size in kernel.sizes.items() if name not in unread %*/${ name } = ${ size }${ ", " if not loop.last }/*% endfor %*/; };  // constants, which fold into the code
//% else
//% if not offsets
// Sizes. Those that are constants fold into the code.
//% elif kernel.problem.strides
// Sizes, leading dimensions (elements from line to line) and strides (from matrix to matrix${ " of the batch" if kernel.problem.batched }). Constants
// among them fold into the code.
//% else
// Sizes and leading dimensions (elements from one line to the next). Those that are constants fold into the code.
//% endif
struct Shape {
//% for name, size in kernel.sizes.items() if size is none or name not in unread
    ${ "static constexpr " if size is not none }${ kernel.ctype(name) } ${ name }${ " = %d" % size if size is not none };
//% endfor
};
//% endif
//% if not offsets
//% elif kernel.problem.needs_64bit
using Offset = long long;  // elements from a matrix's start: can pass 2^31 here
//% else
using Offset = int;  // elements from a matrix's start: stays below 2^31 here
//% endif
//% endmacro

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
