/*# Where operands end. #*/
/*# Of what lies at k + depth and `line` lines further than ${ x.mn }, of the small operand, whether it exists, #*/
//% macro exists(x, view, line)
const bool exists = ${ (["k + depth < end"] * view.k_edge + ["%s + %s < s.%s" | format(x.mn, line, x.MN)] * view.x_edge) | join(" && ") };
//%- endmacro

/*# and how many elements of an access from there on do. #*/
//% macro valid(x, view)
//% set ends = {"K": "end - k - depth", x.MN: "s.%s - %s - line" | format(x.MN, x.mn)}
const int valid = exists ? ${ ends[view.x_cut] if view.x_cut else "XW" } : 0;
//%- endmacro

/*# The functions that load it say so, #*/
//% macro zeros(view, space=" ")
${ " Zeros stand%sfor those that do not exist%s." | format(space, ", and from k = `end` on" if view.k_edge else "") if view.x_guarded }
//%- endmacro

/*# and are told where K ends: as a further argument, or as a parameter of that `type`. #*/
//% macro k_end(view, type="")
${ ", %send" | format(type) if view.k_edge }
//%- endmacro

/*# Of an access to the weights at k and `mn`, whether it exists, and how many elements do: `left` to the end of its line. #*/
//% macro weights_exist(w, view, k, mn, left)
const bool exists = ${ k } < end${ " && %s < s.%s" | format(mn, w.MN) if view.w_edge };
const int valid = exists ? ${ left if view.partial else "VW" } : 0;
//% endmacro
