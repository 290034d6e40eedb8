// Memory between two bands that no access survives: operands, dynamic shared memory, stacks.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "failure.hpp"

namespace gemmgen {

constexpr std::size_t BAND_BYTES = std::size_t(64) << 20;  // a row or two past the end still lands in it
constexpr int POISON = 0xFF;                               // bytes of it are a NaN

// "8 bytes after the end of A" or "byte 8 of A", for an address in or beside what begins at `start`.
inline std::string relation(const unsigned char* address, const unsigned char* start, std::size_t bytes,
                            const std::string& name) {
  if (address < start) return std::to_string(start - address) + " bytes before the start of " + name;
  const std::size_t offset = std::size_t(address - start);
  if (offset < bytes) return "byte " + std::to_string(offset) + " of " + name;
  return std::to_string(offset - bytes) + " bytes after the end of " + name;
}

// Where the matrices of a batch of pointers lie, all of one operand in its region: what is between them is no operand's.
struct Matrices {
  struct Matrix {
    unsigned char* start;
    std::size_t product;  // the first one that it serves
  };
  std::vector<Matrix> by_address;
  std::size_t bytes = 0;  // of each

  const Matrix& nearest(const unsigned char* address) const {
    const auto starts_later = [](const unsigned char* place, const Matrix& matrix) { return place < matrix.start; };
    auto after = std::upper_bound(by_address.begin(), by_address.end(), address, starts_later);
    if (after == by_address.begin()) return *after;
    const auto before = after - 1;
    if (after == by_address.end() || address < before->start + bytes) return *before;
    return address - (before->start + bytes) < after->start - address ? *before : *after;
  }
};

// How a matrix, or a batch of them, lies in what holds it, in bytes: lines, each with padding after it.
struct Geometry {
  std::size_t element = 0;  // 0 for what is no matrix
  std::size_t line = 0;     // of a line's elements
  std::size_t ld = 0;       // from one line to the next
  std::size_t span = 0;     // of one matrix, from its first element to its last
  std::size_t stride = 0;   // from one matrix to the next; 0 where there is one
  bool by_rows = true;      // whether a line is a row

  // Whether an access that stays inside the operand stays on elements, too.
  bool holds(std::size_t offset, std::size_t bytes) const {
    if (ld == line && stride <= span) return true;
    if (interleaves()) {  // some matrix has to hold it
      std::size_t first = offset < span ? 0 : (offset - span) / stride * stride + stride;  // of matrices that reach so far
      for (; first <= offset; first += stride)
        if ((offset - first) % ld + bytes <= line) return true;
      return false;
    }
    if (stride != 0) offset %= stride;
    if (stride > span && offset + bytes > span) return false;
    return ld == line || offset % ld + bytes <= line;
  }

  // Whether lines of other matrices lie between the lines of one.
  bool interleaves() const { return stride != 0 && stride < span; }

  std::string place(std::size_t offset) const {
    const bool lines_first = interleaves() && stride < ld;
    const std::size_t inside = lines_first ? offset % ld : offset;  // where matrices lie side by side
    const std::size_t matrix = stride == 0 ? 0 : inside / stride, within = offset - matrix * stride;
    const std::string across = std::to_string(within / ld), along = std::to_string(within % ld / element);
    const std::string at = "row " + (by_rows ? across : along) + ", column " + (by_rows ? along : across);
    return stride == 0 ? at : at + " of matrix " + std::to_string(matrix);
  }

  std::string words(const std::string& name) const {
    const std::string across = std::to_string((span - line) / ld + 1), along = std::to_string(line / element);
    const std::string letter = name.size() == 1 ? std::string(1, char(name[0] | 0x20)) : "_" + name;
    const auto distance = [&](const char* what, std::size_t bytes) {
      return ", " + (what + letter) + " = " + std::to_string(bytes / element);
    };
    return name + " is " + (by_rows ? across : along) + " x " + (by_rows ? along : across) + distance("ld", ld) +
           (stride == 0 ? "" : distance(letter[0] == '_' ? "stride" : "stride_", stride));
  }
};

// `data` lies between `band_start` and `band_end`; what the pages hold beside it is slack.
struct Region {
  std::string name;
  unsigned char* band_start = nullptr;
  unsigned char* band_end = nullptr;
  unsigned char* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<const Matrices> matrices;  // where an access has to stay inside one of these
  Geometry geometry;                         // of the data, or of each of `matrices`

  bool near(const unsigned char* address) const { return address >= band_start && address < band_end; }
  bool contains(const unsigned char* address, std::size_t some) const {
    const unsigned char* const start = start_of(address);
    return address >= start && address + some <= start + (matrices == nullptr ? bytes : matrices->bytes);
  }
  // Of an access that it contains: whether it stays on elements.
  bool on_elements(const unsigned char* address, std::size_t some) const {
    return geometry.element == 0 || geometry.holds(std::size_t(address - start_of(address)), some);
  }
  // "row 3, column 5 of matrix 2", for an address that it contains.
  std::string place(const unsigned char* address) const {
    const std::string at = geometry.place(std::size_t(address - start_of(address)));
    return matrices == nullptr ? at : at + " of matrix " + std::to_string(matrices->nearest(address).product);
  }
  std::string describe(const unsigned char* address) const {
    if (geometry.element > 0 && contains(address, 1) && !on_elements(address, 1)) return describe_padding(address);
    const std::string counted = address >= data + bytes && geometry.element > 0 ? " (" + place(address) + ")" : "";
    if (matrices == nullptr) return relation(address, data, bytes, name) + counted;
    const Matrices::Matrix& matrix = matrices->nearest(address);
    return relation(address, matrix.start, matrices->bytes, "matrix " + std::to_string(matrix.product) + " of " + name);
  }
  // Of an access that it contains and that leaves the elements: where it does.
  std::string describe_padding(const unsigned char* address) const {
    while (on_elements(address, 1)) ++address;
    return "the padding of " + name + " at " + place(address) + " (" + geometry.words(name) + ")";
  }
  std::size_t mapped_bytes() const { return std::size_t(band_end - band_start); }

 private:
  const unsigned char* start_of(const unsigned char* address) const {
    return matrices == nullptr ? data : matrices->nearest(address).start;
  }
};

inline std::size_t page_bytes() { return std::size_t(sysconf(_SC_PAGESIZE)); }

inline void* map(void* address, std::size_t bytes, int protection, int flags, int file = -1, off_t offset = 0) {
  void* mapped = mmap(address, bytes, protection, flags, file, offset);
  if (mapped == MAP_FAILED) fail("unjudged", {}, "the emulator cannot map %zu bytes: %s", bytes, std::strerror(errno));
  return mapped;
}

inline unsigned char* map_bands(std::size_t bytes) {
  return static_cast<unsigned char*>(
      map(nullptr, bytes + 2 * BAND_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE));
}

// Addresses that no access survives, of which an operand has some.
inline unsigned char* reserve(const std::string& name, std::size_t bytes) {
  void* const found = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED)
    fail("unjudged", {}, "this machine has no room for the %zu bytes that %s spans: %s", bytes, name.c_str(), std::strerror(errno));
  return static_cast<unsigned char*>(found);
}

// Maps `segment_bytes` of `file` between bands; the operand starts `skew` bytes into them. So many bytes `before` belong to
// the lower band.
inline Region map_operand(const std::string& name, int file, off_t offset, std::size_t segment_bytes, std::size_t skew,
                          std::size_t bytes, bool writable, std::size_t before) {
  const std::size_t lower = BAND_BYTES + (before + page_bytes() - 1) / page_bytes() * page_bytes();
  unsigned char* start = reserve(name, lower + segment_bytes + BAND_BYTES);
  unsigned char* segment = start + lower;
  if (segment_bytes > 0)
    map(segment, segment_bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_FIXED, file, offset);
  return {name, start, segment + segment_bytes + BAND_BYTES, segment + skew, bytes, nullptr, {}};
}

// A file's pieces where the kernel sees them: one for each line of each matrix.
struct Pieces {
  std::size_t matrices, lines;
  std::size_t stride, ld;            // bytes between them for the kernel,
  std::size_t file_stride, file_ld;  // and in the file: less by whole pages, and more than a piece has by one at least

  std::size_t span() const { return (matrices - 1) * stride + (lines - 1) * ld; }
};

// The same of `bytes` that lie in pieces: most of what is between them has no memory. No access survives there.
inline Region map_pieces(const std::string& name, int file, off_t offset, std::size_t segment_bytes, std::size_t skew,
                         std::size_t bytes, bool writable, const Pieces& pieces) {
  const std::size_t span = pieces.span() + segment_bytes;  // more than enough for the last piece
  unsigned char* const start = reserve(name, span + 2 * BAND_BYTES);
  unsigned char* const segment = start + BAND_BYTES;
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  const auto whole = [](std::size_t place) { return place / page_bytes() * page_bytes(); };
  for (std::size_t m = 0; m < pieces.matrices; ++m)
    for (std::size_t l = 0; l < pieces.lines; ++l) {
      const std::size_t at = skew + m * pieces.file_stride + l * pieces.file_ld;
      const std::size_t end = l + 1 < pieces.lines ? at + pieces.file_ld : skew + (m + 1) * pieces.file_stride;
      const std::size_t begin = whole(at);  // the next piece's first page is none of this one's
      map(segment + whole(skew + m * pieces.stride + l * pieces.ld), std::min(whole(end), segment_bytes) - begin, protection,
          MAP_SHARED | MAP_FIXED, file, offset + off_t(begin));
    }
  return {name, start, segment + span + BAND_BYTES, segment + skew, bytes, nullptr, {}};
}

inline void unmap(Region& region) {
  if (region.band_start != nullptr) munmap(region.band_start, region.mapped_bytes());
  region = {};
}

// Private zeroed memory between bands.
inline Region map_private(const std::string& name, std::size_t bytes) {
  unsigned char* start = map_bands(bytes);
  unsigned char* data = start + BAND_BYTES;
  map(data, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE);
  return {name, start, data + bytes + BAND_BYTES, data, bytes, nullptr, {}};
}

}  // namespace gemmgen
