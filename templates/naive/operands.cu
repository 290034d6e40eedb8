/*# An element of A and one of B, for the loop of naive.cu. #*/
//% from "device/block_scales.cu" import pitches, scales_of_group
//% from "signature.cu" import matrices_of, vectors_of

/*# What reads elements of 4 bits, two to a byte. #*/
//% macro codes(kernel)
//% if types.b.storage_bits == 4
// Element i of those that lie two to a byte, the first in its low half.
__device__ __forceinline__ int code(const unsigned char* __restrict__ bytes, ${ "long long" if kernel.problem.inputs.groups else "Offset" } i)
{
//% if types.b.is_signed
    return static_cast<signed char>(bytes[i / 2] << (i % 2 ? 0 : 4)) >> 4;
//% else
    return bytes[i / 2] >> (i % 2 ? 4 : 0) & 15;
//% endif
}

//% endif
//% endmacro

//% macro element_at(operand, place)
${ "code(%s, %s)" | format(operand, place) if types.b.storage_bits == 4 else "%s[%s]" | format(operand, place) }
//%- endmacro

/*# The number of rows of C that are computed, at most. #*/
//% macro rows(kernel)
${ "group_rows[matrix]" if kernel.problem.inputs.masked else "s.M" }
//%- endmacro

/*# Groups of K that have a scale each, as a factor. #*/
//% macro groups_of_k(inputs)
${ "((s.K + %d) / %d) * " | format(inputs.group - 1, inputs.group) if inputs.group }
//%- endmacro

/*# The group of row m, its B, and what goes with that. #*/
//% macro find_group(kernel)
//% set groups = kernel.problem.inputs.groups
//% if groups and not kernel.problem.inputs.own_c
    int group = 0;
    while (group < ${ groups } && m >= offs[group]) ++group;  // empty groups end where they begin
    if (group == ${ groups }) return;  // behind the last end
//% if kernel.problem.coded
    const long long first_b = group * s.stride_b;  // codes before the group's
    const long long first_scale = static_cast<long long>(group) * ${ groups_of_k(kernel.problem.inputs) }s.N;  // likewise
${ vectors_of(kernel, "group") | trim("\n") }
//% else
${ matrices_of(kernel, "group") | trim("\n") }
//% endif
//% if kernel.problem.inputs.blocks
    scales_b += ${ scales_of_group(kernel.problem.inputs, "group") };
//% endif
//% endif
//% endmacro

/*# The range of K of a group. #*/
//% macro find_range(kernel)
//% if kernel.problem.inputs.along_k
    const int begin = matrix > 0 ? offs[matrix - 1] : 0, end = offs[matrix];
//% if kernel.drops_alpha
    if (begin == end) alpha = ${ types.scalar.arithmetic.zero };  // nothing to scale, be alpha infinite or NaN
//% endif
//% endif
//% endmacro

/*# The row of A of row m. #*/
//% macro find_row(kernel)
//% if kernel.problem.inputs.gathered
    const int row_a = index_a[m];
//% endif
//% if kernel.problem.inputs.images == "A"
    ${ place_at("m") }
//% endif
//% endmacro

/*# The row of C that row m of the product becomes. #*/
//% macro row_c(kernel)
${ "index_c[m]" if kernel.problem.inputs.scattered else "m" }
//%- endmacro

/*# The tap and the channel of column n, where columns of C are those of filters. #*/
//% macro find_tap(kernel)
//% if kernel.problem.inputs.wgrad
    ${ tap_at("n") }
//% endif
//% endmacro

//% macro place_at(number)
const int q = ${ number } % Q, p = ${ number } / Q % P, image = ${ number } / (P * Q);  // the output pixel
//%- endmacro

//% macro tap_at(number)
const int channel = ${ number } % CHANNELS, tap = ${ number } / CHANNELS;
//%- endmacro

/*# a, the element of A for row m in column k. #*/
//% macro read_a(kernel)
//% set row = "row_a" if kernel.problem.inputs.gathered else "m"
//% if kernel.problem.inputs.images == "A"
        ${ tap_at("k") }
${ read_pixel("a", "A", "lda") }
//%- else
        const ${ T } a = A[${ "Offset(%s) * s.lda + k" % row if kernel.problem.layout.a == "r" else "Offset(k) * s.lda + m" }];
//% endif
//% endmacro

/*# An element of A or B: a channel of the pixel that lies under the tap for an output pixel. #*/
//% macro read_pixel(to, images, ld)
        const int y = p * STRIDE_H - PAD_H + tap / S * DILATION_H;
        const int x = q * STRIDE_W - PAD_W + tap % S * DILATION_W;
        const bool inside = y >= 0 && y < H && x >= 0 && x < W;  // padding is zeros
        const ${ T } ${ to } = inside ? static_cast<${ T }>(${ images }[((Offset(image) * H + y) * W + x) * s.${ ld } + channel]) : ${ zero };
//% endmacro

/*# b, the element of B in row k and column n; b2, b3 and b4 are those of further matrices, which lie beside the first. #*/
//% macro read_b(kernel, matrix=1)
//% set column = ("n", "s.N + n", "2 * s.N + n", "3 * s.N + n")[matrix - 1]
//% set place = "Offset(k) * s.ldb + %s" | format(column) if kernel.problem.layout.b == "r" else "Offset(%s) * s.ldb + k" | format(column)
//% set inputs = kernel.problem.inputs
//% set place = "first_b + " ~ place if inputs.coded and inputs.groups else place
//% if inputs.images == "B"
        ${ place_at("k") }
${ read_pixel("b", "B", "ldb") }
//%- elif inputs.group is none
        const ${ T } b${ matrix if matrix > 1 } = B[${ place }];${ "  // of the %s matrix, beside the first" | format(("second", "third", "fourth")[matrix - 2]) if matrix > 1 }
//% else
//% set rounded = types.a.narrowing
//% if inputs.group
        const ${ "long long of_group = first_scale + " if inputs.groups else "Offset of_group = " }Offset(k / ${ inputs.group }) * s.N + n;
//% else
        const ${ "long long of_group = first_scale + " if inputs.groups else "int of_group = " }n;  // all of K is one group
//% endif
//% set code = element_at("B", place)
        const int code_b = ${ "%s - %s" | format(code, element_at("zeros_b", "of_group")) if inputs.zeros else code };
        const ${ T } b = ${ "%s(code_b * static_cast<float>(scales_b[of_group]))" | format(rounded) if rounded else "code_b * scales_b[of_group]" };${ "  // rounded once" if rounded }
//% endif
//% endmacro

/*# acc, the sum over blocks of K, each of which has a scale of A and one of B. #*/
/*# Sums of parts of K, which a scale multiplies: of codes of B, less their zero point, #*/
//% macro sum_groups(kernel)
//% set depth, group, zeros = kernel.problem.scaled_depth, kernel.problem.inputs.group, kernel.problem.inputs.zeros
//% set place = "Offset(k) * s.ldb + n" if kernel.problem.layout.b == "r" else "Offset(n) * s.ldb + k"
//% set row = "Offset(first / %d) * s.N + n" | format(group) if group else "n"
//% set row, place = ("first_scale + " ~ row, "first_b + " ~ place) if kernel.problem.inputs.groups else (row, place)
    for (int first = 0; first < s.K; first += ${ depth }) {
        ${ T } sum = ${ zero };
//% if zeros
        const int zero_point = ${ element_at("zeros_b", row) };
//% endif
        for (int k = first; k < min(first + ${ depth }, s.K); ++k) {
${ read_a(kernel) | indent(4, true) }            const int b = ${ element_at("B", place) }${ " - zero_point" if zeros };
            sum = ${ fma }(a, static_cast<${ T }>(b), sum);
        }
        acc = ${ fma }(static_cast<${ T }>(scales_b[${ row }]), sum, acc);
    }
//% endmacro

/*# and of blocks of both. #*/
//% macro sum_blocks(kernel)
//% set side, pitch = kernel.problem.inputs.block, pitches[kernel.problem.inputs.padded]
    for (int block = 0; block < s.K; block += ${ side }) {
        ${ T } sum = ${ zero };
        for (int k = block; k < min(block + ${ side }, s.K); ++k) {
${ read_a(kernel) | indent(4, true) }${ read_b(kernel) | indent(4, true) }            sum = ${ fma }(a, b, sum);
        }
        const float scale_a = scales_a[Offset(block / ${ side }) * ${ pitch | format("M") } + m];
//% if kernel.problem.inputs.lines
        const float scale_b = scales_b[Offset(block / ${ side }) * ${ pitch | format("N") } + n];
//% else
        const float scale_b = scales_b[Offset(n / ${ side }) * ((s.K + ${ side - 1 }) / ${ side }) + block / ${ side }];
//% endif
        acc = ${ fma }(scale_a * scale_b, sum, acc);  // the product of both is rounded first
    }
//% endmacro
