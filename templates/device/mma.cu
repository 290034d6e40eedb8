/*# A device function for each of `instructions` (problem/mma.py), which the text calls by the record's name. #*/
//% set letter = {"float": "f", "double": "d", "int": "r", "unsigned": "r"}
//% macro mma(instructions)
//% for one in instructions
//% set first_b = one.c_registers + one.a_registers
// d += a * b, ${ one.m } x ${ one.n } x ${ one.k }, by a warp. Lane 4 g + t holds of d columns 2 t and 2 t + 1 in row g and every 8th
// after it; of a the same rows, of b column g, each at k = ${ one.k_text }.
__device__ __forceinline__ void ${ one.function }(${ one.c_type } (&d)[${ one.c_registers }], const ${ one.a_type } (&a)[${ one.a_registers }], const ${ one.a_type } (&b)[${ one.b_registers }])
{
    asm volatile(
        "${ one.ptx } "
        "{${ listed(0, one.c_registers) }}, {${ listed(one.c_registers, first_b) }}, "
        "{${ listed(first_b, first_b + one.b_registers) }}, {${ listed(0, one.c_registers) }};"
        : ${ bound("+" ~ letter[one.c_type], "d", one.c_registers) }
        : ${ bound(letter[one.a_type], "a", one.a_registers) }, ${ bound(letter[one.a_type], "b", one.b_registers) });
}

//% endfor
//% endmacro

/*# Registers of an instruction: their numbers in its text, and the variables that they are. #*/
//% macro listed(first, end)
%${ range(first, end) | join(", %") }
//%- endmacro

//% macro bound(constraint, name, count)
"${ constraint }"(${ name }[${ range(count) | join(']), "%s"(%s[' | format(constraint, name)) }])
//%- endmacro
