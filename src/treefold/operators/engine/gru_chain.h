// A GRU along packed rows, all groups in step, forward and back.
//
// Rows are [rows, channels], step after step: step t has `batch_sizes[t]` of them, one for each of
// the first groups, which are sorted by length. Groups are cut into parts that never wait for each
// other.
#pragma once

#include <algorithm>
#include <vector>

#include "gru_cell.h"
#include "memory.h"
#include "products.h"
#include "threads.h"

namespace treefold {

struct Chain {
  int64_t num_rows, num_groups, num_steps, channels;
  const int64_t* batch_sizes;
  Precision precision;
};

template <class T>
struct ChainGradients {
  T *rows, *start, *states;  // those of states arrive, the others are zero
  T *weight_ih, *weight_hh, *bias;  // sums: weights are transposed; reset, update, new, hidden new
};

template <class T>
class ChainGRU {
 public:
  ChainGRU(const Chain& chain, const T* rows, const T* start, T* states)
      : chain_(chain), h_(chain.channels), rows_(rows), start_(start), states_(states), cuts_(cuts()) {}

  // Write the state after every row, and what backward needs into `saved`, unless it is null.
  void forward(const T* weight_ih, const T* weight_hh, const T* bias, T* saved) const {
    const MultipliesAlone alone;
    const Factor<T> input(weight_ih, h_, 3 * h_, true, chain_.precision);
    const Factor<T> hidden(weight_hh, h_, 3 * h_, true, chain_.precision);
    const int64_t size = kBlock * 6 * h_ + 4 * h_;
    const at::Tensor memory = leased<T>({num_parts() * size});
    in_groups([&](int64_t part, Range groups) {
      T *from_x = memory.data_ptr<T>() + part * size, *from_hidden = from_x + kBlock * 3 * h_;
      T* cell = from_hidden + kBlock * 3 * h_;
      int64_t first = 0, before = -1;
      for (int64_t step = 0; step < chain_.num_steps; ++step) {
        const int64_t stop = std::min(groups.last, chain_.batch_sizes[step]);
        for (int64_t low = groups.first; low < stop; low += kBlock) {
          const int64_t count = std::min(kBlock, stop - low), row = first + low;
          const T* state = before < 0 ? start_ + low * h_ : states_ + (before + low) * h_;
          input.times(rows_ + row * h_, count, from_x);
          hidden.times(state, count, from_hidden);
          for (int64_t i = 0; i < count; ++i) {
            T* to = saved ? saved + (row + i) * 4 * h_ : cell;
            gates_of(h_, from_x + i * 3 * h_, from_hidden + i * 3 * h_, bias, to);
            mix(to, state + i * h_, states_ + (row + i) * h_);
          }
        }
        before = first;
        first += chain_.batch_sizes[step];
      }
    });
  }

  void backward(
      const T* weight_ih, const T* weight_hh, const T* saved, const ChainGradients<T>& grads) const {
    const MultipliesAlone alone;
    const Factor<T> input(weight_ih, 3 * h_, h_, false, chain_.precision);
    const Factor<T> hidden(weight_hh, 3 * h_, h_, false, chain_.precision);
    const int64_t parts = num_parts(), size = (6 * h_ + 4) * h_ + kBlock * h_;
    // Sums of all parts, and of each row: its state before, and the gradients of both projections.
    const at::Tensor memory = leased<T>({parts * size}), of_rows = leased<T>({chain_.num_rows * 7 * h_});
    T *sums = memory.data_ptr<T>(), *earlier = of_rows.data_ptr<T>();
    T *to_x = earlier + chain_.num_rows * h_, *to_hidden = to_x + chain_.num_rows * 3 * h_;
    std::fill_n(sums, parts * size, T(0));
    in_groups([&](int64_t part, Range groups) {
      T *bias = sums + part * size + 6 * h_ * h_, *found = bias + 4 * h_;
      int64_t first = chain_.num_rows;
      for (int64_t step = chain_.num_steps - 1; step >= 0; --step) {
        first -= chain_.batch_sizes[step];
        const int64_t stop = std::min(groups.last, chain_.batch_sizes[step]);
        const int64_t before = step ? first - chain_.batch_sizes[step - 1] : 0;
        const T* state = step ? states_ + before * h_ : start_;
        T* grad_state = step ? grads.states + before * h_ : grads.start;
        for (int64_t low = groups.first; low < stop; low += kBlock) {
          const int64_t count = std::min(kBlock, stop - low), row = first + low;
          std::copy_n(state + low * h_, count * h_, earlier + row * h_);
          for (int64_t i = 0; i < count; ++i)
            gates_back(
                h_, T(1), grads.states + (row + i) * h_, state + (low + i) * h_,
                saved + (row + i) * 4 * h_, grad_state + (low + i) * h_, to_x + (row + i) * 3 * h_,
                to_hidden + (row + i) * 3 * h_, bias);
          hidden.times(to_hidden + row * 3 * h_, count, found);
          add(found, count * h_, grad_state + low * h_);
        }
      }
    });
    const Gradient<T> gradient(h_, 3 * h_, chain_.precision);
    in_parts(parts, chain_.num_rows, [&](int64_t part, Range range) {
      const int64_t count = range.last - range.first;
      T *of_input = sums + part * size, *of_hidden = of_input + 3 * h_ * h_;
      const T* to = to_x + range.first * 3 * h_;
      gradient.add(rows_ + range.first * h_, to, count, of_input);
      gradient.add(earlier + range.first * h_, to_hidden + range.first * 3 * h_, count, of_hidden);
      input.times(to, count, grads.rows + range.first * h_);
    });
    for (int64_t part = 0; part < parts; ++part) {
      const T* from = sums + part * size;
      add(from, 3 * h_ * h_, grads.weight_ih);
      add(from + 3 * h_ * h_, 3 * h_ * h_, grads.weight_hh);
      add(from + 6 * h_ * h_, 4 * h_, grads.bias);
    }
  }

 private:
  int64_t num_parts() const { return static_cast<int64_t>(cuts_.size()) - 1; }

  template <class Work>
  void in_groups(const Work& work) const {
    in_parts(num_parts(), num_parts(), [&](int64_t part, Range range) {
      for (int64_t each = range.first; each < range.last; ++each)
        work(part, Range{cuts_[each], cuts_[each + 1]});
    });
  }

  void mix(const T* __restrict cell, const T* __restrict state, T* __restrict out) const {
#pragma omp simd
    for (int64_t c = 0; c < h_; ++c)
      out[c] = cell[2 * h_ + c] + cell[h_ + c] * (state[c] - cell[2 * h_ + c]);
  }

  // Where groups are cut into parts of about as many rows each.
  std::vector<int64_t> cuts() const {
    const int64_t numbers = chain_.num_rows * h_;
    const int64_t parts = std::min(
        {parts_worth(numbers, h_), chain_.num_groups, std::max(int64_t(1), numbers / kMinChain)});
    std::vector<int64_t> cuts{0};
    int64_t rows = 0, length = chain_.num_steps;
    for (int64_t group = 0; group < chain_.num_groups; ++group) {
      while (length > 0 && chain_.batch_sizes[length - 1] <= group) --length;
      rows += length;
      const int64_t made = static_cast<int64_t>(cuts.size());
      if (made < parts && rows * parts >= chain_.num_rows * made) cuts.push_back(group + 1);
    }
    if (cuts.back() < chain_.num_groups || cuts.size() == 1) cuts.push_back(chain_.num_groups);
    return cuts;
  }

  static constexpr int64_t kMinChain = int64_t(1) << 14;

  const Chain& chain_;
  int64_t h_;
  const T *rows_, *start_;
  T* states_;
  std::vector<int64_t> cuts_;
};

}  // namespace treefold
