// The operands of a launch in memory, each between bands that belong to no other, and the words for a place in them.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "failure.hpp"

namespace gemmgen {

constexpr uint64_t BAND_BYTES = uint64_t(64) << 20;  // a row or two past the end still lands in it

// "8 bytes after the end of A" or "byte 8 of A", for an address in or beside what begins at `start`.
inline std::string relation(uint64_t address, uint64_t start, uint64_t bytes, const std::string& name) {
  if (address < start) return std::to_string(start - address) + " bytes before the start of " + name;
  const uint64_t offset = address - start;
  if (offset < bytes) return "byte " + std::to_string(offset) + " of " + name;
  return std::to_string(offset - bytes) + " bytes after the end of " + name;
}

// Where the matrices of a batch of pointers lie, all of one operand in its region: what is between them is no operand's.
struct Matrices {
  struct Matrix {
    uint64_t start;
    uint64_t product;  // the first one that it serves
  };
  std::vector<Matrix> by_address;
  uint64_t bytes = 0;  // of each

  const Matrix& nearest(uint64_t address) const {
    const auto starts_later = [](uint64_t place, const Matrix& matrix) { return place < matrix.start; };
    const auto after = std::upper_bound(by_address.begin(), by_address.end(), address, starts_later);
    if (after == by_address.begin()) return *after;
    const auto before = after - 1;
    if (after == by_address.end() || address < before->start + bytes) return *before;
    return address - (before->start + bytes) < after->start - address ? *before : *after;
  }
};

// How a matrix, or a batch of them, lies in what holds it, in bytes: lines, each with padding after it.
struct Geometry {
  uint64_t element = 0;  // 0 for what is no matrix
  uint64_t line = 0;     // of a line's elements
  uint64_t ld = 0;       // from one line to the next
  uint64_t span = 0;     // of one matrix, from its first element to its last
  uint64_t stride = 0;   // from one matrix to the next; 0 where there is one
  bool by_rows = true;   // whether a line is a row

  // Whether all that the operand spans are elements.
  bool is_dense() const { return ld == line && stride <= span; }

  // Whether an access that stays inside the operand stays on elements, too.
  bool holds(uint64_t offset, uint64_t bytes) const {
    if (is_dense()) return true;
    if (interleaves()) {  // some matrix has to hold it
      uint64_t first = offset < span ? 0 : (offset - span) / stride * stride + stride;  // of matrices that reach so far
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

  std::string place(uint64_t offset) const {
    const bool lines_first = interleaves() && stride < ld;
    const uint64_t inside = lines_first ? offset % ld : offset;  // where matrices lie side by side
    const uint64_t matrix = stride == 0 ? 0 : inside / stride, within = offset - matrix * stride;
    const std::string across = std::to_string(within / ld), along = std::to_string(within % ld / element);
    const std::string at = "row " + (by_rows ? across : along) + ", column " + (by_rows ? along : across);
    return stride == 0 ? at : at + " of matrix " + std::to_string(matrix);
  }

  std::string words(const std::string& name) const {
    const std::string across = std::to_string((span - line) / ld + 1), along = std::to_string(line / element);
    const std::string letter = name.size() == 1 ? std::string(1, char(name[0] | 0x20)) : "_" + name;
    const auto distance = [&](const char* what, uint64_t bytes) {
      return ", " + (what + letter) + " = " + std::to_string(bytes / element);
    };
    return name + " is " + (by_rows ? across : along) + " x " + (by_rows ? along : across) + distance("ld", ld) +
           (stride == 0 ? "" : distance(letter[0] == '_' ? "stride" : "stride_", stride));
  }
};

// `data` lies between `band_start` and `band_end`; what the pages hold beside it is slack.
struct Region {
  std::string name;
  uint64_t band_start = 0;
  uint64_t band_end = 0;
  uint64_t data = 0;
  uint64_t bytes = 0;
  std::shared_ptr<const Matrices> matrices;  // where an access has to stay inside one of these
  Geometry geometry;                         // of the data, or of each of `matrices`

  bool near(uint64_t address) const { return address - band_start < band_end - band_start; }
  bool contains(uint64_t address, uint64_t some) const {
    const uint64_t offset = address - start_of(address), all = matrices == nullptr ? bytes : matrices->bytes;
    return offset <= all && some <= all - offset;
  }
  // Of an access that it contains: whether it stays on elements.
  bool on_elements(uint64_t address, uint64_t some) const {
    return geometry.element == 0 || geometry.holds(address - start_of(address), some);
  }
  // Whether each access that it contains stays on elements.
  bool is_dense() const { return geometry.element == 0 || geometry.is_dense(); }

  // "row 3, column 5 of matrix 2", for an address that it contains.
  std::string place(uint64_t address) const {
    const std::string at = geometry.place(address - start_of(address));
    return matrices == nullptr ? at : at + " of matrix " + std::to_string(matrices->nearest(address).product);
  }
  std::string describe(uint64_t address) const {
    if (geometry.element > 0 && contains(address, 1) && !on_elements(address, 1)) return describe_padding(address);
    const std::string counted = address >= data + bytes && geometry.element > 0 ? " (" + place(address) + ")" : "";
    if (matrices == nullptr) return relation(address, data, bytes, name) + counted;
    const Matrices::Matrix& matrix = matrices->nearest(address);
    return relation(address, matrix.start, matrices->bytes, "matrix " + std::to_string(matrix.product) + " of " + name);
  }
  // Of an access that it does not contain: the first byte outside.
  std::string describe_outside(uint64_t address, uint64_t some) const {
    if (!contains(address, 1)) return describe(address);
    while (contains(address, 1)) ++address;
    return describe(address) + " (an access of " + std::to_string(some) + " bytes)";
  }
  // Of an access that it contains and that leaves the elements: where it does.
  std::string describe_padding(uint64_t address) const {
    while (on_elements(address, 1)) ++address;
    return "the padding of " + name + " at " + place(address) + " (" + geometry.words(name) + ")";
  }

 private:
  uint64_t start_of(uint64_t address) const { return matrices == nullptr ? data : matrices->nearest(address).start; }
};

// An operand, or a part of the workspace, as the driver sends it: where it lies in the file that both share.
struct Placement {
  char name[24];
  uint64_t offset;         // of the segment, a multiple of the page
  uint64_t segment_bytes;  // whole pages
  uint64_t skew;           // from the segment's start to the operand's first byte
  uint64_t bytes;
  uint32_t element_bytes;
  uint16_t written;       // whether the kernel may write there
  uint16_t array;         // whether it takes an array of pointers to the matrices that lie there,
  uint64_t matrix_bytes;  // each of so many bytes
  // Of a matrix, as Geometry has them; all 0 for what is none.
  uint64_t line_bytes;
  uint64_t ld_bytes;
  uint64_t span_bytes;
  uint64_t stride_bytes;
  uint16_t by_rows;
  uint16_t holds_values;  // whether what it holds before the launch may be read
  uint32_t matrices;      // that lie apart for the kernel, with pages of their own in the file,
  uint64_t lines;         // or whose lines do; 1 and 1 where all is one piece
  uint64_t file_ld_bytes;      // from one line, or from one matrix, to the next in the file: less by whole pages than for the
  uint64_t file_stride_bytes;  // kernel, and more than a piece has by one at least
  uint64_t before;  // bytes that lie before the segment for the kernel, and have no memory

  bool in_pieces() const { return matrices * lines > 1; }
};

static_assert(sizeof(Placement) == 144, "the driver packs as many bytes: Placement.pack in gemmgen/run/emulator/arena.py");

// Addresses of this process, which end with it. Nothing can be accessed there before something is mapped.
class Reservation {
 public:
  Reservation() = default;
  // Throws Failure: room, with the `name` of the operand that spans so much.
  Reservation(const std::string& name, uint64_t bytes) : bytes_(bytes) {
    void* const found = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED)
      fail("room", "this machine has no room for the %zu bytes that %s spans: %s", std::size_t(bytes), name.c_str(),
           std::strerror(errno));
    start_ = reinterpret_cast<uint64_t>(found);
  }
  Reservation(Reservation&& other) noexcept { swap(other); }
  Reservation& operator=(Reservation&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Reservation() {
    if (start_ != 0) munmap(reinterpret_cast<void*>(start_), bytes_);
  }

  uint64_t start() const { return start_; }
  uint64_t end() const { return start_ + bytes_; }

  // Memory at `address`: of a file, or, without one, zeroed and this process's own.
  void map(uint64_t address, uint64_t bytes, bool writable, int file, uint64_t offset) {
    if (bytes == 0) return;
    const int kind = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
    const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    if (mmap(reinterpret_cast<void*>(address), bytes, protection, kind | MAP_FIXED, file, off_t(offset)) == MAP_FAILED)
      fail("room", "the emulator cannot map %zu bytes: %s", std::size_t(bytes), std::strerror(errno));
  }

 private:
  void swap(Reservation& other) {
    std::swap(start_, other.start_);
    std::swap(bytes_, other.bytes_);
  }

  uint64_t start_ = 0;
  uint64_t bytes_ = 0;
};

// An operand of a launch, a part of its workspace, or a variable of the module in global memory.
struct Allocation {
  unsigned index;  // in Allocations, where operands have the driver's numbers
  Region region;
  Region array;  // of pointers to its matrices, where the kernel takes such; no access writes there
  uint64_t element_bytes;
  bool written;          // whether the kernel may write to `region`
  bool holds_values;     // whether it may read what is there before the launch
  uint64_t before;       // bytes from what the kernel takes for its start to the first that has memory
  bool is_variable;      // of the module

  // What the kernel takes for it.
  uint64_t pointer() const { return array.data != 0 ? array.data : region.data - before; }
  // Of the two the one that an address near them is in or beside.
  const Region& at(uint64_t address) const { return array.near(address) ? array : region; }
};

// All that the kernel has pointers to. It stays as it is during a launch: any number of threads may ask.
class Allocations {
 public:
  Allocations() = default;
  // Maps what `placements` say of `file`. For `products` of a batch of pointers the file has at `matrices_offset` where each
  // product's matrix starts, in bytes from the operand's first, for each operand with an array in turn. By an even `seed`
  // arrays touch the band above them, by an odd one that below. Throws Failure: room.
  Allocations(const std::vector<Placement>& placements, int file, uint64_t seed, uint64_t products, uint64_t matrices_offset) {
    all_.reserve(placements.size());
    for (const Placement& place : placements) all_.push_back(mapped(place, file));
    if (products > 0) map_arrays(placements, file, seed, products, matrices_offset);
    sort_spans();
  }

  // A variable of the module, in memory that others own.
  void add_variable(std::string name, uint64_t start, uint64_t bytes, bool written) {
    Region region = {std::move(name), start, start + bytes, start, bytes, nullptr, {}};
    all_.push_back({unsigned(all_.size()), std::move(region), {}, bytes & -bytes, written, true, 0, true});
    sort_spans();
  }

  // What `address` is in or beside; null where it is far from all.
  const Allocation* find(uint64_t address) const {
    const auto starts_later = [](uint64_t place, const Span& span) { return place < span.start; };
    const auto after = std::upper_bound(spans_.begin(), spans_.end(), address, starts_later);
    if (after == spans_.begin() || address >= (after - 1)->end) return nullptr;
    return &all_[(after - 1)->index];
  }

  // Likewise the place for a person: "8 bytes after the end of A".
  std::string describe(uint64_t address) const {
    if (const Allocation* const near = find(address)) return near->at(address).describe(address);
    char text[64];
    std::snprintf(text, sizeof text, "at address 0x%llx, which is no operand's", static_cast<unsigned long long>(address));
    return text;
  }

  std::size_t size() const { return all_.size(); }
  const Allocation& operator[](std::size_t index) const { return all_[index]; }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  struct Span {
    uint64_t start, end;
    unsigned index;
  };

  static uint64_t page_bytes() {
    static const uint64_t bytes = uint64_t(sysconf(_SC_PAGESIZE));
    return bytes;
  }
  static uint64_t whole_pages(uint64_t bytes) { return (bytes + page_bytes() - 1) / page_bytes() * page_bytes(); }
  static uint64_t page_of(uint64_t address) { return address / page_bytes() * page_bytes(); }

  Allocation mapped(const Placement& place, int file) {
    const std::string name(place.name, strnlen(place.name, sizeof place.name));
    Region region = place.in_pieces() ? map_pieces(name, place, file) : map_whole(name, place, file);
    const uint64_t stride = place.array ? 0 : place.stride_bytes;  // each matrix of an array is one by itself
    if (place.line_bytes > 0)
      region.geometry = {place.element_bytes, place.line_bytes, place.ld_bytes, place.span_bytes, stride, place.by_rows != 0};
    return {unsigned(all_.size()), std::move(region), {}, place.element_bytes, place.written != 0, place.holds_values != 0,
            place.before, false};
  }

  const Reservation& keep(Reservation&& one) {
    reservations_.push_back(std::move(one));
    return reservations_.back();
  }

  // In one piece. What lies before it without memory belongs to the lower band.
  Region map_whole(const std::string& name, const Placement& place, int file) {
    const uint64_t lower = BAND_BYTES + whole_pages(place.before);
    Reservation addresses(name, lower + place.segment_bytes + BAND_BYTES);
    const uint64_t segment = addresses.start() + lower;
    addresses.map(segment, place.segment_bytes, place.written != 0, file, place.offset);
    const Reservation& kept = keep(std::move(addresses));
    return {name, kept.start(), kept.end(), segment + place.skew, place.bytes, nullptr, {}};
  }

  // In pieces, one for each line of each matrix: most of what is between them has no memory.
  Region map_pieces(const std::string& name, const Placement& place, int file) {
    const uint64_t last = (place.matrices - 1) * place.stride_bytes + (place.lines - 1) * place.ld_bytes;
    const uint64_t span = last + place.segment_bytes;  // more than enough for the last piece
    Reservation addresses(name, span + 2 * BAND_BYTES);
    const uint64_t segment = addresses.start() + BAND_BYTES;
    for (uint64_t m = 0; m < place.matrices; ++m)
      for (uint64_t l = 0; l < place.lines; ++l) {
        const uint64_t at = place.skew + m * place.file_stride_bytes + l * place.file_ld_bytes;
        const bool more = l + 1 < place.lines;
        const uint64_t end = more ? at + place.file_ld_bytes : place.skew + (m + 1) * place.file_stride_bytes;
        const uint64_t begin = page_of(at);  // the next piece's first page is none of this one's
        const uint64_t seen = place.skew + m * place.stride_bytes + l * place.ld_bytes;
        addresses.map(segment + page_of(seen), std::min(page_of(end), place.segment_bytes) - begin, place.written != 0, file,
                      place.offset + begin);
      }
    const Reservation& kept = keep(std::move(addresses));
    return {name, kept.start(), kept.end(), segment + place.skew, place.bytes, nullptr, {}};
  }

  void map_arrays(const std::vector<Placement>& placements, int file, uint64_t seed, uint64_t products, uint64_t offset) {
    uint64_t arrays = 0;
    for (const Placement& place : placements) arrays += place.array != 0;
    if (arrays == 0) return;
    const uint64_t first = page_of(offset), bytes = offset - first + arrays * products * sizeof(uint64_t);
    Reservation table("the table of matrices", bytes);
    table.map(table.start(), bytes, false, file, first);
    const auto* offsets = reinterpret_cast<const uint64_t*>(table.start() + (offset - first));
    for (std::size_t i = 0; i < placements.size(); ++i) {
      if (placements[i].array == 0) continue;
      map_array(all_[i], placements[i].matrix_bytes, offsets, seed, products);
      offsets += products;
    }
  }

  // Makes `one` matrices of `matrix_bytes` that start `offsets` from its first byte, and the array that points to them.
  void map_array(Allocation& one, uint64_t matrix_bytes, const uint64_t* offsets, uint64_t seed, uint64_t products) {
    const uint64_t bytes = products * sizeof(uint64_t), mapped = whole_pages(bytes);
    const std::string name = "the pointers to " + one.region.name;
    Reservation addresses(name, mapped + 2 * BAND_BYTES);
    addresses.map(addresses.start() + BAND_BYTES, mapped, true, -1, 0);
    const uint64_t data = addresses.start() + BAND_BYTES + (seed % 2 == 0 ? mapped - bytes : 0);
    auto all = std::make_shared<Matrices>();
    all->bytes = matrix_bytes;
    for (uint64_t product = 0; product < products; ++product) {
      const uint64_t start = one.region.data + offsets[product];
      reinterpret_cast<uint64_t*>(data)[product] = start;
      all->by_address.push_back({start, product});
    }
    const auto earlier = [](const Matrices::Matrix& a, const Matrices::Matrix& b) { return a.start < b.start; };
    const auto same = [](const Matrices::Matrix& a, const Matrices::Matrix& b) { return a.start == b.start; };
    std::stable_sort(all->by_address.begin(), all->by_address.end(), earlier);
    all->by_address.erase(std::unique(all->by_address.begin(), all->by_address.end(), same), all->by_address.end());
    one.region.matrices = std::move(all);
    const Reservation& kept = keep(std::move(addresses));
    one.array = {name, kept.start(), kept.end(), data, bytes, nullptr, {}};
  }

  void sort_spans() {
    spans_.clear();
    for (const Allocation& one : all_)
      for (const Region* region : {&one.region, &one.array})
        if (region->band_start < region->band_end) spans_.push_back({region->band_start, region->band_end, one.index});
    std::sort(spans_.begin(), spans_.end(), [](const Span& a, const Span& b) { return a.start < b.start; });
  }

  std::vector<Reservation> reservations_;
  std::vector<Allocation> all_;
  std::vector<Span> spans_;  // by address: of all regions and arrays, bands included
};

}  // namespace gemmgen
