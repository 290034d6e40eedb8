// The interpreter as a process: takes a program, then launches, until the driver closes the pipe. Messages on standard input,
// other files as descriptors.hpp numbers them. A message, and a reply, is its length in 4 bytes and so many bytes:
//
//     program  the name of the .cu, its PTX, the table of matrix instructions: each behind its length in 4 bytes
//     launch   launch.hpp
//     reply    "ok", a tab and what the kernel printed; or a failure's kind, a tab and its reason
//
// A failure ends the launch, not the process. If the process cannot go on, "!" follows the kind, and it ends.
#include <sched.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "descriptors.hpp"
#include "failure.hpp"
#include "guard.hpp"
#include "launch.hpp"
#include "machine.hpp"

namespace gemmgen {
namespace {

constexpr int REPORTED = 3;             // exit status of a process that has said why it ends
constexpr unsigned GRACE_SECONDS = 2;   // that a launch may take to notice that its time is over
constexpr std::size_t MOST_REPLY_BYTES = 256 * 1024;

// Whoever takes it answers the driver: the main thread, or a signal handler if the launch does not end.
std::atomic<Launch*> running = nullptr;
std::atomic<int> handling = 0;  // threads that look at `running` in a handler

bool write_all(const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t some = write(REPLIES, data, bytes);
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) return false;
    data += some;
    bytes -= std::size_t(some);
  }
  return true;
}

void reply(const std::string& kind, const std::string& text) {
  std::string payload = (kind + '\t' + text).substr(0, MOST_REPLY_BYTES);
  const auto length = uint32_t(payload.size());
  payload.insert(0, reinterpret_cast<const char*>(&length), sizeof length);
  if (!write_all(payload.data(), payload.size())) _exit(1);
}

// Replies from a signal handler, where no memory can be allocated.
[[noreturn]] void last_words(const char* payload) {
  char message[512];
  const std::size_t most = sizeof message - sizeof(uint32_t), all = std::strlen(payload);
  const auto length = uint32_t(all < most ? all : most);
  std::memcpy(message, &length, sizeof length);
  std::memcpy(message + sizeof length, payload, length);
  write_all(message, sizeof length + length);
  _exit(REPORTED);
}

void on_fault(int signal, siginfo_t* info, void*) {
  char text[256];
  if (signal == SIGSYS)
    std::snprintf(text, sizeof text, "unjudged!\tthe interpreter itself crashed: it makes system call %d, which it may not",
                  info->si_syscall);
  else
    std::snprintf(text, sizeof text, "unjudged!\tthe interpreter itself crashed: signal %d at address %p", signal, info->si_addr);
  last_words(text);
}

// Rings once the time is over, and again if the launch still runs GRACE_SECONDS later.
void check_time() {
  Launch* const launch = running.load();
  if (launch == nullptr || !launch->expired.exchange(true)) return;
  if (running.exchange(nullptr) == nullptr) return;  // it has just ended
  char text[256];
  std::snprintf(text, sizeof text, "timeout!\tthe launch still runs after %g s of processor time, %u s after it was to stop",
                launch->timeout_ms / 1000.0, GRACE_SECONDS);
  last_words(text);
}

void on_alarm(int) {
  const int error = errno;
  ++handling;
  check_time();
  --handling;
  errno = error;
}

// Handlers run on their own stack: recursion may have used up the thread's.
void catch_signals() {
  static unsigned char handler_stack[64 * 1024];
  stack_t stack = {};
  stack.ss_sp = handler_stack;
  stack.ss_size = sizeof handler_stack;
  sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  action.sa_sigaction = on_fault;
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigaction(signal, &action, nullptr);
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  action.sa_handler = on_alarm;
  sigaction(SIGPROF, &action, nullptr);
}

// The alarm counts processor time, so that a busy machine makes no kernel seem to hang.
void set_alarm(unsigned milliseconds) {
  itimerval timer = {};
  timer.it_value.tv_sec = milliseconds / 1000;
  timer.it_value.tv_usec = milliseconds % 1000 * 1000;
  if (milliseconds > 0) timer.it_interval.tv_sec = GRACE_SECONDS;
  setitimer(ITIMER_PROF, &timer, nullptr);
}

bool receive(void* data, std::size_t bytes) {
  std::size_t received = 0;
  while (received < bytes) {
    const ssize_t some = read(STDIN_FILENO, static_cast<char*>(data) + received, bytes - received);
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) return false;
    received += std::size_t(some);
  }
  return true;
}

// Receives a message; false at the end of the input.
bool receive(std::vector<unsigned char>& message) {
  uint32_t length;
  if (!receive(&length, sizeof length)) return false;
  message.resize(length);
  return receive(message.data(), length);
}

std::unique_ptr<Program> load(Message message) {
  const std::string name = message.text(), ptx = message.text(), table = message.text();
  return load_program(ptx, name, table);
}

void run_within_time(Program& program, Launch& launch) {
  running = &launch;
  set_alarm(launch.timeout_ms);
  const auto stop = [] {
    set_alarm(0);
    while (running.exchange(nullptr) == nullptr) sched_yield();  // a handler is about to end the process
    while (handling != 0) sched_yield();                         // or still looks at the launch
  };
  try {
    run_launch(program, launch);
  } catch (...) {
    stop();
    throw;
  }
  stop();
}

// Calls `work`, which replies; returns whether it ended normally. `last` follows the kind of a failure.
template <typename Work>
bool answer(const std::string& last, Work work) {
  try {
    work();
    return true;
  } catch (const Failure& failure) {
    reply(failure.kind + last, failure.reason);
  } catch (const std::bad_alloc&) {
    reply("room" + last, "the interpreter has not enough memory");
  } catch (const std::exception& error) {
    reply("unjudged" + last, std::string("the interpreter itself failed: ") + error.what());
  }
  return false;
}

int serve() {
  std::vector<unsigned char> bytes;
  std::unique_ptr<Program> program;
  if (!receive(bytes)) return 0;
  const bool loaded = answer("!", [&] {
    program = load(Message(std::move(bytes)));
    reply("ok", "");
  });
  if (!loaded) return REPORTED;
  while (receive(bytes))
    answer("", [&] {
      Launch launch;
      Message message(std::move(bytes));
      receive_launch(launch, message, ARENA);
      run_within_time(*program, launch);
      reply("ok", launch.quiet ? "" : launch.printed.text());
    });
  return 0;
}

}  // namespace
}  // namespace gemmgen

int main(int count, char** values) {
  if (count == 2 && std::strcmp(values[1], "probe") == 0) return gemmgen::probe(), 0;
  if (count != 1 + gemmgen::PASSED || !gemmgen::guard(values + 1)) return 2;
  gemmgen::catch_signals();
  const int status = gemmgen::serve();
  _exit(status);  // threads that still wait are nobody's concern
}
