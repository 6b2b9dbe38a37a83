// Binary-GRU: the mean of a GRU cell in both argument orders.
//
// A row's projections are: input side reset, update, new | hidden side reset, update, new. For a
// pair (a, b), one cell takes a's input side and b's hidden side, the other one takes the others.
#pragma once

#include "numbers.h"
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
  int64_t num_parameters = at_bias + 6 * channels;  // biases in the end; four parts at first

  int64_t forward_scratch() const { return saved; }
  int64_t backward_scratch() const { return 0; }

  void forward(const Pairs<T>& pairs, T* out, T* saved_at, T* scratch) const {
    const int64_t h = channels;
    for (int64_t pair = 0; pair < pairs.count; ++pair) {
      T* first = saved_at ? saved_at + pair * saved : scratch;
      T* second = first + 4 * h;
      gates_of(pairs.from_a[pair], pairs.from_b[pair] + 3 * h, first);
      gates_of(pairs.from_b[pair], pairs.from_a[pair] + 3 * h, second);
      mean_of(pairs.a[pair], pairs.b[pair], first, second, out + pair * h);
    }
  }

  void backward(const Pairs<T>& pairs, const T* grad, const T* saved_at, T* sums, T*) const {
    const int64_t h = channels;
    for (int64_t pair = 0; pair < pairs.count; ++pair) {
      const T *first = saved_at + pair * saved, *second = first + 4 * h;
      T *to_a = pairs.to_a[pair], *to_b = pairs.to_b[pair];
      gates_back(
          grad + pair * h, pairs.b[pair], first, pairs.grad_b[pair], to_a, to_b + 3 * h, sums + at_bias);
      gates_back(
          grad + pair * h, pairs.a[pair], second, pairs.grad_a[pair], to_b, to_a + 3 * h, sums + at_bias);
    }
  }

  // Reset, update, new, hidden new become the biases of both sides, three parts each.
  void part_biases(T* sums) const {
    T* parts = sums + at_bias;
    std::copy_n(parts + 3 * channels, channels, parts + 5 * channels);
    std::copy_n(parts, 2 * channels, parts + 3 * channels);
  }

 private:
  void gates_of(const T* __restrict from_x, const T* __restrict from_hidden, T* __restrict cell) const {
    const int64_t h = channels;
    for (int64_t c = 0; c < h; ++c) {
      const T reset = sigmoid(from_x[c] + from_hidden[c] + bias[c]);
      const T hidden_new = from_hidden[2 * h + c] + bias[3 * h + c];
      cell[c] = reset;
      cell[h + c] = sigmoid(from_x[h + c] + from_hidden[h + c] + bias[h + c]);
      cell[2 * h + c] = hyperbolic_tangent(from_x[2 * h + c] + bias[2 * h + c] + reset * hidden_new);
      cell[3 * h + c] = hidden_new;
    }
  }

  void mean_of(
      const T* __restrict a, const T* __restrict b, const T* __restrict first,
      const T* __restrict second, T* __restrict out) const {
    const int64_t h = channels;
    for (int64_t c = 0; c < h; ++c) {
      const T of_first = first[2 * h + c] + first[h + c] * (b[c] - first[2 * h + c]);
      const T of_second = second[2 * h + c] + second[h + c] * (a[c] - second[2 * h + c]);
      out[c] = T(0.5) * (of_first + of_second);
    }
  }

  // The gradient of half a cell's outcome, to its input, to its state, and to what they project to.
  void gates_back(
      const T* __restrict grad, const T* __restrict state, const T* __restrict cell,
      T* __restrict grad_state, T* __restrict to_x, T* __restrict to_hidden, T* __restrict sums) const {
    const int64_t h = channels;
    for (int64_t c = 0; c < h; ++c) {
      const T reset = cell[c], update = cell[h + c], fresh = cell[2 * h + c];
      const T half = T(0.5) * grad[c], to_mix = half * (T(1) - update);
      const T to_update = to_mix * update * (state[c] - fresh);
      const T to_new = to_mix * (T(1) - fresh * fresh);
      const T to_hidden_new = to_new * reset;
      const T to_reset = to_hidden_new * cell[3 * h + c] * (T(1) - reset);
      to_x[c] = to_reset;
      to_x[h + c] = to_update;
      to_x[2 * h + c] = to_new;
      to_hidden[c] = to_reset;
      to_hidden[h + c] = to_update;
      to_hidden[2 * h + c] = to_hidden_new;
      grad_state[c] += half * update;
      sums[c] += to_reset;
      sums[h + c] += to_update;
      sums[2 * h + c] += to_new;
      sums[3 * h + c] += to_hidden_new;
    }
  }
};

}  // namespace treefold
