/*# main() that checks NAME_launch on the reader's GPU. Host code only: any C++17 compiler takes it. #*/
//% set types = test.types
//% macro of(function)
EXPORTED(${ function })
//%- endmacro
// Checks the kernel on this machine's GPU.
//
//% if test.scalar.is_integer
//   random  any integers: sums and what becomes of them wrap around at 32 bits, so C must match bit for bit
//% else
//   exact   small integers: every product and sum is representable, so ${ "C must match bit for bit" if types.c == test.scalar else "C is their sum, rounded once" }
//   random  uniform in [-1, 1)${ ", and any integers," if types.a.is_integer or types.b.is_integer } against ${ test.wide } arithmetic, with a bound for each element's error
//% endif
//
//% if types.c.is_integer
// ${ test.filler } fills the padding between lines and the bands around all
//% else
// ${ test.filler } fills C before a run with beta = 0, the padding between lines and the bands around all
//% endif
// operands: a kernel that reads or writes there fails. Exits with 0 if all checks pass, with 77 where there is no GPU.

#include "${ out.name }.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#define EXPORTED(function) ${ out.name }_##function

namespace {

using std::string, std::vector;

//% include "export/selftest/shapes.cu"
//% include "export/selftest/elements.cu"
//% include "export/selftest/memory.cu"
//% include "export/selftest/launch.cu"
//% include "export/selftest/operands.cu"
//% if test.linear
//% include "export/selftest/linear.cu"
//% else
//% include "export/selftest/arithmetic.cu"
//% endif
//% include "export/selftest/reference.cu"
//% include "export/selftest/compare.cu"
//% include "export/selftest/arguments.cu"
}  // namespace

int main()
{
    bool passed = checks_its_arguments();
    int devices = 0;
    if (passed && (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)) {
        std::puts("no GPU: skipped");
        return 77;  // as CTest is told
    }
//% include "export/selftest/checks.cu"
    std::puts(passed ? "PASS  all" : "FAIL");
    return passed ? 0 : 1;
}
