// call: the bodies of functions that are not inlined replace their calls; printf and assert are the emulator's own.
#include <cctype>
#include <cstdio>
#include <cstring>
#include <string>

#include "decoder.hpp"
#include "failure.hpp"
#include "lanes.hpp"
#include "machine.hpp"
#include "memory.hpp"

namespace gemmgen {

namespace {

constexpr std::size_t MOST_TEXT = 4096;  // of a format, or a string

// Control characters and escapes are shown, not sent to a terminal.
std::string shown(const std::string& text) {
  std::string made;
  for (const char c : text) {
    if (c == '\n' || c == '\t' || (std::isprint(static_cast<unsigned char>(c)) != 0)) {
      made += c;
      continue;
    }
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(c));
    made += escaped;
  }
  return made;
}

// Reads `bytes` bytes at a generic address, for the one active lane.
void read(Warp& warp, const Instruction* i, uint64_t address, void* into, unsigned bytes) {
  uint64_t addresses[WARP];
  for (uint64_t& one : addresses) one = address;
  Places places;
  resolve(warp, {i, Space::generic, Use::read, bytes, false}, addresses, places);
  std::memcpy(into, places.at[first_of(warp.active)], bytes);
}

std::string string_at(Warp& warp, const Instruction* i, uint64_t address) {
  std::string text;
  for (char c = 1; text.size() < MOST_TEXT; ++address) {
    read(warp, i, address, &c, 1);
    if (c == '\0') return text;
    text += c;
  }
  return text;
}

// Formats like the host's printf, one conversion at a time; arguments are packed, each aligned to its size.
std::string formatted(Warp& warp, const Instruction* i, const std::string& format, uint64_t arguments) {
  std::string made;
  const auto take = [&](unsigned bytes) {
    arguments = (arguments + bytes - 1) / bytes * bytes;
    uint64_t value = 0;
    read(warp, i, arguments, &value, bytes);
    arguments += bytes;
    return value;
  };
  for (std::size_t at = 0; at < format.size() && made.size() < MOST_TEXT; ++at) {
    if (format[at] != '%') {
      made += format[at];
      continue;
    }
    const std::size_t end = format.find_first_of("diouxXcsfFeEgGaAp%", at + 1);
    if (end == std::string::npos) return made + format.substr(at);
    std::string one = format.substr(at, end - at + 1);
    at = end;
    const char kind = one.back();
    if (kind == '%') {
      made += '%';
      continue;
    }
    const bool wide = one.find("ll") != std::string::npos || one.find('l') != std::string::npos || one.find('z') != std::string::npos;
    if (one.find('*') != std::string::npos || one.size() > 32) return made + one;
    char text[MOST_TEXT];
    text[0] = '\0';
    if (kind == 's') {
      const std::string held = string_at(warp, i, take(8));
      std::snprintf(text, sizeof text, one.c_str(), held.c_str());
    } else if (std::strchr("fFeEgGaA", kind) != nullptr) {
      const uint64_t bits = take(8);
      double value;
      std::memcpy(&value, &bits, sizeof value);
      std::snprintf(text, sizeof text, one.c_str(), value);
    } else if (kind == 'p') {
      std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(take(8)));
    } else if (wide) {
      std::snprintf(text, sizeof text, one.c_str(), static_cast<unsigned long long>(take(8)));
    } else {
      std::snprintf(text, sizeof text, one.c_str(), static_cast<unsigned>(take(4)));
    }
    made += text;
  }
  return made;
}

// The arguments of a call, per lane; `units` give their places in local memory.
uint64_t passed(Warp& warp, const Instruction* i, std::size_t argument, unsigned bytes) {
  uint64_t value = 0;
  read(warp, i, LOCAL_SPACE + i->detail->units[argument], &value, bytes);
  return value;
}

const Instruction* print(Warp& warp, const Instruction* i) {
  const uint32_t all = warp.active;
  each_of(all, [&](unsigned lane) {
    warp.active = 1u << lane;
    const std::string format = string_at(warp, i, passed(warp, i, 0, 8));
    warp.machine().launch().printed.add(shown(formatted(warp, i, format, passed(warp, i, 1, 8))));
  });
  warp.active = all;
  return i + 1;
}

const Instruction* assertion(Warp& warp, const Instruction* i) {
  warp.active &= 0u - warp.active;
  const std::string what = shown(string_at(warp, i, passed(warp, i, 0, 8)));
  fail("crash", "%s: the assertion `%s` fails (%s)", warp.where().c_str(), what.c_str(), warp.machine().place(i).c_str());
}

const std::vector<Operand>& list(const Operand& operand) {
  static const std::vector<Operand> none;
  return operand.kind == Operand::Kind::vector ? operand.parts : none;
}

void decode_call(Decoder& to, const Statement&) {
  std::size_t next = 0;
  const std::vector<Operand>& results = list(to.at(0));
  if (to.at(0).kind == Operand::Kind::vector) ++next;
  const Operand& callee = to.at(next);
  if (callee.kind != Operand::Kind::symbol) to.refuse("a call through a pointer is not emulated");
  static const std::vector<Operand> none;
  const std::vector<Operand>& arguments = to.count() > next + 1 ? list(to.at(next + 1)) : none;
  if (const Function* const found = to.program().module().find(callee.name); found != nullptr && !found->is_entry)
    return to.inline_call(*found, results, arguments);
  const bool prints = callee.name == "vprintf";
  if (!prints && callee.name != "__assertfail") to.refuse("the function " + std::string(callee.name) + " is not emulated");
  std::vector<Unit> places;
  for (const Operand& one : arguments) {
    places.push_back(to.local(one.name));
    if (places.back() == ~0u) to.refuse("an argument that is no .param variable");
  }
  if (places.size() < 2) to.refuse("a call with other arguments");
  Instruction& i = to.emit(prints ? print : assertion);
  to.detail(i).units = std::move(places);
}

}  // namespace

void add_calls(Decoders& all) { all["call"] = decode_call; }

}  // namespace gemmgen
