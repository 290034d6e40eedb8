// A fiber: a stack of its own and the registers that a call preserves. One CUDA thread is one fiber.
//
// The switch is a handful of instructions where the machine is known; elsewhere ucontext, which
// costs two system calls a switch.
#pragma once

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

namespace gemmgen {

constexpr std::size_t STACK_BYTES = 64 * 1024;

using FiberEntry = void (*)();  // never returns

#if defined(__x86_64__) || defined(__aarch64__)

struct Fiber {
  void* stack_pointer = nullptr;
};

// Saves the preserved registers on the running stack and its pointer in `*from`; resumes `to`.
extern "C" void gemmgen_switch_stack(void** from, void* to);

#if defined(__x86_64__)

constexpr int SAVED_WORDS = 6;

asm(R"(
.text
.globl gemmgen_switch_stack
gemmgen_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

// Below the saved registers' place stands the return address; a fresh one is the entry.
inline void prepare(Fiber& fiber, unsigned char* stack_top, FiberEntry entry) {
  std::uintptr_t* top = reinterpret_cast<std::uintptr_t*>(stack_top);
  *--top = 0;  // the entry's own return address, which also aligns its frame
  *--top = reinterpret_cast<std::uintptr_t>(entry);
  fiber.stack_pointer = top - SAVED_WORDS;
}

#else  // aarch64

asm(R"(
.text
.globl gemmgen_switch_stack
gemmgen_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
)");

constexpr int SAVED_WORDS = 20;
constexpr int LINK_REGISTER = 11;  // x30's place among the saved words

inline void prepare(Fiber& fiber, unsigned char* stack_top, FiberEntry entry) {
  std::uintptr_t* saved = reinterpret_cast<std::uintptr_t*>(stack_top) - SAVED_WORDS;
  saved[LINK_REGISTER] = reinterpret_cast<std::uintptr_t>(entry);
  fiber.stack_pointer = saved;
}

#endif

inline void switch_fiber(Fiber& from, Fiber& to) { gemmgen_switch_stack(&from.stack_pointer, to.stack_pointer); }

#else  // any other machine

struct Fiber {
  ucontext_t context;
};

constexpr int UCONTEXT_STACK_BYTES = 32 * 1024;

inline void prepare(Fiber& fiber, unsigned char* stack_top, FiberEntry entry) {
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = stack_top - UCONTEXT_STACK_BYTES;
  fiber.context.uc_stack.ss_size = UCONTEXT_STACK_BYTES;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, entry, 0);
}

inline void switch_fiber(Fiber& from, Fiber& to) { swapcontext(&from.context, &to.context); }

#endif

}  // namespace gemmgen
