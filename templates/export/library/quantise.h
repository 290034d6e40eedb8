/*# Their declarations. #*/
/* Quantise floats to e4m3 for products with scales by block. A scale is the largest magnitude of its elements, at least 1e-4, over
 * 448; a code is the element times 1 / scale, rounded to nearest, saturating. `rows` makes A and scales_a, a scale for each 128
 * along k of a row; `squares` makes B, whose columns are rows here, and scales_b, a scale for each 128 x 128.
 *
 * x           device memory: rows x k elements of f32, f16 or bf16, row-major, as the name says
 * rows, k     sizes in elements, from 0 on
 * ld          elements from one row of x to the next, at least k; 0 for rows without a gap
 * codes       device memory: rows x k elements of e4m3, row-major, without padding; written
 * scales      device memory, without padding: of rows ceil(k / 128) x rows, of squares ceil(rows / 128) x ceil(k / 128); written
 */
//% for what in ("rows", "squares")
//% for label in lib.quantised
cudaError_t ${ lib.name }_quantise_${ what }_${ label }(const void* /* x */, int /* rows */, int /* k */, int /* ld */, void* /* codes */, float* /* scales */, cudaStream_t /* stream */);
//% endfor
//% endfor
