// A launch: as the driver sends it, and as the machine runs it.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "allocations.hpp"
#include "failure.hpp"

namespace gemmgen {

// Laid out as gemmgen/run/emulator/server.py packs it.
struct Request {
  uint64_t seed;
  uint64_t blocks_offset;  // in the shared file: the indices of the blocks to run, in their order
  uint32_t block_count;
  uint32_t grid;
  uint32_t threads;
  uint32_t shared_bytes;
  uint32_t workers;
  uint32_t timeout_ms;
  uint8_t quiet;
  uint8_t dependent;
  uint8_t watch;
  uint8_t unused;
  uint32_t cluster;
  uint32_t element_bytes;
  uint32_t operand_count;    // whose Placements follow the Request,
  uint32_t argument_count;   // then the Parameters of so many arguments,
  uint32_t argument_bytes;   // then these, a pointer as the number of its operand,
  uint32_t entry_bytes;      // then the kernel's name
  uint32_t unused_too;
  uint64_t products;         // of a batch of pointers, else 0
  uint64_t matrices_offset;  // in the shared file: see Allocations
};

static_assert(sizeof(Request) == 88, "the driver packs as many bytes: Request.pack in gemmgen/run/emulator/server.py");

// A parameter of the kernel, as the launch passes it.
struct Parameter {
  char kind;  // p(ointer), i(nteger), f(loating point) or s(truct) by value; m, a tensor map, is a struct for the kernel
  unsigned char alignment;
  unsigned short bytes;
};

static_assert(sizeof(Parameter) == 4, "the driver packs as many bytes");

struct Argument {
  char kind;
  unsigned alignment;
  unsigned bytes;
  unsigned offset;  // in Launch::parameters
};

// What the kernel prints. Any thread may add to it; what goes beyond the limit is dropped.
class Printed {
 public:
  static constexpr std::size_t MOST_BYTES = 64 * 1024;

  void add(std::string_view text) {
    const std::lock_guard<std::mutex> alone(mutex_);
    text_.append(text.substr(0, MOST_BYTES - text_.size()));
  }
  std::string text() const {
    const std::lock_guard<std::mutex> alone(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

// seed           what a GPU is free to do: see EmulatorExecutor
// approximations which of the results that the ISA allows: a GPU gives one launch the same ones each time
// grid, threads  blocks of the grid, threads of a block
// cluster        blocks of a cluster; these are beside each other in `blocks`
// shared_bytes   of dynamic shared memory
// workers        threads that may share the blocks
// timeout_ms     of processor time, of all threads together
// element_bytes  the least that shared memory holds: of an operand, or a sum
// quiet          what the kernel prints goes nowhere
// dependent      it may start before the kernel ahead of it has ended
// watch          whether races are judged
// entry          the kernel's name in the PTX
// blocks         those to run, in their order
// parameters     as CUDA packs them, with addresses of operands in them; of a tensor map TiledTensor.pack's record
// arguments      where each is in there
struct Launch {
  uint64_t seed = 0;
  uint64_t approximations = 0;
  uint32_t grid = 1;
  uint32_t threads = 1;
  uint32_t cluster = 1;
  uint32_t shared_bytes = 0;
  uint32_t workers = 1;
  uint32_t timeout_ms = 0;
  uint32_t element_bytes = 1;
  bool quiet = false;
  bool dependent = false;
  bool watch = false;
  std::string entry;
  std::vector<uint32_t> blocks;
  std::vector<unsigned char> parameters;
  std::vector<Argument> arguments;
  Allocations allocations;
  Printed printed;
  // Set once the processor time is over: whoever runs the launch then throws what `fail_late` does, within two seconds.
  std::atomic<bool> expired = false;

  // `where` is "block 3, thread 5". The driver reads what stands before " still runs".
  [[noreturn]] void fail_late(const std::string& where, const std::string& place) const {
    fail("timeout", "%s still runs after %g s of processor time (%s)", where.c_str(), timeout_ms / 1000.0, place.c_str());
  }
};

// The bytes of a message, in turn. Throws Failure: unjudged, where they end early.
class Message {
 public:
  explicit Message(std::vector<unsigned char> bytes) : bytes_(std::move(bytes)) {}

  void read(void* into, std::size_t bytes) {
    if (bytes > bytes_.size() - next_) fail("unjudged", "a message to the interpreter ends after %zu bytes", bytes_.size());
    if (bytes > 0) std::memcpy(into, bytes_.data() + next_, bytes);
    next_ += bytes;
  }
  template <typename T>
  T read() {
    T value;
    read(&value, sizeof value);
    return value;
  }
  template <typename T>
  std::vector<T> list(std::size_t count) {
    if (count > bytes_.size()) read(nullptr, bytes_.size() + 1);
    std::vector<T> items(count);
    read(items.data(), count * sizeof(T));
    return items;
  }
  std::string text(std::size_t bytes) {
    const std::vector<char> letters = list<char>(bytes);
    return {letters.begin(), letters.end()};
  }
  // Behind its length.
  std::string text() { return text(read<uint32_t>()); }

 private:
  std::vector<unsigned char> bytes_;
  std::size_t next_ = 0;
};

// Puts addresses in the place of operands' numbers; a tensor map begins with one.
inline void place_arguments(Launch& launch, const std::vector<Parameter>& taken) {
  unsigned offset = 0;
  for (const Parameter& one : taken) {
    const unsigned alignment = std::max<unsigned>(one.alignment, 1);
    offset = (offset + alignment - 1) / alignment * alignment;
    if (offset + one.bytes > launch.parameters.size()) fail("unjudged", "arguments have more bytes than are sent");
    launch.arguments.push_back({one.kind, alignment, one.bytes, offset});
    if (one.kind == 'p' || one.kind == 'm') {
      unsigned char* const place = launch.parameters.data() + offset;
      uint64_t number = 0;
      std::memcpy(&number, place, std::min<std::size_t>(one.bytes, sizeof number));
      if (number >= launch.allocations.size()) fail("unjudged", "there is no operand %llu", static_cast<unsigned long long>(number));
      const uint64_t pointer = launch.allocations[number].pointer();
      std::memcpy(place, &pointer, std::min<std::size_t>(one.bytes, sizeof pointer));
    }
    offset += one.bytes;
  }
}

// A number that these bytes decide, and 0 for some of them (FNV-1a).
inline uint64_t mixed(const std::vector<unsigned char>& bytes) {
  uint64_t sum = 0xCBF29CE484222325;
  for (unsigned char byte : bytes) sum = (sum ^ byte) * 0x100000001B3;
  return (sum >> 32) % 4 == 0 ? 0 : sum;
}

// Fills `launch` by a message; `file` holds what it shares with the driver. Throws Failure: unjudged.
inline void receive_launch(Launch& launch, Message& message, int file) {
  const Request request = message.read<Request>();
  launch.seed = request.seed;
  launch.grid = request.grid;
  launch.threads = request.threads;
  launch.cluster = request.cluster;
  launch.shared_bytes = request.shared_bytes;
  launch.workers = request.workers;
  launch.timeout_ms = request.timeout_ms;
  launch.element_bytes = request.element_bytes;
  launch.quiet = request.quiet != 0;
  launch.dependent = request.dependent != 0;
  launch.watch = request.watch != 0;
  const auto placements = message.list<Placement>(request.operand_count);
  const auto parameters = message.list<Parameter>(request.argument_count);
  launch.parameters = message.list<unsigned char>(request.argument_bytes);
  launch.approximations = mixed(launch.parameters);
  launch.entry = message.text(request.entry_bytes);
  launch.allocations = Allocations(placements, file, request.seed, request.products, request.matrices_offset);
  place_arguments(launch, parameters);
  if (request.block_count == 0) return;
  const uint64_t bytes = request.block_count * sizeof(uint32_t);  // the driver puts the list at the start of a page
  Reservation list("the list of blocks", bytes);
  list.map(list.start(), bytes, false, file, request.blocks_offset);
  const auto* const first = reinterpret_cast<const uint32_t*>(list.start());
  launch.blocks.assign(first, first + request.block_count);
}

}  // namespace gemmgen
