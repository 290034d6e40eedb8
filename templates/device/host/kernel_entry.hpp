// The seam between a kernel and the runtime: the kernel's own signature says how its arguments
// are unpacked, so that no code is generated for a kernel beyond one GEMMGEN_ENTRY.
#pragma once

#include <stddef.h>

namespace gemmgen {

// A parameter as driver and kernel each see it, who must agree. Arguments lie one behind the other, each at a multiple of
// its alignment: as CUDA packs them.
struct Parameter {
  char kind;  // p(ointer), i(nteger), f(loating point) or s(truct) by value; m, a tensor map, is a struct for the kernel
  unsigned char alignment;
  unsigned short bytes;
};

constexpr size_t offset_of(const Parameter* parameters, size_t index) {
  size_t offset = 0;
  for (size_t i = 0;; ++i) {
    offset = (offset + parameters[i].alignment - 1) / parameters[i].alignment * parameters[i].alignment;
    if (i == index) return offset;
    offset += parameters[i].bytes;
  }
}

// One of the kernel's own at file scope, `__device__` or `__constant__`. All blocks share it, and it outlives a launch.
struct DeviceVariable {
  const char* name;
  void* address;
  size_t bytes;
  bool written;
};

// A kernel of the text, which a launch names by its number: the first is the one, others prepare its operands.
struct Entry {
  const Parameter* parameters;
  unsigned parameter_count;
  unsigned most_threads;  // of a block: its __launch_bounds__
  unsigned cluster;       // its __cluster_dims__; 0 without
  void (*call)(const unsigned char* arguments);
};

}  // namespace gemmgen

extern "C" const gemmgen::DeviceVariable gemmgen_device_variables[];
extern "C" const unsigned gemmgen_device_variable_count;
extern "C" const unsigned gemmgen_dynamic_alignment;    // of dynamic shared memory, in bytes: what its text asks for
extern "C" const gemmgen::Entry gemmgen_entries[];

namespace gemmgen {

template <typename T, bool is_class = __is_class(T)>
struct KindOf {
  static constexpr char letter = 's';
};

template <typename T>
struct KindOf<T, false> {
  static constexpr char letter = T(0.5) != T(0) ? 'f' : 'i';
};

template <typename T>
struct KindOf<T*, false> {
  static constexpr char letter = 'p';
};

template <typename... Types>
struct Signature {
  static constexpr Parameter parameters[] = {{KindOf<Types>::letter, alignof(Types), sizeof(Types)}..., {}};
};

template <size_t... Indices>
struct IndexList {};

template <size_t Count, size_t... Indices>
struct MakeIndexList : MakeIndexList<Count - 1, Count - 1, Indices...> {};

template <size_t... Indices>
struct MakeIndexList<0, Indices...> {
  using type = IndexList<Indices...>;
};

template <typename... Types>
constexpr const Parameter* parameters_of(void (*)(Types...)) {
  return Signature<Types...>::parameters;
}

template <typename... Types>
constexpr unsigned count_of(void (*)(Types...)) {
  return sizeof...(Types);
}

template <typename... Types, size_t... Indices>
void call(void (*kernel)(Types...), const unsigned char* arguments, IndexList<Indices...>) {
  constexpr const Parameter* parameters = Signature<Types...>::parameters;
  kernel(*reinterpret_cast<const Types*>(arguments + offset_of(parameters, Indices))...);
}

template <typename... Types>
void call(void (*kernel)(Types...), const unsigned char* arguments) {
  call(kernel, arguments, typename MakeIndexList<sizeof...(Types)>::type());
}

template <auto kernel>
void call_entry(const unsigned char* arguments) {
  call(kernel, arguments);
}

}  // namespace gemmgen

#define GEMMGEN_ENTRY(kernel, most_threads, cluster) \
  {gemmgen::parameters_of(kernel), gemmgen::count_of(kernel), most_threads, cluster, gemmgen::call_entry<kernel>},
#define GEMMGEN_ENTRIES(list, dynamic_alignment)                        \
  extern "C" const gemmgen::Entry gemmgen_entries[] = {list};           \
  extern "C" const unsigned gemmgen_dynamic_alignment = dynamic_alignment;

#define GEMMGEN_VARIABLE(name, written) \
  {#name, const_cast<void*>(static_cast<const volatile void*>(&name)), sizeof(name), written},
#define GEMMGEN_VARIABLES(list)                                                          \
  extern "C" const gemmgen::DeviceVariable gemmgen_device_variables[] = {list{}};        \
  extern "C" const unsigned gemmgen_device_variable_count = sizeof gemmgen_device_variables / sizeof(gemmgen::DeviceVariable) - 1;
