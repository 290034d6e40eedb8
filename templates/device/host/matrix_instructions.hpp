// What a kernel sees of the twins of ldmatrix, stmatrix and mma.sync: templates/device/ldmatrix.cu and mma.cu. Those of mma
// are instances of GEMMGEN_MMA, which are made from the table of gemmgen/problem/mma.py for the kernel's architecture.
#pragma once

#include <stdint.h>

namespace gemmgen {

enum class Element : uint8_t { s4, u4, s8, u8, s32, e4m3, e5m2, f16, bf16, tf32, f32, f64 };

// One of the records of gemmgen/problem/mma.py, which says what each member is.
struct MatrixInstruction {
  const char* name;
  unsigned m, n, k;
  Element a, b, accumulator;
  int products, fraction, kept;
};

void multiply_matrices(const MatrixInstruction& instruction, void* d, const void* a, const void* b, int line);
void load_matrices(unsigned* registers, unsigned count, bool transposed, const void* row, int line);
void store_matrices(const unsigned* registers, unsigned count, bool transposed, void* row, int line);

}  // namespace gemmgen

#define GEMMGEN_MMA(name, m, n, k, a, b, c, products, fraction, kept, c_type, c_registers, a_type, a_registers, b_registers) \
  inline void name(c_type(&d)[c_registers], const a_type(&a_fragment)[a_registers], const a_type(&b_fragment)[b_registers], \
                   int line = __builtin_LINE()) {                                                                           \
    using gemmgen::Element;                                                                                                 \
    static constexpr gemmgen::MatrixInstruction INSTRUCTION = {#name,      m,          n,        k,        Element::a,     \
                                                               Element::b, Element::c, products, fraction, kept};          \
    gemmgen::multiply_matrices(INSTRUCTION, d, a_fragment, b_fragment, line);                                               \
  }

#define GEMMGEN_MATRICES(count, suffix, transposed)                                                                   \
  inline void ldmatrix_x##count##suffix(unsigned (&r)[count], const void* row, int line = __builtin_LINE()) {         \
    gemmgen::load_matrices(r, count, transposed, row, line);                                                          \
  }                                                                                                                   \
  inline void stmatrix_x##count##suffix(void* row, const unsigned (&r)[count], int line = __builtin_LINE()) {         \
    gemmgen::store_matrices(r, count, transposed, row, line);                                                         \
  }
GEMMGEN_MATRICES(1, , false)
GEMMGEN_MATRICES(2, , false)
GEMMGEN_MATRICES(4, , false)
GEMMGEN_MATRICES(1, _trans, true)
GEMMGEN_MATRICES(2, _trans, true)
GEMMGEN_MATRICES(4, _trans, true)
#undef GEMMGEN_MATRICES
