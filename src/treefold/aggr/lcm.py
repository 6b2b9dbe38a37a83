"""The learnable commutative monoid as an aggregator: a learned operator folded over a tree."""

from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch_geometric.nn import aggr as pyg

from treefold.aggr.base import (
    RaggedAggregation,
    checked_channels,
    checked_flag,
    require_channels,
    require_type,
)
from treefold.aggr.element_laws import ElementLaw, LawLoss, weights_by_name
from treefold.aggr.penalties import LawWeights
from treefold.aggr.recombination import consistency_loss
from treefold.aggr.sampling import Reduction, Sampling
from treefold.aggr.static import StaticGroups, fold_with_trees, reduce_static, supplied_for
from treefold.aggr.static_laws import StaticStates, static_loss
from treefold.aggr.tree_laws import TREE_LAWS
from treefold.aggr.tree_states import TreeStates
from treefold.algebra import Law, Monoid, require_monoid
from treefold.fold import (
    Bracketing,
    Groups,
    Rows,
    TableRows,
    TreePlan,
    checked_bracketing,
    plan_of,
    require_rows,
    tree_fold,
    tree_reduce,
)
from treefold.names import by_name, require_one_of
from treefold.operators import OPERATORS, BinaryGRU, reset_parts

LAW_LOSSES: dict[str, LawLoss] = {**TREE_LAWS, "consistency": consistency_loss}


class LCMAggregation(RaggedAggregation):
    """Folds each group with a learned operator over a balanced binary tree.

    - `operator`: a name from `treefold.OPERATORS`, made with `operator_options`, or an `Operator`,
      or any `Monoid`; Binary-GRU if none is given. Empty groups give its identity.
    - `associativity`, `commutativity`, `identity`: weights of the law losses, which reach the
      training loss through `record_penalties`. `law_nodes` is how many tree nodes to sample for
      each (all, as in the paper, if None); `law_reduction` is the paper's `"sum"` of squares over
      channels or their `"mean"`.
    - `laws`: weights of laws of your own, each asked of states that are drawn from the trees.
    - `consistency`: the weight of one law more, which is asked of sets that are recombined from the
      elements of a batch: two random trees over the same elements must give the same state. For
      operators that are to hold on sets larger than those of training.
    - `shuffle`: put each group in random order in training, as in the paper.
    - `bracketing`, `eval_bracketing`: the trees in training and in evaluation, see `plan_tree`.
    - `generator`: what to draw with; torch's global one if None.
    - `project`: a map applied to every row before folding.
    """

    def __init__(
        self,
        channels: int,
        operator: str | Monoid | None = None,
        *,
        associativity: float = 0.0,
        commutativity: float = 0.0,
        identity: float = 0.0,
        consistency: float = 0.0,
        laws: Mapping[Law, float] | None = None,
        law_nodes: int | None = None,
        law_reduction: Reduction = "sum",
        shuffle: bool = True,
        bracketing: Bracketing = "balanced",
        eval_bracketing: Bracketing = "balanced",
        generator: torch.Generator | None = None,
        project: nn.Module | None = None,
        operator_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.channels = self.in_channels = self.out_channels = checked_channels(channels)
        self.operator = _make_operator(operator, channels, operator_options or {})
        weights = {
            "associativity": associativity,
            "commutativity": commutativity,
            "identity": identity,
            "consistency": consistency,
        }
        self.laws = LawWeights({**weights, **weights_by_name(laws, taken=weights)})
        # Not those of `LAW_LOSSES`: a module is pickled with all it holds, and lambdas cannot be.
        self.own_losses: dict[str, LawLoss] = {law.name: ElementLaw(law) for law in laws or {}}
        self.sampling = Sampling(law_nodes, law_reduction)
        self.shuffle = checked_flag("shuffle", shuffle)
        self.bracketing = checked_bracketing(bracketing)
        self.eval_bracketing = checked_bracketing(eval_bracketing)
        self.generator = generator
        if project is not None and not isinstance(project, nn.Module):
            raise ValueError(
                f"project is {project!r}; expected a module that is applied to every row, such as "
                f"torch.nn.Linear(16, {channels})"
            )
        self.project = project
        if isinstance(project, nn.Linear):
            self.in_channels = project.in_features

    @classmethod
    def from_pyg(cls, module: Any) -> "LCMAggregation":
        """Take over the weights of PyG's `LCMAggregation`, and its tree.

        Agrees with it on sets of equal size. On others it must differ: PyG pads every set with
        zeros to the size of the largest in the batch and folds the zeros in, so that its answer
        for a set depends on its neighbours in the batch. PyG's layers reset their aggregator when
        they are constructed, so put the result into `conv.aggr_module` afterwards.
        """
        if not isinstance(module, pyg.LCMAggregation):
            raise ValueError(f"got a {type(module).__name__}; expected PyG's LCMAggregation")
        operator = BinaryGRU(module.out_channels)
        project = None
        if module.project:
            project = nn.Sequential(nn.Linear(module.in_channels, module.out_channels), nn.ReLU())
            project[0].load_state_dict(module.lin.state_dict())
        operator.cell.load_state_dict(module.gru_cell.state_dict())
        weight = module.gru_cell.weight_ih
        made = cls(
            module.out_channels,
            operator,
            shuffle=False,
            bracketing="carry",
            eval_bracketing="carry",
            project=project,
        )
        made.in_channels = module.in_channels
        made.to(device=weight.device, dtype=weight.dtype).train(module.training)
        return made

    def reset_parameters(self) -> None:
        """Reset all parameters."""
        reset_parts(self)

    def aggregate(self, x: Rows, groups: Groups, plan: TreePlan | None = None) -> Tensor:
        """Fold each group; one row per group. A `plan` overrides the bracketing.

        An operator with a `reduce_groups` of its own needs no trees.
        """
        table = x.table if isinstance(x, TableRows) else x
        first = next(self.parameters(), None)
        usual = (
            isinstance(table, Tensor)
            and table.dim() > 1
            and table.shape[-1] == self.channels
            and (first is None or first.dtype == table.dtype)
        )
        if self.project is not None or hasattr(self.operator, "code") or not usual:
            x = self.projected(x)
        if (x.rows if isinstance(x, TableRows) else cast(Tensor, x)).shape[0] != groups.num_rows:
            require_rows(x, groups)
        recording = self.training and bool(self.laws.active)
        if plan is None and hasattr(self.operator, "reduce_groups") and not recording:
            ordered = self._ordered(x, groups)
            return cast(Tensor, self.operator.reduce_groups(ordered, groups.sizes))
        if plan is None:
            bracketing = self.bracketing if self.training else self.eval_bracketing
            plan = plan_of(groups, bracketing, self.generator)
        elif plan.num_groups != groups.num_groups and plan.num_rows == groups.order.numel():
            raise ValueError(
                f"the plan is for {plan.num_groups} groups, but there are {groups.num_groups}; "
                "make it from `groups.sizes`"
            )
        if self.training and self.shuffle:
            groups = groups.shuffled(self.generator)
        if isinstance(x, TableRows):
            rows = self._ordered(x, groups)
        else:
            rows = TableRows(x, groups.order, groups.order.shape[0] == groups.num_rows)  # type: ignore[arg-type]
        if not recording:
            return cast(Tensor, tree_reduce(self.operator, rows, plan))
        return self._with_losses(rows, plan)

    @staticmethod
    def _ordered(x: Rows, groups: Groups) -> TableRows:
        """The rows of all groups, group after group."""
        every = groups.order.shape[0] == groups.num_rows
        if isinstance(x, TableRows):
            return x.take(groups.order, every)
        return TableRows(cast(Tensor, x), groups.order, every)

    def _with_losses(self, rows: TableRows, plan: TreePlan) -> Tensor:
        """Fold, and record the losses of laws, if anybody records them."""
        penalties = self.laws.recorder()
        if penalties is None:
            return cast(Tensor, tree_reduce(self.operator, rows, plan))
        fold = tree_fold(self.operator, rows, plan)
        leaves = rows.take(plan.leaves, is_permutation=True)
        tree = TreeStates.of(plan, leaves, cast(Tensor, fold.nodes))
        losses = {**LAW_LOSSES, **self.own_losses}
        for law, weight in self.laws.active.items():
            loss = losses[law](self.operator, tree, self.sampling, self.generator)
            penalties.add(law, loss, weight)
        return cast(Tensor, fold.groups)

    def aggregate_static(self, x: Tensor, groups: StaticGroups) -> Tensor:
        """The same over a static plan: torch's own random numbers, and balanced trees."""
        rows = self._states_of(x)
        penalties = self.laws.recorder() if self.training else None
        if supplied_for(groups) is None:
            self._require_static()
            if self.training and self.shuffle:
                groups = groups.shuffled()
            if penalties is None or rows.shape[0] == 0:
                return cast(Tensor, reduce_static(self.operator, rows, groups))
        fold, trees = fold_with_trees(self.operator, rows, groups)
        if penalties is not None:
            states = StaticStates(
                cast(Tensor, fold.states), trees, groups.num_groups, self.sampling
            )
            losses = {**LAW_LOSSES, **self.own_losses}
            for law in self.laws.names:
                penalties.add(law, static_loss(law, losses)(self.operator, states), self.laws)
        return cast(Tensor, fold.groups)

    def _require_static(self) -> None:
        """Refuse what cannot be done without reading sizes."""
        name = "bracketing" if self.training else "eval_bracketing"
        bracketing = getattr(self, name)
        if bracketing != "balanced":
            raise ValueError(
                f"{name} is {bracketing!r}; under torch.compile and torch.export trees are "
                f"balanced unless they are made outside of it: give {name}='balanced', or call the "
                "network inside `supplied_plan(...)`"
            )
        if self.training and self.generator is not None:
            raise ValueError(
                "there is a generator, and torch.compile cannot use one; leave it out and call "
                "torch.manual_seed, or call the network inside `supplied_plan(...)`"
            )

    def projected(self, x: Rows) -> Tensor | TableRows:
        """The states that stand for rows, each row once through `project` and a `code`.

        A ValueError if these are no states of the operator.
        """
        if isinstance(x, TableRows):
            return replace(x, table=self._states_of(x.table))
        return self._states_of(cast(Tensor, x))

    def _states_of(self, rows: Tensor) -> Tensor:
        if self.project is None:
            require_channels(rows, self.channels)
        else:
            if isinstance(self.project, nn.Linear):
                require_channels(rows, self.in_channels)
                require_type(rows, self.project)
            rows = self.project(rows)
            require_channels(rows, self.channels)
        require_type(rows, self.operator)
        code = getattr(self.operator, "code", None)
        return rows if code is None else cast(Tensor, code(rows))

    def extra_repr(self) -> str:
        """The options that are not the default, for `print(aggregator)`."""
        trees = f"bracketing={self.bracketing}" if self.bracketing != "balanced" else ""
        return ", ".join(part for part in (str(self.channels), str(self.laws), trees) if part)

    def __repr__(self) -> str:
        return nn.Module.__repr__(self)


def _make_operator(
    operator: str | Monoid | None, channels: int, options: Mapping[str, Any]
) -> Monoid:
    if operator is None:
        operator = "binary-gru"
    if isinstance(operator, str):
        make = by_name(OPERATORS, operator, "operator")
        known = [name for name in signature(make).parameters if name != "channels"]
        for option in options:
            require_one_of(known, option, f"option of operator {operator}")
        return make(channels, **options)
    if options:
        raise ValueError(
            f"operator options {dict(options)} for an operator that is made already; "
            "expected the name of one with them"
        )
    if isinstance(operator, int):
        raise ValueError(
            f"operator is {operator}; PyG's second argument, out_channels, is not here: what comes "
            "out is as wide as what goes in. Leave it out, or name an operator"
        )
    require_monoid(operator)
    width = getattr(operator, "channels", channels)
    if width != channels:
        raise ValueError(f"the operator has {width} channels; expected {channels}")
    identity = operator.identity
    if not isinstance(identity, Tensor) or identity.shape[-1:] not in ((), (1,), (channels,)):
        given = f"of shape {list(identity.shape)}" if isinstance(identity, Tensor) else identity
        raise ValueError(
            f"the identity of {type(operator).__name__} is {given}; expected a tensor of shape "
            f"[..., {channels}], such as torch.zeros({channels}) or self.learned_identity()"
        )
    return operator
