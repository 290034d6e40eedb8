/*# Rows of a staged piece of C that threads move, by chunks of 16 bytes. `row`: which row of C a row m of the piece is. #*/
/*# The loop over a thread's chunks; where it has too few for all threads, the last ones lie behind the piece. #*/
//% macro each_chunk(view)
    constexpr int CHUNK = 16 / sizeof(${ TC }), CHUNKS = ${ view.boxes_columns } / CHUNK;  // elements of a chunk; chunks of a row
    #pragma unroll
    for (int first = 0; first < ${ view.box_lines } * CHUNKS; first += 128) {
        const int i = first + static_cast<int>(threadIdx.x) % 128;
        const int m = i / CHUNKS, n = i % CHUNKS * CHUNK;
${ caller() }    }
//% endmacro
/*# `rows_end`: `rows` ends inside of the piece, so that nothing behind that is stored. #*/
//% macro store_chunks(view, row, rows_end)
//% set inside = "m < %s && " | format(view.box_lines) if view.part_step and not rows_end
//% call each_chunk(view)
        if (${ inside }m < rows && n < columns) *reinterpret_cast<uint4*>(to + Offset(${ row }) * s.ldc + n) = *reinterpret_cast<const uint4*>(piece + staged_at(m, n));
//% endcall
//% endmacro
//% macro load_chunks(view, row)
//% set if_inside = "if (m < %s) " | format(view.box_lines) if view.part_step
//% call each_chunk(view)
        const bool exists = m < rows && n < columns;
        ${ if_inside }*reinterpret_cast<uint4*>(piece + staged_at(m, n)) = exists ? *reinterpret_cast<const uint4*>(from + Offset(${ row }) * s.ldc + n) : uint4{};
//% endcall
//% endmacro
