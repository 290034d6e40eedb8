// Turns the signals that a wrong kernel raises into diagnoses.
#pragma once

#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "block.hpp"
#include "call_filter.hpp"
#include "failure.hpp"
#include "launch.hpp"
#include "memory.hpp"
#include "shared_memory.hpp"

namespace gemmgen {

inline unsigned runtime_line = 0;  // of the cp_async or the atomic whose memory the runtime accesses
inline unsigned timeout_ms = 0;

// The place of `address` for a person: "8 bytes after the end of A".
inline std::string describe_address(const unsigned char* address) {
  if (const Region* const region = region_near(address)) return region->describe(address);
  const std::string shared = shared_memory.describe(address);
  if (!shared.empty()) return shared;
  if (block.on_stack(address)) return "past the end of the thread's stack";
  char text[128];
  std::snprintf(text, sizeof text, "at address %p, which is no operand's", static_cast<const void*>(address));
  return text;
}

inline const void* instruction_of(const ucontext_t& context) {
#if defined(__x86_64__)
  return reinterpret_cast<const void*>(context.uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return reinterpret_cast<const void*>(context.uc_mcontext.pc);
#else
  (void)context;
  return nullptr;
#endif
}

// "reads" or "writes", where the machine tells.
inline const char* access_of(const ucontext_t& context) {
#if defined(__x86_64__)
  constexpr greg_t WRITE_FAULT = 2;
  return context.uc_mcontext.gregs[REG_ERR] & WRITE_FAULT ? "writes" : "reads";
#elif defined(__aarch64__)
  constexpr uint64_t WRITE_NOT_READ = 1 << 6;
  const auto* record = reinterpret_cast<const _aarch64_ctx*>(context.uc_mcontext.__reserved);
  while (record->magic != 0 && record->magic != ESR_MAGIC)
    record = reinterpret_cast<const _aarch64_ctx*>(reinterpret_cast<const char*>(record) + record->size);
  if (record->magic == 0) return "accesses";
  return reinterpret_cast<const esr_context*>(record)->esr & WRITE_NOT_READ ? "writes" : "reads";
#else
  (void)context;
  return "accesses";
#endif
}

inline void on_fault(int signal, siginfo_t* info, void* raw_context) {
  const ucontext_t& context = *static_cast<const ucontext_t*>(raw_context);
  const Location location = {runtime_line, instruction_of(context)};
  if (!block.in_kernel()) fail("crash", location, "the emulator itself failed: %s", strsignal(signal));
  if (signal != SIGSEGV && signal != SIGBUS)
    fail("crash", location, "%s: %s", block.where().c_str(), strsignal(signal));
  if (info->si_code == SI_KERNEL)  // the machine does not say which one
    fail("crash", location, "%s makes a misaligned access, or uses an address that no memory has",
         block.where().c_str());
  const unsigned char* address = static_cast<const unsigned char*>(info->si_addr);
  fail("crash", location, "%s %s %s", block.where().c_str(), access_of(context), describe_address(address).c_str());
}

inline void on_refused_call(int, siginfo_t* info, void*) {
  const std::string where = block.in_kernel() ? block.where() : "before the launch, its text";
  for (const Call& call : CALLS_TOLD)
    if (call.number == info->si_syscall)
      fail("crash", {}, "%s %s (%s), which no kernel may", where.c_str(), call.purpose, call.name);
  fail("crash", {}, "%s makes system call %d, which no kernel may", where.c_str(), info->si_syscall);
}

inline void on_alarm(int, siginfo_t*, void* raw_context) {
  if (!block.in_kernel()) return;  // the launch has just ended
  const Location location = {0, instruction_of(*static_cast<const ucontext_t*>(raw_context))};
  fail("timeout", location, "%s still runs after %g s of processor time", block.where().c_str(), timeout_ms / 1000.0);
}

// Handlers run on a stack of their own: the thread's may be what overflowed.
inline void catch_faults() {
  static unsigned char handler_stack[64 * 1024];
  stack_t stack = {};
  stack.ss_sp = handler_stack;
  stack.ss_size = sizeof handler_stack;
  sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  action.sa_sigaction = on_fault;
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigaction(signal, &action, nullptr);
  action.sa_sigaction = on_refused_call;
  sigaction(SIGSYS, &action, nullptr);
  action.sa_sigaction = on_alarm;
  sigaction(SIGPROF, &action, nullptr);
}

// Rings once this process has worked for so long: a busy machine makes no kernel hang.
inline void set_alarm(unsigned milliseconds) {
  itimerval timer = {};
  timer.it_value.tv_sec = milliseconds / 1000;
  timer.it_value.tv_usec = milliseconds % 1000 * 1000;
  setitimer(ITIMER_PROF, &timer, nullptr);
}

}  // namespace gemmgen

// A failed assert of the kernel, which otherwise would print and abort.
extern "C" void __assert_fail(const char* expression, const char*, unsigned line, const char*) noexcept {
  gemmgen::fail("crash", {line}, "%s: assertion failed: %s", gemmgen::block.where().c_str(), expression);
}
