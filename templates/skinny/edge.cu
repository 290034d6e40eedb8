/*# Where the small operand ends: of what lies at k + depth and `line` lines further than ${ x.mn }, whether it exists, #*/
//% macro exists(x, view, line)
const bool exists = ${ "k + depth < end" if view.k_edge }${ " && " if view.k_edge and view.x_edge }${ "%s + %s < s.%s" | format(x.mn, line, x.MN) if view.x_edge };
//%- endmacro

/*# and how many elements of an access from there on do. #*/
//% macro valid(x, view)
//% set ends = {"K": "end - k - depth", x.MN: "s.%s - %s - line" | format(x.MN, x.mn)}
const int valid = exists ? ${ ends[view.x_cut] if view.x_cut else "XW" } : 0;
//%- endmacro
