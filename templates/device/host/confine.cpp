// Starts a program that a stranger may have written, or a compiler of such a text, with as little as it needs:
// no new privileges, bounded memory and files, its own files alone (Landlock), few system calls (seccomp).
//
//     confine probe                                                prints what this system has of them
//     confine kernel ARENA REPLIES NOWHERE PROGRAM SITES [PATH...] descriptors; what may be read
//     confine interpreter ...                                      likewise, of a program that starts threads and no process
//     confine compiler FOLDER [PATH...] -- COMMAND...              what may be written; what may be read
//
// What the system lacks is left out: who calls has asked for the probe, and says so.
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "call_filter.hpp"
#include "descriptors.hpp"

namespace {

using namespace gemmgen;

// Landlock (linux/landlock.h, which older systems lack): rights to files by their version of the interface.
constexpr long CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446;
constexpr uint64_t EXECUTE = 1 << 0, WRITE_FILE = 1 << 1, READ_FILE = 1 << 2, READ_DIR = 1 << 3, TRUNCATE = 1 << 14;
constexpr uint64_t READ = EXECUTE | READ_FILE | READ_DIR;
constexpr uint64_t OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE;
constexpr uint64_t CONNECTIONS = 3;  // to bind and to connect

uint64_t rights_of(long version) {
  const unsigned count = version >= 5 ? 16 : version >= 3 ? 15 : version == 2 ? 14 : 13;
  return (uint64_t(1) << count) - 1;
}

class Landlock {
 public:
  static long version() { return syscall(CREATE_RULESET, nullptr, 0, 1); }

  Landlock() : rights_(rights_of(version())) {
    if (version() < 1) return;
    const uint64_t handled[] = {rights_, CONNECTIONS};
    rules_ = int(syscall(CREATE_RULESET, handled, version() >= 4 ? 16 : 8, 0));
  }

  // What lies under `path`; nothing where there is no such file.
  void allow(const char* path, uint64_t rights) {
    const int file = open(path, O_PATH | O_CLOEXEC);
    if (file < 0) return;
    const int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct __attribute__((packed)) {
      uint64_t rights;
      int32_t file;
    } rule = {rights & rights_ & (folder < 0 ? OF_FILES : ~uint64_t(0)), file};
    syscall(ADD_RULE, rules_, 1, &rule, 0);
    close(file);
    if (folder >= 0) close(folder);
  }

  bool install() { return rules_ >= 0 && syscall(RESTRICT_SELF, rules_, 0) == 0; }
  uint64_t all() const { return rights_; }

 private:
  uint64_t rights_;
  int rules_ = -1;
};

template <typename Resource>  // a type of glibc's own, or int
void limit(Resource resource, rlim_t most) {
  rlimit now;
  getrlimit(resource, &now);
  if (now.rlim_max < most) most = now.rlim_max;
  now = {most, most};
  setrlimit(resource, &now);
}

constexpr rlim_t GIB = rlim_t(1) << 30;

// Memory that is reserved and not used counts, too: hence what the machine has, and on a small one more.
void limit_resources() {
  const rlim_t memory = rlim_t(sysconf(_SC_PHYS_PAGES)) * rlim_t(sysconf(_SC_PAGESIZE));
  limit(RLIMIT_DATA, memory < 16 * GIB ? 16 * GIB : memory);
  limit(RLIMIT_FSIZE, GIB);
  limit(RLIMIT_CORE, 0);
  const int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);  // the first to go where memory runs out
  if (score < 0) return;
  if (write(score, "1000", 4) != 4) perror("oom_score_adj");
  close(score);
}

constexpr uint32_t NAMESPACES =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

// The emulator computes in memory that it has, and starts helpers, by a clone that names the `ticket` which it is told: no
// other call starts a process. One that has `threads` starts these alone. `program` may be started, once.
bool filter_kernel(int program, uint64_t ticket, bool threads) {
  CallFilter filter;
  filter.on_value(__NR_execveat, 0, uint64_t(program), ALLOWED, TOLD);
  const uint32_t unlike_fork = CLONE_VM | CLONE_VFORK | CLONE_PARENT | CLONE_UNTRACED | NAMESPACES;
  if (threads) filter.on_bits(__NR_clone, 0, CLONE_THREAD, ALLOWED, TOLD);
  else filter.on_bits_or_other(__NR_clone, 0, unlike_fork, CLONE_TICKET, ticket, TOLD, ALLOWED);
  filter.on_bits(__NR_openat, 2, O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND, TOLD, ALLOWED);  // to read: Landlock's
  filter.on_value(__NR_tgkill, 0, uint64_t(getpid()), ALLOWED, UNKNOWN);                    // abort
  filter.on_value(__NR_ioctl, 1, TCGETS, ALLOWED, FORBIDDEN);                               // is it a terminal?
  filter.on_value(__NR_prlimit64, 2, 0, ALLOWED, FORBIDDEN);                                // to ask
  for (const Call& call : CALLS_TOLD) filter.on(call.number, TOLD);  // but for those above
  constexpr long needed[] = {
      __NR_read, __NR_write, __NR_readv, __NR_writev, __NR_pread64, __NR_lseek, __NR_close, __NR_fstat, __NR_newfstatat,
      __NR_statx, __NR_dup, __NR_dup3, __NR_faccessat, __NR_readlinkat, __NR_getcwd,
      __NR_brk, __NR_mmap, __NR_munmap, __NR_mprotect, __NR_mremap, __NR_madvise,
      __NR_rt_sigaction, __NR_rt_sigprocmask, __NR_rt_sigreturn, __NR_sigaltstack, __NR_setitimer,
      __NR_exit, __NR_exit_group, __NR_wait4, __NR_waitid, __NR_getpid, __NR_getppid, __NR_gettid, __NR_prctl,
      __NR_set_tid_address, __NR_set_robust_list, __NR_rseq, __NR_futex, __NR_sched_yield, __NR_sched_getaffinity,
      __NR_clock_gettime, __NR_clock_getres, __NR_clock_nanosleep, __NR_nanosleep, __NR_gettimeofday, __NR_times, __NR_getrusage,
      __NR_getrandom, __NR_uname, __NR_sysinfo, __NR_getuid, __NR_geteuid, __NR_getgid, __NR_getegid, __NR_seccomp,
      __NR_restart_syscall,
#if defined(__x86_64__)
      __NR_arch_prctl, __NR_access, __NR_stat, __NR_lstat, __NR_readlink, __NR_dup2, __NR_getrlimit, __NR_time,
#endif
  };
  for (long call : needed) filter.on(call, ALLOWED);
  return filter.install(UNKNOWN);
}

// A compiler starts programs and writes files, and has nothing to do with networks, other processes or the system.
bool filter_compiler() {
  CallFilter filter;
  filter.on_bits(__NR_clone, 0, NAMESPACES, FORBIDDEN, ALLOWED);
  filter.on(__NR_clone3, UNKNOWN);  // its flags cannot be seen
  constexpr long forbidden[] = {
      __NR_socket, __NR_socketpair, __NR_connect, __NR_bind, __NR_sendto, __NR_io_uring_setup,
      __NR_ptrace, __NR_process_vm_readv, __NR_process_vm_writev, __NR_setsid, __NR_setpgid,
      __NR_unshare, __NR_setns, __NR_mount, __NR_umount2, __NR_chroot, __NR_pivot_root, __NR_bpf, __NR_perf_event_open,
      __NR_add_key, __NR_request_key, __NR_keyctl, __NR_init_module, __NR_finit_module, __NR_delete_module, __NR_kexec_load,
      __NR_reboot, __NR_swapon, __NR_swapoff, __NR_settimeofday, __NR_clock_settime, __NR_userfaultfd,
  };
  for (long call : forbidden) filter.on(call, FORBIDDEN);
  return filter.install(ALLOWED);
}

int fail(const char* what) {
  perror(what);
  return 126;
}

int probe() {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (Landlock().install()) puts("landlock");
  fflush(stdout);
  CallFilter filter;
  if (!filter.install(ALLOWED)) return 0;
  puts("seccomp");
  return 0;
}

constexpr int TICKET = 200;  // the program's descriptor, closed as it starts; no later one has a number so high
constexpr rlim_t DESCRIPTORS = 64;

// Each at the number where the emulator looks for it.
bool place_descriptors(char** numbers) {
  int moved[PASSED];
  for (int i = 0; i < PASSED; ++i)
    if ((moved[i] = fcntl(atoi(numbers[i]), F_DUPFD_CLOEXEC, TICKET + 1)) < 0) return false;
  for (int i = 0; i < PASSED; ++i)
    if (dup2(moved[i], FIRST_PASSED + i) < 0) return false;
  return dup3(PROGRAM, TICKET, O_CLOEXEC) >= 0;
}

int start_kernel(int count, char** values, bool threads) {
  if (count < PASSED || !place_descriptors(values)) return fail("descriptors");
  limit_resources();
  limit(RLIMIT_NOFILE, DESCRIPTORS);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  Landlock files;
  for (int i = PASSED; i < count; ++i) files.allow(values[i], READ);
  files.install();
  uint64_t ticket = 0;
  if (getrandom(&ticket, sizeof ticket, 0) != sizeof ticket) return fail("a random number");
  filter_kernel(TICKET, ticket, threads);
  char name[] = "emulator", number[32];
  snprintf(number, sizeof number, "%llu", static_cast<unsigned long long>(ticket));
  char* const arguments[] = {name, number, nullptr};
  char* const environment[] = {nullptr};  // it may hold what is nobody's business
  syscall(__NR_execveat, TICKET, "", arguments, environment, AT_EMPTY_PATH);
  return fail("the emulator does not start");
}

int start_compiler(int count, char** values) {
  limit_resources();
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  Landlock files;
  int next = 1;
  for (; next < count && strcmp(values[next], "--") != 0; ++next) files.allow(values[next], READ);
  if (next + 1 >= count) return fail("no command");
  files.allow(values[0], files.all());
  files.allow("/dev/null", READ_FILE | WRITE_FILE | TRUNCATE);
  files.install();
  filter_compiler();
  execvp(values[next + 1], values + next + 1);
  return fail(values[next + 1]);
}

}  // namespace

int main(int count, char** values) {
  if (count == 2 && strcmp(values[1], "probe") == 0) return probe();
  if (count > 2 && strcmp(values[1], "kernel") == 0) return start_kernel(count - 2, values + 2, false);
  if (count > 2 && strcmp(values[1], "interpreter") == 0) return start_kernel(count - 2, values + 2, true);
  if (count > 2 && strcmp(values[1], "compiler") == 0) return start_compiler(count - 2, values + 2);
  return 2;
}
