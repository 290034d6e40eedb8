// The server that a kernel is linked into: runs the launches that the driver sends until the
// driver closes the pipe. Requests on standard input, other files as descriptors.hpp numbers them.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>  // before the macros of gemmgen_emulator.hpp

#include "async_copy.hpp"
#include "atomics_runtime.hpp"
#include "block.hpp"
#include "cluster.hpp"
#include "call_filter.hpp"
#include "copy_runtime.hpp"
#include "counters.hpp"
#include "descriptors.hpp"
#include "failure.hpp"
#include "faults.hpp"
#include "gemmgen_emulator.hpp"
#include "grid.hpp"
#include "hopper_runtime.hpp"
#include "kernel_entry.hpp"
#include "mapped_operands.hpp"
#include "matrix_runtime.hpp"
#include "memory.hpp"
#include "parameters.hpp"
#include "ptx_runtime.hpp"
#include "race_callbacks.hpp"
#include "races.hpp"
#include "request.hpp"
#include "sanitizer.hpp"
#include "shared_memory.hpp"
#include "warp_runtime.hpp"
#include "wmma_runtime.hpp"

// Before the static shared arrays, so that what lies behind these is nothing that a kernel may read.
__attribute__((section(".data"))) uint3 threadIdx, blockIdx;
__attribute__((section(".data"))) dim3 blockDim, gridDim;

namespace gemmgen {

void broken_assumption(const char* condition, int line) {
  fail("crash", {unsigned(line)}, "%s: __builtin_assume(%s) is false", block.where().c_str(), condition);
}

void fence(Scope scope) { races.fence(scope); }
void grid_dependency_wait() { races.wait_for_grid_before(); }

void read_only(const void* address, size_t bytes, int line) {
  races.read_only(static_cast<const unsigned char*>(address), bytes, Place::line(unsigned(line)));
}

unsigned char* dynamic_shared_memory(int line) {
  if (shared_memory.dynamic().bytes == 0)
    fail("launch", {unsigned(line)}, "the kernel uses dynamic shared memory and is launched with none");
  return shared_memory.dynamic().data;
}

namespace {

int printed = -1;  // standard output

void set_cluster() {
  const unsigned said = launched().cluster;
  if (said != 0 && said != request.cluster)
    fail("launch", {}, "a launch in clusters of %u blocks of a kernel whose __cluster_dims__ are %u: a GPU refuses it",
         unsigned(request.cluster), said);
  cluster = {0, request.cluster, request.threads};
  if (cluster.ranks > MAX_RANKS || (cluster.ranks > 1 && cluster.count() > MAX_THREADS))
    fail("unjudged", {}, "clusters of %u blocks of %u threads are not emulated: %u threads are", cluster.ranks, cluster.threads,
         MAX_THREADS);
}

void prepare_launch() {
  check_parameters();
  if (request.threads > launched().most_threads)
    fail("launch", {}, "blocks of %u threads are more than the kernel's __launch_bounds__ of %u: a GPU refuses them",
         request.threads, launched().most_threads);
  set_cluster();
  map_operands();
  place_pointers();
  shared_memory.resize_dynamic(request.shared_bytes, request.seed);
  races.start_launch(request.element_bytes, request.dependent != 0);
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

// Its environment is empty, and what a kernel computes hangs on none.
extern "C" char* getenv(const char* name) noexcept {
  if (gemmgen::block.in_kernel())
    gemmgen::fail("crash", {}, "%s reads the environment (getenv of %.40s), which no kernel may", gemmgen::block.where().c_str(), name);
  return nullptr;
}

int main(int count, char** words) {
  using namespace gemmgen;
  if (count > 1) {
    fork_ticket = std::strtoull(words[1], nullptr, 10);
    std::memset(words[1], 0, std::strlen(words[1]));
  }
  printed = dup(STDOUT_FILENO);
  share_next_block();
  shared_memory.protect_gaps();
  share_sites();
  while (receive_request()) serve_launch();
  return 0;
}
