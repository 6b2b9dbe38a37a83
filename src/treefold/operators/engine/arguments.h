// What operations are given, checked and contiguous.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "gated_selection.h"
#include "memory.h"
#include "products.h"
#include "tree.h"

namespace treefold {

using at::Tensor;

inline Tensor indices(const Tensor& given, const char* name, int64_t dim) {
  TORCH_CHECK(
      given.dim() == dim && given.scalar_type() == at::kLong && given.is_cpu(), name, " are ",
      given.scalar_type(), " of shape ", given.sizes(), "; expected int64 with ", dim,
      " axes on the CPU");
  return given.contiguous();
}

inline void check_within(const Tensor& given, const char* name, int64_t low, int64_t high) {
  const int64_t* data = given.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < given.numel(); ++i)
    TORCH_CHECK_INDEX(
        low <= data[i] && data[i] < high, name, " name row ", data[i], "; expected ", low, " to ",
        high - 1);
}

// `given`, if it is of the type of `x` and of these sizes.
inline Tensor checked(const Tensor& x, const Tensor& given, const char* name, at::IntArrayRef sizes) {
  TORCH_CHECK(
      given.sizes() == sizes && given.scalar_type() == x.scalar_type() && given.is_cpu(), name,
      " is ", given.scalar_type(), " of shape ", given.sizes(), "; expected ", x.scalar_type(),
      " of shape ", sizes, " on the CPU");
  return given.contiguous();
}

inline Tensor checked(
    const Tensor& x, const std::optional<Tensor>& given, const char* name, at::IntArrayRef sizes) {
  return given ? checked(x, *given, name, sizes) : Tensor();
}

inline Precision precision_of(const Tensor& x, bool half) {
  TORCH_CHECK(!half || x.scalar_type() == at::kFloat, "half precision is for float32; x is ", x.scalar_type());
  return half ? half_precision() : Precision::full;
}

template <class T>
inline const T* data_of(const Tensor& each) {
  return each.defined() ? each.const_data_ptr<T>() : nullptr;
}

// Rows and a plan.
struct Source {
  Tensor x, leaves, levels, children, places;
  Tree tree;

  Source(
      const Tensor& given_x, const Tensor& given_leaves, const Tensor& given_levels,
      const Tensor& given_children, const Tensor& given_places, bool shared, bool half,
      int64_t chunk)
      : x(given_x.contiguous()),
        leaves(indices(given_leaves, "leaves", 1)),
        levels(indices(given_levels, "levels", 2)),
        children(indices(given_children, "children", 2)),
        places(indices(given_places, "places", 1)) {
    TORCH_CHECK(
        x.dim() >= 2 && x.size(-1) > 0 && x.is_cpu(), "x has shape ", x.sizes(),
        "; expected [rows, ..., channels] on the CPU");
    const int64_t num_leaves = leaves.size(0), num_nodes = children.size(0);
    int64_t inner = 1;
    for (int64_t axis = 1; axis + 1 < x.dim(); ++axis) inner *= x.size(axis);
    check_within(leaves, "leaves", 0, x.size(0));
    check_within(children, "children", 0, num_leaves + num_nodes);
    check_within(places, "places", -1, num_leaves + num_nodes);
    TORCH_CHECK(
        children.size(1) == 2 && levels.size(1) == 2, "children and levels have shapes ",
        children.sizes(), " and ", levels.sizes(), "; expected two columns");
    check_levels(num_leaves, num_nodes);
    tree = {
        num_leaves,
        num_nodes,
        places.size(0),
        levels.size(0),
        x.size(0),
        inner,
        x.size(-1),
        data_of<int64_t>(leaves),
        data_of<int64_t>(levels),
        data_of<int64_t>(children),
        data_of<int64_t>(places),
        shared,
        precision_of(x, half),
        std::max(int64_t(1), chunk / std::max(int64_t(1), inner * x.size(-1)))};
  }

  void check_levels(int64_t num_leaves, int64_t num_nodes) const {
    int64_t made = 0;
    const int64_t* level = data_of<int64_t>(levels);
    for (int64_t i = 0; i < levels.size(0); ++i, level += 2) {
      TORCH_CHECK(
          level[0] >= 0 && level[1] >= -1 && level[1] + 2 * level[0] <= num_leaves + made,
          "level ", i, " has ", level[0], " pairs from row ", level[1], " on; expected rows among ",
          num_leaves + made);
      made += level[0];
    }
    TORCH_CHECK(made == num_nodes, "levels have ", made, " pairs; expected ", num_nodes);
  }

  std::vector<int64_t> sizes(int64_t rows, int64_t last) const {
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.front() = rows;
    sizes.back() = last;
    return sizes;
  }
};

// A GRU cell's parameters.
struct GRUParameters {
  int64_t h;
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;

  GRUParameters(
      const Tensor& x, const Tensor& given_weight_ih, const Tensor& given_weight_hh,
      const Tensor& given_bias_ih, const Tensor& given_bias_hh)
      : h(x.size(-1)),
        weight_ih(checked(x, given_weight_ih, "weight_ih", {3 * h, h})),
        weight_hh(checked(x, given_weight_hh, "weight_hh", {3 * h, h})),
        bias_ih(checked(x, given_bias_ih, "bias_ih", {3 * h})),
        bias_hh(checked(x, given_bias_hh, "bias_hh", {3 * h})) {}

  // Both sides' weights, one after the other.
  template <class T>
  Tensor stacked() const {
    const int64_t size = 3 * h * h;
    Tensor both = leased<T>({2 * size});
    std::copy_n(data_of<T>(weight_ih), size, both.data_ptr<T>());
    std::copy_n(data_of<T>(weight_hh), size, both.data_ptr<T>() + size);
    return both;
  }

  // Both sides' biases: those of reset and update are one.
  template <class T>
  Tensor biases() const {
    const T *of_input = data_of<T>(bias_ih), *of_state = data_of<T>(bias_hh);
    Tensor out = leased<T>({4 * h});
    T* to = out.data_ptr<T>();
    for (int64_t c = 0; c < 2 * h; ++c) to[c] = of_input[c] + of_state[c];
    std::copy_n(of_input + 2 * h, h, to + 2 * h);
    std::copy_n(of_state + 2 * h, h, to + 3 * h);
    return out;
  }

  // Gradients from sums: weights are transposed, `step` numbers from row to row.
  template <class T>
  std::vector<Tensor> gradients(const T* to_ih, const T* to_hh, int64_t step, const T* to_biases) const {
    std::vector<Tensor> made;
    for (const Tensor* each : {&weight_ih, &weight_hh, &bias_ih, &bias_hh})
      made.push_back(at::empty(each->sizes(), each->options()));
    transpose(to_ih, h, 3 * h, step, made[0].data_ptr<T>(), h);
    transpose(to_hh, h, 3 * h, step, made[1].data_ptr<T>(), h);
    std::copy_n(to_biases, 3 * h, made[2].data_ptr<T>());
    std::copy_n(to_biases, 2 * h, made[3].data_ptr<T>());
    std::copy_n(to_biases + 3 * h, h, made[3].data_ptr<T>() + 2 * h);
    return made;
  }
};

// A gated selection's parameters; those that it does without are undefined.
struct GatedSelectionParameters {
  int64_t h, k;
  Tensor hidden_weight, hidden_bias, select, write, write_bias;

  GatedSelectionParameters(
      const Tensor& x, const Tensor& given_weight, const Tensor& given_bias,
      const std::optional<Tensor>& given_select, const std::optional<Tensor>& given_write,
      const std::optional<Tensor>& given_write_bias)
      : h(x.size(-1)),
        k(given_weight.size(0) / 2),
        hidden_weight(checked(x, given_weight, "hidden_weight", {2 * k, h})),
        hidden_bias(checked(x, given_bias, "hidden_bias", {2 * k})),
        select(checked(x, given_select, "select_weight", {h, k})),
        write(checked(x, given_write, "write_weight", {2 * h, k})),
        write_bias(checked(x, given_write_bias, "write_bias", {2 * h})) {
    TORCH_CHECK(
        write.defined() == write_bias.defined(),
        "one of write_weight and write_bias is missing; expected both or none");
  }

  template <class T>
  GatedSelection<T> cell(double stretch, Precision precision, bool forward) const {
    const auto factor = [&](const Tensor& each, int64_t outputs) {
      if (!each.defined()) return Factor<T>();
      const auto *data = data_of<T>(each);
      return forward ? Factor<T>(data, k, outputs, true, precision)
                     : Factor<T>(data, outputs, k, false, precision);
    };
    return {
        h,
        k,
        select.defined(),
        write.defined(),
        static_cast<T>(stretch),
        data_of<T>(hidden_weight),
        data_of<T>(hidden_bias),
        data_of<T>(write_bias),
        factor(select, h),
        factor(write, 2 * h),
        {k, h, precision},
        {k, 2 * h, precision}};
  }

  // Gradients from sums; empty for what is undefined.
  template <class T>
  std::vector<Tensor> gradients(const GatedSelection<T>& cell, const T* sums) const {
    std::vector<Tensor> made;
    for (const Tensor* each : {&hidden_weight, &hidden_bias, &select, &write, &write_bias})
      made.push_back(
          each->defined() ? at::empty(each->sizes(), each->options())
                          : at::empty({0}, hidden_weight.options()));
    transpose(sums, h, 2 * k, 2 * k, made[0].data_ptr<T>(), h);
    std::copy_n(sums + cell.at_bias, 2 * k, made[1].data_ptr<T>());
    if (cell.selects) transpose(sums + cell.at_select, k, h, h, made[2].data_ptr<T>(), k);
    if (!cell.writes) return made;
    transpose(sums + cell.at_write, k, 2 * h, 2 * h, made[3].data_ptr<T>(), k);
    std::copy_n(sums + cell.at_write_bias, 2 * h, made[4].data_ptr<T>());
    return made;
  }
};

}  // namespace treefold
