// Cells of shared_watch.hpp, looked at and set eight at a time.
#pragma once

#include <cstdint>
#include <cstring>

namespace gemmgen {

using Four = int32_t __attribute__((vector_size(16)));
using Eight = int32_t __attribute__((vector_size(32)));

// Cells begin at any multiple of 4 bytes.
template <typename V>
inline V loaded(const int32_t* from) {
  V values;
  std::memcpy(&values, from, sizeof values);
  return values;
}

inline bool any(Four lanes) {
  int64_t parts[2];
  std::memcpy(parts, &lanes, sizeof parts);
  return (parts[0] | parts[1]) != 0;
}

inline bool any(Eight lanes) {
  int64_t parts[4];
  std::memcpy(parts, &lanes, sizeof parts);
  return (parts[0] | parts[1] | parts[2] | parts[3]) != 0;
}


// What settles numbers of cells: those from `low` on and below `high`, and one more of writes and of reads each.
struct Limits {
  static constexpr int32_t NONE = INT32_MIN;  // 0 is a cell that nobody has written
  int32_t low, high, write, read, id;
};

template <typename V>
inline auto unread(const int32_t* write, const int32_t* read, const Limits& limits) {
  const V w = loaded<V>(write), r = loaded<V>(read);
  return (((w < limits.low) | (w >= limits.high)) & (w != limits.write)) | ((r >= limits.high) & (r != limits.read) & (r != limits.id));
}

// Whether the warp of `read` may read cells, which has no access of theirs to look at.
inline bool may_read(const int32_t* write, const int32_t* read, unsigned count, const Limits& limits) {
  unsigned c = 0;
  if (count >= 8) {
    Eight bad = {};
    for (; c + 8 <= count; c += 8) bad |= unread<Eight>(write + c, read + c, limits);
    if (any(bad)) return false;
  }
  if (c + 4 <= count) {
    if (any(Four(unread<Four>(write + c, read + c, limits)))) return false;
    c += 4;
  }
  for (; c < count; ++c) {
    const int32_t w = write[c], r = read[c];
    if (((w < limits.low || w >= limits.high) && w != limits.write) || (r >= limits.high && r != limits.read && r != limits.id)) return false;
  }
  return true;
}

template <typename V>
inline auto unwritten(const int32_t* write, const int32_t* latest, const Limits& limits) {
  const V w = loaded<V>(write), l = loaded<V>(latest);
  return (((w <= -limits.low) | (w >= limits.high)) & (w != limits.write)) | (l >= limits.high);
}

inline bool may_write(const int32_t* write, const int32_t* latest, unsigned count, const Limits& limits) {
  unsigned c = 0;
  if (count >= 8) {
    Eight bad = {};
    for (; c + 8 <= count; c += 8) bad |= unwritten<Eight>(write + c, latest + c, limits);
    if (any(bad)) return false;
  }
  if (c + 4 <= count) {
    if (any(Four(unwritten<Four>(write + c, latest + c, limits)))) return false;
    c += 4;
  }
  for (; c < count; ++c)
    if (((write[c] <= -limits.low || write[c] >= limits.high) && write[c] != limits.write) || latest[c] >= limits.high) return false;
  return true;
}

inline void set(int32_t* cells, unsigned count, int32_t number) {
  unsigned c = 0;
  const Eight eight = number - Eight{};
  const Four four = number - Four{};
  for (; c + 8 <= count; c += 8) std::memcpy(cells + c, &eight, sizeof eight);
  if (c + 4 <= count) std::memcpy(cells + c, &four, sizeof four), c += 4;
  for (; c < count; ++c) cells[c] = number;
}

}  // namespace gemmgen
