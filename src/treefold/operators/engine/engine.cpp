// Folds over trees as operations of torch: values and gradients, on CPUs, in float and double.
//
// `x` is a table [rows, *inner, channels], and leaf i is row `leaves[i]` of it. Every line of
// `levels` is a level's number of pairs, and where they begin if they are neighbours among the
// states [leaves, then nodes], else -1: then they are the `children` of the level's nodes. Group g
// is the state at `places[g]`, or the identity if that is -1.
#include <ATen/Dispatch.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "binary_gru.h"
#include "gated_selection.h"
#include "tree.h"

namespace treefold {
namespace {

using at::Tensor;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Tensor indices(const Tensor& given, const char* name, int64_t dim) {
  TORCH_CHECK(
      given.dim() == dim && given.scalar_type() == at::kLong && given.is_cpu(), name, " are ",
      given.scalar_type(), " of shape ", given.sizes(), "; expected int64 with ", dim,
      " axes on the CPU");
  return given.contiguous();
}

void check_within(const Tensor& given, const char* name, int64_t low, int64_t high) {
  const int64_t* data = given.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < given.numel(); ++i)
    TORCH_CHECK_INDEX(
        low <= data[i] && data[i] < high, name, " name row ", data[i], "; expected ", low, " to ",
        high - 1);
}

void check_like(const Tensor& x, const Tensor& given, const char* name, at::IntArrayRef sizes) {
  TORCH_CHECK(
      given.sizes() == sizes && given.scalar_type() == x.scalar_type() && given.is_cpu(), name,
      " is ", given.scalar_type(), " of shape ", given.sizes(), "; expected ", x.scalar_type(),
      " of shape ", sizes, " on the CPU");
}

// The input and the plan, checked and contiguous.
struct Source {
  Tensor x, leaves, levels, children, places;
  Tree tree;

  Source(
      const Tensor& given_x, const Tensor& given_leaves, const Tensor& given_levels,
      const Tensor& given_children, const Tensor& given_places, bool shared, int64_t chunk)
      : x(given_x.contiguous()),
        leaves(indices(given_leaves, "leaves", 1)),
        levels(indices(given_levels, "levels", 2)),
        children(indices(given_children, "children", 2)),
        places(indices(given_places, "places", 1)) {
    TORCH_CHECK(
        x.dim() >= 2 && x.size(-1) > 0 && x.is_cpu(), "x has shape ", x.sizes(),
        "; expected [rows, ..., channels] on the CPU");
    const int64_t num_leaves = leaves.size(0), num_nodes = children.size(0);
    const int64_t channels = x.size(-1);
    int64_t inner = 1;
    for (int64_t axis = 1; axis + 1 < x.dim(); ++axis) inner *= x.size(axis);
    check_within(leaves, "leaves", 0, x.size(0));
    check_within(children, "children", 0, num_leaves + num_nodes);
    check_within(places, "places", -1, num_leaves + num_nodes);
    TORCH_CHECK(
        children.size(1) == 2 && levels.size(1) == 2, "children and levels have shapes ",
        children.sizes(), " and ", levels.sizes(), "; expected two columns");
    int64_t made = 0;
    const int64_t* level = levels.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < levels.size(0); ++i, level += 2) {
      TORCH_CHECK(
          level[0] >= 0 && level[1] >= -1 && level[1] + 2 * level[0] <= num_leaves + made,
          "level ", i, " has ", level[0], " pairs from row ", level[1], " on; expected rows among ",
          num_leaves + made);
      made += level[0];
    }
    TORCH_CHECK(made == num_nodes, "levels have ", made, " pairs; expected ", num_nodes);
    tree = {
        num_leaves,
        num_nodes,
        places.size(0),
        levels.size(0),
        x.size(0),
        inner,
        channels,
        leaves.const_data_ptr<int64_t>(),
        levels.const_data_ptr<int64_t>(),
        children.const_data_ptr<int64_t>(),
        places.const_data_ptr<int64_t>(),
        shared,
        std::max(int64_t(1), chunk / std::max(int64_t(1), inner * channels))};
  }

  std::vector<int64_t> sizes(int64_t rows, int64_t last) const {
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.front() = rows;
    sizes.back() = last;
    return sizes;
  }
};

template <class Cell>
Three fold(const Source& source, const Cell& cell, const Tensor& identity, bool saves) {
  using T = typename Cell::Number;
  const Tree& tree = source.tree;
  Tensor groups = at::empty(source.sizes(tree.num_groups, tree.channels), source.x.options());
  Tensor states = leased<T>(source.sizes(tree.num_states(), tree.channels));
  Tensor saved = leased<T>(source.sizes(saves ? tree.num_nodes : 0, cell.saved));
  Fold<Cell>(tree, cell, source.x.const_data_ptr<T>(), states.data_ptr<T>())
      .forward(
          identity.const_data_ptr<T>(), groups.data_ptr<T>(), saves ? saved.data_ptr<T>() : nullptr);
  return {groups, states, saved};
}

template <class Cell>
Three fold_back(
    const Source& source, const Cell& cell, const std::optional<Tensor>& grad_groups,
    const std::optional<Tensor>& grad_states, const Tensor& states, const Tensor& saved) {
  using T = typename Cell::Number;
  const Tree& tree = source.tree;
  check_like(source.x, states, "states", source.sizes(tree.num_states(), tree.channels));
  TORCH_CHECK(
      saved.dim() > 0 && saved.size(0) == tree.num_nodes,
      "the fold saved nothing for its gradient; fold with `saves`");
  check_like(source.x, saved, "saved", source.sizes(tree.num_nodes, cell.saved));
  if (grad_groups)
    check_like(source.x, *grad_groups, "grad_groups", source.sizes(tree.num_groups, tree.channels));
  const Tensor made = states.contiguous(), kept = saved.contiguous();
  Tensor grad_x = at::zeros(source.x.sizes(), source.x.options());
  Tensor grad_identity = at::zeros({tree.channels}, source.x.options());
  Tensor grad_parameters = at::zeros({cell.num_parameters}, source.x.options());
  Tensor to_states = leased<T>(states.sizes());
  if (grad_states)
    to_states.copy_(*grad_states);
  else
    to_states.zero_();
  const Tensor to_groups = grad_groups ? grad_groups->contiguous() : Tensor();
  Fold<Cell>(tree, cell, source.x.const_data_ptr<T>(), const_cast<T*>(made.const_data_ptr<T>()))
      .backward(
          grad_groups ? to_groups.const_data_ptr<T>() : nullptr, to_states.data_ptr<T>(),
          kept.const_data_ptr<T>(), grad_x.data_ptr<T>(), grad_identity.data_ptr<T>(),
          grad_parameters.data_ptr<T>());
  return {grad_x, grad_identity, grad_parameters};
}

const Tensor& or_empty(const std::optional<Tensor>& given) {
  static const Tensor none;
  return given ? *given : none;
}

// A gated selection's parameters, checked and contiguous.
struct GatedSelectionParameters {
  Tensor hidden_weight, hidden_bias, select, write, write_bias;
  double stretch;

  void check(const Tensor& x) {
    const int64_t h = x.size(-1), k = hidden_weight.size(0) / 2;
    check_like(x, hidden_weight, "hidden_weight", {2 * k, h});
    check_like(x, hidden_bias, "hidden_bias", {2 * k});
    if (select.defined()) check_like(x, select, "select_weight", {h, k});
    for (Tensor* each : {&hidden_weight, &hidden_bias, &select, &write, &write_bias})
      if (each->defined()) *each = each->contiguous();
    TORCH_CHECK(
        write.defined() == write_bias.defined(),
        "one of write_weight and write_bias is missing; expected both or none");
    if (!write.defined()) return;
    check_like(x, write, "write_weight", {2 * h, k});
    check_like(x, write_bias, "write_bias", {2 * h});
  }

  template <class T>
  GatedSelection<T> cell(int64_t channels) const {
    const auto data = [](const Tensor& each) {
      return each.defined() ? each.const_data_ptr<T>() : nullptr;
    };
    return {
        channels,     hidden_weight.size(0) / 2, select.defined(), write.defined(),
        T(stretch),   data(hidden_weight),       data(hidden_bias), data(select),
        data(write),  data(write_bias)};
  }
};

Three gated_selection(
    const Tensor& x, const Tensor& leaves, const Tensor& levels, const Tensor& children,
    const Tensor& places, const Tensor& identity, const Tensor& hidden_weight,
    const Tensor& hidden_bias, const std::optional<Tensor>& select_weight,
    const std::optional<Tensor>& write_weight, const std::optional<Tensor>& write_bias,
    double stretch, bool shared, bool saves, int64_t chunk) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const Source source(x, leaves, levels, children, places, shared, chunk);
  GatedSelectionParameters parameters{
      hidden_weight, hidden_bias, or_empty(select_weight), or_empty(write_weight),
      or_empty(write_bias), stretch};
  parameters.check(x);
  check_like(x, identity, "identity", {x.size(-1)});
  const Tensor blank = identity.contiguous();
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "gated_selection", [&] {
    return fold(source, parameters.cell<scalar_t>(x.size(-1)), blank, saves);
  });
}

Three gated_selection_backward(
    const std::optional<Tensor>& grad_groups, const std::optional<Tensor>& grad_states,
    const Tensor& x, const Tensor& leaves, const Tensor& levels, const Tensor& children,
    const Tensor& places, const Tensor& hidden_weight, const Tensor& hidden_bias,
    const std::optional<Tensor>& select_weight, const std::optional<Tensor>& write_weight,
    const std::optional<Tensor>& write_bias, const Tensor& states, const Tensor& saved,
    double stretch, bool shared, int64_t chunk) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const Source source(x, leaves, levels, children, places, shared, chunk);
  GatedSelectionParameters parameters{
      hidden_weight, hidden_bias, or_empty(select_weight), or_empty(write_weight),
      or_empty(write_bias), stretch};
  parameters.check(x);
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "gated_selection_backward", [&] {
    const auto cell = parameters.cell<scalar_t>(x.size(-1));
    return fold_back(source, cell, grad_groups, grad_states, states, saved);
  });
}

// Both sides' weights, one after the other.
template <class T>
Tensor stacked(const Tensor& x, const Tensor& weight_ih, const Tensor& weight_hh) {
  const int64_t h = x.size(-1), size = 3 * h * h;
  check_like(x, weight_ih, "weight_ih", {3 * h, h});
  check_like(x, weight_hh, "weight_hh", {3 * h, h});
  Tensor both = leased<T>({2 * size});
  std::copy_n(weight_ih.contiguous().const_data_ptr<T>(), size, both.data_ptr<T>());
  std::copy_n(weight_hh.contiguous().const_data_ptr<T>(), size, both.data_ptr<T>() + size);
  return both;
}

// Both sides' biases: those of reset and update are one.
template <class T>
Tensor biases(const Tensor& x, const Tensor& bias_ih, const Tensor& bias_hh) {
  const int64_t h = x.size(-1);
  check_like(x, bias_ih, "bias_ih", {3 * h});
  check_like(x, bias_hh, "bias_hh", {3 * h});
  const Tensor from = bias_ih.contiguous(), and_from = bias_hh.contiguous();
  const T *of_input = from.const_data_ptr<T>(), *of_state = and_from.const_data_ptr<T>();
  Tensor out = leased<T>({4 * h});
  T* to = out.data_ptr<T>();
  for (int64_t c = 0; c < 2 * h; ++c) to[c] = of_input[c] + of_state[c];
  std::copy_n(of_input + 2 * h, h, to + 2 * h);
  std::copy_n(of_state + 2 * h, h, to + 3 * h);
  return out;
}

Three binary_gru(
    const Tensor& x, const Tensor& leaves, const Tensor& levels, const Tensor& children,
    const Tensor& places, const Tensor& identity, const Tensor& weight_ih, const Tensor& weight_hh,
    const Tensor& bias_ih, const Tensor& bias_hh, bool shared, bool saves, int64_t chunk) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const Source source(x, leaves, levels, children, places, shared, chunk);
  check_like(x, identity, "identity", {x.size(-1)});
  const Tensor blank = identity.contiguous();
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "binary_gru", [&] {
    const Tensor weight = stacked<scalar_t>(x, weight_ih, weight_hh);
    const Tensor bias = biases<scalar_t>(x, bias_ih, bias_hh);
    const BinaryGRU<scalar_t> cell{
        x.size(-1), weight.const_data_ptr<scalar_t>(), bias.const_data_ptr<scalar_t>()};
    return fold(source, cell, blank, saves);
  });
}

Three binary_gru_backward(
    const std::optional<Tensor>& grad_groups, const std::optional<Tensor>& grad_states,
    const Tensor& x, const Tensor& leaves, const Tensor& levels, const Tensor& children,
    const Tensor& places, const Tensor& weight_ih, const Tensor& weight_hh, const Tensor& bias_ih,
    const Tensor& bias_hh, const Tensor& states, const Tensor& saved, bool shared, int64_t chunk) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const Source source(x, leaves, levels, children, places, shared, chunk);
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "binary_gru_backward", [&] {
    const Tensor weight = stacked<scalar_t>(x, weight_ih, weight_hh);
    const Tensor bias = biases<scalar_t>(x, bias_ih, bias_hh);
    const BinaryGRU<scalar_t> cell{
        x.size(-1), weight.const_data_ptr<scalar_t>(), bias.const_data_ptr<scalar_t>()};
    Three grads = fold_back(source, cell, grad_groups, grad_states, states, saved);
    cell.part_biases(std::get<2>(grads).data_ptr<scalar_t>());
    return grads;
  });
}

void release() { Pool::shared().release(); }

}  // namespace

TORCH_LIBRARY(treefold, m) {
  m.def(
      "gated_selection(Tensor x, Tensor leaves, Tensor levels, Tensor children, Tensor places, "
      "Tensor identity, Tensor hidden_weight, Tensor hidden_bias, Tensor? select_weight, "
      "Tensor? write_weight, Tensor? write_bias, float stretch, bool shared, bool saves, "
      "int chunk) -> (Tensor groups, Tensor states, Tensor saved)");
  m.def(
      "gated_selection_backward(Tensor? grad_groups, Tensor? grad_states, Tensor x, "
      "Tensor leaves, Tensor levels, Tensor children, Tensor places, Tensor hidden_weight, "
      "Tensor hidden_bias, Tensor? select_weight, Tensor? write_weight, Tensor? write_bias, "
      "Tensor states, Tensor saved, float stretch, bool shared, int chunk) -> (Tensor x, Tensor identity, Tensor parameters)");
  m.def(
      "binary_gru(Tensor x, Tensor leaves, Tensor levels, Tensor children, Tensor places, "
      "Tensor identity, Tensor weight_ih, Tensor weight_hh, Tensor bias_ih, Tensor bias_hh, "
      "bool shared, bool saves, int chunk) -> (Tensor groups, Tensor states, Tensor saved)");
  m.def(
      "binary_gru_backward(Tensor? grad_groups, Tensor? grad_states, Tensor x, Tensor leaves, "
      "Tensor levels, Tensor children, Tensor places, Tensor weight_ih, Tensor weight_hh, "
      "Tensor bias_ih, Tensor bias_hh, Tensor states, Tensor saved, bool shared, int chunk) "
      "-> (Tensor x, Tensor identity, Tensor parameters)");
  m.def("release() -> ()", &release);
}

TORCH_LIBRARY_IMPL(treefold, CPU, m) {
  m.impl("gated_selection", &gated_selection);
  m.impl("gated_selection_backward", &gated_selection_backward);
  m.impl("binary_gru", &binary_gru);
  m.impl("binary_gru_backward", &binary_gru_backward);
}

}  // namespace treefold
