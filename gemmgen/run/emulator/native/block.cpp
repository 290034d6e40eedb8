// A thread block: its shared and local memory, and its barriers.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "failure.hpp"
#include "lanes.hpp"
#include "machine.hpp"
#include "memory.hpp"
#include "watch.hpp"

namespace gemmgen {

Block::Block(Machine& machine, unsigned rank) : rank(rank), machine_(machine) {
  const Kernel& kernel = machine.kernel();
  const Launch& launch = machine.launch();
  shared_bytes_ = kernel.shared_end + 4096;
  void* const mapped = mmap(nullptr, shared_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) fail("unjudged", "the emulator cannot map %zu bytes of shared memory", shared_bytes_);
  shared_ = static_cast<unsigned char*>(mapped);
  const unsigned count = (launch.threads + WARP - 1) / WARP;
  for (unsigned number = 0; number < count; ++number) warps.push_back(std::make_unique<Warp>(machine, *this, kernel, number));
  for (unsigned number = 0; number < launch.threads / 128; ++number) groups.push_back(std::make_unique<Warpgroup>(machine, number));
  local_stride_ = kernel.local_bytes;
  local_.resize(std::size_t(local_stride_) * count * WARP);
}

Block::~Block() {
  if (shared_ != nullptr) munmap(shared_, shared_bytes_);
}

void Block::start(uint32_t new_index) {
  index = new_index;
  alive = machine_.launch().threads;
  for (const SharedArray& array : machine_.kernel().arrays) std::memset(shared_ + array.offset, POISON_BYTE, array.bytes);
  std::memset(shared_ + machine_.dynamic_start(), POISON_BYTE, machine_.launch().shared_bytes);
  std::fill(local_.begin(), local_.end(), (unsigned char)(POISON_BYTE));
  for (Barrier& barrier : barriers_) {
    barrier = {};
    barrier.lanes.assign(warps.size(), 0);
  }
  for (auto& warp : warps) warp->start(machine_.kernel());
  for (auto& group : groups) group->start();
  registers.start(unsigned(groups.size()), machine_.launch().threads);
}

void Block::wake(State state, uint32_t number) {
  for (auto& warp : warps) warp->wake(state, number);
}

// A barrier of the whole block waits for no thread that has exited.
void Block::threads_exit(unsigned count) {
  alive -= count;
  for (uint32_t number = 0; number < BARRIERS; ++number) {
    Barrier& barrier = barriers_[number];
    if (barrier.whole_block && barrier.arrived > 0 && barrier.arrived >= alive) complete(number);
  }
}

bool Block::arrive(Warp& warp, const Instruction* i, uint32_t number, uint32_t threads, bool whole_block) {
  const auto refuse = [&](const std::string& why) {
    fail("crash", "barrier divergence: %s comes to barrier %u %s (%s)", warp.where().c_str(), number, why.c_str(), machine_.place(i).c_str());
  };
  if (number >= BARRIERS) refuse("of 0 to 15");
  Barrier& barrier = barriers_[number];
  const std::string of_threads = "of " + std::to_string(threads) + " threads";
  if (!whole_block) {
    if (threads == 0 || threads % WARP != 0) refuse(of_threads + ", which are no whole warps");
    if (threads > machine_.launch().threads) refuse(of_threads + " in a block of " + std::to_string(machine_.launch().threads));
  }
  if (barrier.expected != 0 && (barrier.whole_block != whole_block || (!whole_block && barrier.expected != threads)))
    refuse(of_threads + ", where others came to one of " + std::to_string(barrier.expected));
  if ((barrier.lanes[warp.number()] & warp.active) != 0)
    refuse("again, before all of its " + std::to_string(barrier.expected) + " threads have come once");
  const Program& program = machine_.program();
  if (whole_block && barrier.expected != 0 && barrier.location != i->location && program.lines(barrier.location) != program.lines(i->location))
    fail("crash", "barrier divergence in block %u: %s comes to the __syncthreads of line %s, where others wait at that of line %s",
         index, warp.where().c_str(), program.lines(i->location).c_str(), program.lines(barrier.location).c_str());
  barrier.expected = whole_block ? machine_.launch().threads : threads;
  barrier.whole_block = whole_block;
  barrier.location = i->location;
  barrier.lanes[warp.number()] |= warp.active;
  barrier.arrived += uint32_t(std::popcount(warp.active));
  if (barrier.arrived < (whole_block ? alive : threads)) return false;
  complete(number);
  return true;
}

std::string Block::waits_for(uint32_t number) const {
  const Barrier& barrier = barriers_[number];
  const std::string of_line = " of line " + machine_.program().lines(barrier.location);
  if (barrier.whole_block) return "wait at the __syncthreads" + of_line;
  return "wait at barrier " + std::to_string(number) + of_line + ", where " + std::to_string(barrier.arrived) + " of " +
         std::to_string(barrier.expected) + " threads have come";
}

void Block::complete(uint32_t number) {
  Barrier& barrier = barriers_[number];
  if (Watch* const watch = machine_.watch()) watch->complete_barrier(*this, number);
  barrier.result = barrier.votes;
  barrier.result_voters = barrier.voters;
  barrier.expected = barrier.arrived = barrier.votes = barrier.voters = 0;
  barrier.whole_block = false;
  std::fill(barrier.lanes.begin(), barrier.lanes.end(), 0u);
  wake(State::at_barrier, number);
}

}  // namespace gemmgen
