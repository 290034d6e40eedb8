// mov, cvta, selp, set, setp, and reads of special registers.
#include <array>
#include <cstring>

#include "coverage.hpp"
#include "decoder.hpp"
#include "lanes.hpp"
#include "machine.hpp"
#include "numbers.hpp"

namespace gemmgen {

namespace {

struct Same {
  template <typename T> static T of(T a) { return a; }
};

const Instruction* move_predicate(Warp& warp, const Instruction* i) {
  warp.set_predicate(i->d, warp.predicate(i->a));
  warp.settle(i, warp.known(i->a));
  return i + 1;
}

// A value of `small` bytes from, or to, registers of `smaller` bytes each, the lowest first.
const Instruction* pack(Warp& warp, const Instruction* i) {
  const unsigned bytes = i->smaller, parts = unsigned(i->detail->units.size());
  uint32_t known = ALL_LANES;
  unsigned char* const d = warp.reg<unsigned char>(i->d);
  for (unsigned part = 0; part < parts; ++part) {
    const unsigned char* const from = warp.reg<unsigned char>(i->detail->units[part]);
    known &= warp.known(i->detail->units[part]);
    each_of(warp.active, [&](unsigned lane) { std::memcpy(d + lane * i->small + part * bytes, from + lane * bytes, bytes); });
  }
  warp.settle(i, known);
  if ((warp.active & ~known) != 0)
    for (const Unit unit : i->detail->units)
      if ((warp.active & ~warp.known(unit)) != 0) warp.pass_poison(unit, i->d);
  return i + 1;
}

const Instruction* unpack(Warp& warp, const Instruction* i) {
  const unsigned bytes = i->smaller;
  const unsigned char* const a = warp.reg<unsigned char>(i->a);
  for (unsigned part = 0; part < i->detail->units.size(); ++part) {
    const Unit unit = i->detail->units[part];
    if (unit == NO_UNIT) continue;
    unsigned char* const to = warp.reg<unsigned char>(unit);
    each_of(warp.active, [&](unsigned lane) { std::memcpy(to + lane * bytes, a + lane * i->small + part * bytes, bytes); });
    warp.set_known(unit, warp.known(i->a));
    if ((warp.active & ~warp.known(i->a)) != 0) warp.pass_poison(i->a, unit);
  }
  return i + 1;
}

// A clock, or the warp's place: kernels must not rely on these, so the value differs from read to read.
const Instruction* read_special(Warp& warp, const Instruction* i) {
  Machine& machine = warp.machine();
  uint64_t value = 0;
  switch (Special(i->smaller)) {
    case Special::clock_hi:
    case Special::globaltimer_hi: value = machine.tick() >> 32; break;
    case Special::smid: value = machine.launch().seed == 0 ? 0 : machine.random().below(132); break;
    case Special::warpid: value = machine.launch().seed == 0 ? warp.number() : machine.random().below(64); break;
    case Special::gridid: value = 1; break;
    default: value = machine.tick();
  }
  if (i->small == 64) each_lane<uint64_t>(warp, i->d, [=](unsigned) { return value; });
  else each_lane<uint32_t>(warp, i->d, [=](unsigned) { return uint32_t(value); });
  warp.settle(i, ALL_LANES);
  return i + 1;
}

bool varies(std::string_view name) {
  return name.starts_with("%clock") || name.starts_with("%globaltimer") || name == "%smid" || name == "%warpid" || name == "%gridid";
}

Special varying(std::string_view name) {
  if (name == "%clock_hi") return Special::clock_hi;
  if (name == "%globaltimer_hi") return Special::globaltimer_hi;
  if (name == "%smid") return Special::smid;
  if (name == "%warpid") return Special::warpid;
  if (name == "%gridid") return Special::gridid;
  return Special::clock64;
}

void copy(Decoder& to, Unit d, Unit a, unsigned bits) {
  with_bits(bits, [&]<typename T>(Tag<T>) {
    Instruction& i = to.emit(unary<Same, T, T>);
    i.d = d, i.a = a;
  });
}

void move(Decoder& to, const Statement& from) {
  const Operand &first = to.at(0), &second = to.at(1);
  const Type type = from.type();
  if (type == Type::pred) {
    const Unit d = to.destination(0), a = to.source(1, Type::pred);
    Instruction& i = to.emit(move_predicate);
    i.d = d, i.a = a;
    return;
  }
  const unsigned bits = bits_of(type);
  if (second.kind == Operand::Kind::vector || first.kind == Operand::Kind::vector) {
    const bool packs = second.kind == Operand::Kind::vector;
    const Operand& vector = packs ? second : first;
    if (vector.parts.empty() || bits % vector.parts.size() != 0) to.refuse("so many registers do not make a value");
    const unsigned part_bits = bits / unsigned(vector.parts.size());
    std::vector<Unit> units;
    for (const Operand& part : vector.parts) {
      const Type part_type = part_bits == 64 ? Type::b64 : part_bits == 32 ? Type::b32 : part_bits == 16 ? Type::b16 : Type::b8;
      if (part.kind == Operand::Kind::reg && to.bits(part, part_type) != part_bits) to.refuse("a register has another width");
      // Compilers pad with a register that is never set, and drop that part again.
      const bool pads = packs && part.kind == Operand::Kind::reg && !to.is_given(part);
      units.push_back(pads ? to.source(Operand{.kind = Operand::Kind::immediate}, part_type)
                           : packs ? to.source(part, part_type) : to.destination(part));
    }
    const Unit whole = packs ? to.destination(0) : to.source(1, type);
    Instruction& i = to.emit(packs ? pack : unpack);
    (packs ? i.d : i.a) = whole;
    i.small = uint8_t(bits / 8), i.smaller = uint8_t(part_bits / 8);
    if (packs) i.a = units[0];
    to.detail(i).units = std::move(units);
    return;
  }
  if (second.kind == Operand::Kind::symbol && varies(second.name)) {
    const Unit d = to.destination(0);
    Instruction& i = to.emit(read_special);
    i.d = d, i.small = uint8_t(bits), i.smaller = uint8_t(varying(second.name));
    return;
  }
  const Unit d = to.destination(0), a = to.source(1, type);
  copy(to, d, a, to.bits(first, type));
}

// Converts between generic addresses and those of a space. Windows are in the upper bits; null stays null.
const Instruction* to_generic(Warp& warp, const Instruction* i) {
  const uint64_t* const a = warp.reg<uint64_t>(i->a);
  const auto space = uint64_t(i->immediate);
  each_lane<uint64_t>(warp, i->d, [=](unsigned lane) { return (a[lane] & ~SPACE_MASK) | space; });
  warp.settle(i, warp.known(i->a));
  return i + 1;
}

const Instruction* from_generic(Warp& warp, const Instruction* i) {
  const uint64_t* const a = warp.reg<uint64_t>(i->a);
  each_lane<uint64_t>(warp, i->d, [=](unsigned lane) { return a[lane] & ~SPACE_MASK; });
  warp.settle(i, warp.known(i->a));
  return i + 1;
}

void convert_address(Decoder& to, const Statement& from) {
  const Unit d = to.destination(0), a = to.source(1, Type::u64);
  if (to.bits(to.at(0), Type::u64) != 64 || to.bits(to.at(1), Type::u64) != 64) to.refuse("addresses of 32 bits are not converted");
  if (from.has("global") || from.has("const")) return copy(to, d, a, 64);
  uint64_t space = SHARED_SPACE;
  if (from.has("local")) space = LOCAL_SPACE;
  else if (from.has("param")) space = PARAMETER_SPACE;
  Instruction& i = to.emit(from.has("to") ? from_generic : to_generic);
  i.d = d, i.a = a, i.immediate = int64_t(space);
}

template <typename T>
const Instruction* select(Warp& warp, const Instruction* i) {
  const T *const a = warp.reg<T>(i->a), *const b = warp.reg<T>(i->b);
  const uint32_t chosen = warp.predicate(i->c);
  each_lane<T>(warp, i->d, [=](unsigned lane) { return (chosen >> lane & 1) != 0 ? a[lane] : b[lane]; });
  warp.settle(i, ((warp.known(i->a) & chosen) | (warp.known(i->b) & ~chosen)) & warp.known(i->c));
  return i + 1;
}

const Instruction* select_predicate(Warp& warp, const Instruction* i) {
  const uint32_t chosen = warp.predicate(i->c), made = (warp.predicate(i->a) & chosen) | (warp.predicate(i->b) & ~chosen);
  warp.set_predicate(i->d, made);
  warp.settle(i, ((warp.known(i->a) & chosen) | (warp.known(i->b) & ~chosen)) & warp.known(i->c));
  return i + 1;
}

const Instruction* count_selected(Warp& warp, const Instruction* i) {
  note_selected(warp, i, warp.active & warp.known(i->a), warp.predicate(i->a));
  return i + 1;
}

void select_value(Decoder& to, const Statement& from) {
  Coverage& coverage = to.program().coverage();
  if (coverage.joins(from)) {
    const Unit decides = to.source(3, Type::pred);
    Instruction& i = to.emit(count_selected);
    i.a = decides;
    i.immediate = coverage.hook(from);
    coverage.hook_joined(to, i, from);
  }
  const Unit d = to.destination(0), a = to.source(1, from.type()), b = to.source(2, from.type()), c = to.source(3, Type::pred);
  Instruction* made = nullptr;
  if (from.type() == Type::pred) made = &to.emit(select_predicate);
  else with_bits(bits_of(from.type()), [&]<typename T>(Tag<T>) { made = &to.emit(select<T>); });
  made->d = d, made->a = a, made->b = b, made->c = c;
}

// slct: a where c >= 0, else b.
template <typename T, typename C>
const Instruction* select_by_sign(Warp& warp, const Instruction* i) {
  const T *const a = warp.reg<T>(i->a), *const b = warp.reg<T>(i->b);
  const C* const c = warp.reg<C>(i->c);
  each_lane<T>(warp, i->d, [=](unsigned lane) { return c[lane] >= 0 ? a[lane] : b[lane]; });
  warp.settle(i, warp.known(i->a) & warp.known(i->b) & warp.known(i->c));
  return i + 1;
}

void select_signed(Decoder& to, const Statement& from) {
  const bool floating = from.type() == Type::f32;
  const Unit d = to.destination(0), a = to.source(1, from.type(1)), b = to.source(2, from.type(1)), c = to.source(3, from.type());
  with_bits(bits_of(from.type(1)), [&]<typename T>(Tag<T>) {
    Instruction& i = to.emit(floating ? select_by_sign<T, float> : select_by_sign<T, int32_t>);
    i.d = d, i.a = a, i.b = b, i.c = c;
  });
}

// Comparisons.
using Compare = numbers::Comparison;

constexpr std::pair<std::string_view, Compare> COMPARISONS[] = {
    {"eq", Compare::eq}, {"ne", Compare::ne}, {"lt", Compare::lt}, {"le", Compare::le}, {"gt", Compare::gt}, {"ge", Compare::ge},
    {"lo", Compare::lt}, {"ls", Compare::le}, {"hi", Compare::gt}, {"hs", Compare::ge},
    {"equ", Compare::equ}, {"neu", Compare::neu}, {"ltu", Compare::ltu}, {"leu", Compare::leu}, {"gtu", Compare::gtu},
    {"geu", Compare::geu}, {"num", Compare::num}, {"nan", Compare::nan},
};

enum class Join : uint8_t { none, both, either, differ };

uint32_t joined(uint32_t made, uint32_t other, Join join) {
  switch (join) {
    case Join::both: return made & other;
    case Join::either: return made | other;
    case Join::differ: return made ^ other;
    case Join::none: break;
  }
  return made;
}

void put(Warp& warp, Unit unit, uint32_t made, uint32_t known) {
  warp.set_predicate(unit, made);
  warp.set_known(unit, known);
}

template <Compare OF, typename T>
const Instruction* compare(Warp& warp, const Instruction* i) {
  const T *const a = warp.reg<T>(i->a), *const b = warp.reg<T>(i->b);
  uint32_t made = lanes_where([=](unsigned lane) { return numbers::compare<OF>(a[lane], b[lane]); });
  uint32_t known = warp.known(i->a) & warp.known(i->b);
  note_outcomes(i, warp.active & known, made, a, b);
  if (i->detail == nullptr) {
    put(warp, i->d, made, known);
    if ((warp.active & ~known) != 0) warp.settle(i, known);
    return i + 1;
  }
  uint32_t negation = ~made;
  if (const auto join = Join(i->small); join != Join::none) {
    const uint32_t other = i->smaller != 0 ? ~warp.predicate(i->c) : warp.predicate(i->c);
    made = joined(made, other, join);
    negation = joined(negation, other, join);
    known &= warp.known(i->c);
  }
  put(warp, i->d, made, known);
  if (!i->detail->units.empty()) put(warp, i->detail->units[0], negation, known);
  return i + 1;
}

// set: all bits or none, or 1.0 or 0.
template <Compare OF, typename T>
const Instruction* compare_to_value(Warp& warp, const Instruction* i) {
  const T *const a = warp.reg<T>(i->a), *const b = warp.reg<T>(i->b);
  uint32_t made = lanes_where([=](unsigned lane) { return numbers::compare<OF>(a[lane], b[lane]); });
  uint32_t known = warp.known(i->a) & warp.known(i->b);
  if (const auto join = Join(i->small); join != Join::none) {
    made = joined(made, i->smaller != 0 ? ~warp.predicate(i->c) : warp.predicate(i->c), join);
    known &= warp.known(i->c);
  }
  const auto yes = uint32_t(i->immediate);
  each_lane<uint32_t>(warp, i->d, [=](unsigned lane) { return (made >> lane & 1) != 0 ? yes : 0; });
  warp.settle(i, known);
  return i + 1;
}

template <typename T, bool TO_VALUE, std::size_t... OF>
constexpr auto table(std::index_sequence<OF...>) {
  if constexpr (TO_VALUE) return std::array<Handler, sizeof...(OF)>{compare_to_value<Compare(OF), T>...};
  else return std::array<Handler, sizeof...(OF)>{compare<Compare(OF), T>...};
}

template <bool TO_VALUE>
Handler comparison(Decoder& to, Type type, Compare of) {
  const auto in = [&]<typename T>(Tag<T>) { return table<T, TO_VALUE>(std::make_index_sequence<14>())[std::size_t(of)]; };
  switch (type) {
    case Type::f32: return in(Tag<float>());
    case Type::f64: return in(Tag<double>());
    case Type::f16: return in(Tag<numbers::F16>());
    case Type::bf16: return in(Tag<numbers::BF16>());
    case Type::f16x2: case Type::bf16x2: to.refuse("it is not emulated");
    default: return with_integer(type, in);
  }
}

Compare comparison_named(Decoder& to, const Statement& from) {
  for (std::string_view word : from.words)
    for (const auto& [name, which] : COMPARISONS)
      if (name == word) return which;
  to.refuse("it names no comparison");
}

Join join_of(const Statement& from) {
  return from.has("and") ? Join::both : from.has("or") ? Join::either : from.has("xor") ? Join::differ : Join::none;
}

void set_predicate(Decoder& to, const Statement& from) {
  const Operand& first = to.at(0);
  const bool two = first.kind == Operand::Kind::pair;
  const Unit d = to.destination(two ? first.parts[0] : first), negation = two ? to.destination(first.parts[1]) : NO_UNIT;
  const Unit a = to.source(1, from.type()), b = to.source(2, from.type());
  const Join join = join_of(from);
  const Unit c = join == Join::none ? NO_UNIT : to.source(3, Type::pred);
  Instruction& i = to.emit(comparison<false>(to, from.type(), comparison_named(to, from)));
  i.d = d, i.a = a, i.b = b, i.c = c;
  i.immediate = to.program().coverage().hook(from);
  if (!two && join == Join::none) return;
  i.small = uint8_t(join), i.smaller = join != Join::none && to.at(3).negated;
  Detail& detail = to.detail(i);
  if (two) detail.units = {negation};
}

void set_value(Decoder& to, const Statement& from) {
  const Unit d = to.destination(0), a = to.source(1, from.type()), b = to.source(2, from.type());
  const Join join = join_of(from);
  const Unit c = join == Join::none ? NO_UNIT : to.source(3, Type::pred);
  Instruction& i = to.emit(comparison<true>(to, from.type(), comparison_named(to, from)));
  i.d = d, i.a = a, i.b = b, i.c = c;
  i.small = uint8_t(join), i.smaller = join != Join::none && to.at(3).negated;
  i.immediate = from.type(1) == Type::f32 ? 0x3F800000 : 0xFFFFFFFF;
}

}  // namespace

bool is_copy(const Instruction* i) { return i->run == unary<Same, uint32_t, uint32_t>; }

void add_moves(Decoders& all) {
  all["mov"] = move;
  all["cvta"] = convert_address;
  all["selp"] = select_value;
  all["slct"] = select_signed;
  all["setp"] = set_predicate;
  all["set"] = set_value;
}

}  // namespace gemmgen
