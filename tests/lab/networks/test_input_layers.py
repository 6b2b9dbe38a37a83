"""Features of nodes and edges become rows, and their products are made without the rows."""

import pytest
import torch

from treefold.lab.networks.input_layers import EmbeddedCategories, MappedNumbers, input_layer
from treefold.lab.tasks import Categories, Numbers


def test_categories_choose_a_row_of_each_table_and_the_rows_are_added():
    layer = input_layer(Categories((3, 2)), 4)
    assert isinstance(layer, EmbeddedCategories)
    first, second = layer.tables
    found = layer(torch.tensor([[2, 0], [0, 1]]))
    torch.testing.assert_close(found, torch.stack([first[2] + second[0], first[0] + second[1]]))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Categories((4,)), torch.tensor([[1], [3], [1]])),
        (Categories((5, 6, 2)), torch.tensor([[4, 0, 1], [2, 5, 0]])),
        (Numbers(1), torch.tensor([[0.5], [-2.0]])),
        (Numbers(3), torch.randn(7, 3)),
    ],
)
def test_products_are_those_of_the_rows(kind, values):
    layer, weight = input_layer(kind, 6), torch.randn(6, 5)
    torch.testing.assert_close(layer.times(values, weight), layer(values) @ weight)


def test_numbers_go_through_a_linear_map_with_a_bias():
    layer = MappedNumbers(Numbers(2), 3)
    assert sum(p.numel() for p in layer.parameters()) == 2 * 3 + 3
    torch.testing.assert_close(layer(torch.zeros(1, 2))[0], layer.linear.bias)


@pytest.mark.parametrize("kind", [Categories((3, 2)), Numbers(2)])
def test_another_number_of_columns_is_refused(kind):
    values = torch.zeros(4, 3, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"inputs have shape \(4, 3\); expected \[n, 2\]"):
        input_layer(kind, 4)(values if isinstance(kind, Categories) else values.float())
