// Products of rows with a matrix, by torch's kernels, on the thread that asks for them.
//
// Float is multiplied by `brgemm`, which is oneDNN's where the CPU is one it knows; double by `mm`.
// In half precision, factors are rounded to bfloat16, and sums stay float.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm_cpu_dispatch.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "memory.h"
#include "transpose.h"

#if defined(CPUBLAS_BRGEMM_F32F32F32) && defined(CPUBLAS_BRGEMM_BF16BF16F32)
#define TREEFOLD_BRGEMM
#endif

namespace treefold {

// Rows that are multiplied at once; kernels are made for every multiple of a few rows.
constexpr int64_t kBlock = 64, kFew = 8;

inline int64_t rounded_up(int64_t count, int64_t step) { return (count + step - 1) / step * step; }

enum class Precision { full, half, half_without_brgemm };

// The product of the smallest matrices tells whether this CPU, and torch as it is set, has it.
inline Precision half_precision() {
#ifdef TREEFOLD_BRGEMM
  const std::vector<at::BFloat16> ones(kFew * kFew, at::BFloat16(1.0f));
  std::vector<float> out(kFew * kFew);
  try {
    at::native::cpublas::brgemm(
        kFew, kFew, kFew, kFew, kFew, kFew, false, ones.data(), ones.data(), out.data());
    at::native::cpublas::brgemm_release();
    return Precision::half;
  } catch (const std::exception&) {
  }
#endif
  return Precision::half_without_brgemm;
}

template <class T>
inline at::Tensor matrix(const T* data, int64_t rows, int64_t columns) {
  return at::from_blob(
      const_cast<T*>(data), {rows, columns},
      at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value));
}

// This thread's memory for `count` numbers, until it asks for that of the same `use` again.
enum class For { left, right, out };

template <class T, For use>
inline T* desk(int64_t count) {
  thread_local std::vector<T> memory;
  if (static_cast<int64_t>(memory.size()) < count) memory.resize(count);
  return memory.data();
}

// The bits of the nearest bfloat16, of two the even one; NaN stays NaN.
inline uint32_t rounded(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const uint32_t nearest = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  return (bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC0u : nearest;
}

// Rows as bfloat16, with zeros up to `columns`.
inline void round_rows(const float* from, int64_t rows, int64_t width, int64_t columns, uint16_t* to) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < width; ++c) to[i * columns + c] = static_cast<uint16_t>(rounded(from[i * width + c]));
    for (int64_t c = width; c < columns; ++c) to[i * columns + c] = 0;
  }
}

// The right-hand matrix of a product in bfloat16: rows 2i and 2i + 1 are one row of pairs.
inline void pack(
    const float* from, int64_t rows, int64_t columns, int64_t row_step, int64_t column_step,
    int64_t padded_rows, uint32_t* to) {
  for (int64_t i = 0; i < padded_rows; i += 2) {
    const float *__restrict first = from + i * row_step, *__restrict second = first + row_step;
    uint32_t* __restrict pairs = to + i / 2 * columns;
    if (column_step == 1 && i + 1 < rows) {
      for (int64_t c = 0; c < columns; ++c) pairs[c] = rounded(first[c]) | rounded(second[c]) << 16;
      continue;
    }
    for (int64_t c = 0; c < columns; ++c) {
      const uint32_t low = i < rows ? rounded(first[c * column_step]) : 0;
      const uint32_t high = i + 1 < rows ? rounded(second[c * column_step]) : 0;
      pairs[c] = low | high << 16;
    }
  }
}

// What rows are multiplied with: [inner, columns], laid out for it once.
template <class T>
class Factor {
 public:
  Factor() = default;

  // From a matrix in memory, or its transpose: [columns, inner].
  Factor(const T* data, int64_t inner, int64_t columns, bool transposed, Precision precision)
      : inner_(inner), columns_(columns), precision_(precision) {
    const int64_t row_step = transposed ? 1 : columns, column_step = transposed ? inner : 1;
    if (precision == Precision::half) {
      padded_ = rounded_up(inner, 2);
      memory_ = leased<T>({padded_ / 2 * columns});
      if constexpr (std::is_same_v<T, float>)
        pack(data, inner, columns, row_step, column_step, padded_, packed());
      return;
    }
    memory_ = matrix(data, inner, columns);
    if (transposed) {
      memory_ = leased<T>({inner, columns});
      transpose(data, columns, inner, inner, memory_.template data_ptr<T>(), columns);
    }
    if (precision == Precision::half_without_brgemm) memory_ = memory_.to(at::kBFloat16);
  }

  // Write `rows` [count, inner] times the matrix into `out` [count, columns].
  void times(const T* rows, int64_t count, T* out) const {
    if (count == 0 || inner_ == 0 || columns_ == 0) {
      std::fill_n(out, count * columns_, T(0));
    } else if (precision_ == Precision::half_without_brgemm) {
      matrix(out, count, columns_).copy_(at::cpu::mm(matrix(rows, count, inner_).to(at::kBFloat16), memory_));
    } else {
      times_in_blocks(rows, count, out);
    }
  }

 private:
  uint32_t* packed() const { return static_cast<uint32_t*>(memory_.data_ptr()); }

  void times_in_blocks(const T* rows, int64_t count, T* out) const {
#ifdef TREEFOLD_BRGEMM
    if constexpr (std::is_same_v<T, float>) {
      const int64_t whole = count / kFew * kFew;
      for (int64_t i = 0; i < whole; i += kBlock)
        times_block(rows + i * inner_, std::min(kBlock, whole - i), out + i * columns_);
      if (whole < count) times_few(rows + whole * inner_, count - whole, out + whole * columns_);
      if (precision_ == Precision::half) at::native::cpublas::brgemm_release();
      return;
    }
#endif
    at::Tensor to = matrix(out, count, columns_);
    at::cpu::mm_out(to, matrix(rows, count, inner_), memory_);
  }

#ifdef TREEFOLD_BRGEMM
  void times_block(const float* rows, int64_t count, float* out) const {
    if (precision_ == Precision::full) {
      at::native::cpublas::brgemm(
          count, columns_, inner_, inner_, columns_, columns_, false, rows,
          memory_.template const_data_ptr<float>(), out);
      return;
    }
    auto* halves = desk<uint16_t, For::left>(count * padded_);
    round_rows(rows, count, inner_, padded_, halves);
    at::native::cpublas::brgemm(
        count, columns_, padded_, padded_, columns_, columns_, false,
        reinterpret_cast<const at::BFloat16*>(halves),
        reinterpret_cast<const at::BFloat16*>(packed()), out);
  }

  // Fewer rows than there is a kernel for.
  void times_few(const float* rows, int64_t count, float* out) const {
    float *given = desk<float, For::left>(kFew * inner_), *made = desk<float, For::out>(kFew * columns_);
    std::copy_n(rows, count * inner_, given);
    std::fill_n(given + count * inner_, (kFew - count) * inner_, 0.0f);
    times_block(given, kFew, made);
    std::copy_n(made, count * columns_, out);
  }
#endif

  int64_t inner_ = 0, columns_ = 0, padded_ = 0;
  Precision precision_ = Precision::full;
  at::Tensor memory_;
};

// Add `rows` [count, inner], transposed, times `grads` [count, columns] to `sum` [inner, columns].
template <class T>
class Gradient {
 public:
  Gradient(int64_t inner, int64_t columns, Precision precision)
      : inner_(inner), columns_(columns), precision_(precision) {}

  void add(const T* rows, const T* grads, int64_t count, T* sum) const {
    if (count == 0 || inner_ == 0 || columns_ == 0) return;
    at::Tensor to = matrix(sum, inner_, columns_);
    if (precision_ == Precision::half_without_brgemm) {
      const auto halves = [](const at::Tensor& each) { return each.to(at::kBFloat16); };
      to.add_(at::cpu::mm(halves(matrix(rows, count, inner_)).t(), halves(matrix(grads, count, columns_))));
      return;
    }
#ifdef TREEFOLD_BRGEMM
    if constexpr (std::is_same_v<T, float>) {
      for (int64_t i = 0; i < count; i += kBlock)
        add_block(rows + i * inner_, grads + i * columns_, std::min(kBlock, count - i), sum);
      if (precision_ == Precision::half) at::native::cpublas::brgemm_release();
      return;
    }
#endif
    at::cpu::addmm_out(to, to, matrix(rows, count, inner_).t(), matrix(grads, count, columns_), 1, 1);
  }

 private:
#ifdef TREEFOLD_BRGEMM
  void add_block(const float* rows, const float* grads, int64_t count, float* sum) const {
    if (precision_ == Precision::half) {
      add_packed(rows, grads, count, sum);
      return;
    }
    const int64_t whole = count / kFew * kFew;
    if (whole) add_transposed(rows, grads, whole, whole, sum);
    if (whole == count) return;
    float* few = desk<float, For::right>(kFew * columns_);
    std::copy_n(grads + whole * columns_, (count - whole) * columns_, few);
    std::fill_n(few + (count - whole) * columns_, (kFew - count + whole) * columns_, 0.0f);
    add_transposed(rows + whole * inner_, few, count - whole, kFew, sum);
  }

  void add_transposed(const float* rows, const float* grads, int64_t count, int64_t padded, float* sum) const {
    float* left = desk<float, For::left>(padded * inner_);
    if (count < padded) std::fill_n(left, padded * inner_, 0.0f);
    transpose(rows, count, inner_, inner_, left, padded);
    at::native::cpublas::brgemm(
        inner_, columns_, padded, padded, columns_, columns_, true, left, grads, sum);
  }

  void add_packed(const float* rows, const float* grads, int64_t count, float* sum) const {
    const int64_t padded = rounded_up(count, kFew), pairs = padded / 2;
    auto* left = desk<uint32_t, For::left>(pairs * inner_);
    auto* right = desk<uint32_t, For::right>(pairs * std::max(inner_, columns_));
    pack(rows, count, inner_, inner_, 1, padded, right);
    transpose(right, pairs, inner_, inner_, left, pairs);
    pack(grads, count, columns_, columns_, 1, padded, right);
    at::native::cpublas::brgemm(
        inner_, columns_, padded, padded, columns_, columns_, true,
        reinterpret_cast<const at::BFloat16*>(left), reinterpret_cast<const at::BFloat16*>(right),
        sum);
  }
#endif

  int64_t inner_, columns_;
  Precision precision_;
};

}  // namespace treefold
