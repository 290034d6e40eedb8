/*# The number that is multiplied for an element of B. #*/
//% macro factor_of_b(k, n)
${ "" if test.codes and out.problem.scaled_depth else "decode" }(${ "x.weights[size_t(%s) * s.N + %s]" | format(k, n) if test.codes else "x.B(%s%s, %s)" | format("p, " if out.problem.batched else "", k, n) })
//%- endmacro
