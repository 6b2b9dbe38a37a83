// Binary-GRU: the mean of a GRU cell in both argument orders.
//
// A row's projections are: input side reset, update, new | hidden side reset, update, new. For a
// pair (a, b), one cell takes a's input side and b's hidden side, the other one takes the others.
#pragma once

#include "gru_cell.h"
#include "tree.h"

namespace treefold {

template <class T>
struct BinaryGRU {
  using Number = T;

  int64_t channels;
  const T *weight, *bias;  // [6 channels, channels]; reset, update, new, hidden new

  int64_t projected = 6 * channels;
  int64_t saved = 8 * channels;  // of both cells: reset, update, new, hidden new
  int64_t at_bias = projected * channels;
  int64_t num_sums = at_bias + 4 * channels;

  int64_t forward_scratch() const { return saved; }
  int64_t backward_scratch() const { return 0; }

  void forward(const Pairs<T>& pairs, T* out, T* saved_at, T* scratch) const {
    const int64_t h = channels;
    for (int64_t pair = 0; pair < pairs.count; ++pair) {
      T* first = saved_at ? saved_at + pair * saved : scratch;
      T* second = first + 4 * h;
      gates_of(h, pairs.from_a[pair], pairs.from_b[pair] + 3 * h, bias, first);
      gates_of(h, pairs.from_b[pair], pairs.from_a[pair] + 3 * h, bias, second);
      mean_of(pairs.a[pair], pairs.b[pair], first, second, out + pair * h);
    }
  }

  void backward(const Pairs<T>& pairs, const T* grad, const T* saved_at, T* sums, T*) const {
    const int64_t h = channels;
    for (int64_t pair = 0; pair < pairs.count; ++pair, grad += h, saved_at += saved) {
      T *to_a = pairs.to_a[pair], *to_b = pairs.to_b[pair];
      gates_back(
          h, T(0.5), grad, pairs.b[pair], saved_at, pairs.grad_b[pair], to_a, to_b + 3 * h,
          sums + at_bias);
      gates_back(
          h, T(0.5), grad, pairs.a[pair], saved_at + 4 * h, pairs.grad_a[pair], to_b, to_a + 3 * h,
          sums + at_bias);
    }
  }

 private:
  void mean_of(
      const T* __restrict a, const T* __restrict b, const T* __restrict first,
      const T* __restrict second, T* __restrict out) const {
    const int64_t h = channels;
#pragma omp simd
    for (int64_t c = 0; c < h; ++c) {
      const T of_first = first[2 * h + c] + first[h + c] * (b[c] - first[2 * h + c]);
      const T of_second = second[2 * h + c] + second[h + c] * (a[c] - second[2 * h + c]);
      out[c] = T(0.5) * (of_first + of_second);
    }
  }
};

}  // namespace treefold
