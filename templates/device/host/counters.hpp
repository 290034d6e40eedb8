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
inline void note_operands(Site& site, bool outcome, double left, double right) {
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

void note_operands(unsigned number, bool outcome, double left, double right) {
  note_operands(gemmgen_sites[number], outcome, left, right);
}

// In a helper, whose sites are its own while it runs: processes that note in the same memory wait for each other at
// every probe.
inline void own_sites() {
  if (gemmgen_site_count == 0) return;
  map(gemmgen_sites, SITES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, SITES);
  for (unsigned i = 0; i < gemmgen_site_count; ++i) gemmgen_sites[i].locked = gemmgen_sites[i].near = 0;
}

// At its end: what it has noted joins what all have.
inline void join_sites() {
  if (gemmgen_site_count == 0) return;
  auto* const all = static_cast<Site*>(map(nullptr, SITES_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, SITES));
  for (unsigned i = 0; i < gemmgen_site_count; ++i) {
    const Site& own = gemmgen_sites[i];
    for (const bool outcome : {false, true})
      if (own.ran[outcome]) all[i].ran[outcome] = 1;
    if (own.near) note_operands(all[i], own.ran[1] != 0, own.operands[0], own.operands[1]);
  }
}

}  // namespace gemmgen
