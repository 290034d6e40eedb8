/*# B is several matrices, whose tiles lie side by side: the first of as many parts of a thread's accumulators has sums of A * B1, the
    second of A * B2, and so on. #*/
//% macro times(view)
${ view.products } *${ " " }
//%- endmacro
/*# Further arguments: the sums of the second matrix and of those behind it. #*/
//% macro further(view, at="")
//%- for number in range(2, view.products + 1)
, sums${ number }${ at }
//%- endfor
//%- endmacro
//% macro further_sums(view, mmas)
//% for number in range(2, view.products + 1)
${ T } sums${ number }[TM][TN];
sums_of_piece(${ view.kept }${ mmas.of }, ${ "%d * " | format(number - 1) if number > 2 }${ view.stored } / ${ view.piece } + piece, sums${ number });
//% endfor
//% endmacro
//% macro add_part(view, mmas, part)
//% from "device/convert.cu" import add_to
//% set matrix = "half" if view.products == 2 else "matrix"
#pragma unroll
for (int ${ matrix } = 0; ${ matrix } < ${ view.products }; ++${ matrix }) {
    load_shared_cluster(address_of_sums(shared, ${ mmas.argument }${ matrix } * (BN / 2) + rank * (${ part }) + r), peer, sums);
    #pragma unroll
    for (int j = 0; j < 4; ++j) ${ add_to("part%s[%s * (%s) + r + j]" | format(mmas.of, matrix, part), "sums[j]") }
}
//% endmacro
