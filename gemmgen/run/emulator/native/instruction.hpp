// A kernel's PTX, decoded: instructions with their handlers and registers as places in a warp's register file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "module.hpp"

namespace gemmgen {

class Warp;
struct Instruction;
struct MatrixInstruction;

// Does an instruction for the active lanes of a warp. Returns the next one; null where the warp cannot go on now.
using Handler = const Instruction* (*)(Warp&, const Instruction*);

// A register, a constant or a special register is a unit: 128 bytes of the register file, two of them for 64 bits. A value of
// b bits takes b / 8 bytes of each lane, one lane behind the other; a predicate is a mask of lanes.
using Unit = uint32_t;
constexpr Unit NO_UNIT = 0;  // a place that takes what nobody asks for

// What few instructions need.
struct Detail {
  std::vector<Unit> units, more, third, fourth;  // registers of vectors and fragments
  std::vector<uint8_t> types;                     // of what a joined condition compares
  const MatrixInstruction* product = nullptr;
  uint64_t numbers[4] = {};
};

struct Instruction {
  Handler run = nullptr;
  Unit d = NO_UNIT, a = NO_UNIT, b = NO_UNIT, c = NO_UNIT;
  Unit guard = NO_UNIT;  // a predicate
  bool guard_negated = false;
  uint8_t bytes = 0, small = 0, smaller = 0, immediate_use = 0;  // as the handler takes them
  int64_t immediate = 0;
  const Instruction* target = nullptr;
  const Detail* detail = nullptr;
  uint32_t location = 0;  // of Module::locations
};

// What a unit holds from a launch's, a block's or a warp's start on.
enum class Special : uint8_t {
  tid_x, tid_y, tid_z, ntid_x, ntid_y, ntid_z, ctaid_x, ctaid_y, ctaid_z, nctaid_x, nctaid_y, nctaid_z,
  laneid, warpid, nwarpid, smid, nsmid, gridid, lanemask_eq, lanemask_le, lanemask_lt, lanemask_ge, lanemask_gt,
  clock, clock_hi, clock64, globaltimer, globaltimer_lo, globaltimer_hi,
  cluster_ctaid_x, cluster_ctaid_y, cluster_ctaid_z, cluster_nctaid_x, cluster_nctaid_y, cluster_nctaid_z,
  cluster_ctarank, cluster_nctarank, clusterid_x, clusterid_y, clusterid_z, nclusterid_x, nclusterid_y, nclusterid_z,
  is_explicit_cluster, dynamic_smem_size, total_smem_size, aggr_smem_size,
};

struct SpecialUnit {
  Unit unit;
  unsigned bits;
  Special which;
};

struct Constant {
  Unit unit;
  unsigned bits;
  uint64_t value;
  bool dynamic = false;  // add where dynamic shared memory begins
};

struct SharedArray {
  std::string name;
  uint32_t offset;  // in the block's window; of dynamic memory that is the launch's to say
  uint32_t bytes;
};

// A register that a statement reads or writes. Writes under a predicate are left out: the old value may stay.
struct RegisterUse {
  uint32_t at;  // the statement's first instruction, by number
  Unit unit;
  bool writes;
};

struct Kernel {
  std::string name;
  std::vector<Instruction> code;
  std::vector<std::unique_ptr<Detail>> details;
  std::vector<RegisterUse> uses;  // in the order of the code
  Unit units = 2;
  std::vector<Constant> constants;
  std::vector<SpecialUnit> specials;
  std::vector<SharedArray> arrays;  // static
  uint32_t dynamic_alignment = 1, shared_end = 0;
  uint32_t local_bytes = 0;         // of a thread
  uint64_t parameter_bytes = 0;
  unsigned most_threads = 0, cluster = 0;
};

// The spaces of generic addresses, in their upper bits. What has none of them is in global memory.
constexpr uint64_t SHARED_SPACE = uint64_t(1) << 56, LOCAL_SPACE = uint64_t(2) << 56, PARAMETER_SPACE = uint64_t(3) << 56;
constexpr uint64_t SPACE_MASK = uint64_t(0xFF) << 56;
constexpr uint32_t FIRST_SHARED = 1024;     // what lies below in the window is the system's
constexpr uint32_t STATIC_SHARED = 1 << 18; // where static arrays begin: a descriptor of wgmma reaches what lies below
constexpr uint32_t SHARED_SPACING = 1 << 16;
// Whether it does nothing but to copy a register of 32 bits.
bool is_copy(const Instruction* i);
constexpr unsigned RANK_SHIFT = 24;         // an address in another block's window has its rank, and one, above

}  // namespace gemmgen
