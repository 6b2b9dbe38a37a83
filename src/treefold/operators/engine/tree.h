// A fold over trees, level by level, forward and back, for any cell that joins pairs of rows.
//
// States are [leaves, then nodes, inner, channels]. Each level is cut into shares, one per thread,
// and these into chunks that stay in a core's cache: rows of a chunk are projected by one product,
// then the cell makes nodes of them. Where `shared`, leaves are rows of a table that repeat, and the
// table is projected once.
//
// A cell has a `Number`; per row, `projected` numbers made by a matrix `weight`; per pair, `saved`
// numbers for backward and `scratch` to work in; and `num_sums` numbers of gradient, of which the
// first are the matrix's, transposed. Its `forward` and `backward` see `Pairs`.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "memory.h"
#include "numbers.h"
#include "products.h"
#include "threads.h"

namespace treefold {

struct Tree {
  int64_t num_leaves, num_nodes, num_groups, num_levels, table_rows, inner, channels;
  const int64_t *leaves, *levels, *children, *places;
  bool shared;
  Precision precision;
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

// What a thread works on: some pairs of a level, where the first begins if rows are neighbours.
struct Chunk {
  int64_t node, count, start;
};

// The memory in which a thread works on a chunk.
template <class T>
struct Scratch {
  T *rows, *projections, *cell;
  std::vector<int64_t> place;             // of each row among the states
  std::vector<int64_t> own, of_table;     // rows that are projected here, and others
  std::vector<const T*> row, from;        // of each row of each pair
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
        row_(tree.row()),
        width_(tree.inner * cell.projected) {
    int64_t most = 0;
    for (int64_t level = 0; level < tree.num_levels; ++level)
      most = std::max(most, tree.levels[2 * level]);
    chunk_ = std::max(int64_t(1), std::min(tree.chunk, most));
  }

  // Write leaves, nodes and groups, and what backward needs into `saved`, unless it is null.
  void forward(const T* identity, T* groups, T* saved) {
    const MultipliesAlone alone;
    weight_ = Factor<T>(cell_.weight, tree_.channels, cell_.projected, true, tree_.precision);
    in_parts(parts_, tree_.num_leaves, [&](int64_t, Range range) {
      for (int64_t i = range.first; i < range.last; ++i)
        std::copy_n(table_ + tree_.leaves[i] * row_, row_, states_ + i * row_);
    });
    make_scratch(cell_.forward_scratch());
    if (tree_.shared) project_table();
    int64_t first_node = 0;
    for (int64_t level = 0; level < tree_.num_levels; ++level) {
      in_chunks(level, first_node, [&](int64_t part, const Chunk& chunk) {
        make_nodes(chunk, saved, scratch_[part]);
      });
      first_node += tree_.levels[2 * level];
    }
    in_parts(parts_, tree_.num_groups, [&](int64_t, Range range) {
      for (int64_t group = range.first; group < range.last; ++group) {
        const int64_t place = tree_.places[group];
        for (int64_t i = 0; i < tree_.inner; ++i) {
          const T* source = place < 0 ? identity : states_ + place * row_ + i * tree_.channels;
          std::copy_n(source, tree_.channels, groups + group * row_ + i * tree_.channels);
        }
      }
    });
  }

  // Add to the gradient of the table, of the identity and to the sums, which are all zero.
  // Gradients of states are those from outside at first.
  void backward(
      const T* grad_groups, T* grad_states, const T* saved, T* grad_table, T* grad_identity,
      T* sums) {
    const MultipliesAlone alone;
    weight_ = Factor<T>(cell_.weight, cell_.projected, tree_.channels, false, tree_.precision);
    if (grad_groups) take_groups_back(grad_groups, grad_states, grad_identity);
    make_scratch(cell_.backward_scratch());
    const at::Tensor of_parts = zeros((parts_ - 1) * cell_.num_sums);
    sums_.assign(1, sums);
    for (int64_t part = 1; part < parts_; ++part)
      sums_.push_back(of_parts.data_ptr<T>() + (part - 1) * cell_.num_sums);
    const at::Tensor to_table = zeros(tree_.shared ? parts_ * tree_.table_rows * width_ : 0);
    int64_t first_node = tree_.num_nodes;
    for (int64_t level = tree_.num_levels - 1; level >= 0; --level) {
      first_node -= tree_.levels[2 * level];
      in_chunks(level, first_node, [&](int64_t part, const Chunk& chunk) {
        T* table = to_table.data_ptr<T>() + part * tree_.table_rows * width_;
        take_nodes_back(part, chunk, grad_states, saved, table);
      });
    }
    if (tree_.shared) take_table_back(to_table.data_ptr<T>(), grad_table);
    in_parts(parts_, cell_.num_sums, [&](int64_t, Range range) {
      for (int64_t part = 1; part < parts_; ++part)
        add(sums_[part] + range.first, range.last - range.first, sums + range.first);
    });
    in_parts(parts_, row_, [&](int64_t, Range range) {  // a row may have many leaves: by columns
      for (int64_t i = 0; i < tree_.num_leaves; ++i)
        add(grad_states + i * row_ + range.first, range.last - range.first,
            grad_table + tree_.leaves[i] * row_ + range.first);
    });
  }

 private:
  static at::Tensor zeros(int64_t count) {
    at::Tensor made = leased<T>({count});
    std::fill_n(made.data_ptr<T>(), count, T(0));
    return made;
  }

  void make_scratch(int64_t per_pair) {
    const int64_t rows = 2 * chunk_ * row_, projections = 2 * chunk_ * width_;
    const int64_t each = rounded_up(rows + projections + chunk_ * tree_.inner * per_pair, 16);
    memory_ = leased<T>({parts_ * each});
    scratch_.resize(parts_);
    T* next = memory_.template data_ptr<T>();
    for (Scratch<T>& scratch : scratch_) {
      scratch.rows = next;
      scratch.projections = scratch.rows + rows;
      scratch.cell = scratch.projections + projections;
      next += each;
    }
  }

  template <class Work>
  void in_chunks(int64_t level, int64_t first_node, const Work& work) const {
    const int64_t num_pairs = tree_.levels[2 * level], start = tree_.levels[2 * level + 1];
    in_parts(parts_of_level(num_pairs * row_, parts_), num_pairs, [&](int64_t part, Range range) {
      for (int64_t pair = range.first; pair < range.last; pair += chunk_)
        work(part, Chunk{first_node + pair, std::min(chunk_, range.last - pair),
                         start < 0 ? -1 : start + 2 * pair});
    });
  }

  void project_table() {
    table_memory_ = leased<T>({tree_.table_rows * width_});
    projected_table_ = table_memory_.template data_ptr<T>();
    in_parts(parts_, tree_.table_rows, [&](int64_t, Range range) {
      weight_.times(
          table_ + range.first * row_, (range.last - range.first) * tree_.inner,
          projected_table_ + range.first * width_);
    });
  }

  void make_nodes(const Chunk& chunk, T* saved, Scratch<T>& scratch) const {
    const T* own = find(chunk, scratch);
    weight_.times(own, scratch.own.size() * tree_.inner, scratch.projections);
    T* to = saved ? saved + chunk.node * tree_.inner * cell_.saved : nullptr;
    const int64_t units = chunk.count * tree_.inner;
    const T *const *row = scratch.row.data(), *const *from = scratch.from.data();
    cell_.forward(
        {units, row, row + units, from, from + units, nullptr, nullptr, nullptr, nullptr},
        states_ + (tree_.num_leaves + chunk.node) * row_, to, scratch.cell);
  }

  // Find the rows of a chunk. Returns those that are projected here, side by side.
  const T* find(const Chunk& chunk, Scratch<T>& scratch) const {
    const int64_t rows = 2 * chunk.count;
    scratch.own.clear();
    scratch.of_table.clear();
    scratch.place.resize(rows);
    scratch.row.resize(rows * tree_.inner);
    scratch.from.resize(rows * tree_.inner);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t place = chunk.start < 0 ? tree_.children[2 * chunk.node + i] : chunk.start + i;
      const bool is_of_table = tree_.shared && place < tree_.num_leaves;
      const T* from = scratch.projections + static_cast<int64_t>(scratch.own.size()) * width_;
      if (is_of_table && projected_table_) from = projected_table_ + tree_.leaves[place] * width_;
      (is_of_table ? scratch.of_table : scratch.own).push_back(i);
      scratch.place[i] = place;
      put(scratch.row, i, chunk.count, states_ + place * row_, tree_.channels);
      put(scratch.from, i, chunk.count, from, cell_.projected);
    }
    if (chunk.start >= 0 && scratch.of_table.empty()) return states_ + chunk.start * row_;
    for (size_t i = 0; i < scratch.own.size(); ++i)
      std::copy_n(states_ + scratch.place[scratch.own[i]] * row_, row_, scratch.rows + i * row_);
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

  void take_groups_back(const T* grad_groups, T* grad_states, T* grad_identity) const {
    for (int64_t group = 0; group < tree_.num_groups; ++group) {
      const int64_t place = tree_.places[group];
      for (int64_t i = 0; i < tree_.inner; ++i)
        add(grad_groups + group * row_ + i * tree_.channels, tree_.channels,
            place < 0 ? grad_identity : grad_states + place * row_ + i * tree_.channels);
    }
  }

  void take_nodes_back(
      int64_t part, const Chunk& chunk, T* grad_states, const T* saved, T* to_table) {
    Scratch<T>& scratch = scratch_[part];
    const T* rows = find(chunk, scratch);
    const int64_t num_own = scratch.own.size(), units = chunk.count * tree_.inner;
    // Gradients of projections: first of rows that are projected here, then of the table's.
    scratch.grad.resize(2 * units);
    scratch.to.resize(2 * units);
    T* next = scratch.projections;
    for (const auto* each : {&scratch.own, &scratch.of_table})
      for (const int64_t i : *each) {
        put(scratch.grad, i, chunk.count, grad_states + scratch.place[i] * row_, tree_.channels);
        put(scratch.to, i, chunk.count, next, cell_.projected);
        next += width_;
      }
    const T *const *row = scratch.row.data(), *const *from = scratch.from.data();
    T *const *grad = scratch.grad.data(), *const *to = scratch.to.data();
    cell_.backward(
        {units, row, row + units, from, from + units, grad, grad + units, to, to + units},
        grad_states + (tree_.num_leaves + chunk.node) * row_,
        saved + chunk.node * tree_.inner * cell_.saved, sums_[part], scratch.cell);
    const T* of_table = scratch.projections + num_own * width_;
    for (size_t i = 0; i < scratch.of_table.size(); ++i) {
      const int64_t leaf = scratch.place[scratch.of_table[i]];
      add(of_table + i * width_, width_, to_table + tree_.leaves[leaf] * width_);
    }
    gradient_.add(rows, scratch.projections, num_own * tree_.inner, sums_[part]);
    weight_.times(scratch.projections, num_own * tree_.inner, scratch.rows);
    for (int64_t i = 0; i < num_own; ++i)
      add(scratch.rows + i * row_, row_, grad_states + scratch.place[scratch.own[i]] * row_);
  }

  void take_table_back(T* to_table, T* grad_table) {
    const int64_t size = tree_.table_rows * width_;
    in_parts(parts_, tree_.table_rows, [&](int64_t part, Range range) {
      const int64_t count = range.last - range.first;
      T *grads = to_table + range.first * width_, *to = grad_table + range.first * row_;
      for (int64_t other = 1; other < parts_; ++other) add(grads + other * size, count * width_, grads);
      gradient_.add(table_ + range.first * row_, grads, count * tree_.inner, sums_[part]);
      weight_.times(grads, count * tree_.inner, to);
    });
  }

  const Tree& tree_;
  const Cell& cell_;
  const T* table_;
  T* states_;
  int64_t parts_, row_, width_, chunk_;
  Factor<T> weight_;
  Gradient<T> gradient_{tree_.channels, cell_.projected, tree_.precision};
  at::Tensor memory_, table_memory_;
  T* projected_table_ = nullptr;  // backward needs no numbers of it
  std::vector<Scratch<T>> scratch_;
  std::vector<T*> sums_;
};

}  // namespace treefold
