/*# The launches before a kernel: copies of operands with lines that TMA takes, and sums of lines. #*/
//% from "device/dependent_launch.cu" import overlap
//% from "signature.cu" import parameters
//% macro prepare(copies, sums=())
//% set ways = {"copy": copy, "split": split, "transpose": transpose, "transpose_split": transpose_split, "pack": pack}
//% if sums or copies | rejectattr("way", "eq", "pack") | list
// 16 bytes of a line.
template <typename E>
struct alignas(16) Chunk {
    E at[16 / sizeof(E)];
};

//% endif
//% for one in copies
${ ways[one.way](one) }

//% endfor
//% for one in sums
${ sum_lines(one) }

//% endfor
//%- endmacro

/*# A block copies tiles of some lines, a warp each; its lanes chunks. #*/
//% macro copy(c)
//% import c.matrices as matrices
// ${ c.part } = ${ c.operand }, with lines ${ c.ld } elements apart: whole chunks of 16 bytes, with zeros behind a line's end.
${ head(c) }
    for (unsigned tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
${ chunk_of_lane(c) }        const ${ c.ctype }* const from = ${ matrices.source(c) } + static_cast<long long>(line) * ${ c.lead } + chunk * ${ c.chunk };
        Chunk<${ c.ctype }> copied = {};
        #pragma unroll
        for (int i = 0; i < ${ c.chunk }; ++i) {
            if (chunk * ${ c.chunk } + i < length) copied.at[i] = from[i];
        }
        reinterpret_cast<Chunk<${ c.ctype }>*>(${ c.part })[${ matrices.chunk_line("", "line") } * ${ c.pitch } + chunk] = copied;
    }
}
//%- endmacro

/*# A block splits tiles of some lines, a warp each; its lanes chunks. #*/
//% macro split(c)
//% import c.matrices as matrices
//% set read = {true: "load<%d>(from + i)" | format(c.access), false: "load_edge<%d>(from + i, length - chunk * %d - i)" | format(c.access, c.chunk)}
//% set element = {true: "from[i]", false: "chunk * %d + i < length ? from[i] : 0.0f" | format(c.chunk)}
// ${ c.part } = ${ c.pieces } pieces of ${ c.operand }, a matrix each, one behind the other, with lines ${ c.ld } elements apart: whole chunks of 16
// bytes, with zeros behind a line's end.
${ head(c) }
    const long long apart = static_cast<long long>(lines) * ${ c.pitch };  // from a piece to the next, in chunks
    for (unsigned tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
${ chunk_of_lane(c) }        const ${ c.ctype }* const from = ${ matrices.source(c) } + static_cast<long long>(line) * ${ c.lead } + chunk * ${ c.chunk };
        Chunk<${ c.piece }> split_up[${ c.pieces }];
        #pragma unroll
//% if c.access == 1
        for (int i = 0; i < ${ c.chunk }; ++i) {
            const Pieces pieces = split(${ element[c.whole] });
            #pragma unroll
            for (int p = 0; p < ${ c.pieces }; ++p) split_up[p].at[i] = pieces.at[p];
        }
//% else
        for (int i = 0; i < ${ c.chunk }; i += ${ c.access }) {
            const auto read = ${ read[c.whole] };
            #pragma unroll
            for (int j = 0; j < ${ c.access }; ++j) {
                const Pieces pieces = split(read.at[j]);
                #pragma unroll
                for (int p = 0; p < ${ c.pieces }; ++p) split_up[p].at[i + j] = pieces.at[p];
            }
        }
//% endif
        Chunk<${ c.piece }>* const to = reinterpret_cast<Chunk<${ c.piece }>*>(${ c.part }) + ${ matrices.chunk_line("%d * " | format(c.pieces), "line") } * ${ c.pitch } + chunk;
        #pragma unroll
        for (int p = 0; p < ${ c.pieces }; ++p) to[p * apart] = split_up[p];
    }
}
//%- endmacro

/*# A block transposes tiles through shared memory: it reads along the operand's lines, and writes along the copy's. #*/
//% macro transpose(c)
//% import c.matrices as matrices
// ${ c.part } = ${ c.operand }, ${ c.order_word }-major, with lines ${ c.ld } elements apart: whole chunks of 16 bytes, with zeros behind
// a line's end.
${ head(c) }
//% call transposed_tiles(c)
            Chunk<${ c.ctype }> copied;
            #pragma unroll
            for (int k = 0; k < ${ c.chunk }; ++k) copied.at[k] = transposed[chunk * ${ c.chunk } + k][line];
            const long long to = ${ matrices.line_of_all("", "first_line") } + line;
            reinterpret_cast<Chunk<${ c.ctype }>*>(${ c.part })[to * ${ c.pitch } + first / ${ c.chunk } + chunk] = copied;
//% endcall
}
//%- endmacro

/*# And splits what it writes. #*/
//% macro transpose_split(c)
//% import c.matrices as matrices
// ${ c.part } = ${ c.pieces } pieces of ${ c.operand }, a matrix each, one behind the other, ${ c.order_word }-major, with lines ${ c.ld } elements
// apart: whole chunks of 16 bytes, with zeros behind a line's end.
${ head(c) }
    const long long apart = static_cast<long long>(lines) * ${ c.pitch };  // from a piece to the next, in chunks
//% call transposed_tiles(c)
            Chunk<${ c.piece }> split_up[${ c.pieces }];
            #pragma unroll
            for (int k = 0; k < ${ c.chunk }; ++k) {
                const Pieces pieces = split(transposed[chunk * ${ c.chunk } + k][line]);
                #pragma unroll
                for (int p = 0; p < ${ c.pieces }; ++p) split_up[p].at[k] = pieces.at[p];
            }
            const long long to = ${ matrices.line_of_all("%d * " | format(c.pieces), "first_line") } + line;
            #pragma unroll
            for (int p = 0; p < ${ c.pieces }; ++p)
                reinterpret_cast<Chunk<${ c.piece }>*>(${ c.part })[p * apart + to * ${ c.pitch } + first / ${ c.chunk } + chunk] = split_up[p];
//% endcall
}
//%- endmacro

/*# A block packs chunks of B: the kernel's threads take eight codes at a time, each its own. #*/
//% macro pack(c)
/*# A code of B, and a zero point, as it lies in a chunk: those with a sign from 0 on. #*/
//% set stored = {4: "(%s[from / 2] >> (from %% 2 ? 4 : 0) & 15)%s", 8: "(%s[from] & 255)%s"}[c.bits]
//% set flipped = " ^ %d" | format(2 ** (c.bits - 1)) if c.signed else ""
//% set offset = "static_cast<long long>(%s) * %s + %s" | format(*(("column", c.lead, "at") if c.along_k else ("at", c.lead, "column")))
//% set offset = "static_cast<long long>(group) * %s + %s" | format(c.stride, offset) if c.groups else offset
//% set group = "first_k / %d" | format(c.group) if c.group else "0"
//% set group = ("group * ((%s + %d) / %d) + %s" | format(c.k, c.group - 1, c.group, group) if c.group else "group") if c.groups else group
// ${ c.part } = B's codes with ${ c.scaled_by }, in chunks of ${ c.columns } columns by ${ c.depth } of K: ${ c.lines } lines of 128 bytes each.
//% if c.bits == 4
// Of 16 columns by 16 k, lane 4 g + t of a warp has columns g and g + 8 at k = 2 t, 2 t + 1, 2 t + 8 and 2 t + 9: eight codes, one word.
// Codes r and r + 4 of it make register r of a fragment: column g + 8 * (r % 2), k = 2 t + 8 * (r / 2) and the next.
//% else
// Of 16 columns by 16 k, lane 4 g + t of a warp has columns g and g + 8 at k = 2 t, 2 t + 1, 2 t + 8 and 2 t + 9: eight codes, two words.
// Codes 2 r and 2 r + 1 make register r of a fragment: column g + 8 * (r % 2), k = 2 t + 8 * (r / 2) and the next.
//% endif
extern "C" __global__ void __launch_bounds__(${ c.threads })
${ c.entry }(
    ${ parameters(c.parameters)[2:] })
{
    const int across = (${ c.n } + ${ c.columns - 1 }) / ${ c.columns };
    const int tiles = across * ((${ c.k } + ${ c.depth - 1 }) / ${ c.depth });${ "  // of a group" if c.groups }
//% if c.overlapped
${ overlap("") | trim("\n") }
//% endif
    for (int tile = blockIdx.x; tile < ${ c.groups ~ " * " if c.groups }tiles; tile += gridDim.x) {
//% if c.groups
        const int group = tile / tiles;
        const int first_n = tile % across * ${ c.columns }, first_k = tile % tiles / across * ${ c.depth };
//% else
        const int first_n = tile % across * ${ c.columns }, first_k = tile / across * ${ c.depth };
//% endif
        unsigned* const chunk = reinterpret_cast<unsigned*>(${ c.part }) + static_cast<long long>(tile) * ${ c.lines * c.words };
        for (int i = threadIdx.x; i < ${ c.columns * c.depth // 8 }; i += ${ c.threads }) {
            const int thread = i / ${ c.access } % 128, step = i / ${ 128 * c.access } * ${ c.access } + i % ${ c.access };  // of the warpgroup, of 16 of K
            const int n = first_n + thread / 32 * 16 + thread % 32 / 4, k = first_k + step * 16 + thread % 4 * 2;
            ${ "unsigned word = 0" if c.bits == 4 else "uint2 words = {}" };
            #pragma unroll
            for (int v = 0; v < 8; ++v) {
                const int column = n + v / 2 % 2 * 8, at = k + v / 4 * 8 + v % 2;
                if (column >= ${ c.n } || at >= ${ c.k }) continue;
                const long long from = ${ offset };
                const unsigned code = ${ stored | format("B", flipped) };
//% if c.bits == 4
                word |= code << 4 * (v / 2 + v % 2 * 4);
//% else
                (v < 4 ? words.x : words.y) |= code << 8 * (v % 4);
//% endif
            }
//% if c.bits == 4
            chunk[i] = word;
//% else
            reinterpret_cast<uint2*>(chunk)[i] = words;
//% endif
        }
        for (int i = threadIdx.x; i < ${ c.columns }; i += ${ c.threads }) {
            const int n = first_n + i;
            const bool inside = n < ${ c.n };
            const long long from = static_cast<long long>(${ group }) * ${ c.n } + n;
            unsigned short* const own = reinterpret_cast<unsigned short*>(chunk + ${ c.code_words }) + i;
            *own = inside ? scales_b[from].bits : 0;
//% if c.zeros
            const int zero = inside ? ${ stored | format("zeros_b", flipped) } : 0;
//% if c.magic
            own[${ c.columns }] = static_cast<unsigned short>(0x${ c.magic } | zero);  // ${ c.added } plus the zero point
//% else
            own[${ c.columns }] = static_cast<unsigned short>(zero);
//% endif
//% endif
        }
    }
}
//%- endmacro

/*# Which lane has which chunk of a tile. #*/
//% macro chunk_of_lane(c)
//% import c.matrices as matrices
        const int line = static_cast<int>(${ matrices.first }) * ${ c.tile_lines } + static_cast<int>(threadIdx.x) / 32;
        const int chunk = static_cast<int>(tile % across) * ${ c.tile_length // c.chunk } + static_cast<int>(threadIdx.x) % 32;
        if (line >= lines || chunk >= chunks) continue;
${ matrices.matrix(c) }
//%- endmacro

/*# The loop over tiles; the caller writes a chunk of a line. #*/
//% macro transposed_tiles(c)
//% import c.matrices as matrices
    __shared__ ${ c.ctype } transposed[${ c.tile_length }][${ c.tile_lines } + ${ c.pad }];  // a word more: columns lie in different banks
    for (unsigned tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int first_line = static_cast<int>(${ matrices.first }) * ${ c.tile_lines }, first = static_cast<int>(tile % across) * ${ c.tile_length };
${ matrices.matrix(c) }        for (int i = threadIdx.x; i < ${ c.tile_length } * ${ c.tile_lines }; i += ${ c.threads }) {
            const int from = first + i / ${ c.tile_lines }, line = first_line + i % ${ c.tile_lines };
            ${ c.ctype } element = {};
            if (from < length && line < lines) element = ${ c.operand }[${ matrices.element(c) }static_cast<long long>(from) * ${ c.lead } + line];
            transposed[i / ${ c.tile_lines }][i % ${ c.tile_lines }] = element;
        }
        __syncthreads();  // the tile is whole
        for (int i = threadIdx.x; i < ${ c.tile_lines } * ${ c.tile_length // c.chunk }; i += ${ c.threads }) {
            const int line = i / ${ c.tile_length // c.chunk }, chunk = i % ${ c.tile_length // c.chunk };
            if (first_line + line >= lines || first / ${ c.chunk } + chunk >= chunks) continue;
${ caller() }        }
        __syncthreads();  // and may be overwritten
    }
//% endmacro

/*# Eight lanes sum a line, which they read 128 bytes at a time: rows of A, columns of B. #*/
//% macro sum_lines(c)
// ${ c.part } = the sums of ${ c.words }.
extern "C" __global__ void __launch_bounds__(${ c.threads })
${ c.entry }(
    ${ parameters(c.parameters)[2:] })
{
${ overlap("") }    const int lines = ${ c.lines }, length = ${ c.length };
//% if c.copied
    const int ld = (length + ${ c.unit - 1 }) / ${ c.unit } * ${ c.unit };  // of the copy
//% endif
//% if c.batched
    const long long count = static_cast<long long>(lines) * ${ c.batch };  // of all products
//% endif
//% set count = "count" if c.batched else "lines"
    for (long long first = blockIdx.x * ${ c.tile_lines }LL; first < ${ count }; first += gridDim.x * ${ c.tile_lines }LL) {
        const long long line = first + threadIdx.x / ${ c.lanes };
        const int lane = threadIdx.x % ${ c.lanes }, end = line < ${ count } ? length : 0;
//% if c.copied
        const ${ c.ctype }* const from = ${ c.source } + line * ld;
//% elif c.batched
        const ${ c.ctype }* const from = ${ c.source } + line / lines * ${ c.stride } + line % lines * ${ c.lead };
//% else
        const ${ c.ctype }* const from = ${ c.source } + line * ${ c.lead };
//% endif
        unsigned sum = 0;  // wraps around
        for (int k = lane * ${ c.chunk }; k < end; k += ${ c.lanes * c.chunk }) {
//% if c.may_end_early
            if (k + ${ c.chunk } > end) {
                for (int i = k; i < end; ++i) sum += static_cast<unsigned>(from[i]);
                continue;
            }
//% endif
            const Chunk<${ c.ctype }> chunk = *reinterpret_cast<const Chunk<${ c.ctype }>*>(from + k);
            #pragma unroll
            for (int i = 0; i < ${ c.chunk }; ++i) sum += static_cast<unsigned>(chunk.at[i]);
        }
        for (int distance = ${ c.lanes // 2 }; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);  // of all lanes
        if (lane == 0 && line < ${ count }) ${ c.part }[line] = static_cast<int>(sum);
    }
}
//%- endmacro

//% macro head(c)
//% import c.matrices as matrices
extern "C" __global__ void __launch_bounds__(${ c.threads })
${ c.entry }(
    ${ parameters(c.parameters)[2:] })
{
    const int lines = ${ c.lines }, length = ${ c.length };  // of the copy
    const int chunks = (length + ${ c.chunk - 1 }) / ${ c.chunk };
//% if c.pitch != "chunks"
    const int pitch = (length + ${ c.unit - 1 }) / ${ c.unit } * ${ c.unit // c.chunk };  // chunks from line to line, each of which begins a line of L2
//% endif
    const unsigned across = (length + ${ c.tile_length - 1 }u) / ${ c.tile_length }, down = (lines + ${ c.tile_lines - 1 }u) / ${ c.tile_lines };
    const unsigned tiles = across * down${ matrices.all_tiles(c) };
${ overlap("") | trim("\n") }
//%- endmacro
