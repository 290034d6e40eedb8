// The runtime's side of probes.hpp.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cmath>
#include <tuple>

#include "descriptors.hpp"
#include "memory.hpp"
#include "probes.hpp"
#include "races.hpp"

// Of the section in which probes name the outcomes that the compiler left possible.
extern "C" __attribute__((weak)) const uint32_t __start_gemmgen_possible[];
extern "C" __attribute__((weak)) const uint32_t __stop_gemmgen_possible[];

namespace gemmgen {

// Before the kernel runs: from now on its sites lie in the memory that the driver reads, and helpers share.
inline void share_sites() {
  if (gemmgen_site_count == 0) return;
  map(gemmgen_sites, SITES_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, SITES);
  for (const uint32_t* outcome = __start_gemmgen_possible; outcome != __stop_gemmgen_possible; ++outcome)
    gemmgen_sites[*outcome / 2].possible[*outcome % 2] |= watching ? 2 : 1;
}

void note_outcome(unsigned site, bool outcome) { gemmgen_sites[site].ran[outcome] = 1; }

// Those that differ least, and of these the least: whichever process meets them first.
void note_operands(unsigned number, bool outcome, double left, double right) {
  Site& site = gemmgen_sites[number];
  const double distance = std::fabs(left - right);
  if (site.ran[!outcome] || !std::isfinite(distance)) return;
  const auto closer = [&] {
    return !site.near || std::tie(distance, left, right) < std::tie(site.distance, site.operands[0], site.operands[1]);
  };
  if (!closer()) return;
  auto* const locked = reinterpret_cast<std::atomic<unsigned char>*>(&site.locked);
  while (locked->exchange(1)) {
  }
  if (closer()) {
    site.near = 1;
    site.distance = distance;
    site.operands[0] = left;
    site.operands[1] = right;
  }
  locked->store(0);
}

}  // namespace gemmgen
