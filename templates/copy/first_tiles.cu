/*# What a schedule copies before its first k tile is multiplied, of K in all. #*/
//% from "copy/access.cu" import limits
//% from "device/cp_async.cu" import start_tile
/*# Through registers: the first k tile. #*/
//% macro first_tile(view, K, staged_a="Vec<%sVA>" | format(of.A), staged_b="Vec<%sVB>" | format(of.B))
    ${ staged_a } a_staged[A_ITERATIONS];
    ${ staged_b } b_staged[B_ITERATIONS];
    if (${ K } > 0) {
        fetch_a(a_tile, s${ limits(view.a, depth=K) }, a_staged);
        fetch_b(b_tile, s${ limits(view.b, depth=K) }, b_staged);
        store_shared_a(a_staged, As[0]);
        store_shared_b(b_staged, Bs[0]);
    }
    __syncthreads();
//% endmacro
/*# By cp.async: all stages but one. #*/
//% macro first_stages(view, K)
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        const int depth = ${ K } - stage * BK;
${ start_tile(view.a, view.b, "depth > 0", "depth", "stage") | indent(8, true) | trim("\n") }
        ${ advance(view.a) };
        b_tile += b_step;
    }
//% endmacro
/*# To the next tile of A along K. #*/
//% macro advance(a)
${ "a_tile.k += BK" if a.conv else "a_tile += a_step" }
//%- endmacro
