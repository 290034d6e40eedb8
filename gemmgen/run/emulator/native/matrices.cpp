// mma, wmma, ldmatrix, stmatrix and movmatrix.
#include <cstring>
#include <string>

#include "decoder.hpp"
#include "failure.hpp"
#include "lanes.hpp"
#include "machine.hpp"
#include "matrix_lanes.hpp"
#include "memory.hpp"
#include "watch.hpp"

namespace gemmgen {

namespace {

uint32_t known_of(Warp& warp, const std::vector<Unit>& units) {
  uint32_t known = ALL_LANES;
  for (const Unit unit : units) known &= warp.known(unit);
  return known;
}

// If a lane has no value, the whole product has none.
void set_results(Warp& warp, const Instruction* i) {
  const Detail& detail = *i->detail;
  const bool known = (known_of(warp, detail.more) & known_of(warp, detail.third) & known_of(warp, detail.fourth)) == ALL_LANES;
  for (const Unit unit : detail.units) warp.set_known(unit, known ? ALL_LANES : 0);
  if (known) return;
  for (const auto* units : {&detail.fourth, &detail.third, &detail.more})
    for (const Unit unit : *units)
      if (warp.known(unit) != ALL_LANES)
        for (const Unit result : detail.units) warp.pass_poison(unit, result);
}

template <typename T>
struct Pointers {
  Pointers(Warp& warp, const std::vector<Unit>& units) {
    for (std::size_t n = 0; n < units.size() && n < 16; ++n) at[n] = warp.reg<T>(units[n]);
  }
  T* at[16];
};

// units: d, more: a, third: b, fourth: c.
template <typename T, bool WMMA>
const Instruction* multiply(Warp& warp, const Instruction* i) {
  const Instruction* next = nullptr;
  if (!whole_warp(warp, i, next)) return next;
  const Detail& detail = *i->detail;
  const Pointers<T> d(warp, detail.units), a(warp, detail.more), b(warp, detail.third), c(warp, detail.fourth);
  if constexpr (WMMA) warp.machine().products().wmma(*detail.product, d.at, a.at, b.at, c.at);
  else warp.machine().products().mma(*detail.product, d.at, a.at, b.at, c.at);
  set_results(warp, i);
  return i + 1;
}

std::vector<Unit> sources(Decoder& to, const Operand& vector, Type type) {
  if (vector.kind != Operand::Kind::vector) return {to.source(vector, type)};
  std::vector<Unit> units;
  for (const Operand& part : vector.parts) units.push_back(to.source(part, type));
  return units;
}

std::vector<Unit> destinations(Decoder& to, const Operand& vector) {
  if (vector.kind != Operand::Kind::vector) return {to.destination(vector)};
  std::vector<Unit> units;
  for (const Operand& part : vector.parts) units.push_back(to.destination(part));
  return units;
}

void decode_product(Decoder& to, const Statement& from, bool wmma) {
  if (from.has("sp") || from.has("sp::ordered_metadata") || from.has("block_scale")) to.refuse("it is not emulated");
  const MatrixInstruction* const product = to.program().instructions().find(from.text());
  if (product == nullptr) to.refuse("it is no matrix instruction of " + std::string(to.program().module().target_name) + " that is emulated");
  const bool doubles = product->accumulator == Element::f64;
  const unsigned lanes_bits = WARP * (doubles ? 64 : 32), sums_bits = bits_of(product->accumulator);
  const unsigned columns = wmma ? 16 : 8, a_count = product->m * product->k * bits_of(product->a) / lanes_bits,
                 b_count = columns * product->k * bits_of(product->b) / lanes_bits, c_count = product->m * columns * sums_bits / lanes_bits;
  std::vector<Unit> d = destinations(to, to.at(0)), a = sources(to, to.at(1), Type::b32), b = sources(to, to.at(2), Type::b32),
                    c = sources(to, to.at(3), doubles ? Type::f64 : sums_bits == 32 && product->accumulator == Element::f32 ? Type::f32 : Type::b32);
  if (a.size() < a_count || b.size() < b_count || c.size() != c_count || d.size() != c_count || d.size() > 16)
    to.refuse("fragments of another number of registers");
  Instruction& i = to.emit(doubles ? multiply<uint64_t, false> : wmma ? multiply<uint32_t, true> : multiply<uint32_t, false>);
  Detail& detail = to.detail(i);
  detail.product = product;
  detail.units = std::move(d), detail.more = std::move(a), detail.third = std::move(b), detail.fourth = std::move(c);
}

// Marks what stmatrix stored for lanes without a value: in each column the rows whose element such a lane holds.
void spoil_matrix(Warp& warp, const Instruction* i, const uint64_t (&addresses)[WARP], unsigned matrix, bool transposed) {
  Watch* const watch = warp.machine().watch();
  const Unit unit = i->detail->units[matrix];
  const uint32_t unknown = ~warp.known(unit);
  if (watch == nullptr || unknown == 0) return;
  for (unsigned column = 0; column < MATRIX_LINES; ++column) {
    uint32_t rows = 0;  // by the lanes that give their addresses
    for (unsigned row = 0; row < MATRIX_LINES; ++row) {
      const unsigned holder = matrix_holder(transposed ? MatrixPlace{column, row} : MatrixPlace{row, column}).lane;
      rows |= (unknown >> holder & 1) << matrix_row_lane(matrix, row);
    }
    if (rows != 0) watch->spoil(warp, i, addresses, 2 * column, 2, rows, unit);
  }
}

// ldmatrix and stmatrix: the lanes of each eight give the addresses of a matrix's rows.
template <Space SPACE, bool STORES>
const Instruction* move_matrices(Warp& warp, const Instruction* i) {
  const Instruction* next = nullptr;
  if (!whole_warp(warp, i, next)) return next;
  const Detail& detail = *i->detail;
  const auto count = unsigned(detail.units.size());
  const bool transposed = i->small != 0;
  uint64_t addresses[WARP];
  Places places;
  const uint32_t giving = count == 4 ? ALL_LANES : (1u << 8 * count) - 1;
  warp.active = giving;
  gather_addresses(warp, i, i->a, i->smaller != 0, addresses);
  if (STORES) for (const Unit unit : detail.units) require_stored(warp, i, Space::shared, addresses, unit);
  resolve(warp, {i, SPACE, STORES ? Use::write : Use::read, MATRIX_LINE_BYTES, false}, addresses, places);
  warp.active = ALL_LANES;
  for (unsigned matrix = 0; matrix < count; ++matrix) {
    uint32_t* const held = warp.reg<uint32_t>(detail.units[matrix]);
    for (unsigned lane = 0; lane < WARP; ++lane)
      for (unsigned half = 0; half < 2; ++half) {
        const MatrixPlace at = matrix_place(lane, half, transposed);
        unsigned char* const place = places.at[matrix_row_lane(matrix, at.row)] + 2 * at.column;
        unsigned char* const part = reinterpret_cast<unsigned char*>(held + lane) + 2 * half;
        if (STORES) std::memcpy(place, part, 2);
        else std::memcpy(part, place, 2);
      }
    if (STORES) {
      spoil_matrix(warp, i, addresses, matrix, transposed);
      continue;
    }
    uint32_t known = ALL_LANES;
    if (const uint32_t rows = places.poisoned >> 8 * matrix & 0xFF; rows != 0) {
      for (unsigned lane = 0; lane < WARP; ++lane)
        if (transposed || (rows >> lane / 4 & 1) != 0) known &= ~(1u << lane);
      warp.poison(detail.units[matrix], ~known, warp.machine().why_poisoned());
    }
    warp.set_known(detail.units[matrix], known);
  }
  return i + 1;
}

template <bool STORES>
void decode_move(Decoder& to, const Statement& from) {
  const Operand& vector = to.at(STORES ? 1 : 0);
  if (!from.has("m8n8") || !from.has("b16")) to.refuse("it is not emulated");
  std::vector<Unit> units = STORES ? sources(to, vector, Type::b32) : destinations(to, vector);
  if (units.size() != 1 && units.size() != 2 && units.size() != 4) to.refuse("1, 2 or 4 matrices");
  const auto [base, bits, offset] = to.address(to.at(STORES ? 0 : 1));
  const bool shared = from.has("shared") || from.has("shared::cta");
  Instruction& i = to.emit(shared ? move_matrices<Space::shared, STORES> : move_matrices<Space::generic, STORES>);
  i.a = base, i.immediate = offset, i.smaller = bits == 64, i.small = from.has("trans");
  to.detail(i).units = std::move(units);
}

const Instruction* transpose(Warp& warp, const Instruction* i) {
  const Instruction* next = nullptr;
  if (!whole_warp(warp, i, next)) return next;
  const uint32_t* const a = warp.reg<uint32_t>(i->a);
  uint32_t made[WARP];
  for (unsigned lane = 0; lane < WARP; ++lane) {
    made[lane] = 0;
    for (unsigned half = 0; half < 2; ++half) {
      const LaneHalf from = movmatrix_source(lane, half);
      made[lane] |= (a[from.lane] >> 16 * from.half & 0xFFFF) << 16 * half;
    }
  }
  std::memcpy(warp.reg<uint32_t>(i->d), made, sizeof made);
  warp.settle(i, warp.known(i->a) == ALL_LANES ? ALL_LANES : 0);
  return i + 1;
}

// wmma.load and wmma.store of 16 x 16: `small` says which matrix, `b` has the leading dimension in elements.
enum class Fragment : uint8_t { a, b, c };

MatrixPlace place_of(Fragment fragment, unsigned lane, unsigned r, unsigned part) {
  switch (fragment) {
    case Fragment::a: return wmma_a_place(lane, r, part);
    case Fragment::b: return wmma_b_place(lane, r, part);
    case Fragment::c: break;
  }
  return wmma_c_place(lane, r);
}

// CUDA's conditions: all lanes name one matrix, at a multiple of 32 bytes, with lines a multiple of 16 bytes apart.
void check_matrix(Warp& warp, const Instruction* i, Space space, const uint64_t (&base)[WARP], const uint32_t* leading, unsigned bytes) {
  constexpr unsigned MATRIX_ALIGNMENT = 32, LINE_ALIGNMENT = 16;
  const auto refuse = [&](unsigned lane, const std::string& why) {
    fail("crash", "%s: a wmma of %s (%s)", warp.where(1u << lane).c_str(), why.c_str(), warp.machine().place(i).c_str());
  };
  for (unsigned lane = 1; lane < WARP; ++lane)
    if (base[lane] != base[0] || leading[lane] != leading[0])
      refuse(lane, "another matrix than thread " + std::to_string(warp.first_thread()) + "'s");
  if (base[0] % MATRIX_ALIGNMENT != 0) {
    const bool shared = space == Space::shared || (space == Space::generic && (base[0] & SPACE_MASK) == SHARED_SPACE);
    refuse(0, "lines at an address that " + std::to_string(MATRIX_ALIGNMENT) + " does not divide (" +
                  describe_address(warp, shared ? Space::shared : Space::global, base[0]) + ")");
  }
  if (leading[0] * bytes % LINE_ALIGNMENT != 0)
    refuse(0, "lines " + std::to_string(leading[0] * bytes) + " bytes apart, no multiple of " + std::to_string(LINE_ALIGNMENT));
}

template <Space SPACE, bool STORES, unsigned BYTES>
const Instruction* move_fragment(Warp& warp, const Instruction* i) {
  const Instruction* next = nullptr;
  if (!whole_warp(warp, i, next)) return next;
  const Detail& detail = *i->detail;
  uint64_t base[WARP];
  gather_addresses(warp, i, i->a, i->smaller != 0, base);
  warp.require_known(i, i->b, "as a leading dimension");
  const uint32_t* const leading = warp.reg<uint32_t>(i->b);
  check_matrix(warp, i, SPACE, base, leading, BYTES);
  const bool by_columns = detail.numbers[0] != 0;
  constexpr unsigned PARTS = BYTES == 2 ? 2 : 1;
  for (unsigned r = 0; r < detail.units.size(); ++r) {
    unsigned char* const held = warp.reg<unsigned char>(detail.units[r]);
    uint32_t poisoned = 0;
    for (unsigned part = 0; part < PARTS; ++part) {
      uint64_t addresses[WARP];
      Places places;
      for (unsigned lane = 0; lane < WARP; ++lane) {
        const MatrixPlace at = place_of(Fragment(i->small), lane, r, part);
        const uint64_t line = by_columns ? at.column : at.row, along = by_columns ? at.row : at.column;
        addresses[lane] = base[lane] + (line * leading[lane] + along) * BYTES;
      }
      if (STORES) require_stored(warp, i, SPACE, addresses, detail.units[r]);
      resolve(warp, {i, SPACE, STORES ? Use::write : Use::read, BYTES, false}, addresses, places);
      if (STORES) spoil_shared(warp, i, SPACE, addresses, 0, BYTES, detail.units[r]);
      for (unsigned lane = 0; lane < WARP; ++lane) {
        unsigned char* const element = held + 4 * lane + BYTES * part;
        if (STORES) std::memcpy(places.at[lane], element, BYTES);
        else std::memcpy(element, places.at[lane], BYTES);
      }
      poisoned |= places.poisoned;
    }
    if (STORES) continue;
    warp.set_known(detail.units[r], ~poisoned);
    if (poisoned != 0) warp.poison(detail.units[r], poisoned, warp.machine().why_poisoned());
  }
  return i + 1;
}

void decode_fragment(Decoder& to, const Statement& from, bool stores) {
  const Fragment fragment = from.has("a") ? Fragment::a : from.has("b") ? Fragment::b : Fragment::c;
  const Type type = from.type();
  const bool sums = fragment == Fragment::c;
  if (!from.has("m16n16k16") || (sums ? type != Type::f32 : type != Type::f16 && type != Type::bf16)) to.refuse("it is not emulated");
  const Operand& vector = to.at(stores ? 1 : 0);
  std::vector<Unit> units = stores ? sources(to, vector, Type::b32) : destinations(to, vector);
  const auto [base, bits, offset] = to.address(to.at(stores ? 0 : 1));
  const Unit leading = to.count() > 2 ? to.source(2, Type::u32) : to.constant(16, 32);
  const bool shared = from.has("shared"), global = from.has("global");
  Handler handler = nullptr;
  const auto choose = [&]<Space SPACE>() {
    if (sums) handler = stores ? move_fragment<SPACE, true, 4> : move_fragment<SPACE, false, 4>;
    else handler = move_fragment<SPACE, false, 2>;
  };
  if (shared) choose.template operator()<Space::shared>();
  else if (global) choose.template operator()<Space::global>();
  else choose.template operator()<Space::generic>();
  Instruction& i = to.emit(handler);
  i.a = base, i.immediate = offset, i.smaller = bits == 64, i.b = leading, i.small = uint8_t(fragment);
  Detail& detail = to.detail(i);
  detail.units = std::move(units);
  detail.numbers[0] = from.has("col");
}

void decode_wmma(Decoder& to, const Statement& from) {
  if (from.has("mma")) return decode_product(to, from, true);
  decode_fragment(to, from, from.has("store"));
}

}  // namespace

void add_matrices(Decoders& all) {
  all["mma"] = [](Decoder& to, const Statement& from) { decode_product(to, from, false); };
  all["wmma"] = decode_wmma;
  all["ldmatrix"] = decode_move<false>;
  all["stmatrix"] = decode_move<true>;
  all["movmatrix"] = [](Decoder& to, const Statement&) {
    const Unit d = to.destination(0), a = to.source(1, Type::b32);
    Instruction& i = to.emit(transpose);
    i.d = d, i.a = a;
  };
}

}  // namespace gemmgen
