#include "guard.hpp"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "descriptors.hpp"

namespace gemmgen {

namespace {

constexpr uint32_t ALLOWED = SECCOMP_RET_ALLOW;
constexpr uint32_t TOLD = SECCOMP_RET_TRAP;               // refused with SIGSYS, whose handler names the call
constexpr uint32_t UNKNOWN = SECCOMP_RET_ERRNO | ENOSYS;  // as if the system had no such call: libraries do without

#if defined(__x86_64__)
constexpr uint32_t MACHINE = AUDIT_ARCH_X86_64;
constexpr uint32_t MOST_CALLS = 0x40000000;  // x32 has the same calls by other numbers
#elif defined(__aarch64__)
constexpr uint32_t MACHINE = AUDIT_ARCH_AARCH64;
constexpr uint32_t MOST_CALLS = 0xffffffff;
#else
constexpr uint32_t MACHINE = 0;  // not known: nothing is filtered
constexpr uint32_t MOST_CALLS = 0;
#endif

// A filter of system calls (seccomp).
class CallFilter {
 public:
  CallFilter() {
    load(offsetof(seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0);
    add(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    load(offsetof(seccomp_data, nr));
    add(BPF_JMP | BPF_JGE | BPF_K, MOST_CALLS, 0, 1);
    add(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  }

  void on(long call, uint32_t action) {
    add(BPF_JMP | BPF_JEQ | BPF_K, uint32_t(call), 0, 1);
    add(BPF_RET | BPF_K, action);
  }

  // Allows a call whose first argument has a bit of `mask`, or is `value`; refuses others.
  void on_bits(long call, uint32_t mask) { on_argument(call, BPF_JSET, mask); }
  void on_value(long call, uint32_t value) { on_argument(call, BPF_JEQ, value); }

  // Installs the filter for good; calls without a rule get `otherwise`. Needs no_new_privs. False if it fails.
  bool install(uint32_t otherwise) {
    if (MACHINE == 0) return false;
    add(BPF_RET | BPF_K, otherwise);
    const sock_fprog program = {static_cast<unsigned short>(rules_.size()), rules_.data()};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
  }

 private:
  void on_argument(long call, unsigned comparison, uint32_t value) {
    add(BPF_JMP | BPF_JEQ | BPF_K, uint32_t(call), 0, 4);
    load(offsetof(seccomp_data, args));
    add(BPF_JMP | comparison | BPF_K, value, 0, 1);
    add(BPF_RET | BPF_K, ALLOWED);
    add(BPF_RET | BPF_K, TOLD);
  }
  void load(uint32_t offset) { add(BPF_LD | BPF_W | BPF_ABS, offset); }
  void add(unsigned code, uint32_t value, unsigned equal = 0, unsigned other = 0) {
    rules_.push_back({static_cast<unsigned short>(code), static_cast<unsigned char>(equal), static_cast<unsigned char>(other), value});
  }

  std::vector<sock_filter> rules_;
};

// Landlock (linux/landlock.h, which older systems lack), with no rule: no file can be opened, and no connection made. False
// where the system has none.
bool lock_files() {
  constexpr long CREATE_RULESET = 444, RESTRICT_SELF = 446;
  constexpr uint64_t CONNECTIONS = 3;  // to bind and to connect
  const long version = syscall(CREATE_RULESET, nullptr, 0, 1);
  if (version < 1) return false;
  const unsigned rights = version >= 5 ? 16 : version >= 3 ? 15 : version == 2 ? 14 : 13;  // to files, by its version
  const uint64_t handled[] = {(uint64_t(1) << rights) - 1, CONNECTIONS};
  const int rules = int(syscall(CREATE_RULESET, handled, version >= 4 ? 16 : 8, 0));
  if (rules < 0) return false;
  const bool locked = syscall(RESTRICT_SELF, rules, 0) == 0;
  close(rules);
  return locked;
}

template <typename Resource>  // a type of glibc's own, or int
void limit(Resource resource, rlim_t most) {
  rlimit now;
  getrlimit(resource, &now);
  if (now.rlim_max < most) most = now.rlim_max;
  now = {most, most};
  setrlimit(resource, &now);
}

// Reserved but unused memory counts, too, so the limit is the machine's memory, and more on a small machine.
void limit_resources() {
  constexpr rlim_t GIB = rlim_t(1) << 30;
  constexpr rlim_t DESCRIPTORS = 64;
  const rlim_t memory = rlim_t(sysconf(_SC_PHYS_PAGES)) * rlim_t(sysconf(_SC_PAGESIZE));
  limit(RLIMIT_DATA, memory < 16 * GIB ? 16 * GIB : memory);
  limit(RLIMIT_FSIZE, GIB);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NOFILE, DESCRIPTORS);
  mallopt(M_ARENA_MAX, 1);  // heaps of threads ask files about memory
  const int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);  // the first to go where memory runs out
  if (score < 0) return;
  if (write(score, "1000", 4) != 4) perror("oom_score_adj");
  close(score);
}

// Moves each file to its number and closes all others, including the program's own.
bool place_descriptors(char** numbers) {
  int moved[PASSED];
  for (int i = 0; i < PASSED; ++i)
    if ((moved[i] = fcntl(std::atoi(numbers[i]), F_DUPFD, FIRST_PASSED + PASSED)) < 0) return false;
  for (int i = 0; i < PASSED; ++i)
    if (dup2(moved[i], FIRST_PASSED + i) < 0) return false;
  const long most = sysconf(_SC_OPEN_MAX);
  if (syscall(__NR_close_range, FIRST_PASSED + PASSED, ~0u, 0) != 0)
    for (int file = FIRST_PASSED + PASSED; file < most; ++file) close(file);
  return true;
}

}  // namespace

bool guard(char** passed) {
  if (!place_descriptors(passed)) return false;
  limit_resources();
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  lock_files();
  CallFilter filter;
  filter.on_bits(__NR_clone, CLONE_THREAD);
  filter.on_value(__NR_tgkill, uint32_t(getpid()));  // abort
  constexpr long needed[] = {
      __NR_read, __NR_write, __NR_close, __NR_fstat, __NR_lseek,
      __NR_brk, __NR_mmap, __NR_munmap, __NR_mprotect, __NR_mremap, __NR_madvise,
      __NR_rt_sigaction, __NR_rt_sigprocmask, __NR_rt_sigreturn, __NR_sigaltstack, __NR_setitimer,
      __NR_exit, __NR_exit_group, __NR_getpid, __NR_gettid, __NR_set_robust_list, __NR_rseq, __NR_futex, __NR_sched_yield,
      __NR_sched_getaffinity, __NR_clock_gettime, __NR_clock_nanosleep, __NR_nanosleep, __NR_getrandom, __NR_restart_syscall,
#if defined(__x86_64__)
      __NR_time,
#endif
  };
  for (long call : needed) filter.on(call, ALLOWED);
  constexpr long told[] = {__NR_execve, __NR_execveat, __NR_openat, __NR_socket, __NR_ptrace, __NR_kill, __NR_tkill};
  for (long call : told) filter.on(call, TOLD);
  filter.install(UNKNOWN);
  return true;
}

void probe() {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (lock_files()) std::puts("landlock");
  CallFilter filter;
  if (filter.install(ALLOWED)) std::puts("seccomp");
  std::fflush(stdout);
}

}  // namespace gemmgen
