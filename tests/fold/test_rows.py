import pytest
import torch
from trees import normal

from treefold.fold import Groups, TableRows, take_rows
from treefold.fold.rows import num_rows

TABLE = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def test_table_rows_are_the_rows_of_the_table():
    rows = TableRows(TABLE, torch.tensor([2, 0, 2]))
    assert rows.gathered().tolist() == [[5.0, 6.0], [1.0, 2.0], [5.0, 6.0]]
    assert len(rows) == num_rows(rows) == 3


def test_reordering_table_rows_leaves_the_table_alone():
    rows = TableRows(TABLE, torch.tensor([2, 0, 1, 2]))
    groups = Groups.from_index(torch.tensor([1, 0, 1, 0]))
    reordered = rows[groups.order]
    assert reordered.table is TABLE
    assert torch.equal(reordered.gathered(), rows.gathered()[groups.order])


def test_the_gradient_of_a_table_row_adds_up_over_its_uses():
    table = TABLE.clone().requires_grad_()
    TableRows(table, torch.tensor([2, 0, 2])).gathered().sum().backward()
    assert table.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [2.0, 2.0]]


def test_rows_are_taken_from_tensors_tuples_and_tables_alike():
    index = torch.tensor([1, 1, 0])
    x = normal(3, 2)
    assert torch.equal(take_rows(x, index), x[index])
    first, (second, third) = take_rows((x, (x + 1, x[:, 0])), index)
    assert torch.equal(first, x[index])
    assert torch.equal(second, x[index] + 1)
    assert torch.equal(third, x[index, 0])
    assert torch.equal(take_rows(TableRows(x, torch.tensor([2, 1, 0])), index), x[[1, 1, 2]])


def test_rows_in_another_order_are_the_same_and_so_is_their_gradient():
    order, weight = torch.tensor([2, 0, 1]), normal(3, 2, seed=1).float()
    for x in (TABLE.clone(), TABLE[:, :1].expand(3, 2)):
        table = x.requires_grad_()
        again = TableRows.of(table).take(order, is_permutation=True)
        assert again.is_permutation
        for found in (take_rows(table, order, is_permutation=True), again.gathered()):
            assert torch.equal(found, table[order])
            grad = torch.autograd.grad((found * weight).sum(), table)[0]
            assert torch.equal(grad, weight[order.argsort()])
            assert "IndexCopy" in str(found.grad_fn)


@pytest.mark.parametrize("mixed", [torch.tensor([1, 1, 0]), torch.tensor([2, 0])])
def test_rows_that_were_chosen_are_not_taken_for_all_of_them(mixed):
    assert not TableRows.of(TABLE)[mixed].is_permutation
    assert not TableRows.of(TABLE)[mixed].take(torch.arange(len(mixed)), True).is_permutation
    assert not TableRows(TABLE, mixed).is_permutation


@pytest.mark.parametrize(
    ("state", "shapes"),
    [
        ((torch.ones(3, 2), torch.ones(2)), r"\[\(3, 2\), \(2,\)\]"),
        (torch.tensor(1.0), r"\[\(\)\]"),
        ((torch.ones(3), torch.tensor(1.0)), r"\[\(3,\), \(\)\]"),
    ],
)
def test_a_state_without_a_common_number_of_rows_is_refused(state, shapes):
    with pytest.raises(ValueError, match=rf"have shapes {shapes}; expected as many rows each"):
        num_rows(state)


def test_no_rows_are_counted_as_none():
    assert num_rows(torch.zeros(0, 4)) == 0
    assert num_rows((torch.zeros(0, 4), torch.zeros(0))) == 0


def test_a_tensor_is_a_table_of_its_own_rows_and_a_table_stays_what_it_is():
    x = normal(3, 2)
    rows = TableRows.of(x)
    assert rows.table is x
    assert rows.rows.tolist() == [0, 1, 2]
    assert TableRows.of(rows) is rows
