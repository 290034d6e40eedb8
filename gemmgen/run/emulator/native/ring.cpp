// Ring mode: decoders of floating-point instructions that compute with integers, and refuse what has no meaning there.
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

template <typename Held, typename F>
struct In {
  template <typename... Words>
  static auto of(Words... words) { return Held::apply(F(), words...); }
};

void usual(Decoder& to, const Statement& from) { decoders_of_floats().at(from.opcode)(to, from); }

[[noreturn]] void refuse(Decoder& to) { to.refuse("ring mode does not judge it"); }

// Of integers as ever.
void usual_integers(Decoder& to, const Statement& from) {
  for (const unsigned before : {0, 1})
    if (is_floating(from.type(before))) refuse(to);
  usual(to, from);
}

template <typename F, unsigned OPERANDS, typename Held>
constexpr Handler handler() {
  using Word = typename Held::Word;
  if constexpr (OPERANDS == 1) return unary<In<Held, F>, Word, Word>;
  else if constexpr (OPERANDS == 2) return binary<In<Held, F>, Word, Word>;
  else return ternary<In<Held, F>, Word, Word>;
}

template <typename F, unsigned OPERANDS>
void arithmetic(Decoder& to, const Statement& from) {
  const Type type = from.type();
  if (!is_floating(type)) return usual_integers(to, from);
  if (from.has("sat") || from.has("relu") || from.type(1) != Type::none) refuse(to);
  Handler found = nullptr;
  switch (type) {
    case Type::f32: found = handler<F, OPERANDS, ring::Single>(); break;
    case Type::f64: found = handler<F, OPERANDS, ring::Double>(); break;
    case Type::f16: case Type::bf16: found = handler<F, OPERANDS, ring::Half>(); break;
    case Type::f16x2: case Type::bf16x2: found = handler<F, OPERANDS, ring::Pair>(); break;
    default: refuse(to);
  }
  const Unit d = to.destination(0), a = to.source(1, type), b = OPERANDS > 1 ? to.source(2, type) : NO_UNIT,
             c = OPERANDS > 2 ? to.source(3, type) : NO_UNIT;
  Instruction& i = to.emit(found);
  i.d = d, i.a = a, i.b = b, i.c = c;
}

// Whether numbers are equal is whether their bits are.
void compare(Decoder& to, const Statement& from) {
  Statement changed = from;
  const bool floating = is_floating(from.type());
  if (floating && from.type(1) != Type::none) refuse(to);  // a set to a number
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

// ---- Conversions: of a number from `From` to `To` -----------------------------------------------------------------

template <typename T> constexpr uint64_t integer(T word) { return word; }
constexpr uint64_t integer(uint32_t word) { return ring::swapped(word); }  // an f32
template <typename T> constexpr T held(uint64_t number) { return T(number); }
template <> constexpr uint32_t held(uint64_t number) { return ring::swapped(uint32_t(number)); }

template <typename To>
struct Convert {
  template <typename From>
  static To of(From word) { return held<To>(integer(word)); }
};

template <unsigned BITS>
struct Join {
  static uint32_t of(uint32_t upper, uint32_t lower) {
    constexpr uint32_t MASK = (1u << BITS) - 1;
    return (ring::swapped(upper) & MASK) << BITS | (ring::swapped(lower) & MASK);
  }
};

struct Same {
  template <typename T> static T of(T a) { return a; }
};
struct ToBytes {
  static uint16_t of(uint32_t pair) { return uint16_t((pair >> 16 & 0xFF) << 8 | (pair & 0xFF)); }
};
struct FromBytes {
  static uint32_t of(uint16_t pair) { return uint32_t(pair & 0xFF00) << 8 | (pair & 0xFF); }
};

bool is_pair_of_bytes(Type type) { return type == Type::e4m3x2 || type == Type::e5m2x2; }

template <typename Use>
Handler with_word(Type type, Use use) {
  switch (type) {
    case Type::f16: case Type::bf16: return use(Tag<uint16_t>());
    case Type::f32: return use(Tag<uint32_t>());
    case Type::f64: return use(Tag<uint64_t>());
    default: return nullptr;
  }
}

Handler converting(Type result, Type source) {
  if (result == Type::tf32 && source == Type::f32) return unary<Same, uint32_t, uint32_t>;  // all bits count
  if (is_pair_of_bytes(result) && source == Type::f16x2) return unary<ToBytes, uint16_t, uint32_t>;
  if (result == Type::f16x2 && is_pair_of_bytes(source)) return unary<FromBytes, uint32_t, uint16_t>;
  return with_word(result, [&]<typename To>(Tag<To>) {
    return with_word(source, [&]<typename From>(Tag<From>) -> Handler { return unary<Convert<To>, To, From>; });
  });
}

void convert(Decoder& to, const Statement& from) {
  const Type result = from.type(1), source = from.type();
  if (!is_floating(result) && !is_floating(source)) return usual(to, from);
  for (std::string_view word : {"sat", "relu", "rni", "rzi", "rmi", "rpi"})
    if (from.has(word)) refuse(to);
  const bool joins = to.count() == 3;
  Handler found = nullptr;
  if (!joins) found = converting(result, source);
  else if (source == Type::f32 && is_pair_of_bytes(result)) found = binary<Join<8>, uint16_t, uint32_t>;
  else if (source == Type::f32 && (result == Type::f16x2 || result == Type::bf16x2)) found = binary<Join<16>, uint32_t, uint32_t>;
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
