/*# What becomes of a sum where that is more than alpha * acc + beta * C: functions, their inputs, and C's new element. #*/
//% macro epilogue(kernel)
/*% for f in kernel.epilogue.functions %*/
__device__ __forceinline__ ${ T } ${ f.name }(${ T } ${ f.parameters | join(", %s " | format(T)) })
{
    return ${ f.text };
}

/*% endfor %*/
//% set e = kernel.problem.epilogue
// What the epilogue takes beside the sum${ " and C" if e.reads_c }.
struct Epilogue {
//% if e.scalars
    ${ T } ${ e.scalars | join(", ") };
//% endif
//% for x in e.operands
    const ${ T }* ${ x.name };
//% endfor
};

// C's new element in row m and column n of what the pointers of `e` lead to${ "; c is the old one, 0 where beta = 0" if e.reads_c }:
// ${ e }
__device__ __forceinline__ ${ T } epilogue(const Epilogue& e${ ", Shape s" if e.has_matrix }${ ", int m" if e.reads_rows }${ ", int n" if e.reads_columns }, ${ T } acc${ ", %s c" | format(T) if e.reads_c })
{
//% for x in e.operands
    const ${ T } ${ x.name } = e.${ x.name }[${ {"m": "m", "n": "n", "mn": "Offset(m) * s.%s + n" | format(x.ld)}[x.along] }];
//% endfor
//% for s in kernel.epilogue.statements
    const ${ T } ${ s.name } = ${ s.text };
//% endfor
    return ${ kernel.epilogue.result };
}
//% endmacro
/*# The call for row `m` and column `n`; `c` is an lvalue, which beta = 0 leaves unread. #*/
//% macro applied(kernel, m, n, acc, c)
//% set e = kernel.problem.epilogue
epilogue(e${ ", s" if e.has_matrix }${ ", " ~ m if e.reads_rows }${ ", " ~ n if e.reads_columns }, ${ acc }${ ", beta == %s ? %s : %s" | format(zero, zero, c) if e.reads_c })
//%- endmacro
