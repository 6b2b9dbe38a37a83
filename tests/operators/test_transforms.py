import torch

from treefold.operators.transforms import are_transforms_active


def test_transforms_are_seen_from_inside_and_only_there():
    seen = []

    def look(x):
        seen.append(are_transforms_active())
        return x.sum()

    x = torch.ones(2)
    look(x)
    torch.vmap(look)(x.unsqueeze(1))
    torch.func.grad(look)(x)
    torch.func.jvp(look, (x,), (x,))
    look(x)
    assert seen == [False, True, True, True, False]
