/*# Matrices of 8 x 8 elements of 2 bytes between shared memory and the registers that mma takes. `loads` and `stores` are
    those that a kernel uses: (how many matrices, whether they are transposed). #*/
/*# The end of the function's name, that of the instruction's, and what a lane has of a matrix, by whether it is transposed. #*/
//% set ways = {false: ("", "", "row"), true: ("_trans", ".trans", "column")}
//% macro ldmatrix(loads=(), stores=())
//% for count, transposed in loads
//% set name, suffix, line = ways[transposed]
// Load ${ count } matrices of 8 x 8 elements of 2 bytes. Lane 8 i + r passes the address of row r of matrix i, a multiple of 16.
// Lane l gets in r[i] elements 2 (l % 4) and 2 (l % 4) + 1 of ${ line } l / 4.
__device__ __forceinline__ void ldmatrix_x${ count }${ name }(unsigned (&r)[${ count }], const void* row)
{
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x${ count }${ suffix }.shared.b16 {${ listed(0, count) }}, [%${ count }];"
                 : ${ bound("=r", "r", count) }
                 : "r"(from)
                 : "memory");
}

//% endfor
//% for count, transposed in stores
//% set name, suffix, line = ways[transposed]
// Store ${ count } 8 x 8 matrices of 2-byte elements. Lane 8 i + r passes the address of row r of matrix i, a multiple of 16.
// Lane l has in r[i] elements 2 (l % 4) and 2 (l % 4) + 1 of ${ line } l / 4.
__device__ __forceinline__ void stmatrix_x${ count }${ name }(void* row, const unsigned (&r)[${ count }])
{
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("stmatrix.sync.aligned.m8n8.x${ count }${ suffix }.shared.b16 [%0], {${ listed(1, count + 1) }};"
                 :
                 : "r"(to), ${ bound("r", "r", count) }
                 : "memory");
}

//% endfor
//% endmacro
//% from "device/mma.cu" import listed, bound
