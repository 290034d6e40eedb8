// Floating-point instructions. Opcodes that integers share are dispatched here by type.
#include <string_view>
#include <utility>

#include "approximations.hpp"
#include "decoder.hpp"
#include "lanes.hpp"
#include "machine.hpp"
#include "numbers.hpp"

namespace gemmgen {

namespace {

namespace n = numbers;

unsigned rounding(const Statement& from) {
  return from.has("rz") ? n::RZ : from.has("rm") ? n::RM : from.has("rp") ? n::RP : n::RN;
}

#define GEMMGEN_FLOAT_OP(Name, parameters, call) \
  template <unsigned HOW>                        \
  struct Name {                                  \
    template <typename T>                        \
    static auto of parameters -> decltype(n::call) { return n::call; } \
  };
GEMMGEN_FLOAT_OP(Add, (T a, T b), add<HOW>(a, b))
GEMMGEN_FLOAT_OP(Subtract, (T a, T b), sub<HOW>(a, b))
GEMMGEN_FLOAT_OP(Multiply, (T a, T b), mul<HOW>(a, b))
GEMMGEN_FLOAT_OP(Fused, (T a, T b, T c), fma<HOW>(a, b, c))
GEMMGEN_FLOAT_OP(Divide, (T a, T b), div<HOW>(a, b))
GEMMGEN_FLOAT_OP(Reciprocal, (T a), rcp<HOW>(a))
GEMMGEN_FLOAT_OP(Root, (T a), sqrt<HOW>(a))
GEMMGEN_FLOAT_OP(Negate, (T a), neg<HOW>(a))
GEMMGEN_FLOAT_OP(Magnitude, (T a), abs<HOW>(a))
#undef GEMMGEN_FLOAT_OP

template <unsigned HOW, bool LARGER>
struct Extreme {
  template <typename T>
  static T of(T a, T b) {
    if constexpr (LARGER) return n::max<HOW>(a, b);
    else return n::min<HOW>(a, b);
  }
};

struct CopySign {
  template <typename T>
  static T of(T a, T b) { return n::copysign(a, b); }
};

// The handler of an operation, by its number of operands.
template <typename Of, typename T>
constexpr Handler handler() {
  if constexpr (requires(T a) { Of::of(a); }) return unary<Of, T, T>;
  else if constexpr (requires(T a) { Of::of(a, a); }) return binary<Of, T, T>;
  else if constexpr (requires(T a) { Of::of(a, a, a); }) return ternary<Of, T, T>;
  else return nullptr;
}

// Calls `use` with the integral_constant of `how`: a rounding and, for f32, .ftz.
template <unsigned HOW, typename Use>
Handler with_how(unsigned how, Use use) {
  if constexpr (HOW > (n::RP | n::FTZ)) return nullptr;
  else if (how == HOW) return use(std::integral_constant<unsigned, HOW>());
  else return with_how<(HOW & n::ROUNDING) == n::RP ? (HOW & ~n::ROUNDING) + n::FTZ : HOW + 1>(how, use);
}

void put(Decoder& to, const Statement& from, Handler handler, unsigned operands) {
  if (handler == nullptr) to.refuse("it is not emulated");
  const Unit d = to.destination(0), a = to.source(1, from.type()), b = operands > 1 ? to.source(2, from.type()) : NO_UNIT,
             c = operands > 2 ? to.source(3, from.type()) : NO_UNIT;
  Instruction& i = to.emit(handler);
  i.d = d, i.a = a, i.b = b, i.c = c;
}

struct Saturate {
  template <typename T>
  static T of(T a) {
    if constexpr (n::IS_REAL<T>) return n::limited<n::SAT>(a);
    else if constexpr (n::IS_SMALL<T>) return n::narrow<T, n::SAT>(n::widen(a));
    else return n::by_parts([](auto part) { return of(part); }, a);
  }
};

template <typename Choose>
Handler of_floats(Type type, Choose choose) {
  switch (type) {
    case Type::f32: return choose(Tag<float>());
    case Type::f64: return choose(Tag<double>());
    case Type::f16: return choose(Tag<n::F16>());
    case Type::bf16: return choose(Tag<n::BF16>());
    case Type::f16x2: return choose(Tag<n::F16x2>());
    case Type::bf16x2: return choose(Tag<n::BF16x2>());
    default: return nullptr;
  }
}

// .sat, as a separate instruction on the result, because each handler costs compile time.
void saturate(Decoder& to, const Statement& from) {
  Instruction& i = to.emit(of_floats(from.type(), []<typename T>(Tag<T>) { return handler<Saturate, T>(); }));
  i.d = i.a = to.destination(0);
}

// Handlers for f32 and f64 with all roundings, and for 16-bit types, single and in pairs, with their modifiers.
template <template <unsigned> class Of>
void arithmetic(Decoder& to, const Statement& from, unsigned operands) {
  const unsigned ftz = from.has("ftz") ? n::FTZ : 0, relu = from.has("relu") ? n::RELU : 0;
  Handler found = nullptr;
  const auto small = [&]<typename T>(Tag<T>) -> Handler {
    if constexpr (requires(T a) { Of<n::RN>::of(a, a); } || requires(T a) { Of<n::RN>::of(a, a, a); }) {
      switch (ftz | relu) {
        case 0: return handler<Of<n::RN>, T>();
        case n::FTZ: return handler<Of<n::FTZ>, T>();
        case n::RELU: return handler<Of<n::RELU>, T>();
        case n::FTZ | n::RELU: return handler<Of<n::FTZ | n::RELU>, T>();
      }
    }
    return nullptr;
  };
  switch (from.type()) {
    case Type::f32:
      found = with_how<0>(rounding(from) | ftz, [](auto how) { return handler<Of<decltype(how)::value>, float>(); });
      break;
    case Type::f64:
      found = with_how<0>(rounding(from), [](auto how) {
        if constexpr (decltype(how)::value < n::FTZ) return handler<Of<decltype(how)::value>, double>();
        else return Handler(nullptr);
      });
      break;
    case Type::f16: found = small(Tag<n::F16>()); break;
    case Type::bf16: found = small(Tag<n::BF16>()); break;
    case Type::f16x2: found = small(Tag<n::F16x2>()); break;
    case Type::bf16x2: found = small(Tag<n::BF16x2>()); break;
    default: break;
  }
  put(to, from, found, operands);
  if (from.has("sat")) saturate(to, from);
}

template <template <unsigned> class Of>
void sign(Decoder& to, const Statement& from) {
  const bool flushes = from.has("ftz");
  put(to, from, of_floats(from.type(), [&]<typename T>(Tag<T>) { return flushes ? handler<Of<n::FTZ>, T>() : handler<Of<0>, T>(); }), 1);
}

template <bool LARGER>
void extreme(Decoder& to, const Statement& from) {
  const unsigned how = (from.has("NaN") ? n::NANS : 0) | (from.has("ftz") ? n::FTZ : 0) | (from.has("xorsign") ? n::XORSIGN | n::ABSOLUTE : 0);
  put(to, from, of_floats(from.type(), [&]<typename T>(Tag<T>) -> Handler {
    switch (how) {
      case 0: return handler<Extreme<0, LARGER>, T>();
      case n::NANS: return handler<Extreme<n::NANS, LARGER>, T>();
      case n::FTZ: return handler<Extreme<n::FTZ, LARGER>, T>();
      case n::NANS | n::FTZ: return handler<Extreme<n::NANS | n::FTZ, LARGER>, T>();
      case n::XORSIGN | n::ABSOLUTE: return handler<Extreme<n::XORSIGN | n::ABSOLUTE, LARGER>, T>();
      case n::XORSIGN | n::ABSOLUTE | n::NANS: return handler<Extreme<n::XORSIGN | n::ABSOLUTE | n::NANS, LARGER>, T>();
      default: return nullptr;
    }
  }), 2);
}

// Approximations: the nearest value, moved within the error that the ISA promises.
n::Wobble wobble(Warp& warp) { return {warp.machine().launch().approximations}; }

template <typename T, T OF(T, n::Wobble)>
const Instruction* approximate(Warp& warp, const Instruction* i) {
  const T* const a = warp.reg<T>(i->a);
  const n::Wobble by = wobble(warp);
  T made[WARP] = {};
  each_of(warp.active, [&](unsigned lane) { made[lane] = OF(a[lane], by); });
  each_lane<T>(warp, i->d, [&](unsigned lane) { return made[lane]; });
  warp.settle(i, warp.known(i->a));
  return i + 1;
}

template <float OF(float, float, n::Wobble)>
const Instruction* approximate_quotient(Warp& warp, const Instruction* i) {
  const float *const a = warp.reg<float>(i->a), *const b = warp.reg<float>(i->b);
  const n::Wobble by = wobble(warp);
  float made[WARP] = {};
  each_of(warp.active, [&](unsigned lane) { made[lane] = OF(a[lane], b[lane], by); });
  each_lane<float>(warp, i->d, [&](unsigned lane) { return made[lane]; });
  warp.settle(i, warp.known(i->a) & warp.known(i->b));
  return i + 1;
}

template <float PLAIN(float, n::Wobble), float FLUSHING(float, n::Wobble)>
Handler of_f32(const Statement& from) {
  return from.has("ftz") ? approximate<float, FLUSHING> : approximate<float, PLAIN>;
}

template <typename T>
T small_exp2(T a, n::Wobble by) { return n::exp2_approximate(a, by); }
template <typename T>
T small_tanh(T a, n::Wobble by) { return n::tanh_approximate(a, by); }

Handler of_small(Type type, bool tanh) {
  switch (type) {
    case Type::f16: return tanh ? approximate<n::F16, small_tanh<n::F16>> : approximate<n::F16, small_exp2<n::F16>>;
    case Type::bf16: return tanh ? approximate<n::BF16, small_tanh<n::BF16>> : approximate<n::BF16, small_exp2<n::BF16>>;
    case Type::f16x2: return tanh ? approximate<n::F16x2, small_tanh<n::F16x2>> : approximate<n::F16x2, small_exp2<n::F16x2>>;
    case Type::bf16x2: return tanh ? approximate<n::BF16x2, small_tanh<n::BF16x2>> : approximate<n::BF16x2, small_exp2<n::BF16x2>>;
    default: return nullptr;
  }
}

void decode_exp2(Decoder& to, const Statement& from) {
  put(to, from, from.type() == Type::f32 ? of_f32<n::exp2_approximate<0>, n::exp2_approximate<n::FTZ>>(from) : of_small(from.type(), false), 1);
}

void decode_tanh(Decoder& to, const Statement& from) {
  put(to, from, from.type() == Type::f32 ? approximate<float, n::tanh_approximate> : of_small(from.type(), true), 1);
}

void decode_reciprocal(Decoder& to, const Statement& from) {
  if (!from.has("approx")) return arithmetic<Reciprocal>(to, from, 1);
  if (from.type() == Type::f64) return put(to, from, approximate<double, n::rcp_approximate_ftz>, 1);
  put(to, from, of_f32<n::rcp_approximate<0>, n::rcp_approximate<n::FTZ>>(from), 1);
}

void decode_root(Decoder& to, const Statement& from) {
  if (!from.has("approx")) return arithmetic<Root>(to, from, 1);
  put(to, from, of_f32<n::sqrt_approximate<0>, n::sqrt_approximate<n::FTZ>>(from), 1);
}

void decode_reciprocal_root(Decoder& to, const Statement& from) {
  if (from.type() == Type::f64)
    return put(to, from, from.has("ftz") ? approximate<double, n::rsqrt_approximate_ftz> : approximate<double, n::rsqrt_approximate>, 1);
  put(to, from, of_f32<n::rsqrt_approximate<0>, n::rsqrt_approximate<n::FTZ>>(from), 1);
}

void decode_divide(Decoder& to, const Statement& from) {
  if (!is_floating(from.type())) return decode_integer_divide(to, from);
  const bool flushes = from.has("ftz");
  if (from.has("approx"))
    return put(to, from, flushes ? approximate_quotient<n::div_approximate<n::FTZ>> : approximate_quotient<n::div_approximate<0>>, 2);
  if (from.has("full")) return put(to, from, flushes ? approximate_quotient<n::div_full<n::FTZ>> : approximate_quotient<n::div_full<0>>, 2);
  arithmetic<Divide>(to, from, 2);
}

// Decodes for integers or for floating-point numbers.
template <Decode INTEGERS, Decode FLOATS>
void by_type(Decoder& to, const Statement& from) {
  (is_floating(from.type()) ? FLOATS : INTEGERS)(to, from);
}

template <template <unsigned> class Of, unsigned OPERANDS>
void plain(Decoder& to, const Statement& from) {
  arithmetic<Of>(to, from, OPERANDS);
}

template <n::Property IS, typename T>
const Instruction* test(Warp& warp, const Instruction* i) {
  const T* const a = warp.reg<T>(i->a);
  const uint32_t made = lanes_where([=](unsigned lane) { return n::testp<IS>(a[lane]); });
  warp.set_predicate(i->d, made);
  warp.settle(i, warp.known(i->a));
  return i + 1;
}

void decode_test(Decoder& to, const Statement& from) {
  using enum n::Property;
  const auto of = [&]<typename T>(Tag<T>) -> Handler {
    if (from.has("finite")) return test<finite, T>;
    if (from.has("infinite")) return test<infinite, T>;
    if (from.has("number")) return test<number, T>;
    if (from.has("notanumber")) return test<notanumber, T>;
    if (from.has("normal")) return test<normal, T>;
    return test<subnormal, T>;
  };
  put(to, from, from.type() == Type::f64 ? of(Tag<double>()) : of(Tag<float>()), 1);
}

void decode_copysign(Decoder& to, const Statement& from) {
  put(to, from, of_floats(from.type(), []<typename T>(Tag<T>) -> Handler {
    if constexpr (n::IS_FLOAT<T>) return handler<CopySign, T>();
    else return nullptr;
  }), 2);
}

}  // namespace

void add_floats(Decoders& all) {
  all["add"] = by_type<decode_integer_add, plain<Add, 2>>;
  all["sub"] = by_type<decode_integer_subtract, plain<Subtract, 2>>;
  all["mul"] = by_type<decode_integer_multiply, plain<Multiply, 2>>;
  all["mad"] = by_type<decode_integer_multiply, plain<Fused, 3>>;
  all["fma"] = plain<Fused, 3>;
  all["div"] = decode_divide;
  all["neg"] = by_type<decode_integer_negate, sign<Negate>>;
  all["abs"] = by_type<decode_integer_magnitude, sign<Magnitude>>;
  all["min"] = by_type<decode_integer_least, extreme<false>>;
  all["max"] = by_type<decode_integer_greatest, extreme<true>>;
  all["rcp"] = decode_reciprocal;
  all["sqrt"] = decode_root;
  all["rsqrt"] = decode_reciprocal_root;
  all["ex2"] = decode_exp2;
  all["tanh"] = decode_tanh;
  all["lg2"] = [](Decoder& to, const Statement& from) { put(to, from, of_f32<n::log2_approximate<0>, n::log2_approximate<n::FTZ>>(from), 1); };
  all["sin"] = [](Decoder& to, const Statement& from) { put(to, from, of_f32<n::sin_approximate<0>, n::sin_approximate<n::FTZ>>(from), 1); };
  all["cos"] = [](Decoder& to, const Statement& from) { put(to, from, of_f32<n::cos_approximate<0>, n::cos_approximate<n::FTZ>>(from), 1); };
  all["testp"] = decode_test;
  all["copysign"] = decode_copysign;
}

}  // namespace gemmgen
