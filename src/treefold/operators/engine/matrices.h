// Products of matrices, by torch, without a dispatcher in between.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm_cpu_dispatch.h>

namespace treefold {

template <class T>
inline at::Tensor matrix(const T* data, int64_t rows, int64_t columns) {
  return at::from_blob(
      const_cast<T*>(data), {rows, columns},
      at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value));
}

// The matrix `[columns, rows]` at `data`, the other way round.
template <class T>
inline at::Tensor transposed(const T* data, int64_t rows, int64_t columns) {
  return at::from_blob(
      const_cast<T*>(data), {rows, columns}, {1, rows},
      at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value));
}

inline void multiply(at::Tensor out, const at::Tensor& a, const at::Tensor& b) {
  at::cpu::mm_out(out, a, b);
}

inline void multiply_and_add(at::Tensor out, const at::Tensor& a, const at::Tensor& b) {
  at::cpu::addmm_out(out, out, a, b, 1, 1);
}

}  // namespace treefold
