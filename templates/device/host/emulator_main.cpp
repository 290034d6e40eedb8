// The server that a kernel is linked into: runs the launches that the driver sends until the
// driver closes the pipe. `emulator FILE_DESCRIPTOR REPLY_DESCRIPTOR`, requests on standard input.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "block.hpp"
#include "failure.hpp"
#include "faults.hpp"
#include "gemmgen_emulator.hpp"
#include "kernel_entry.hpp"
#include "launch.hpp"
#include "pointer_arrays.hpp"
#include "race_callbacks.hpp"
#include "races.hpp"
#include "sanitizer.hpp"
#include "shared_memory.hpp"

// Before the static shared arrays, so that what lies behind these is nothing that a kernel may read.
__attribute__((section(".data"))) uint3 threadIdx, blockIdx;
__attribute__((section(".data"))) dim3 blockDim, gridDim;

namespace gemmgen {

namespace {

Request request;
bool copies_land_late = true;

bool aligned(const void* address, int bytes) { return reinterpret_cast<uintptr_t>(address) % unsigned(bytes) == 0; }

// To the byte: guard pages see less.
void check_operand(const void* raw_address, std::size_t bytes, const char* verb, int line) {
  const auto* const address = static_cast<const unsigned char*>(raw_address);
  const Region* const region = region_near(address);
  if (region != nullptr && !region->contains(address, bytes))
    fail("crash", {unsigned(line)}, "%s %s %s", block.where().c_str(), verb, region->describe(address).c_str());
}

template <typename T>
void check_atomic(const T* address, int line) {
  if (!aligned(address, sizeof *address))
    fail("crash", {unsigned(line)}, "%s: an atomic on a misaligned address (%s)", block.where().c_str(),
         describe_address(reinterpret_cast<const unsigned char*>(address)).c_str());
  check_operand(address, sizeof *address, "updates", line);
}

// Replaces what stands there by what `change` makes of it, and returns the former. Other processes may do so, too.
template <typename T, typename Change>
T update(T* address, int line, Change change) {
  check_atomic(address, line);
  auto* const place = reinterpret_cast<std::atomic<T>*>(address);
  runtime_line = unsigned(line);
  T old = place->load();
  while (!place->compare_exchange_weak(old, change(old))) {
  }
  runtime_line = 0;
  races.atomic(address, sizeof *address, Place::line(unsigned(line)));
  return old;
}

// As the f32 atomics of GPUs take them: denormal numbers are zeros.
float flushed(float value) { return std::fabs(value) < std::numeric_limits<float>::min() ? std::copysign(0.0f, value) : value; }

}  // namespace

// The kernel's side of the runtime.
void block_barrier(int line) { block.block_barrier(unsigned(line)); }
void warp_barrier(unsigned mask, int line) { block.warp_barrier(mask, unsigned(line)); }
unsigned lane() { return block.lane(); }
void commit_copies() { block.running().copies.commit(); }
void wait_for_copies(int groups_left) { block.running().copies.wait(unsigned(groups_left)); }

uint64_t warp_exchange(unsigned mask, uint64_t value, unsigned source_lane, int line) {
  return block.warp_exchange(mask, value, source_lane, unsigned(line));
}

// CUDA's atomicInc: counts to `limit` and starts again from 0.
unsigned atomic_increment(unsigned* address, unsigned limit, int line) {
  return update(address, line, [&](unsigned old) { return old >= limit ? 0 : old + 1; });
}

unsigned atomic_add(unsigned* address, unsigned value, int line) {
  return update(address, line, [&](unsigned old) { return old + value; });
}

float atomic_add(float* address, float value, int line) {
  return update(address, line, [&](float old) { return flushed(flushed(old) + flushed(value)); });
}

double atomic_add(double* address, double value, int line) {
  return update(address, line, [&](double old) { return old + value; });
}

void fence() { races.fence(); }

unsigned char* dynamic_shared_memory(int line) {
  if (shared_memory.dynamic().bytes == 0)
    fail("launch", {unsigned(line)}, "the kernel uses dynamic shared memory and is launched with none");
  return shared_memory.dynamic().data;
}

namespace {

[[noreturn]] void refuse_copy(int bytes, const char* what, const void* address, int line) {
  fail("crash", {unsigned(line)}, "%s: cp_async of %d bytes %s (%s)", block.where().c_str(), bytes, what,
       describe_address(static_cast<const unsigned char*>(address)).c_str());
}

void check_copy(const void* shared, const void* global, int bytes, int valid_bytes, int line) {
  if (valid_bytes < 0 || valid_bytes > bytes) refuse_copy(bytes, "with a wrong count of valid bytes", global, line);
  if (!aligned(shared, bytes)) refuse_copy(bytes, "with a misaligned shared address", shared, line);
  if (!aligned(global, bytes)) refuse_copy(bytes, "with a misaligned global address", global, line);
  if (!shared_memory.contains(static_cast<const unsigned char*>(shared), std::size_t(bytes)))
    refuse_copy(bytes, "writes outside shared memory", shared, line);
  if (valid_bytes > 0) check_operand(global, std::size_t(valid_bytes), "reads", line);
}

}  // namespace

void copy_async(void* shared, const void* global, int bytes, int valid_bytes, int line) {
  check_copy(shared, global, bytes, valid_bytes, line);
  AsyncCopy copy = {static_cast<unsigned char*>(shared), unsigned(bytes), 0, false, {}};
  runtime_line = unsigned(line);
  std::memcpy(copy.data, global, std::size_t(valid_bytes));
  runtime_line = 0;
  races.start_copy(shared, std::size_t(bytes), Place::line(unsigned(line)));
  block.running().copies.issue(copy, !copies_land_late);
}

namespace {

constexpr auto ALONE = std::chrono::milliseconds(3);  // a launch that takes longer gets helpers

std::atomic<uint32_t>* next_block = nullptr;  // shared with the helpers
int arena = -1;
int printed = -1;  // standard output
int nowhere = -1;

void run_thread() {
  Argument arguments[MAX_ARGUMENTS];  // where a kernel may read them: on its stack
  std::memcpy(arguments, request.arguments, sizeof arguments);
  gemmgen_kernel_call(arguments);
  block.exit_thread();
}

void run_block(uint32_t index) {
  shared_memory.poison();
  block.run(run_thread, index, request.threads, request.seed);
}

// Runs the blocks that nobody has taken yet; calls `after_each` after every one.
template <typename AfterEach>
void run_blocks(const uint32_t* blocks, AfterEach after_each) {
  uint32_t place;
  while ((place = next_block->fetch_add(1)) < request.block_count) {
    run_block(blocks[place]);
    after_each();
  }
}

pid_t start_helper(const uint32_t* blocks) {
  std::fflush(nullptr);  // or the helper would print it again
  const pid_t helper = fork();
  if (helper != 0) return helper;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  set_alarm(request.timeout_ms);
  run_blocks(blocks, [] {});
  std::fflush(nullptr);
  _exit(0);
}

// A helper that failed has replied already; one that was killed has not.
void join(pid_t helper) {
  int status = 0;
  waitpid(helper, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  if (WIFEXITED(status) && WEXITSTATUS(status) == REPORTED) _exit(REPORTED);
  fail("crash", {}, "a process of the emulator was killed by signal %d", WTERMSIG(status));
}

void run_grid(const uint32_t* blocks) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<pid_t> helpers;
  *next_block = 0;
  run_blocks(blocks, [&] {
    if (!helpers.empty() || std::chrono::steady_clock::now() - start < ALONE) return;
    const uint32_t left = request.block_count - std::min(next_block->load(), request.block_count);
    while (helpers.size() + 1 < request.workers && helpers.size() < left) {
      const pid_t helper = start_helper(blocks);
      if (helper < 0) break;  // no more processes: the work is done with fewer
      helpers.push_back(helper);
    }
  });
  for (pid_t helper : helpers) join(helper);
}

void prepare_launch() {
  if (std::strncmp(request.signature, gemmgen_kernel_signature, MAX_ARGUMENTS) != 0)
    fail("launch", {}, "the kernel takes the parameters \"%s\" and is launched with \"%.*s\" (pointer, int, long, float, double)",
         gemmgen_kernel_signature, MAX_ARGUMENTS, request.signature);
  if (request.threads > gemmgen_kernel_most_threads)
    fail("launch", {}, "blocks of %u threads are more than the kernel's __launch_bounds__ of %u: a GPU refuses them",
         request.threads, gemmgen_kernel_most_threads);
  for (int i = 0; i < OPERANDS; ++i) {
    const Placement& place = request.operands[i];
    const bool writable = i >= FIRST_WRITTEN && i < END_WRITTEN;
    if (i >= END_WRITTEN && place.bytes == 0) continue;  // the epilogue names it not
    operands[i] = map_operand(OPERAND_NAMES[i], arena, off_t(place.offset), place.segment_bytes, place.skew,
                              place.bytes, writable);
  }
  if (request.products > 0) {
    const std::size_t bytes = ARRAYS * request.products * sizeof(uint64_t);
    void* const offsets = map(nullptr, bytes, PROT_READ, MAP_SHARED, arena, off_t(request.matrices_offset));
    for (int i = 0; i < ARRAYS; ++i) map_pointers(i, static_cast<uint64_t*>(offsets) + i * request.products, request);
    munmap(offsets, bytes);
  }
  for (int i = 0; request.signature[i] != '\0'; ++i) {
    if (request.signature[i] != 'p') continue;
    const long long number = request.arguments[i].integer;
    const bool array = request.products > 0 && number < ARRAYS;
    request.arguments[i].pointer = (array ? pointer_arrays[number] : operands[number]).data;
  }
  shared_memory.resize_dynamic(request.shared_bytes);
  races.start_launch();
  blockDim.x = request.threads;
  gridDim.x = request.grid;
  copies_land_late = request.seed / 2 % 2 == 0;
  timeout_ms = request.timeout_ms;
}

void serve_launch() {
  prepare_launch();
  const std::size_t list_bytes = request.block_count * sizeof(uint32_t);
  void* blocks = map(nullptr, list_bytes, PROT_READ, MAP_SHARED, arena, off_t(request.blocks_offset));
  set_alarm(request.timeout_ms);
  dup2(request.quiet ? nowhere : printed, STDOUT_FILENO);
  run_grid(static_cast<const uint32_t*>(blocks));
  set_alarm(0);
  munmap(blocks, list_bytes);
  for (Region& operand : operands) unmap(operand);
  unmap_pointers();
  std::fflush(nullptr);  // what the kernel printed
  reply_success();
}

bool receive_request() {
  std::size_t received = 0;
  while (received < sizeof request) {
    const ssize_t bytes = read(STDIN_FILENO, reinterpret_cast<char*>(&request) + received, sizeof request - received);
    if (bytes <= 0) return false;
    received += std::size_t(bytes);
  }
  return true;
}

}  // namespace

}  // namespace gemmgen

int main(int count, char** arguments) {
  using namespace gemmgen;
  if (count != 3) return 2;
  arena = std::atoi(arguments[1]);
  reply_pipe = std::atoi(arguments[2]);
  printed = dup(STDOUT_FILENO);
  nowhere = open("/dev/null", O_WRONLY);
  next_block = static_cast<std::atomic<uint32_t>*>(
      map(nullptr, sizeof *next_block, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS));
  shared_memory.protect_gaps();
  catch_faults();
  while (receive_request()) serve_launch();
  return 0;
}
