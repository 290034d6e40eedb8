// mbarriers: phases that arrivals and bytes complete.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "block.hpp"
#include "clocks.hpp"
#include "cluster.hpp"
#include "failure.hpp"
#include "faults.hpp"
#include "from_outside.hpp"
#include "races.hpp"
#include "shared_memory.hpp"

namespace gemmgen {

constexpr long MOST_TRANSACTION_BYTES = (1 << 20) - 1;
constexpr int MOST_ARRIVALS = (1 << 20) - 1;
constexpr std::size_t MBARRIER_BYTES = 8;
constexpr uint64_t CONTENT = 0x6D62617272696572;  // what stands there, as nobody else stores it

struct Mbarrier {
  unsigned char* address;
  unsigned number;
  unsigned agent;  // of the loads whose bytes it counts
  int count;       // of arrivals that complete a phase
  int missing;     // of the phase that runs
  Access init;
  long bytes = 0;          // expected and not there yet
  unsigned phase = 0;      // that runs; so many are complete
  unsigned acquired = 0;   // of these, as many as some thread has waited for
  Clock released;          // in this phase
  Clock complete;          // in those before
  std::vector<uint32_t> landed;  // loads whose bytes came in this phase, by their times
  unsigned rank = 0;             // of its block
  FromOutside from_outside;      // arrivals by other blocks, of which no thread of its own that has exited knew

  unsigned parity() const { return phase & 1; }

  std::string text() const {
    return "the mbarrier at " + describe_address(address);
  }
};

class Mbarriers {
 public:
  void start_block() { barriers_.clear(); }

  void init(void* raw_address, int count, unsigned line) {
    auto* const address = static_cast<unsigned char*>(raw_address);
    check_address(address, line);
    if (count < 1 || count > MOST_ARRIVALS)
      fail("crash", {line}, "%s: an mbarrier of %d arrivals", block.where().c_str(), count);
    if (find(address) != nullptr)
      fail("crash", {line}, "%s initialises %s once more", block.where().c_str(), find(address)->text().c_str());
    const unsigned agent = clocks.hire(clocks.thread(), true);
    if (agent == 0) fail("unjudged", {line}, "more mbarriers in a block than the emulator follows");
    if (watching) races.write(address, MBARRIER_BYTES, Place::line(line));
    const uint64_t content = CONTENT + barriers_.size();
    std::memcpy(address, &content, sizeof content);
    barriers_.push_back({address, unsigned(barriers_.size()), agent, count, count,
                         clocks.now(Place::line(line), Kind::write), 0, 0, 0, {}, {}, {}, shared_memory.selected(), {}});
  }

  // The running thread arrives, and the phase expects `bytes` more.
  void arrive(void* address, int bytes, unsigned line) {
    Mbarrier& barrier = checked(address, line);
    if (barrier.missing == 0)
      fail("crash", {line}, "%s arrives at %s, where all %d have in its phase %u: one arrival too many",
           block.where().c_str(), barrier.text().c_str(), barrier.count, barrier.phase);
    clocks.release(barrier.released);
    --barrier.missing;
    expect(barrier, bytes, line);
    settle(barrier);
  }

  // At the barrier that block `rank` has where that of the running thread has `address`.
  void arrive_at(unsigned rank, void* address, unsigned line) {
    check_address(static_cast<unsigned char*>(address), line);
    check_block(rank, "arrives at an mbarrier", line);
    void* const there = shared_memory.counterpart(address, rank);
    const Access now = clocks.now(Place::line(line), Kind::atomic);
    const bool outside = rank != shared_memory.selected();
    const Elsewhere elsewhere(rank);
    arrive(there, 0, line);
    if (outside) find(static_cast<unsigned char*>(there))->from_outside.note(now);
  }

  // A thread may reach shared memory of blocks of its cluster that have not exited.
  static void check_block(unsigned rank, const char* what, unsigned line) {
    if (rank >= cluster.ranks)
      fail("crash", {line}, "%s %s of rank %u in a cluster of %u blocks", block.where().c_str(), what, rank, cluster.ranks);
    if (block.has_exited(rank))
      fail("crash", {line}, "%s %s of block %u, which has exited: its shared memory may be another block's",
           block.where().c_str(), what, cluster.first_block + rank);
  }

  // The running thread exits: what it knows of has come before its block ends.
  void exit_thread() {
    for (Mbarrier& barrier : barriers_)
      if (barrier.rank == shared_memory.selected()) barrier.from_outside.exit_thread();
  }

  // All threads of a block have exited.
  void finish_block(unsigned rank) const {
    for (const Mbarrier& barrier : barriers_)
      if (barrier.rank == rank && !barrier.from_outside.empty()) {
        const Access& first = barrier.from_outside.any();
        fail("crash", first.place.location(), "%s arrives at %s, and nothing orders that before block %u exits: its shared "
             "memory may be another block's by then", cluster.where(clocks.thread_of(first)).c_str(), barrier.text().c_str(),
             cluster.first_block + rank);
      }
  }

  // The running thread waits for the end of a phase of that parity.
  void wait(void* address, unsigned parity, unsigned line) {
    Mbarrier& barrier = checked(address, line);
    if (parity > 1) fail("crash", {line}, "%s waits for parity %u of %s", block.where().c_str(), parity, barrier.text().c_str());
    if (barrier.parity() == parity) block.wait_for(State::at_mbarrier, 2 * barrier.number + parity, line);
    barrier.acquired = barrier.phase;
    clocks.acquire(block.index(), barrier.complete);
  }

  // For a load by the running thread. `fenced`, where accesses are watched, has to cover its initialisation.
  Mbarrier& for_load(void* address, const Clock& fenced, unsigned line) {
    Mbarrier& barrier = checked(address, line);
    if (watching && !fenced.covers(barrier.init))
      fail("race", {line}, "%s: TMA uses %s, whose initialisation at %s no fence_mbarrier_init covers", block.where().c_str(),
           barrier.text().c_str(), barrier.init.place.text().c_str());
    return barrier;
  }

  Mbarrier& operator[](unsigned number) { return barriers_[number]; }

  // Bytes of a load are there. Returns the phase that they count in.
  unsigned land(Mbarrier& barrier, uint32_t operation, unsigned bytes, unsigned line) {
    const unsigned phase = barrier.phase;
    barrier.landed.push_back(operation);
    expect(barrier, -long(bytes), line);
    settle(barrier);
    return phase;
  }

  // What a thread waits for: `stop` is twice the number, and the parity.
  std::string describe(unsigned stop) const {
    const Mbarrier& barrier = barriers_[stop / 2];
    std::string text = "phase " + std::to_string(barrier.phase) + " (parity " + std::to_string(stop % 2) + ") of " + barrier.text();
    text += ", where " + std::to_string(barrier.missing) + " of " + std::to_string(barrier.count) + " arrivals";
    if (barrier.bytes > 0) text += " and " + std::to_string(barrier.bytes) + " bytes";
    text += " are missing";
    if (barrier.bytes < 0) text += ", and " + std::to_string(-barrier.bytes) + " bytes came that it does not expect";
    return text;
  }

 private:
  Mbarrier* find(const unsigned char* address) {
    for (Mbarrier& barrier : barriers_)
      if (barrier.address == address) return &barrier;
    return nullptr;
  }

  static void check_address(const unsigned char* address, unsigned line) {
    if (reinterpret_cast<uintptr_t>(address) % MBARRIER_BYTES != 0 || !shared_memory.contains(address, MBARRIER_BYTES))
      fail("crash", {line}, "%s: an mbarrier that is no 8 aligned bytes of shared memory (%s)", block.where().c_str(),
           describe_address(address).c_str());
  }

  Mbarrier& checked(void* raw_address, unsigned line) {
    auto* const address = static_cast<unsigned char*>(raw_address);
    check_address(address, line);
    Mbarrier* const barrier = find(address);
    if (barrier == nullptr)
      fail("crash", {line}, "%s uses the mbarrier at %s, which no thread has initialised", block.where().c_str(),
           describe_address(address).c_str());
    if (!clocks.before(barrier->init))
      fail("race", {line}, "%s uses %s, and nothing orders that after its initialisation at %s", block.where().c_str(),
           barrier->text().c_str(), barrier->init.place.text().c_str());
    const uint64_t content = CONTENT + barrier->number;
    if (std::memcmp(address, &content, sizeof content) != 0)
      fail("crash", {line}, "%s uses %s, where something else has been stored since", block.where().c_str(),
           barrier->text().c_str());
    if (watching) races.reduction(address, MBARRIER_BYTES, Place::line(line));  // ordinary accesses race with it
    return *barrier;
  }

  static void expect(Mbarrier& barrier, long bytes, unsigned line) {
    barrier.bytes += bytes;
    if (std::abs(barrier.bytes) > MOST_TRANSACTION_BYTES)
      fail("crash", {line}, "%ld bytes are more than an mbarrier counts", std::abs(barrier.bytes));
  }

  // Whether the phase is over.
  static void settle(Mbarrier& barrier) {
    if (barrier.missing > 0 || barrier.bytes != 0) return;
    for (uint32_t operation : barrier.landed) clocks.complete_load(operation, barrier.agent, barrier.released);
    join(barrier.complete, barrier.released);
    barrier.released = {};
    barrier.landed.clear();
    barrier.missing = barrier.count;
    const unsigned parity = barrier.parity();
    ++barrier.phase;
    block.release(State::at_mbarrier, 2 * barrier.number + parity);
  }

  std::deque<Mbarrier> barriers_;  // of the block, where they stay
};

}  // namespace gemmgen
