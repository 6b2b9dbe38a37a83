// A matrix the other way round, in blocks of 16 by 16 numbers that stay in registers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace treefold {

constexpr int64_t kSide = 16;

typedef float Row16 __attribute__((vector_size(kSide * sizeof(float))));

// Two rows exchange blocks of `kStep` numbers: those beside the diagonal.
template <size_t kStep>
inline void exchange(Row16& a, Row16& b) {
  const Row16 first = a, second = b;
  [&]<size_t... c>(std::index_sequence<c...>) {
    a = __builtin_shufflevector(first, second, (c & kStep ? kSide + c - kStep : c)...);
    b = __builtin_shufflevector(first, second, (c & kStep ? kSide + c : c + kStep)...);
  }(std::make_index_sequence<kSide>());
}

template <size_t kStep>
inline void exchange_all(Row16* rows) {
  for (size_t i = 0; i < kSide; ++i)
    if (!(i & kStep)) exchange<kStep>(rows[i], rows[i + kStep]);
}

// Numbers of 32 bits, whatever they are.
inline void transpose_block(const void* from, int64_t step, void* to, int64_t to_step) {
  Row16 rows[kSide];
  for (int64_t i = 0; i < kSide; ++i)
    std::memcpy(&rows[i], static_cast<const float*>(from) + i * step, sizeof(Row16));
  exchange_all<8>(rows);
  exchange_all<4>(rows);
  exchange_all<2>(rows);
  exchange_all<1>(rows);
  for (int64_t i = 0; i < kSide; ++i)
    std::memcpy(static_cast<float*>(to) + i * to_step, &rows[i], sizeof(Row16));
}

// Write a matrix [rows, columns], whose rows are `step` apart, the other way round.
template <class T>
inline void transpose(const T* from, int64_t rows, int64_t columns, int64_t step, T* to, int64_t to_step) {
  for (int64_t i = 0; i < rows; i += kSide)
    for (int64_t c = 0; c < columns; c += kSide) {
      const T* block = from + i * step + c;
      const int64_t height = std::min(kSide, rows - i), width = std::min(kSide, columns - c);
      if (sizeof(T) == sizeof(float) && height == kSide && width == kSide) {
        transpose_block(block, step, to + c * to_step + i, to_step);
        continue;
      }
      for (int64_t k = 0; k < width; ++k)
        for (int64_t j = 0; j < height; ++j) to[(c + k) * to_step + i + j] = block[j * step + k];
    }
}

}  // namespace treefold
