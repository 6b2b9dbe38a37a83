// A GRU cell's gates for one row, and their gradients.
//
// Projections come in the order reset, update, new; biases and what is saved in the order reset,
// update, new, hidden new. The biases of both sides' reset and update are one.
#pragma once

#include "numbers.h"

namespace treefold {

template <class T>
inline void gates_of(
    int64_t h, const T* __restrict from_x, const T* __restrict from_hidden, const T* __restrict bias,
    T* __restrict cell) {
#pragma omp simd
  for (int64_t c = 0; c < h; ++c) {
    const T reset = sigmoid(from_x[c] + from_hidden[c] + bias[c]);
    const T hidden_new = from_hidden[2 * h + c] + bias[3 * h + c];
    cell[c] = reset;
    cell[h + c] = sigmoid(from_x[h + c] + from_hidden[h + c] + bias[h + c]);
    cell[2 * h + c] = hyperbolic_tangent(from_x[2 * h + c] + bias[2 * h + c] + reset * hidden_new);
    cell[3 * h + c] = hidden_new;
  }
}

// From a share of the outcome's gradient: to the state is added, and to the sums for the biases; to
// what input and state project to is written.
template <class T>
inline void gates_back(
    int64_t h, T share, const T* __restrict grad, const T* __restrict state, const T* __restrict cell,
    T* __restrict grad_state, T* __restrict to_x, T* __restrict to_hidden, T* __restrict sums) {
#pragma omp simd
  for (int64_t c = 0; c < h; ++c) {
    const T reset = cell[c], update = cell[h + c], fresh = cell[2 * h + c];
    const T part = share * grad[c], to_mix = part * (T(1) - update);
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
    grad_state[c] += part * update;
    sums[c] += to_reset;
    sums[h + c] += to_update;
    sums[2 * h + c] += to_new;
    sums[3 * h + c] += to_hidden_new;
  }
}

}  // namespace treefold
