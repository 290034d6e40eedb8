/*# Where an access to the small operand begins, `line` lines further than ${ x.mn } and at k + depth, by whether its lines run along k;
    and where its elements go in a chunk, by whether those of the weights do, too. #*/
//% set address = {
    true: "Offset(%(mn)s + %(line)s) * s.%(ld)s + k + depth",
    false: "Offset(k + depth) * s.%(ld)s + %(mn)s + %(line)s"}
//% macro address_of(x, line)
${ address[x.along_k] | format(mn=x.mn, ld=x.ld, line=line) }
//%- endmacro
//% set single = {true: "[line][depth]", false: "[depth][line]"}
//% set place = {
    true: {true: "[line][depth + %s]", false: "[depth + %s][line]"},
    false: {true: "[line + %s][depth]", false: "[depth][line + %s]"}}
//% macro element_of_chunk(x, w, i)
${ place[x.along_k][w.along_k] | format(i) }
//%- endmacro
