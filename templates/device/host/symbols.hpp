// The variables of the executable, from its own symbol table.
#pragma once

#include <cxxabi.h>
#include <elf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "descriptors.hpp"
#include "memory.hpp"

namespace gemmgen {

struct Variable {
  std::string name;
  std::string file;  // that was compiled; empty for what other files may name
  unsigned char* start;
  std::size_t bytes;

  // Bytes between it and `address`; 0 inside of it.
  std::size_t distance(const unsigned char* address) const {
    if (address < start) return std::size_t(start - address);
    return address < start + bytes ? 0 : std::size_t(address - start) - bytes + 1;
  }
  bool contains(const unsigned char* address) const { return address >= start && address < start + bytes; }
};

// "As" of a static variable's symbol: of _ZZ4gemmE2As or As.0, as compilers write it.
inline std::string name_of_symbol(const char* symbol) {
  int status = 0;
  char* const demangled = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string name = status == 0 ? demangled : symbol;
  std::free(demangled);
  const std::size_t scope = name.rfind("::");
  if (scope != std::string::npos) name.erase(0, scope + 2);
  return name.substr(0, name.find('.'));
}

// A shared array that `gemmgen::Shared` holds, of which the first words say where it is.
inline Variable held(Variable variable) {
  const std::string suffix = "_gemmgen_shared";
  if (variable.name.size() <= suffix.size() || variable.name.compare(variable.name.size() - suffix.size(), suffix.size(), suffix) != 0)
    return variable;
  unsigned words[2];
  std::memcpy(words, variable.start, sizeof words);
  variable.name.erase(variable.name.size() - suffix.size());
  variable.start += words[0];
  variable.bytes = words[1];
  return variable;
}

// The variables whose addresses lie from `first` to `last` (exclusive), by address. Symbols of no bytes are marks of the
// linker, such as where its section .data ends.
inline std::vector<Variable> variables_between(const unsigned char* first, const unsigned char* last) {
  std::vector<Variable> found;
  if (first == last) return found;
  struct stat status;
  if (fstat(PROGRAM, &status) != 0) fail("launch", {}, "the emulator cannot read its own program");
  const std::size_t bytes = std::size_t(status.st_size);
  auto* const image = static_cast<unsigned char*>(map(nullptr, bytes, PROT_READ, MAP_PRIVATE, PROGRAM));
  const auto* const header = reinterpret_cast<const Elf64_Ehdr*>(image);
  const auto* const sections = reinterpret_cast<const Elf64_Shdr*>(image + header->e_shoff);
  for (unsigned i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const auto* const symbols = reinterpret_cast<const Elf64_Sym*>(image + sections[i].sh_offset);
    const char* const names = reinterpret_cast<const char*>(image + sections[sections[i].sh_link].sh_offset);
    std::string file;
    for (std::size_t s = 0; s < sections[i].sh_size / sizeof *symbols; ++s) {
      auto* const start = reinterpret_cast<unsigned char*>(symbols[s].st_value);
      const char* const name = names + symbols[s].st_name;
      if (ELF64_ST_TYPE(symbols[s].st_info) == STT_FILE) file = name;  // of the local symbols that follow
      if (ELF64_ST_BIND(symbols[s].st_info) != STB_LOCAL) file.clear();
      if (ELF64_ST_TYPE(symbols[s].st_info) == STT_OBJECT && symbols[s].st_size > 0 && start >= first && start < last)
        found.push_back({name_of_symbol(name), file, start, symbols[s].st_size});
    }
  }
  munmap(image, bytes);
  std::sort(found.begin(), found.end(), [](const Variable& a, const Variable& b) { return a.start < b.start; });
  return found;
}

}  // namespace gemmgen
