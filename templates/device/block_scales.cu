/*# Elements from a row of scales by block to the next, along M or N, by whether rows are padded to 16 bytes. #*/
//% set pitches = {false: "s.%s", true: "((s.%s + 3) / 4 * 4)"}
/*# How far behind those of the first group B's scales of a group of rows lie. #*/
//% macro scales_of_group(inputs, group)
//% set blocks = "((s.%s + " ~ (inputs.block - 1) ~ ") / " ~ inputs.block ~ ")"
static_cast<long long>(${ group }) * ${ blocks | format("K") } * ${ pitches[inputs.padded] | format("N") if inputs.lines else blocks | format("N") }
//%- endmacro
