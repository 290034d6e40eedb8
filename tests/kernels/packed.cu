/*# C = A * B of codes that a launch before has packed, as the fragments of wgmma lie. A thread an element. #*/
//% from "device/convert.cu" import element_types
//% from "device/dependent_launch.cu" import dependent_launch
//% from "prepare/prepare.cu" import prepare
//% set c = copies[0]
${ element_types(rounds=types.a.label) }
${ dependent_launch() }
${ prepare(copies) }
extern "C" __global__ void __launch_bounds__(64)
${ name }(
//% for p in parameters
    ${ p.ctype } ${ p.text }${ ")" if loop.last else "," }
//% endfor
{
    const int columns = (${ c.n } + 7) / 8;
    const int m = blockIdx.x / columns * 8 + threadIdx.x / 8, n = blockIdx.x % columns * 8 + threadIdx.x % 8;
    if (m >= ${ M } || n >= ${ c.n }) return;
//% if c.groups
    int group = 0;
    while (group < ${ c.groups } && m >= offs[group]) ++group;
    if (group == ${ c.groups }) return;
    prepared_b += 1LL * group * ((${ c.n } + 63) / 64) * ((${ c.k } + ${ c.depth - 1 }) / ${ c.depth }) * ${ c.lines * c.words };
//% endif
    const int across = (${ c.n } + 63) / 64, column = n % 64;
    float sum = 0;
    for (int at = 0; at < ${ c.k }; ++at) {
        const int* const chunk = prepared_b + (at / ${ c.depth } * across + n / 64) * ${ c.lines * c.words };
        const int step = at % ${ c.depth } / 16, within = at % 16, thread = column / 16 * 32 + column % 8 * 4 + within % 8 / 2;
        const int own = step / ${ c.access } * ${ 128 * c.access } + thread * ${ c.access } + step % ${ c.access };  // eight codes
//% if c.bits == 4
        const int code = chunk[own] >> 4 * (within / 8 * 2 + column / 8 % 2 + within % 2 * 4) & 15;
//% else
        const int code = chunk[2 * own + within / 8] >> 8 * (column / 8 % 2 * 2 + within % 2) & 255;
//% endif
        const ${ TA }* const scales = reinterpret_cast<const ${ TA }*>(chunk + ${ c.code_words });
        const int zero = ${ "scales[64 + column].bits & %d" | format(2 ** c.bits - 1) if c.zeros else 2 ** (c.bits - 1) if c.signed else "0" };
        sum += float(A[1LL * m * ${ lda } + at]) * float(${ TA }(float(code - zero) * float(scales[column])));
    }
    C[1LL * ${ row_of_c } * ${ ldc } + n] = ${ TC }(sum);
}
