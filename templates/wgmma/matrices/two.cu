/*# B is two matrices, whose tiles lie side by side: the first half of a thread's accumulators are sums of A * B1, the second of
    A * B2. #*/
//% set times, second = "2 * ", ", sums2"
//% set second_row = ", sums2[j]"
//% macro sums_of_second(view, mmas)
${ T } sums2[TM][TN];
sums_of_piece(${ view.kept }${ mmas.of }, ${ view.stored } / ${ view.piece } + piece, sums2);
//% endmacro
//% macro add_part(mmas, part)
//% from "device/convert.cu" import add_to
#pragma unroll
for (int half = 0; half < 2; ++half) {
    load_shared_cluster(address_of_sums(shared, ${ mmas.argument }half * (BN / 2) + rank * (${ part }) + r), peer, sums);
    #pragma unroll
    for (int j = 0; j < 4; ++j) ${ add_to("part%s[half * (%s) + r + j]" | format(mmas.of, part), "sums[j]") }
}
//% endmacro
