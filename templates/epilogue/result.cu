/*# A scalar as C stores it, with one rounding. #*/
//% macro narrowed(value)
${ types.c.narrowing ~ "(" ~ value ~ ")" if types.c.narrowing else value }
//%- endmacro

/*# alpha * sum, in the type of scalars. #*/
//% macro scaled(sum)
${ "multiply_add(alpha, %s, 0)" % sum if types.scalar.is_integer else "alpha * " ~ sum }
//%- endmacro

/*# What is stored in C: alpha * sum + beta * old, where `old` is C's element, in C's type. beta = 0 leaves it unread. #*/
//% macro result(sum, old)
${ narrowed("beta == %s ? %s : %s(beta, %s, %s)" | format(types.scalar.arithmetic.zero, scaled(sum), types.scalar.arithmetic.fma, old, scaled(sum))) }
//%- endmacro

/*# Where a store of C finds row m and column n of its tile: in C, or in shared memory on the way there. #*/
//% macro element_of_c(staged)
tile + ${ "staged_at(m, n)" if staged else "Offset(m) * s.ldc + n" }
//%- endmacro
