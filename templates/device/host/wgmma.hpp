// wgmma: asynchronous products of a warpgroup. Operands are read where descriptors say, and sums kept apart, from the issue
// to the wait that demands them; the products are computed at the first or at the last possible moment.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <vector>

#include "accumulators.hpp"
#include "hopper.hpp"
#include "proxies.hpp"
#include "tensor_core.hpp"
#include "tma.hpp"

namespace gemmgen {

constexpr unsigned WGMMA_ROWS = 64, WGMMA_K_BYTES = 32, MOST_COLUMNS = 256;
constexpr unsigned CHUNK_BYTES = 16;

// Where A or B of a wgmma lies: 8 lines of 8, 4, 2 or 1 chunks of 16 bytes are a pattern, whose lines run along k, or along
// the rows or columns where it is `transposed`.
struct Descriptor {
  uint32_t start, leading, stride;  // bytes
  unsigned base_offset, swizzle;    // of a pattern's lines, in bytes; 0 for none

  explicit Descriptor(uint64_t bits)
      : start(uint32_t(bits & 0x3FFF) << 4), leading(uint32_t(bits >> 16 & 0x3FFF) << 4),
        stride(uint32_t(bits >> 32 & 0x3FFF) << 4), base_offset(unsigned(bits >> 49 & 7)) {
    constexpr unsigned SPANS[] = {0, 128, 64, 32};
    swizzle = SPANS[bits >> 62];
  }

  // The shared address of a chunk: K-major, line `line` and chunk `chunk` of k.
  uint32_t k_major(uint32_t line, uint32_t chunk) const {
    const uint32_t span = swizzle == 0 ? CHUNK_BYTES : swizzle;
    const uint32_t along = swizzle == 0 ? chunk * leading : chunk * CHUNK_BYTES;
    return swizzled((start + line / 8 * stride + line % 8 * span + along) & 0x3FFFF, swizzle);
  }

  // MN-major: k and chunk `chunk` along rows or columns.
  uint32_t mn_major(uint32_t k, uint32_t chunk) const {
    if (swizzle == 0) return (start + chunk * stride + k % 8 * CHUNK_BYTES + k / 8 * leading) & 0x3FFFF;
    const uint32_t chunks = swizzle / CHUNK_BYTES;
    const uint32_t along = chunk % chunks * CHUNK_BYTES + chunk / chunks * leading;
    return swizzled((start + along + k % 8 * swizzle + k / 8 * stride) & 0x3FFFF, swizzle);
  }

  // Calls `visit` with each chunk's shared address, its first line and its first k.
  template <typename Visit>
  void each_chunk(unsigned lines, unsigned element_bytes, bool transposed, Visit visit) const {
    const unsigned elements = CHUNK_BYTES / element_bytes, k = WGMMA_K_BYTES / element_bytes;
    if (transposed) {
      for (unsigned at = 0; at < k; ++at)
        for (unsigned chunk = 0; chunk < lines / elements; ++chunk) visit(mn_major(at, chunk), chunk * elements, at);
      return;
    }
    for (unsigned line = 0; line < lines; ++line)
      for (unsigned chunk = 0; chunk < 2; ++chunk) visit(k_major(line, chunk), line, chunk * elements);
  }
};

using FactorRegisters = std::array<uint32_t, 4>;  // A of a thread

// What a thread brings.
struct WgmmaOperand {
  const WgmmaInstruction* instruction;
  void* d;
  const unsigned* fragment;  // registers of A, or null
  uint64_t a, b;
  bool accumulate;
  unsigned line;
};

// The sums of a warpgroup, whose threads have them in their registers `d` while no product is under way.
struct Sums {
  unsigned columns = 0, element_bytes = 0;
  std::array<unsigned char*, WARPGROUP> d = {};
  std::array<unsigned, WARPGROUP> pending = {};    // one more than the last product that a thread has not waited for, or 0
  std::array<unsigned, WARPGROUP> fences = {};     // of a thread when it had its sums last
  alignas(64) uint32_t values[WGMMA_ROWS][MOST_COLUMNS] = {};  // f16's as floats

  unsigned bytes() const { return columns / 2 * element_bytes; }

  // Calls `visit` with the number of an element among a thread's, and its place.
  template <typename Visit>
  void each(unsigned thread, Visit visit) {
    const unsigned row = thread / WARP * 16 + thread % WARP / 4, column = 2 * (thread % 4);
    for (unsigned i = 0; i < columns / 2; ++i)
      visit(i, values[row + 8 * (i / 2 % 2)][8 * (i / 4) + column + i % 2]);
  }

  uint32_t held(unsigned thread, unsigned i) const {
    if (element_bytes == 2) {
      uint16_t half;
      std::memcpy(&half, d[thread] + 2 * i, 2);
      const float value = float_from_f16(half);
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      return bits;
    }
    uint32_t bits;
    std::memcpy(&bits, d[thread] + 4 * i, 4);
    return bits;
  }

  void take(unsigned thread) {
    each(thread, [&](unsigned i, uint32_t& value) { value = held(thread, i); });
  }

  bool differ(unsigned thread) {
    bool found = false;
    each(thread, [&](unsigned i, uint32_t& value) { found |= value != held(thread, i); });
    return found;
  }

  void give(unsigned thread) {
    each(thread, [&](unsigned i, uint32_t& value) {
      if (element_bytes == 4) {
        std::memcpy(d[thread] + 4 * i, &value, 4);
        return;
      }
      float number;
      std::memcpy(&number, &value, 4);
      const uint16_t half = f16_from_float(number);
      std::memcpy(d[thread] + 2 * i, &half, 2);
    });
  }
};

// The arithmetic of one wgmma.
class WgmmaProduct {
 public:
  // `fragments`: the registers of A of all threads, or none.
  void run(const WgmmaInstruction& instruction, const std::vector<FactorRegisters>& fragments, uint64_t a, uint64_t b, bool accumulate,
           Sums& sums) {
    const MatrixInstruction& of = instruction.sums;
    if (!fragments.empty()) distribute(fragments, bits_of(of.a) / 8);
    else read(Descriptor(a), WGMMA_ROWS, bits_of(of.a) / 8, instruction.trans_a, a_);
    read(Descriptor(b), of.n, bits_of(of.b) / 8, instruction.trans_b, b_);
    if (!accumulate)
      for (auto& row : sums.values) std::fill(row, row + of.n, 0u);
    if (of.accumulator == Element::s32) integers(of, sums);
    else floats(of, sums);
  }

 private:
  using Codes = uint32_t[MOST_COLUMNS][WGMMA_K_BYTES];  // by line and k

  // Lane 4 g + t of a warp holds rows g and g + 8 of its 16: see gemmgen/problem/mma.py.
  void distribute(const std::vector<FactorRegisters>& fragments, unsigned bytes) {
    const unsigned shared = 4 / bytes;
    for (unsigned t = 0; t < WARPGROUP; ++t)
      for (unsigned r = 0; r < 4; ++r)
        for (unsigned part = 0; part < shared; ++part) {
          const unsigned row = t / WARP * 16 + t % WARP / 4 + 8 * (r % 2), k = 4 * shared * (r / 2) + shared * (t % 4) + part;
          const uint32_t code = fragments[t][r] >> 8 * bytes * part;
          a_[row][k] = bytes == 4 ? code : code & ((1u << 8 * bytes) - 1);
        }
  }

  static void read(Descriptor at, unsigned lines, unsigned bytes, bool transposed, Codes& codes) {
    if (bytes == 1) read<uint8_t>(at, lines, transposed, codes);
    else if (bytes == 2) read<uint16_t>(at, lines, transposed, codes);
    else read<uint32_t>(at, lines, transposed, codes);
  }

  template <typename Code>
  static void read(Descriptor at, unsigned lines, bool transposed, Codes& codes) {
    constexpr unsigned ELEMENTS = CHUNK_BYTES / sizeof(Code);
    at.each_chunk(lines, sizeof(Code), transposed, [&](uint32_t address, unsigned line, unsigned k) {
      Code chunk[ELEMENTS];
      std::memcpy(chunk, of_window(address), sizeof chunk);
      for (unsigned i = 0; i < ELEMENTS; ++i) codes[transposed ? line + i : line][transposed ? k : k + i] = chunk[i];
    });
  }

  void floats(const MatrixInstruction& of, Sums& sums) {
    constexpr unsigned BLOCK = 16;  // rows
    static Factors a[WGMMA_ROWS / BLOCK], b[2];
    static WideRows wide;
    wide.start(of);
    bool special_a = false, moderate_a = !has_special(sums, of.n);
    for (unsigned block = 0; block < WGMMA_ROWS / BLOCK; ++block) {
      alignas(Words) uint32_t codes[BLOCK * WGMMA_K_BYTES];
      for (unsigned row = 0; row < BLOCK; ++row) std::copy_n(a_[BLOCK * block + row], of.k, codes + row * of.k);
      special_a |= decode(reinterpret_cast<const Words*>(codes), BLOCK * of.k / COLUMNS, format_of(of.a), a[block]);
      moderate_a = moderate_a && WideRows::moderate(a[block], BLOCK * of.k / COLUMNS);
      wide.take_a(a[block], BLOCK * block, BLOCK);
    }
    const auto narrow = [&](unsigned row, unsigned first, const Factors& columns, bool special) {
      Floats c;
      std::memcpy(&c, sums.values[row] + first, sizeof c);
      c = FloatRow(of, a[row / BLOCK], columns, special).sum(row % BLOCK, c);
      std::memcpy(sums.values[row] + first, &c, sizeof c);
    };
    for (unsigned first = 0; first < of.n; first += 2 * COLUMNS) {
      const unsigned count = of.n - first < 2 * COLUMNS ? 1 : 2;
      bool special[2], moderate = count == 2 && moderate_a && !special_a;
      for (unsigned part = 0; part < count; ++part) {
        special[part] = decode_b(of, first + part * COLUMNS, b[part]) || special_a;
        moderate = moderate && !special[part] && WideRows::moderate(b[part], of.k);
      }
      for (unsigned part = 0; moderate && part < count; ++part) wide.take_b(b[part], part);
      for (unsigned row = 0; row < WGMMA_ROWS; ++row) {
        if (moderate) {
          wide.add(row, reinterpret_cast<float*>(sums.values[row] + first));
          continue;
        }
        for (unsigned part = 0; part < count; ++part) narrow(row, first + part * COLUMNS, b[part], special[part]);
      }
    }
  }

  // Whether some sums are Inf or NaN.
  static bool has_special(const Sums& sums, unsigned columns) {
    Words found = {};
    for (const auto& row : sums.values)
      for (unsigned first = 0; first < columns; first += COLUMNS) {
        Words bits;
        std::memcpy(&bits, row + first, sizeof bits);
        found |= reinterpret_cast<Words>((bits & 0x7F800000) == 0x7F800000);
      }
    return std::any_of(&found[0], &found[0] + COLUMNS, [](uint32_t one) { return one != 0; });
  }

  // Eight columns; whether some are Inf or NaN.
  bool decode_b(const MatrixInstruction& of, unsigned first, Factors& into) const {
    alignas(Words) uint32_t codes[WGMMA_K_BYTES * COLUMNS];
    for (unsigned k = 0; k < of.k; ++k)
      for (unsigned column = 0; column < COLUMNS; ++column) codes[k * COLUMNS + column] = b_[first + column][k];
    return decode(reinterpret_cast<const Words*>(codes), of.k, format_of(of.b), into);
  }

  void integers(const MatrixInstruction& of, Sums& sums) {
    const auto value = [](uint32_t code, Element element) { return element == Element::u8 ? code : uint32_t(int32_t(int8_t(code))); };
    for (unsigned row = 0; row < WGMMA_ROWS; ++row)
      for (unsigned column = 0; column < of.n; ++column) {
        uint32_t sum = sums.values[row][column];
        for (unsigned k = 0; k < of.k; ++k) sum += value(a_[row][k], of.a) * value(b_[column][k], of.b);
        sums.values[row][column] = sum;
      }
  }

  Codes a_, b_;
};

// The products of one warpgroup.
class WarpgroupProducts {
 public:
  void start_block() {
    queue_.clear();
    issued_ = 0;
    agent_ = 0;
    for (Member& member : members_) member = {};
    sums_.clear();
    loads_.clear();
  }

  // What the running thread has loaded to registers is there from now on: a product of them comes after these loads.
  void fence(unsigned thread) {
    Member& member = members_[thread];
    ++member.fences;
    if (watching) clocks.release(member.past = {});
  }

  // All 128 threads have come, thread `first` the first of them.
  void issue(const WarpgroupOperands& operands, unsigned first, const Clock& proxied, bool late) {
    const auto of = [&](unsigned t) -> const WgmmaOperand& { return *static_cast<const WgmmaOperand*>(operands[t]); };
    const WgmmaOperand& one = of(0);
    for (unsigned t = 1; t < WARPGROUP; ++t)
      if (of(t).instruction != one.instruction || of(t).a != one.a || of(t).b != one.b || of(t).accumulate != one.accumulate)
        fail("crash", {one.line}, "%s brings another descriptor or scale-d to a wgmma than thread %u",
             cluster.where(first + t).c_str(), cluster.in_block(first));
    if (one.fragment == nullptr)
      check_operand(Descriptor(one.a), WGMMA_ROWS, one.instruction->sums.a, one.instruction->trans_a, "A", one.line);
    check_operand(Descriptor(one.b), one.instruction->sums.n, one.instruction->sums.b, one.instruction->trans_b, "B", one.line);
    if (agent_ == 0) agent_ = clocks.hire(first, false);
    if (agent_ == 0) fail("unjudged", {one.line}, "more agents in a block than the emulator follows");
    announce(one, first, proxied);
    Sums& sums = take_sums(operands, first);
    queue_.push_back({one, {}, &sums});
    for (unsigned t = 0; one.fragment != nullptr && t < WARPGROUP; ++t) {
      const unsigned* const held = of(t).fragment;
      queue_.back().fragments.push_back({held[0], held[1], held[2], held[3]});
    }
    ++issued_;
    if (one.fragment != nullptr && watching) note_loads();
    for (unsigned t = 0; t < WARPGROUP; ++t) {
      members_[t].issued = issued_;
      sums.pending[t] = issued_;
      accumulators.start_flight(first + t, sums.d[t], sums.bytes(), of(t).line, false);
      if (one.fragment != nullptr) {
        const auto* const fragment = reinterpret_cast<const unsigned char*>(of(t).fragment);
        accumulators.start_flight(first + t, fragment, sizeof(FactorRegisters), of(t).line, true);
        members_[t].fragments.push_back({fragment, issued_});
      }
      std::memset(sums.d[t], POISON, sums.bytes());
    }
    if (!late) execute(issued_);
  }

  void commit(unsigned thread) {
    Member& member = members_[thread];
    member.groups.push_back({member.issued, clocks.tick()});
  }

  void wait(unsigned thread, unsigned first, unsigned groups_left, unsigned line) {
    Member& member = members_[thread];
    const unsigned committed = member.groups.empty() ? 0 : member.groups.back().end;
    if (committed == member.waited && member.issued > committed)
      fail("crash", {line}, "%s waits for no wgmma: no wgmma_commit follows those that it has issued", block.where().c_str());
    if (member.groups.size() <= groups_left) return;
    const Group group = member.groups[member.groups.size() - 1 - groups_left];
    if (group.end == member.waited) return;
    member.waited = group.end;
    execute(group.end);
    clocks.complete(agent_, group.time);
    const auto later = loads_.upper_bound(group.end);
    if (later != loads_.begin()) clocks.acquire(first + thread, std::prev(later)->second);
    for (const auto& sums : sums_) {
      if (sums->pending[thread] == 0 || sums->pending[thread] > group.end) continue;
      sums->pending[thread] = 0;
      sums->fences[thread] = member.fences;
      accumulators.end_flight(first + thread, sums->d[thread]);
      sums->give(thread);
    }
    land_fragments(member, first + thread);
  }

  void exit_thread(unsigned thread) const {
    const Member& member = members_[thread];
    if (member.waited < member.issued)
      fail("crash", {}, "%s exits while wgmmas of it are under way, which no wgmma_wait<0> ends", block.where().c_str());
  }

 private:
  struct Group {
    unsigned end;  // of its products
    uint32_t time;
  };

  struct Flight {
    const unsigned char* fragment;
    unsigned product;
  };

  struct Member {
    unsigned issued = 0, waited = 0, fences = 0;
    Clock past;  // before its last fence
    std::vector<Flight> fragments;  // of products that it has not waited for
    std::vector<Group> groups;
  };

  // Who waits for the product that has been issued last knows that all of its threads have loaded what it multiplies.
  void note_loads() {
    Clock& all = loads_[issued_];
    if (loads_.size() > 1) all = std::prev(loads_.end(), 2)->second;
    for (const Member& member : members_) join(all, member.past);
  }

  struct Issued {
    WgmmaOperand operand;
    std::vector<FactorRegisters> fragments;
    Sums* sums;
  };

  // Registers of A that no product reads any more.
  static void land_fragments(Member& member, unsigned thread) {
    std::vector<Flight> left;
    for (const Flight& flight : member.fragments)
      if (flight.product > member.waited) left.push_back(flight);
    const auto reads = [&](const Flight& landed) {
      return std::any_of(left.begin(), left.end(), [&](const Flight& other) { return other.fragment == landed.fragment; });
    };
    for (const Flight& flight : member.fragments)
      if (!reads(flight)) accumulators.end_flight(thread, flight.fragment);
    member.fragments = std::move(left);
  }

  static void check_operand(Descriptor at, unsigned lines, Element element, bool transposed, const char* name, unsigned line) {
    const auto refuse = [&](const std::string& why) {
      fail("crash", {line}, "%s: the descriptor of a wgmma's %s %s", block.where().c_str(), name, why.c_str());
    };
    if (at.base_offset != 0) fail("unjudged", {line}, "a descriptor with a base offset is not emulated");
    const uint32_t pattern = 8 * at.swizzle;
    if (at.swizzle != 0 && (at.start & (pattern - 1) & ~(at.swizzle - 1)) != 0)
      refuse("starts at shared address " + std::to_string(at.start) + ", inside a pattern of " + std::to_string(pattern) +
             " bytes: stages have to start at multiples of that");
    at.each_chunk(lines, bits_of(element) / 8, transposed, [&](uint32_t address, unsigned, unsigned) {
      if (address < shared_memory.window_start() || !shared_memory.dynamic().contains(of_window(address), CHUNK_BYTES))
        refuse("leads to shared address " + std::to_string(address) + " (" +
               shared_memory.dynamic().describe(of_window(address)) + ")");
    });
  }

  // The lines of which nobody has written what one product reads, its bytes along k: tiles that an edge of the matrix cuts
  // may leave them out, as long as no sum of them is stored. They hold poison (NaN, -1 or 255), and comparison finds such sums.
  static std::vector<bool> unset_lines(Descriptor at, unsigned lines, Element element, bool transposed) {
    std::vector<bool> found(lines, !transposed);
    at.each_chunk(lines, bits_of(element) / 8, transposed, [&](uint32_t address, unsigned line, unsigned) {
      if (found[line] && !races.unset(of_window(address), CHUNK_BYTES)) found[line] = false;
    });
    return found;
  }

  // Each warp must come after what it reads.
  void announce(const WgmmaOperand& one, unsigned first, const Clock& proxied) const {
    if (!watching) {
      clocks.tick();
      return;
    }
    const unsigned running = clocks.thread();
    const Place place = Place::line(one.line);
    for (unsigned leader = first; leader < first + WARPGROUP; leader += WARP) {
      clocks.run(leader);
      clocks.begin_operation(agent_);
      const auto read = [&](Descriptor at, unsigned lines, Element element, bool transposed) {
        const std::vector<bool> unset = unset_lines(at, lines, element, transposed);
        at.each_chunk(lines, bits_of(element) / 8, transposed, [&](uint32_t address, unsigned row, unsigned) {
          races.read_by_proxy(of_window(address), CHUNK_BYTES, place, Kind::product, proxied, cluster.in_block(first) / WARPGROUP,
                              unset[row]);
        });
      };
      if (one.fragment == nullptr) read(Descriptor(one.a), WGMMA_ROWS, one.instruction->sums.a, one.instruction->trans_a);
      read(Descriptor(one.b), one.instruction->sums.n, one.instruction->sums.b, one.instruction->trans_b);
    }
    clocks.run(running);
  }

  // The sums that these registers hold, or those of products under way.
  Sums& take_sums(const WarpgroupOperands& operands, unsigned first) {
    const WgmmaOperand& one = *static_cast<const WgmmaOperand*>(operands[0]);
    const auto registers = [&](unsigned t) { return static_cast<unsigned char*>(static_cast<const WgmmaOperand*>(operands[t])->d); };
    const auto known = std::find_if(sums_.begin(), sums_.end(), [&](const auto& sums) { return sums->d[0] == registers(0); });
    const bool is_new = known == sums_.end();
    Sums& sums = is_new ? *sums_.emplace_back(std::make_unique<Sums>()) : **known;
    const unsigned columns = one.instruction->sums.n, bytes = one.instruction->sums.accumulator == Element::f16 ? 2 : 4;
    const bool another = !is_new && (sums.columns != columns || sums.element_bytes != bytes);
    sums.columns = columns;
    sums.element_bytes = bytes;
    for (unsigned t = 0; t < WARPGROUP; ++t) {
      const auto refuse = [&](const char* why) {
        fail("race", {one.line}, "%s: %s", cluster.where(first + t).c_str(), why);
      };
      if (sums.pending[t] != 0) {
        if (another || sums.d[t] != registers(t)) refuse("a wgmma of another shape takes accumulators that are in flight");
        continue;
      }
      sums.d[t] = registers(t);
      if (members_[t].fences == 0) refuse("no wgmma_fence comes before its first wgmma");
      if (!is_new && !another && sums.fences[t] == members_[t].fences && sums.differ(t))
        refuse("accumulators of a wgmma have been written since the last wgmma_fence");
      sums.take(t);
    }
    return sums;
  }

  // All products before number `end`.
  void execute(unsigned end) {
    static WgmmaProduct product;
    while (!queue_.empty() && issued_ - queue_.size() < end) {
      const Issued next = std::move(queue_.front());
      queue_.pop_front();
      product.run(*next.operand.instruction, next.fragments, next.operand.a, next.operand.b, next.operand.accumulate, *next.sums);
    }
  }

  std::deque<Issued> queue_;  // not computed yet
  unsigned issued_ = 0;
  unsigned agent_ = 0;
  std::array<Member, WARPGROUP> members_;
  std::vector<std::unique_ptr<Sums>> sums_;
  std::map<unsigned, Clock> loads_;  // what threads did before the fences of products of registers, by the products' numbers
};

}  // namespace gemmgen
