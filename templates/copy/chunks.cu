/*# global -> shared, where a tile lies as its operand does, swizzled: a thread's accesses are so many lines apart. #*/
//% from "copy/swizzle.cu" import place
/*# A loop over this thread's accesses to x: line `line`, from element `at` on. `first`: at which tile they begin. `before` stands above it. #*/
//% macro for_each_access(x, reads=false, places=true, before="")
//% set line, at = ("k", x.mn) if x.k_rows else (x.mn, "k")
//% set LINES = "BK" if x.k_rows else "B" ~ x.MN
    const int first = threadIdx.x / ${ x.X }_LANES, ${ at } = threadIdx.x % ${ x.X }_LANES * V${ x.X };
//% if reads
    const ${ element[x.X] }* const from = tile + Offset(first) * s.${ x.ld } + ${ at };
//% endif
${ before }    #pragma unroll
    for (int i = 0; i < ${ x.X }_ITERATIONS; ++i) {
//% if reads
        const int step = i * (THREADS / ${ x.X }_LANES)${ ", %s = first + step" | format(line) if places or x.ragged };
//% else
        const int ${ line } = first + i * (THREADS / ${ x.X }_LANES);
//% endif
//% if x.ragged
        if (${ line } >= ${ LINES }) break;
//% endif
${ caller() }    }
//% endmacro

/*# The element of the shared tile where an access begins. #*/
//% macro shared_element(x)
//% set line, at = ("k", x.mn) if x.k_rows else (x.mn, "k")
shared[${ line }][${ place(x, line, at) }]
//%- endmacro

/*# How many elements from there on lie inside x: V of x or more where all do. #*/
//% macro valid(x)
//% set line_end, end, line, at = (x.extent, "depth", x.mn, "k") if x.along_k else ("depth", x.extent, "k", x.mn)
//% set lines, along = (x.mn_edge, x.k_edge) if x.along_k else (x.k_edge, x.mn_edge)
//% set inside = "%s - %s" | format(end, at) if along else "V" ~ x.X
${ "%s < %s ? %s : 0" | format(line, line_end, inside) if lines else inside }
//%- endmacro
