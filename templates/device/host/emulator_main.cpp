// The server that a kernel is linked into: runs the launches that the driver sends until the
// driver closes the pipe. Requests on standard input, other files as descriptors.hpp numbers them.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>  // before the macros of gemmgen_emulator.hpp
#include <string>
#include <type_traits>
#include <vector>

#include "block.hpp"
#include "call_filter.hpp"
#include "counters.hpp"
#include "descriptors.hpp"
#include "failure.hpp"
#include "faults.hpp"
#include "gemmgen_emulator.hpp"
#include "hopper_runtime.hpp"
#include "kernel_entry.hpp"
#include "launch.hpp"
#include "pointer_arrays.hpp"
#include "race_callbacks.hpp"
#include "races.hpp"
#include "sanitizer.hpp"
#include "shared_memory.hpp"
#include "tensor_core.hpp"

// Before the static shared arrays, so that what lies behind these is nothing that a kernel may read.
__attribute__((section(".data"))) uint3 threadIdx, blockIdx;
__attribute__((section(".data"))) dim3 blockDim, gridDim;

namespace gemmgen {

namespace {

Request request;
std::vector<Placement> placements;
std::vector<Parameter> parameters;
std::vector<unsigned char> arguments;
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
T replace(T* address, int line, Change change) {
  check_atomic(address, line);
  auto* const place = reinterpret_cast<std::atomic<T>*>(address);
  runtime_line = unsigned(line);
  T old = place->load();
  while (!place->compare_exchange_weak(old, change(old))) {
  }
  runtime_line = 0;
  return old;
}

template <typename T, typename Change>
T update(T* address, int line, Change change) {
  const T old = replace(address, line, change);
  races.atomic(reinterpret_cast<const unsigned char*>(address), sizeof *address, Place::line(unsigned(line)), std::is_integral<T>::value);
  return old;
}

// The same where nothing is ordered by it.
template <typename T, typename Change>
T reduce(T* address, int line, Change change) {
  const T old = replace(address, line, change);
  races.reduction(reinterpret_cast<const unsigned char*>(address), sizeof *address, Place::line(unsigned(line)));
  return old;
}

// As the f32 atomics of GPUs take them: denormal numbers are zeros.
float flushed(float value) { return std::fabs(value) < std::numeric_limits<float>::min() ? std::copysign(0.0f, value) : value; }

}  // namespace

// The kernel's side of the runtime.
void block_barrier(int line) { block.block_barrier(unsigned(line)); }
unsigned block_vote(bool vote, int line) { return block.block_vote(vote, unsigned(line)); }

void broken_assumption(const char* condition, int line) {
  fail("crash", {unsigned(line)}, "%s: __builtin_assume(%s) is false", block.where().c_str(), condition);
}

unsigned lane() { return block.lane(); }
void commit_copies() { block.running().copies.commit(); }
void wait_for_copies(int groups_left) { block.running().copies.wait(unsigned(groups_left)); }

void named_barrier(unsigned number, unsigned threads, bool waits, int line) {
  block.named_barrier(number, threads, waits, unsigned(line));
}

void warp_collective(unsigned mask, void* operand, Combine combine, int line) {
  block.warp_collective(mask, operand, combine, unsigned(line));
}

namespace {

struct Exchange {
  const void* value;
  void* received;
  std::size_t bytes;
  unsigned source_lane;
};

// Every lane receives its source lane's value; poison if that lane takes no part.
void exchange(void* const* operands) {
  for (unsigned lane = 0; lane < WARP; ++lane) {
    const auto* const to = static_cast<const Exchange*>(operands[lane]);
    if (to == nullptr) continue;
    const auto* const from = to->source_lane < WARP ? static_cast<const Exchange*>(operands[to->source_lane]) : nullptr;
    if (from != nullptr && from->bytes == to->bytes) std::memcpy(to->received, from->value, to->bytes);
    else std::memset(to->received, POISON, to->bytes);
  }
}

struct Vote {
  bool vote;
  unsigned lanes;  // that say yes
};

void count_votes(void* const* operands) {
  unsigned lanes = 0;
  for (unsigned lane = 0; lane < WARP; ++lane)
    if (const auto* const vote = static_cast<const Vote*>(operands[lane])) lanes |= unsigned(vote->vote) << lane;
  for (unsigned lane = 0; lane < WARP; ++lane)
    if (auto* const vote = static_cast<Vote*>(operands[lane])) vote->lanes = lanes;
}

}  // namespace

void warp_exchange(unsigned mask, const void* value, void* received, size_t bytes, unsigned source_lane, int line) {
  Exchange operand = {value, received, bytes, source_lane};
  block.warp_collective(mask, &operand, exchange, unsigned(line));
}

unsigned warp_vote(unsigned mask, bool vote, int line) {
  Vote operand = {vote, 0};
  block.warp_collective(mask, &operand, count_votes, unsigned(line));
  return operand.lanes;
}

namespace {

constexpr unsigned ALL_LANES = ~0u;
constexpr unsigned MATRIX_ROWS = 8, MATRIX_ROW_BYTES = 16;

// What a lane brings to ldmatrix or stmatrix: its registers and a row of a matrix.
struct MatrixRows {
  unsigned* registers;
  unsigned count;
  bool transposed;
  int line;
  unsigned char row[MATRIX_ROW_BYTES];
};

// Which lanes take part is as for a shuffle, but nothing is ordered by it; and all of the warp's must.
void matrix_instruction(void* operand, Combine combine, int line) {
  block.warp_collective(ALL_LANES, operand, combine, unsigned(line), Order::none);
}

template <typename Operand>
void require_whole_warp(void* const* operands) {
  const auto missing = std::find(operands, operands + WARP, nullptr);
  if (missing == operands + WARP) return;
  const auto present = std::find_if(operands, operands + WARP, [](const void* operand) { return operand != nullptr; });
  fail("crash", {unsigned(static_cast<const Operand*>(*present)->line)},
       "%s: lane %zu has exited and takes no part in what the whole warp has to do", block.where().c_str(),
       std::size_t(missing - operands));
}

void multiply(void* const* operands) {
  require_whole_warp<MatrixOperand>(operands);
  static TensorCore tensor_core;
  tensor_core.run(reinterpret_cast<MatrixOperand* const*>(operands));
}

// Calls `visit` with the rows' bytes of each element that a lane's registers hold, two for each, and those.
template <typename Visit>
void each_element(void* const* operands, Visit visit) {
  const auto of = [&](unsigned lane) -> MatrixRows& { return *static_cast<MatrixRows*>(operands[lane]); };
  for (unsigned lane = 0; lane < WARP; ++lane)
    for (unsigned i = 0; i < of(lane).count; ++i)
      for (unsigned half = 0; half < 2; ++half) {
        const unsigned across = lane / 4, along = 2 * (lane % 4) + half;
        const unsigned row = of(0).transposed ? along : across, column = of(0).transposed ? across : along;
        visit(of(MATRIX_ROWS * i + row).row + 2 * column, reinterpret_cast<unsigned char*>(of(lane).registers + i) + 2 * half);
      }
}

void distribute_rows(void* const* operands) {
  require_whole_warp<MatrixRows>(operands);
  each_element(operands, [](const unsigned char* row, unsigned char* held) { std::memcpy(held, row, 2); });
}

void collect_rows(void* const* operands) {
  require_whole_warp<MatrixRows>(operands);
  each_element(operands, [](unsigned char* row, const unsigned char* held) { std::memcpy(row, held, 2); });
}

// The row's address, of a lane that gives one.
unsigned char* checked_row(const void* row, const char* what, int line) {
  auto* const address = static_cast<unsigned char*>(const_cast<void*>(row));
  const auto refuse = [&](const char* why) {
    fail("crash", {unsigned(line)}, "%s: %s %s (%s)", block.where().c_str(), what, why, describe_address(address).c_str());
  };
  if (!shared_memory.contains(address, MATRIX_ROW_BYTES)) refuse("of a row outside shared memory");
  if (!aligned(address, MATRIX_ROW_BYTES)) refuse("of a row at an address that 16 does not divide");
  return address;
}

}  // namespace

void multiply_matrices(const MatrixInstruction& instruction, void* d, const void* a, const void* b, int line) {
  MatrixOperand operand = {&instruction, d, a, b, line};
  matrix_instruction(&operand, multiply, line);
}

void load_matrices(unsigned* registers, unsigned count, bool transposed, const void* row, int line) {
  MatrixRows operand = {registers, count, transposed, line, {}};
  if (block.lane() < MATRIX_ROWS * count) {
    const unsigned char* const address = checked_row(row, "ldmatrix", line);
    if (watching) races.read(address, MATRIX_ROW_BYTES, Place::line(unsigned(line)));
    std::memcpy(operand.row, address, MATRIX_ROW_BYTES);
  }
  matrix_instruction(&operand, distribute_rows, line);
}

void store_matrices(const unsigned* registers, unsigned count, bool transposed, void* row, int line) {
  MatrixRows operand = {const_cast<unsigned*>(registers), count, transposed, line, {}};
  matrix_instruction(&operand, collect_rows, line);
  if (block.lane() >= MATRIX_ROWS * count) return;
  unsigned char* const address = checked_row(row, "stmatrix", line);
  if (watching) races.write(address, MATRIX_ROW_BYTES, Place::line(unsigned(line)));
  std::memcpy(address, operand.row, MATRIX_ROW_BYTES);
}

}  // namespace gemmgen

#include "wmma_runtime.hpp"

namespace gemmgen {

// What an atomic makes of the value that stands there. Whole numbers wrap around.
namespace changed {

template <typename T>
T atomic_add(T old, T value) {
  using Wrapping = std::make_unsigned_t<T>;
  return T(Wrapping(old) + Wrapping(value));
}
float atomic_add(float old, float value) { return flushed(flushed(old) + flushed(value)); }
double atomic_add(double old, double value) { return old + value; }

template <typename T>
T atomic_sub(T old, T value) {
  return atomic_add(old, T(0u - std::make_unsigned_t<T>(value)));
}

template <typename T> T atomic_exch(T, T value) { return value; }
template <typename T> T atomic_and(T old, T value) { return old & value; }
template <typename T> T atomic_or(T old, T value) { return old | value; }
template <typename T> T atomic_xor(T old, T value) { return old ^ value; }
template <typename T> T atomic_min(T old, T value) { return std::min(old, value); }
template <typename T> T atomic_max(T old, T value) { return std::max(old, value); }
unsigned atomic_inc(unsigned old, unsigned limit) { return old >= limit ? 0 : old + 1; }
unsigned atomic_dec(unsigned old, unsigned limit) { return old == 0 || old > limit ? limit : old - 1; }

}  // namespace changed

#define GEMMGEN_ATOMIC(cuda, runtime, type)                                                     \
  type runtime(type* address, type value, int line) {                                           \
    return update(address, line, [&](type old) -> type { return changed::runtime(old, value); }); \
  }
#define GEMMGEN_REDUCTION(cuda, runtime, type)                                                  \
  type runtime(type* address, type value, int line) {                                           \
    return reduce(address, line, [&](type old) -> type { return changed::runtime(old, value); }); \
  }
#define GEMMGEN_EXCHANGE(type)                                                                  \
  type atomic_cas(type* address, type compare, type value, int line) {                          \
    return update(address, line, [&](type old) -> type { return old == compare ? value : old; }); \
  }
GEMMGEN_ATOMICS(GEMMGEN_ATOMIC)
GEMMGEN_REDUCTIONS(GEMMGEN_REDUCTION)
GEMMGEN_EXCHANGES(GEMMGEN_EXCHANGE)
#undef GEMMGEN_ATOMIC
#undef GEMMGEN_REDUCTION
#undef GEMMGEN_EXCHANGE

void fence() { races.fence(); }

void read_only(const void* address, size_t bytes, int line) {
  races.read_only(static_cast<const unsigned char*>(address), bytes, Place::line(unsigned(line)));
}

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
  if (valid_bytes > 0)
    races.read_global(static_cast<const unsigned char*>(global), std::size_t(valid_bytes), Place::line(unsigned(line)));
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
int printed = -1;  // standard output

void run_thread() {
  alignas(ARGUMENT_ALIGNMENT) unsigned char copy[MAX_ARGUMENT_BYTES];  // where a kernel may read them: on its stack
  std::memcpy(copy, arguments.data(), arguments.size());
  gemmgen_kernel_call(copy);
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
  own_sites();
  run_blocks(blocks, [] {});
  join_sites();
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
  const auto is_written = [](const DeviceVariable& variable) { return variable.written; };
  const DeviceVariable* const end = gemmgen_device_variables + gemmgen_device_variable_count;
  // Processes do not share what the kernel has at file scope.
  const unsigned workers = std::any_of(gemmgen_device_variables, end, is_written) ? 1 : request.workers;
  std::vector<pid_t> helpers;
  *next_block = 0;
  run_blocks(blocks, [&] {
    if (!helpers.empty() || std::chrono::steady_clock::now() - start < ALONE) return;
    const uint32_t left = request.block_count - std::min(next_block->load(), request.block_count);
    while (helpers.size() + 1 < workers && helpers.size() < left) {
      const pid_t helper = start_helper(blocks);
      if (helper < 0) break;  // no more processes: the work is done with fewer
      helpers.push_back(helper);
    }
  });
  for (pid_t helper : helpers) join(helper);
}

// "p8 i4 s128": the kinds and the bytes of a signature.
std::string signature(const Parameter* parameters, unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i)
    text += (i == 0 ? "" : " ") + std::string(1, parameters[i].kind == 'm' ? 's' : parameters[i].kind) +
            std::to_string(parameters[i].bytes);
  return text;
}

void check_parameters() {
  const std::string takes = signature(gemmgen_kernel_parameters, gemmgen_kernel_parameter_count);
  const std::string given = signature(parameters.data(), request.argument_count);
  if (takes != given)
    fail("launch", {}, "the kernel takes the parameters \"%s\" and is launched with \"%s\" (p(ointer), i(nteger), f(loat) or "
                       "s(truct) with its bytes)", takes.c_str(), given.c_str());
  for (unsigned i = 0; i < request.argument_count; ++i)
    if (gemmgen_kernel_parameters[i].alignment != parameters[i].alignment)
      fail("launch", {}, "the kernel aligns parameter %u to %u bytes, the launch to %u", i,
           gemmgen_kernel_parameters[i].alignment, parameters[i].alignment);
}

// Puts addresses in the place of operands' numbers; a tensor map begins with one.
void place_pointers() {
  for (unsigned i = 0; i < request.argument_count; ++i) {
    if (parameters[i].kind != 'p' && parameters[i].kind != 'm') continue;
    unsigned char* const place = arguments.data() + offset_of(parameters.data(), i);
    uint64_t number;
    std::memcpy(&number, place, sizeof number);
    unsigned char* const pointer = operands[number].pointer();
    std::memcpy(place, &pointer, sizeof pointer);
  }
}

Region map_placement(const Placement& place) {
  const auto offset = off_t(place.offset);
  if (!place.in_pieces())
    return map_operand(place.name, ARENA, offset, place.segment_bytes, place.skew, place.bytes, place.written != 0,
                       place.before);
  const Pieces pieces = {place.matrices,    place.lines, place.stride_bytes, place.ld_bytes, place.file_stride_bytes,
                         place.file_ld_bytes};
  return map_pieces(place.name, ARENA, offset, place.segment_bytes, place.skew, place.bytes, place.written != 0, pieces);
}

void map_operands() {
  for (const Placement& place : placements) {
    Region region = map_placement(place);
    const uint64_t stride_bytes = place.array ? 0 : place.stride_bytes;  // each matrix of an array is one by itself
    if (place.line_bytes > 0)
      region.geometry = {place.element_bytes, place.line_bytes, place.ld_bytes, place.span_bytes, stride_bytes,
                         place.by_rows != 0};
    operands.push_back({std::move(region), {}, place.element_bytes, place.written != 0, place.holds_values != 0,
                        place.before});
  }
  for (unsigned i = 0; i < gemmgen_device_variable_count; ++i) {
    const DeviceVariable& variable = gemmgen_device_variables[i];
    auto* const start = static_cast<unsigned char*>(variable.address);
    Region region = {variable.name, start, start + variable.bytes, start, variable.bytes, nullptr, {}};
    operands.push_back({std::move(region), {}, variable.bytes & -variable.bytes, variable.written, true, 0});
  }
  if (request.products == 0) return;
  const auto has_array = [](const Placement& place) { return place.array != 0; };
  const auto arrays = std::size_t(std::count_if(placements.begin(), placements.end(), has_array));
  const std::size_t bytes = arrays * request.products * sizeof(uint64_t);
  void* const table = map(nullptr, bytes, PROT_READ, MAP_SHARED, ARENA, off_t(request.matrices_offset));
  const auto* offsets = static_cast<const uint64_t*>(table);
  for (std::size_t i = 0; i < placements.size(); ++i) {
    if (!has_array(placements[i])) continue;
    map_pointers(operands[i], placements[i].matrix_bytes, offsets, request);
    offsets += request.products;
  }
  munmap(table, bytes);
}

void unmap_operands() {
  for (std::size_t i = 0; i < placements.size(); ++i) {  // what follows are the kernel's own variables
    unmap(operands[i].region);
    unmap(operands[i].array);
  }
  operands.clear();
}

void prepare_launch() {
  check_parameters();
  if (request.threads > gemmgen_kernel_most_threads)
    fail("launch", {}, "blocks of %u threads are more than the kernel's __launch_bounds__ of %u: a GPU refuses them",
         request.threads, gemmgen_kernel_most_threads);
  map_operands();
  place_pointers();
  shared_memory.resize_dynamic(request.shared_bytes);
  races.start_launch(request.threads, request.element_bytes);
  blockDim.x = request.threads;
  gridDim.x = request.grid;
  copies_land_late = lands_late(request.seed);
  launch_seed = request.seed;
  if (asynchronous != nullptr) asynchronous->start_launch(request.seed);
  timeout_ms = request.timeout_ms;
}

void serve_launch() {
  prepare_launch();
  const std::size_t list_bytes = request.block_count * sizeof(uint32_t);
  void* blocks = map(nullptr, list_bytes, PROT_READ, MAP_SHARED, ARENA, off_t(request.blocks_offset));
  set_alarm(request.timeout_ms);
  dup2(request.quiet ? NOWHERE : printed, STDOUT_FILENO);
  run_grid(static_cast<const uint32_t*>(blocks));
  set_alarm(0);
  munmap(blocks, list_bytes);
  unmap_operands();
  std::fflush(nullptr);  // what the kernel printed
  reply_success();
}

bool receive(void* data, std::size_t bytes) {
  std::size_t received = 0;
  while (received < bytes) {
    const ssize_t some = read(STDIN_FILENO, static_cast<char*>(data) + received, bytes - received);
    if (some <= 0) return false;
    received += std::size_t(some);
  }
  return true;
}

template <typename T>
bool receive(std::vector<T>& items, std::size_t count) {
  items.resize(count);
  return receive(items.data(), count * sizeof(T));
}

bool receive_request() {
  if (!receive(&request, sizeof request)) return false;
  return receive(placements, request.operand_count) && receive(parameters, request.argument_count) &&
         receive(arguments, request.argument_bytes);
}

// Before the initialisers of the kernel's text: from here on no file is opened.
__attribute__((constructor(101))) void guard() {
  catch_faults();
  CallFilter filter;
  for (const Call& call : CALLS_TOLD)
    if (call.opens) filter.on(call.number, TOLD);
  filter.install(ALLOWED);
}

}  // namespace

}  // namespace gemmgen

int main() {
  using namespace gemmgen;
  printed = dup(STDOUT_FILENO);
  next_block = static_cast<std::atomic<uint32_t>*>(
      map(nullptr, sizeof *next_block, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS));
  shared_memory.protect_gaps();
  share_sites();
  while (receive_request()) serve_launch();
  return 0;
}
