// Ring mode: decoders that compute floating-point instructions on integers, and refuse those without an integer meaning.
#include <string>
#include <string_view>
#include <utility>

#include "decoder.hpp"
#include "lanes.hpp"
#include "ring_numbers.hpp"

namespace gemmgen {

namespace {

struct Sum {
  template <typename T> T operator()(T a, T b) const { return a + b; }
};
struct Difference {
  template <typename T> T operator()(T a, T b) const { return a - b; }
};
struct Product {
  template <typename T> T operator()(T a, T b) const { return a * b; }
};
struct Fused {
  template <typename T> T operator()(T a, T b, T c) const { return a * b + c; }
};
struct Negation {
  template <typename T> T operator()(T a) const { return T(0) - a; }
};

template <typename Number, typename F>
struct In {
  template <typename... Words>
  static auto of(Words... words) { return Number::apply(F(), words...); }
};

void usual(Decoder& to, const Statement& from) { decoders_of_floats().at(from.opcode)(to, from); }

[[noreturn]] void refuse(Decoder& to) { to.refuse("ring mode does not judge it"); }

// Instructions that ring mode does not change, as long as no operand is a float.
void usual_integers(Decoder& to, const Statement& from) {
  for (const unsigned before : {0, 1})
    if (is_floating(from.type(before))) refuse(to);
  usual(to, from);
}

template <typename F, unsigned OPERANDS, typename Number>
constexpr Handler handler() {
  using Word = typename Number::Word;
  if constexpr (OPERANDS == 1) return unary<In<Number, F>, Word, Word>;
  else if constexpr (OPERANDS == 2) return binary<In<Number, F>, Word, Word>;
  else return ternary<In<Number, F>, Word, Word>;
}

template <typename F, unsigned OPERANDS>
void arithmetic(Decoder& to, const Statement& from) {
  const Type type = from.type();
  if (!is_floating(type)) return usual_integers(to, from);
  if (from.has("sat") || from.has("relu") || from.type(1) != Type::none) refuse(to);
  Handler found = nullptr;
  switch (type) {
    case Type::f32: found = handler<F, OPERANDS, ring::F32>(); break;
    case Type::f64: found = handler<F, OPERANDS, ring::F64>(); break;
    case Type::f16: found = handler<F, OPERANDS, ring::F16>(); break;
    case Type::bf16: found = handler<F, OPERANDS, ring::Bf16>(); break;
    case Type::f16x2: found = handler<F, OPERANDS, ring::F16x2>(); break;
    case Type::bf16x2: found = handler<F, OPERANDS, ring::Bf16x2>(); break;
    default: refuse(to);
  }
  const Unit d = to.destination(0), a = to.source(1, type), b = OPERANDS > 1 ? to.source(2, type) : NO_UNIT,
             c = OPERANDS > 2 ? to.source(3, type) : NO_UNIT;
  Instruction& i = to.emit(found);
  i.d = d, i.a = a, i.b = b, i.c = c;
}

// Only equality has a meaning: numbers are equal if their bits are.
void compare(Decoder& to, const Statement& from) {
  Statement changed = from;
  const bool floating = is_floating(from.type());
  if (floating && from.type(1) != Type::none) refuse(to);  // set.f32 gives 1.0 or 0.0
  for (std::string_view& word : changed.words) {
    const Type type = type_named(word);
    if (!floating && is_floating(type)) refuse(to);
    if (!floating) continue;
    if (word == "neu" || word == "ne") word = "ne";
    else if (word == "equ" || word == "eq") word = "eq";
    else if (type != Type::none && bits_of(type) <= 64 && type != Type::f16x2 && type != Type::bf16x2)
      word = bits_of(type) == 64 ? "b64" : bits_of(type) == 32 ? "b32" : "b16";
    else if (word != "and" && word != "or" && word != "xor" && word != "ftz") refuse(to);
  }
  usual(to, changed);
}

// ---- Conversions --------------------------------------------------------------------------------------------------

// The integer that a register's word stands for, and the reverse.
template <Type OF> struct Held;
template <> struct Held<Type::bf16> {
  using Word = uint16_t;
  static uint64_t integer(Word word) { return word; }
  static Word word(uint64_t integer) { return Word(integer); }
};
template <> struct Held<Type::f16> {
  using Word = uint16_t;
  static uint64_t integer(Word word) { return ring::bytes_swapped(word); }
  static Word word(uint64_t integer) { return Word(ring::bytes_swapped(uint32_t(integer))); }
};
template <> struct Held<Type::f32> {
  using Word = uint32_t;
  static uint64_t integer(Word word) { return ring::swapped(word); }
  static Word word(uint64_t integer) { return ring::swapped(uint32_t(integer)); }
};
template <> struct Held<Type::f64> {
  using Word = uint64_t;
  static uint64_t integer(Word word) { return word; }
  static Word word(uint64_t integer) { return integer; }
};

template <Type TO, Type FROM>
struct Convert {
  static auto of(typename Held<FROM>::Word word) { return Held<TO>::word(Held<FROM>::integer(word)); }
};

// Two f32 to a pair of narrower numbers: each keeps the lower bits of its integer.
struct ToBf16x2 {
  static uint32_t of(uint32_t upper, uint32_t lower) { return (upper & 0xFFFF0000) | lower >> 16; }
};
struct ToF16x2 {
  static uint32_t of(uint32_t upper, uint32_t lower) { return ring::bytes_swapped(ToBf16x2::of(upper, lower)); }
};
struct ToBytes {
  static uint16_t of(uint32_t upper, uint32_t lower) { return uint16_t((upper >> 16 & 0xFF) << 8 | (lower >> 16 & 0xFF)); }
};

struct Same {
  template <typename T> static T of(T a) { return a; }
};
struct HalvesToBytes {
  static uint16_t of(uint32_t pair) { return uint16_t((pair >> 24) << 8 | (pair >> 8 & 0xFF)); }
};
struct BytesToHalves {
  static uint32_t of(uint16_t pair) { return uint32_t(pair & 0xFF00) << 16 | uint32_t(pair & 0xFF) << 8; }
};

bool is_pair_of_bytes(Type type) { return type == Type::e4m3x2 || type == Type::e5m2x2; }

template <typename Use>
Handler with_type(Type type, Use use) {
  switch (type) {
    case Type::f16: return use.template operator()<Type::f16>();
    case Type::bf16: return use.template operator()<Type::bf16>();
    case Type::f32: return use.template operator()<Type::f32>();
    case Type::f64: return use.template operator()<Type::f64>();
    default: return nullptr;
  }
}

Handler converting(Type result, Type source) {
  if (result == Type::tf32 && source == Type::f32) return unary<Same, uint32_t, uint32_t>;  // all bits count
  if (is_pair_of_bytes(result) && source == Type::f16x2) return unary<HalvesToBytes, uint16_t, uint32_t>;
  if (result == Type::f16x2 && is_pair_of_bytes(source)) return unary<BytesToHalves, uint32_t, uint16_t>;
  return with_type(result, [&]<Type TO>() {
    return with_type(source, []<Type FROM>() -> Handler {
      return unary<Convert<TO, FROM>, typename Held<TO>::Word, typename Held<FROM>::Word>;
    });
  });
}

Handler joining(Type result) {
  if (is_pair_of_bytes(result)) return binary<ToBytes, uint16_t, uint32_t>;
  if (result == Type::bf16x2) return binary<ToBf16x2, uint32_t, uint32_t>;
  return result == Type::f16x2 ? binary<ToF16x2, uint32_t, uint32_t> : nullptr;
}

void convert(Decoder& to, const Statement& from) {
  const Type result = from.type(1), source = from.type();
  if (!is_floating(result) && !is_floating(source)) return usual(to, from);
  for (std::string_view word : {"sat", "relu", "rni", "rzi", "rmi", "rpi"})
    if (from.has(word)) refuse(to);
  const bool joins = to.count() == 3;
  const Handler found = !joins ? converting(result, source) : source == Type::f32 ? joining(result) : nullptr;
  if (found == nullptr || to.bits(to.at(0), result) != bits_of(result) || to.bits(to.at(1), source) != bits_of(source)) refuse(to);
  const Unit d = to.destination(0), a = to.source(1, source), b = joins ? to.source(2, source) : NO_UNIT;
  Instruction& i = to.emit(found);
  i.d = d, i.a = a, i.b = b;
}

}  // namespace

void add_ring(Decoders& all) {
  all["add"] = arithmetic<Sum, 2>;
  all["sub"] = arithmetic<Difference, 2>;
  all["mul"] = arithmetic<Product, 2>;
  all["mad"] = arithmetic<Fused, 3>;
  all["fma"] = arithmetic<Fused, 3>;
  all["neg"] = arithmetic<Negation, 1>;
  all["cvt"] = convert;
  all["setp"] = compare;
  all["set"] = compare;
  for (const char* opcode : {"min", "max", "abs", "div", "slct", "redux"}) all[opcode] = usual_integers;
  for (const char* opcode : {"rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh", "testp", "copysign"})
    all[opcode] = [](Decoder& to, const Statement&) { refuse(to); };
}

}  // namespace gemmgen
