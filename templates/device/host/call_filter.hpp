// Filters of system calls (seccomp): what the system does with each call of a process, and of those that it starts.
#pragma once

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <vector>

// Calls that headers of old lack, by the numbers that they have on every machine.
#ifndef __NR_io_uring_setup
#define __NR_io_uring_setup 425
#endif
#ifndef __NR_clone3
#define __NR_clone3 435
#endif

namespace gemmgen {

constexpr uint32_t ALLOWED = SECCOMP_RET_ALLOW;
constexpr uint32_t TOLD = SECCOMP_RET_TRAP;                // refused with SIGSYS, whose handler names the call
constexpr uint32_t UNKNOWN = SECCOMP_RET_ERRNO | ENOSYS;   // as if the system had no such call: libraries do without
constexpr uint32_t FORBIDDEN = SECCOMP_RET_ERRNO | EPERM;

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

constexpr unsigned CLONE_TICKET = 2;  // the argument of clone that has no use where it stands for fork

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

  // Where the lower half of an argument has a bit of `mask`, and where it has none.
  void on_bits(long call, unsigned argument, uint32_t mask, uint32_t some, uint32_t none) {
    add(BPF_JMP | BPF_JEQ | BPF_K, uint32_t(call), 0, 4);
    load(lower(argument));
    add(BPF_JMP | BPF_JSET | BPF_K, mask, 0, 1);
    add(BPF_RET | BPF_K, some);
    add(BPF_RET | BPF_K, none);
  }

  // Where an argument is `value`, and where it is another.
  void on_value(long call, unsigned argument, uint64_t value, uint32_t equal, uint32_t other) {
    add(BPF_JMP | BPF_JEQ | BPF_K, uint32_t(call), 0, 6);
    load(lower(argument));
    add(BPF_JMP | BPF_JEQ | BPF_K, uint32_t(value), 0, 3);
    load(lower(argument) + 4);
    add(BPF_JMP | BPF_JEQ | BPF_K, uint32_t(value >> 32), 0, 1);
    add(BPF_RET | BPF_K, equal);
    add(BPF_RET | BPF_K, other);
  }

  // Where an argument has a bit of `mask`, or another one is not `value`; and where neither holds.
  void on_bits_or_other(long call, unsigned argument, uint32_t mask, unsigned other, uint64_t value, uint32_t either, uint32_t neither) {
    add(BPF_JMP | BPF_JEQ | BPF_K, uint32_t(call), 0, 8);
    load(lower(argument));
    add(BPF_JMP | BPF_JSET | BPF_K, mask, 4, 0);
    load(lower(other));
    add(BPF_JMP | BPF_JEQ | BPF_K, uint32_t(value), 0, 2);
    load(lower(other) + 4);
    add(BPF_JMP | BPF_JEQ | BPF_K, uint32_t(value >> 32), 1, 0);
    add(BPF_RET | BPF_K, either);
    add(BPF_RET | BPF_K, neither);
  }

  // From now on and for good; what no rule names is answered by `otherwise`. Needs no_new_privs. False where it cannot be.
  bool install(uint32_t otherwise) {
    if (MACHINE == 0) return false;
    add(BPF_RET | BPF_K, otherwise);
    const sock_fprog program = {static_cast<unsigned short>(rules_.size()), rules_.data()};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
  }

 private:
  static uint32_t lower(unsigned argument) { return offsetof(seccomp_data, args) + 8 * argument; }
  void load(uint32_t offset) { add(BPF_LD | BPF_W | BPF_ABS, offset); }
  void add(unsigned code, uint32_t value, unsigned equal = 0, unsigned other = 0) {
    rules_.push_back({static_cast<unsigned short>(code), static_cast<unsigned char>(equal), static_cast<unsigned char>(other), value});
  }

  std::vector<sock_filter> rules_;
};

struct Call {
  long number;
  const char* name;
  const char* purpose;
  bool opens = false;  // a file
};

#define GEMMGEN_CALL(name, ...) \
  { __NR_##name, #name, __VA_ARGS__ }

// What a kernel has no use for; its verdict names it.
const Call CALLS_TOLD[] = {
    GEMMGEN_CALL(execve, "starts a program"),
    GEMMGEN_CALL(execveat, "starts a program"),
    GEMMGEN_CALL(clone, "starts a process or a thread"),
    GEMMGEN_CALL(pipe2, "makes a pipe to another process"),
    GEMMGEN_CALL(openat, "opens a file", true),
    GEMMGEN_CALL(unlinkat, "removes a file"),
    GEMMGEN_CALL(renameat2, "renames a file"),
    GEMMGEN_CALL(mkdirat, "makes a folder"),
    GEMMGEN_CALL(linkat, "links a file"),
    GEMMGEN_CALL(symlinkat, "links a file"),
    GEMMGEN_CALL(fchmodat, "changes a file"),
    GEMMGEN_CALL(fchownat, "changes a file"),
    GEMMGEN_CALL(truncate, "changes a file"),
    GEMMGEN_CALL(ftruncate, "changes a file"),
    GEMMGEN_CALL(socket, "opens a socket"),
    GEMMGEN_CALL(socketpair, "opens a socket"),
    GEMMGEN_CALL(connect, "opens a connection"),
    GEMMGEN_CALL(bind, "opens a connection"),
    GEMMGEN_CALL(sendto, "sends to a socket"),
    GEMMGEN_CALL(kill, "sends a signal"),
    GEMMGEN_CALL(tkill, "sends a signal"),
    GEMMGEN_CALL(ptrace, "looks into a process"),
    GEMMGEN_CALL(process_vm_readv, "looks into a process"),
    GEMMGEN_CALL(process_vm_writev, "looks into a process"),
    GEMMGEN_CALL(mount, "mounts a file system"),
    GEMMGEN_CALL(setsid, "leaves its process group"),
    GEMMGEN_CALL(setpgid, "leaves its process group"),
#if defined(__x86_64__)  // calls of old
    GEMMGEN_CALL(fork, "starts a process"),
    GEMMGEN_CALL(vfork, "starts a process"),
    GEMMGEN_CALL(pipe, "makes a pipe to another process"),
    GEMMGEN_CALL(open, "opens a file", true),
    GEMMGEN_CALL(creat, "makes a file", true),
    GEMMGEN_CALL(unlink, "removes a file"),
    GEMMGEN_CALL(rename, "renames a file"),
    GEMMGEN_CALL(mkdir, "makes a folder"),
    GEMMGEN_CALL(rmdir, "removes a folder"),
    GEMMGEN_CALL(link, "links a file"),
    GEMMGEN_CALL(symlink, "links a file"),
    GEMMGEN_CALL(chmod, "changes a file"),
    GEMMGEN_CALL(chown, "changes a file"),
#endif
};

}  // namespace gemmgen
