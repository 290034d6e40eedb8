// The blocks, or clusters, of a launch, by this process and, where they take long, by helpers beside it. Included once.
#pragma once

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "block.hpp"
#include "call_filter.hpp"
#include "counters.hpp"
#include "failure.hpp"
#include "faults.hpp"
#include "kernel_entry.hpp"
#include "launch.hpp"
#include "memory.hpp"
#include "request.hpp"
#include "shared_memory.hpp"

namespace gemmgen {

// A launch that takes longer gets helpers, where these save more than the time in which they start and end.
constexpr auto ALONE = std::chrono::milliseconds(3), STARTS = std::chrono::milliseconds(6);

inline std::atomic<uint32_t>* next_block = nullptr;  // shared with the helpers

inline void share_next_block() {
  void* const memory = map(nullptr, sizeof *next_block, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
  next_block = static_cast<std::atomic<uint32_t>*>(memory);
}

inline void run_thread() {
  alignas(ARGUMENT_ALIGNMENT) unsigned char copy[MAX_ARGUMENT_BYTES];  // where a kernel may read them: on its stack
  std::memcpy(copy, arguments.data(), arguments.size());
  launched().call(copy);
  block.exit_thread();
}

// That of a block, or of the cluster that begins with it.
inline void run_cluster(uint32_t first) {
  cluster.first_block = first;
  shared_memory.poison();
  block.run(run_thread, request.seed);
  if (cluster.ranks > 1 && !shared_memory.is_static_untouched())
    fail("unjudged", {}, "static shared arrays of a cluster's blocks are not emulated: dynamic shared memory is");
}

// Runs the clusters that nobody has taken yet, whose blocks are beside each other in `blocks`; calls `after_each` after every one.
template <typename AfterEach>
void run_blocks(const uint32_t* blocks, AfterEach after_each) {
  uint32_t place;
  while ((place = next_block->fetch_add(cluster.ranks)) < request.block_count) {
    run_cluster(blocks[place]);
    after_each();
  }
}

inline uint64_t fork_ticket = 0;  // see confine.cpp

// fork, which the kernel's own text may not call.
inline pid_t start_process() { return pid_t(syscall(__NR_clone, long(SIGCHLD), 0L, fork_ticket, 0L, 0L)); }

inline void start_no_more_processes() {
  CallFilter filter;
  filter.on(__NR_clone, TOLD);
  filter.install(ALLOWED);
}

inline pid_t start_helper(const uint32_t* blocks) {
  std::fflush(nullptr);  // or the helper would print it again
  const pid_t helper = start_process();
  if (helper != 0) return helper;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  start_no_more_processes();
  set_alarm(request.timeout_ms);
  own_sites();
  run_blocks(blocks, [] {});
  join_sites();
  std::fflush(nullptr);
  _exit(0);
}

// A helper that failed has replied already; one that was killed has not.
inline void join(pid_t helper) {
  int status = 0;
  waitpid(helper, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  if (WIFEXITED(status) && WEXITSTATUS(status) == REPORTED) _exit(REPORTED);
  fail("crash", {}, "a process of the emulator was killed by signal %d", WTERMSIG(status));
}

// What `workers` save where so many clusters are left, and `done` of them took `passed`.
inline std::chrono::steady_clock::duration saved(std::chrono::steady_clock::duration passed, uint32_t done, uint32_t left,
                                                 unsigned workers) {
  const uint32_t rounds = (left + workers - 1) / workers;
  return passed / done * (left - rounds);
}

inline void run_grid(const uint32_t* blocks) {
  const auto start = std::chrono::steady_clock::now();
  const auto is_written = [](const DeviceVariable& variable) { return variable.written; };
  const DeviceVariable* const end = gemmgen_device_variables + gemmgen_device_variable_count;
  // Processes do not share what the kernel has at file scope.
  const unsigned workers = std::any_of(gemmgen_device_variables, end, is_written) ? 1 : request.workers;
  std::vector<pid_t> helpers;
  *next_block = 0;
  uint32_t done = 0;
  run_blocks(blocks, [&] {
    ++done;
    const auto passed = std::chrono::steady_clock::now() - start;
    if (!helpers.empty() || passed < ALONE) return;
    const uint32_t left = (request.block_count - std::min(next_block->load(), request.block_count)) / cluster.ranks;
    if (saved(passed, done, left, workers) < STARTS) return;
    while (helpers.size() + 1 < workers && helpers.size() < left) {
      const pid_t helper = start_helper(blocks);
      if (helper < 0) break;  // no more processes: the work is done with fewer
      helpers.push_back(helper);
    }
  });
  for (pid_t helper : helpers) join(helper);
}

}  // namespace gemmgen
