// Folds over trees and along lists as operations of torch: values and gradients, on CPUs, in float
// and double; in float, products may be made in half precision.
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
#include <omp.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "arguments.h"
#include "binary_gru.h"
#include "coupling.h"
#include "gated_selection.h"
#include "gru_chain.h"
#include "tree.h"

namespace treefold {
namespace {

using Maybe = std::optional<Tensor>;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;
using Six = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;
using Seven = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

template <class T>
Tensor zeros_leased(int64_t count) {
  Tensor made = leased<T>({count});
  std::fill_n(made.data_ptr<T>(), count, T(0));
  return made;
}

template <class Cell>
Three fold(const Source& source, const Cell& cell, const Tensor& identity, bool saves) {
  using T = typename Cell::Number;
  const Tree& tree = source.tree;
  const Tensor blank = checked(source.x, identity, "identity", {tree.channels});
  Tensor groups = at::empty(source.sizes(tree.num_groups, tree.channels), source.x.options());
  // Behind them is memory for as many nodes as rows: `opaque.py` needs lengths that it knows.
  const int64_t most = std::max(tree.num_nodes, tree.num_leaves);
  const Tensor all = leased<T>(source.sizes(tree.num_leaves + most, tree.channels));
  const Tensor kept = leased<T>(source.sizes(saves ? most : 0, cell.saved));
  Tensor states = all.narrow(0, 0, tree.num_states());
  Tensor saved = kept.narrow(0, 0, saves ? tree.num_nodes : 0);
  Fold<Cell>(tree, cell, data_of<T>(source.x), states.data_ptr<T>())
      .forward(data_of<T>(blank), groups.data_ptr<T>(), saves ? saved.data_ptr<T>() : nullptr);
  return {groups, states, saved};
}

// The gradients of rows and identity, and the sums of the cell.
template <class Cell>
Three fold_back(
    const Source& source, const Cell& cell, const Maybe& grad_groups, const Maybe& grad_states,
    const Tensor& states, const Tensor& saved) {
  using T = typename Cell::Number;
  const Tree& tree = source.tree;
  const auto state_sizes = source.sizes(tree.num_states(), tree.channels);
  const Tensor made = checked(source.x, states, "states", state_sizes);
  TORCH_CHECK(
      saved.dim() > 0 && saved.size(0) == tree.num_nodes,
      "the fold saved nothing for its gradient; fold with `saves`");
  const Tensor kept = checked(source.x, saved, "saved", source.sizes(tree.num_nodes, cell.saved));
  const Tensor to_groups = checked(
      source.x, grad_groups, "grad_groups", source.sizes(tree.num_groups, tree.channels));
  Tensor grad_x = at::zeros(source.x.sizes(), source.x.options());
  Tensor grad_identity = at::zeros({tree.channels}, source.x.options());
  Tensor to_states = leased<T>(state_sizes), sums = zeros_leased<T>(cell.num_sums);
  if (grad_states)
    to_states.copy_(*grad_states);
  else
    to_states.zero_();
  Fold<Cell>(tree, cell, data_of<T>(source.x), const_cast<T*>(data_of<T>(made)))
      .backward(
          data_of<T>(to_groups), to_states.data_ptr<T>(), data_of<T>(kept), grad_x.data_ptr<T>(),
          grad_identity.data_ptr<T>(), sums.data_ptr<T>());
  return {grad_x, grad_identity, sums};
}

Three gated_selection(
    const Tensor& x, const Tensor& identity, const Tensor& hidden_weight, const Tensor& hidden_bias,
    const Maybe& select_weight, const Maybe& write_weight, const Maybe& write_bias,
    const Tensor& leaves, const Tensor& levels, const Tensor& children, const Tensor& places,
    double stretch, bool shared, bool half, int64_t chunk, bool saves) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const Source source(x, leaves, levels, children, places, shared, half, chunk);
  const GatedSelectionParameters parameters(
      x, hidden_weight, hidden_bias, select_weight, write_weight, write_bias);
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "gated_selection", [&] {
    const auto cell = parameters.cell<scalar_t>(stretch, source.tree.precision, true);
    return fold(source, cell, identity, saves);
  });
}

Seven gated_selection_backward(
    const Maybe& grad_groups, const Maybe& grad_states, const Tensor& x, const Tensor& identity,
    const Tensor& hidden_weight, const Tensor& hidden_bias, const Maybe& select_weight,
    const Maybe& write_weight, const Maybe& write_bias, const Tensor& leaves, const Tensor& levels,
    const Tensor& children, const Tensor& places, const Tensor& states, const Tensor& saved,
    double stretch, bool shared, bool half, int64_t chunk) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const Source source(x, leaves, levels, children, places, shared, half, chunk);
  const GatedSelectionParameters parameters(
      x, hidden_weight, hidden_bias, select_weight, write_weight, write_bias);
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "gated_selection_backward", [&]() -> Seven {
    const auto cell = parameters.cell<scalar_t>(stretch, source.tree.precision, false);
    const auto [to_x, to_identity, sums] =
        fold_back(source, cell, grad_groups, grad_states, states, saved);
    const auto to = parameters.gradients(cell, data_of<scalar_t>(sums));
    return {to_x, to_identity, to[0], to[1], to[2], to[3], to[4]};
  });
}

Three binary_gru(
    const Tensor& x, const Tensor& identity, const Tensor& weight_ih, const Tensor& weight_hh,
    const Tensor& bias_ih, const Tensor& bias_hh, const Tensor& leaves, const Tensor& levels,
    const Tensor& children, const Tensor& places, bool shared, bool half, int64_t chunk, bool saves) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const Source source(x, leaves, levels, children, places, shared, half, chunk);
  const GRUParameters parameters(x, weight_ih, weight_hh, bias_ih, bias_hh);
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "binary_gru", [&] {
    const Tensor weight = parameters.stacked<scalar_t>(), bias = parameters.biases<scalar_t>();
    const BinaryGRU<scalar_t> cell{x.size(-1), data_of<scalar_t>(weight), data_of<scalar_t>(bias)};
    return fold(source, cell, identity, saves);
  });
}

Six binary_gru_backward(
    const Maybe& grad_groups, const Maybe& grad_states, const Tensor& x, const Tensor& identity,
    const Tensor& weight_ih, const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh,
    const Tensor& leaves, const Tensor& levels, const Tensor& children, const Tensor& places,
    const Tensor& states, const Tensor& saved, bool shared, bool half, int64_t chunk) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const Source source(x, leaves, levels, children, places, shared, half, chunk);
  const GRUParameters parameters(x, weight_ih, weight_hh, bias_ih, bias_hh);
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "binary_gru_backward", [&]() -> Six {
    const Tensor weight = parameters.stacked<scalar_t>();
    const BinaryGRU<scalar_t> cell{x.size(-1), data_of<scalar_t>(weight), nullptr};
    const auto [to_x, to_identity, made] =
        fold_back(source, cell, grad_groups, grad_states, states, saved);
    const auto* sums = data_of<scalar_t>(made);
    const auto to = parameters.gradients(
        sums, sums + 3 * cell.channels, cell.projected, sums + cell.at_bias);
    return {to_x, to_identity, to[0], to[1], to[2], to[3]};
  });
}

// Rows in packed order: step t has `batch_sizes[t]` of them, for the first groups of `start`.
Chain chain_of(const Tensor& rows, const Tensor& start, const Tensor& batch_sizes, bool half) {
  TORCH_CHECK(
      rows.dim() == 2 && rows.size(1) > 0 && rows.is_cpu(), "rows have shape ", rows.sizes(),
      "; expected [rows, channels] on the CPU");
  const int64_t num_groups = start.size(0), num_steps = batch_sizes.numel();
  int64_t most = num_groups, num_rows = 0;
  for (int64_t step = 0; step < num_steps; ++step) {
    const int64_t size = data_of<int64_t>(batch_sizes)[step];
    TORCH_CHECK(0 < size && size <= most, "step ", step, " has ", size, " rows; expected 1 to ", most);
    most = size;
    num_rows += size;
  }
  TORCH_CHECK(num_rows == rows.size(0), "steps have ", num_rows, " rows; expected ", rows.size(0));
  return {num_rows, num_groups, num_steps, rows.size(1), data_of<int64_t>(batch_sizes), precision_of(rows, half)};
}

Two gru_chain(
    const Tensor& rows, const Tensor& start, const Tensor& weight_ih, const Tensor& weight_hh,
    const Tensor& bias_ih, const Tensor& bias_hh, const Tensor& batch_sizes, bool half, bool saves) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const Tensor sizes = indices(batch_sizes, "batch_sizes", 1), x = rows.contiguous();
  const Chain chain = chain_of(x, start, sizes, half);
  const Tensor from = checked(x, start, "start", {chain.num_groups, chain.channels});
  const GRUParameters parameters(x, weight_ih, weight_hh, bias_ih, bias_hh);
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "gru_chain", [&]() -> Two {
    const Tensor bias = parameters.biases<scalar_t>();
    Tensor states = at::empty(x.sizes(), x.options());
    Tensor saved = leased<scalar_t>({saves ? chain.num_rows : 0, 4 * chain.channels});
    ChainGRU<scalar_t>(chain, data_of<scalar_t>(x), data_of<scalar_t>(from), states.data_ptr<scalar_t>())
        .forward(
            data_of<scalar_t>(parameters.weight_ih), data_of<scalar_t>(parameters.weight_hh),
            data_of<scalar_t>(bias), saves ? saved.data_ptr<scalar_t>() : nullptr);
    return {states, saved};
  });
}

Six gru_chain_backward(
    const Maybe& grad_states, const Tensor& rows, const Tensor& start, const Tensor& weight_ih,
    const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh,
    const Tensor& batch_sizes, const Tensor& states, const Tensor& saved, bool half) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const Tensor sizes = indices(batch_sizes, "batch_sizes", 1), x = rows.contiguous();
  const Chain chain = chain_of(x, start, sizes, half);
  const int64_t h = chain.channels;
  const Tensor from = checked(x, start, "start", {chain.num_groups, h});
  const GRUParameters parameters(x, weight_ih, weight_hh, bias_ih, bias_hh);
  const Tensor made = checked(x, states, "states", x.sizes());
  TORCH_CHECK(
      saved.dim() > 0 && saved.size(0) == chain.num_rows,
      "the chain saved nothing for its gradient; run it with `saves`");
  const Tensor kept = checked(x, saved, "saved", {chain.num_rows, 4 * h});
  Tensor grad_rows = at::zeros(x.sizes(), x.options()), grad_start = at::zeros(from.sizes(), x.options());
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "gru_chain_backward", [&]() -> Six {
    using T = scalar_t;
    const Tensor to_states = zeros_leased<T>(x.numel()).view(x.sizes());
    if (grad_states) to_states.copy_(checked(x, *grad_states, "grad_states", x.sizes()));
    const Tensor memory = zeros_leased<T>((6 * h + 4) * h);
    T* sums = memory.data_ptr<T>();
    ChainGRU<T>(chain, data_of<T>(x), data_of<T>(from), const_cast<T*>(data_of<T>(made)))
        .backward(
            data_of<T>(parameters.weight_ih), data_of<T>(parameters.weight_hh), data_of<T>(kept),
            {grad_rows.data_ptr<T>(), grad_start.data_ptr<T>(), to_states.data_ptr<T>(), sums,
             sums + 3 * h * h, sums + 6 * h * h});
    const auto to = parameters.gradients<T>(sums, sums + 3 * h * h, 3 * h, sums + 6 * h * h);
    return {grad_rows, grad_start, to[0], to[1], to[2], to[3]};
  });
}

Two coupling(
    const Tensor& x, const Tensor& inner_weight, const Tensor& inner_bias, const Tensor& outer_weight,
    const Tensor& outer_bias, bool swapped, bool inverse, bool saves) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const Coupling layer(x, inner_weight, inner_bias, outer_weight, outer_bias, swapped, inverse);
  Tensor out = at::empty(x.sizes(), x.options());
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "coupling", [&]() -> Two {
    Tensor saved = leased<scalar_t>({saves ? layer.rows : 0, layer.saved});
    layer.forward(out.data_ptr<scalar_t>(), saves ? saved.data_ptr<scalar_t>() : nullptr);
    return {out, saved};
  });
}

Five coupling_backward(
    const Maybe& grad, const Tensor& x, const Tensor& inner_weight, const Tensor& inner_bias,
    const Tensor& outer_weight, const Tensor& outer_bias, const Tensor& out, const Tensor& saved,
    bool swapped, bool inverse) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const Coupling layer(x, inner_weight, inner_bias, outer_weight, outer_bias, swapped, inverse);
  const int64_t given = layer.given, changed = layer.changed, hidden = layer.hidden;
  const Tensor to = grad ? checked(x, *grad, "grad", x.sizes()) : at::zeros(x.sizes(), x.options());
  const Tensor made = checked(x, out, "out", x.sizes());
  const Tensor kept = checked(x, saved, "saved", {layer.rows, layer.saved});
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "coupling_backward", [&]() -> Five {
    using T = scalar_t;
    const Tensor memory = zeros_leased<T>(layer.num_sums());
    Tensor to_x = at::empty(x.sizes(), x.options());
    T* sums = memory.data_ptr<T>();
    layer.backward(data_of<T>(to), data_of<T>(made), data_of<T>(kept), to_x.data_ptr<T>(), sums);
    std::vector<Tensor> found;
    for (const Tensor* each : {&layer.inner, &layer.outer, &layer.inner_bias, &layer.outer_bias})
      found.push_back(at::empty(each->sizes(), each->options()));
    transpose(sums, given, hidden, hidden, found[0].data_ptr<T>(), given);
    transpose(sums + given * hidden, hidden, 2 * changed, 2 * changed, found[1].data_ptr<T>(), hidden);
    const T* biases = sums + (given + 2 * changed) * hidden;
    std::copy_n(biases, hidden, found[2].data_ptr<T>());
    std::copy_n(biases + hidden, 2 * changed, found[3].data_ptr<T>());
    return {to_x, found[0], found[2], found[1], found[3]};
  });
}

void release() { Pool::shared().release(); }

// This thread's number of threads, in OpenMP and in MKL; gives those of before.
std::vector<int64_t> use_threads(at::IntArrayRef counts) {
  TORCH_CHECK(counts.size() == 2, "got ", counts.size(), " counts; expected two");
  const int64_t before = omp_get_max_threads(), of_products = set_product_threads(counts[1]);
  omp_set_num_threads(static_cast<int>(counts[0]));
  return {before, of_products};
}

}  // namespace

#define PLAN "Tensor leaves, Tensor levels, Tensor children, Tensor places, "
#define GRU "Tensor weight_ih, Tensor weight_hh, Tensor bias_ih, Tensor bias_hh, "
#define COUPLING \
  "Tensor inner_weight, Tensor inner_bias, Tensor outer_weight, Tensor outer_bias, "
#define SELECTION                                                                       \
  "Tensor hidden_weight, Tensor hidden_bias, Tensor? select_weight, Tensor? write_weight, " \
  "Tensor? write_bias, "

TORCH_LIBRARY(treefold, m) {
  m.def(
      "gated_selection(Tensor x, Tensor identity, " SELECTION PLAN
      "float stretch, bool shared, bool half, int chunk, bool saves) "
      "-> (Tensor groups, Tensor states, Tensor saved)");
  m.def(
      "gated_selection_backward(Tensor? grad_groups, Tensor? grad_states, Tensor x, "
      "Tensor identity, " SELECTION PLAN
      "Tensor states, Tensor saved, float stretch, bool shared, bool half, int chunk) "
      "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)");
  m.def(
      "binary_gru(Tensor x, Tensor identity, " GRU PLAN
      "bool shared, bool half, int chunk, bool saves) "
      "-> (Tensor groups, Tensor states, Tensor saved)");
  m.def(
      "binary_gru_backward(Tensor? grad_groups, Tensor? grad_states, Tensor x, "
      "Tensor identity, " GRU PLAN
      "Tensor states, Tensor saved, bool shared, bool half, int chunk) "
      "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)");
  m.def(
      "gru_chain(Tensor rows, Tensor start, " GRU
      "Tensor batch_sizes, bool half, bool saves) -> (Tensor states, Tensor saved)");
  m.def(
      "gru_chain_backward(Tensor? grad_states, Tensor rows, Tensor start, " GRU
      "Tensor batch_sizes, Tensor states, Tensor saved, bool half) "
      "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)");
  m.def(
      "coupling(Tensor x, " COUPLING "bool swapped, bool inverse, bool saves) "
      "-> (Tensor out, Tensor saved)");
  m.def(
      "coupling_backward(Tensor? grad, Tensor x, " COUPLING
      "Tensor out, Tensor saved, bool swapped, bool inverse) "
      "-> (Tensor, Tensor, Tensor, Tensor, Tensor)");
  m.def("release() -> ()", &release);
  m.def("use_threads(int[] counts) -> int[]", &use_threads);
}

TORCH_LIBRARY_IMPL(treefold, CPU, m) {
  m.impl("gated_selection", &gated_selection);
  m.impl("gated_selection_backward", &gated_selection_backward);
  m.impl("binary_gru", &binary_gru);
  m.impl("binary_gru_backward", &binary_gru_backward);
  m.impl("gru_chain", &gru_chain);
  m.impl("gru_chain_backward", &gru_chain_backward);
  m.impl("coupling", &coupling);
  m.impl("coupling_backward", &coupling_backward);
}

}  // namespace treefold
