// cvt. If a register is wider than the type, its lower bits are the operand, and a result is extended.
#include <string_view>
#include <type_traits>

#include "conversions.hpp"
#include "decoder.hpp"
#include "lanes.hpp"

namespace gemmgen {

namespace {

namespace n = numbers;

// The type of the register, which has at least 16 bits.
template <typename T>
using Held = std::conditional_t<sizeof(T) == 1, std::conditional_t<std::is_signed_v<T>, int16_t, uint16_t>, T>;

template <typename To, typename From, unsigned HOW>
struct Convert {
  static To of(Held<From> value) {
    if constexpr (std::is_integral_v<From>) return n::cvt<To, From, HOW>(From(value));
    else return n::cvt<To, From, HOW>(value);
  }
};

template <typename To, typename From, unsigned HOW>
constexpr Handler conversion() {
  return unary<Convert<To, From, HOW>, Held<To>, Held<From>>;
}

struct Resize {
  template <typename T> static T of(T a) { return a; }
};

unsigned rounding(const Statement& from) {
  for (const auto& [name, how] : {std::pair<std::string_view, unsigned>{"rn", n::RN}, {"rz", n::RZ}, {"rm", n::RM}, {"rp", n::RP},
                                  {"rni", n::INTEGRAL | n::RN}, {"rzi", n::INTEGRAL | n::RZ}, {"rmi", n::INTEGRAL | n::RM},
                                  {"rpi", n::INTEGRAL | n::RP}})
    if (from.has(name)) return how;
  return n::RN;
}

template <unsigned... HOWS, typename Use>
Handler one_of(unsigned how, Use use) {
  Handler found = nullptr;
  ((how == HOWS ? void(found = use(std::integral_constant<unsigned, HOWS>())) : void()), ...);
  return found;
}

// Each handler costs compile time, so rare conversions take two steps, through f32 or a wider integer.

// Between integers, without .sat.
Handler resizing(Type result, Type source) {
  return with_any_integer(source, [&]<typename From>(Tag<From>) -> Handler {
    if (result == Type::s8) return conversion<int8_t, From, 0>();
    return with_bytes(bits_of(result), []<typename To>(Tag<To>) { return conversion<To, From, 0>(); });
  });
}

// From a 64-bit integer to a narrower one, with .sat.
Handler clamping(Type result, bool with_sign) {
  return with_any_integer(result, [&]<typename To>(Tag<To>) {
    return with_sign ? conversion<To, int64_t, n::SAT>() : conversion<To, uint64_t, n::SAT>();
  });
}

constexpr unsigned RNI = n::INTEGRAL | n::RN, RZI = n::INTEGRAL | n::RZ, RMI = n::INTEGRAL | n::RM, RPI = n::INTEGRAL | n::RP;

// From f32 or f64. The ISA always saturates these.
template <typename From>
Handler to_integer(Type result, unsigned how) {
  return with_any_integer(result, [&]<typename To>(Tag<To>) {
    const auto made = [](auto of) { return conversion<To, From, decltype(of)::value>(); };
    if constexpr (sizeof(From) == 8) return one_of<RNI, RZI, RMI, RPI>(how & ~unsigned(n::SAT | n::FTZ), made);
    else return one_of<RNI, RZI, RMI, RPI, RNI | n::FTZ, RZI | n::FTZ, RMI | n::FTZ, RPI | n::FTZ>(how & ~unsigned(n::SAT), made);
  });
}

// From f32, f64, or an integer of 32 or 64 bits.
template <typename To, typename From>
Handler to_float(unsigned how) {
  const auto made = [](auto of) { return conversion<To, From, decltype(of)::value>(); };
  if constexpr (std::is_integral_v<From>) {
    if constexpr (n::IS_SMALL<To>) return one_of<n::RN, n::RZ>(how, made);
    else return one_of<n::RN, n::RZ, n::RM, n::RP, n::RN | n::SAT>(how, made);
  } else if constexpr (n::IS_SMALL<To>) {
    return one_of<n::RN, n::RZ, n::RN | n::RELU, n::RZ | n::RELU, n::RN | n::SATFINITE, n::RN | n::SAT, n::RN | n::FTZ, RNI, RZI, RMI, RPI>(how, made);
  } else {
    return one_of<n::RN, n::RZ, n::RM, n::RP, n::RN | n::FTZ, n::RZ | n::FTZ, n::RN | n::SAT, n::RN | n::SAT | n::FTZ, RNI, RZI, RMI, RPI,
                  RNI | n::FTZ, RZI | n::FTZ, RMI | n::FTZ, RPI | n::FTZ>(how, made);
  }
}

Handler converting(Type result, Type source, unsigned how) {
  const auto from = [&]<typename From>(Tag<From>) -> Handler {
    switch (result) {
      case Type::f16: return to_float<n::F16, From>(how);
      case Type::bf16: return to_float<n::BF16, From>(how);
      case Type::f32: return to_float<float, From>(how);
      case Type::f64: return to_float<double, From>(how);
      default: break;
    }
    if constexpr (std::is_floating_point_v<From>) return to_integer<From>(result, how);
    else return nullptr;
  };
  switch (source) {
    case Type::f32: return from(Tag<float>());
    case Type::f64: return from(Tag<double>());
    case Type::s32: return from(Tag<int32_t>());
    case Type::s64: return from(Tag<int64_t>());
    default: return bits_of(source) == 64 ? from(Tag<uint64_t>()) : from(Tag<uint32_t>());
  }
}

// Copies a register to a narrower one (its lower bits), or to a wider one (extended).
void resize(Decoder& to, Unit d, unsigned d_bits, Unit a, unsigned a_bits, bool with_sign) {
  Handler handler = nullptr;
  with_bits(a_bits, [&]<typename A>(Tag<A>) {
    with_bits(d_bits, [&]<typename D>(Tag<D>) {
      using S = std::make_signed_t<A>;
      handler = with_sign ? Handler(unary<Resize, D, S>) : unary<Resize, D, A>;
    });
  });
  Instruction& i = to.emit(handler);
  i.d = d, i.a = a;
}

bool is_small(Type type) { return type == Type::f16 || type == Type::bf16; }
bool is_number(Type type) { return is_small(type) || type == Type::f32 || type == Type::f64 || (bits_of(type) > 1 && !is_floating(type)); }
unsigned held_bits(Type type) { return std::max(bits_of(type), 16u); }

void convert(Decoder& to, const Statement& from) {
  const Type result = from.type(1);
  Type source = from.type();
  unsigned how = rounding(from) | (from.has("ftz") ? n::FTZ : 0) | (from.has("sat") ? n::SAT : 0) |
                 (from.has("relu") ? n::RELU : 0) | (from.has("satfinite") ? n::SATFINITE : 0);
  if (!is_number(result) || !is_number(source)) to.refuse("it is not emulated");
  const Unit d = to.destination(0);
  Unit a = to.source(1, source);
  const unsigned a_bits = to.bits(to.at(1), source), d_bits = to.bits(to.at(0), result), d_held = held_bits(result);
  if (a_bits < held_bits(source) || d_bits < d_held) to.refuse("a register is narrower than its type");
  const auto step = [&](Handler handler, Unit into) {
    if (handler == nullptr) to.refuse("it is not emulated");
    Instruction& i = to.emit(handler);
    i.d = into, i.a = a;
  };
  const auto become = [&](Handler handler, Type type) {
    const Unit made = to.temporary(held_bits(type));
    step(handler, made);
    a = made, source = type;
  };
  if (a_bits != held_bits(source)) {
    const Unit narrow = to.temporary(held_bits(source));
    resize(to, narrow, held_bits(source), a, a_bits, false);
    a = narrow;
  }
  const Unit made = d_bits == d_held ? d : to.temporary(d_held);
  if (is_small(source)) {
    const Handler widening = source == Type::f16 ? conversion<float, n::F16, 0>() : conversion<float, n::BF16, 0>();
    if (is_small(result)) how &= ~unsigned(n::FTZ);
    if (result == Type::f32 && (how & ~unsigned(n::ROUNDING)) == 0) step(widening, made);
    else become(widening, Type::f32), step(converting(result, source, how), made);
  } else if (is_floating(source)) {
    step(converting(result, source, how), made);
  } else if (is_floating(result)) {
    if (bits_of(source) < 32) become(resizing(Type::u32, source), is_signed(source) ? Type::s32 : Type::u32);
    step(converting(result, source, how), made);
  } else if ((how & n::SAT) != 0) {
    if (bits_of(source) < 64) become(resizing(Type::u64, source), is_signed(source) ? Type::s64 : Type::u64);
    step(clamping(result, is_signed(source)), made);
  } else {
    step(resizing(result, source), made);
  }
  if (made != d) resize(to, d, d_bits, made, d_held, is_signed(result));
}

// Conversions of two f32 to a pair, and of pairs to pairs.
template <typename D, D OF(float, float)>
const Instruction* join(Warp& warp, const Instruction* i) {
  const float *const a = warp.reg<float>(i->a), *const b = warp.reg<float>(i->b);
  each_lane<D>(warp, i->d, [=](unsigned lane) { return OF(a[lane], b[lane]); });
  warp.settle(i, warp.known(i->a) & warp.known(i->b));
  return i + 1;
}

template <typename D, typename A, D OF(A)>
const Instruction* recode(Warp& warp, const Instruction* i) {
  const A* const a = warp.reg<A>(i->a);
  each_lane<D>(warp, i->d, [=](unsigned lane) { return OF(a[lane]); });
  warp.settle(i, warp.known(i->a));
  return i + 1;
}

template <unsigned HOW>
Handler joining(Type type) {
  switch (type) {
    case Type::f16x2: return join<n::F16x2, n::cvt_f16x2<HOW>>;
    case Type::bf16x2: return join<n::BF16x2, n::cvt_bf16x2<HOW>>;
    default: return nullptr;
  }
}

template <unsigned HOW>
Handler joining_codes(Type type) {
  switch (type) {
    case Type::e4m3x2: return join<uint16_t, n::cvt_codes<n::E4M3, HOW>>;
    case Type::e5m2x2: return join<uint16_t, n::cvt_codes<n::E5M2, HOW>>;
    case Type::e2m3x2: return join<uint16_t, n::cvt_codes<n::E2M3, HOW>>;
    case Type::e3m2x2: return join<uint16_t, n::cvt_codes<n::E3M2, HOW>>;
    default: return nullptr;
  }
}

template <unsigned HOW>
Handler recoding(Type result, Type source) {
  if (source == Type::f16x2) {
    if (result == Type::e4m3x2) return recode<uint16_t, n::F16x2, n::cvt_codes<n::E4M3, HOW>>;
    if (result == Type::e5m2x2) return recode<uint16_t, n::F16x2, n::cvt_codes<n::E5M2, HOW>>;
  }
  if (result == Type::f16x2) {
    switch (source) {
      case Type::e4m3x2: return recode<n::F16x2, uint16_t, n::cvt_from_codes<n::E4M3, HOW>>;
      case Type::e5m2x2: return recode<n::F16x2, uint16_t, n::cvt_from_codes<n::E5M2, HOW>>;
      case Type::e2m3x2: return recode<n::F16x2, uint16_t, n::cvt_from_codes<n::E2M3, HOW>>;
      case Type::e3m2x2: return recode<n::F16x2, uint16_t, n::cvt_from_codes<n::E3M2, HOW>>;
      default: return nullptr;
    }
  }
  return nullptr;
}

template <unsigned HOW>
uint32_t to_tf32(float value) { return n::cvt_tf32<HOW>(value); }

void convert_tf32(Decoder& to, const Statement& from) {
  Handler handler = nullptr;
  const bool finite = from.has("satfinite");
  if (from.has("rna")) handler = finite ? recode<uint32_t, float, to_tf32<n::RNA | n::SATFINITE>> : recode<uint32_t, float, to_tf32<n::RNA>>;
  else if (from.has("rn")) handler = from.has("relu") ? recode<uint32_t, float, to_tf32<n::RN | n::RELU>> : recode<uint32_t, float, to_tf32<n::RN>>;
  else if (from.has("rz")) handler = from.has("relu") ? recode<uint32_t, float, to_tf32<n::RZ | n::RELU>> : recode<uint32_t, float, to_tf32<n::RZ>>;
  if (handler == nullptr) to.refuse("it is not emulated");
  const Unit d = to.destination(0), a = to.source(1, Type::f32);
  Instruction& i = to.emit(handler);
  i.d = d, i.a = a;
}

void decode(Decoder& to, const Statement& from) {
  if (from.has("pack")) to.refuse("it is not emulated");
  const Type result = from.type(1), source = from.type();
  if (result == Type::tf32) return convert_tf32(to, from);
  const bool relu = from.has("relu"), toward_zero = from.has("rz");
  if (to.count() == 3) {
    Handler handler = toward_zero ? (relu ? joining<n::RZ | n::RELU>(result) : joining<n::RZ>(result))
                                  : (relu ? joining<n::RN | n::RELU>(result) : joining<n::RN>(result));
    if (handler != nullptr && from.has("satfinite")) handler = relu ? joining<n::SATFINITE | n::RELU>(result) : joining<n::SATFINITE>(result);
    if (handler == nullptr) handler = relu ? joining_codes<n::RELU>(result) : joining_codes<n::RN>(result);
    if (handler == nullptr || source != Type::f32) to.refuse("it is not emulated");
    const Unit d = to.destination(0), a = to.source(1, source), b = to.source(2, source);
    Instruction& i = to.emit(handler);
    i.d = d, i.a = a, i.b = b;
    return;
  }
  if (const Handler handler = relu ? recoding<n::RELU>(result, source) : recoding<n::RN>(result, source); handler != nullptr) {
    const Unit d = to.destination(0), a = to.source(1, source);
    Instruction& i = to.emit(handler);
    i.d = d, i.a = a;
    return;
  }
  convert(to, from);
}

}  // namespace

void add_conversions(Decoders& all) { all["cvt"] = decode; }

}  // namespace gemmgen
