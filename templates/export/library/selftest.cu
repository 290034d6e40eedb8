/*# main() that calls every product over sizes that reach every rule. Host code only. #*/
// Checks ${ lib.name } on this machine's GPU: each product over sizes that reach every rule of its tables, against a plain
// product on the host. Small integers have to give the exact result, other data one within a bound for each element's error.
// NaN fills what may not be read; what writes outside C fails. Prints PASS or FAIL for each check; exits with 0 if all pass,
// with 77 where there is no GPU.

#include "${ lib.name }.h"

//% if lib.quantised
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

//% endif
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

using std::string, std::vector;

// Device memory for workspaces, full of ones before each call.
void* workspace_of(size_t bytes)
{
    static void* memory = nullptr;
    static size_t reserved = 0;
    if (bytes > reserved) {
        cudaFree(memory);
        if (cudaMalloc(&memory, bytes) != cudaSuccess) return memory = nullptr;
        reserved = bytes;
    }
    if (bytes > 0) cudaMemsetAsync(memory, 0xff, bytes, nullptr);
    return memory;
}

// A call that a rule is to decide, and the kernel that it names for devices of a compute capability.
struct Reach {
    int capability;
    int shape;
    const char* kernel;
};

int capability_here()
{
    int device = 0, major = 0, minor = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    return 10 * major + minor;
}

//% for p in lib.products
//% set out, test = p.out, p.test
//% macro of(function)
${ out.name }_${ function }
//%- endmacro
namespace test_${ p.name } {

//% include "export/selftest/shapes.cu"
//% include "export/selftest/elements.cu"
//% include "export/selftest/memory.cu"
//% include "export/library/selftest_call.cu"
//% include "export/selftest/operands.cu"
//% if test.linear
//% include "export/selftest/linear.cu"
//% else
//% include "export/selftest/arithmetic.cu"
//% endif
//% include "export/selftest/reference.cu"
//% include "export/selftest/compare.cu"
//% include "export/selftest/arguments.cu"
//% include "export/library/selftest_rules.cu"
bool passes_all()
{
    bool passed = reaches_rules();
//% include "export/selftest/checks.cu"
    std::printf("%s  ${ p.name }\n", passed ? "PASS" : "FAIL");
    return passed;
}

}  // namespace test_${ p.name }

//% endfor
//% if lib.quantised
//% include "export/library/selftest_quantise.cu"
//% endif
}  // namespace

int main()
{
    bool passed = true;
//% for p in lib.products
    passed &= test_${ p.name }::checks_its_arguments();
//% endfor
    int devices = 0;
    if (passed && (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)) {
        std::puts("no GPU: skipped");
        return 77;  // as CTest is told
    }
//% for p in lib.products
    passed &= test_${ p.name }::passes_all();
//% endfor
//% if lib.quantised
    passed &= test_quantise::passes_all();
//% endif
    std::puts(passed ? "PASS  all" : "FAIL");
    return passed ? 0 : 1;
}
