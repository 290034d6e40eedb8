/*# Each warp sums over its own k. Packed codes, and fragments of the small operand, are under way to a ring of registers. #*/
//% macro sum_products(x, w, view)
    // A ring of registers: a step's codes and scales, and A's fragments for them, are loaded UNROLL steps before their use.
    const Offset stride = Offset(STEP / CHUNK_K) * chunks_across(s) * PACKED_WORDS;  // to the chunks of the next step
    const unsigned* chunk = first_chunk(prepared_b, s, begin, n);
    const Rows rows = first_rows(A, s, tile_m, begin + thread.k);
//% if view.whole_rounds
    const int last = end;
//% else
    const int last = end - threadIdx.x / 32 * 4 * LANE_K;  // from there on this warp has no steps
//% endif
    Columns columns[UNROLL][LOADS];
    Fragments fragments[UNROLL];
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
//% if not view.whole_rounds
        if (begin + u * STEP >= last) break;
//% endif
        load_columns(chunk + u * stride, n, columns[u]);
        load_fragments(rows, u * STEP, fragments[u]);
    }

    Accumulators acc = {};
    for (int k = begin; k < last; k += UNROLL * STEP) {
        chunk += UNROLL * stride;
        #pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
//% if not view.whole_rounds
            if (k + u * STEP >= last) break;
//% endif
            multiply_step(fragments[u], columns[u], acc);
            const int next = k + (UNROLL + u) * STEP;
            if (next >= last) continue;  // the branch keeps ptxas from putting off all loads to the end of the loop
            load_columns(chunk + u * stride, n, columns[u]);
            load_fragments(rows, next - begin, fragments[u]);
        }
    }
//% endmacro
