/*# The small operand may end within what is read of it: zeros stand for what does not exist. #*/
/*# Whether what lies at k + depth, `line` lines further than ${ x.mn }, exists, #*/
//% macro exists(x, view, line)
//% set within = {"K": "k + depth < end", x.MN: "%s + %s < s.%s" | format(x.mn, line, x.MN)}
const bool exists = ${ conditions(view.x_ends, within)[4:] };
//% endmacro
//% macro conditions(sizes, within)
//%- for size in sizes
 && ${ within[size] }
//%- endfor
//%- endmacro
/*# and how many elements of an access from there on do. #*/
//% macro guard(x, view, line)
//% set ends = {"": "XW", "K": "end - k - depth", x.MN: "s.%s - %s - line" | format(x.MN, x.mn)}
${ exists(x, view, line) }const int valid = exists ? ${ ends[view.x_cut] } : 0;
//% endmacro
//% macro load(plain, address)
load_edge<XW>(${ address }, valid)
//%- endmacro
//% macro element(x)
exists ? ${ x.X }[at] : ${ zero }
//%- endmacro
