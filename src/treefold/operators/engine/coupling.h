// A coupling layer: some channels, scaled and shifted by what a perceptron says of the given ones.
//
// The perceptron has one hidden layer, whose activation is GELU; it makes scales, before a tanh, and
// then shifts. `swapped`, the given channels are the last ones. Every thread has its share of the rows.
#pragma once

#include <vector>

#include "arguments.h"
#include "numbers.h"
#include "products.h"
#include "threads.h"

namespace treefold {

struct Coupling {
  Tensor x, inner, inner_bias, outer, outer_bias;
  bool swapped, inverse;
  int64_t rows, channels, given, changed, hidden, parts, saved;  // saved: numbers per row

  Coupling(
      const Tensor& given_x, const Tensor& given_inner, const Tensor& given_inner_bias,
      const Tensor& given_outer, const Tensor& given_outer_bias, bool swapped, bool inverse)
      : x(given_x.contiguous()), swapped(swapped), inverse(inverse) {
    TORCH_CHECK(x.dim() > 0 && x.is_cpu(), "x has shape ", x.sizes(), "; expected [..., channels]");
    channels = x.size(-1);
    given = channels / 2;
    changed = channels - given;
    hidden = given_inner.size(0);
    rows = channels ? x.numel() / channels : 0;
    inner = checked(x, given_inner, "inner_weight", {hidden, given});
    inner_bias = checked(x, given_inner_bias, "inner_bias", {hidden});
    outer = checked(x, given_outer, "outer_weight", {2 * changed, hidden});
    outer_bias = checked(x, given_outer_bias, "outer_bias", {2 * changed});
    parts = parts_worth(rows * hidden, channels);
    saved = hidden + changed;  // the hidden layer before its activation, and scales
  }

  template <class T>
  void forward(T* out, T* to_saved) const {
    const MultipliesAlone alone;
    const Factor<T> first(data_of<T>(inner), given, hidden, true, Precision::full);
    const Factor<T> second(data_of<T>(outer), hidden, 2 * changed, true, Precision::full);
    in_blocks<T>(given + 2 * hidden + 2 * changed, [&](int64_t, int64_t row, int64_t count, T* memory) {
      T *before = memory + count * given, *active = before + count * hidden;
      T* made = active + count * hidden;
      take(data_of<T>(x) + row * channels, count, memory);
      first.times(memory, count, before);
      for (int64_t i = 0; i < count; ++i)
        activate(before + i * hidden, active + i * hidden, to_saved ? to_saved + (row + i) * saved : nullptr);
      second.times(active, count, made);
      for (int64_t i = 0; i < count; ++i) {
        const T* from = data_of<T>(x) + (row + i) * channels;
        T *to = out + (row + i) * channels, *scales = made + i * 2 * changed;
        std::copy_n(from + at_given(), given, to + at_given());
        scale(from + at_changed(), scales, to + at_changed());
        if (to_saved) std::copy_n(scales, changed, to_saved + (row + i) * saved + hidden);
      }
    });
  }

  // The gradient of x, and sums that are zero at first: of the inner and the outer matrix, both
  // transposed, and of their biases.
  template <class T>
  void backward(const T* grad, const T* out, const T* from_saved, T* to_x, T* sums) const {
    const MultipliesAlone alone;
    const Factor<T> first(data_of<T>(inner), hidden, given, false, Precision::full);
    const Factor<T> second(data_of<T>(outer), 2 * changed, hidden, false, Precision::full);
    const Gradient<T> of_first(given, hidden, Precision::full), of_second(hidden, 2 * changed, Precision::full);
    const at::Tensor others = leased<T>({(parts - 1) * num_sums()});
    std::fill_n(others.data_ptr<T>(), others.numel(), T(0));
    in_blocks<T>(given + 2 * hidden + 2 * changed, [&](int64_t part, int64_t row, int64_t count, T* memory) {
      T *active = memory + count * given, *to_hidden = active + count * hidden;
      T* to_made = to_hidden + count * hidden;
      T* sum = part ? others.data_ptr<T>() + (part - 1) * num_sums() : sums;
      T *sum_outer = sum + given * hidden, *sum_inner_bias = sum_outer + 2 * hidden * changed;
      for (int64_t i = row; i < row + count; ++i)
        scale_back(
            grad + i * channels + at_changed(), (inverse ? out : data_of<T>(x)) + i * channels + at_changed(),
            from_saved + i * saved + hidden, to_x + i * channels + at_changed(),
            to_made + (i - row) * 2 * changed, sum_inner_bias + hidden);
      second.times(to_made, count, to_hidden);
      for (int64_t i = 0; i < count; ++i)
        activate_back(from_saved + (row + i) * saved, active + i * hidden, to_hidden + i * hidden, sum_inner_bias);
      of_second.add(active, to_made, count, sum_outer);
      take(data_of<T>(x) + row * channels, count, memory);
      of_first.add(memory, to_hidden, count, sum);
      first.times(to_hidden, count, memory);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = (row + i) * channels + at_given();
        std::copy_n(grad + at, given, to_x + at);
        add(memory + i * given, given, to_x + at);
      }
    });
    for (int64_t part = 1; part < parts; ++part)
      add(others.data_ptr<T>() + (part - 1) * num_sums(), num_sums(), sums);
  }

  int64_t num_sums() const { return hidden * (given + 2 * changed + 1) + 2 * changed; }

 private:
  int64_t at_given() const { return swapped ? changed : 0; }
  int64_t at_changed() const { return swapped ? 0 : given; }

  // Call `work(part, row, count, memory)` for blocks of rows, with memory for `each` numbers per row.
  template <class T, class Work>
  void in_blocks(int64_t each, const Work& work) const {
    const at::Tensor memory = leased<T>({parts * kBlock * each});
    in_parts(parts, rows, [&](int64_t part, Range range) {
      for (int64_t row = range.first; row < range.last; row += kBlock)
        work(part, row, std::min(kBlock, range.last - row), memory.data_ptr<T>() + part * kBlock * each);
    });
  }

  template <class T>
  void take(const T* from, int64_t count, T* to) const {
    for (int64_t i = 0; i < count; ++i) std::copy_n(from + i * channels + at_given(), given, to + i * given);
  }

  template <class T>
  void activate(const T* __restrict before, T* __restrict active, T* __restrict to_saved) const {
    const T* __restrict bias = data_of<T>(inner_bias);
    if (to_saved)
      for (int64_t c = 0; c < hidden; ++c) to_saved[c] = before[c] + bias[c];
#pragma omp simd
    for (int64_t c = 0; c < hidden; ++c) {
      const T sum = before[c] + bias[c];
      active[c] = sum * normal_at(sum).below;
    }
  }

  template <class T>
  void activate_back(
      const T* __restrict before, T* __restrict active, T* __restrict grad, T* __restrict sums) const {
#pragma omp simd
    for (int64_t c = 0; c < hidden; ++c) {
      const Normal<T> at = normal_at(before[c]);
      active[c] = before[c] * at.below;
      grad[c] *= at.below + before[c] * at.density;
      sums[c] += grad[c];
    }
  }

  // What was made becomes scales, which are within a factor of e.
  template <class T>
  void scale(const T* __restrict from, T* __restrict made, T* __restrict to) const {
    const T* __restrict bias = data_of<T>(outer_bias);
#pragma omp simd
    for (int64_t c = 0; c < changed; ++c) {
      made[c] = hyperbolic_tangent(made[c] + bias[c]);
      const T shift = made[changed + c] + bias[changed + c];
      to[c] = inverse ? (from[c] - shift) * exponential(-made[c]) : from[c] * exponential(made[c]) + shift;
    }
  }

  // `kept` are channels before they were scaled, or, for the inverse, after.
  template <class T>
  void scale_back(
      const T* __restrict grad, const T* __restrict kept, const T* __restrict scales, T* __restrict to,
      T* __restrict to_made, T* __restrict sums) const {
#pragma omp simd
    for (int64_t c = 0; c < changed; ++c) {
      to[c] = grad[c] * exponential(inverse ? -scales[c] : scales[c]);
      const T to_scale = inverse ? -grad[c] * kept[c] : to[c] * kept[c];
      to_made[c] = to_scale * (T(1) - scales[c] * scales[c]);
      to_made[changed + c] = inverse ? -to[c] : grad[c];
      sums[c] += to_made[c];
      sums[changed + c] += to_made[changed + c];
    }
  }
};

}  // namespace treefold
