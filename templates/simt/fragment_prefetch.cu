/*# cp.async fills a ring of STAGES tiles in shared memory; fragments of two k are in registers, prefetched two k ahead.
    tests/golden/fragment_prefetch.cu shows the plain form; `k_vector` and `hoist` add to that. #*/
//% extends "tiled.cu"
//% from "device/cp_async.cu" import cp_async, start_tile
//% from "layout.cu" import at, to_k
//% from "simt/outer.cu" import outer_product
//% block access
${ cp_async() }
//% endblock
//% block compute
${ outer_product(view) }
//% endblock
//% block main_loop
//% set k_vector = view.k_vector
/*# A slice's part of a k tile: its first k, how many there are, and how many of all; of k of these the block has done. #*/
//% set first_k, depth, padded, k_of_block = ("thread.k", "DEPTH", "padded / SLICES", "k * SLICES") if view.slices > 1 else ("0", "BK", "padded", "k")
//% set hoist, others = ("<0, HOIST>", "<HOIST, %s>" % view.lines) if view.hoist else ("", "")
/*# This thread's fragment of the first k in a stage's tile of x. #*/
//% macro begin_of(x, stage)
&${ x.X }s[${ stage }]${ at(not x.k_rows, "thread." ~ x.mn, first_k) }
//%- endmacro
/*# The outer product of the d-th k, whose fragments are in a slot, or `some` rows or columns of it. #*/
//% macro add(some, slot, d)
//% set a, b = "a" if view.a.k_vector else "a[%s]" % slot, "b" if view.b.k_vector else "b[%s]" % slot
outer_product${ some }(${ a }, ${ b }, acc${ ", " ~ d if k_vector });
//%- endmacro
    const int padded = (${ K } + BK - 1) / BK * BK;  // rounded up to whole k tiles
    #pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
//% if view.a.k_edge
        // The first k tile is the remainder of K, filled up with zeros, so that all others are whole.
        const int depth = stage == 0 ? ${ K } - (padded - BK) : BK;
${ start_tile(view.a, view.b, "padded > stage * BK", "depth", "stage") | indent(8, true) | trim("\n") }
        a_tile += ${ to_k(view.a, "depth") };
        b_tile += ${ to_k(view.b, "depth") };
//% else
${ start_tile(view.a, view.b, "padded > stage * BK", "BK", "stage") | indent(8, true) | trim("\n") }
        a_tile += a_step;
        b_tile += b_step;
//% endif
    }

    if (padded > 0) {
        cp_async_wait<STAGES - 1>();  // this thread's copies of the first k tile have landed
        __syncthreads();              // and all other threads'
        // Registers hold fragments of two k. Once k's are used, those of k + 2 replace them, while k + 1 is multiplied.
        // An iteration takes K_UNROLL k; a_from and b_from point to the fragments of its first.
//% if k_vector
        // A vector of ${ k_vector.X } along k holds the K_UNROLL k of an iteration: it is replaced after the last of them.
//% endif
//% if view.hoist
        // The compiler sinks a load to the next branch, unless its value is used before that. So the first HOIST lines
        // of the next k's product are hoisted above the branch, and the others follow it.
//% endif
        const ${ T }* a_from = ${ begin_of(view.a, "0") };
        const ${ T }* b_from = ${ begin_of(view.b, "0") };
//% if k_vector
//% set other = view.b if view.a.k_vector else view.a
        Vec<K_UNROLL> ${ k_vector.x }[T${ k_vector.MN }];
        load_fragment_${ k_vector.x }${ "<0, T%s>" % k_vector.MN if hoist }(${ k_vector.x }_from, ${ k_vector.x });
        ${ T } ${ other.x }[2][T${ other.MN }];
        #pragma unroll
        for (int d = 0; d < 2; ++d) load_fragment_${ other.x }(${ other.x }_from + d * PITCH_${ other.X }, ${ other.x }[d]);

//% else
        ${ T } a[2][TM], b[2][TN];
        #pragma unroll
        for (int d = 0; d < 2; ++d) {
            load_fragment_a(a_from + d * PITCH_A, a[d]);
            load_fragment_b(b_from + d * PITCH_B, b[d]);
        }

//% endif
//% if hoist
        ${ add(hoist, "0", "0") }
//% endif
        int stage = 0;
        for (int k = K_UNROLL; k < ${ padded }; k += K_UNROLL) {${ "  // k counts those of a slice, DEPTH of each k tile" if view.slices > 1 }
            #pragma unroll
            for (int d = 0; d < K_UNROLL; ++d) {
                if (d == K_UNROLL - 2) {  // loads from here on are of the next iteration
//% for x in (view.a, view.b)
                    ${ x.x }_from += K_UNROLL${ " * PITCH_" ~ x.X if x.k_rows };
//% endfor
                }
                if (d == K_UNROLL - 2 && k % ${ depth } == 0) {  // and of the next k tile
                    cp_async_wait<STAGES - 2>();      // this thread's copies of it have landed
                    __syncthreads();                  // and all threads'; none reads this tile any more
${ start_tile(view.a, view.b, "padded - %s > (STAGES - 1) * BK" | format(k_of_block), "BK", "stage", "  // an empty group too: the wait counts groups") | indent(20, true) | trim("\n") }
                    a_tile += a_step;
                    b_tile += b_step;
                    stage = stage + 1 < STAGES ? stage + 1 : 0;
                    a_from = ${ begin_of(view.a, "stage") };
                    b_from = ${ begin_of(view.b, "stage") };
                }
                ${ add(others, "d % 2", "d") }
//% if k_vector
                if (d == K_UNROLL - 1) load_fragment_${ k_vector.x }${ others }(${ k_vector.x }_from, ${ k_vector.x });
//% endif
//% if view.b_first and not k_vector
                // B before A: another register allocation, with fewer bank conflicts here.
//% endif
//% for x in ((view.b, view.a) if view.b_first else (view.a, view.b)) if not x.k_vector
                load_fragment_${ x.x }(${ x.x }_from + (d + 2) % K_UNROLL * PITCH_${ x.X }, ${ x.x }[d % 2]);
//% endfor
//% if hoist
                ${ add(hoist, "(d + 1) % 2", "(d + 1) % K_UNROLL") }
//% if k_vector
                if (d + 1 == K_UNROLL - 1) load_fragment_${ k_vector.x }${ hoist }(${ k_vector.x }_from, ${ k_vector.x });
//% endif
//% endif
            }
        }

        #pragma unroll
        for (int d = 0; d < K_UNROLL; ++d) {  // the last iteration
            ${ add(others, "d % 2", "d") }
            if (d + 2 < K_UNROLL) {
//% for x in (view.a, view.b) if not x.k_vector
                load_fragment_${ x.x }(${ x.x }_from + (d + 2) * PITCH_${ x.X }, ${ x.x }[d % 2]);
//% endfor
            }
//% if hoist
            if (d + 1 < K_UNROLL) ${ add(hoist, "(d + 1) % 2", "(d + 1) % K_UNROLL") }
//% endif
        }
    }
//% endblock
