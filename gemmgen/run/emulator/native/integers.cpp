// Integer and bit instructions.
#include <string_view>
#include <utility>

#include "decoder.hpp"
#include "failure.hpp"
#include "integer_numbers.hpp"
#include "lanes.hpp"
#include "machine.hpp"

namespace gemmgen {

namespace {

namespace n = numbers;

// Functions of numbers.hpp as types, for the templates of lanes.hpp.
#define GEMMGEN_OF_ONE(Name, function) \
  struct Name { template <typename T> static auto of(T a) { return n::function(a); } };
#define GEMMGEN_OF_TWO(Name, function) \
  struct Name { template <typename T> static auto of(T a, T b) { return n::function(a, b); } };
#define GEMMGEN_OF_THREE(Name, function) \
  struct Name { template <typename T> static auto of(T a, T b, T c) { return n::function(a, b, c); } };
GEMMGEN_OF_ONE(Negate, neg)
GEMMGEN_OF_ONE(Magnitude, abs)
GEMMGEN_OF_ONE(Population, popc)
GEMMGEN_OF_ONE(LeadingZeros, clz)
GEMMGEN_OF_ONE(Find, bfind)
GEMMGEN_OF_ONE(FindShift, bfind<true>)
GEMMGEN_OF_ONE(Reverse, brev)
GEMMGEN_OF_TWO(Add, add)
GEMMGEN_OF_TWO(Subtract, sub)
GEMMGEN_OF_TWO(MultiplyLow, mul_lo)
GEMMGEN_OF_TWO(MultiplyWide, mul_wide)
GEMMGEN_OF_TWO(MultiplyHigh, mul_hi)
GEMMGEN_OF_TWO(Divide, div)
GEMMGEN_OF_TWO(Remainder, rem)
GEMMGEN_OF_TWO(Least, min)
GEMMGEN_OF_TWO(Greatest, max)
GEMMGEN_OF_TWO(LeastRelu, min_relu)
GEMMGEN_OF_TWO(GreatestRelu, max_relu)
GEMMGEN_OF_THREE(AbsoluteDifference, sad)
GEMMGEN_OF_TWO(Multiply24Low, mul24_lo)
GEMMGEN_OF_TWO(Multiply24High, mul24_hi)
GEMMGEN_OF_THREE(MultiplyAdd24Low, mad24_lo)
GEMMGEN_OF_THREE(MultiplyAdd24High, mad24_hi)
#undef GEMMGEN_OF_ONE
#undef GEMMGEN_OF_TWO
#undef GEMMGEN_OF_THREE

struct MultiplyAdd {
  template <typename T> static T of(T a, T b, T c) { return n::add(n::mul_lo(a, b), c); }
};
struct MultiplyAddHigh {
  template <typename T> static T of(T a, T b, T c) { return n::add(n::mul_hi(a, b), c); }
};
struct MultiplyAddWide {
  template <typename T> static auto of(T a, T b, n::Doubled<T> c) { return n::add(n::mul_wide(a, b), c); }
};
struct AddSaturated {
  static int32_t of(int32_t a, int32_t b) { return n::add_sat(a, b); }
};
struct SubtractSaturated {
  static int32_t of(int32_t a, int32_t b) { return n::sub_sat(a, b); }
};
struct And {
  template <typename T> static T of(T a, T b) { return a & b; }
};
struct Or {
  template <typename T> static T of(T a, T b) { return a | b; }
};
struct Xor {
  template <typename T> static T of(T a, T b) { return a ^ b; }
};
struct Not {
  template <typename T> static T of(T a) { return T(~a); }
};
struct LogicalNot {
  template <typename T> static T of(T a) { return a == 0; }
};
struct ShiftLeft {
  template <typename T> static T of(T a, uint32_t by) { return n::shl(a, by); }
};
struct ShiftRight {
  template <typename T> static T of(T a, uint32_t by) { return n::shr(a, by); }
};
struct Extract {
  template <typename T> static T of(T a, uint32_t start, uint32_t length) { return n::bfe(a, start, length); }
};
template <bool LEFT, bool WRAP>
struct Funnel {
  static uint32_t of(uint32_t low, uint32_t high, uint32_t by) {
    return LEFT ? n::shf_l<WRAP>(low, high, by) : n::shf_r<WRAP>(low, high, by);
  }
};
template <n::Permute MODE>
struct Permuted {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) { return n::prmt<MODE>(a, b, c); }
};
template <typename A, typename B>
struct Dot4 {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) { return n::dp4a<A, B>(a, b, c); }
};
template <typename A, typename B, bool HIGH>
struct Dot2 {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) { return n::dp2a<A, B, HIGH>(a, b, c); }
};
template <bool WRAP>
struct Extend {
  template <typename T> static T of(T a, uint32_t bits) { return n::szext<WRAP>(a, bits); }
};
template <bool WRAP>
struct Mask {
  static uint32_t of(uint32_t start, uint32_t bits) { return n::bmsk<WRAP>(start, bits); }
};

template <bool ADDS>
struct Differences {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t made = 0;
    for (unsigned bit = 0; bit < 32; bit += 8) {
      const uint32_t x = a >> bit & 0xFF, y = b >> bit & 0xFF, difference = x < y ? y - x : x - y;
      made = ADDS ? made + difference : made | difference << bit;
    }
    return ADDS ? c + made : made;
  }
};
template <typename Of, typename T>
struct OfHalves {
  static uint32_t of(uint32_t a, uint32_t b) {
    return n::by_halves<T>([](T x, T y) { return Of::of(x, y); }, a, b);
  }
};

// Operations on u16x2 and s16x2.
template <typename Of>
bool halves(Decoder& to, const Statement& from) {
  const bool with_sign = from.has("s16x2");
  if (!with_sign && !from.has("u16x2")) return false;
  const Unit d = to.destination(0), a = to.source(1, Type::b32), b = to.source(2, Type::b32);
  Instruction& i = to.emit(with_sign ? binary<OfHalves<Of, int16_t>, uint32_t, uint32_t> : binary<OfHalves<Of, uint16_t>, uint32_t, uint32_t>);
  i.d = d, i.a = a, i.b = b;
  return true;
}

template <typename Of>
void same(Decoder& to, const Statement& from, bool with_sign) {
  if (from.type() == Type::none) to.refuse("its type is not known");
  const auto made = [&]<typename T>(Tag<T>) {
    Instruction i;
    i.d = to.destination(0);
    for (unsigned operand = 1; operand < to.count(); ++operand)
      (operand == 1 ? i.a : operand == 2 ? i.b : i.c) = to.source(operand, from.type());
    Instruction& emitted = to.emit(nullptr);
    emitted.d = i.d, emitted.a = i.a, emitted.b = i.b, emitted.c = i.c;
    if constexpr (requires(T a) { Of::of(a); }) {
      if (to.count() == 2) emitted.run = unary<Of, decltype(Of::of(T())), T>;
    }
    if constexpr (requires(T a) { Of::of(a, a); }) {
      if (to.count() == 3) emitted.run = binary<Of, decltype(Of::of(T(), T())), T>;
    }
    if constexpr (requires(T a) { Of::of(a, a, a); }) {
      if (to.count() == 4) emitted.run = ternary<Of, decltype(Of::of(T(), T(), T())), T>;
    }
    if (emitted.run == nullptr) to.refuse("it has " + std::to_string(to.count()) + " operands");
  };
  if (with_sign) with_integer(from.type(), made);
  else with_bits(bits_of(from.type()), made);
}

// In PTX the result of a division by 0 is unspecified; in C++ it is undefined behaviour.
template <typename Of, typename T>
const Instruction* checked(Warp& warp, const Instruction* i) {
  const T* const divisors = warp.reg<T>(i->b);
  each_of(warp.active & warp.known(i->b), [&](unsigned lane) {
    if (divisors[lane] == 0) fail("crash", "%s: division by zero (%s)", warp.where(1u << lane).c_str(), warp.machine().place(i).c_str());
  });
  return binary<Of, T, T>(warp, i);
}

template <typename Of>
void divide(Decoder& to, const Statement& from) {
  const Unit d = to.destination(0), a = to.source(1, from.type()), b = to.source(2, from.type());
  Instruction& i = to.emit(with_integer(from.type(), []<typename T>(Tag<T>) { return Handler(checked<Of, T>); }));
  i.d = d, i.a = a, i.b = b;
}

// Predicates are masks of lanes.
template <typename Of>
const Instruction* of_predicates(Warp& warp, const Instruction* i) {
  uint32_t made;
  if constexpr (requires(uint32_t a) { Of::of(a); }) made = Of::of(warp.predicate(i->a));
  else made = Of::of(warp.predicate(i->a), warp.predicate(i->b));
  warp.set_predicate(i->d, made);
  warp.settle(i, i->b == NO_UNIT ? warp.known(i->a) : warp.known(i->a) & warp.known(i->b));
  return i + 1;
}

template <typename Of>
void logic(Decoder& to, const Statement& from) {
  if (from.type() != Type::pred) return same<Of>(to, from, false);
  const Unit d = to.destination(0), a = to.source(1, Type::pred), b = to.count() > 2 ? to.source(2, Type::pred) : NO_UNIT;
  Instruction& i = to.emit(of_predicates<Of>);
  i.d = d, i.a = a, i.b = b;
}

// Shifts: two operands, the second of which is a number of bits.
template <typename Choose>
void with_amount(Decoder& to, const Statement& from, Choose choose) {
  const Unit d = to.destination(0), a = to.source(1, from.type()), b = to.source(2, Type::u32);
  Instruction& i = to.emit(with_integer(from.type(), choose));
  i.d = d, i.a = a, i.b = b;
}

template <typename Of>
void shift(Decoder& to, const Statement& from) {
  with_amount(to, from, []<typename T>(Tag<T>) { return Handler(binary<Of, T, T, uint32_t>); });
}

// mul and mad: .lo, .hi or .wide.
void multiply(Decoder& to, const Statement& from) {
  const bool adds = from.opcode == "mad";
  if (from.has("wide")) {
    const Unit d = to.destination(0), a = to.source(1, from.type()), b = to.source(2, from.type());
    const Type wide = bits_of(from.type()) == 16 ? Type::u32 : Type::u64;
    const Unit c = adds ? to.source(3, wide) : NO_UNIT;
    with_integer(from.type(), [&]<typename T>(Tag<T>) {
      if constexpr (sizeof(T) == 2 || sizeof(T) == 4) {
        using Wide = n::Doubled<T>;
        Instruction& i = to.emit(adds ? Handler(ternary<MultiplyAddWide, Wide, T, T, Wide>) : binary<MultiplyWide, Wide, T>);
        i.d = d, i.a = a, i.b = b, i.c = c;
      } else to.refuse("it has no wide product");
    });
    return;
  }
  if (from.has("hi")) return adds ? same<MultiplyAddHigh>(to, from, true) : same<MultiplyHigh>(to, from, true);
  if (adds) return same<MultiplyAdd>(to, from, false);
  same<MultiplyLow>(to, from, false);
}

// popc, clz: 32 bits of any type.
template <typename Of, bool WITH_SIGN>
void count(Decoder& to, const Statement& from) {
  const Unit d = to.destination(0), a = to.source(1, from.type());
  const auto made = [&]<typename T>(Tag<T>) {
    Instruction& i = to.emit(unary<Of, uint32_t, T>);
    i.d = d, i.a = a;
  };
  if constexpr (WITH_SIGN) with_integer(from.type(), made);
  else with_bits(bits_of(from.type()), made);
}

void extract(Decoder& to, const Statement& from) {
  const Unit d = to.destination(0), a = to.source(1, from.type()), b = to.source(2, Type::u32), c = to.source(3, Type::u32);
  with_integer(from.type(), [&]<typename T>(Tag<T>) {
    Instruction& i = to.emit(ternary<Extract, T, T, uint32_t, uint32_t>);
    i.d = d, i.a = a, i.b = b, i.c = c;
  });
}

template <typename T>
const Instruction* insert(Warp& warp, const Instruction* i) {
  const T *const a = warp.reg<T>(i->a), *const b = warp.reg<T>(i->b);
  const Unit length = i->detail->units[0];
  const uint32_t *const starts = warp.reg<uint32_t>(i->c), *const lengths = warp.reg<uint32_t>(length);
  each_lane<T>(warp, i->d, [=](unsigned lane) { return n::bfi(a[lane], b[lane], starts[lane], lengths[lane]); });
  warp.settle(i, warp.known(i->a) & warp.known(i->b) & warp.known(i->c) & warp.known(length));
  return i + 1;
}

void insert_bits(Decoder& to, const Statement& from) {
  const Unit d = to.destination(0), a = to.source(1, from.type()), b = to.source(2, from.type()), c = to.source(3, Type::u32),
             length = to.source(4, Type::u32);
  Instruction& i = to.emit(bits_of(from.type()) == 64 ? insert<uint64_t> : insert<uint32_t>);
  i.d = d, i.a = a, i.b = b, i.c = c;
  to.detail(i).units = {length};
}

void funnel(Decoder& to, const Statement& from) {
  const bool left = from.has("l"), wrap = from.has("wrap");
  const Unit d = to.destination(0), a = to.source(1, Type::b32), b = to.source(2, Type::b32), c = to.source(3, Type::u32);
  Instruction& i = to.emit(left ? (wrap ? Handler(ternary<Funnel<true, true>, uint32_t, uint32_t>) : ternary<Funnel<true, false>, uint32_t, uint32_t>)
                                : (wrap ? Handler(ternary<Funnel<false, true>, uint32_t, uint32_t>) : ternary<Funnel<false, false>, uint32_t, uint32_t>));
  i.d = d, i.a = a, i.b = b, i.c = c;
}

// lop3: its table is in `immediate`.
const Instruction* look_up(Warp& warp, const Instruction* i) {
  const uint32_t *const a = warp.reg<uint32_t>(i->a), *const b = warp.reg<uint32_t>(i->b), *const c = warp.reg<uint32_t>(i->c);
  const auto table = uint32_t(i->immediate);
  each_lane<uint32_t>(warp, i->d, [=](unsigned lane) { return n::lop3(a[lane], b[lane], c[lane], table); });
  warp.settle(i, warp.known(i->a) & warp.known(i->b) & warp.known(i->c));
  return i + 1;
}

void lop3(Decoder& to, const Statement&) {
  const Unit d = to.destination(0), a = to.source(1, Type::b32), b = to.source(2, Type::b32), c = to.source(3, Type::b32);
  if (to.at(4).kind != Operand::Kind::immediate) to.refuse("its table is no number");
  Instruction& i = to.emit(look_up);
  i.d = d, i.a = a, i.b = b, i.c = c;
  i.immediate = int64_t(to.at(4).bits);
}

void permute(Decoder& to, const Statement& from) {
  const Unit d = to.destination(0), a = to.source(1, Type::b32), b = to.source(2, Type::b32), c = to.source(3, Type::b32);
  using enum n::Permute;
  constexpr std::pair<std::string_view, Handler> MODES[] = {
      {"f4e", ternary<Permuted<f4e>, uint32_t, uint32_t>}, {"b4e", ternary<Permuted<b4e>, uint32_t, uint32_t>},
      {"rc8", ternary<Permuted<rc8>, uint32_t, uint32_t>}, {"ecl", ternary<Permuted<ecl>, uint32_t, uint32_t>},
      {"ecr", ternary<Permuted<ecr>, uint32_t, uint32_t>}, {"rc16", ternary<Permuted<rc16>, uint32_t, uint32_t>},
  };
  Handler handler = ternary<Permuted<bytes>, uint32_t, uint32_t>;
  for (const auto& [name, mode] : MODES)
    if (from.has(name)) handler = mode;
  Instruction& i = to.emit(handler);
  i.d = d, i.a = a, i.b = b, i.c = c;
}

template <template <typename, typename> class Of>
void dot(Decoder& to, const Statement& from) {
  const bool a_signed = is_signed(from.type(1)), b_signed = is_signed(from.type(0));
  const Unit d = to.destination(0), a = to.source(1, Type::b32), b = to.source(2, Type::b32), c = to.source(3, Type::b32);
  Instruction& i = to.emit(a_signed ? (b_signed ? Handler(ternary<Of<int8_t, int8_t>, uint32_t, uint32_t>) : ternary<Of<int8_t, uint8_t>, uint32_t, uint32_t>)
                                    : (b_signed ? Handler(ternary<Of<uint8_t, int8_t>, uint32_t, uint32_t>) : ternary<Of<uint8_t, uint8_t>, uint32_t, uint32_t>));
  i.d = d, i.a = a, i.b = b, i.c = c;
}

template <typename A, typename B> using Dot2Low = Dot2<A, B, false>;
template <typename A, typename B> using Dot2High = Dot2<A, B, true>;

// The carry, or borrow, is a predicate of the warp: add.cc writes it, addc reads it.
template <typename T, bool SUBTRACTS, bool READS, bool WRITES>
const Instruction* with_carry(Warp& warp, const Instruction* i) {
  const T *const a = warp.reg<T>(i->a), *const b = warp.reg<T>(i->b);
  const Unit unit = i->detail->units[0];
  const uint32_t before = READS ? warp.predicate(unit) : 0;
  const uint32_t known = warp.known(i->a) & warp.known(i->b) & (READS ? warp.known(unit) : ALL_LANES);
  uint32_t carries = 0;
  T* const d = warp.reg<T>(i->d);
  each_of(warp.active, [&](unsigned lane) {
    const bool carry = before >> lane & 1;
    const auto made = SUBTRACTS ? n::sub_borrow(a[lane], b[lane], carry) : n::add_carry(a[lane], b[lane], carry);
    d[lane] = made.value;
    carries |= uint32_t(made.carry) << lane;
  });
  warp.settle(i, known);
  if (WRITES) {
    warp.set_predicate(unit, carries);
    warp.set_known(unit, known);
  }
  return i + 1;
}

template <bool SUBTRACTS, bool READS>
void carried(Decoder& to, const Statement& from) {
  const bool writes = from.has("cc");
  const Unit d = to.destination(0), a = to.source(1, from.type()), b = to.source(2, from.type()), carry = to.carry();
  const bool wide = bits_of(from.type()) == 64;
  Instruction& i = to.emit(wide ? (writes ? with_carry<uint64_t, SUBTRACTS, READS, true> : with_carry<uint64_t, SUBTRACTS, READS, false>)
                                : (writes ? with_carry<uint32_t, SUBTRACTS, READS, true> : with_carry<uint32_t, SUBTRACTS, READS, false>));
  i.d = d, i.a = a, i.b = b;
  to.detail(i).units = {carry};
}

template <typename Of, typename Saturated>
void sum(Decoder& to, const Statement& from, bool subtracts) {
  if (from.has("cc")) return subtracts ? carried<true, false>(to, from) : carried<false, false>(to, from);
  if (halves<Of>(to, from)) return;
  if (from.has("sat")) return same<Saturated>(to, from, true);
  same<Of>(to, from, false);
}

template <typename Of>
void extreme(Decoder& to, const Statement& from) {
  if (!halves<Of>(to, from)) same<Of>(to, from, true);
}

// vabsdiff4 of unsigned bytes, the only video instruction that NVVM generates.
void differences(Decoder& to, const Statement& from) {
  if (from.has("s32") || from.has("sat")) to.refuse("it is not emulated");
  const Unit d = to.destination(0), a = to.source(1, Type::u32), b = to.source(2, Type::u32), c = to.source(3, Type::u32);
  Instruction& i = to.emit(from.has("add") ? ternary<Differences<true>, uint32_t, uint32_t> : ternary<Differences<false>, uint32_t, uint32_t>);
  i.d = d, i.a = a, i.b = b, i.c = c;
}

}  // namespace

void decode_integer_add(Decoder& to, const Statement& from) { sum<Add, AddSaturated>(to, from, false); }
void decode_integer_subtract(Decoder& to, const Statement& from) { sum<Subtract, SubtractSaturated>(to, from, true); }
void decode_integer_multiply(Decoder& to, const Statement& from) { multiply(to, from); }
void decode_integer_divide(Decoder& to, const Statement& from) { divide<Divide>(to, from); }
void decode_integer_least(Decoder& to, const Statement& from) { from.has("relu") ? extreme<LeastRelu>(to, from) : extreme<Least>(to, from); }
void decode_integer_greatest(Decoder& to, const Statement& from) { from.has("relu") ? extreme<GreatestRelu>(to, from) : extreme<Greatest>(to, from); }
void decode_integer_negate(Decoder& to, const Statement& from) { same<Negate>(to, from, true); }
void decode_integer_magnitude(Decoder& to, const Statement& from) { same<Magnitude>(to, from, true); }

void add_integers(Decoders& all) {
  all["rem"] = divide<Remainder>;
  all["and"] = logic<And>;
  all["or"] = logic<Or>;
  all["xor"] = logic<Xor>;
  all["not"] = logic<Not>;
  all["cnot"] = [](Decoder& to, const Statement& from) { same<LogicalNot>(to, from, false); };
  all["shl"] = shift<ShiftLeft>;
  all["shr"] = shift<ShiftRight>;
  all["shf"] = funnel;
  all["lop3"] = lop3;
  all["prmt"] = permute;
  all["popc"] = count<Population, false>;
  all["clz"] = count<LeadingZeros, false>;
  all["bfind"] = [](Decoder& to, const Statement& from) {
    from.has("shiftamt") ? count<FindShift, true>(to, from) : count<Find, true>(to, from);
  };
  all["brev"] = [](Decoder& to, const Statement& from) { same<Reverse>(to, from, false); };
  all["bfe"] = extract;
  all["bfi"] = insert_bits;
  all["sad"] = [](Decoder& to, const Statement& from) { same<AbsoluteDifference>(to, from, true); };
  all["mul24"] = [](Decoder& to, const Statement& from) {
    from.has("hi") ? same<Multiply24High>(to, from, true) : same<Multiply24Low>(to, from, true);
  };
  all["mad24"] = [](Decoder& to, const Statement& from) {
    from.has("hi") ? same<MultiplyAdd24High>(to, from, true) : same<MultiplyAdd24Low>(to, from, true);
  };
  all["dp4a"] = dot<Dot4>;
  all["dp2a"] = [](Decoder& to, const Statement& from) { from.has("hi") ? dot<Dot2High>(to, from) : dot<Dot2Low>(to, from); };
  all["vabsdiff4"] = differences;
  all["szext"] = [](Decoder& to, const Statement& from) {
    with_amount(to, from, [&]<typename T>(Tag<T>) { return from.has("wrap") ? binary<Extend<true>, T, T, uint32_t> : binary<Extend<false>, T, T, uint32_t>; });
  };
  all["bmsk"] = [](Decoder& to, const Statement& from) {
    with_amount(to, from, [&]<typename T>(Tag<T>) { return from.has("wrap") ? binary<Mask<true>, uint32_t, uint32_t> : binary<Mask<false>, uint32_t, uint32_t>; });
  };
  all["addc"] = carried<false, true>;
  all["subc"] = carried<true, true>;
}

}  // namespace gemmgen
