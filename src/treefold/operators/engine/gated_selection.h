// Gated selection: each channel is copied from one of the arguments, or newly written.
#pragma once

#include "numbers.h"
#include "products.h"
#include "tree.h"

namespace treefold {

template <class T>
struct GatedSelection {
  using Number = T;

  int64_t channels, hidden;
  bool selects, writes;
  T stretch;
  const T *weight, *bias, *write_bias;  // of the hidden layer: [2 hidden, channels]
  Factor<T> select, write;  // of [channels, hidden], [2 channels, hidden]: transposed for forward
  Gradient<T> select_gradient, write_gradient;

  // What backward needs, per pair: the hidden layer for both orders before its activation; and
  // after theirs: select, keep, new.
  int64_t projected = 2 * hidden;
  int64_t gates = (selects ? channels : 0) + (writes ? 2 * channels : 0);
  int64_t saved = 2 * hidden + gates;
  // Sums: hidden weight, select and write, all transposed; hidden bias, write bias.
  int64_t at_select = projected * channels;
  int64_t at_write = at_select + (selects ? channels * hidden : 0);
  int64_t at_bias = at_write + (writes ? 2 * channels * hidden : 0);
  int64_t at_write_bias = at_bias + projected;
  int64_t num_sums = at_write_bias + (writes ? 2 * channels : 0);

  int64_t forward_scratch() const { return saved + 2 * hidden + gates; }
  int64_t backward_scratch() const { return 4 * hidden + gates; }

  T gate(T sigmoid) const {
    const T wide = (1 + 2 * stretch) * sigmoid - stretch;
    const T low = wide < T(0) ? T(0) : wide;
    return low > T(1) ? T(1) : low;
  }

  // The gradient of a gate's value by what the sigmoid is taken of.
  T gate_slope(T sigmoid) const {
    const T wide = (1 + 2 * stretch) * sigmoid - stretch;
    const T slope = (1 + 2 * stretch) * sigmoid * (T(1) - sigmoid);
    return wide < T(0) || wide > T(1) ? T(0) : slope;
  }

  void forward(const Pairs<T>& pairs, T* out, T* saved_at, T* scratch) const {
    const int64_t count = pairs.count, h = channels, k = hidden;
    T *difference = scratch, *sum = difference + count * k;
    T *selected = sum + count * k, *written = selected + (selects ? count * h : 0);
    T* unsaved = scratch + count * (2 * hidden + gates);
    for (int64_t pair = 0; pair < count; ++pair) {
      T* both = saved_at ? saved_at + pair * saved : unsaved;
      hidden_of(pairs.from_a[pair], pairs.from_b[pair], both, difference + pair * k, sum + pair * k);
    }
    if (selects) select.times(difference, count, selected);
    if (writes) write.times(sum, count, written);
    for (int64_t pair = 0; pair < count; ++pair) {
      T* kept = (saved_at ? saved_at + pair * saved : unsaved) + 2 * k;
      join(pairs.a[pair], pairs.b[pair], selected + pair * h, written + pair * 2 * h, kept, out + pair * h);
    }
  }

  void backward(const Pairs<T>& pairs, const T* grad, const T* saved_at, T* sums, T* scratch) const {
    const int64_t count = pairs.count, h = channels, k = hidden;
    T *difference = scratch, *sum = difference + count * k;
    T *to_difference = sum + count * k, *to_sum = to_difference + count * k;
    T *selected = to_sum + count * k, *written = selected + (selects ? count * h : 0);
    const auto join_back = selects ? writes ? &GatedSelection::join_back_as<true, true>
                                            : &GatedSelection::join_back_as<true, false>
                           : writes ? &GatedSelection::join_back_as<false, true>
                                    : &GatedSelection::join_back_as<false, false>;
    for (int64_t pair = 0; pair < count; ++pair)
      (this->*join_back)(
          grad + pair * h, pairs.a[pair], pairs.b[pair], saved_at + pair * saved + 2 * k,
          pairs.grad_a[pair], pairs.grad_b[pair], selected + pair * h, written + pair * 2 * h,
          sums + at_write_bias);
    std::fill_n(to_difference, 2 * count * k, T(0));
    if (selects) select.times(selected, count, to_difference);
    if (writes) write.times(written, count, to_sum);
    for (int64_t pair = 0; pair < count; ++pair)
      hidden_back(
          saved_at + pair * saved, to_difference + pair * k, to_sum + pair * k, pairs.to_a[pair],
          pairs.to_b[pair], difference + pair * k, sum + pair * k, sums + at_bias);
    if (selects) select_gradient.add(difference, selected, count, sums + at_select);
    if (writes) write_gradient.add(sum, written, count, sums + at_write);
  }

 private:
  void hidden_of(
      const T* __restrict from_a, const T* __restrict from_b, T* __restrict both,
      T* __restrict difference, T* __restrict sum) const {
    const int64_t k = hidden;
#pragma omp simd
    for (int64_t c = 0; c < k; ++c) {
      const T biases = bias[c] + bias[k + c];
      const T ab = from_a[c] + from_b[k + c] + biases, ba = from_b[c] + from_a[k + c] + biases;
      const T of_ab = ab * normal_at(ab).below, of_ba = ba * normal_at(ba).below;
      both[c] = ab;
      both[k + c] = ba;
      difference[c] = of_ab - of_ba;
      sum[c] = of_ab + of_ba;
    }
  }

  void join(
      const T* __restrict a, const T* __restrict b, const T* __restrict selected,
      const T* __restrict written, T* __restrict kept, T* __restrict out) const {
    const int64_t h = channels;
    if (selects) {
#pragma omp simd
      for (int64_t c = 0; c < h; ++c) {
        const T of_first = sigmoid(selected[c]);
        kept[c] = of_first;
        out[c] = mixture(b[c], a[c], gate(of_first));
      }
      kept += h;
    } else {
#pragma omp simd
      for (int64_t c = 0; c < h; ++c) out[c] = (a[c] + b[c]) / 2;
    }
    if (!writes) return;
#pragma omp simd
    for (int64_t c = 0; c < h; ++c) {
      const T keep = sigmoid(written[c] + write_bias[c]);
      const T fresh = hyperbolic_tangent(written[h + c] + write_bias[h + c]);
      kept[c] = keep;
      kept[h + c] = fresh;
      out[c] = mixture(fresh, out[c], gate(keep));
    }
  }

  template <bool kSelects, bool kWrites>
  void join_back_as(
      const T* __restrict grad, const T* __restrict a, const T* __restrict b,
      const T* __restrict kept, T* __restrict grad_a, T* __restrict grad_b,
      T* __restrict selected, T* __restrict written, T* __restrict sums) const {
    const int64_t h = channels;
    const T* keeps = kept + (kSelects ? h : 0);
#pragma omp simd
    for (int64_t c = 0; c < h; ++c) {
      const T of_first = kSelects ? gate(kept[c]) : T(0.5);
      T to_chosen = grad[c];
      if constexpr (kWrites) {
        const T keep = gate(keeps[c]), fresh = keeps[h + c];
        const T chosen = mixture(b[c], a[c], of_first);
        to_chosen = grad[c] * keep;
        const T to_keep = grad[c] * (chosen - fresh) * gate_slope(keeps[c]);
        const T to_fresh = grad[c] * (T(1) - keep) * (T(1) - fresh * fresh);
        written[c] = to_keep;
        written[h + c] = to_fresh;
        sums[c] += to_keep;
        sums[h + c] += to_fresh;
      }
      grad_a[c] += to_chosen * of_first;
      grad_b[c] += to_chosen * (T(1) - of_first);
      if constexpr (kSelects) selected[c] = to_chosen * (a[c] - b[c]) * gate_slope(kept[c]);
    }
  }

  void hidden_back(
      const T* __restrict both, const T* __restrict to_difference, const T* __restrict to_sum,
      T* __restrict to_a, T* __restrict to_b, T* __restrict difference, T* __restrict sum,
      T* __restrict sums) const {
    const int64_t k = hidden;
#pragma omp simd
    for (int64_t c = 0; c < k; ++c) {
      const T ab = both[c], ba = both[k + c];
      const Normal<T> at_ab = normal_at(ab), at_ba = normal_at(ba);
      const T of_ab = ab * at_ab.below, of_ba = ba * at_ba.below;
      const T to_ab = (to_sum[c] + to_difference[c]) * (at_ab.below + ab * at_ab.density);
      const T to_ba = (to_sum[c] - to_difference[c]) * (at_ba.below + ba * at_ba.density);
      difference[c] = of_ab - of_ba;
      sum[c] = of_ab + of_ba;
      to_a[c] = to_ab;
      to_a[k + c] = to_ba;
      to_b[c] = to_ba;
      to_b[k + c] = to_ab;
      sums[c] += to_ab + to_ba;
      sums[k + c] += to_ab + to_ba;
    }
  }
};

}  // namespace treefold
