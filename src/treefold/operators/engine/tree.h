// A fold over trees, level by level, forward and back, for any cell that joins pairs of rows.
//
// States are [leaves, then nodes, inner, channels]. Each level is cut into shares, one per thread,
// and these into chunks that stay in a core's cache: rows of a chunk are projected by one product,
// then the cell makes nodes of them. Where `shared`, leaves are rows of a table that repeat, and the
// table is projected once.
//
// A cell has a `Number`; per row, `projected` numbers made by a matrix `weight`; per pair, `saved`
// numbers for backward and `scratch` to work in; and `num_parameters` numbers of gradient, of which
// the first are the matrix's. Its `forward` and `backward` see `Pairs`.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "matrices.h"
#include "memory.h"
#include "threads.h"

namespace treefold {

struct Tree {
  int64_t num_leaves, num_nodes, num_groups, num_levels, table_rows, inner, channels;
  const int64_t *leaves, *levels, *children, *places;
  bool shared;
  int64_t chunk;  // pairs

  int64_t row() const { return inner * channels; }
  int64_t num_states() const { return num_leaves + num_nodes; }
};

// Some pairs of rows, side by side: where they are, where their projections are, and gradients.
template <class T>
struct Pairs {
  int64_t count;
  const T *const *a, *const *b, *const *from_a, *const *from_b;
  T *const *grad_a, *const *grad_b, *const *to_a, *const *to_b;  // backward only
};

// The room in which a thread works on a chunk.
template <class T>
struct Scratch {
  T *rows, *projections, *cell;
  std::vector<int64_t> own;         // where rows that are projected here lie among the states
  std::vector<int64_t> of_table;    // rows of the chunk whose projections are the table's
  std::vector<const T*> row, from;  // of each row of each pair
  std::vector<T*> grad, to;
};

template <class Cell>
class Fold {
 public:
  using T = typename Cell::Number;

  Fold(const Tree& tree, const Cell& cell, const T* table, T* states)
      : tree_(tree),
        cell_(cell),
        table_(table),
        states_(states),
        parts_(parts_worth(tree.num_nodes * tree.row(), tree.channels)),
        width_(tree.inner * cell.projected),
        weight_(matrix(cell.weight, cell.projected, tree.channels)),
        weight_back_(transposed(cell.weight, tree.channels, cell.projected)) {
    int64_t most = 0;
    for (int64_t level = 0; level < tree.num_levels; ++level)
      most = std::max(most, tree.levels[2 * level]);
    chunk_ = std::max(int64_t(1), std::min(tree.chunk, most));
  }

  // Write leaves, nodes and groups, and what backward needs into `saved`, unless it is null.
  void forward(const T* identity, T* groups, T* saved) {
    const MultipliesAlone alone;
    const int64_t row = tree_.row();
    in_parts(parts_, tree_.num_leaves, [&](int64_t, Range range) {
      for (int64_t i = range.first; i < range.last; ++i)
        std::copy_n(table_ + tree_.leaves[i] * row, row, states_ + i * row);
    });
    make_scratch(cell_.forward_scratch());
    if (tree_.shared) project_table();
    int64_t first_node = 0;
    for (int64_t level = 0; level < tree_.num_levels; ++level) {
      const int64_t num_pairs = tree_.levels[2 * level], start = tree_.levels[2 * level + 1];
      in_parts(parts_of_level(num_pairs * row, parts_), num_pairs, [&](int64_t part, Range range) {
        for (int64_t pair = range.first; pair < range.last; pair += chunk_) {
          const int64_t count = std::min(chunk_, range.last - pair), node = first_node + pair;
          Scratch<T>& scratch = scratch_[part];
          const T* own = find(node, count, start < 0 ? -1 : start + 2 * pair, scratch);
          project(own, static_cast<int64_t>(scratch.own.size()), scratch.projections);
          const Pairs<T> pairs = pairs_of(count, scratch);
          T* out = states_ + (tree_.num_leaves + node) * row;
          cell_.forward(
              pairs, out, saved ? saved + node * tree_.inner * cell_.saved : nullptr, scratch.cell);
        }
      });
      first_node += num_pairs;
    }
    in_parts(parts_, tree_.num_groups, [&](int64_t, Range range) {
      for (int64_t group = range.first; group < range.last; ++group) {
        const int64_t place = tree_.places[group];
        for (int64_t i = 0; i < tree_.inner; ++i) {
          const T* source = place < 0 ? identity : states_ + place * row + i * tree_.channels;
          std::copy_n(source, tree_.channels, groups + group * row + i * tree_.channels);
        }
      }
    });
  }

  // Add to the gradient of the table, of the identity and of the parameters, which are all zero.
  // Gradients of states are those from outside at first.
  void backward(
      const T* grad_groups, T* grad_states, const T* saved, T* grad_table, T* grad_identity,
      T* grad_parameters) {
    const MultipliesAlone alone;
    const int64_t row = tree_.row(), count_parameters = cell_.num_parameters;
    if (grad_groups) take_groups_back(grad_groups, grad_states, grad_identity);
    make_scratch(cell_.backward_scratch());
    const at::Tensor sums = leased<T>({(parts_ - 1) * count_parameters});
    sums_.assign(1, grad_parameters);
    for (int64_t part = 1; part < parts_; ++part)
      sums_.push_back(sums.data_ptr<T>() + (part - 1) * count_parameters);
    std::fill_n(sums.data_ptr<T>(), sums.numel(), T(0));
    at::Tensor to_table;
    if (tree_.shared) {
      to_table = leased<T>({parts_ * tree_.table_rows * width_});
      std::fill_n(to_table.data_ptr<T>(), to_table.numel(), T(0));
    }
    int64_t first_node = tree_.num_nodes;
    for (int64_t level = tree_.num_levels - 1; level >= 0; --level) {
      const int64_t num_pairs = tree_.levels[2 * level], start = tree_.levels[2 * level + 1];
      first_node -= num_pairs;
      in_parts(parts_of_level(num_pairs * row, parts_), num_pairs, [&](int64_t part, Range range) {
        T* table = tree_.shared ? to_table.data_ptr<T>() + part * tree_.table_rows * width_ : nullptr;
        for (int64_t pair = range.first; pair < range.last; pair += chunk_)
          take_back(
              part, first_node + pair, std::min(chunk_, range.last - pair),
              start < 0 ? -1 : start + 2 * pair, grad_states, saved, table);
      });
    }
    if (tree_.shared) take_table_back(to_table.data_ptr<T>(), grad_table);
    in_parts(parts_, count_parameters, [&](int64_t, Range range) {
      for (int64_t part = 1; part < parts_; ++part)
        for (int64_t i = range.first; i < range.last; ++i) grad_parameters[i] += sums_[part][i];
    });
    in_parts(parts_, row, [&](int64_t, Range range) {  // a row may have many leaves: by columns
      for (int64_t i = 0; i < tree_.num_leaves; ++i) {
        T* to = grad_table + tree_.leaves[i] * row;
        const T* from = grad_states + i * row;
        for (int64_t c = range.first; c < range.last; ++c) to[c] += from[c];
      }
    });
  }

 private:
  void make_scratch(int64_t per_pair) {
    const int64_t units = chunk_ * tree_.inner;
    const int64_t rows = 2 * chunk_ * tree_.row(), projections = 2 * chunk_ * width_;
    const int64_t each = rows + projections + units * per_pair;
    room_ = leased<T>({parts_ * each});
    scratch_.resize(parts_);
    for (int64_t part = 0; part < parts_; ++part) {
      Scratch<T>& scratch = scratch_[part];
      scratch.rows = room_.template data_ptr<T>() + part * each;
      scratch.projections = scratch.rows + rows;
      scratch.cell = scratch.projections + projections;
    }
  }

  void project(const T* rows, int64_t count, T* out) const {
    if (count == 0) return;
    multiply(
        matrix(out, count * tree_.inner, cell_.projected),
        matrix(rows, count * tree_.inner, tree_.channels), weight_back_);
  }

  void project_table() {
    table_room_ = leased<T>({tree_.table_rows * width_});
    T* out = table_room_.template data_ptr<T>();
    projected_table_ = out;
    in_parts(parts_, tree_.table_rows, [&](int64_t, Range range) {
      project(table_ + range.first * tree_.row(), range.last - range.first, out + range.first * width_);
    });
  }

  // Find the rows of a chunk, which are neighbours from `start` on unless that is -1. Returns those
  // to be projected here.
  const T* find(int64_t node, int64_t count, int64_t start, Scratch<T>& scratch) const {
    const int64_t row = tree_.row();
    scratch.own.clear();
    scratch.of_table.clear();
    scratch.row.resize(2 * count * tree_.inner);
    scratch.from.resize(2 * count * tree_.inner);
    for (int64_t i = 0; i < 2 * count; ++i) {
      const int64_t place = start < 0 ? tree_.children[2 * node + i] : start + i;
      const T* from;
      if (tree_.shared && place < tree_.num_leaves) {
        from = projected_table_ ? projected_table_ + tree_.leaves[place] * width_ : table_;
        scratch.of_table.push_back(i);
      } else {
        from = scratch.projections + static_cast<int64_t>(scratch.own.size()) * width_;
        scratch.own.push_back(place);
      }
      put(scratch.row, i, count, states_ + place * row, tree_.channels);
      put(scratch.from, i, count, from, cell_.projected);
    }
    if (start >= 0 && scratch.of_table.empty()) return states_ + start * row;
    for (size_t i = 0; i < scratch.own.size(); ++i)
      std::copy_n(states_ + scratch.own[i] * row, row, scratch.rows + i * row);
    return scratch.rows;
  }

  // Row i of a chunk is the first or the second of pair i / 2, once per inner row.
  template <class Pointer>
  void put(
      std::vector<Pointer>& into, int64_t i, int64_t count, std::type_identity_t<Pointer> first,
      int64_t step) const {
    const int64_t begin = (i % 2) * count * tree_.inner + (i / 2) * tree_.inner;
    for (int64_t j = 0; j < tree_.inner; ++j) into[begin + j] = first + j * step;
  }

  Pairs<T> pairs_of(int64_t count, const Scratch<T>& scratch) const {
    const int64_t units = count * tree_.inner;
    const bool back = !scratch.grad.empty();
    return {
        units,
        scratch.row.data(),
        scratch.row.data() + units,
        scratch.from.data(),
        scratch.from.data() + units,
        back ? scratch.grad.data() : nullptr,
        back ? scratch.grad.data() + units : nullptr,
        back ? scratch.to.data() : nullptr,
        back ? scratch.to.data() + units : nullptr};
  }

  void take_groups_back(const T* grad_groups, T* grad_states, T* grad_identity) const {
    const int64_t row = tree_.row();
    for (int64_t group = 0; group < tree_.num_groups; ++group) {
      const int64_t place = tree_.places[group];
      for (int64_t i = 0; i < tree_.inner; ++i) {
        const T* from = grad_groups + group * row + i * tree_.channels;
        T* to = place < 0 ? grad_identity : grad_states + place * row + i * tree_.channels;
        for (int64_t c = 0; c < tree_.channels; ++c) to[c] += from[c];
      }
    }
  }

  void take_back(
      int64_t part, int64_t node, int64_t count, int64_t start, T* grad_states, const T* saved,
      T* to_table) {
    Scratch<T>& scratch = scratch_[part];
    const int64_t row = tree_.row();
    const T* rows = find(node, count, start, scratch);
    const int64_t num_own = scratch.own.size();
    // Gradients of projections: first of rows that are projected here, then of the table's.
    scratch.grad.resize(2 * count * tree_.inner);
    scratch.to.resize(2 * count * tree_.inner);
    int64_t own = 0, others = num_own;
    size_t next = 0;
    for (int64_t i = 0; i < 2 * count; ++i) {
      const bool is_table = next < scratch.of_table.size() && scratch.of_table[next] == i;
      const int64_t at = is_table ? others++ : own++;
      next += is_table;
      const int64_t place = start < 0 ? tree_.children[2 * node + i] : start + i;
      put(scratch.grad, i, count, grad_states + place * row, tree_.channels);
      put(scratch.to, i, count, scratch.projections + at * width_, cell_.projected);
    }
    cell_.backward(
        pairs_of(count, scratch), grad_states + (tree_.num_leaves + node) * row,
        saved + node * tree_.inner * cell_.saved, sums_[part], scratch.cell);
    for (size_t i = 0; i < scratch.of_table.size(); ++i) {
      const int64_t in_chunk = scratch.of_table[i];
      const int64_t place = start < 0 ? tree_.children[2 * node + in_chunk] : start + in_chunk;
      T* to = to_table + tree_.leaves[place] * width_;
      const T* from = scratch.projections + (num_own + static_cast<int64_t>(i)) * width_;
      for (int64_t c = 0; c < width_; ++c) to[c] += from[c];
    }
    if (num_own == 0) return;
    const int64_t flat = num_own * tree_.inner;
    const at::Tensor grads = matrix(scratch.projections, flat, cell_.projected);
    multiply_and_add(
        matrix(sums_[part], cell_.projected, tree_.channels),
        transposed(scratch.projections, cell_.projected, flat),
        matrix(rows, flat, tree_.channels));
    if (rows != scratch.rows) {
      multiply_and_add(matrix(grad_states + start * row, flat, tree_.channels), grads, weight_);
      return;
    }
    multiply(matrix(scratch.rows, flat, tree_.channels), grads, weight_);
    for (int64_t i = 0; i < num_own; ++i) {
      T* to = grad_states + scratch.own[i] * row;
      const T* from = scratch.rows + i * row;
      for (int64_t c = 0; c < row; ++c) to[c] += from[c];
    }
  }

  void take_table_back(T* to_table, T* grad_table) {
    const int64_t size = tree_.table_rows * width_;
    in_parts(parts_, tree_.table_rows, [&](int64_t part, Range range) {
      const int64_t count = range.last - range.first, flat = count * tree_.inner;
      if (count == 0) return;
      T* grads = to_table + range.first * width_;
      for (int64_t other = 1; other < parts_; ++other)
        for (int64_t i = 0; i < count * width_; ++i) grads[i] += grads[other * size + i];
      multiply_and_add(
          matrix(sums_[part], cell_.projected, tree_.channels),
          transposed(grads, cell_.projected, flat),
          matrix(table_ + range.first * tree_.row(), flat, tree_.channels));
      multiply_and_add(
          matrix(grad_table + range.first * tree_.row(), flat, tree_.channels),
          matrix(grads, flat, cell_.projected), weight_);
    });
  }

  const Tree& tree_;
  const Cell& cell_;
  const T* table_;
  T* states_;
  int64_t parts_, width_, chunk_;
  at::Tensor weight_, weight_back_, room_, table_room_;
  const T* projected_table_ = nullptr;  // backward needs no numbers of it
  std::vector<Scratch<T>> scratch_;
  std::vector<T*> sums_;
};

}  // namespace treefold
