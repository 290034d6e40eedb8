// What the compiler's checks (-fsanitize=...) call where a kernel breaks a rule of the language.
// The structures are the compilers' published interface to their UBSan run-time library.
#pragma once

#include <cstdint>

#include "block.hpp"
#include "failure.hpp"
#include "faults.hpp"

namespace gemmgen {

struct SourceLocation {
  const char* file;
  uint32_t line;
  uint32_t column;
};

struct TypeDescriptor {
  uint16_t kind;
  uint16_t info;
  char name[1];
};

struct TypeMismatch {
  SourceLocation location;
  const TypeDescriptor* type;
  unsigned char log_alignment;
  unsigned char access;
};

struct OutOfBounds {
  SourceLocation location;
  const TypeDescriptor* array;
  const TypeDescriptor* index;
};

struct Overflow {
  SourceLocation location;
  const TypeDescriptor* type;
};

[[noreturn]] inline void fail_rule(const SourceLocation& location, const std::string& what) {
  fail("crash", {location.line}, "%s: %s", block.where().c_str(), what.c_str());
}

}  // namespace gemmgen

extern "C" {

[[noreturn]] void __ubsan_handle_type_mismatch_v1_abort(const gemmgen::TypeMismatch* data, uintptr_t pointer) {
  const auto* address = reinterpret_cast<const unsigned char*>(pointer);
  const std::string place = gemmgen::describe_address(address);
  gemmgen::fail_rule(data->location, std::string("misaligned access to ") + data->type->name +
                                         ": an address that is " + std::to_string(pointer % 16) +
                                         " mod 16 is no multiple of " + std::to_string(1 << data->log_alignment) +
                                         " (" + place + ")");
}

[[noreturn]] void __ubsan_handle_out_of_bounds_abort(const gemmgen::OutOfBounds* data, intptr_t index) {
  gemmgen::fail_rule(data->location, "index " + std::to_string(index) + " is outside the array " + data->array->name);
}

[[noreturn]] void __ubsan_handle_add_overflow_abort(const gemmgen::Overflow* data, uintptr_t, uintptr_t) {
  gemmgen::fail_rule(data->location, std::string("a sum overflows ") + data->type->name);
}

[[noreturn]] void __ubsan_handle_sub_overflow_abort(const gemmgen::Overflow* data, uintptr_t, uintptr_t) {
  gemmgen::fail_rule(data->location, std::string("a difference overflows ") + data->type->name);
}

[[noreturn]] void __ubsan_handle_mul_overflow_abort(const gemmgen::Overflow* data, uintptr_t, uintptr_t) {
  gemmgen::fail_rule(data->location, std::string("a product overflows ") + data->type->name);
}

[[noreturn]] void __ubsan_handle_negate_overflow_abort(const gemmgen::Overflow* data, uintptr_t) {
  gemmgen::fail_rule(data->location, std::string("a negation overflows ") + data->type->name);
}

[[noreturn]] void __ubsan_handle_divrem_overflow_abort(const gemmgen::Overflow* data, uintptr_t, uintptr_t) {
  gemmgen::fail_rule(data->location, "a division by zero");
}

[[noreturn]] void __ubsan_handle_shift_out_of_bounds_abort(const gemmgen::Overflow* data, uintptr_t, uintptr_t by) {
  gemmgen::fail_rule(data->location, std::string("a shift by ") + std::to_string(int(by)) + " of " + data->type->name);
}

// The compilers do not agree on what `data` is.
[[noreturn]] void __ubsan_handle_float_cast_overflow_abort(const void*, uintptr_t) {
  gemmgen::fail("unjudged", {0, __builtin_return_address(0)},
                "%s: a conversion to an integer that its type does not hold: C++ leaves it open, a GPU takes the nearest "
                "(__float2int_rz and the like are judged)", gemmgen::block.where().c_str());
}

}  // extern "C"
