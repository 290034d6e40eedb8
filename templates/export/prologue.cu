/*# What stands before the kernel's text in NAME.cu: headers, and a namespace, so that one source file can include several kernels. #*/
//% if not out.run_by.all_known
#if !defined(__CUDA_ARCH__) || defined(__CUDACC_RTC__) || ${ out.run_by.compiled }  // others: at the end
//% endif
#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)  // NVRTC takes the kernel alone
#include "${ out.name }.h"
/*% if out.maps.encoded %*/

#include <cuda.h>
/*% endif %*/

#include <algorithm>
//% if not out.run_by.all_known
#include <atomic>
//% endif
//% if out.tile_sizes
#include <climits>
//% endif
#include <cstdint>
#include <cstdio>
#include <cstring>
/*% if renamed %*/

// The library's own symbols: another library, or an export, may have the same kernel.
//% for name, own in renamed
#define ${ name } ${ own }
//% endfor
/*% endif %*/

namespace ${ out.name }_impl {
#endif

