// PTX's types.
#pragma once

#include <cstdint>
#include <string_view>

namespace gemmgen {

enum class Type : uint8_t {
  none, pred,
  b8, b16, b32, b64, b128,
  u8, u16, u32, u64,
  s8, s16, s32, s64,
  f16, bf16, f16x2, bf16x2, tf32, f32, f64,
  e4m3, e5m2, e4m3x2, e5m2x2, e2m1x2, e2m3x2, e3m2x2, ue8m0x2,
};

// That of a modifier, as "u32"; none where it names no type.
Type type_named(std::string_view word);

constexpr unsigned bits_of(Type type) {
  switch (type) {
    case Type::none: return 0;
    case Type::pred: return 1;
    case Type::b8: case Type::u8: case Type::s8: case Type::e4m3: case Type::e5m2: case Type::e2m1x2: return 8;
    case Type::b16: case Type::u16: case Type::s16: case Type::f16: case Type::bf16: case Type::e4m3x2: case Type::e5m2x2:
    case Type::e2m3x2: case Type::e3m2x2: case Type::ue8m0x2: return 16;
    case Type::b32: case Type::u32: case Type::s32: case Type::f16x2: case Type::bf16x2: case Type::tf32: case Type::f32: return 32;
    case Type::b64: case Type::u64: case Type::s64: case Type::f64: return 64;
    case Type::b128: return 128;
  }
  return 0;
}

constexpr unsigned bytes_of(Type type) { return (bits_of(type) + 7) / 8; }
constexpr bool is_signed(Type type) { return type >= Type::s8 && type <= Type::s64; }
constexpr bool is_floating(Type type) { return type >= Type::f16; }

template <typename T>
struct Tag {
  using type = T;
};

// Calls `use` with the Tag of the integer that has `bits` bits, of 16 to 64: what add, and, shl and moves need to know of a type.
template <typename Use>
auto with_bits(unsigned bits, Use use) {
  switch (bits) {
    case 16: return use(Tag<uint16_t>());
    case 32: return use(Tag<uint32_t>());
    default: return use(Tag<uint64_t>());
  }
}

// The same of an integer type with its sign; bits count as unsigned.
template <typename Use>
auto with_integer(Type type, Use use) {
  switch (type) {
    case Type::s16: return use(Tag<int16_t>());
    case Type::s32: return use(Tag<int32_t>());
    case Type::s64: return use(Tag<int64_t>());
    default: return with_bits(bits_of(type), use);
  }
}

// The same with types of 8 bits, which stand in memory and in conversions alone.
template <typename Use>
auto with_bytes(unsigned bits, Use use) {
  return bits == 8 ? use(Tag<uint8_t>()) : with_bits(bits, use);
}

template <typename Use>
auto with_any_integer(Type type, Use use) {
  return type == Type::s8 ? use(Tag<int8_t>()) : bits_of(type) == 8 ? use(Tag<uint8_t>()) : with_integer(type, use);
}

}  // namespace gemmgen
