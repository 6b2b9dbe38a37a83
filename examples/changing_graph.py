"""A social graph with arriving edges: what every user gathers from others stays up to date."""

import argparse
import time

import torch

import treefold


def edges_to(num_users: int, count: int) -> torch.Tensor:
    """Random follows; a few users have most of the followers."""
    popular = (num_users * torch.rand(count) ** 4).long()
    return torch.stack([torch.randint(0, num_users, (count,)), popular])


def main(num_users: int, num_edges: int, width: int) -> None:
    torch.manual_seed(0)
    aggregation = treefold.LCMAggregation(width, eval_bracketing="carry").eval()
    users = torch.randn(num_users, width)
    graph = treefold.DynamicAggregation(aggregation, users, edges_to(num_users, num_edges))

    begin = time.perf_counter()
    for _ in range(10):
        arriving = edges_to(num_users, 20)
        graph.add_edges(arriving)
        graph.remove_edges(arriving[:, :5])  # some change their minds
        graph.replace_nodes([0, 1], torch.randn(2, width))  # and two users change
        graph.value(arriving[1])
    updates = (time.perf_counter() - begin) / 10

    begin = time.perf_counter()
    source, target = graph.edge_index()
    with torch.no_grad():
        scratch = aggregation(graph.x[source], target, dim_size=num_users)
    again = time.perf_counter() - begin
    print(f"{graph.num_edges} edges, {graph.num_bytes / 1e6:.1f} MB")
    print(f"a batch of updates {updates * 1e3:.1f} ms, all over again {again * 1e3:.1f} ms")
    print(f"largest difference {float((graph.value() - scratch).abs().max()):.1e}")
    print(f"other merge orders (random weights): {graph.stability(4)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--edges", type=int, default=200_000)
    parser.add_argument("--width", type=int, default=32)
    arguments = parser.parse_args()
    main(arguments.users, arguments.edges, arguments.width)
