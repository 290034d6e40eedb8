/*# cp.async fills a ring of STAGES tiles in shared memory; registers hold the values of two depths, read two ahead.
    tests/golden/read_ahead.cu shows the plain form; `by_turn` and `lead` add to that. #*/
//% extends "kernel/gemm.cu"
//% from "device/cp_async.cu" import cp_async, start_tile
//% from "compute/outer.cu" import outer_product
//% block access
${ cp_async() }
//% endblock
//% block compute
${ outer_product(view) }
//% endblock
//% block main_loop
//% set by_turn = view.by_turn
//% set lead, others = ("<0, LEAD>", "<LEAD, %s>" % view.lines) if view.lead else ("", "")
/*# Where this thread's values of the first depth lie in a stage's tile of x. #*/
//% macro begin_of(x, stage)
//% set k, mn = view.first, "place." ~ x.mn
&${ x.X }s[${ stage }][${ k if x.k_rows else mn }][${ mn if x.k_rows else k }]
//%- endmacro
/*# The product of depth d, or `some` lines of it. #*/
//% macro add(d, some)
//% set slot = "[%s %% 2]" % d
add_product${ some }(a${ slot if not view.a.by_turn }, b${ slot if not view.b.by_turn }, acc${ ", %s%s" % (d, " % AHEAD" if d != "d" else "") if by_turn });
//%- endmacro
    const int padded = (${ view.K } + BK - 1) / BK * BK;  // rounded up to whole steps
    #pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
//% if view.a.k_edge
        // The first step takes the remainder and zeros behind it, so that all others are whole.
        const int depth = stage == 0 ? ${ view.K } - (padded - BK) : BK;
${ start_tile(view.a, view.b, "padded > stage * BK", "depth", "stage") | indent(8, first=true) }        a_tile += ${ "depth" if view.a.along_k else "Offset(depth) * s.lda" };
        b_tile += ${ "depth" if view.b.along_k else "Offset(depth) * s.ldb" };
//% else
${ start_tile(view.a, view.b, "padded > stage * BK", "BK", "stage") | indent(8, first=true) }        a_tile += a_step;
        b_tile += b_step;
//% endif
    }

    if (padded > 0) {
        cp_async_wait<STAGES - 1>();  // this thread's share of the first tile has landed
        __syncthreads();              // so has everybody's
        // The values of depth d are replaced by those of d + 2 once they are used, and arrive while those of d + 1 are
        // multiplied. A turn of the loop takes AHEAD depths; a_from and b_from say where the values of these lie.
//% if by_turn
        // A read of ${ by_turn.X } takes all depths of a turn: its values are replaced after the last of them.
//% endif
//% if view.lead
        // The compiler puts a read off to the next branch, unless it sees the values used before that. So the first LEAD
        // ${ "rows" if view.runs_along_n else "columns" } of each product come a depth early: before the branch to the next tile or turn, which the others follow.
//% endif
        const ${ T }* a_from = ${ begin_of(view.a, "0") };
        const ${ T }* b_from = ${ begin_of(view.b, "0") };
//% if by_turn
//% set other = view.b if view.a.by_turn else view.a
        Vec<AHEAD> ${ by_turn.x }[T${ by_turn.MN }];
        read_${ by_turn.x }${ "<0, T%s>" % by_turn.MN if lead }(${ by_turn.x }_from, ${ by_turn.x });
        ${ T } ${ other.x }[2][T${ other.MN }];
        #pragma unroll
        for (int d = 0; d < 2; ++d) read_${ other.x }(${ other.x }_from + d * PITCH_${ other.X }, ${ other.x }[d]);

//% else
        ${ T } a[2][TM], b[2][TN];
        #pragma unroll
        for (int d = 0; d < 2; ++d) {
            read_a(a_from + d * PITCH_A, a[d]);
            read_b(b_from + d * PITCH_B, b[d]);
        }

//% endif
//% if lead
        add_product${ lead }(a${ "[0]" if not view.a.by_turn }, b${ "[0]" if not view.b.by_turn }, acc${ ", 0" if by_turn });
//% endif
        int stage = 0;
        for (int k = AHEAD; k < padded${ " / SLICES" if view.slices > 1 }; k += AHEAD) {${ "  // k counts a slice's depths, DEPTH of each step" if view.slices > 1 }
            #pragma unroll
            for (int d = 0; d < AHEAD; ++d) {
                if (d == AHEAD - 2) {  // what is read from here on is the next turn's
//% for x in (view.a, view.b)
                    ${ x.x }_from += AHEAD${ " * PITCH_" ~ x.X if x.k_rows };
//% endfor
                }
                if (d == AHEAD - 2 && k % ${ view.depth } == 0) {  // and of the next tile
                    cp_async_wait<STAGES - 2>();      // this thread's share of it has landed
                    __syncthreads();                  // so has everybody's, and nobody reads this tile any more
${ start_tile(view.a, view.b, "padded - k%s > (STAGES - 1) * BK" % (" * SLICES" if view.slices > 1), "BK", "stage", "  // an empty group too: the wait counts groups") | indent(20, first=true) }                    a_tile += a_step;
                    b_tile += b_step;
                    stage = stage + 1 < STAGES ? stage + 1 : 0;
                    a_from = ${ begin_of(view.a, "stage") };
                    b_from = ${ begin_of(view.b, "stage") };
                }
                ${ add("d", others) }
//% if by_turn
                if (d == AHEAD - 1) read_${ by_turn.x }${ others }(${ by_turn.x }_from, ${ by_turn.x });
//% endif
//% if view.b_first and not by_turn
                // B's values come before A's: so registers fall into other banks.
//% endif
//% for x in ((view.b, view.a) if view.b_first else (view.a, view.b)) if not x.by_turn
                read_${ x.x }(${ x.x }_from + (d + 2) % AHEAD * PITCH_${ x.X }, ${ x.x }[d % 2]);
//% endfor
//% if lead
                ${ add("(d + 1)", lead) }
//% if by_turn
                if (d + 1 == AHEAD - 1) read_${ by_turn.x }${ lead }(${ by_turn.x }_from, ${ by_turn.x });
//% endif
//% endif
            }
        }

        #pragma unroll
        for (int d = 0; d < AHEAD; ++d) {  // the last turn
            ${ add("d", others) }
            if (d + 2 < AHEAD) {
//% for x in (view.a, view.b) if not x.by_turn
                read_${ x.x }(${ x.x }_from + (d + 2) * PITCH_${ x.X }, ${ x.x }[d % 2]);
//% endfor
            }
//% if lead
            if (d + 1 < AHEAD) ${ add("(d + 1)", lead) }
//% endif
        }
    }
//% endblock
