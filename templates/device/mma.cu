/*# A device function for each of `instructions` (problem/mma.py), which the text calls by the record's name. #*/
//% macro mma(instructions)
//% for one in instructions
// d += a * b, ${ one.m } x ${ one.n } x ${ one.k }, by a warp. Lane 4 g + t holds of d columns 2 t and 2 t + 1
// in row${ "s g and g + 8" if one.m == 16 else " g" }; of a the same row${ "s" if one.m == 16 }, of b column g, each at k = ${ one.k_text }.
__device__ __forceinline__ void ${ one.function }(${ one.c_type } (&d)[${ one.c_registers }], const ${ one.a_type } (&a)[${ one.a_registers }], const ${ one.a_type } (&b)[${ one.b_registers }])
{
//% set letter = {"float": "f", "double": "d", "int": "r", "unsigned": "r"}
//% set first_b = one.c_registers + one.a_registers
    asm volatile(
        "${ one.ptx } "
        "{${ listed(0, one.c_registers) }}, {${ listed(one.c_registers, first_b) }}, "
        "{${ listed(first_b, first_b + one.b_registers) }}, {${ listed(0, one.c_registers) }};"
        : ${ bound("+" ~ letter[one.c_type], "d", one.c_registers) }
        : ${ bound(letter[one.a_type], "a", one.a_registers) }, ${ bound(letter[one.a_type], "b", one.b_registers) });
}
/*% if not loop.last %*/

/*% endif %*/
//% endfor
//% endmacro

//% macro listed(first, end)
//% for number in range(first, end)
%${ number }${ ", " if not loop.last }
//%- endfor
//%- endmacro

//% macro bound(constraint, name, count)
//% for i in range(count)
"${ constraint }"(${ name }[${ i }])${ ", " if not loop.last }
//%- endfor
//%- endmacro
