// What a kernel sees of the twins of WMMA: templates/device/wmma.cu. Fragments keep to themselves which lane holds what, so
// that code which relies on that does not compile. Those that multiply are instances of GEMMGEN_WMMA, which are made from
// the table of gemmgen/problem/wmma.py for the kernel's architecture.
#pragma once

#include "matrix_instructions.hpp"

namespace gemmgen {

enum class WmmaOrder : uint8_t { unset, row, col };

// A lane's part of a fragment of A or B, as mma.sync of m16n8k16 takes it: twice for B, whose columns are twice as many.
struct WmmaElements {
  unsigned registers[4];
  WmmaOrder order = WmmaOrder::unset;
};

struct WmmaAccess;  // opens them for the twins

void wmma_load(WmmaElements& held, bool is_a, WmmaOrder order, const void* lines, int ld, int line);
void wmma_multiply(const MatrixInstruction& half, float* d, const WmmaElements& a, WmmaOrder order_a, const WmmaElements& b,
                   WmmaOrder order_b, int line);
void wmma_store(float* rows, const float* d, int ld, int line);

}  // namespace gemmgen

class FragmentA {
  gemmgen::WmmaElements held;
  friend struct gemmgen::WmmaAccess;
};

class FragmentB {
  gemmgen::WmmaElements held;
  friend struct gemmgen::WmmaAccess;
};

class Accumulator {  // with no initializers: = {} makes its sums 0
  float held[8];
  friend struct gemmgen::WmmaAccess;
};

struct gemmgen::WmmaAccess {
  template <typename Fragment>
  static auto& of(Fragment& fragment) { return fragment.held; }
};

#define GEMMGEN_WMMA_LOADS(order)                                                                                       \
  inline void wmma_load_a_##order(FragmentA& a, const void* lines, int ld, int line = __builtin_LINE()) {               \
    gemmgen::wmma_load(gemmgen::WmmaAccess::of(a), true, gemmgen::WmmaOrder::order, lines, ld, line);                   \
  }                                                                                                                     \
  inline void wmma_load_b_##order(FragmentB& b, const void* lines, int ld, int line = __builtin_LINE()) {               \
    gemmgen::wmma_load(gemmgen::WmmaAccess::of(b), false, gemmgen::WmmaOrder::order, lines, ld, line);                  \
  }
GEMMGEN_WMMA_LOADS(row)
GEMMGEN_WMMA_LOADS(col)
#undef GEMMGEN_WMMA_LOADS

inline void wmma_store(float* rows, const Accumulator& d, int ld, int line = __builtin_LINE()) {
  gemmgen::wmma_store(rows, gemmgen::WmmaAccess::of(d), ld, line);
}

#define GEMMGEN_WMMA(name, order_a, order_b, element, products, fraction, kept)                                           \
  inline void name(Accumulator& d, const FragmentA& a, const FragmentB& b, int line = __builtin_LINE()) {                 \
    using namespace gemmgen;                                                                                              \
    static constexpr MatrixInstruction HALF = {#name, 16, 8, 16, Element::element, Element::element, Element::f32,        \
                                               products, fraction, kept};                                                 \
    wmma_multiply(HALF, WmmaAccess::of(d), WmmaAccess::of(a), WmmaOrder::order_a, WmmaAccess::of(b), WmmaOrder::order_b,  \
                  line);                                                                                                  \
  }
