// The seam between a kernel and the runtime: the kernel's own signature says how its arguments
// are unpacked, so that no code is generated for a kernel beyond one GEMMGEN_ENTRY line.
#pragma once

#include <stddef.h>

namespace gemmgen {

union Argument {
  void* pointer;
  long long integer;
  double real;
};

}  // namespace gemmgen

extern "C" const char gemmgen_kernel_name[];
extern "C" const char* const gemmgen_kernel_signature;  // a letter a parameter: see Unpack
extern "C" const unsigned gemmgen_kernel_most_threads;    // of a block: its __launch_bounds__
extern "C" void gemmgen_kernel_call(const gemmgen::Argument* arguments);

namespace gemmgen {

template <typename T>
struct Unpack {
  static constexpr bool is_real = T(0.5) != T(0);
  static constexpr bool is_long = sizeof(T) == 8;
  static constexpr char letter = is_real ? (is_long ? 'd' : 'f') : is_long ? 'l' : 'i';
  static T from(const Argument& argument) { return is_real ? T(argument.real) : T(argument.integer); }
};

template <typename T>
struct Unpack<T*> {
  static constexpr char letter = 'p';
  static T* from(const Argument& argument) { return static_cast<T*>(argument.pointer); }
};

template <typename... Parameters>
struct Signature {
  static constexpr char letters[] = {Unpack<Parameters>::letter..., '\0'};
};

template <size_t... Indices>
struct IndexList {};

template <size_t Count, size_t... Indices>
struct MakeIndexList : MakeIndexList<Count - 1, Count - 1, Indices...> {};

template <size_t... Indices>
struct MakeIndexList<0, Indices...> {
  using type = IndexList<Indices...>;
};

template <typename... Parameters>
constexpr const char* signature_of(void (*)(Parameters...)) {
  return Signature<Parameters...>::letters;
}

template <typename... Parameters, size_t... Indices>
void call(void (*kernel)(Parameters...), const Argument* arguments, IndexList<Indices...>) {
  kernel(Unpack<Parameters>::from(arguments[Indices])...);
}

template <typename... Parameters>
void call(void (*kernel)(Parameters...), const Argument* arguments) {
  call(kernel, arguments, typename MakeIndexList<sizeof...(Parameters)>::type());
}

}  // namespace gemmgen

#define GEMMGEN_ENTRY(kernel, most_threads)                                              \
  extern "C" const char gemmgen_kernel_name[] = #kernel;                                 \
  extern "C" const char* const gemmgen_kernel_signature = gemmgen::signature_of(kernel); \
  extern "C" const unsigned gemmgen_kernel_most_threads = most_threads;                  \
  extern "C" void gemmgen_kernel_call(const gemmgen::Argument* arguments) { gemmgen::call(kernel, arguments); }
